"""Rows that nothing can judge: refused by name, or left out where the data says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.errors import InputError, Note
from burnish.running.assemble import assemble
from burnish.running.config import recipe_from_mapping

ROWS = [{"prompt": "1+1=", "answer": 2}, {"prompt": "2+2=", "answer": "four"}, {"prompt": "3+3=", "answer": 6}]


def recipe(folder: Path, data: dict[str, Any], **keys: Any) -> Any:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    values = {
        "method": "grpo", "prompts_per_step": 2, "model": {"path": "nursery:arithmetic-S", "dtype": "float32"},
        "data": data, "rewards": "numeric",
    }  # fmt: skip
    return recipe_from_mapping({**values, **keys})


def prompts(built: Any) -> set[str]:
    return {task.text for task in built.source.order.tasks}


def test_a_row_without_a_number_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2\+2=.*needs a number in column 'answer'"):
        assemble(recipe(tmp_path, {"path": str(tmp_path / "rows.jsonl")}))


def test_it_is_left_out_where_the_data_says_so_and_told(tmp_path: Path) -> None:
    with pytest.warns(Note, match=r"1 of 3 rows cannot be judged and are left out .*2\+2="):
        built = assemble(recipe(tmp_path, {"path": str(tmp_path / "rows.jsonl"), "on_bad_row": "skip"}))
    assert prompts(built) == {"1+1=", "3+3="}


def test_of_a_mix_only_the_part_that_says_so(tmp_path: Path) -> None:
    part = {"path": str(tmp_path / "rows.jsonl")}
    mix = {"mix": [{**part, "on_bad_row": "skip", "weight": 1}, {**part, "weight": 1}]}
    with pytest.raises(InputError, match="needs a number"):
        assemble(recipe(tmp_path, mix))
    mix["mix"][1]["answer"] = "prompt"  # no number in it either
    with pytest.raises(InputError, match="needs a number|needs 'answer'|which is not there"):
        assemble(recipe(tmp_path, mix))


def test_too_few_left_for_a_step_is_said(tmp_path: Path) -> None:
    data = {"path": str(tmp_path / "rows.jsonl"), "on_bad_row": "skip"}
    few = pytest.raises(InputError, match="a step takes 3 prompts, but data has only 2")
    with pytest.warns(Note), few:
        assemble(recipe(tmp_path, data, prompts_per_step=3))
    with pytest.raises(InputError, match="none of the 3 rows can be judged"):
        assemble(recipe(tmp_path, data, rewards={"kind": "numeric", "column": "prompt"}))


ENVIRONMENT = """
from burnish.environments import Environment, Observation, passed, said

class Echo(Environment):
    async def reset(self, task, *, seed):
        return said(task.text)

    async def step(self, action):
        return Observation(done=True)

    async def verify(self, attempt):
        return passed(True)
"""


def test_an_environment_gets_the_rows_that_fit_the_model(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ENVIRONMENT, "utf-8")
    environment = {"kind": "custom", "path": f"{tmp_path / 'echo.py'}:Echo"}
    data = {"path": str(tmp_path / "rows.jsonl"), "on_bad_row": "skip"}
    made = recipe(tmp_path, data, environment=environment, rewards=None)
    long = {"prompt": "7" * 600, "answer": 7}
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, long]), "utf-8")
    with pytest.warns(Note, match="1 of 4 rows do not fit the model"):
        built = assemble(made)
    assert prompts(built) == {"1+1=", "2+2=", "3+3="}
