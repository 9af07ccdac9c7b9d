"""The application, and what its commands share. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from burnish.cli import completion

if TYPE_CHECKING:
    from rich.console import Console

RUNNING, LOOKING, MODELS, KNOWLEDGE = "Running", "Looking at runs and data", "Models", "What there is"
"""Headings of `burnish --help`, in order: what a command gives as its `rich_help_panel`."""

COMMANDS = (
    "train", "pipeline", "study", "config", "show", "report", "view", "audit", "data", "chat", "sample", "eval",
    "check", "export", "nursery", "methods", "plan", "explain", "env", "bench",
)  # fmt: skip
"""The order of the commands within their headings."""


class Grouped(TyperGroup):
    """A group of commands whose help has headings."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In our order; one that is not in it comes last."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: COMMANDS.index(name) if name in COMMANDS else len(COMMANDS))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands under their headings, in plain text."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        for heading in (RUNNING, LOOKING, MODELS, KNOWLEDGE):
            rows = [
                (name, command.get_short_help_str(formatter.width))
                for name, command in commands
                if command is not None and getattr(command, "rich_help_panel", None) == heading
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def examples(*lines: str) -> str:
    """The end of a command's help: lines to try, kept as they are."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])


app = typer.Typer(
    name="burnish",
    cls=Grouped,
    help="Post-training of language models in one small grammar.",
    epilog=examples(
        "burnish train recipes/nursery/grpo.yaml   a tiny model learns in seconds",
        "burnish COMMAND --help                    options of a command, with examples",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", rich_help_panel=LOOKING)

RecipeArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RECIPE",
        autocompletion=completion.recipes,
        help="a recipe, such as recipes/demo.yaml",
        show_default=False,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        autocompletion=completion.recipe_keys,
        help="changes to it, such as optimizer.lr=1e-5 (`burnish explain METHOD` lists the keys)",
    ),
]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        autocompletion=completion.models,
        help="a folder (an adapter's, or a run's final, too), a .gguf file, wheel:NAME, nursery:NAME, or a hub id",
        show_default=False,
    ),
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", autocompletion=completion.runs, help="a run directory", show_default=False)
]
Dtype = Annotated[
    str,
    typer.Option(metavar="TYPE", help="compute type: float32, bfloat16, float64; auto takes the fastest that serves"),
]
Template = Annotated[
    str,
    typer.Option(metavar="TEMPLATE", help="chat template: auto (the model's own), plain (raw text), or a Jinja file"),
]
MaxTokens = Annotated[int, typer.Option(metavar="N", help="most tokens of an answer")]
Temperature = Annotated[
    float, typer.Option(metavar="T", help="above 1 more random, below 1 less; 0 always takes the most probable token")
]
TopK = Annotated[int, typer.Option(metavar="K", help="sample from the K most probable tokens; 0: from all")]
TopP = Annotated[
    float, typer.Option(metavar="P", help="sample from the fewest tokens that hold this share of probability; 1: all")
]
MinP = Annotated[
    float, typer.Option(metavar="P", help="leave out tokens less probable than this share of the best one's; 0: none")
]
Seed = Annotated[int, typer.Option(metavar="N", help="every random number follows from it: same seed, same result")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, for programs; whatever else is said goes to stderr")]


def printable(text: str) -> str:
    """`text` with every character that could move the cursor or hide others written as its escape."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def wide_console() -> Console:
    """A terminal as wide as it is, and never so narrow that a key is cut; wide where nobody looks at it directly."""
    from rich.console import Console

    console = Console()
    return Console(width=max(console.width, 120 if console.is_terminal else 200))
