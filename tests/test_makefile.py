"""The two commands: set up once, and never again while nothing changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what set-up reads."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def _would_run(checkout: Path, target: str) -> str:
    """The commands that make would run, without running them."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pretend_installed(checkout: Path) -> None:
    """Make the stamp that set-up would have left."""
    stamp = re.search(r"touch (\S+)", _would_run(checkout, "setup"))
    assert stamp
    (checkout / ".venv").mkdir()
    (checkout / stamp.group(1)).touch()


@pytest.mark.parametrize("target", ["setup", "demo", "test", "lint", "docs"])
def test_the_first_run_installs(checkout: Path, target: str) -> None:
    assert "pip install" in _would_run(checkout, target)


@pytest.mark.parametrize("target", ["setup", "demo", "test", "lint", "docs"])
def test_the_second_run_needs_no_network(checkout: Path, target: str) -> None:
    _pretend_installed(checkout)
    for name in ("Makefile", "pyproject.toml"):
        os.utime(checkout / name)  # as a checkout does: newer files with the same content
    assert "pip" not in _would_run(checkout, target)


def test_a_changed_dependency_is_installed(checkout: Path) -> None:
    _pretend_installed(checkout)
    with (checkout / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    assert "pip install" in _would_run(checkout, "test")


def test_a_missing_cpu_wheel_falls_back_to_the_default_build(checkout: Path) -> None:
    script = _would_run(checkout, "setup")
    assert re.search(r"'torch==[\d.]+' \|\| .*'torch>=[\d.]+'", script)


def test_demo_trains_the_demo_recipe(checkout: Path) -> None:
    assert "burnish train recipes/demo.yaml" in _would_run(checkout, "demo")


def test_where_chromium_is_missing_it_is_said_what_to_install() -> None:
    places = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "CHROMIUM"))}
    tools = shutil.which("make"), shutil.which("sh")
    assert all(tools)
    done = subprocess.run(
        [str(tools[0]), "browser"],
        cwd=ROOT,
        env={**places, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "apt-get install chromium" in done.stdout
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.index("install -y -qq --no-install-recommends chromium") < script.index("make test\n")


def test_continuous_integration_runs_what_make_test_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")
    commands = subprocess.run(
        ["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for tool in ("ruff check", "ruff format", "pyright", "lint-imports", "mkdocs build --strict", "pytest"):
        assert tool in commands
    assert "--durations=25" in commands  # the slowest tests are told
    assert [part for part in ("lint: $((", "docs: $((", "tests: $((") if part not in commands] == []
