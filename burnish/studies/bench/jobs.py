"""From a piece of work to the job of each side: a JSON file, a script, an environment. No torch here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from burnish.errors import InputError, RunError
from burnish.studies.bench import material
from burnish.studies.bench.floor import phases
from burnish.studies.bench.spec import Settings, Work

SIDES = Path(__file__).parent / "sides"
ROOT = str(Path(__file__).parents[3])
"""Where this package is imported from."""
VLLM_PYTHON = "BURNISH_VLLM_PYTHON"
"""Environment variable: the interpreter of an environment that has vLLM."""

_LR = 1e-5
_TOY_LR = 1e-3
_STEPS = 100_000
"""More steps than anybody asks for: a run is held before each of them, and let go of when enough were measured."""


@dataclass(frozen=True)
class Job:
    """One side: what it is called, its command, its environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


def prepare(folder: Path, work: Work) -> dict[str, Any]:
    """Make what a piece of work is done on; returns the facts about it. Raises RunError where that fails.

    In a process of its own, so that whoever measures imports no torch; here where that has happened long since.
    """
    if work.kind == "start":
        return {}
    if "torch" in sys.modules:
        material.make(folder, work)
        return json.loads((folder / material.FACTS).read_text("utf-8"))
    command = [sys.executable, "-m", "burnish.studies.bench.material", str(folder), json.dumps(asdict(work))]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(None, {"PYTHONPATH": ROOT})
    )
    if done.returncode:
        raise RunError(f"the material of {work} could not be made:\n{done.stderr[-2000:]}")
    return json.loads((folder / material.FACTS).read_text("utf-8"))


def ours(folder: Path, work: Work, facts: Mapping[str, Any], threads: int, profile: Path | None = None) -> Job:
    """Burnish's side of a piece of work. Where `profile` is a file, it is written with what each operation took."""
    job: dict[str, Any] = {"kind": work.kind, "dtype": work.dtype, "profile": profile and str(profile)}
    if work.kind in ("grpo", "sft"):
        write_recipe(folder, work, facts, threads)
        job |= {"recipe": str(folder / "recipe.yaml"), "out": str(folder / "run")}
    else:
        job |= _sampled(work, facts)
    return _job("ours", folder, "of_burnish.py", job, threads)


def products(folder: Path, work: Work, facts: Mapping[str, Any], threads: int) -> Job:
    """The side that measures how fast matrices are multiplied."""
    shape = {name: facts.get(name) for name in ("trained_tokens", "vocabulary")}
    job = {"model": facts["model"], "dtype": work.dtype, "phases": [asdict(p) for p in phases(work, **shape)]}
    return _job("floor", folder, "of_products.py", job, threads)


def peer(name: str, folder: Path, work: Work, facts: Mapping[str, Any], settings: Settings, python: str | None) -> Job:
    """A peer's side. `python` is an interpreter that has the peer, where it is not this one."""
    job: dict[str, Any] = {"kind": work.kind, "settings": settings, "out": str(folder / f"out-{name}")}
    if name == "trl":
        if find_spec("trl") is None:
            raise InputError("the peer is not installed: pip install 'burnish[bench]' brings TRL")
        job |= {"model": facts["model"], "lr": _LR, "steps": _STEPS, "sequences": work.rows, "samples": work.samples}
        job |= {"new_tokens": work.new_tokens, "rewards": str(folder / material.REWARDS)}
        job["data"] = str(folder / (material.ROWS if work.kind == "sft" else material.PROMPTS))
        if work.kind == "sft":
            job |= {"sequences": len(work.lengths), "max_length": facts["tokens"]}
        if work.kind == "toy":
            job |= {"steps": work.steps, "lr": _TOY_LR}
    else:
        job |= _sampled(work, facts)
    if name != "vllm":
        return _job(name, folder, f"of_{name}.py", job, settings["threads"])
    threads = settings["threads"]
    bound = {
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}" if threads > 1 else "0", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    if settings["openmp"] == "intel":
        bound["LD_PRELOAD"] = str(Path(python or "").parents[1] / "lib" / "libiomp5.so")
    return _job(name, folder, "of_vllm.py", job, threads, python=python, more=bound)


def write_recipe(folder: Path, work: Work, facts: Mapping[str, Any], threads: int) -> Path:
    """Burnish's recipe of a training work, in JSON, which is YAML. What the work does not fix is left at its default,
    but for checkpoints: the peer saves none either."""
    toy = work.kind == "toy"
    recipe: dict[str, Any] = {
        "method": "sft" if work.kind == "sft" else "grpo", "steps": work.steps or _STEPS, "threads": threads,
        "model": {"path": facts["model"], "dtype": work.dtype, "template": "plain"},
        "optimizer": {"lr": _TOY_LR if toy else _LR}, "checkpoint_every": 0,
        "guards": {"stall_seconds": 0},  # a step waits for its turn
    }  # fmt: skip
    if work.kind == "sft":
        recipe |= {"prompts_per_step": len(work.lengths), "data": {"path": str(folder / material.ROWS)}}
    else:
        reward = {"kind": "function", "function": f"{folder / material.REWARDS}:reward"}
        recipe |= {
            "prompts_per_step": work.prompts, "samples_per_prompt": work.samples,
            "sampling": {"max_tokens": work.new_tokens}, "rewards": [reward],
            "data": {"path": str(folder / material.PROMPTS)},
            "guards": {"stall_seconds": 0, "truncated_steps": 0},  # answers are meant to fill their tokens
        }  # fmt: skip
    file = folder / "recipe.yaml"
    file.write_text(json.dumps(recipe, indent=1), "utf-8")
    return file


def vllm_python(given: str | None) -> str | None:
    """The interpreter that has vLLM: the one given, or the environment variable's; None where there is neither.

    Raises InputError where it is named and is not there.
    """
    found = given or os.environ.get(VLLM_PYTHON)
    if found and not Path(found).is_file():
        raise InputError(f"{found} is no Python interpreter: give --vllm-python the one of an environment with vLLM")
    return found or None


def _sampled(work: Work, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The job of whoever samples for given prompts."""
    return {
        "model": facts["model"], "prompts": facts["prompts"], "samples": work.samples, "new_tokens": work.new_tokens,
        "longest": work.prompt_tokens + work.new_tokens,
    }  # fmt: skip


def _job(
    name: str,
    folder: Path,
    script: str,
    job: Mapping[str, Any],
    threads: int,
    python: str | None = None,
    more: Mapping[str, str] | None = None,
) -> Job:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(job), "utf-8")
    more = {"PYTHONPATH": ROOT} if name in ("ours", "floor") else more  # a peer's side never imports Burnish
    return Job(name, (python or sys.executable, str(SIDES / script), str(file)), environment(threads, more))


def environment(threads: int | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a side: so many threads, nothing fetched, nothing of the caller's that would change it."""
    fixed = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    if threads is not None:
        fixed["OMP_NUM_THREADS"] = str(threads)
    return {**os.environ, **fixed, **(more or {})}
