"""Held-out tasks that are trained on: refused before anything is written, or told loudly all along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.api import train
from burnish.errors import InputError
from burnish.methods.recipe import EvaluationSpec, Recipe
from burnish.running.config import recipe_from_mapping
from burnish.running.held_apart import checked_overlap, looked_at
from burnish.studies.suite import evaluate_tasks
from burnish.tasks import Task

ROWS = [{"prompt": f"{a}+17=", "completion": str(a + 17), "answer": a + 17} for a in range(10, 30)]


def recipe(folder: Path, **evaluation: Any) -> Recipe:
    """Supervised training on twenty rows, three of which are held out as well."""
    for name, rows in (("train", ROWS), ("held", [{"prompt": r["prompt"], "answer": r["answer"]} for r in ROWS[:3]])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return recipe_from_mapping({
        "method": "sft", "steps": 1, "prompts_per_step": 2,
        "model": {"path": "nursery:arithmetic-S", "dtype": "float32"},
        "data": {"path": str(folder / "train.jsonl")}, "checkpoint_every": 0,
        "evaluation": {"data": {"path": str(folder / "held.jsonl")}, "max_tokens": 4, **evaluation},
    })  # fmt: skip


def test_a_demonstration_of_a_held_out_task_is_refused_before_the_run_begins(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"3 of the 3 held-out tasks are also trained on: .*evaluation\.overlap=tell"):
        train(recipe(tmp_path), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_where_it_is_wanted_it_is_told_at_the_start_in_the_journal_in_the_summary_and_by_eval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(recipe(tmp_path, overlap="tell", samples=2, temperature=1.0), out=tmp_path / "run")
    shown = capsys.readouterr()
    assert "CONTAMINATION: 3 of 3 held-out tasks are trained on themselves" in shown.out + shown.err
    assert run.summary["contamination"]["counts"]["same task"] == 3
    events = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    assert [e["contaminated"] for e in events if e["event"] == "contaminated"] == [3]
    asked = evaluate_tasks(tmp_path / "run" / "final", str(tmp_path / "held.jsonl"), max_tokens=4)
    assert asked.contamination[str(tmp_path / "held.jsonl")].same == 3
    # the evaluation within the run is the same evaluator's: the same answers, the same metrics
    last = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()][-1]
    keys = {"max_tokens": 4, "samples": 2, "temperature": 1.0}
    again = evaluate_tasks(tmp_path / "run" / "final", str(tmp_path / "held.jsonl"), dtype="float32", **keys)
    assert [i.tokens for i in again.found[0].items] == [i.tokens for i in run.evaluations[-1].items]
    rows = {row["metric"]: row["value"] for row in again.results()}
    assert {f"held_out/{name}" for name in rows} | {"held_out/accuracy"} == {
        k for k in last if k.startswith("held_out/")
    }
    for name, value in rows.items():
        assert last[f"held_out/{name}"] == pytest.approx(value, abs=1e-6), name
    assert last["held_out/accuracy"] == rows["avg@2"]


def test_what_is_looked_at_depends_on_where_the_tasks_come_from() -> None:
    def spec(**keys: Any) -> EvaluationSpec:
        return EvaluationSpec.model_validate(keys)

    assert looked_at(spec(data={"path": "x"})) == "text" and looked_at(spec(data={"family": "arithmetic"})) == "prompt"
    world = spec(environment={"kind": "grid"})
    assert looked_at(world) == "content" and looked_at(spec(data={"path": "x"}), world.environment) == "content"
    same = [Task(prompt="go", columns={"maze": 1})], [Task(prompt="go", columns={"maze": 2})]
    assert checked_overlap(world, *same).hits == ()
    with pytest.raises(InputError, match="1 of the 1 held-out tasks"):
        checked_overlap(spec(data={"path": "x"}), *same)
