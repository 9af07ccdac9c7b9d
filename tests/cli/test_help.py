"""Help that a newcomer understands: every command and option says what it is for, and nothing heavy is imported."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.publish_performance import STARTS
from burnish.cli import app
from tests.cli.commands import ROOT, commands

COMMANDS = dict(commands())
WITH_EXAMPLES = ("train", "eval", "sample", "export", "config", "pipeline run")

HEAVY = ("torch", "transformers", "peft", "pyarrow", "tensorboard", "trackio", "wandb", "pandas", "IPython")


def help_of(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="burnish", terminal_width=100)
    assert result.exit_code == 0
    return result.output


def examples_of(command: Any) -> list[str]:
    """The lines at the end of a command's help."""
    lines = (command.epilog or "").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("burnish ")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_a_help_text(name: str) -> None:
    command = COMMANDS[name]
    assert command.help and command.help.strip()[0].isupper()
    without = [param.name for param in command.params if not (getattr(param, "help", None) or "").strip()]
    assert without == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_line_of_a_command_is_a_sentence_that_fits_the_overview(name: str) -> None:
    *groups, _ = name.split()
    line = COMMANDS[name].help.strip().split("\n\n")[0].replace("\n", " ")
    assert line.endswith(".") and line in re.sub(r"\s+", " ", help_of(*groups))


def test_the_overview_has_headings_and_names_every_command_once_under_one() -> None:
    text = help_of()
    assert "..." not in text.split("Running:")[1]
    headings = re.findall(r"^(\w[\w ]+):$", text, re.M)
    assert headings == ["Options", "Running", "Looking at runs and data", "Models", "What there is"]
    listed = re.findall(r"^  ([a-z]+)  +[A-Z]", text.split("Running:")[1], re.M)
    assert sorted(listed) == sorted({name.split()[0] for name in COMMANDS})


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_these_commands_end_their_help_with_examples(name: str) -> None:
    assert examples_of(COMMANDS[name])
    assert help_of(*name.split()).rstrip().endswith(examples_of(COMMANDS[name])[-1])


@pytest.mark.parametrize("line", [line for command in COMMANDS.values() for line in examples_of(command)])
def test_every_example_has_a_command_with_its_options_and_a_recipe_that_exists(line: str) -> None:
    words = shlex.split(line.partition("   ")[0])[1:]
    name = next(name for name in COMMANDS if name.split() == words[: len(name.split())])
    known = {option for param in COMMANDS[name].params for option in param.opts}
    assert {word for word in words if re.match(r"--?[a-z]", word)} <= known
    for word in words:
        assert not word.startswith("recipes/") or (ROOT / word).is_file(), word


def test_the_page_tells_the_times_that_were_measured() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "bench" / "import.json").read_text())["starts"]
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| ([\w -]+) \| ([\d.]+) s \|$", page, re.M))
    assert told == {shown: f"{measured[name]['processor']:.2f}" for shown, name in STARTS.items()}


def test_help_methods_and_completion_import_nothing_heavy() -> None:
    """No times are tested: they hang on the machine. `burnish bench run import` measures them."""
    code = (
        "import os, sys\n"
        "words, heavy = sys.argv[1].split(), sys.argv[2].split()\n"
        "import burnish\n"
        "found = [name for name in heavy + ['numpy', 'pydantic', 'typer', 'rich'] if name in sys.modules]\n"
        "assert not found, f'import burnish imports {found}'\n"
        "from burnish.cli import main\n"
        "try: main(words)\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "found = [name for name in heavy if name in sys.modules]\n"
        "assert not found, f'{words} imports {found}'\n"
        "light = [name for name in ('numpy', 'rich.console', 'yaml') if name in sys.modules]\n"
        "assert '--help' not in words or not light, f'{words} imports {light}'\n"
    )
    for words in ("--help", "train --help", "eval --help", "pipeline run --help", "methods", "explain grpo"):
        done = subprocess.run([sys.executable, "-c", code, words, " ".join(HEAVY)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
