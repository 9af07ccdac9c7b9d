"""What a recipe's data may say: mixes, windows of recorded pass rates, curricula; and what contradicts itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.tasks import DataSpec
from burnish.tasks.build import read_data
from burnish.tasks.shares import Shares, whole_shares
from burnish.tasks.training import TrainingDataSpec

# ---------------------------------------------------------------- shares


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any), st.integers(0, 500))
def test_every_part_has_its_share_after_any_number_of_places(weights: list[int], start: int) -> None:
    shares = Shares([float(w) for w in weights])
    total = sum(weights)
    places = [shares.at(n) for n in range(start, start + 2 * shares.period)]
    for part, weight in enumerate(weights):
        for n in range(start, start + 2 * shares.period):
            exact = n * weight / total
            assert abs(shares.before(n, part) - exact) < 1
        assert shares.before(shares.period, part) * total == weight * shares.period
        own = [index for owner, index in places if owner == part]
        assert own == list(range(shares.before(start, part), shares.before(start, part) + len(own)))


def test_weights_are_what_people_mean_by_them() -> None:
    assert whole_shares([0.333333, 0.666667]) == [1, 2]
    assert whole_shares([0.1, 0.2, 0.7]) == [1, 2, 7]
    assert whole_shares([2, 0, 4]) == [1, 0, 2]
    assert [Shares([2, 1]).at(n)[0] for n in range(6)] == [0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "at least 0"), ([0.0], "one of them above"), ([-1.0, 2.0], "at least 0"), ([float("inf")], "at least 0"),
        ([float("nan")], "at least 0"), ([1.0, 1e-9], "less than 1/10000"),
        ([1 / 7, 1 / 9.1, 1 / 11.3, 1 / 13.7], "no common measure"),
    ],
)  # fmt: skip
def test_weights_without_shares_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        whole_shares(weights)


# ---------------------------------------------------------------- the spec


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"mix": [{"path": "a"}]}, "one part alone"),
        ({"mix": [{"path": "a"}, {"path": "b"}], "path": "c"}, "path: unused beside `mix`; put it into the parts"),
        ({"mix": [{"path": "a"}, {"path": "b"}], "style": "text"}, "style: unused beside `mix`"),
        ({"mix": [{"path": "a"}, {"family": "arithmetic", "limit": 3}]}, "limit: only for rows of a file"),
        ({"mix": [{"path": "a", "weight": 0}, {"path": "b"}]}, "greater than 0"),
        ({"mix": [{"path": "a", "weight": 1e-9}, {"path": "b"}]}, "less than 1/10000 of the largest"),
        ({"mix": [{"path": "a"}, {"mix": [{"path": "b"}]}]}, "mix"),
        ({"path": "a", "weight": 2}, "weight"),
        ({"path": "a", "window": {}}, "every pass rate lies between 0 and 1"),
        ({"path": "a", "window": {"low": 0.5, "high": 0.1}}, "low 0.5 is above high 0.1"),
        ({"path": "a", "window": {"low": 0.1, "column": "rate", "rest": 3}}, "rest: unused, since `column` has"),
        ({"path": "a", "window": {"low": 0.1, "column": "rate", "passing": 0.5}}, "passing: unused"),
        ({"path": "a", "curriculum": {"stages": []}}, "at least 1"),
        ({"path": "a", "curriculum": {"stages": [{"start": 3, "high": 1}]}}, "the first stage starts after 3 steps"),
        ({"path": "a", "curriculum": {"stages": [{"high": 1}, {"start": 0}]}}, "each must start later"),
        ({"path": "a", "curriculum": {"stages": [{"low": 2, "high": 1}]}}, "no difficulty lies between them"),
        ({"path": "a", "curriculum": {"stages": [{}]}}, "no stage says which tasks it takes"),
        ({"path": "a", "curriculum": {"stages": [{"weights": [1]}]}}, "stages.0.weights: unused without `mix`"),
        ({"mix": [{"path": "a"}, {"path": "b"}], "curriculum": {"stages": [{"weights": [1]}]}},
         "1 weights for 2 parts"),
        ({"mix": [{"path": "a"}, {"path": "b"}], "curriculum": {"stages": [{"weights": [0, 0]}]}}, "one of them above"),
        ({"mix": [{"path": "a"}, {"path": "b"}],
          "curriculum": {"column": "level", "stages": [{"weights": [1, 1]}]}}, "column: unused, since no stage has"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(keys: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingDataSpec.model_validate(keys)


def test_an_evaluation_has_no_mix() -> None:
    with pytest.raises(ValueError, match="mix"):
        DataSpec.model_validate({"mix": [{"path": "a"}, {"path": "b"}]})


def test_a_spec_that_is_written_out_loads_again() -> None:
    spec = TrainingDataSpec.model_validate(
        {"mix": [{"path": "a", "weight": 2}, {"family": "arithmetic"}], "window": {"low": 0.1},
         "curriculum": {"stages": [{"high": 2}, {"start": 5, "weights": [0, 1]}]}}
    )  # fmt: skip
    assert TrainingDataSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert [part.path for part in spec.parts] == ["a", None]


# ---------------------------------------------------------------- reading


def rows(path: Path, count: int, **columns: Any) -> str:
    path.write_text(
        "".join(json.dumps({"prompt": f"{path.stem} {i}", "rate": i / 10, **columns}) + "\n" for i in range(count))
    )
    return str(path)


def data(**keys: Any) -> TrainingDataSpec:
    return TrainingDataSpec.model_validate(keys)


def test_a_mix_reads_every_part_and_tells_how(tmp_path: Path) -> None:
    spec = data(mix=[{"path": rows(tmp_path / "a.jsonl", 3)},
                     {"family": {"kind": "arithmetic", "count": 2}}])  # fmt: skip
    read = read_data(spec)
    assert [task.part for task in read.tasks] == [0, 0, 0, 1, 1]
    [line] = read.told
    assert line.startswith(f"mix.0: {tmp_path / 'a.jsonl'}: format prompt, told by the columns prompt")


def test_a_task_in_two_parts_has_an_id_in_each(tmp_path: Path) -> None:
    path = rows(tmp_path / "a.jsonl", 3)
    read = read_data(data(mix=[{"path": path}, {"path": path}]))
    assert len({task.id for task in read.tasks}) == 6


def test_a_window_keeps_the_recorded_rates_between_its_bounds(tmp_path: Path) -> None:
    path = rows(tmp_path / "a.jsonl", 10)
    read = read_data(data(path=path, window={"low": 0.2, "high": 0.5, "column": "rate"}))
    assert [task.columns["rate"] for task in read.tasks] == [0.2, 0.3, 0.4, 0.5]
    assert read.told[-1] == "window: 4 of 10 tasks have rate in 0.2 to 0.5"
    with pytest.raises(InputError, match=r"no task has rate in 0.95 to 1; the rates lie between 0 and 0.9"):
        read_data(data(path=path, window={"low": 0.95, "column": "rate"}))
    with pytest.raises(
        InputError, match=r"a.jsonl, line 1: no column 'raet' \(data.window.column\); did you mean 'rate'"
    ):
        read_data(data(path=path, window={"low": 0.5, "column": "raet"}))
    for value, message in ((None, "must be a number, not null"), (True, "not true or false"), (1.5, "is 1.5, no pass")):
        bad = rows(tmp_path / "b.jsonl", 1, rate=value)
        with pytest.raises(InputError, match=message):
            read_data(data(path=bad, window={"low": 0.5, "column": "rate"}))


def test_a_family_holds_no_preferences() -> None:
    with pytest.raises(InputError, match="generated tasks hold prompts and demonstrations, not preferences"):
        read_data(data(family="arithmetic"), want="preferences")
