"""The peak of a run is told before its first step, and the run takes what was told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from burnish.methods.recipe import Recipe
from burnish.running.assemble import assemble
from burnish.running.config import recipe_from_mapping, resolved_yaml
from burnish.running.estimate import MemoryEstimate, estimate
from burnish.running.findings import findings
from burnish.running.machine_memory import free_memory, held_memory, peak_memory
from tests.forked import Forked
from tests.tiny import tiny_network, tiny_tokenizer


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 62 million parameters: large beside the process that trains it."""
    folder = tmp_path_factory.mktemp("models") / "large"
    config = LlamaConfig(
        hidden_size=512, intermediate_size=1408, num_hidden_layers=10, num_attention_heads=8, num_key_value_heads=4,
        vocab_size=32000, max_position_embeddings=1024, tie_word_embeddings=False, bos_token_id=0, eos_token_id=2,
        pad_token_id=0,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_network("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def rows(path: Path, lengths: list[int]) -> str:
    """A file of demonstrations of so many letters."""
    shown = [{"prompt": f"say {i}", "completion": "abcdefgh" * (n // 8)} for i, n in enumerate(lengths)]
    path.write_text("".join(json.dumps(row) + "\n" for row in shown))
    return str(path)


def sft(model: Path, tmp_path: Path, /, **keys: Any) -> Recipe:
    values: dict[str, Any] = {
        "method": "sft", "steps": 2, "prompts_per_step": 2, "model": {"path": str(model), "dtype": "float32"},
        "data": {"path": rows(tmp_path / "rows.jsonl", [256, 320, 240, 280])}, **keys,
    }  # fmt: skip
    return recipe_from_mapping(values)


def grpo(model: Path, /, **keys: Any) -> Recipe:
    values: dict[str, Any] = {
        "method": "grpo", "steps": 2, "prompts_per_step": 2, "samples_per_prompt": 4, "sampling": {"max_tokens": 40},
        "model": {"path": str(model), "dtype": "float32"}, "data": {"family": {"kind": "arithmetic", "count": 20}},
        "rewards": [{"kind": "numeric"}], **keys,
    }  # fmt: skip
    return recipe_from_mapping(values)


# ---------------------------------------------------------------- against real runs


@pytest.mark.parametrize("case", ["sft, all weights", "grpo, an adapter"])
def test_the_peak_told_before_the_first_step_is_within_15_percent_of_the_measured_one(
    large: Path, tmp_path: Path, case: str
) -> None:
    model = {"path": str(large), "dtype": "float32", "adapter": {"rank": 8}}
    adapter = grpo(large, model=model, prompts_per_step=4, checkpoint_every=0)
    recipe = sft(large, tmp_path, checkpoint_every=0) if case.startswith("sft") else adapter
    (tmp_path / "recipe.yaml").write_text(resolved_yaml(recipe))
    run = Forked(["train", "recipe.yaml", "--out", "run", "--json"], cwd=tmp_path)
    printed, errors = run.read()
    assert run.wait() == 0, errors[-2000:]
    events = [json.loads(line) for line in printed.splitlines()]
    first_step = next(i for i, event in enumerate(events) if event["event"] == "step")
    [told] = [e["text"] for e in events[:first_step] if e["event"] == "message" and e["text"].startswith("memory:")]
    predicted = 1e9 * float(re.search(r"about ([\d.]+) GB at its peak", told)[1])  # type: ignore[index]
    assert predicted == pytest.approx(run.peak_memory, rel=0.15), told


# ---------------------------------------------------------------- what moves it


def told(recipe: Recipe) -> MemoryEstimate:
    return estimate(assemble(recipe))


def test_every_key_that_costs_memory_moves_the_estimate(tiny: Path, tmp_path: Path) -> None:
    base = told(sft(tiny, tmp_path)).parts
    fewer = told(sft(tiny, tmp_path, learner={"micro_batch_tokens": 256})).parts
    again = told(sft(tiny, tmp_path, learner={"gradient_checkpointing": True})).parts
    plain = told(sft(tiny, tmp_path, optimizer={"name": "sgd"})).parts
    model = {"path": str(tiny), "dtype": "float32", "adapter": {"rank": 2}}
    adapter = told(sft(tiny, tmp_path, model=model)).parts
    low = told(sft(tiny, tmp_path, model={"path": str(tiny), "dtype": "bfloat16"})).parts
    assert fewer["activations"] < 0.7 * base["activations"] and fewer["gradients"] > base["gradients"] == 0
    assert again["activations"] < 0.8 * base["activations"]
    assert base["optimizer"] == 2 * base["weights"] and plain["optimizer"] == 0
    assert adapter["optimizer"] < 0.3 * base["optimizer"]
    assert low["masters"] == base["weights"] == 2 * low["weights"]


def test_more_samples_rows_and_a_reference_are_in_the_estimate(tiny: Path) -> None:
    few, many = told(grpo(tiny)), told(grpo(tiny, samples_per_prompt=16))
    assert many.parts["activations"] > 2.5 * few.parts["activations"]
    assert many.parts["keys and values"] > 3 * few.parts["keys and values"]
    assert (
        told(grpo(tiny, samples_per_prompt=16, engine_rows=8)).parts["keys and values"] < many.parts["keys and values"]
    )
    assert told(grpo(tiny, options={"kl": 0.1})).parts["other models"] == few.parts["weights"]
    assert few.parts["other models"] == 0


def test_a_long_evaluation_is_where_the_peak_is_when_training_takes_less(tiny: Path) -> None:
    data = {"family": {"kind": "arithmetic", "count": 64, "split": "heldout"}}
    short = grpo(
        tiny, samples_per_prompt=2, prompts_per_step=1, sampling={"max_tokens": 1},
        evaluation={"data": data, "max_tokens": 400},
    )  # fmt: skip
    assert told(short).moment == "sampling" and told(grpo(tiny)).moment == "the update"


def test_the_first_step_of_one_has_no_optimizer_state_yet(tiny: Path, tmp_path: Path) -> None:
    assert told(sft(tiny, tmp_path, steps=1)).parts["optimizer"] == 0
    assert told(sft(tiny, tmp_path, steps=1, learner={"optimizer_steps": 2})).parts["optimizer"] > 0


# ---------------------------------------------------------------- what a person reads


def test_the_line_names_the_parts_and_the_free_memory(tiny: Path, tmp_path: Path) -> None:
    parts = assemble(sft(tiny, tmp_path))
    lines = [line for line in findings(parts) if line.startswith("memory: ")]
    assert len(lines) == 1
    assert re.fullmatch(
        r"memory: about [\d.]+ GB at its peak, in the update \(process [\d.]+.*\); [\d.]+ GB held now, [\d.]+ GB free",
        lines[0],
    )


def test_a_run_that_will_not_fit_is_warned_of_with_the_keys_that_help(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(sft(tiny, tmp_path))
    assert found.fits and found.warning() is None
    parts = {**found.parts, "optimizer": 3_000_000_000, "activations": 8_000_000_000}
    tight = replace(found, parts=parts, free=4_000_000_000)
    warning = tight.warning()
    assert not tight.fits and warning is not None
    assert "4.00 GB are free" in warning
    order = [warning.index(key) for key in ("learner.micro_batch_tokens", "gradient_checkpointing", "model.adapter")]
    assert order == sorted(order)
    monkeypatch.setattr("burnish.running.estimate.free_memory", lambda: 0)
    assert any("may run out of memory" in line for line in findings(assemble(sft(tiny, tmp_path))))


def test_another_device_is_not_called_verified(tiny: Path, tmp_path: Path) -> None:
    found = replace(told(sft(tiny, tmp_path)), gpu=torch.device("cuda:0"))
    assert "of cuda:0 (not verified on a GPU)" in found.line()
    assert json.loads(json.dumps(found.to_json()))["peak"] == found.peak


# ---------------------------------------------------------------- what the machine says


def test_held_and_peak_memory_are_those_of_this_process() -> None:
    before = held_memory()
    block = torch.ones(50_000_000, dtype=torch.uint8)
    assert held_memory() - before == pytest.approx(50e6, rel=0.2)
    assert peak_memory() >= before + 0.8 * block.numel()
    del block
    assert held_memory() - before < 10e6 and free_memory() > 0


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("max", "1000000"), ("now", "700000"), ("stat", "anon 5\ninactive_file 50000\n")):
        (tmp_path / name).write_text(text)
    names = (str(tmp_path / "max"), str(tmp_path / "now"), str(tmp_path / "stat"), "inactive_file")
    monkeypatch.setattr("burnish.running.machine_memory._GROUPS", (names,))
    assert free_memory() == 350_000
    (tmp_path / "max").write_text("max\n")
    assert free_memory() > 350_000
