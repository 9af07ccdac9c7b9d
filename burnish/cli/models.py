"""Commands about models: check, sample, chat, eval, export. torch is imported when one runs."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from burnish.cli.app import (
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
    printable,
)  # fmt: skip


@app.command()
def check(model: ModelArgument, dtype: Dtype = "auto", template: Template = "auto", as_json: AsJson = False) -> None:
    """Load a model and say how it is run, and whether sampler and learner agree. Fails where promise E5 is broken."""
    from burnish.running.talk import model_spec
    from burnish.studies.check import LIMIT, check_model

    found = check_model(model_spec(model, dtype=dtype, template=template))
    if as_json:
        print(json.dumps({**dataclasses.asdict(found), "passed": found.passed}, indent=1))
    else:
        print(printable(found.text()))
    if not found.passed:
        print(f"burnish: promise E5 is broken: the gap must stay under {LIMIT:g}", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def sample(
    model: ModelArgument,
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT...", help="what to ask")],
    n: Annotated[int, typer.Option("-n", min=1, help="samples of each prompt")] = 1,
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
    params = _sampling(max_tokens, temperature, top_k, top_p, min_p)
    from burnish.running.talk import Speaker, model_spec

    speaker = Speaker(model_spec(model, dtype=dtype))
    for number, prompt in enumerate(prompts):
        ids = speaker.prompt(prompt, raw=raw)
        for completion in speaker.engine.sample_sync(ids, speaker.params(params), n=n, seed=seed, task=number):
            if n > 1 or len(prompts) > 1:
                print(f"--- prompt {number + 1}, {len(completion.tokens)} tokens, {completion.finish}")
            print(printable(speaker.decode(completion.tokens.tolist())), flush=True)


@app.command()
def chat(
    model: ModelArgument,
    system: Annotated[str | None, typer.Option(help="a system message")] = None,
    max_tokens: MaxTokens = 512,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    seed: Seed = 0,
    dtype: Dtype = "auto",
) -> None:
    """Talk with a model; /exit (or the end of the input) ends it."""
    params = _sampling(max_tokens, temperature, top_k, top_p, min_p)
    from burnish.running.talk import Conversation, Speaker, model_spec

    speaker = Speaker(model_spec(model, dtype=dtype))
    talk = Conversation(speaker, speaker.params(params), seed=seed, system=system)
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line == "/exit":
            return
        if line:
            completion = talk.say(line)
            cut = "" if completion.finish == "stop" else f" [cut: {completion.finish}]"
            print(printable(speaker.decode(completion.tokens.tolist())) + cut, flush=True)


def _sampling(max_tokens: int, temperature: float, top_k: int, top_p: float, min_p: float) -> Any:
    from burnish.running.config import spec_from_mapping
    from burnish.sampling.spec import SamplingSpec

    values = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    return spec_from_mapping(SamplingSpec, values, name="sampling options")


@app.command("eval")
def evaluate(
    model: ModelArgument,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys of `evaluation`, such as data.limit=100")
    ] = None,
    data: Annotated[str, typer.Option(help="family:NAME (its held-out items), or a JSONL file")] = "family:arithmetic",
    seed: Seed = 0,
    save: Annotated[Path | None, typer.Option(help="also write every item to this JSON file")] = None,
    dtype: Dtype = "auto",
    as_json: AsJson = False,
) -> None:
    """Evaluate a model greedily on tasks with numeric answers: accuracy and format apart, with 95 % intervals."""
    from burnish.methods.recipe import EvaluationSpec
    from burnish.running.config import spec_from_mapping
    from burnish.running.progress import make_progress

    family = {"kind": data.removeprefix("family:"), "split": "heldout", "count": 300}
    origin = {"family": family} if data.startswith("family:") else {"path": data}
    spec = spec_from_mapping(EvaluationSpec, {"data": origin}, overrides or (), name="evaluation")
    from burnish.running.talk import model_spec
    from burnish.studies.single import evaluate_model

    # progress goes to stderr, so that the result alone is on stdout
    with make_progress("quiet" if as_json else "auto", Console(stderr=True)) as progress:
        found = evaluate_model(
            model_spec(model, dtype=dtype), spec, seed=seed, progress=lambda d, t: progress.phase("evaluating", d, t)
        )
    if save is not None:
        found.save(save)
    if as_json:
        print(json.dumps(found.summary(), indent=1))
        return
    for label, interval in (("accuracy", found.accuracy), ("right format", found.format_rate)):
        if interval is not None:
            shares = " to ".join(f"{100 * end:.1f}" for end in (interval.low, interval.high))
            print(f"{label}: {100 * interval.estimate:.1f} % (95 %: {shares})")
    print(
        f"{len(found.items)} items, mean length {found.mean_length:.1f} tokens, {100 * found.truncated:.1f} % cut off"
    )


@app.command()
def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="folder to write")],
    merge: Annotated[bool, typer.Option("--merge", help="add an adapter to the weights of its base model")] = False,
    dtype: Annotated[str, typer.Option(help="stored type: float32, bfloat16 or float64")] = "float32",
) -> None:
    """Write a model as an ordinary transformers folder (or, for an adapter without --merge, a peft folder)."""
    from burnish.models.saving import export as write
    from burnish.running.talk import model_spec

    print(write(model_spec(model), out, merged=merge, dtype=dtype))
