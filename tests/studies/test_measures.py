"""What evaluations come to: rows, categories, and two models on the same problems."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.studies import Evaluation, Item, categories_of, compare, mcnemar, minimum_lift, result_of, results_of
from burnish.studies.evaluation import labels_of, surprisal
from burnish.studies.measures import metrics_of
from burnish.studies.statistics import wilson_interval
from burnish.tasks import Task


def evaluated(right: list[list[bool | None]], *, temperature: float = 1.0, **more: Any) -> Evaluation:
    """An evaluation of problems with these answers; every third problem is of level 2."""
    items = [
        Item(
            task=f"p{i}", sample=s, prompt="?", text="!", tokens=(1, 2), length=2 + i % 3,
            finish="stop" if i else "length", correct=answer, well_formed=True, surprisal=0.5,
            labels={"level": "2" if i % 3 == 0 else "1"},
        )
        for i, answers in enumerate(right)
        for s, answer in enumerate(answers)
    ]  # fmt: skip
    params = {"max_tokens": 8, "temperature": temperature, "stop_ids": [0]}
    return Evaluation("sums", "policy", 0, params, 3, tuple(items), {"template": "plain"}, **more)


RIGHT = [[bool(x) for x in row] for row in np.random.default_rng(0).integers(0, 2, (30, 5))]


def test_pass_at_k_and_pass_all_k_equal_brute_force_over_the_answers() -> None:
    evaluation = evaluated(RIGHT)
    for k in (2, 4, 5):
        some = np.mean([[any(s) for s in itertools.combinations(row, k)] for row in RIGHT])
        every = np.mean([[all(s) for s in itertools.combinations(row, k)] for row in RIGHT])
        assert result_of(evaluation, f"pass@{k}").value == pytest.approx(some, abs=1e-12)
        assert result_of(evaluation, f"pass^{k}").value == pytest.approx(every, abs=1e-12)
    with pytest.raises(InputError, match="pass@6 needs 6 samples of each task, and 5 were drawn"):
        result_of(evaluation, "pass@6")


def test_rows_say_what_was_asked_and_how() -> None:
    rows = [json.loads(json.dumps(row.to_json())) for row in results_of(evaluated(RIGHT))]
    assert [row["metric"] for row in rows] == [
        "avg@5", "pass@2", "pass@4", "pass@5", "pass^2", "pass^4", "pass^5", "format_rate", "length", "truncated",
        "entropy",
    ]  # fmt: skip
    assert {row["task"] for row in rows} == {"sums"} and {row["n"] for row in rows} == {30}
    first = rows[0]
    assert first["value"] == pytest.approx(np.mean(RIGHT))
    assert first["interval"]["low"] < first["value"] < first["interval"]["high"]
    assert first["interval"]["method"] == "cluster wilson" and first["interval"]["confidence"] == 0.95
    assert first["sampling"] == {"max_tokens": 8, "temperature": 1.0, "stop_ids": [0], "samples": 5, "seed": 3}
    assert first["template"] == "plain" and first["missing"] == 0
    by_metric = {row["metric"]: row["value"] for row in rows}
    assert by_metric["length"] == 3 and by_metric["truncated"] == pytest.approx(1 / 30) and by_metric["entropy"] == 0.5


def test_one_greedy_answer_has_an_accuracy_by_wilson_and_no_entropy() -> None:
    evaluation = evaluated([[row[0]] for row in RIGHT], temperature=0.0)
    assert metrics_of(evaluation) == ["accuracy", "format_rate", "length", "truncated"]
    found = result_of(evaluation, "accuracy")
    assert found.interval == wilson_interval(sum(row[0] for row in RIGHT), 30) and found.method == "wilson"


def test_what_is_missing_is_counted_and_never_wrong() -> None:
    evaluation = evaluated([[True, None, True], [False, False, None], [None, None, None]])
    accuracy = result_of(evaluation, "avg@3")
    assert (accuracy.value, accuracy.n, accuracy.missing) == (0.5, 2, 5)
    both = result_of(evaluation, "pass^2")
    assert (both.value, both.n, both.missing) == (0.5, 2, 1)
    with pytest.raises(InputError, match="no value of 'pass@3'"):
        result_of(evaluation, "pass@3")
    with pytest.raises(InputError, match="no metric 'acuracy'; did you mean 'accuracy'"):
        result_of(evaluation, "acuracy")


def test_categories_are_the_problems_with_a_label() -> None:
    rows = categories_of(evaluated(RIGHT))
    assert [(row.category, row.n, row.metric) for row in rows] == [("level=1", 20, "avg@5"), ("level=2", 10, "avg@5")]
    assert rows[1].value == pytest.approx(np.mean(RIGHT[::3]))
    task = Task(prompt="x", domain="sums", difficulty=2.0, columns={"level": 3, "subject": "maths", "other": "no"})
    assert labels_of(task) == {"domain": "sums", "difficulty": "2", "level": "3", "subject": "maths"}


def test_surprisal_is_the_mean_of_minus_log_p_over_all_pieces() -> None:
    assert surprisal([np.array([-1.0, -2.0]), np.array([-6.0])]) == 3.0 and surprisal([]) is None


# ---------------------------------------------------------------- two models


def test_mcnemar_stands_beside_the_paired_interval_of_single_answers() -> None:
    before = evaluated([[i < 10] for i in range(40)], temperature=0.0)
    after = evaluated([[2 <= i < 30] for i in range(40)], temperature=0.0)
    found = compare(before, after)
    assert (found.improved, found.worsened) == (20, 2) and found.p_value == mcnemar(20, 2) < 0.001
    assert found.method == "paired bootstrap" and found.difference.estimate == pytest.approx(18 / 40)
    several = compare(evaluated(RIGHT), evaluated(RIGHT[::-1]), "pass@2")
    assert several.p_value is None and several.measure == "pass@2"
    other_stops = evaluated([[True]] * 40, temperature=0.0)
    other_stops.params["stop_ids"] = [7]  # another tokenizer's
    assert compare(before, other_stops).after.estimate == 1.0


def test_the_least_lift_is_the_category_that_an_average_hides() -> None:
    before = evaluated([[i % 3 == 0] for i in range(60)], temperature=0.0)
    after = evaluated([[i % 3 != 0] for i in range(60)], temperature=0.0)
    assert compare(before, after).difference.estimate == pytest.approx(1 / 3)
    least = minimum_lift(before, after, "level")
    assert (least.category, least.lift, least.problems) == ("2", -1.0, {"1": 40, "2": 20})
    assert least.low == -1.0 and least.high < 0 < least.categories["1"].low
    assert least.categories["1"].confidence == 0.975, "two categories: each interval at 1 - 0.05 / 2"
    with pytest.raises(InputError, match="no label 'topic' splits the problems of 'sums'; there are: level"):
        minimum_lift(before, after, "topic")


def test_one_problem_alone_gives_bounds_or_nothing() -> None:
    one = evaluated([[True]], temperature=0.0)
    assert compare(one, one).difference.low < 0 < compare(one, one).difference.high
    with pytest.raises(InputError, match="one problem alone"):
        compare(one, one, "length")
