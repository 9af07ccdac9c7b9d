"""Pass rates of a model in a generated world, on held-out tasks: greedy, and at temperature 1.

python -m benchmarks.worlds [--model nursery:lookup-S] [--recipe recipes/nursery/lookup-grpo.yaml] [--samples 8]
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.nursery import asked
from burnish.errors import InputError
from burnish.ledger import Ledger
from burnish.models.loading import load_model
from burnish.models.spec import ModelSpec
from burnish.running.acting import family_of, setting_of
from burnish.running.assemble import format_of
from burnish.running.config import load_recipe
from burnish.sampling import LocalEngine, SamplingParams
from burnish.sources.calls import syntax_of
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.spec import EpisodesSpec
from burnish.studies.acting import evaluate_attempts
from burnish.studies.evaluation import Evaluation


def pass_rates(
    model: str, recipe: str, *, samples: int = 8, seed: int = 0, changes: Sequence[str] = ()
) -> dict[str, Evaluation]:
    """Attempts at the held-out tasks of the recipe's evaluation: `greedy`, and `sampled` at temperature 1.

    `changes` are to the recipe, as on the command line. Raises InputError when it is not evaluated in a world.
    """
    whole = load_recipe(recipe, changes)
    spec, episodes = whole.evaluation, getattr(whole, "episodes", EpisodesSpec())
    if spec is None or spec.environment is None:
        raise InputError(f"{recipe} has no `evaluation.environment`, so it names no world")
    family = family_of(spec.environment, seed=seed, base=None)
    policy = load_model(ModelSpec(path=model, dtype="float32"), train=False)
    form, engine = format_of(policy, "auto"), LocalEngine(policy, max_rows=256)

    def measure(temperature: float, count: int) -> Evaluation:
        params = SamplingParams(spec.max_tokens, temperature=temperature, stop_ids=form.stop_ids)
        context = Context(engine, form, params, seed, Ledger())
        syntax = syntax_of(spec.environment.calls, form)  # type: ignore[union-attr]
        stage = Stage.of(family, episodes, setting_of(context, policy), syntax, refills=0)
        return asyncio.run(evaluate_attempts(stage, family.tasks(), samples_per_task=count))

    return {"greedy": measure(0.0, 1), "sampled": measure(1.0, samples)}


def main() -> None:
    """Print both rates with their 95 % intervals, and the means of the verdicts' components."""
    arguments = asked(__doc__, "nursery:lookup-S", "recipes/nursery/lookup-grpo.yaml")
    for name, found in pass_rates(arguments.model, arguments.recipe, samples=arguments.samples).items():
        print(f"{name}: {found.accuracy}, well-formed {found.format_rate}, {found.notes['components']}")


if __name__ == "__main__":
    main()
