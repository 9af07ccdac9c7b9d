"""What importing costs: no torch where none is needed, and nothing undeclared."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import burnish

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "burnish"
SPECS = sorted(path.relative_to(ROOT).with_suffix("") for path in PACKAGE.rglob("spec.py"))
TORCH_FREE = [
    "burnish",
    "burnish.traces",
    "burnish.tasks",
    "burnish.methods.registry",
    *(".".join(spec.parts) for spec in SPECS),
]

# Distributions whose import name is not the distribution's name.
IMPORT_NAMES = {"pyyaml": "yaml"}


def _run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


EXTRAS = {"burnish/tracking": "trackers", "burnish/feedback/checks": "tasks", "burnish/tasks/rows": "datasets",
          "burnish/studies/bench/sides": "bench", "burnish/view/live": "view", "burnish/studies/harness.py": "lm-eval",
          "burnish/studies/harness_model.py": "lm-eval"}  # fmt: skip
"""Folders and files that may import what an extra brings: nothing else imports them, but when it is asked for."""

SCRIPTS = {"burnish/studies/bench/sides": {"channel", "vllm"}}
"""Folders of scripts that run by themselves: what lies beside them, and what an environment of their own brings."""


def _declared(*extras: str) -> set[str]:
    """Import names of the dependencies in pyproject.toml, and of those of some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    names = {re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0].lower() for line in requirements}
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}


def _imported(path: Path) -> set[str]:
    """Top-level names of every absolute import in a file, those inside functions included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_these_modules_do_not_import_torch() -> None:
    code = (
        "import importlib, sys\n"
        "for module in sys.argv[1:]:\n"
        "    importlib.import_module(module)\n"
        "    for heavy in ('torch', 'transformers', 'peft'):\n"
        "        if heavy in sys.modules: sys.exit(f'import {module} imports {heavy}')\n"
    )
    done = _run(code, *TORCH_FREE)
    assert done.returncode == 0, done.stderr
    assert len(SPECS) >= 5


def test_the_command_line_helps_without_torch() -> None:
    code = (
        "import sys; from burnish.cli import main\n"
        "sys.argv = ['burnish', '--help']\n"
        "try: main()\n"
        "except SystemExit as exit: assert not exit.code, exit.code\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else 0)"
    )
    done = _run(code)
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout


@pytest.mark.parametrize("name", [name for name in burnish.__all__ if name != "__version__"])
def test_every_public_name_can_be_loaded(name: str) -> None:
    assert getattr(burnish, name) is not None
    assert name in dir(burnish)


def test_an_unknown_public_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(AttributeError, match=r"it has: .*Trace"):
        burnish.Tracer  # noqa: B018


def test_every_import_is_declared() -> None:
    undeclared = set()
    for path in PACKAGE.rglob("*.py"):
        extras = [extra for folder, extra in EXTRAS.items() if ROOT / folder in (path, *path.parents)]
        beside = SCRIPTS.get(path.parent.relative_to(ROOT).as_posix(), set())
        allowed = _declared(*extras) | set(sys.stdlib_module_names) | {"burnish"} | beside
        undeclared |= {f"{path.relative_to(ROOT)}: {name}" for name in _imported(path) - allowed}
    assert not undeclared


def test_every_import_of_the_tests_is_declared() -> None:
    extras = _declared("dev", "bench", "datasets", "tasks", "trackers", "view", "lm-eval")
    allowed = extras | set(sys.stdlib_module_names) | {"burnish", "tests", "benchmarks"}
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in _imported(path) - allowed
    }
    assert not undeclared


def test_nothing_reads_or_writes_pickles() -> None:
    """Weights and state are safetensors and JSON: loading a pickle runs whatever code it carries."""
    calls = re.compile(r"\btorch\.(save|load)\(|allow_pickle=True|\bread_pickle\(")
    modules = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    found = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if _imported(path) & modules or calls.search(path.read_text(encoding="utf-8"))
    ]
    assert not found
