"""`burnish methods`, `plan` and `explain`: as JSON for programs, as text for people."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from burnish.cli import main
from burnish.methods.evidence import evidence_of
from burnish.methods.method import BEHAVIOURS, FEEDBACK
from burnish.methods.registry import DECLARED, METHODS
from tests.cli.commands import ROOT


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, errors = capsys.readouterr()
    assert not end.value.code, errors
    return out


def test_methods_as_json_have_what_a_chooser_needs(capfd: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capfd, "methods", "--json"))
    assert [method["name"] for method in found] == list(METHODS)
    for method in found:
        assert {"name", "rows", "status", "needs", "cost", "citation", "evidence"} <= set(method)
        assert set(method["evidence"]) == {"verdict", "effect", "interval", "seeds", "study"}
        measured = evidence_of(method["name"])
        assert method["evidence"]["study"] == (measured[0].study if measured else None)
        assert measured or method["evidence"]["verdict"] == "untested"
    chosen = json.loads(told(capfd, "methods", "--have", "demonstrations", "--json"))
    assert {m["name"] for m in chosen} == {n for n, m in METHODS.items() if "demonstrations" in m.needs}
    assert json.loads(told(capfd, "methods", "--have", "teacher-text", "--json")) == []


def test_a_plan_as_json_has_what_its_text_has(capfd: pytest.CaptureFixture[str]) -> None:
    words = shlex.split("plan --want correct --have verifier --model nursery:arithmetic-S --budget '1 TFLOP'")
    plan: dict[str, Any] = json.loads(told(capfd, *words, "--samples", "2", "--answer-tokens", "4", "--json"))
    text = told(capfd, *words, "--samples", "2", "--answer-tokens", "4")
    assert plan["budget"] == {"amount": 1e12, "quantity": "flops"}
    assert plan["sizes"] == {"prompt_tokens": 64, "answer_tokens": 4, "samples_per_prompt": 2}
    assert (plan["parameters"], plan["rate"]) == (517536, None)
    (grpo,) = (m for m in plan["applicable"] if m["name"] == "grpo")
    assert f"the budget pays for {grpo['cost']['budget_steps']:,} steps" in text
    assert {m["name"] for m in plan["applicable"] + plan["not_applicable"]} == set(METHODS)
    for other in plan["not_applicable"]:
        assert re.search(
            rf"  .*\b{re.escape(other['name'])}.*: {re.escape('; '.join(other['reasons']))}\n", text + "\n"
        )
    for name in (m["name"] for m in plan["applicable"]):
        for entry in evidence_of(name):
            assert f"measured: {entry.line()}" in text


@pytest.mark.parametrize("name", [*DECLARED, "gspo"])
def test_explain_tells_declaration_formula_and_evidence(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capfd, "explain", name, "--json"))
    text, method = told(capfd, "explain", name), METHODS[name]
    phases = found["declaration"]["controller"]["phases"]
    assert found["declaration"]["source"]["kind"] in text and phases
    for part in [p for phase in phases for p in (*phase["annotators"], *phase["terms"])]:
        assert part["kind"] in text
    assert all(line in text for line in method.formula.splitlines()) and found["formula"] == method.formula
    assert [entry["study"] for entry in found["measured"]] == [e.study for e in evidence_of(name)]
    assert all(entry.line() in text for entry in evidence_of(name))
    assert {"optimizer.lr", "method"} <= {key["key"] for key in found["keys"]}


def test_the_page_has_every_behaviour_and_every_kind_of_feedback_as_they_are_declared() -> None:
    page = (ROOT / "docs" / "choosing.md").read_text("utf-8")
    for name, meaning in (*BEHAVIOURS.items(), *FEEDBACK.items()):
        assert f"| `{name}` | {meaning} |" in page
