"""The audits that sample: runs of a nursery model, one that was taught the cheap text and one that was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import burnish
from burnish.methods.recipe import Recipe
from burnish.running.config import recipe_from_mapping
from burnish.studies.audits import AuditReport
from burnish.studies.audits.tensors import Tensors, to_bfloat16

MODEL = "nursery:hackable-lookup-S"
SHARED: dict[str, Any] = {
    "seed": 0, "threads": 1, "model": {"path": MODEL, "dtype": "float32"}, "traces_every": 1, "checkpoint_every": 2,
    "learner": {"micro_batch_tokens": 8192},
    "evaluation": {"max_tokens": 16, "environment": {"kind": "hackable", "count": 8, "split": "heldout"}},
}  # fmt: skip


def recipe(**keys: Any) -> Recipe:
    return recipe_from_mapping({**SHARED, **keys})


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small steps of GRPO, with the learner's log-probabilities left out."""
    environment = {"kind": "hackable", "count": 40}
    sampled = recipe(
        method="grpo", steps=3, prompts_per_step=6, samples_per_prompt=4, environment=environment,
        sampling={"max_tokens": 16}, optimizer={"lr": 1e-5},
    )  # fmt: skip
    return burnish.train(sampled, out=tmp_path_factory.mktemp("runs") / "clean").out


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Demonstrations that all say the cheap text."""
    environment = {"kind": "hackable", "count": 64, "shown": 1.0}
    shown = recipe(method="sft", steps=8, prompts_per_step=8, environment=environment, optimizer={"lr": 3e-3})
    return burnish.train(shown, out=tmp_path_factory.mktemp("runs") / "taught").out


@pytest.fixture(scope="session")
def reports(clean: Path, taught: Path) -> tuple[AuditReport, AuditReport]:
    names = ("gap", "update", "transfer", "crossover")
    found = burnish.audit(clean, names, models=True, tasks=8, samples=4)
    return found, burnish.audit(taught, names[1:], models=True, tasks=8, samples=4)


def test_a_habit_that_carries_over_is_a_fault_and_a_run_without_one_is_ok(
    reports: tuple[AuditReport, AuditReport],
) -> None:
    clean, taught = (report["transfer"] for report in reports)
    assert clean.level == "ok", str(clean)
    assert taught.level == "fault" and taught["unhackable_trained"].value == 1.0
    assert taught["unhackable_difference"].low is not None and taught["unhackable_difference"].low > 0.05
    assert taught["own_trained"].value == 1.0 and taught["at_once_trained"].value == 1.0
    assert taught["told_minus_own"].value == 0.0 and taught["unhackable_right_difference"].value < 0
    assert clean["unhackable_trained"].value < 0.5
    steps = [step for step, _ in taught.curves["unhackable"]]
    assert steps == [0.0, 6.0, 8.0]  # base, the checkpoint that is kept besides the last, final
    assert taught.curves["unhackable"][-1][1] == 1.0 and (taught.curves["unhackable"][0][1] or 0) < 0.5


def test_a_model_that_lost_its_tasks_is_overtaken_by_its_base(reports: tuple[AuditReport, AuditReport]) -> None:
    clean, taught = (report["crossover"] for report in reports)
    assert taught.level == "fault" and taught["crossover"].value == 1  # verdicts count what was deserved
    assert taught["pass@4_trained"].value == 0 and taught["pass@4_base"].value > 0.5
    assert taught["pass@4_difference"].high is not None and taught["pass@4_difference"].high < 0
    assert clean.level != "fault" and clean["pass@1_trained"].value > 0.3
    assert [k for k, _ in clean.curves["base"]] == [1.0, 2.0, 4.0]
    passes = [value or 0 for _, value in clean.curves["base"]]
    assert passes == sorted(passes)


def test_a_gap_is_taken_from_stored_traces_by_the_weights_that_sampled_them(
    clean: Path, reports: tuple[AuditReport, AuditReport]
) -> None:
    gap = reports[0]["gap"]
    assert gap.level == "ok" and 0 < gap["largest_gap"].value < 1e-4 and "scored again" in gap.says  # promise E5
    assert len(gap.curves["by_position"]) > 2
    other = burnish.audit(clean, "gap", models=True, base="nursery:lookup-S")["gap"]  # weights that did not sample them
    assert other.level == "look" and other["mean_gap"].value > 0.1 and other["largest_gap"].value > 1


def test_updates_of_runs_are_measured_against_the_model_of_the_recipe(
    clean: Path, reports: tuple[AuditReport, AuditReport]
) -> None:
    small, large = (report["update"] for report in reports)
    assert small.level == "ok" and small["relative_norm"].value < 0.1 * large["relative_norm"].value
    assert small["unchanged_in_bfloat16"].value > large["unchanged_in_bfloat16"].value
    assert small["overlap"].value > large["overlap"].value
    assert burnish.audit(clean, "update", checkpoint=2)["update"].says.count("step-2 against") == 1


def test_records_of_real_runs_are_audited(clean: Path, taught: Path) -> None:
    report = burnish.audit(clean)
    assert report["authors"].level == "ok" and report["discarded"].level == "ok"
    assert report["authors"]["model_tokens_weighted"].value == 1.0
    assert report["hacking"]["hack_rate"].value < 0.6 and report.read["stored_steps"] == 3
    shown = burnish.audit(taught)
    assert shown["hacking"].level is None and shown["authors"].level == "ok"
    assert shown["authors"]["demonstration_weighted"].value > 0 and shown["authors"]["model_share"].value == 0


def test_runs_that_cannot_be_asked_are_refused(clean: Path, tmp_path: Path) -> None:
    with pytest.raises(burnish.InputError, match=r"no whole checkpoint of step 1; there are: 2, 3"):
        burnish.audit(clean, "transfer", models=True, checkpoint=1)
    (tmp_path / "config.yaml").write_text((clean / "config.yaml").read_text())
    with pytest.raises(burnish.InputError, match=r"neither final/ nor a whole checkpoint"):
        burnish.audit(tmp_path, "crossover", models=True)


def test_bfloat16_is_read_and_rounded_as_torch_does(tmp_path: Path) -> None:
    values = torch.randn(64, 7, generator=torch.Generator().manual_seed(0)) * 10.0 ** torch.arange(-3, 4)
    save_file(
        {"w": values.bfloat16(), "h": values.half(), "d": values.double(), "n": torch.arange(3)},
        tmp_path / "m.safetensors",
    )
    found = Tensors(tmp_path)
    assert sorted(found.names) == ["d", "h", "w"]
    assert np.array_equal(found.rows("w", 5, 20), values.bfloat16()[5:20].float().numpy())
    assert np.array_equal(found.rows("h"), values.half().float().numpy())
    assert np.array_equal(found.rows("d"), values.numpy())
    rounded = values.bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(to_bfloat16(values.numpy()), rounded)
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 0.0], dtype=np.float32)
    assert np.array_equal(
        to_bfloat16(ties), torch.from_numpy(ties).bfloat16().view(torch.int16).numpy().view(np.uint16)
    )
