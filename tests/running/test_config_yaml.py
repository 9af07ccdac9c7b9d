"""YAML of recipes: merges say what they mean, and a file that grows without bound is refused (promise E10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnish.errors import InputError
from burnish.running.config import load_recipe
from burnish.running.origins import recipe_with_origins

HEAD = "method: grpo\nmodel: {path: x}\nrewards: numeric\n"
FAMILY = "data:\n  family: &family\n    kind: arithmetic\n    digits: [3]\n    count: 50\n"


def _written(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _fails(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as error:
        load_recipe(_written(folder, text))
    return str(error.value).replace(f"{folder}/", "")


def test_what_is_written_beside_a_merge_wins_and_the_rest_is_merged(tmp_path: Path) -> None:
    text = HEAD + FAMILY
    text += "evaluation:\n  data:\n    family:\n      split: heldout\n      <<: *family\n      count: 9\n"
    recipe, origins = recipe_with_origins(_written(tmp_path, text))
    held_out: Any = recipe.evaluation and recipe.evaluation.data.family
    assert (held_out.digits, held_out.count, held_out.split) == ((3,), 9, "heldout")
    lines = {name: origins[f"evaluation.data.family.{name}"].line for name in ("digits", "count", "split", "question")}
    assert lines == {"digits": 7, "count": 14, "split": 12, "question": None}


def test_a_merge_of_a_merge_gives_the_nearest_value(tmp_path: Path) -> None:
    text = HEAD + FAMILY.replace("family: &family", "family: &family\n    <<: {digits: [1], split: heldout}")
    text += "evaluation: {data: {family: {<<: *family, split: train}}}\n"
    recipe: Any = load_recipe(_written(tmp_path, text))
    assert (recipe.data.family.digits, recipe.data.family.split) == ((3,), "heldout")
    again = recipe.evaluation.data.family
    assert (again.digits, again.count, again.split) == ((3,), 50, "train")


@pytest.mark.parametrize("given", ["[*a, *b]", "[*b, *a]", "[*a, *a]"])
def test_two_merges_that_give_the_same_key_are_refused(tmp_path: Path, given: str) -> None:
    text = HEAD + (
        "data: {family: arithmetic}\noptimizer: &a {lr: 1}\nsampling: &b {lr: 2, top_k: 3}\n"
        f"learner:\n  <<: {given}\n"
    )
    assert "learner.lr is merged twice, from line " in _fails(tmp_path, text)


def test_two_merges_that_give_different_keys_are_both_taken(tmp_path: Path) -> None:
    text = HEAD + "data: {family: arithmetic}\noptimizer:\n  <<: [{lr: 1}, {eps: 2}]\n  lr: 3\n"
    optimizer = load_recipe(_written(tmp_path, text)).optimizer
    assert (optimizer.lr, optimizer.eps) == (3, 2)


def test_a_mistake_in_a_merged_mapping_is_placed_where_it_is_written(tmp_path: Path) -> None:
    text = HEAD + FAMILY.replace("count: 50", "cuont: 50") + "evaluation: {data: {family: {<<: *family}}}\n"
    lines = _fails(tmp_path, text).splitlines()
    assert len(lines) == 2 and all(line.startswith("recipe.yaml, line 8: there is no key") for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimizer:\n  <<: {lr: 1}\n  <<: {eps: 1}\n", "line 6, column 3: optimizer.<< is given twice"),
        ("optimizer:\n  <<: {lr: 1, lr: 2}\n", "optimizer.lr is given twice"),
        ("optimizer: {<<: 3}\n", "not YAML"),
        ("optimizer: {<<: {[a]: 3}}\n", "a key must be a word"),
        ("optimizer: &o {<<: *o}\n", "an alias refers to the mapping or list it stands in"),
        ("optimizer: &o {<<: {<<: *o}}\n", "an alias refers to the mapping or list it stands in"),
        ("optimizer: *nothing\n", "not YAML (found undefined alias 'nothing')"),
    ],
)
def test_a_wrong_merge_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in _fails(tmp_path, HEAD + text)


BOMB = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n" + "".join(
    f"a{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(10))}]\n" for n in range(1, 12)
)
MERGED = "a0: &a0 {k: 1}\n" + "".join(f"a{n}: &a{n} {{<<: *a{n - 1}, x{n}: *a{n - 1}}}\n" for n in range(1, 40))


@pytest.mark.parametrize("bomb", [BOMB, MERGED], ids=["lists", "merges"])
def test_aliases_that_grow_without_bound_are_refused_before_they_do(tmp_path: Path, bomb: str) -> None:
    assert "more than 100,000 values, with those that aliases repeat" in _fails(tmp_path, HEAD + bomb)


def test_a_bomb_on_the_command_line_is_refused_too(tmp_path: Path) -> None:
    path = _written(tmp_path, HEAD + "data: {family: arithmetic}\n")
    value = "[&a [1,1,1,1,1,1,1,1,1,1], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]"
    value += ", &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c], &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d], [*e,*e,*e]]"
    with pytest.raises(InputError, match="command line, data.family.digits.*100,000 values"):
        load_recipe(path, [f"data.family.digits={value}"])


@pytest.mark.parametrize("text", ["a: " + "[" * 600, "".join(f"{' ' * n}a:\n" for n in range(2000))])
def test_a_file_nested_too_deeply_is_refused(tmp_path: Path, text: str) -> None:
    assert "nested too deeply to read" in _fails(tmp_path, HEAD + text)
