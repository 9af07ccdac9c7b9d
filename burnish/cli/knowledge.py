"""Commands about what there is and what to choose: methods, plan, explain."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from burnish.cli import completion
from burnish.cli.app import KNOWLEDGE, AsJson, app, examples, printable, wide_console
from burnish.running.output import results


@app.command(
    rich_help_panel=KNOWLEDGE,
    epilog=examples("burnish methods", "burnish methods --have verifier,demonstrations --json"),
)
def methods(
    have: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            autocompletion=completion.feedback,
            help="only those that learn from one of these kinds of feedback, such as verifier,demonstrations",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods: what each does, needs and costs, and what was measured of it."""
    from burnish.errors import InputError
    from burnish.running.catalogue import list_methods

    try:
        found = list_methods(None if have is None else _words(have))
    except InputError as error:
        raise InputError(f"--have: {error}") from None
    if as_json:
        print(json.dumps(found.to_json(), indent=1), file=results())
    elif found:
        wide_console().print(found.table())
    else:
        print(f"No method learns from {have} yet.")


@app.command(
    rich_help_panel=KNOWLEDGE,
    epilog=examples(
        "burnish plan --want correct --have verifier",
        "burnish plan --want correct --have verifier,demonstrations --model nursery:arithmetic-S --budget 30min",
        'burnish plan --want act --have environment --parameters 1.5e9 --budget "2 EFLOP" --answer-tokens 800 --json',
    ),
)
def plan(
    want: Annotated[
        str,
        typer.Option(
            metavar="BEHAVIOUR,...",
            autocompletion=completion.behaviours,
            help="what the model is to do better, such as correct; docs/choosing.md has the list",
        ),
    ],
    have: Annotated[
        str,
        typer.Option(
            metavar="KIND,...",
            autocompletion=completion.feedback,
            help="the feedback at hand, such as verifier,demonstrations",
        ),
    ],
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT", help='what may be spent: "2PFLOP", "30min", "5000 rollouts"', show_default=False
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            autocompletion=completion.models,
            help="the model to train, for its cost: a folder with a config.json, or nursery:NAME",
        ),
    ] = None,
    parameters: Annotated[
        float | None, typer.Option(metavar="N", help="how many parameters it has, where its folder is not at hand")
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(metavar="N", help="expected tokens of a prompt")] = 64,
    answer_tokens: Annotated[int, typer.Option(metavar="N", help="expected tokens of an answer")] = 64,
    steps: Annotated[int | None, typer.Option(metavar="N", help="steps; by default those of a recipe")] = None,
    prompts: Annotated[int | None, typer.Option(metavar="N", help="prompts of a step (prompts_per_step)")] = None,
    samples: Annotated[int | None, typer.Option(metavar="N", help="samples of a prompt (samples_per_prompt)")] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="share of samples that are right today, as `burnish eval` measures it"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell which methods fit, what they cost, and why others do not.

    It goes by what you want, the feedback you have and what you can spend. Methods come in the order of their names:
    none is a default. What was measured of each stands beside it.
    """
    from burnish.running.choosing import plan as advise

    found = advise(
        _words(want), _words(have), budget=budget, model=model, parameters=parameters, prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens, steps=steps, prompts_per_step=prompts, samples_per_prompt=samples, rate=rate,
    )  # fmt: skip
    if as_json:
        print(json.dumps(found.to_json(), indent=1), file=results())
    else:
        print(printable(str(found)))


@app.command(
    rich_help_panel=KNOWLEDGE,
    epilog=examples("burnish explain grpo", "burnish explain grpo --json", "burnish explain grpo --schema"),
)
def explain(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            autocompletion=completion.methods,
            help="its name; `burnish methods` lists them",
            show_default=False,
        ),
    ],
    schema: Annotated[
        bool, typer.Option("--schema", help="print the JSON schema of its recipes instead, for an editor")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain a method and every key of its recipes.

    What it declares, its formula, needs, cost and source, and what was measured of it.
    """
    from burnish.running.catalogue import explain as look_up

    found = look_up(method)
    if schema or as_json:
        print(json.dumps(found.schema if schema else found.to_json(), indent=1), file=results())
        return
    print(found.heading() + "\n")
    wide_console().print(found.table())


def _words(text: str) -> list[str]:
    """The words of a list with commas."""
    return [word.strip() for word in text.split(",")]
