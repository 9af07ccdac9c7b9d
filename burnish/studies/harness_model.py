"""A model of ours as lm-eval sees one: log-probabilities of continuations, and greedy or drawn answers to prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs

from burnish.errors import InputError
from burnish.randomness import stable_hash
from burnish.running.sync import finished
from burnish.running.talk import Speaker
from burnish.sampling.protocol import SamplingParams

_TOKENS, _TOGETHER = 4096, 64
"""Tokens of a padded batch, and prompts that are answered at a time."""


@dataclass(frozen=True)
class Drawn:
    """An answer with how it came about."""

    text: str
    tokens: tuple[int, ...]
    finish: str


class HarnessModel(TemplateLM):
    """The interface that lm-eval's tasks ask through. Nothing is cut: what does not fit the context is refused."""

    def __init__(self, speaker: Speaker, *, seed: int = 0, progress: Callable[[int, int], None] | None = None) -> None:
        super().__init__()
        self.speaker, self.seed = speaker, seed
        self.tokenizer = speaker.model.tokenizer
        self.drawn: dict[tuple[str, str], Drawn] = {}
        """(prompt, generation arguments) -> the answer that was drawn."""
        self._progress = progress or (lambda done, total: None)

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text, and stands before one that has nothing before it."""
        own = self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else self.tokenizer.eos_token_id
        return int(own if own is not None else min(self.speaker.format.stop_ids))

    @property
    def tokenizer_name(self) -> str:
        """For lm-eval's cache of requests."""
        return str(self.speaker.model.name)

    @property
    def max_length(self) -> int | None:
        """Most tokens of a text."""
        return self.speaker.model.context_length

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Ids of a text; by default with what the tokenizer puts first, unless the text begins with it."""
        begin = self.tokenizer.bos_token
        special = add_special_tokens if add_special_tokens is not None else not (begin and string.startswith(begin))
        return [int(i) for i in self.tokenizer(string, add_special_tokens=special)["input_ids"]]

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The prompt of a conversation, as the model's template writes it."""
        return self.tokenizer.apply_chat_template(
            chat_history, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )  # fmt: skip

    # -- log-probabilities ---------------------------------------------------------------------------------------

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[tuple[str, str], list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Log-probability of each continuation, and whether greedy decoding would have written it."""
        order = sorted(range(len(requests)), key=lambda i: len(requests[i][1]) + len(requests[i][2]))
        found: dict[int, tuple[float, bool]] = {}
        batch: list[int] = []
        for i in order:
            length = len(requests[i][1]) + len(requests[i][2])
            self.speaker.model.check_length(length)
            if batch and length * (len(batch) + 1) > _TOKENS:
                found |= self._scored(batch, requests)
                self._progress(len(found), len(requests))
                batch = []
            batch.append(i)
        found |= self._scored(batch, requests) if batch else {}
        self._progress(len(found), len(requests))
        return [found[i] for i in range(len(requests))]

    @torch.no_grad()
    def _scored(
        self, batch: Sequence[int], requests: Sequence[tuple[tuple[str, str], list[int], list[int]]]
    ) -> dict[int, tuple[float, bool]]:
        model = self.speaker.model
        rows = [torch.tensor([*requests[i][1], *requests[i][2]], device=model.device) for i in batch]
        found = {}
        for i, row, hidden in zip(batch, rows, model.hidden_rows(rows), strict=True):
            count = len(requests[i][2])
            logits = model.logits(hidden[len(row) - count - 1 : len(row) - 1]).float()  # [continuation, V]
            targets = row[len(row) - count :]
            logprobs = torch.log_softmax(logits, -1).gather(-1, targets[:, None])
            found[i] = (float(logprobs.double().sum()), bool((logits.argmax(-1) == targets).all()))
        return found

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-probability of whole texts, for perplexities; each must fit the context."""
        texts = [request.args[0] for request in requests]
        pairs = [((text, ""), [self.eot_token_id], self.tok_encode(text, add_special_tokens=False)) for text in texts]
        return [logprob for logprob, _ in self._loglikelihood_tokens(pairs)]

    # -- answers -------------------------------------------------------------------------------------------------

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answers to prompts, many at a time, each up to the first of the texts that end one."""
        slots, done = asyncio.Semaphore(_TOGETHER), 0

        async def one(number: int, request: Instance) -> Drawn:
            nonlocal done
            prompt, *arguments = request.args
            async with slots:
                drawn = await self._answer(str(prompt), dict(arguments[0]), number)
            self.drawn[str(prompt), repr(request.args[1:])] = drawn
            done += 1
            self._progress(done, len(requests))
            return drawn

        async def every() -> list[Drawn]:
            return list(await asyncio.gather(*(one(number, request) for number, request in enumerate(requests))))

        return [drawn.text for drawn in finished(every())]

    async def _answer(self, prompt: str, arguments: dict[str, Any], number: int) -> Drawn:
        options: dict[str, Any] = dict(normalize_gen_kwargs(arguments))
        until, most = options.pop("until", []), int(options.pop("max_gen_toks"))
        drawn = options.pop("do_sample", False)
        temperature = float(options.pop("temperature", 1.0)) if drawn else 0.0
        cuts = {key: options.pop(key) for key in ("top_k", "top_p", "min_p") if key in options and drawn}
        if unknown := [key for key in options if options[key] is not None and drawn]:
            raise InputError(f"lm-eval's generation_kwargs: this engine does not know {unknown[0]!r}; remove it")
        params = SamplingParams(most, temperature=temperature, stop_ids=self.speaker.format.stop_ids, **cuts)
        coordinates: dict[str, Any] = {"seed": self.seed, "task": stable_hash(prompt), "sample": number}
        [completion] = await self.speaker.engine.sample(self.tok_encode(prompt), params, **coordinates)
        if completion.session is not None:
            self.speaker.engine.release(completion.session)
        tokens = completion.tokens.tolist()
        text, finish = self.speaker.decode(tokens), completion.finish
        for end in until if isinstance(until, list) else [until]:
            if end and end in text:
                text, finish = text.split(end)[0], "stop"
        return Drawn(text, tuple(tokens), finish)
