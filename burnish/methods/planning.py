"""Which methods apply to what somebody wants, has and can spend, what each would cost, and why the others do not.

Everything comes from the declarations, the ledger's formulas and the results folder. There is no ranking: methods are
told in the order of their names. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from burnish.errors import InputError
from burnish.ledger import SAID
from burnish.methods.budgets import Budget, said
from burnish.methods.costs import flops_of, step_cost, total_of
from burnish.methods.evidence import evidence_of
from burnish.methods.method import Behaviour, Declaration, Method, Need
from burnish.methods.plans import Choice, Expected, Plan, Rate, Situation
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.signals.spec import GroupAdvantageSpec
from burnish.sources.spec import RolloutsSpec
from burnish.tasks.suggest import did_you_mean


def make_plan(situation: Situation, methods: Iterable[Method], check: Callable[[Recipe], None]) -> Plan:
    """Put every method to the situation. `check` raises InputError for a recipe whose keys contradict each other.

    Raises InputError for sizes that every method's recipe refuses.
    """
    applicable: list[Choice] = []
    others: dict[str, tuple[str, ...]] = {}
    refused: list[InputError] = []
    for method in (known := sorted(methods, key=lambda m: m.name)):
        try:
            recipe = smallest_recipe(method, situation.work)
            check(recipe)
        except InputError as error:
            others[method.name] = (str(error),)
            refused.append(error)
            continue
        declaration = method.declare(recipe)
        cost = _expected(method, recipe, declaration, situation)
        if reasons := _reasons(method, declaration, cost, situation):
            others[method.name] = tuple(reasons)
            continue
        uses: tuple[Need, ...] = tuple(kind for kind in method.needs if kind in situation.have)
        how: dict[Behaviour, str] = {name: method.serves[name] for name in situation.want if name in method.serves}
        notes = tuple(_notes(recipe, declaration, cost, situation))
        found = tuple(evidence_of(method.name))
        applicable.append(Choice(method, uses, how, models_of(declaration), cost, notes, found))
    if refused and len(refused) == len(known):
        raise refused[0]
    return Plan(situation, tuple(applicable), others)


def smallest_recipe(method: Method, work: Mapping[str, int] | None = None) -> Any:
    """A recipe of a method with nothing set but what it must have: what its declaration looks like by default.

    `work` sets keys that all recipes or those of methods that sample have. Raises InputError for a value that a
    recipe refuses.
    """
    fields = method.recipe.model_fields
    keys: dict[str, Any] = {key: value for key, value in (work or {}).items() if key in fields}
    family = {"kind": "arithmetic", "count": max(1000, keys.get("prompts_per_step", 0))}  # as many as a step takes
    keys |= {"method": method.name, "model": {"path": "nursery:S"}, "data": {"family": family}}
    if issubclass(method.recipe, RolloutRecipe):
        keys["rewards"] = {"kind": "numeric"}
    try:
        return method.recipe.model_validate(keys)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        told = f"{place}: given {first['input']!r}; " if place else ""
        raise InputError(told + first["msg"].removeprefix("Value error, ")) from None


def models_of(declaration: Declaration) -> tuple[str, ...]:
    """Models that a method computes with beside the policy: those that are frozen, and other learners."""
    learners = dict.fromkeys(phase.learner for phase in declaration.controller.phases if phase.learner != "policy")
    return (*declaration.references, *learners)


# ---------------------------------------------------------------- what applies


def _reasons(method: Method, declaration: Declaration, cost: Expected | None, situation: Situation) -> list[str]:
    """Why a method does not apply; nothing when it does."""
    reasons = []
    if not set(method.needs) & set(situation.have):
        reasons.append(f"it learns from {_or(method.needs)}, and you have none of them")
    if not set(method.serves) & set(situation.want):
        reasons.append(f"it serves {_or(list(method.serves))}, not {_or(situation.want)}")
    if _learns_from_spread(declaration) and situation.rate in (0.0, 1.0):
        always = "no sample is" if situation.rate == 0 else "every sample is"
        reasons.append(f"it learns from differences between samples, and {always} right: there are none")
    if cost is not None and cost.budget_steps == 0 and situation.budget is not None:
        one = _spent(cost, situation.budget)
        assert one is not None  # or the budget would not limit it
        reasons.append(
            f"one step costs {said(situation.budget.quantity, one)}, more than the budget of {situation.budget}"
        )
    return reasons


def _learns_from_spread(declaration: Declaration) -> bool:
    annotators = [a for phase in declaration.controller.phases for a in phase.annotators]
    return any(isinstance(annotator, GroupAdvantageSpec) for annotator in annotators)


def _compares_a_group(declaration: Declaration) -> bool:
    """Whether it learns from how the samples of one prompt differ, and not from how they differ from something else."""
    annotators = [a for phase in declaration.controller.phases for a in phase.annotators]
    advantages = [a for a in annotators if isinstance(a, GroupAdvantageSpec)]
    return any(a.estimator != "reinforce_pp" and a.baseline not in ("greedy", "moving_average") for a in advantages)


def _notes(recipe: Recipe, declaration: Declaration, cost: Expected | None, situation: Situation) -> Iterable[str]:
    """What somebody in this situation should know."""
    source = declaration.source
    if _compares_a_group(declaration) and isinstance(source, RolloutsSpec):
        if situation.rate is None:
            yield "it needs right and wrong samples of the same prompt: `burnish eval` measures today's rate (--rate)"
        else:
            samples = source.samples_per_prompt
            share = f"{spread(situation.rate, samples):.0%} of the groups of {samples}"
            yield f"at a rate of {situation.rate:g} at most {share} hold right and wrong samples; only those teach"
    if cost is not None and cost.budget_steps is not None and cost.budget_steps < recipe.steps:
        yield f"the {recipe.steps} steps asked for are more than the budget pays for"
    if situation.budget is not None and cost is not None and cost.budget_steps is None:
        if situation.budget.quantity == "seconds":
            yield "no run was measured that would tell how fast it is: the budget of time is not held against it"
        else:
            yield f"it spends none of the budget's {SAID.get(situation.budget.quantity, situation.budget.quantity)}"


def spread(rate: float, samples: int) -> float:
    """Largest share of groups with right and wrong samples, of prompts whose rates of right samples average `rate`.

    1 - p^G - (1 - p)^G is concave in p, so prompts of different rates have fewer such groups than prompts of one.

    >>> spread(0.5, 2), round(spread(0.1, 8), 3)
    (0.5, 0.57)
    """
    return 1 - rate**samples - (1 - rate) ** samples


# ---------------------------------------------------------------- cost


def _expected(method: Method, recipe: Recipe, declaration: Declaration, situation: Situation) -> Expected | None:
    if situation.shape is None:
        return None
    per_step = step_cost(declaration, situation.sizes, situation.shape)
    called = "reward-function" in situation.have and "verifier" not in situation.have  # built-in checks are not counted
    if called and "reward-function" in method.needs:
        per_step["reward"] = {"reward_calls": declaration.source.prompts_per_step}
    unlimited = Expected(recipe.steps, per_step, measured_rate(method, situation.parameters), None)
    if situation.budget is None:
        return unlimited
    one = _spent(unlimited, situation.budget)
    steps = None if not one else math.floor(situation.budget.amount / one)
    return Expected(recipe.steps, per_step, unlimited.rate, steps)


def _spent(cost: Expected, budget: Budget) -> float | None:
    """What one step spends of the budget's quantity; None where it spends none, or nobody can tell."""
    if budget.quantity == "seconds":
        return None if cost.rate is None else flops_of(cost.per_step) / cost.rate.flops_per_second
    if budget.quantity == "flops":
        return flops_of(cost.per_step)
    return total_of(cost.per_step, budget.quantity) or None


def measured_rate(method: Method, parameters: int | None) -> Rate | None:
    """Operations a second of a method: the median of its measured runs whose model is nearest in size; None of none."""
    runs = [
        (entry.parameters, entry.cost.flops / entry.cost.seconds, entry.cost.machine)
        for entry in evidence_of(method.preset_of or method.name)
        if entry.cost is not None and entry.cost.seconds and entry.parameters
    ]
    if not runs or not parameters:
        return None
    nearest = min((size for size, _, _ in runs), key=lambda size: abs(math.log(size / parameters)))
    rates = sorted(rate for size, rate, _ in runs if size == nearest)
    machine = next(machine for size, _, machine in runs if size == nearest)
    return Rate(
        float(f"{rates[len(rates) // 2]:.4g}"),
        f"our runs of {nearest:,} parameters ({machine}; median of {len(rates)})",
    )


# ---------------------------------------------------------------- words


def known(words: Iterable[str], kinds: Any, what: str) -> tuple[Any, ...]:
    """The words, each once. Raises InputError for one that is not in the Literal `kinds`."""
    found = tuple(dict.fromkeys(words))
    for word in found:
        if word not in get_args(kinds):
            raise InputError(f"there is no {what} {word!r}; {did_you_mean(word, get_args(kinds))}")
    return found


def _or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"
