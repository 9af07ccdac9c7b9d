"""Completion offers recipes, keys and values, methods, runs and models, as the shells ask for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from burnish.cli import completion, main
from burnish.methods.registry import METHODS
from tests.cli.commands import ROOT, burnish


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, a run and what is neither."""
    (tmp_path / "recipes" / "deep").mkdir(parents=True)
    (tmp_path / "recipes" / "mine.yaml").write_text("method: grpo  # with rewards\nsteps: 3\n")
    (tmp_path / "recipes" / "deep" / "sft.yaml").write_text("method: 'sft'\n")
    (tmp_path / "runs" / "one" / "final").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "config.yaml").write_text("method: sft\n")
    (tmp_path / "runs" / "one" / "final" / "config.json").write_text("{}")
    (tmp_path / "runs" / "none").mkdir()
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / ".hidden").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bash(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str) -> list[str]:
    """What is offered for the last word of a line; bash takes an equals sign for a word of its own."""
    words = line.replace("=", " = ").split() + ([""] if line.endswith(" ") else [])
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_BURNISH_COMPLETE", "complete_bash")
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    return capfd.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("burnish tr", ["train"]),
        ("burnish pipeline ", ["run", "show"]),
        ("burnish explain ", list(METHODS)),
        ("burnish methods --have verifier,dem", ["verifier,demonstrations"]),
        ("burnish train recipes/", ["recipes/deep/", "recipes/mine.yaml"]),
        ("burnish config ", ["recipes/", "runs/", "recipes/deep/sft.yaml", "recipes/mine.yaml"]),
        ("burnish show runs/", ["runs/none/", "runs/one"]),
        ("burnish report ", ["recipes/", "runs/", "runs/one"]),
        ("burnish sample nursery:rec", ["nursery:records-S"]),
        ("burnish export runs/one/", ["runs/one/final"]),
        ("burnish train recipes/mine.yaml samples", ["samples_per_prompt=", "samples_per_prompt=8"]),
        ("burnish train recipes/mine.yaml optimizer.sc", [
            "optimizer.schedule=", "optimizer.schedule=constant", "optimizer.schedule=linear",
            "optimizer.schedule=cosine",
        ]),
        ("burnish train recipes/mine.yaml optimizer.schedule=", ["constant", "linear", "cosine"]),
        ("burnish train recipes/mine.yaml seed=1 optimizer.schedule=co", ["constant", "cosine"]),
        ("burnish train recipes/mine.yaml deterministic=t", ["true"]),
        ("burnish train recipes/deep/sft.yaml samples", []),
        ("burnish config recipes/deep/sft.yaml method=grpo samples_per_prompt=", ["8"]),
        ("burnish train recipes/nothere.yaml opt", []),
        ("burnish train notes.txt opt", []),
        ("burnish eval runs/one/final data.lim", ["data.limit=", "data.limit=null"]),
        ("burnish data check rows.jsonl shuffle=", ["true", "false"]),
    ],
)  # fmt: skip
def test_bash_is_offered(
    line: str, offered: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bash(monkeypatch, capfd, line) == offered


def test_zsh_and_fish_are_offered_whole_words_with_what_they_mean(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def offered(shell: str, line: str) -> str:
        monkeypatch.setenv("_BURNISH_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        with pytest.raises(SystemExit):
            main([])
        return capfd.readouterr().out

    zsh = offered("zsh", "burnish train recipes/mine.yaml optimizer.schedule=l")
    assert '"optimizer.schedule=linear"' in zsh and "constant" not in zsh
    assert METHODS["sft"].summary in offered("zsh", "burnish explain s")
    assert "optimizer.schedule=cosine" in offered("fish", "burnish train recipes/mine.yaml optimizer.schedule=c")


def test_every_key_that_is_offered_is_a_key() -> None:
    from burnish.running.keys import documented_keys

    context = SimpleNamespace(params={"recipe": Path("recipes/mine.yaml"), "overrides": ()})
    offered = [offer if isinstance(offer, str) else offer[0] for offer in completion.recipe_keys(context, "")]
    known = {key.key for key in documented_keys(METHODS["grpo"].recipe)}
    assert len(offered) > 50 and {word.partition("=")[0] for word in offered} <= known


def test_completion_imports_neither_torch_nor_a_table() -> None:
    code = (
        "import sys; from burnish.cli import main\n"
        "try: main([])\n"
        "except SystemExit: pass\n"
        "found = [name for name in ('torch', 'transformers', 'rich.console', 'pyarrow') if name in sys.modules]\n"
        "sys.exit(f'imported {found}' if found else 0)"
    )
    recipe = str(ROOT / "recipes" / "demo.yaml")
    for words in (["burnish", "train", recipe, "optimizer.sc"], ["burnish", "sample", "n"], ["burnish", "show", ""]):
        asked = {
            "PYTHONPATH": str(ROOT),
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
            "_BURNISH_COMPLETE": "complete_bash",
        }
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_a_shell_gets_a_script_and_an_installation(tmp_path: Path) -> None:
    shown = burnish(
        "--show-completion", environment={"SHELL": "/bin/bash", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    assert shown.returncode != 0  # without detection a shell has to be named
    script = burnish("--show-completion", "bash", environment={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert "_BURNISH_COMPLETE=complete_bash" in script.stdout and script.stdout.rstrip().endswith("burnish")
    home = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = burnish("--install-completion", "bash", environment=home)
    assert done.returncode == 0 and (tmp_path / ".bash_completions" / "burnish.sh").is_file()
    assert "burnish.sh" in (tmp_path / ".bashrc").read_text()
