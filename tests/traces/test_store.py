"""The store gives back exactly what was written, and pandas opens it as a table of nodes."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.traces import (
    CONTEXT,
    DEMONSTRATION,
    ENVIRONMENT,
    Author,
    AuthorKind,
    Group,
    Relation,
    RelationKind,
    Role,
    SignalKind,
    Span,
    Status,
    Support,
    Trace,
    Verdict,
)  # fmt: skip
from burnish.traces.store import read_groups, write_groups

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
authors = st.sampled_from(
    [CONTEXT, ENVIRONMENT, DEMONSTRATION, Author(AuthorKind.ENVIRONMENT, "shell:a@1")]
) | st.builds(Author.model, names.filter(bool), st.integers(0, 3))


@st.composite
def supports(draw: st.DrawFn, tokens: list[int]) -> Support | None:
    """Kept sets that are empty or hold the token that was sampled."""
    if draw(st.booleans()):
        return None
    kept = [draw(st.just([]) | st.lists(st.integers(0, 99), max_size=2).map(lambda k, t=t: [*k, t])) for t in tokens]
    offsets = np.concatenate([[0], np.cumsum([len(k) for k in kept])]).astype(np.int64)
    return Support(offsets, np.array([i for k in kept for i in k], dtype=np.int32))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    trace = Trace(draw(names), draw(st.dictionaries(names, json_values, max_size=2)))
    for node in range(draw(st.integers(0, 4))):
        count = draw(st.integers(0, 3))
        who = draw(st.lists(authors, min_size=count, max_size=count))
        small = st.floats(-50, 0, width=32)
        tokens = draw(st.lists(st.integers(0, 2**31 - 1), min_size=count, max_size=count))
        logprobs = [draw(small) if a.kind is AuthorKind.MODEL else math.nan for a in who]
        trace.add(
            draw(st.integers(-1, node - 1)),
            tokens,
            who,
            draw(st.lists(st.sampled_from(list(Role)), min_size=count, max_size=count)),
            np.array(logprobs, dtype=np.float32),
            support=draw(supports(tokens)),
            meta=draw(st.dictionaries(names, json_values, max_size=1)),
        )
        for name in draw(st.lists(names, max_size=2, unique=True)):
            dtype = draw(st.sampled_from([np.float32, np.float64]))
            width = draw(st.sampled_from([None, 0, 2]))
            shape = (count,) if width is None else (count, width)
            size = int(np.prod(shape))
            element = st.just(math.nan) | st.floats(allow_infinity=False, width=32 if dtype == np.float32 else 64)
            values = np.array(draw(st.lists(element, min_size=size, max_size=size)), dtype=dtype).reshape(shape)
            kind = draw(st.sampled_from([SignalKind.STATISTIC, SignalKind.WEIGHT]))
            trace.write(node, name, values, kind, axes=() if width is None else ("k",))
    return trace


verdicts = st.none() | st.builds(
    Verdict,
    reward=st.floats(allow_nan=False, allow_infinity=False),
    components=st.dictionaries(names, st.floats(), max_size=2),
    evidence=st.dictionaries(names, json_values, max_size=2),
) | st.builds(Verdict.missing, st.sampled_from(list(Status)), names.filter(bool))  # fmt: skip


@st.composite
def group_lists(draw: st.DrawFn) -> list[Group]:
    spans: list[Span] = []
    for trace in draw(st.lists(traces(), min_size=1, max_size=3)):
        for leaf in range(len(trace.nodes)):
            length = len(trace.tokens(leaf))
            start = draw(st.integers(0, length))
            spans.append(
                Span(trace, leaf, draw(names), start, draw(st.none() | st.integers(start, length)),
                     draw(st.none() | names), draw(verdicts), draw(st.booleans()))
            )  # fmt: skip
            if draw(st.booleans()):
                trace.spans.append(spans[-1])
    groups: list[Group] = []
    for _ in range(draw(st.integers(1, 3))):
        members = draw(st.lists(st.sampled_from(spans), max_size=4)) if spans else []
        children = draw(st.lists(st.sampled_from(groups), max_size=2)) if groups else []
        group = Group(draw(names), members, [], children, draw(st.dictionaries(names, json_values, max_size=2)))
        if len(members) > 1:
            group.relate(Relation(1, 0, draw(st.sampled_from(list(RelationKind))), draw(st.floats(allow_nan=False))))
        groups.append(group)
    return draw(st.lists(st.sampled_from(groups), min_size=1, max_size=3))


class Same:
    """Checks that two graphs of groups are equal in every field and in which objects are shared."""

    def __init__(self) -> None:
        self.twin: dict[int, Any] = {}
        self.kept: list[Any] = []

    def seen(self, a: Any, b: Any) -> bool:
        self.kept.extend((a, b))
        if id(a) in self.twin or id(b) in self.twin:
            assert self.twin[id(a)] is b and self.twin[id(b)] is a
            return True
        self.twin[id(a)], self.twin[id(b)] = b, a
        return False

    def groups(self, a: Group, b: Group) -> None:
        if self.seen(a, b):
            return
        assert (a.key, a.columns, a.relations) == (b.key, b.columns, b.relations)
        assert (len(a.members), len(a.children)) == (len(b.members), len(b.children))
        for one, two in zip(a.members, b.members, strict=True):
            self.spans(one, two)
        for one, two in zip(a.children, b.children, strict=True):
            self.groups(one, two)

    def spans(self, a: Span, b: Span) -> None:
        if self.seen(a, b):
            return
        fields = ("leaf", "name", "start", "stop", "state_key", "masked")
        assert [getattr(a, f) for f in fields] == [getattr(b, f) for f in fields]
        assert repr(a.verdict) == repr(b.verdict)  # NaN components are equal by repr
        self.traces(a.trace, b.trace)

    def traces(self, a: Trace, b: Trace) -> None:
        if self.seen(a, b):
            return
        assert (a.id, a.meta, a.authors) == (b.id, b.meta, b.authors)
        assert (len(a.nodes), len(a.spans)) == (len(b.nodes), len(b.spans))
        for one, two in zip(a.spans, b.spans, strict=True):
            self.spans(one, two)
        for x, y in zip(a.nodes, b.nodes, strict=True):
            assert (x.parent, x.meta, list(x.signals)) == (y.parent, y.meta, list(y.signals))
            for field in ("tokens", "authors", "roles", "logprobs"):
                same_array(getattr(x, field), getattr(y, field))
            assert (x.support is None) == (y.support is None)
            if x.support is not None and y.support is not None:
                same_array(x.support.offsets, y.support.offsets)
                same_array(x.support.ids, y.support.ids)
            for one, two in zip(x.signals.values(), y.signals.values(), strict=True):
                assert (one.kind, one.axes) == (two.kind, two.axes)
                same_array(one.values, two.values)


def same_array(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape and not b.flags.writeable
    np.testing.assert_array_equal(a, b)
    if a.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(group_lists())
def test_groups_come_back_exactly(tmp_path: Path, groups: list[Group]) -> None:
    write_groups(tmp_path / "t.parquet", groups)
    back = read_groups(tmp_path / "t.parquet")
    assert len(back) == len(groups)
    same = Same()
    for one, two in zip(groups, back, strict=True):
        same.groups(one, two)


def example_groups() -> list[Group]:
    trace = Trace("t0")
    root = trace.add(-1, [1, 2], CONTEXT, Role.PROMPT)
    leaf = trace.add(root, [3, 4], Author.model("policy", 7), Role.ANSWER, [-0.5, -0.25])
    trace.write(leaf, "advantage", [1.0, 1.0], SignalKind.POLICY, learner="policy")
    trace.write(leaf, "features", np.ones((2, 3), np.float32), axes=["feature"])
    return [Group("g", [Span(trace, leaf, verdict=Verdict(1.0))])]


def test_pandas_opens_the_store_as_one_row_per_node(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_groups(path, example_groups())
    frame = pandas.read_parquet(path)
    assert list(frame["node"]) == [0, 1] and list(frame["parent"]) == [-1, 0] and list(frame["group"]) == ["g", "g"]
    row = frame.iloc[1]
    assert list(row["tokens"]) == [3, 4] and list(row["authors"]) == ["model:policy@7"] * 2
    assert list(row["roles"]) == ["answer"] * 2 and list(row["logprobs"]) == [-0.5, -0.25]
    assert list(row["signal/advantage"]) == [1.0, 1.0] and list(row["rewards"]) == [1.0]
    assert frame.iloc[0]["signal/advantage"] is None and np.isnan(frame.iloc[0]["logprobs"]).all()


def test_a_failed_write_leaves_the_old_store(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_groups(path, example_groups())
    before = path.read_bytes()
    bad = example_groups()
    bad[0].columns["when"] = {1: "one"}
    with pytest.raises(ValueError, match=r"columns of group 'g'.when has the key 1"):
        write_groups(path, bad)
    bad[0].columns["when"] = [Path("x")]
    with pytest.raises(ValueError, match=r"columns of group 'g'.when\[0\] is a PosixPath"):
        write_groups(path, bad)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["t.parquet"]


def test_a_group_that_contains_itself_is_refused(tmp_path: Path) -> None:
    group = Group("loop")
    group.children.append(group)
    with pytest.raises(ValueError, match="'loop' contains itself"):
        write_groups(tmp_path / "t.parquet", [group])


def test_missing_broken_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trace file at .*none.parquet"):
        read_groups(tmp_path / "none.parquet")
    text = tmp_path / "a.parquet"
    text.write_text("hello")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_groups(text)
    foreign = tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": [1]}), foreign)
    with pytest.raises(InputError, match="not one of Burnish's traces"):
        read_groups(foreign)


def test_a_later_format_and_lost_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_groups(path, example_groups())
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"burnish_format": b"9"}), path)
    with pytest.raises(InputError, match="trace format 9"):
        read_groups(path)
    pq.write_table(table.slice(0, 1), path)
    with pytest.raises(InputError, match="rows and its metadata disagree"):
        read_groups(path)


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    """Whatever byte is damaged, the reader either refuses the file as input or gives back the very same groups."""
    path = tmp_path / "t.parquet"
    original = example_groups()
    write_groups(path, original)
    content = bytearray(path.read_bytes())
    refused = 0
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        try:
            back = read_groups(path)
        except InputError:
            refused += 1
            continue
        Same().groups(original[0], back[0])
    assert refused > 20
