"""Groups and what they reach as plain JSON records, and back, with identity kept: the store's structural half.

Token-aligned arrays are not here (store.py keeps them in columns). Objects refer to each other by index, so a span
or a nested group that stands in several places comes back as one object.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from burnish.traces.groups import Group, Relation, RelationKind, Span
from burnish.traces.trace import Trace
from burnish.traces.verdicts import Status, Verdict

Record = dict[str, Any]


def plain(value: Any, where: str) -> Any:
    """`value` as JSON values: numpy scalars become Python's, tuples lists. Raises ValueError on anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {key!r}: only text keys can be stored")
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    raise ValueError(f"{where} is a {type(value).__name__}: only JSON values can be stored; convert it before")


class Reached:
    """Every group, span and trace reachable from some groups, each once, in order of first appearance."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self.groups: list[Group] = []
        self.spans: list[Span] = []
        self.traces: list[Trace] = []
        self.key_of: dict[int, str] = {}
        self._index: dict[int, int] = {}
        self._open: set[int] = set()
        self.roots = [self._group(group) for group in groups]

    def of(self, item: Group | Span | Trace) -> int:
        """The index of an object in its list."""
        return self._index[id(item)]

    def _group(self, group: Group) -> int:
        if id(group) in self._open:
            raise ValueError(f"group {group.key!r} contains itself")
        if id(group) in self._index:
            return self._index[id(group)]
        self._open.add(id(group))
        for span in group.members:
            self._span(span, group.key)
        for child in group.children:
            self._group(child)
        self._open.remove(id(group))
        self._index[id(group)] = len(self.groups)  # children come before their parents: reading is one pass
        self.groups.append(group)
        return len(self.groups) - 1

    def _span(self, span: Span, key: str) -> None:
        waiting = [span]
        while waiting:
            span = waiting.pop()
            if id(span) in self._index:
                continue
            self._index[id(span)] = len(self.spans)
            self.spans.append(span)
            if id(span.trace) not in self._index:
                self._index[id(span.trace)] = len(self.traces)
                self.traces.append(span.trace)
                self.key_of[id(span.trace)] = key
                waiting.extend(reversed(span.trace.spans))


def records_of(reached: Reached) -> Record:
    """The JSON record of everything but the token arrays."""
    return {
        "roots": reached.roots,
        "groups": [_group_record(group, reached) for group in reached.groups],
        "spans": [_span_record(span, reached) for span in reached.spans],
        "traces": [
            {
                "id": trace.id,
                "meta": plain(trace.meta, f"meta of trace {trace.id!r}"),
                "spans": [reached.of(span) for span in trace.spans],
                "nodes": len(trace.nodes),
            }
            for trace in reached.traces
        ],
    }


def _group_record(group: Group, reached: Reached) -> Record:
    return {
        "key": group.key,
        "members": [reached.of(span) for span in group.members],
        "relations": [[r.better, r.worse, r.kind.value, r.margin] for r in group.relations],
        "children": [reached.of(child) for child in group.children],
        "columns": plain(group.columns, f"columns of group {group.key!r}"),
    }


def _span_record(span: Span, reached: Reached) -> Record:
    record: Record = {
        "trace": reached.of(span.trace),
        "leaf": span.leaf,
        "name": span.name,
        "start": span.start,
        "stop": span.stop,
        "state_key": span.state_key,
        "masked": span.masked,
        "verdict": None,
    }
    if span.verdict is not None:
        where = f"verdict of span {span.name!r} in trace {span.trace.id!r}"
        record["verdict"] = {
            "reward": plain(span.verdict.reward, where),
            "status": span.verdict.status.value,
            "reason": span.verdict.reason,
            "components": plain(span.verdict.components, where),
            "evidence": plain(span.verdict.evidence, where),
        }
    return record


def groups_of(record: Record, traces: list[Trace]) -> list[Group]:
    """Rebuild the groups over traces whose nodes are in place. Raises KeyError or ValueError on a broken record."""
    spans = [_span_of(entry, traces) for entry in record["spans"]]
    for trace, entry in zip(traces, record["traces"], strict=True):
        trace.spans.extend(spans[index] for index in entry["spans"])
    groups: list[Group] = []
    for entry in record["groups"]:
        group = Group(
            key=entry["key"],
            members=[spans[index] for index in entry["members"]],
            children=[groups[index] for index in entry["children"]],
            columns=entry["columns"],
        )
        for better, worse, kind, margin in entry["relations"]:
            group.relate(Relation(better, worse, RelationKind(kind), margin))
        groups.append(group)
    return [groups[index] for index in record["roots"]]


def _span_of(entry: Record, traces: list[Trace]) -> Span:
    verdict = entry["verdict"]
    return Span(
        trace=traces[entry["trace"]],
        leaf=entry["leaf"],
        name=entry["name"],
        start=entry["start"],
        stop=entry["stop"],
        state_key=entry["state_key"],
        masked=entry["masked"],
        verdict=None if verdict is None else Verdict(**{**verdict, "status": Status(verdict["status"])}),
    )


def rewards_by_leaf(reached: Reached) -> dict[tuple[int, int], list[tuple[str, float, str]]]:
    """For the readable columns: name, reward (NaN: missing) and status of the spans that end at each node."""
    found: dict[tuple[int, int], list[tuple[str, float, str]]] = {}
    for span in reached.spans:
        status = "masked" if span.masked else "unjudged" if span.verdict is None else span.verdict.status.value
        reward = math.nan if span.verdict is None or span.verdict.reward is None else float(span.verdict.reward)
        found.setdefault((reached.of(span.trace), span.leaf), []).append((span.name, reward, status))
    return found
