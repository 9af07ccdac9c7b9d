"""The adviser: what applies, what it costs, why the others do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import burnish
from burnish.errors import InputError
from burnish.methods.budgets import parse_budget
from burnish.methods.costs import Sizes, flops_of, shape_of, step_cost
from burnish.methods.planning import spread
from burnish.methods.plans import Choice, Plan
from burnish.methods.registry import DECLARED, METHODS
from burnish.running.config import load_recipe
from tests.cli.commands import ROOT

MODEL = "nursery:arithmetic-S"


def plan(**options: object) -> Plan:
    settings = {"want": "correct", "have": ["verifier", "demonstrations"], "model": MODEL, **options}
    return burnish.plan(**settings)  # type: ignore[arg-type]


def names(found: Plan) -> list[str]:
    return [each.method.name for each in found.applicable]


def choice(name: str, found: Plan) -> Choice:
    return next(each for each in found.applicable if each.method.name == name)


def test_what_applies_follows_from_the_feedback_and_the_behaviour_alone() -> None:
    for method in (METHODS[name] for name in DECLARED):
        for wanted in ("correct", "imitate", "please"):
            for kind in ("verifier", "demonstrations", "preferences"):
                found = burnish.plan(wanted, kind)
                applies = wanted in method.serves and kind in method.needs
                assert (method.name in names(found)) == applies
                assert (method.name in found.others) != applies


def test_methods_come_in_the_order_of_their_names() -> None:
    found = plan()
    assert names(found) == sorted(names(found)) and len(names(found)) >= 2
    assert "In the order of their names" in str(found) and found.to_json()["order"] == "by name; none is a default"


def test_the_others_say_why_not() -> None:
    found = burnish.plan("please", "preferences")
    assert not found.applicable and "No method of this version applies." in str(found)
    assert found.others["sft"] == (
        "it learns from demonstrations, and you have none of them",
        "it serves imitate, correct, act, keep-form or know, not please",
    )


@pytest.mark.parametrize(("rate", "says"), [(0.0, "no sample is right"), (1.0, "every sample is right")])
def test_where_samples_do_not_differ_a_method_that_compares_them_does_not_apply(rate: float, says: str) -> None:
    found = plan(rate=rate)
    assert "sft" in names(found) and "grpo" not in names(found) and says in found.others["grpo"][0]


def test_the_share_of_groups_that_teach_is_the_binomial_one() -> None:
    """By counting: of 2^3 equally likely groups of three samples six are mixed."""
    assert spread(0.5, 3) == pytest.approx(6 / 8)
    note = next(n for n in choice("grpo", plan(rate=0.25, samples_per_prompt=4)).notes if "rate" in n)
    assert f"{1 - 0.25**4 - 0.75**4:.0%} of the groups of 4" in note


# ---------------------------------------------------------------- cost


def test_the_cost_of_a_step_is_what_runs_have_in_their_ledgers() -> None:
    """docs/ledger.md counts a prompt of 10 tokens with two answers of 4 by hand."""
    recipe = load_recipe(ROOT / "recipes/nursery/grpo.yaml", ["prompts_per_step=1", "samples_per_prompt=2"])
    cost = step_cost(METHODS["grpo"].declare(recipe), Sizes(prompt=10, answer=4), shape_of(MODEL))
    sampling = 16598400
    keys = sum(range(1, 11)) + 2 * (11 + 12 + 13 + 14)
    training = 3 * (2 * 506880 * 18 + 2 * 960 * keys + 2 * 96 * 100 * 8)  # as on the page
    expected = {
        "prompts": 1, "rollouts": 2, "sampled_tokens": 8, "prefilled_tokens": 10, "trained_tokens": 8,
        "flops": sampling + training,
    }  # fmt: skip
    assert cost == {"policy": expected}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_cost_of_a_committed_run_is_estimated_within_a_hundredth(seed: int) -> None:
    """What it measured, from its mean lengths: 8 prompt tokens and 3.6 answer tokens, rounded to whole ones around."""
    run = json.loads((ROOT / f"benchmarks/results/rlvr/nursery-grpo/seed-{seed}.json").read_text("utf-8"))
    counts = run["ledger"]["policy"]
    prompt, answer = counts["prefilled_tokens"] // counts["prompts"], counts["sampled_tokens"] / counts["rollouts"]
    declared = METHODS["grpo"].declare(load_recipe(ROOT / "recipes/nursery/grpo.yaml"))
    low, high = (flops_of(step_cost(declared, Sizes(prompt, int(answer) + n), shape_of(MODEL))) for n in (0, 1))
    estimate = run["steps"] * (low + (answer % 1) * (high - low))
    assert estimate == pytest.approx(counts["flops"], rel=0.01)


def test_a_reference_a_rescoring_and_passes_are_counted() -> None:
    path = ROOT / "recipes/nursery/grpo.yaml"

    def cost(*changes: str) -> dict[str, dict[str, float]]:
        return step_cost(METHODS["grpo"].declare(load_recipe(path, changes)), Sizes(8, 4), shape_of(MODEL))

    plain, twice = cost(), cost("options.passes=2")
    scored = cost("options.kl=0.1")["reference"]
    again = cost("options.old=learner")["policy"]
    training = twice["policy"]["flops"] - plain["policy"]["flops"]
    assert scored["scored_tokens"] == plain["policy"]["trained_tokens"] == again["scored_tokens"]
    assert scored["flops"] * 3 == training and again["flops"] - plain["policy"]["flops"] == scored["flops"]
    assert twice["policy"]["trained_tokens"] == 2 * plain["policy"]["trained_tokens"]


def test_a_greedy_answer_to_compare_with_is_sampled_and_not_trained() -> None:
    found = burnish.plan("correct", "verifier", model=MODEL, prompts_per_step=3, samples_per_prompt=4, answer_tokens=5)
    remax, rloo = (choice(name, found).cost for name in ("remax", "rloo"))
    assert remax is not None and rloo is not None
    counts, without = remax.per_step["policy"], rloo.per_step["policy"]
    assert (counts["rollouts"], without["rollouts"]) == (15, 12)
    assert counts["sampled_tokens"] - without["sampled_tokens"] == 15
    assert counts["trained_tokens"] == without["trained_tokens"] and counts["flops"] > without["flops"]


def test_one_sample_of_a_prompt_is_for_methods_that_compare_no_group() -> None:
    found = burnish.plan("correct", "verifier", samples_per_prompt=1)
    assert {"reinforce++", "remax"} <= set(names(found)) and "grpo" not in names(found)
    assert "a group of one has nothing to compare" in found.others["grpo"][0]


def test_demonstrations_cost_no_samples() -> None:
    sft = choice("sft", burnish.plan("correct", "demonstrations", model=MODEL, prompts_per_step=3, answer_tokens=5))
    assert sft.cost is not None and set(sft.cost.per_step["policy"]) == {"prompts", "trained_tokens", "flops"}
    assert sft.cost.per_step["policy"]["trained_tokens"] == 15


def test_calls_of_a_reward_function_are_counted_and_checks_are_not() -> None:
    with_function = choice("grpo", burnish.plan("correct", "reward-function", model=MODEL, prompts_per_step=5))
    with_check = choice("grpo", burnish.plan("correct", "verifier", model=MODEL))
    assert with_function.cost is not None and with_function.cost.per_step["reward"] == {"reward_calls": 5}
    assert with_check.cost is not None and "reward" not in with_check.cost.per_step


def test_a_budget_says_how_many_steps_it_pays_for() -> None:
    grpo = choice(
        "grpo", burnish.plan("correct", "verifier", model=MODEL, budget="1000 rollouts", samples_per_prompt=10)
    )
    assert grpo.cost is not None and grpo.cost.budget_steps == 12  # of 8 x 10 rollouts
    assert any("more than the budget pays for" in note for note in grpo.notes)
    found = burnish.plan("correct", "verifier", model=MODEL, budget="79 rollouts", samples_per_prompt=10)
    assert found.others["grpo"] == ("one step costs 80 rollouts, more than the budget of 79 rollouts",)
    both = plan(budget="79 rollouts", samples_per_prompt=10)
    assert names(both) == ["sft"] and "it spends none of the budget's rollouts" in both.applicable[0].notes


def test_time_is_told_at_the_rate_of_measured_runs() -> None:
    grpo = choice("grpo", burnish.plan("correct", "verifier", model=MODEL, budget="1 h"))
    cost = grpo.cost
    assert cost is not None and cost.rate is not None and cost.seconds is not None and cost.budget_steps is not None
    assert cost.seconds == pytest.approx(cost.flops / cost.rate.flops_per_second)
    assert cost.budget_steps == int(3600 / (cost.seconds / cost.steps))
    assert "our runs of 517,536 parameters" in cost.rate.where
    large = choice("grpo", burnish.plan("correct", "verifier", parameters=2e8))
    assert large.cost is not None and large.cost.rate is not None and "134,515,008" in large.cost.rate.where


def test_a_models_shape_is_read_from_its_configuration(tmp_path: Path) -> None:
    shape = shape_of(MODEL)
    folder = ROOT / "burnish/nursery_models/arithmetic-S"
    assert shape_of(str(folder)) == shape and (shape.maps, shape.attention, shape.head) == (506880, 960, 9600)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_local_experts": 8}))
    with pytest.raises(InputError, match="no dense decoder.*num_local_experts.*give its parameters"):
        burnish.plan("correct", "verifier", model=str(tmp_path))


# ---------------------------------------------------------------- what is wrong is told


@pytest.mark.parametrize(
    ("text", "amount", "quantity"),
    [
        ("2PFLOP", 2e15, "flops"), ("2 PFlop", 2e15, "flops"), ("1e15 flops", 1e15, "flops"),
        ("30min", 1800, "seconds"), ("1.5 hours", 5400, "seconds"), ("5,000 rollouts", 5e3, "rollouts"),
        ("100k sampled_tokens", 1e5, "sampled_tokens"),
        ("2M tokens", 2e6, "sampled_tokens"), ("300 Judge calls", 300, "judge_calls"), ("10 Prompts", 10, "prompts"),
    ],
)  # fmt: skip
def test_budgets_are_read(text: str, amount: float, quantity: str) -> None:
    found = parse_budget(text)
    assert (found.amount, found.quantity) == (pytest.approx(amount), quantity)


WRONG: list[tuple[dict[str, object], str]] = [
    ({"want": "corect"}, "there is no behaviour 'corect'; did you mean 'correct'?"),
    ({"have": ["verifer"]}, "there is no kind of feedback 'verifer'; did you mean 'verifier'?"),
    ({"have": []}, "have: name at least one"),
    ({"budget": "3 bananas"}, "there is no unit 'bananas'; there are: FLOP"),
    ({"budget": "3 rolouts"}, "did you mean 'rollouts'?"),
    ({"budget": "2 pflop"}, "did you mean 'PFLOP'?"),
    ({"budget": "lots"}, "no number with a unit"),
    ({"budget": "-3 min"}, "no number with a unit"),
    ({"budget": "12"}, "has no unit"),
    ({"budget": "0 min"}, "positive"),
    ({"budget": "1e999 min"}, "finite"),
    ({"budget": "3 min", "model": None}, "which model it is for"),
    ({"model": "nursery:nothing"}, "burnish nursery list"),
    ({"model": "nowhere"}, "is not at hand"),
    ({"parameters": 1e6}, "name one of the two"),
    ({"model": None, "parameters": 0.0}, "it takes 1 to 1e15"),
    ({"rate": 1.5}, "a share lies between 0 and 1"),
    ({"answer_tokens": 0}, "answer_tokens: given 0"),
    ({"samples_per_prompt": 0}, "samples_per_prompt: given 0"),
    ({"steps": 10**12}, "steps: given 1000000000000"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_wrong_input_is_told_with_the_fix(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        plan(**options)
    assert message in str(error.value)
