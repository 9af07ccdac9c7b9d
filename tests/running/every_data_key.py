"""What each key of `data` should change: a part of the table of tests/running/test_every_key.py.

Each entry has the arguments of an `Entry` (tests/running/every_key.py).
"""

from __future__ import annotations

from typing import Any

Given = dict[str, Any]

ROWS, BAD = {"path": "@rows.jsonl"}, {"path": "@bad.jsonl"}
HUB = {"hub": "@hub", "name": "one", "split": "train"}
RECORDS, PROGRAMS, MODULAR, SYMBOLS = (
    {"kind": kind, "wording": "short"} for kind in ("records", "programs", "modular", "symbols")
)
RATES = {"column": "rate", "low": 0.1, "high": 0.9}
ALONE = ("sft",)


def family(**keys: Any) -> Given:
    """An origin."""
    return {"family": {"kind": "arithmetic", "count": 20, **keys}}


def part(value: Any, sees: str = "traces", origin: Given = ROWS, fails: str = "", **more: Any) -> Given:
    """A key of the first part of a mix, which has the keys of `origin`; the same code runs for each method."""
    given = {"data": {"mix": [origin, {"path": "@held.jsonl"}]}, **more.pop("given", {})}
    return {"value": value, "sees": "" if fails else sees, "given": given, "fails": fails, "where": ALONE, **more}


MIX: dict[str, Given] = {
    "weight": part(3),
    "path": part("@more.jsonl"),
    "hub": part("@other_hub", origin=HUB),
    "split": part("test", origin=HUB),
    "name": part("two", origin=HUB),
    "revision": part("main", origin=HUB, fails="is a folder, which has no revisions"),
    "family.kind": part("geometry", origin=family(), fails="given 'geometry'"),
    "family.operations": part(["*"], origin=family()),
    "family.digits": part([3], origin=family()),
    "family.count": part(7, origin=family()),
    "family.split": part("heldout", origin=family()),
    "family.negative": part(True, origin=family(operations=["-"])),
    "family.question": part("{a} {op} {b} is", origin=family()),
    "family.levels": part([3], origin=family(**RECORDS)),
    "family.wording": part("full", origin=family(**RECORDS)),
    "family.examples": part(1, origin=family(**RECORDS)),
    "family.takes": part(["text"], origin=family(**PROGRAMS)),
    "family.moduli": part([5], origin=family(**MODULAR)),
    "family.tasks": part(["copy"], origin=family(**SYMBOLS)),
    "family.careless": part(1.0, origin=family(**RECORDS), where=("sft",)),
    "style": part("text", origin=family(), fails="style: text needs model.template: plain"),
    "system": part("be brief"),
    "seed": part(5, origin={**ROWS, "shuffle": True}),
    "format": part("qa"),
    "columns": part({"system": "question"}),
    "prompt": part("question"),
    "answer": part("other", where=("grpo",)),
    "messages": part("talk"),
    "completion": part("reply"),
    "template": part("{question}?"),
    "on_bad_row": part("skip", "outcome", origin=BAD),
    "limit": part(3),
    "shuffle": part(True),
}


def trained(value: Any, sees: str = "traces", fails: str = "", **given: Any) -> Given:
    """A key of `data`, whose own keys are `given`; the file of rows unless they say otherwise."""
    where = given.pop("where", ALONE)
    return {"value": value, "sees": "" if fails else sees, "given": given, "fails": fails, "where": where}


def windowed(value: Any, **keys: Any) -> Given:
    """A key of a window over the pass rates that a run measures, long enough to go round twice."""
    given = {"data": {**ROWS, "window": {"low": 0.0, "high": 0.5, **keys}}, "steps": 7, "traces_every": 1}
    return {"value": value, "sees": "traces", "given": given, "where": ("grpo",)}


def prioritised(value: Any) -> Given:
    """A key of a priority by success rates that a run measures."""
    given = {"data": {**ROWS, "priority": {}}, "steps": 9, "traces_every": 1}
    return {"value": value, "sees": "traces", "given": given, "where": ("grpo",)}


def staged(value: Any, fails: str = "", mix: bool = False, **keys: Any) -> Given:
    """A key of a curriculum; `keys` are those of its first stage."""
    origin: Given = {"mix": [ROWS, {"path": "@held.jsonl"}]} if mix else ROWS
    stage = {"start": 0, "low": 0, "high": 3, **keys} if not mix else {"start": 0, **keys}
    curriculum = {"stages": [stage]} | ({} if mix else {"column": "level"})
    return trained(value, fails=fails, data={**origin, "curriculum": curriculum})


TRAINED: dict[str, Given] = {
    "hub": trained("@other_hub", data=HUB),
    "split": trained("test", data=HUB),
    "name": trained("two", data=HUB),
    "revision": trained("main", data=HUB, fails="is a folder, which has no revisions"),
    "format": trained("qa"),
    "columns": trained({"system": "question"}),
    "on_bad_row": trained("skip", "outcome", data=BAD),
    "window.low": trained(0.5, data={**ROWS, "window": RATES}),
    "window.high": trained(0.5, data={**ROWS, "window": RATES}),
    "window.column": trained("other_rate", data={**ROWS, "window": RATES}),
    "window.passing": windowed(1000),
    "window.rest": windowed(3),
    "priority.passing": prioritised(0.0),
    "priority.floor": prioritised(1.0),
    "priority.memory": prioritised(0.0),
    "curriculum.column": staged("other_level"),
    "curriculum.stages[].start": staged(1, fails="the first stage starts after 1 steps"),
    "curriculum.stages[].low": staged(2),
    "curriculum.stages[].high": staged(2),
    "curriculum.stages[].weights": staged([0, 1], mix=True, weights=[1, 0]),
}


def evaluated(value: Any, sees: str = "evaluations", fails: str = "", **data: Any) -> Given:
    """A key of the evaluation's data."""
    held = {"data": data or {"path": "@held.jsonl"}, "max_tokens": 3, "correct": {"tolerance": 0.5}}
    given = {"evaluation": held}
    return {"value": value, "sees": "" if fails else sees, "given": given, "fails": fails, "where": ALONE}


EVALUATED: dict[str, Given] = {
    "hub": evaluated("@other_hub", **HUB),
    "split": evaluated("test", **HUB),
    "name": evaluated("two", **HUB),
    "revision": evaluated("main", fails="is a folder, which has no revisions", **HUB),
    "format": evaluated("qa"),
    "columns": evaluated({"system": "question"}),
    "on_bad_row": evaluated("skip", "outcome", **BAD),
}

DATA_KEYS: dict[str, Given] = {
    **{f"data.{key}": entry for key, entry in TRAINED.items()},
    **{f"data.mix[].{key}": entry for key, entry in MIX.items()},
    **{f"evaluation.data.{key}": entry for key, entry in EVALUATED.items()},
}
"""Keys of recipes -> arguments of an entry."""
