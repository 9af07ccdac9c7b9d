"""The ledger: exact integers by role and quantity, readings that add up, a state that goes through JSON."""

from __future__ import annotations

import doctest
import importlib
import json

import numpy as np
import pytest

from burnish.ledger import QUANTITIES, Ledger, Quantity, duration_text, flops_text, lines, summed


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_counts_beyond_what_a_float_holds_stay_exact() -> None:
    ledger = Ledger()
    ledger.add("policy", "flops", 2**60)
    ledger.add("policy", "flops", 1)
    assert ledger.total("policy", "flops") == 2**60 + 1
    assert json.loads(json.dumps(ledger.to_json()))["policy"]["flops"] == 2**60 + 1
    again = Ledger()
    again.load(json.loads(json.dumps(ledger.state())))
    again.add("policy", "flops", 2)
    assert again.total("policy", "flops") == 2**60 + 3


def test_a_reading_holds_what_came_since_the_last_under_the_names_of_a_record() -> None:
    ledger = Ledger()
    ledger.add("policy", "rollouts", 8)
    ledger.add("policy", "prefilled_tokens", np.int64(40))
    ledger.add("critic", "trained_tokens", 7)
    ledger.add("reference", "seconds", 0.5)
    expected = {
        "samples": 8, "ledger/policy/prefilled_tokens": 40, "timing/ledger/reference/seconds": 0.5,
        "ledger/critic/trained_tokens": 7,
    }  # fmt: skip
    assert ledger.peek() == ledger.read() == expected
    assert ledger.read() == {}
    ledger.add("policy", "rollouts", 2)
    assert ledger.read() == {"samples": 2} and ledger.total("policy", "rollouts") == 10
    assert type(ledger.total("policy", "prefilled_tokens")) is int


def test_a_record_has_the_same_bytes_whatever_order_things_were_counted_in() -> None:
    one, two = Ledger(), Ledger()
    counts: list[tuple[str, Quantity]] = [("zeta", "flops"), ("evaluation", "prompts"), ("policy", "flops")]
    for role, quantity in counts:
        one.add(role, quantity)
    for role, quantity in reversed(counts):
        two.add(role, quantity)
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())
    assert json.dumps(one.read()) == json.dumps(two.read())


def test_a_resumed_ledger_reads_and_totals_as_one_that_never_stopped() -> None:
    clock = Clock()
    whole, killed = Ledger(clock), Ledger(clock)
    for ledger in (whole, killed):
        ledger.add("policy", "prompts", 2)
        ledger.read()
        ledger.add("run", "seconds", 1.5)
        ledger.add("evaluation", "rollouts", 3)
    state = json.loads(json.dumps(killed.state()))
    assert all("seconds" not in key for name in ("totals", "unread") for key in state[name])  # timing is kept apart
    resumed = Ledger(clock)
    resumed.add("policy", "prompts", 99)  # of a life that is not continued
    resumed.load(state)
    for ledger in (whole, resumed):
        ledger.add("policy", "prompts", 2)
    assert resumed.state() == whole.state()
    assert resumed.read() == whole.read() == {
        "prompts": 2, "ledger/evaluation/rollouts": 3, "timing/ledger/run/seconds": 1.5
    }  # fmt: skip
    with pytest.raises(KeyError):
        resumed.load({"totals": {"policy/apples": 1}, "unread": {}, "timing/totals": {}, "timing/unread": {}})


def test_overlapping_blocks_of_a_role_count_each_second_once_and_roles_count_apart() -> None:
    clock = Clock()
    ledger = Ledger(clock)
    with ledger.timed("policy"):
        clock.now += 1
        with ledger.timed("policy"), ledger.timed("reward"):
            clock.now += 2
        clock.now += 4
    clock.now += 100
    with pytest.raises(ZeroDivisionError), ledger.timed("policy"):
        clock.now += 8
        raise ZeroDivisionError
    clock.now = 0
    with ledger.timed("policy"):
        clock.now = -5  # a clock that is set back takes nothing away
    assert ledger.total("policy", "seconds") == 15 and ledger.total("reward", "seconds") == 2


def test_what_cannot_be_counted_is_refused_and_leaves_the_ledger_as_it_was() -> None:
    ledger = Ledger()
    wrong = [("policy", "apples", 1), ("policy", "flops", 1.0), ("policy", "flops", -1), ("a/b", "flops", 1),
             ("", "flops", 1), ("policy", "seconds", -0.1)]  # fmt: skip
    for role, quantity, amount in wrong:
        with pytest.raises(ValueError, match="quantity|whole numbers|counted down|slash"):
            ledger.add(role, quantity, amount)  # type: ignore[arg-type]
    assert ledger.to_json() == {} and ledger.read() == {}


def test_the_sum_of_a_runs_records_is_its_ledger() -> None:
    ledger, records = Ledger(), []
    for step in range(3):
        for role in ("policy", "critic"):
            for quantity in QUANTITIES:
                ledger.add(role, quantity, 10**18 + step)
        records.append(json.loads(json.dumps({"step": step, "loss": 0.5, "reward/numeric": 1.0, **ledger.read()})))
    assert summed(records) == ledger.to_json()


def test_people_read_at_most_three_lines() -> None:
    ledger = Ledger()
    ledger.add("policy", "prompts", 1600)
    ledger.add("policy", "flops", 2 * 10**15)
    ledger.add("reference", "scored_tokens", 5)
    ledger.add("reference", "flops", 10**15)
    ledger.add("reward", "reward_calls", 7)
    ledger.add("reward", "seconds", 0.25)
    ledger.add("run", "seconds", 120)
    assert ledger.lines() == [
        "policy: 1,600 prompts, 2.00 PFLOP",
        "reference: 5 tokens scored, 1.00 PFLOP; reward: 7 reward calls, 250 ms",
        "in all: 3.00 PFLOP, 2.0 min",
    ]
    assert lines({}) == ["in all: 0 FLOP"]


@pytest.mark.parametrize(
    ("flops", "text"),
    [(0, "0 FLOP"), (1000, "1.00 kFLOP"), (999_499, "999 kFLOP"), (999_500, "1.00 MFLOP"), (12_340_000, "12.3 MFLOP"),
     (9_996_000, "10.0 MFLOP"), (99_960_000, "100 MFLOP"), (10**29, "100000 YFLOP")],
)  # fmt: skip
def test_operations_have_three_digits_and_a_unit(flops: int, text: str) -> None:
    assert flops_text(flops) == text


def test_wall_time_is_told_in_the_unit_that_fits() -> None:
    told = {
        0.0364: "36 ms",
        0.9996: "1.0 s",
        9.94: "9.9 s",
        89.4: "89 s",
        90: "1.5 min",
        5399: "90.0 min",
        5400: "1.5 h",
    }
    assert {seconds: duration_text(seconds) for seconds in told} == told


@pytest.mark.parametrize("module", ["burnish.ledger", "burnish.models.flops"])
def test_the_examples_in_the_code_are_right(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0 and results.failed == 0
