"""`burnish eval` by name: tasks, keys, training data, two models, saved files; mistakes are told with their mending."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnish.cli import main
from burnish.errors import InputError, Note
from burnish.feedback.checking import Check
from burnish.running.talk import Speaker
from burnish.studies.naming import FAMILIES, WORLDS, Asked, HarnessTask, asked, training_tasks
from burnish.studies.suite import Evaluations, against, evaluate_tasks, load_evaluations
from burnish.tasks import build_tasks

ROWS = [{"prompt": f"{a}+{b}=", "answer": a + b, "level": a % 2} for a in range(20, 26) for b in (31, 42)]


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker("nursery:arithmetic-S", dtype="float32")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit status, output and errors of a command line in this process."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


# ---------------------------------------------------------------- names


def test_every_family_and_every_world_is_a_task_with_a_judge_and_held_out_items() -> None:
    for name in FAMILIES:
        found = asked(name)
        assert isinstance(found, Asked) and found == Asked(name, asked(f"family:{name}").spec)  # type: ignore[union-attr]
        found = asked(name, ["data.family.count=5"])
        assert isinstance(found, Asked)
        assert found.spec.data is not None and found.spec.data.family is not None
        assert found.spec.data.family.split == "heldout"
        check = Check(found.spec.correct)
        check.feedback.check(build_tasks(found.spec.data))  # its answers can be judged so
        check.feedback.close()
    for name in WORLDS:
        found = asked(f"world:{name}")
        assert isinstance(found, Asked) and found.environment is not None and found.environment.kind == name


def test_a_recipe_stands_for_its_evaluation_and_keys_change_it(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    values: dict[str, Any] = {
        "method": "sft", "model": {"path": "nursery:arithmetic-S"}, "data": {"path": "train.jsonl"},
        "evaluation": {"data": {"path": "held.jsonl"}, "max_tokens": 5},
    }  # fmt: skip
    recipe.write_text(yaml.safe_dump(values))
    found = asked(str(recipe), ["samples=3", "temperature=0.5"])
    assert isinstance(found, Asked) and found.spec.data is not None and found.spec.data.path == "held.jsonl"
    assert (found.spec.max_tokens, found.spec.samples, found.spec.temperature) == (5, 3, 0.5)
    recipe.write_text(yaml.safe_dump({**values, "evaluation": None}))
    with pytest.raises(InputError, match="has no `evaluation`"):
        asked(str(recipe))


def test_a_task_of_lm_eval_takes_a_limit_alone() -> None:
    assert asked("lm-eval:arc_easy", ["data.limit=7"]) == HarnessTask("lm-eval:arc_easy", "arc_easy", 7)
    with pytest.raises(InputError, match="'samples=4' is unused"):
        asked("lm-eval:arc_easy", ["samples=4"])


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("--tasks", "arithmetik"), "there is no task 'arithmetik': did you mean 'arithmetic'?"),
    (("--tasks", "family:sums"), "there is no family 'sums'; there are: arithmetic"),
    (("--tasks", "world:gird"), "there is no world 'gird'; did you mean 'grid'?"),
    (("--tasks", "arithmetic,arithmetic"), "a task is named twice"),
    (("--tasks", "arithmetic", "--data", "rows.jsonl"), "--tasks and --data both name what to evaluate"),
    (("--tasks", "arithmetic", "samples=4"), "4 greedy answers are all alike; set temperature"),
    (("--tasks", "arithmetic", "top_p=0.5"), "top_p does nothing at temperature 0"),
    (("--tasks", "arithmetic", "max_token=4"), "did you mean max_tokens"),
    (("--tasks", "absent.jsonl"), "absent.jsonl"),
    (("--tasks", "arithmetic", "--training-data", "absent.jsonl"), "absent.jsonl"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=lambda v: "-" if isinstance(v, str) else " ".join(v))
def test_a_mistake_is_told_with_its_mending(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, told = command(capsys, "eval", "nursery:arithmetic-S", *words)
    assert status == 2 and message in told and out == ""


def test_a_missing_checkpoint_and_a_template_that_cannot_be_used_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, told = command(capsys, "eval", tmp_path / "run" / "final", "--tasks", "arithmetic")
    assert status == 2 and str(tmp_path / "run" / "final") in told
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% for m in messages %}{{ m.content }")
    status, _, told = command(capsys, "eval", "nursery:arithmetic-S", "--tasks", "arithmetic", "--template", broken)
    assert status == 2 and "template" in told
    silent = tmp_path / "silent.jinja"
    silent.write_text("always the same")
    status, _, told = command(capsys, "eval", "nursery:arithmetic-S", "--tasks", "arithmetic", "--template", silent)
    assert status == 2 and "template" in told
    status, _, told = command(capsys, "eval", tmp_path / "absent.json", "--against", "nursery:arithmetic-S")
    assert status == 2 and "no such evaluation" in told


# ---------------------------------------------------------------- evaluating


def test_attempts_in_a_world_are_an_evaluation_like_others() -> None:
    found = evaluate_tasks("nursery:lookup-S", "world:lookup", environment__count=6, max_tokens=16, dtype="float32")
    [row] = [row for row in found.results() if row["metric"] == "accuracy"]
    assert row["n"] == 6 and row["interval"]["method"] == "wilson" and found.results()[0]["template"]
    assert {row["category"] for row in found.categories()} >= {"level=1", "level=2"}
    assert all(item.surprisal is not None for item in found["world:lookup"].items)


def test_the_json_has_a_row_for_every_task_and_metric(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = rows.with_name("other.jsonl")
    other.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:3]))
    status, out, _ = command(
        capsys, "eval", "nursery:arithmetic-S", "--tasks", f"{rows},{other}", "max_tokens=6", "samples=2",
        "temperature=1", "--dtype", "float32", "--json", "--seed", "4",
    )  # fmt: skip
    assert status == 0
    shown = json.loads(out)
    assert {row["task"] for row in shown["results"]} == {str(rows), str(other)}
    assert {"task", "n", "metric", "value", "interval", "sampling", "template"} <= set(shown["results"][0])
    mine = {row["metric"]: row for row in shown["results"] if row["task"] == str(rows)}
    assert mine["avg@2"]["n"] == len(ROWS) and {"pass@2", "pass^2", "length", "truncated", "entropy"} <= set(mine)
    assert mine["avg@2"]["sampling"] == {
        **mine["avg@2"]["sampling"], "temperature": 1.0, "samples": 2, "seed": 4, "max_tokens": 6,
    }  # fmt: skip
    assert {row["category"] for row in shown["categories"] if row["task"] == str(rows)} == {"level=0", "level=1"}
    assert mine["avg@2"]["template"] and shown["contamination"] == {}


def test_several_samples_are_those_of_the_engine_at_this_temperature(speaker: Speaker, rows: Path) -> None:
    found = evaluate_tasks(speaker, str(rows), samples=3, temperature=1.0, max_tokens=6, seed=1)[str(rows)]
    assert found.samples == 3 and len({item.text for item in found.items}) > len(ROWS)
    again = evaluate_tasks(speaker, str(rows), samples=3, temperature=1.0, max_tokens=6, seed=1)[str(rows)]
    assert found.items == again.items
    narrow = evaluate_tasks(speaker, str(rows), samples=3, temperature=1.0, top_k=1, max_tokens=6)[str(rows)]
    greedy = evaluate_tasks(speaker, str(rows), max_tokens=6)[str(rows)]
    assert [item.text for item in narrow.items][::3] == [item.text for item in greedy.items]


def test_what_was_trained_on_is_told_loudly(
    speaker: Speaker, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaked = tmp_path / "train.jsonl"
    shown = [{"prompt": row["prompt"], "completion": str(row["answer"])} for row in ROWS[:5]]
    leaked.write_text("".join(json.dumps(row) + "\n" for row in shown))
    found = evaluate_tasks(speaker, str(rows), training_data=[leaked], max_tokens=6)
    assert found.contamination[str(rows)].same == 5
    assert "CONTAMINATION: 5 of 12 held-out tasks are trained on themselves" in str(found).splitlines()[0]
    assert found[str(rows)].notes["contamination"]["counts"]["same task"] == 5
    run = tmp_path / "run"  # as a run leaves it: its own recipe is looked at unasked
    (run / "final").mkdir(parents=True)
    recipe = {"method": "sft", "model": {"path": "nursery:arithmetic-S"}, "data": {"path": str(leaked)}}
    (run / "config.yaml").write_text(yaml.safe_dump(recipe))
    assert len(training_tasks(run)) == 5
    speaker.model.network.save_pretrained(run / "final")
    speaker.model.tokenizer.save_pretrained(run / "final")
    (run / "run.json").write_text("{}")
    status, out, _ = command(capsys, "eval", run / "final", "--data", rows, "max_tokens=6", "--json")
    assert status == 0 and json.loads(out)["contamination"][str(rows)]["contaminated"] == 5
    leaked.unlink()
    with pytest.warns(Note, match="contamination was not looked for in the training data of"):
        assert evaluate_tasks(run / "final", str(rows), max_tokens=6).contamination == {}


def test_two_models_are_compared_on_the_same_problems_also_from_files(
    speaker: Speaker, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = evaluate_tasks(speaker, str(rows), max_tokens=6)
    short = evaluate_tasks(speaker, str(rows), max_tokens=6, correct={"mode": "exact", "column": "level"})
    found = against(short, good)
    row = found.to_json()["differences"][0]
    assert row["task"] == str(rows) and row["metric"] == "accuracy" and row["difference"]["estimate"] > 0.4
    assert row["p_value"] == 2 / 2 ** row["improved"] and {lift.label for lift in found.lifts[str(rows)]} == {"level"}
    good.save(tmp_path / "good.json")
    short[str(rows)].save(tmp_path / "short.json")  # a single one, as a run writes it
    assert load_evaluations(tmp_path / "good.json").found == good.found
    status, out, _ = command(capsys, "eval", tmp_path / "good.json", "--against", tmp_path / "short.json", "--json")
    assert status == 0 and json.loads(out)["against"] == json.loads(json.dumps(found.to_json()))
    status, out, _ = command(capsys, "eval", tmp_path / "good.json", "--against", tmp_path / "short.json")
    assert status == 0 and "McNemar p = " in out and "least lift by level" in out
    status, _, told = command(capsys, "eval", tmp_path / "good.json", "--tasks", "arithmetic")
    assert status == 2 and "holds what was evaluated" in told
    with pytest.raises(InputError, match="no task in common"):
        against(Evaluations("other", ()), good)
    (tmp_path / "odd.json").write_text('{"evaluations": [{}]}')
    with pytest.raises(InputError, match="not an evaluation"):
        load_evaluations(tmp_path / "odd.json")


def test_an_environment_of_the_users_judges_a_recipes_own_data(speaker: Speaker, tmp_path: Path) -> None:
    (tmp_path / "parrot.py").write_text(
        "from burnish.environments import Environment, Observation, passed, said\n\n\n"
        "class Parrot(Environment):\n"
        "    async def reset(self, task, *, seed):\n"
        "        return said(task.text)\n\n"
        "    async def step(self, action):\n"
        "        return Observation(done=True)\n\n"
        "    async def verify(self, attempt):\n"
        "        return passed(attempt.task.text.startswith('20'), 'another')\n"
    )
    for name in ("train", "held"):
        (tmp_path / f"{name}.jsonl").write_text('{"prompt": "20+31="}\n{"prompt": "30+42="}\n')
    recipe = {
        "method": "grpo", "model": {"path": "nursery:arithmetic-S"}, "data": {"path": str(tmp_path / "train.jsonl")},
        "environment": {"kind": "custom", "path": f"{tmp_path / 'parrot.py'}:Parrot"},
        "evaluation": {"data": {"path": str(tmp_path / "held.jsonl")}, "max_tokens": 4},
    }  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    found = evaluate_tasks(speaker, str(tmp_path / "recipe.yaml"))
    [one] = found.found
    assert [item.correct for item in one.items] == [True, False] and one.notes["world"]["kind"] == "custom"
