"""Every part that remembers something is checkpointed by name; each is killed and resumed here without being listed.

The parts come from the runs themselves: a part that is added to a run is tested, and a class with `state` and `load`
that no run checkpoints fails the test.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import pkgutil
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import burnish
from burnish import train
from burnish.feedback.judge import Feedback
from burnish.methods.recipe import Recipe
from burnish.methods.registry import DECLARED, METHODS
from burnish.running.assemble import Parts, assemble
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import QuietProgress
from burnish.running.stateful import stateful, states
from tests.tiny import tiny_network, tiny_tokenizer

REWARDS = "def dense(completions, **columns):\n    return [c.count('e') + 0.1 * len(c) for c in completions]\n"
ENVIRONMENT = '''
from burnish.environments import Environment, Observation, said
from burnish.traces import Verdict

class Talk(Environment):
    """Two turns, worth as much as was said in them; in a thread of its own, its answers journalled."""

    async def reset(self, task, *, seed):
        self.said = ""
        return said(task.text)

    async def step(self, action):
        done, self.said = bool(self.said), self.said + "-" + action.text
        return Observation(({"role": "tool", "content": str(len(self.said))},), done=done)

    async def verify(self, attempt):
        return Verdict(self.said.count("e") + 0.1 * len(self.said))
'''
HALF, WHOLE = 4, 6
KINDS = [*sorted(DECLARED), "grpo in an environment", "sft in a world"]


def recipe_of(kind: str, folder: Path) -> Recipe:
    """A recipe of every method that uses all its kinds of parts, on a tiny random model."""
    method = kind.split()[0]
    if not (folder / "model").exists():
        tiny_network("llama").save_pretrained(folder / "model")
        tiny_tokenizer().save_pretrained(folder / "model")
        (folder / "rewards.py").write_text(REWARDS, "utf-8")
        rows = [{"prompt": f"say {i}", "completion": f"{i} and {i}", "answer": str(i)} for i in range(6)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    values: dict[str, Any] = {
        "method": method, "steps": WHOLE, "prompts_per_step": 2, "checkpoint_every": 2, "threads": 1,
        "deterministic": True, "model": {"path": str(folder / "model")}, "data": {"path": str(folder / "rows.jsonl")},
        "optimizer": {"lr": 1e-3}, "keep_checkpoints": 9,
    }  # fmt: skip
    if "rewards" in METHODS[method].recipe.model_fields:
        function = {"kind": "function", "function": f"{folder / 'rewards.py'}:dense"}
        kinds = [function, {"kind": "numeric", "weight": 0.5}, {"kind": "format", "weight": 0.5}]
        values |= {"samples_per_prompt": 3, "sampling": {"max_tokens": 4}, "rewards": kinds}
        values["data"] = {**values["data"], "window": {"low": 0.1, "passing": 0.3}}  # the order that remembers
    if kind == "grpo in an environment":
        (folder / "talk.py").write_text(ENVIRONMENT, "utf-8")
        values |= {"rewards": None, "environment": {"kind": "custom", "path": f"{folder / 'talk.py'}:Talk"}}
        effort = {"rule": "effort", "right": 0.1}  # both remember: an average, and budgets
        values |= {"options": {"advantage": "group", "centre": "moving_average", "shaping": effort}}
        values["data"] = {"path": str(folder / "rows.jsonl"), "priority": {"passing": 0.3}}  # another that remembers
        values |= {"selection": {"kind": "refill"}, "seed": 2}
    if kind == "sft in a world":
        values |= {"data": None, "environment": {"kind": "lookup", "count": 8}}
    return recipe_from_mapping(values)


class Crash(QuietProgress):
    """Ends the process's work while step HALF + 2 learns."""

    done = 0

    def step(self, record: Any) -> None:
        self.done = record["step"]

    def phase(self, name: str, done: int, total: int) -> None:
        if self.done == HALF + 1 and name == "learning":
            raise KeyboardInterrupt


def saved(run: Path, step: int) -> dict[str, Any]:
    """The state of every part in a checkpoint, times left out; a learner's tensors are part of it."""
    folder = run / "checkpoints" / f"step-{step}"
    parts = _timeless(json.loads((folder / "state" / "parts.json").read_text("utf-8")))
    tensors = {**load_file(folder / "model.safetensors"), **load_file(folder / "state" / "policy.safetensors")}
    parts["learner/policy"] |= {name: tensor.flatten().tolist() for name, tensor in tensors.items()}
    return parts


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if not key.startswith("timing/")}
    return value


@pytest.fixture(scope="module", params=KINDS)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A method's run that nobody killed (`whole`), and one that crashed (`killed`)."""
    folder = tmp_path_factory.mktemp(request.param)
    recipe = recipe_of(request.param, folder)
    train(recipe, out=folder / "whole", progress=QuietProgress())
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=folder / "killed", progress=Crash())
    return request.param, folder


def test_each_part_resumes_to_the_state_it_would_have_had(runs: tuple[str, Path], tmp_path: Path) -> None:
    method, folder = runs
    run = _copied(folder / "killed", tmp_path / "run")
    train(recipe_of(method, folder), out=run, resume=True, progress=QuietProgress())
    whole, resumed = saved(folder / "whole", WHOLE), saved(run, WHOLE)
    assert whole.keys() == resumed.keys()
    assert [name for name in whole if whole[name] != resumed[name]] == []


def test_each_part_that_remembers_is_really_restored(runs: tuple[str, Path], tmp_path: Path) -> None:
    """With its state replaced by that of a fresh part, each part that has any ends in another state."""
    method, folder = runs
    recipe = recipe_of(method, folder)
    fresh = states(assemble(recipe))
    half, whole = saved(folder / "whole", HALF), saved(folder / "whole", WHOLE)
    remembering = [name for name in fresh if half[name] != _timeless(fresh[name])]
    assert {"ledger"} <= set(remembering)
    for name in remembering:
        run = _copied(folder / "killed", tmp_path / name.replace("/", "-"))
        _tamper(run / "checkpoints" / f"step-{HALF}", name, fresh[name])
        train(recipe, out=run, resume=True, progress=QuietProgress())
        assert saved(run, WHOLE)[name] != whole[name], name


def test_every_class_with_a_state_is_checkpointed_in_some_run(tmp_path: Path) -> None:
    covered: set[type] = set()
    for method in KINDS:
        parts = assemble(recipe_of(method, tmp_path))
        covered |= {base for part in _all_parts(parts) for base in type(part).__mro__}
    remembering = set()
    for module in pkgutil.walk_packages(burnish.__path__, "burnish."):
        if module.name.endswith("__main__"):
            continue
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = cls.__module__.startswith("burnish.") and not getattr(cls, "_is_protocol", False)
            if own and {"state", "load"} <= vars(cls).keys():  # of its own: kinds of reward share their base's
                remembering.add(cls)
    kinds_of_source = {c for c in remembering if c.__module__.startswith("burnish.sources.")}
    assert {c.__name__ for c in remembering - covered} == set()
    assert len(kinds_of_source) >= 2


def _all_parts(parts: Parts) -> list[object]:
    found: list[object] = [*stateful(parts).values(), *parts.learners.values()]
    sources = [parts.source, getattr(parts.source, "inner", None)]
    found += [*sources, *(getattr(source, "order", None) for source in sources)]
    for part in list(found):
        if isinstance(part, Feedback):
            found += [reward for reward, _ in part.rewards]
    return found


def _copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def _tamper(checkpoint: Path, name: str, state: Any) -> None:
    """Put another state of one part into a checkpoint, with a right checksum."""
    file = checkpoint / "state" / "parts.json"
    values = json.loads(file.read_text("utf-8"))
    values[name] = state
    file.write_text(json.dumps(values), "utf-8")
    manifest = json.loads((checkpoint / "manifest.json").read_text("utf-8"))
    digest = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    manifest["files"]["state/parts.json"] = [file.stat().st_size, digest]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest), "utf-8")
