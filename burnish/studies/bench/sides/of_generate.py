"""transformers' side: `generate` on an ordinary model."""

from __future__ import annotations

from typing import Any

import torch
from channel import Channel
from transformers import AutoModelForCausalLM


def main() -> None:
    """Samples of a fixed number of tokens, in batches of `batch` rows."""
    job, channel = Channel.job(), Channel()
    settings = job["settings"]
    dtype = getattr(torch, settings["dtype"])
    network: Any = AutoModelForCausalLM.from_pretrained(job["model"], dtype=dtype)
    if settings["compile"]:
        network.forward = torch.compile(network.forward)
    rows, count = _batches(job["prompts"], job["samples"], settings["batch"])

    @torch.no_grad()
    def work(number: int) -> dict[str, Any]:
        torch.manual_seed(number)
        tokens, total = 0, 0.0
        for prompts in rows:
            ids = torch.tensor(prompts)
            found: Any = network.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                num_return_sequences=count, min_new_tokens=job["new_tokens"], max_new_tokens=job["new_tokens"],
                pad_token_id=0, return_dict_in_generate=True, output_logits=settings["logprobs"],
            )  # fmt: skip
            drawn = found.sequences[:, ids.shape[1] :]
            tokens += drawn.numel()
            if settings["logprobs"]:
                total += _logprobs(found.logits, drawn)
        return {"tokens": tokens, "mean_logprob": total / tokens if settings["logprobs"] else None}

    channel.serve(work)


def _batches(prompts: list[list[int]], samples: int, batch: int) -> tuple[list[list[list[int]]], int]:
    """Calls of at most `batch` rows: their prompts, and how many samples of each a call draws."""
    count = min(samples, batch)
    at_once = max(1, batch // count)
    repeated = prompts * (samples // count)
    return [repeated[i : i + at_once] for i in range(0, len(repeated), at_once)], count


def _logprobs(logits: tuple[torch.Tensor, ...], drawn: torch.Tensor) -> float:
    """Sum of the log-probabilities of the drawn tokens [rows, steps] under logits of each step [rows, vocabulary]."""
    total = 0.0
    for step, scores in enumerate(logits):
        scores = scores.float()
        taken = scores.gather(1, drawn[:, step : step + 1])[:, 0]
        total += float((taken - torch.logsumexp(scores, dim=-1)).sum())
    return total


if __name__ == "__main__":
    main()
