"""The results of a study as Markdown: what was declared, the verdicts, and what the last value hides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from burnish.ledger import flops_text

_SCOPES = {"in": "in distribution", "across": "across", "all": "all categories", "lowest": "lowest lift"}
_METRICS = {"last": "last value", "best": "best value", "last_mean": "mean of the last", "area": "area"}


def markdown(results: Mapping[str, Any]) -> str:
    """The page of a study's results."""
    parts = [f"## {name}\n\n{text}" for name, text in sections(results).items()]
    return "\n\n".join([_head(results), *parts]) + "\n"


def sections(results: Mapping[str, Any]) -> dict[str, str]:
    """The tables of a study by their headings."""
    return {
        "Verdicts": _verdicts(results),
        "Each method on each task": _rows(results),
        "What the last value hides": _hidden(results),
        "Curves": _curves(results),
        "Ranks": _ranks(results),
    }


def _head(results: Mapping[str, Any]) -> str:
    declared, cells = results["declared"], results["cells"]
    budget, primary = declared["budget"], declared["primary"]
    beyond = f", and on to {budget['beyond']:g} times that" if budget["beyond"] > 1 else ""
    unequal = f" {cells['unequal']} spent another budget: they are marked `!` and not compared." * (
        cells["unequal"] > 0
    )
    return (
        f"# {results['study']}\n\n{results['question']}\n\n"
        f"Declared before it ran: a budget of {budget['amount']:g} {budget['unit'].replace('_', ' ')} a cell{beyond}; "
        f"what decides is the {_METRICS[primary['metric']]} within the budget, {_SCOPES[primary['scope']]}, "
        f"{primary['direction']} is better, the control is `{primary['control']}`, the smallest effect of interest is "
        f"{primary['smallest']:g}.\n\n"
        f"{cells['done']} of {cells['wanted']} cells are done, which took {cells['seconds'] / 60:.1f} minutes in all."
        f"{unequal}\n\n    {results['command']}"
    )


def _verdicts(results: Mapping[str, Any]) -> str:
    rows = [
        [
            one["claim"], one["model"], f"{_METRICS[one['metric']]}, {_SCOPES[one['scope']]}", _effect(one["interval"]),
            "" if one["p"] is None else f"{one['p']:.2g}", f"{len(one['differences'])}", f"**{one['verdict']}**",
            one["reason"],
        ]
        for one in results["comparisons"]
    ]  # fmt: skip
    heads = ["Claim", "Model", "Measure", "Difference", "p, corrected", "Seeds", "Verdict", "Why"]
    return _table(heads, rows)


def _rows(results: Mapping[str, Any]) -> str:
    rows = []
    for row in _done(results):
        mark = " !" if row["unequal"] else ""
        rows.append(
            [
                row["model"], row["task"], row["method"] + mark, f"{row['seeds']}", _number(row["in"]["start"]),
                _mean(row["in"]["last"]), _mean((row["across"] or {}).get("last")), _mean(row["lowest"]["last"]),
                f"{row['spent']:g}", flops_text(round(row["cost"]["flops"])),
                _flops(row["cost"]["flops_per_point"]),
            ]
        )  # fmt: skip
    heads = ["Model", "Task", "Method", "Seeds", "Start", "Last, in distribution", "Last, across", "Lowest lift",
             "Spent in all", "Cost", "Cost a point"]  # fmt: skip
    return _table(heads, rows)


def _hidden(results: Mapping[str, Any]) -> str:
    rows = []
    for row in _done(results):
        own = row["in"]
        rows.append(
            [
                row["model"], row["task"], row["method"],
                *(_number(own[key]) for key in ("best",)), _number(own["last"]["mean"]),
                *(_number(own[key]) for key in ("last_mean", "area", "drawdown")),
                f"{own['collapsed']} of {row['seeds']}",
                *(_number(value, "+.3f") for value in own["gains"].values()),
                _number(row.get("below_control"), ".2f"),
            ]
        )  # fmt: skip
    gains = next((row["in"]["gains"] for row in _done(results)), {})
    heads = ["Model", "Task", "Method", "Best", "Last", "Mean of the last", "Area", "Drawdown", "Collapsed",
             *(f"Gain at {100 * float(share):g} %" for share in gains), "Below the control"]  # fmt: skip
    return _table(heads, rows)


def _curves(results: Mapping[str, Any]) -> str:
    rows = [
        [row["model"], row["task"], row["method"], _SCOPES[scope], *(_number(v) for v in row[scope]["curve"])]
        for row in _done(results)
        for scope in ("in", "across")
        if row[scope] is not None
    ]
    heads = ["Model", "Task", "Method", "On", *(f"{100 * share:g} %" for share in results["shares"])]
    return _table(heads, rows)


def _ranks(results: Mapping[str, Any]) -> str:
    found = results["ranks"]
    if not found:
        return "There are not two methods to rank yet."
    differ = sum(not one["agree"] for one in found)
    text = f"By the last value and by the area the methods stand in another order in {differ} of {len(found)} places."
    rows = [
        [one["model"], one["task"], _order(one["last"]), _order(one["area"]), "" if one["agree"] else "differs"]
        for one in found
    ]
    return f"{text}\n\n" + _table(["Model", "Task", "By last", "By area", ""], rows)


# ---------------------------------------------------------------- cells of the tables


def _done(results: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (row for row in results["rows"] if row["seeds"])


def _order(ranks: Mapping[str, float]) -> str:
    return ", ".join(f"{name} ({rank:g})" for name, rank in sorted(ranks.items(), key=lambda each: each[1]))


def _number(value: float | None, form: str = ".3f") -> str:
    return "" if value is None else format(value, form)


def _mean(value: Mapping[str, float | None] | None) -> str:
    if value is None:
        return ""
    between = "" if value["low"] is None else f" [{value['low']:.3f}, {value['high']:.3f}]"
    return f"{value['mean']:.3f}{between}"


def _effect(interval: Mapping[str, float] | None) -> str:
    if interval is None:
        return ""
    return f"{interval['estimate']:+.3f} [{interval['low']:+.3f}, {interval['high']:+.3f}]"


def _flops(value: float | None) -> str:
    return "" if value is None else flops_text(round(value))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join(lines)
