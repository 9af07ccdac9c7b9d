"""The command line: a thin shell over functions that a notebook can call as well.

Exit status: 0 success, 1 a run or check that failed, 2 wrong usage or input, 130 interrupted. Nothing here imports
torch before a command needs it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from burnish.errors import BurnishError, InputError

app = typer.Typer(
    name="burnish",
    help="Post-training of language models in one small grammar.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")

RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE", help="a recipe, such as recipes/demo.yaml")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="changes to it, such as optimizer.lr=1e-5")
]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="a folder (an adapter's too), a .gguf file, wheel:NAME, or a hub id")
]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float64")]
Template = Annotated[str, typer.Option(help="auto (the model's own), plain (raw text), or a Jinja file")]
MaxTokens = Annotated[int, typer.Option(help="most tokens of an answer")]
Temperature = Annotated[float, typer.Option(help="0 is greedy")]
TopK = Annotated[int, typer.Option(help="keep the k most probable tokens; 0: no limit")]
TopP = Annotated[float, typer.Option(help="keep the smallest set with this much mass; 1: no limit")]
MinP = Annotated[float, typer.Option(help="drop tokens below this share of the best one; 0: no limit")]
Seed = Annotated[int, typer.Option(help="of every random number")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Burnish's own errors become one paragraph; others keep their traceback."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="burnish")
    except BurnishError as error:
        sys.stdout.flush()
        print(f"burnish: {printable(str(error))}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        print("burnish: interrupted", file=sys.stderr)
        sys.exit(130)


def printable(text: str) -> str:
    """`text` with every character that could move the cursor or hide others written as its escape."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _version(asked: bool) -> None:
    if asked:
        import burnish

        print(burnish.__version__)
        raise typer.Exit()


@app.callback()
def _burnish(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Post-training of language models in one small grammar."""


# ---------------------------------------------------------------- runs


@app.command()
def train(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="run directory; by default runs/RECIPE-SEED, numbered")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress, only the result")] = False,
    as_json: AsJson = False,
) -> None:
    """Train as a recipe says, and write a run directory."""
    from burnish.running.config import load_recipe
    from burnish.running.progress import make_progress

    loaded = load_recipe(recipe, overrides or ())
    directory = out or fresh_directory(Path("runs"), f"{_run_name(recipe)}-{loaded.seed}")
    from burnish.running.train import train as run_training

    with make_progress("json" if as_json else "quiet" if quiet else "auto", Console()) as progress:
        try:
            result = run_training(loaded, out=directory, progress=progress)
        finally:
            if out is None and directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()  # the run was refused before it wrote anything
    if as_json:
        print(json.dumps({"event": "result", "out": str(result.out), "summary": result.summary}, default=str))
        return
    for key, value in result.summary.items():
        if isinstance(value, (str, int, float)):
            print(printable(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}"))
    print(f"run: {result.out}")


def _run_name(recipe: Path) -> str:
    """The recipe's name; a recipe in a folder of recipes/ keeps the folder's, and config.yaml of a run the run's."""
    stem = recipe.stem
    parent = recipe.resolve().parent.name
    return parent if stem == "config" else stem if parent in ("recipes", "") else f"{parent}-{stem}"


def fresh_directory(parent: Path, name: str) -> Path:
    """A new folder `name` in `parent`, or `name-2`, `name-3`, ... when it is taken; made here, so it stays ours."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 100_000):
            path = parent / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise InputError(f"no run directory can be made in {parent} ({error.strerror}); give one with --out") from None
    raise InputError(f"{parent} holds too many runs called {name}; give a run directory with --out")


@app.command()
def config(recipe: RecipeArgument, overrides: Overrides = None) -> None:
    """Print the resolved recipe: every key with its value."""
    from burnish.running.config import load_recipe, resolved_yaml

    print(resolved_yaml(load_recipe(recipe, overrides or ())), end="")


@app.command()
def report(run: Annotated[Path, typer.Argument(metavar="RUN", help="a run directory")]) -> None:
    """Write report.html into a run directory from what the run has written so far."""
    from burnish.view.report import write_report

    print(write_report(run))


@app.command()
def show(
    place: Annotated[Path, typer.Argument(metavar="FILE_OR_RUN", help="a traces .parquet file, or a run directory")],
    group: Annotated[int | None, typer.Option(help="only this group, counted from 0")] = None,
    limit: Annotated[int, typer.Option(min=0, help="tokens printed of each member; 0: all")] = 200,
    tokenizer: Annotated[
        str | None, typer.Option(help="a tokenizer.json, or a model; by default the run's own")
    ] = None,
) -> None:
    """Print rollouts token by token: author, role, mask, log-probability, signals."""
    from burnish.traces.show import show_groups
    from burnish.view.tokens import run_tokenizer, stored_groups

    file, groups = stored_groups(place)
    if group is not None and not 0 <= group < len(groups):
        raise InputError(f"{file} has {len(groups)} groups, numbered from 0; there is no group {group}")
    chosen = groups if group is None else [groups[group]]
    show_groups(chosen, Console(), run_tokenizer(place, tokenizer), limit or None)


# ---------------------------------------------------------------- what there is


@app.command()
def methods(
    have: Annotated[str | None, typer.Option(help="only those that can use: verifier,demonstrations,...")] = None,
) -> None:
    """List the methods: what each does, needs and costs."""
    from burnish.methods.method import Need
    from burnish.methods.registry import METHODS
    from burnish.tasks.suggest import did_you_mean

    held = {word.strip() for word in have.split(",") if word.strip()} if have is not None else None
    for word in sorted(held or ()):
        if word not in get_args(Need):
            raise InputError(f"--have: there is no kind of feedback {word!r}; {did_you_mean(word, get_args(Need))}")
    table = Table("method", "what it does", "status", "needs one of", "cost", show_edge=False)
    chosen = [method for method in METHODS.values() if held is None or held & set(method.needs)]
    for m in chosen:
        table.add_row(m.name, escape(m.summary), m.status, ", ".join(m.needs), escape(m.cost))
    if chosen:
        Console().print(table)
    else:
        print(f"No method learns from {have} yet.")


@app.command()
def explain(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="its name; `burnish methods` lists them")],
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema of its recipes")] = False,
) -> None:
    """Explain a method: idea, needs, cost, source, and every key of its recipes."""
    from burnish.methods.registry import METHODS
    from burnish.running.config import documented_keys, recipe_schema
    from burnish.tasks.suggest import did_you_mean

    if method not in METHODS:
        raise InputError(f"there is no method {method!r}; {did_you_mean(method, METHODS)}")
    if schema:
        print(json.dumps(recipe_schema(method), indent=1))
        return
    m = METHODS[method]
    lines = [f"{m.name}: {m.summary}", f"needs one of: {', '.join(m.needs)}", f"cost: {m.cost}"]
    print("\n".join([*lines, f"source: {m.citation}", f"page: {m.page}", f"status: {m.status}", ""]))
    table = Table("key", "takes", "default", "meaning", show_edge=False)
    for key in documented_keys(m.recipe):
        table.add_row(*(Text(cell) for cell in (key.key, key.type, key.default, key.description)))
    Console().print(table)


# ---------------------------------------------------------------- models


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


@data_app.command("check")
def data_check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="a JSONL file of rows")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys of `data`")] = None,
    demonstrations: Annotated[bool, typer.Option("--demonstrations", help="as supervised training reads it")] = False,
) -> None:
    """Read a file as training would, and show its first task."""
    from burnish.running.config import spec_from_mapping
    from burnish.tasks import build_tasks
    from burnish.tasks.spec import DataSpec

    tasks = build_tasks(
        spec_from_mapping(DataSpec, {"path": file}, overrides or (), name="data"), demonstrations=demonstrations
    )
    first = tasks[0]
    print(f"{len(tasks)} tasks; the first:")
    print(printable(f"prompt: {first.text}\nanswer: {first.answer}"))
    if demonstrations:
        print(printable(f"demonstration: {first.demonstration}"))
