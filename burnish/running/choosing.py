"""The adviser: which methods apply to a situation. No torch here."""

from __future__ import annotations

from collections.abc import Iterable

from burnish.errors import InputError
from burnish.methods.budgets import parse_budget
from burnish.methods.costs import Shape, Sizes, of_parameters, shape_of
from burnish.methods.method import Behaviour, Need
from burnish.methods.planning import known, make_plan
from burnish.methods.plans import Plan, Situation
from burnish.methods.registry import METHODS
from burnish.models.nursery import parameters as nursery_parameters
from burnish.models.nursery_shapes import PREFIX
from burnish.running.contradictions import check_recipe


def plan(
    want: str | Iterable[str],
    have: str | Iterable[str],
    *,
    budget: str | None = None,
    model: str | None = None,
    parameters: float | None = None,
    prompt_tokens: int = 64,
    answer_tokens: int = 64,
    steps: int | None = None,
    prompts_per_step: int | None = None,
    samples_per_prompt: int | None = None,
    rate: float | None = None,
) -> Plan:
    """The methods that apply, with needs, cost and what was measured, and why the others do not; in order of names.

    `want` are behaviours ("correct", "imitate", ...), `have` kinds of feedback ("verifier", ...), `budget` a text such
    as "2PFLOP", "30min" or "5000 rollouts". Costs need the size of the model: `model` is a nursery model or a folder
    with a config.json, or else `parameters` is how many it has. `prompt_tokens` and `answer_tokens` are expected
    lengths. `rate` is the share of samples that are right today, where it is known. Raises InputError for anything
    that is not known or cannot be.
    """
    wanted = known([want] if isinstance(want, str) else want, Behaviour, "behaviour")
    held = known([have] if isinstance(have, str) else have, Need, "kind of feedback")
    if not wanted or not held:
        raise InputError(f"{'want' if not wanted else 'have'}: name at least one")
    if rate is not None and not 0 <= rate <= 1:
        raise InputError(f"rate: given {rate:g}; a share lies between 0 and 1")
    lengths = {"prompt_tokens": prompt_tokens, "answer_tokens": answer_tokens}
    asked = {"steps": steps, "prompts_per_step": prompts_per_step, "samples_per_prompt": samples_per_prompt}
    work = {key: value for key, value in asked.items() if value is not None}
    for key, value in {**lengths, **work}.items():
        if value < 1:
            raise InputError(f"{key}: given {value}; it takes 1 or more")
    limit = None if budget is None else parse_budget(budget)
    shape, count = _size(model, parameters)
    if limit is not None and shape is None:
        raise InputError("budget: to hold it against a method's cost, say which model it is for, or its parameters")
    sizes = Sizes(prompt_tokens, answer_tokens)
    return make_plan(Situation(wanted, held, limit, shape, count, sizes, work, rate), METHODS.values(), check_recipe)


def _size(model: str | None, parameters: float | None) -> tuple[Shape | None, int | None]:
    """The model's shape and the number of its parameters, as far as they are known."""
    if parameters is not None and not 1 <= parameters <= 1e15:
        raise InputError(f"parameters: given {parameters:g}; it takes 1 to 1e15")
    if model is None:
        return (None, None) if parameters is None else (of_parameters(int(parameters)), int(parameters))
    if parameters is not None:
        raise InputError("parameters: the model gives them already; name one of the two")
    shape = shape_of(model)
    size = model.removeprefix(PREFIX).rpartition("-")[2]
    return shape, nursery_parameters(size) if model.startswith(PREFIX) else shape.maps + shape.head


__all__ = ["plan"]
