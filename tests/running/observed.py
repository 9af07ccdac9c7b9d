"""Short runs on a tiny model, and everything that can be seen of one: what it writes, and how it worked."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import datasets
import torch
from transformers import PreTrainedModel
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP

from burnish import train
from burnish.errors import BurnishError, Note
from burnish.learning import learner, statistics
from burnish.learning.learner import Learner
from burnish.learning.packing import Piece
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import make_progress
from burnish.sampling import LocalEngine
from burnish.sampling.shared import SharedRunner
from burnish.tracking import trackers
from tests.tiny import CHATML, tiny_network, tiny_tokenizer

Seen = dict[str, Any]
"""What was seen of a run, by name: `weights`, `metrics`, `traces`, `evaluations`, `files`, `outcome` and more."""

REWARDS = '''
import threading, time
lock, inside = threading.Lock(), 0
def dense(completions, **columns): return [c.count("3") + 0.1 * len(c) for c in completions]
def short(completions, **columns): return [-len(c) for c in completions]
def none(completions, **columns): return [None for c in completions]
def some(completions, **columns): return [None, *dense(completions[1:])]
def same(completions, **columns): return [1.0 for c in completions]
def flat(completions, prompt, **columns): return (dense if int(prompt[0][-1]) % 2 else same)(completions)
def slow(completions, **columns): time.sleep(0.2); return dense(completions)
def stall(completions, **columns): time.sleep(1.4); return dense(completions)
def crowd(completions, **columns):
    """How many calls there are at once, this one included."""
    global inside
    with lock: inside += 1
    time.sleep(0.2)
    found = [inside + 0.1 * len(c) for c in completions]
    time.sleep(0.1)
    with lock: inside -= 1
    return found
'''


TALK = '''
import time
from burnish.environments import Environment, Observation, said
from burnish.traces import Verdict

class Talk(Environment):
    """Three turns, worth what was said in them."""
    pause = 0.0
    def __init__(self, word="so"): self.word, self.heard = word, []
    async def reset(self, task, *, seed):
        self.seed = seed
        return said(task.text)
    async def step(self, action):
        time.sleep(self.pause)
        self.heard.append(action.text)
        return Observation(({"role": "tool", "content": self.word},), done=len(self.heard) == 3)
    async def verify(self, attempt):
        return Verdict("".join(self.heard).count("3") + 0.1 * len("".join(self.heard)))

class Quick(Talk):
    pure = True

class Slow(Talk):
    pause = 0.1

class Flaky(Talk):
    async def verify(self, attempt):
        if self.seed % 3 == 0:
            raise OSError("not today")
        return await super().verify(attempt)
'''


def digits_network(seed: int) -> PreTrainedModel:
    """A tiny random GPT-2 that writes little but 3, 4, / and the stop token: numbers, and fractions of them."""
    network: Any = tiny_network("gpt2", seed)
    liked = [tiny_tokenizer().convert_tokens_to_ids(letter) for letter in "34/"]
    with torch.no_grad():
        words, places = network.transformer.wte.weight, network.transformer.wpe.weight
        words[:, :2] = 0
        words[[*liked, 2], 0] = 2.0  # whatever came before: the liked ones
        words[liked[2], 1] = 1.5  # at every other place: the stroke
        places[:, 1] = torch.where(torch.arange(len(places)) % 2 == 1, 4.0, -4.0)
        network.transformer.ln_f.weight.mul_(0.6)
        network.transformer.ln_f.bias[0] = 3.0
    return network


@dataclass(frozen=True)
class Scene:
    """A folder with what recipes name: models, an adapter, rows, rewards, a template."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Scene:
        """Write everything into an empty folder."""
        scene = cls(folder)
        for name, seed in (("model", 3), ("other", 0)):
            digits_network(seed).save_pretrained(folder / name)
            tiny_tokenizer().save_pretrained(folder / name)
        for name, first in (("rows", 0), ("more", 10), ("held", 20), ("kept", 30)):
            (folder / f"{name}.jsonl").write_text(_lines(first))
        (folder / "bad.jsonl").write_text(_lines(40) + '{"prompt": ""}\n')
        for name, first in (("hub", 50), ("other_hub", 70)):
            _write_hub(folder / name, first)
        (folder / "rewards.py").write_text(REWARDS)
        (folder / "talk.py").write_text(TALK)
        (folder / "template.jinja").write_text(CHATML.replace("<|im_start|>assistant", "<|im_start|>model"))
        return scene

    def at(self, name: str) -> str:
        """The path of something in the folder, as a recipe gives it."""
        return str(self.folder / name)

    def base(self, method: str) -> dict[str, Any]:
        """A recipe of two short steps."""
        values: dict[str, Any] = {
            "method": method, "steps": 2, "prompts_per_step": 2, "checkpoint_every": 0, "threads": 1,
            "model": {"path": self.at("model"), "dtype": "float32", "device": "cpu"},
            "data": {"path": self.at("rows.jsonl")},
            "optimizer": {"lr": 1e-2},
        }  # fmt: skip
        if method == "grpo":
            reward = {"kind": "function", "function": f"{self.at('rewards.py')}:dense"}
            values |= {"samples_per_prompt": 4, "sampling": {"max_tokens": 5}, "rewards": {"rewards": [reward]}}
        return values


def _lines(first: int) -> str:
    return "".join(json.dumps(_row(first + i)) + "\n" for i in range(6))


def _write_hub(folder: Path, first: int) -> None:
    """A folder laid out like a data set of the hub, with two configurations of two splits."""
    folder.mkdir()
    heading = "configs:\n"
    for place, (name, split) in enumerate((("one", "train"), ("one", "test"), ("two", "train"), ("two", "test"))):
        (folder / f"{name}-{split}.jsonl").write_text(_lines(first + 10 * place))
        heading += "" if split == "test" else f"- config_name: {name}\n  data_files:\n"
        heading += f"  - split: {split}\n    path: {name}-{split}.jsonl\n"
    (folder / "README.md").write_text(f"---\n{heading}---\n")


def _row(number: int) -> dict[str, Any]:
    asked = [{"role": "user", "content": f"tell {number}"}]
    return {
        "prompt": f"say {number}", "question": f"what is {number}", "answer": "4", "other": str(3 + number % 2),
        "completion": "34" * (1 + number % 3), "reply": f"4/{number}", "asked": asked,
        "talk": [*asked, {"role": "assistant", "content": f"{number} it is"}],
        "rate": number % 6 / 5, "other_rate": number % 3 / 2, "level": number % 6, "other_level": number % 5,
    }  # fmt: skip


def observe(values: dict[str, Any]) -> Seen:
    """Run a recipe and look. A run that ends with an error of Burnish's own has that as its outcome."""
    quiet = make_progress("quiet"), warnings.catch_warnings(action="ignore", category=Note)
    with TemporaryDirectory() as folder, quiet[0] as progress, quiet[1], _spies(Path(folder) / "cache") as seen:
        out = Path(folder) / "run"
        try:
            train(recipe_from_mapping(values), out=out, progress=progress)
            seen["outcome"] = "finished"
        except BurnishError as error:
            seen["outcome"] = f"{type(error).__name__}: {error}"
        files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
        contents = {name: (out / name).read_bytes() for name in files}
    metrics = [json.loads(line) for line in contents.get("metrics.jsonl", b"").splitlines()]
    return seen | {
        "files": files,
        "metrics": [{key: value for key, value in record.items() if "timing/" not in key} for record in metrics],
        "traces": {name: content for name, content in contents.items() if name.endswith(".parquet")},
        "evaluations": {
            name: json.loads(content)["items"] for name, content in contents.items() if name.startswith("evaluations/")
        },
        "final": {name: content for name, content in contents.items() if name.startswith("final/")},
        "weights": contents.get("final/model.safetensors") or contents.get("final/adapter_model.safetensors"),
    }


@contextmanager
def _spies(cache: Path) -> Iterator[Seen]:
    """Note how the work was laid out, which no file of a run tells. `datasets` caches in a folder of its own."""
    seen: Seen = {name: [] for name in ("layout", "decoded", "asked", "torch", "engine", "trackers", "head")}
    seen["forwards"], asking = 0, [0]
    pack, forward, decode = learner.pack, GPT2MLP.forward, SharedRunner.decode
    sample, update, head_loss = LocalEngine.sample, Learner.update, statistics.head_loss

    def packed(*arguments: Any, **options: Any) -> list[list[Piece]]:
        batches = pack(*arguments, **options)
        seen["layout"].append([[len(piece) for piece in batch] for batch in batches])
        return batches

    def forwarded(layer: Any, *arguments: Any, **options: Any) -> Any:
        seen["forwards"] += 1
        return forward(layer, *arguments, **options)

    def decoded(runner: SharedRunner) -> Any:
        rows = decode(runner)
        seen["decoded"].append(len(rows[0]))
        return rows

    async def sampled(engine: LocalEngine, prompt: Any, params: Any, **options: Any) -> Any:
        asking[0] += 1
        seen["asked"].append((params.temperature, asking[0]))
        seen["engine"].append(engine.deterministic)
        try:
            return await sample(engine, prompt, params, **options)
        finally:
            asking[0] -= 1

    def updated(*arguments: Any, **options: Any) -> Any:
        seen["torch"].append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))
        return update(*arguments, **options)

    def inside(*arguments: Any, **options: Any) -> Any:
        seen["head"].append(len(arguments[1]))
        return head_loss(*arguments, **options)

    class Aside(trackers.Aside):
        """A tracker that notes what it is, and starts no process."""

        def start(self, name: str, config: Any, directory: Path, resume_step: int) -> None:
            seen["trackers"].append(self.spec.model_dump())

    with ExitStack() as stack:
        for owner, name, instead in (
            (learner, "pack", packed), (GPT2MLP, "forward", forwarded), (SharedRunner, "decode", decoded),
            (LocalEngine, "sample", sampled), (Learner, "update", updated), (trackers, "Aside", Aside),
            (trackers, "check", lambda specs: None), (statistics, "head_loss", inside),
            (datasets.config, "HF_DATASETS_CACHE", cache),
        ):  # fmt: skip
            stack.enter_context(patch.object(owner, name, instead))
        yield seen
