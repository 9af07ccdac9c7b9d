"""The GPU's checks and benchmark run here on the CPU, small, so that they work on the day there is a GPU."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.forked import Forked

ROOT = Path(__file__).parents[1]


def run(module: str, *arguments: str) -> str:
    process = Forked(arguments, cwd=ROOT, module=module)
    printed, errors = process.read()
    assert process.wait() == 0, printed[-3000:] + errors[-3000:]
    return printed


def test_the_checks_pass_when_the_cpu_is_compared_with_itself() -> None:
    few = "qwen3 and (together or draws) or paths and fused or kernels and 16 and not 128 and float32 and None"
    printed = run("pytest", "tests/gpu", "--device", "cpu", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", few)
    assert " passed" in printed and "failed" not in printed and "skipped" not in printed


def test_they_are_no_part_of_the_default_collection() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert "gpu" in settings["norecursedirs"] and settings["testpaths"] == ["tests"]


def test_the_benchmark_runs_the_same_code_on_a_cpu(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    printed = run("benchmarks.gpu", "--tiny", "--device", "cpu", "--out", str(out))
    found = json.loads(out.read_text(encoding="utf-8"))
    learned = {(r["work"], r["adapter"]): r for r in found["learner"]}
    assert set(learned) == {(work, adapter) for work in ("sft", "rl", "rl-group") for adapter in ("full", "lora-16")}
    for result in learned.values():
        assert result["tokens_per_second"] > 0 and len(result["seconds"]) >= 2 and result["trained_tokens"] > 0
        assert result["flops"] > 0 and result["published"] is None and result["loss"] != 0
    assert learned["rl-group", "full"]["flops"] < learned["rl", "full"]["flops"]
    assert found["engine"]["tokens_per_second"] > 0
    assert "26,005" in printed and "11,896" in printed and "unverified" in printed
