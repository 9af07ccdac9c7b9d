"""What a recipe may say about sampling, and what is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from burnish.errors import InputError
from burnish.sampling import SamplingParams, SamplingSpec


def test_a_spec_becomes_the_parameters_of_a_call() -> None:
    spec = SamplingSpec(max_tokens=20, temperature=0.7, top_k=40, top_p=0.9, min_p=0.05)
    params = spec.params(stop_ids=[2, 5])
    assert params == SamplingParams(20, 0.7, 40, 0.9, 0.05, frozenset({2, 5}))
    assert params.truncates and not params.greedy


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": 1.5}, "min_p"),
        ({"temprature": 1}, "temprature"),
        ({"temperature": 0, "top_k": 5}, "top_k does nothing at temperature 0"),
    ],
)
def test_a_spec_that_cannot_be_meant_is_refused(keys: dict, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        SamplingSpec(**keys)


@pytest.mark.parametrize(
    "keys", [{"max_tokens": 0}, {"temperature": -0.1}, {"temperature": float("nan")}, {"top_k": -2}, {"min_p": -0.1}]
)  # fmt: skip
def test_parameters_out_of_range_are_refused_naming_the_parameter(keys: dict) -> None:
    with pytest.raises(InputError, match=next(iter(keys))):
        SamplingParams(**{"max_tokens": 4, **keys})


def test_cuts_that_cut_nothing_do_not_count_as_truncation() -> None:
    assert not SamplingParams(4, top_k=0, top_p=1.0, min_p=0.0).truncates
    assert not SamplingParams(4, temperature=0, top_k=5).truncates
