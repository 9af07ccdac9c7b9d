"""Studies from their files: what is refused before anything runs, cells that are kept, budgets, what a run leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from burnish.cli import main
from burnish.comparing import study
from burnish.errors import InputError
from burnish.pipelines import run_pipeline
from burnish.running.interrupts import InterruptedRunError
from burnish.running.progress import QuietProgress
from burnish.studies.comparison import running
from burnish.studies.comparison.cells import Cell, cells_of, check_cells, place_of
from burnish.studies.comparison.reading import read_study
from burnish.studies.comparison.running import read_cell

DATA = {"family": {"kind": "arithmetic", "digits": [1], "count": 40}}
SHARED = {"prompts_per_step": 4, "threads": 1, "traces_every": 0, "checkpoint_every": 0}
STUDY: dict[str, Any] = {
    "study": "tiny",
    "question": "Which is better?",
    "budget": {"unit": "prompts", "amount": 8},
    "primary": {"smallest": 0.02, "control": "sft"},
    "seeds": 2,
    "models": {"S": {"set": {"model.path": "nursery:arithmetic-S", "model.dtype": "float32"}}},
    "tasks": {"sums": {"set": {"data": DATA}, "rollouts": {"rewards": "numeric", "sampling.max_tokens": 4}}},
    "methods": {
        "sft": {"recipe": {"method": "sft", **SHARED}},
        "both": {
            "stages": [
                {"recipe": {"method": "sft", **SHARED}, "share": 0.5},
                {"recipe": {"method": "grpo", "samples_per_prompt": 2, **SHARED}, "share": 0.5},
            ]
        },
    },
    "test": {
        "evaluation": {"data": {"family": {**DATA["family"], "count": 6, "split": "heldout"}}, "max_tokens": 4},
        "category": "operation",
        "points": 2,
    },
}


def write(folder: Path, **changes: Any) -> Path:
    """The study above with changes by dotted key (two underscores for a dot), as a file; `...` takes a key away."""
    values = json.loads(json.dumps(STUDY))
    for key, value in changes.items():
        *above, last = key.split("__")
        inner = values
        for part in above:
            inner = inner[part]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def cells(path: Path, *overrides: str) -> list[Cell]:
    return cells_of(read_study(path, overrides), str(path))


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"primary__control": "stf"}, r"line \d+: primary.control: there is no method 'stf'; did you mean 'sft'"),
        (
            {"claims": [{"claim": "c", "better": {"tasks": ["smus"]}, "than": {"method": "sft"}}]},
            r"claims.0.better.tasks: there is no task 'smus'; did you mean 'sums'",
        ),
        ({"claims": [{"claim": "c", "better": {}, "than": {}}]}, "better and than are the same cells"),
        ({"methods__sft": {"recipe": {"method": "sfd"}}}, r"method sft, model S, task sums: .*no method 'sfd'"),
        ({"methods__sft": {"recipe": "none.yaml"}}, r"none.yaml: no such file"),
        ({"methods": {"sft": {"recipe": "x.yaml"}}}, "methods: given"),
        ({"budget__unit": "epochs"}, r"budget.unit: given 'epochs'"),
        ({"budget__amount": 10}, r"the budget comes to 2.5 steps of this recipe, which is no whole number"),
        ({"test__points": 3}, r"cannot be evaluated at 3 equal parts"),
        ({"models__S__set": {"model.path": "no/such/final"}}, r"model.path: model path no/such/final does not"),
        ({"models__S__set": {"model.dtype": "float32"}}, r"models.S.set: no model.path"),
        ({"tasks__sums__set": {"data": DATA, "seed": 3}}, r"tasks.sums.set: seed is not set here"),
        ({"methods__sft": {"recipe": {"method": "sft"}, "set": {"steps": 9}}}, "steps is not set here"),
        ({"test__category": ..., "primary__scope": "across"}, r"primary.scope: across needs test.category"),
        ({"methods__both__stages": [{"recipe": "a.yaml", "share": 0.5}]}, "the shares of the stages sum to 0.5"),
        ({"seeds": 1}, "seeds: given 1"),
        ({"test__category": "size"}, r"test.category: a held-out task has no column 'size'"),
        (
            {"tasks__sums__categories": ["*"]},
            r"tasks.sums.categories: no held-out task has operation '\*'; there are: \+",
        ),
        ({"sedes": 2}, r"there is no key sedes; did you mean seeds"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_study_is_told_before_anything_runs(
    tmp_path: Path, changes: dict[str, Any], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        study(write(tmp_path, **changes), out=tmp_path / "out", progress="quiet")
    assert not (tmp_path / "out").exists()


def test_held_out_tasks_that_are_trained_on_are_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"prompt": "1+2=", "completion": "3", "answer": "3"}\n{"prompt": "2+2=", "completion": "4", "answer": "4"}\n'
    )
    path = write(
        tmp_path, tasks__sums__set={"data": {"path": str(rows)}}, test__evaluation={"data": {"path": str(rows)}}
    )
    with pytest.raises(InputError, match=r"model S, task sums: .*2 of the 2 held-out tasks are also trained"):
        check_cells(cells(path), str(path))


def test_a_folder_without_cells_has_no_table(tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(InputError, match=r"holds no cell of this study: run `burnish study .*study.yaml` first"):
        study(path, out=tmp_path / "out", table=True)


def test_a_file_that_is_no_study_or_no_cell_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("method: sft\n")
    with pytest.raises(InputError, match="holds no study"):
        read_study(tmp_path / "a.yaml")
    (tmp_path / "cell.json").write_text('{"format": 1')
    with pytest.raises(InputError, match="not a cell of a study"):
        read_cell(tmp_path / "cell.json")
    (tmp_path / "cell.json").write_text('{"format": 0}')
    with pytest.raises(InputError, match="written by another version"):
        read_cell(tmp_path / "cell.json")


# ---------------------------------------------------------------- cells


def test_steps_points_and_seeds_come_from_the_study(tmp_path: Path) -> None:
    found = cells(write(tmp_path), "budget.beyond=2")
    assert [(c.method, c.seed) for c in found] == [("sft", 0), ("both", 0), ("sft", 1), ("both", 1)]
    one, two = found[2], found[3]
    assert [(r.steps, r.seed) for r in one.recipes] == [(4, 1)]
    assert [(r.method, r.steps, r.seed) for r in two.recipes] == [("sft", 1, 1), ("grpo", 3, 1)]
    assert {r.evaluation.every for c in found for r in c.recipes if r.evaluation} == {1}
    assert two.recipes[1].model.path == "@s1"


def test_units_that_no_step_fixes_leave_the_steps_to_the_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, budget={"unit": "flops", "amount": 1e9, "beyond": 3}, methods__sft__set={"steps": 6})
    assert [r.steps for r in cells(path)[0].recipes] == [18]


def test_a_cell_is_named_by_what_decides_its_result(tmp_path: Path) -> None:
    before = [c.hash for c in cells(write(tmp_path))]
    assert len(set(before)) == 4
    other = write(tmp_path, question="Another?", primary__smallest=0.5, primary__control="both")
    assert [c.hash for c in cells(other)] == before
    assert [c.hash for c in cells(other, "seeds=3")][:4] == before
    changed = [c.hash for c in cells(other, "methods.sft.set={optimizer.lr: 1e-5}")]
    assert [a == b for a, b in zip(changed, before, strict=True)] == [False, True, False, True]


def test_later_stages_train_on_other_tasks_of_a_world_and_are_tested_on_the_same(tmp_path: Path) -> None:
    desk = {"kind": "desk", "count": 20}
    path = write(
        tmp_path, tasks__sums={"set": {"environment": desk}}, test__category="set",
        test__evaluation={"environment": {"kind": "desk", "count": 6, "split": "heldout"}},
    )  # fmt: skip
    first, second = cells(path)[3].recipes
    assert first.environment is not None and second.environment is not None
    assert (getattr(first.environment, "seed", 0), getattr(second.environment, "seed", 0)) == (None, 1001)
    assert first.evaluation is not None and second.evaluation is not None
    assert first.evaluation.environment == second.evaluation.environment


# ---------------------------------------------------------------- running


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A study that was stopped after its first cell and then run to its end: file, results, what ran in each."""
    folder = tmp_path_factory.mktemp("study")
    path, out = write(folder), folder / "out"
    spec, grid = read_study(path), cells(path)
    told: list[str] = []

    class Stopping(QuietProgress):
        def message(self, text: str) -> None:
            told.append(text)
            if text.startswith("1 of"):
                raise InterruptedRunError("stopped")

    with pytest.raises(InterruptedRunError):
        running.run_cells(spec, grid, running.Places(out, folder / "work"), Stopping(), run_pipeline)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = study(path, out=out, progress="quiet")
    return path, out, [told[1].split(":")[1].strip(), *done.ran]


def test_a_study_that_was_stopped_runs_what_is_left(ran: tuple[Path, Path, list[str]]) -> None:
    path, out, titles = ran
    assert titles == [cell.title for cell in cells(path)]
    assert {file.name for file in out.iterdir()} == {"cells", "results.json", "table.md", "evidence.json"}
    assert {file.name for file in (out / "cells").iterdir()} == {cell.file for cell in cells(path)}
    stamps = {file: file.stat().st_mtime_ns for file in (out / "cells").iterdir()}
    again = study(path, out=out, progress="quiet")
    assert again.ran == () and {file: file.stat().st_mtime_ns for file in stamps} == stamps


def test_a_cell_holds_its_curve_its_cost_and_its_settings(ran: tuple[Path, Path, list[str]]) -> None:
    path, out, _ = ran
    both = read_cell(place_of(out, cells(path)[1]))
    assert [(p["stage"], p["step"], p["spent"]["prompts"]) for p in both["points"]] == [(1, 0, 0), (1, 1, 4), (2, 1, 8)]
    assert [p["spent"]["sampled_tokens"] > 0 for p in both["points"]] == [False, False, True]
    assert all(p["right"].keys() == {"+"} and p["right"]["+"][1] == 6 for p in both["points"])
    assert [p["spent"]["flops"] for p in both["points"]] == sorted({p["spent"]["flops"] for p in both["points"]})
    last, ledger = both["points"][-1]["spent"], both["ledger"]
    assert ledger["policy"]["prompts"] == 8 and ledger["policy"]["trained_tokens"] == last["trained_tokens"]
    assert ledger["policy"]["flops"] == last["flops"]  # what the evaluations cost is not in it
    assert ledger["evaluation"]["flops"] > 0
    assert [stage["method"] for stage in both["stages"]] == ["sft", "grpo"]


def test_paired_seeds_start_from_the_same_value(ran: tuple[Path, Path, list[str]]) -> None:
    path, out, _ = ran
    values = [read_cell(place_of(out, cell)) for cell in cells(path)]
    assert values[0]["points"][0]["right"] == values[1]["points"][0]["right"]
    assert values[2]["points"][0]["right"] == values[3]["points"][0]["right"]


def test_the_table_comes_from_the_cells_alone(
    ran: tuple[Path, Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out, _ = ran
    before = (out / "table.md").read_text()
    (out / "table.md").unlink()
    monkeypatch.setattr(running, "_run", None)
    assert study(path, out=out, table=True).table == before == (out / "table.md").read_text()
    fewer = study(path, overrides=["seeds=3"], out=out, table=True)
    assert fewer.results["cells"]["done"] == 4 and fewer.results["cells"]["wanted"] == 6
    assert {one["reason"] for one in fewer.verdicts} == {"2 of 3 seeds are done"}


def test_the_command_prints_verdicts_or_json(
    ran: tuple[Path, Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, _ = ran
    words = ["study", str(path), "--out", str(out), "--table"]
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, *more])
        assert not ended.value.code
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(" both against sft") and "untested" in line for line in lines)
    assert f"4 of 4 cells; table: {out / 'table.md'}" in lines
    told = json.loads(lines[-1])
    assert told["event"] == "result" and told["out"] == str(out)
    assert told["results"] == json.loads((out / "results.json").read_text())
    with pytest.raises(SystemExit) as ended:
        main([*words, "seeds=none"])
    assert ended.value.code == 2 and "seeds: given 'none'" in capsys.readouterr().err


def test_another_budget_than_declared_is_refused_with_the_steps_that_would_meet_it(
    ran: tuple[Path, Path, list[str]], tmp_path: Path
) -> None:
    path, out, _ = ran
    spec, values = read_study(path), read_cell(place_of(out, cells(path)[1]))
    tokens = values["points"][-1]["spent"]["sampled_tokens"]
    strict = spec.budget.model_copy(update={"unit": "sampled_tokens", "amount": tokens / 2})
    one = cells(path)[1]
    with pytest.raises(
        InputError, match=rf"both, S, sums, seed 0 spent {tokens:g} sampled_tokens .*Give this method 1, 1"
    ):
        running.check_budget(strict, one, values)
    running.check_budget(strict.model_copy(update={"unequal": True}), one, values)
    running.check_budget(strict.model_copy(update={"amount": tokens * 1.01}), one, values)
    assert running.off_budget(strict, values) == pytest.approx(2)
