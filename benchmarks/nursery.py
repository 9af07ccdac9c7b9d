"""Pass rates of a nursery model on the held-out tasks of a recipe: greedy, and at temperature 1.

python -m benchmarks.nursery [--model nursery:arithmetic-S] [--recipe recipes/nursery/grpo.yaml] [--samples 8]
"""

from __future__ import annotations

import argparse
import asyncio

from burnish.errors import InputError
from burnish.feedback.checking import Check
from burnish.models.loading import load_model
from burnish.models.spec import ModelSpec
from burnish.running.assemble import format_of
from burnish.running.config import load_recipe
from burnish.sampling import LocalEngine, SamplingParams
from burnish.studies.evaluation import Evaluation, evaluate
from burnish.studies.judging import judged_by
from burnish.studies.statistics import Interval
from burnish.tasks import build_tasks
from burnish.tasks.rendering import prompt_of


def pass_rates(model: str, recipe: str, *, samples: int = 8, seed: int = 0) -> dict[str, Interval]:
    """Share of right answers on the recipe's held-out tasks: `greedy`, and `sampled` at temperature 1.

    Raises InputError when the recipe has no evaluation.
    """
    spec = load_recipe(recipe, ()).evaluation
    if spec is None or spec.data is None:
        raise InputError(f"{recipe} has no `evaluation.data`, so it names no held-out tasks")
    tasks = build_tasks(spec.data, seed=seed)
    policy = load_model(ModelSpec(path=model, dtype="float32"), train=False)
    form, check, engine = format_of(policy, "auto"), Check(spec.correct), LocalEngine(policy, max_rows=256)

    def text(tokens: object) -> str:
        return policy.tokenizer.decode(tokens, skip_special_tokens=True)

    async def measure(temperature: float, count: int) -> Evaluation:
        return await evaluate(
            engine,
            tasks,
            render=lambda task: prompt_of(form, task).tokens,
            text=text,
            params=SamplingParams(spec.max_tokens, temperature=temperature, stop_ids=frozenset(form.stop_ids)),
            judge=judged_by(check),
            samples_per_task=count,
            seed=seed,
        )

    rates = {}
    for name, temperature, count in (("greedy", 0.0, 1), ("sampled", 1.0, samples)):
        accuracy = asyncio.run(measure(temperature, count)).accuracy
        assert accuracy is not None  # every answer was judged
        rates[name] = accuracy
    check.feedback.close()
    return rates


def asked(doc: str | None, model: str, recipe: str) -> argparse.Namespace:
    """What the command line says: whose pass rates, on which recipe's held-out tasks, from how many samples."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=model)
    parser.add_argument("--recipe", default=recipe)
    parser.add_argument("--samples", type=int, default=8)
    return parser.parse_args()


def main() -> None:
    """Print both rates with their 95 % intervals."""
    arguments = asked(__doc__, "nursery:arithmetic-S", "recipes/nursery/grpo.yaml")
    for name, rate in pass_rates(arguments.model, arguments.recipe, samples=arguments.samples).items():
        print(f"{name}: {rate}")


if __name__ == "__main__":
    main()
