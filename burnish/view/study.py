"""The page of a study's results folder: verdicts, curves of every arm, what the last value hides, cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import burnish
from burnish.errors import InputError
from burnish.ledger import flops_text
from burnish.view.document import Document, document
from burnish.view.text import number, shown

_SCOPES = {"in": "in distribution", "across": "across", "all": "all categories", "lowest": "lowest lift"}
_METRICS = {"last": "last value", "best": "best value", "last_mean": "mean of the last", "area": "area"}
_ANEW = "`burnish study STUDY --table` writes it anew"
_NEEDED = ("study", "question", "declared", "cells", "comparisons", "shares", "rows", "ranks", "command")

Results = Mapping[str, Any]


def is_study(place: Path) -> bool:
    """Whether a folder is where `burnish study` wrote its results."""
    return (place / "results.json").is_file() and not (place / "metrics.jsonl").exists()


def study_document(place: Path) -> Document:
    """The page of the results in a folder. Raises InputError when results.json is broken or of another kind."""
    results = _read(place / "results.json")
    try:
        body = "".join(
            [
                f"<header>{_head(results)}</header>",
                _section("Verdicts", "Differences are paired over seeds, with 95 % intervals.", _verdicts(results)),
                _section(
                    "Curves",
                    "By the share of the budget that is spent: the mean over seeds, with its 95 % interval as a band "
                    "where there is one. Arrow keys read values.",
                    '<div class="charts" id="arms"></div>',
                ),
                _section("Each method on each task", "Means over seeds.", _rows(results)),
                _section("Ranks", _agreement(results["ranks"]), _ranks(results["ranks"])),
                f"<footer>Written by Burnish {burnish.__version__} from {shown(place.resolve().name)}. No rollouts are "
                "in this page; they are in the runs that the study made.</footer>",
            ]
        )
        return document(str(results["study"]), body, {"arms": list(_arms(results))})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{place / 'results.json'}: not the results of a study ({error!r}); {_ANEW}") from error


def _read(file: Path) -> Results:
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not JSON ({error}); {_ANEW}") from None
    missing = [key for key in _NEEDED if key not in results] if isinstance(results, dict) else _NEEDED
    if missing:
        raise InputError(f"{file}: not the results of a study, it has no {', '.join(missing)}; {_ANEW}")
    return results


# ---------------------------------------------------------------- curves


def _arms(results: Results) -> Iterator[dict[str, Any]]:
    """A chart for every model, task and scope: a line a method."""
    at = [100 * float(share) for share in results["shares"]]
    done = list(_done(results))
    for model, task in dict.fromkeys((row["model"], row["task"]) for row in done):
        for scope in ("in", "across"):
            rows = [row for row in done if (row["model"], row["task"]) == (model, task) and row.get(scope)]
            series = [{"name": row["method"], "x": at, **_curve(row[scope])} for row in rows]
            if series:
                title = f"{task}, {model}, {_SCOPES[scope]}"
                yield {"title": title, "across": "% of the budget:", "series": series}


def _curve(measured: Mapping[str, Any]) -> dict[str, Any]:
    band = measured.get("band")
    return {"y": measured["curve"], **({"low": band[0], "high": band[1]} if band else {})}


def _done(results: Results) -> Iterator[Mapping[str, Any]]:
    return (row for row in results["rows"] if row["seeds"])


# ---------------------------------------------------------------- tables


def _section(title: str, about: str, body: str) -> str:
    return f"<section><h2>{title}</h2><p class='sub'>{about}</p>{body}</section>"


def _head(results: Results) -> str:
    declared, cells = results["declared"], results["cells"]
    budget, primary = declared["budget"], declared["primary"]
    beyond = f", and on to {budget['beyond']:g} times that" if budget["beyond"] > 1 else ""
    unequal = (
        f" {cells['unequal']} spent another budget: they are marked ! and not compared." if cells["unequal"] else ""
    )
    told = (
        f"Declared before it ran: a budget of {budget['amount']:g} {budget['unit'].replace('_', ' ')} a cell{beyond}; "
        f"what decides is the {_METRICS[primary['metric']]} within the budget, {_SCOPES[primary['scope']]}; "
        f"{primary['direction']} is better, the control is {primary['control']}, the smallest effect of interest is "
        f"{primary['smallest']:g}."
    )
    done = f"{cells['done']} of {cells['wanted']} cells are done, {cells['seconds'] / 60:.1f} minutes in all.{unequal}"
    return (
        f"<h1>{shown(str(results['study']))}</h1><p class='lead'>{shown(str(results['question']))}</p>"
        f"<p class='sub'>{shown(told)}</p><p class='sub'>{shown(done)}</p><pre>{shown(str(results['command']))}</pre>"
    )


def _verdicts(results: Results) -> str:
    rows = []
    for one in results["comparisons"]:
        found = one["interval"]
        effect = f"<b>{found['estimate']:+.3f}</b>{_fine(found['low'], found['high'], '+.3f')}" if found else ""
        kind = {"shown": "right", "opposite": "wrong"}.get(one["verdict"], "")
        rows.append(
            [
                shown(one["claim"]), shown(one["model"]), f"{_METRICS[one['metric']]}, {_SCOPES[one['scope']]}", effect,
                "" if one["p"] is None else f"{one['p']:.2g}", str(len(one["differences"])),
                f'<b class="{kind}">{shown(one["verdict"])}</b>', f'<span class="why">{shown(one["reason"])}</span>',
            ]
        )  # fmt: skip
    return _table(["claim", "model", "measure", "difference", "p, corrected", "seeds", "verdict", "why"], rows)


def _rows(results: Results) -> str:
    rows = []
    gains = next((list(row["in"]["gains"]) for row in _done(results)), [])
    for row in _done(results):
        own, cost = row["in"], row["cost"]
        last = own["last"]
        flops, point = (None if v is None else flops_text(round(v)) for v in (cost["flops"], cost["flops_per_point"]))
        rows.append(
            [
                shown(row["model"]), shown(row["task"]), shown(row["method"]) + (" !" if row["unequal"] else ""),
                str(row["seeds"]), _value(own["start"]),
                f"<b>{_value(last['mean'])}</b>{_fine(last['low'], last['high'])}",
                *(_value(own[key]) for key in ("best", "last_mean", "area", "drawdown")),
                f"{own['collapsed']} of {row['seeds']}", *(_value(own["gains"][share]) for share in gains),
                _value((row.get("lowest") or {}).get("last", {}).get("mean")), flops or "", point or "",
            ]
        )  # fmt: skip
    heads = [
        "model", "task", "method", "seeds", "start", "last", "best", "mean of the last", "area", "drawdown",
        "collapsed", *(f"gain at {100 * float(share):g} %" for share in gains), "lowest lift", "cost", "cost a point",
    ]  # fmt: skip
    return _table(heads, rows)


def _agreement(ranks: Sequence[Mapping[str, Any]]) -> str:
    differ = sum(not one["agree"] for one in ranks)
    return f"By the last value and by the area the methods stand in another order in {differ} of {len(ranks)} places."


def _ranks(ranks: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [shown(r["model"]), shown(r["task"]), _order(r["last"]), _order(r["area"]), "" if r["agree"] else "differs"]
        for r in ranks
    ]
    return _table(["model", "task", "by the last value", "by the area", ""], rows)


def _order(ranks: Mapping[str, float]) -> str:
    return shown(", ".join(f"{name} ({rank:g})" for name, rank in sorted(ranks.items(), key=lambda each: each[1])))


def _value(value: float | None) -> str:
    return "" if value is None else number(value)


def _fine(low: float | None, high: float | None, form: str = ".3f") -> str:
    return "" if low is None or high is None else f'<span class="fine">{low:{form}} to {high:{form}}</span>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{shown(name)}" for name in heads)
    body = "".join(f"<tr><th>{'<td>'.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
