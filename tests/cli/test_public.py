"""What the command line can do, a function can do; the notebook uses them all, and runs."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import burnish
from benchmarks.notebook import NOTEBOOK, executed
from tests.cli.commands import ROOT, commands
from tests.view.runs import write_run

FUNCTIONS = {
    "train": "train",
    "pipeline run": "run_pipeline",
    "pipeline show": "show_pipeline",
    "study": "study",
    "config": "config",
    "show": "show",
    "report": "report",
    "audit": "audit",
    "view": "view_run",
    "data check": "check_data",
    "chat": "chat",
    "sample": "sample",
    "eval": "evaluate",
    "check": "check",
    "export": "export",
    "methods": "list_methods",
    "explain": "explain",
    "plan": "plan",
    "env probe": "probe_sandbox",
    "env gate": "gate",
    "bench run": "bench",
    "bench list": "list_benchmarks",
    "bench search": "bench_search",
    "bench compare": "bench_compare",
    "nursery list": "list_nursery",
    "nursery build": "build_nursery",
    "nursery rates": "nursery_rates",
}
"""Command -> the public function behind it."""

PAGE = ROOT / "docs" / "command-line.md"


def test_every_command_has_a_public_function() -> None:
    names = [name for name, _ in commands()]
    assert sorted(names) == sorted(FUNCTIONS), "a command and its public function belong into the table above"
    for name in FUNCTIONS.values():
        function = getattr(burnish, name)
        assert inspect.isfunction(function) and (inspect.getdoc(function) or "").strip(), name


def test_the_page_names_every_command_with_its_function_and_every_option() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, command in commands():
        row = next((line for line in text.splitlines() if line.startswith(f"| `burnish {name}")), "")
        assert f"`burnish.{FUNCTIONS[name]}`" in row, name
        options = [option for param in command.params for option in param.opts if option.startswith("-")]
        assert [option for option in options if not re.search(rf"`{re.escape(option)}[ `]", text)] == []


def used_names(notebook: nbformat.NotebookNode) -> set[str]:
    """Names of `burnish` that the code of a notebook uses."""
    found = set()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "burnish":
                    found.add(node.attr)
    return found


def test_the_notebook_uses_every_public_function() -> None:
    functions = {name for name in burnish.__all__ if name.islower() and not name.startswith("_")}
    assert set(FUNCTIONS.values()) <= functions
    assert functions - used_names(nbformat.read(NOTEBOOK, as_version=4)) == set()


def outputs(notebook: nbformat.NotebookNode) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_the_notebook_is_committed_with_its_outputs_and_without_places_of_a_machine() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count == number for number, cell in enumerate(code, 1)), "python -m benchmarks.notebook"
    kinds = {kind for output in outputs(notebook) for kind in output.get("data", {})}
    assert {"image/svg+xml", "text/html", "text/plain"} <= kinds  # a curve, rollouts, values
    text = json.dumps(outputs(notebook))
    assert not re.search(r"/(tmp|home|root|Users|work|usr|var|opt)/|site-packages|\\u001b|\.py:\d+", text)
    assert not [output for output in outputs(notebook) if output.output_type == "error"]


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = executed(NOTEBOOK)
    committed = nbformat.read(NOTEBOOK, as_version=4)
    assert [o.output_type for o in outputs(notebook)] == [o.output_type for o in outputs(committed)]
    text = "\n".join(str(o.get("text", "")) for o in outputs(notebook))
    found = re.search(r"difference ([+-][\d.]+), 95 % interval \[([+-][\d.]+)", text)
    assert found is not None and float(found[2]) > 0  # it learned
    assert not [o for o in outputs(notebook) if o.output_type == "stream" and o.name == "stderr"]


# ---------------------------------------------------------------- what the functions show


def test_a_curve_is_a_picture_of_a_metric(tmp_path: Path) -> None:
    from xml.dom.minidom import parseString

    run = write_run(tmp_path / "run")
    curve = burnish.curve(run, "reward")
    picture = parseString(curve._repr_svg_())
    assert picture.documentElement.getAttribute("xmlns") == "http://www.w3.org/2000/svg"
    assert "reward by step" in curve._repr_svg_() and curve.points[0][0] == 1
    assert curve.save(tmp_path / "curve.svg").read_text().startswith("<svg")
    with pytest.raises(burnish.InputError, match=r"has no metric 'rewrd'; did you mean 'reward'\?"):
        burnish.curve(run, "rewrd")


def test_rollouts_are_text_and_html(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    shown = burnish.show(run)
    assert "member 0" in str(shown) and "log-prob" in str(shown) and "\x1b" not in str(shown)
    html = shown._repr_html_()
    assert html.startswith('<div class="burnish">') and "<script" not in html and "advantage" in html
    assert len(burnish.show(run, group=0).groups) == 1
    with pytest.raises(burnish.InputError, match="there is no group 99"):
        burnish.show(run, group=99)


def test_methods_and_keys_are_read_as_text() -> None:
    assert [method.name for method in burnish.list_methods(have=["demonstrations"])] == ["sft"]
    assert "imitate demonstrations" in repr(burnish.list_methods("demonstrations"))
    assert repr(burnish.list_methods("preferences")) == "no method"
    found = burnish.explain("sft")
    assert "optimizer.lr" in str(found) and found.schema["title"] and found.keys[0].key == "method"
    with pytest.raises(burnish.InputError, match="did you mean 'grpo'"):
        burnish.explain("grop")


def test_keyword_arguments_are_keys_of_a_recipe() -> None:
    recipe = str(ROOT / "recipes" / "demo.yaml")
    text = burnish.config(recipe, ["seed=3"], plain=True, optimizer__lr=1e-4, steps=7)
    assert "lr: 0.0001" in text and "seed: 3" in text and "steps: 7" in text and "#" not in text
    assert "command line" in burnish.config(recipe, steps=7)
    tasks = burnish.read_tasks("family:arithmetic", family__digits=[3], family__count=5)
    assert len(tasks) == 5 and all(task.difficulty == 3.0 for task in tasks)
    with pytest.raises(burnish.InputError, match=r"family\.digit; did you mean family\.digits"):
        burnish.read_tasks("family:arithmetic", family__digit=[3])


def test_a_loaded_model_is_asked_again_without_loading_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    speaker = burnish.Speaker("nursery:arithmetic-S", dtype="float32")

    def fail(*arguments: object, **options: object) -> None:
        raise AssertionError("loaded again")

    monkeypatch.setattr("burnish.running.talk.load_model", fail)
    twice = [burnish.sample(speaker, ["12+34=", "50+17="], n=2, max_tokens=6, seed=3) for _ in range(2)]
    assert twice[0] == twice[1] and [answer.prompt for answer in twice[0]] == ["12+34="] * 2 + ["50+17="] * 2
    answer = twice[0][0]
    assert str(answer) == answer.text and len(answer.tokens) == len(answer.logprobs) and answer.finish == "stop"
    talk = burnish.chat(speaker, max_tokens=6, temperature=0)
    assert talk.ask("12+34=").text.isdigit() and len(talk.messages) == 2
    found = burnish.evaluate(speaker, data__family__count=4, data__family__question="{a}{op}{b}=", max_tokens=6)
    assert str(found).startswith("accuracy: ") and len(found.items) == 4 and "items" not in repr(found)
    with pytest.raises(burnish.InputError, match="did you mean max_tokens"):
        burnish.sample(speaker, "12+34=", max_token=6)


def test_these_functions_work_where_an_event_loop_is_running() -> None:
    """As in a notebook: a call that waits must not need a loop of its own in this thread."""
    import asyncio

    async def cell() -> tuple[int, bool]:
        found = burnish.evaluate(
            "nursery:arithmetic-S", data__family__count=2, dtype="float32", max_tokens=2, data__family__digits=[1]
        )
        return len(found.items), burnish.check("nursery:arithmetic-S", dtype="float32").passed

    assert asyncio.run(cell()) == (2, True)
