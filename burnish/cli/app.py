"""The application, and what its commands share. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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


def printable(text: str) -> str:
    """`text` with every character that could move the cursor or hide others written as its escape."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
