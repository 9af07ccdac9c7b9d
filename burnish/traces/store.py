"""A Parquet store of groups that round-trips exactly and opens in pandas.

One row is one node: group, trace, node, parent, then aligned lists with one entry per token (tokens, authors, roles,
logprobs, support, `signal/<name>`). What is not token-aligned (spans, verdicts, relations, nesting, columns) stands
as JSON in the file's metadata under the key `burnish`. Values of `meta`, `columns` and `evidence` must be JSON
values; tuples come back as lists and numpy scalars as Python numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from burnish.errors import InputError
from burnish.traces.files import atomic_path
from burnish.traces.groups import Group
from burnish.traces.records import Reached, groups_of, plain, records_of, rewards_by_leaf
from burnish.traces.trace import ROLES, Author, AuthorKind, Node, Signal, SignalKind, Support, Trace

FORMAT = 1
_SIGNAL = "signal/"
_METADATA_LIMIT = 2**31 - 1  # bytes; the reader's default of 100 MB would refuse large stores
_ROLE_NAMES = np.array([role.value for role in ROLES], dtype=object)


def write_groups(path: str | os.PathLike[str], groups: Sequence[Group]) -> None:
    """Write groups, nested groups and their whole traces to a Parquet file, atomically.

    Raises ValueError naming the place when a meta, column or evidence value is no JSON value.
    """
    reached = Reached(groups)
    record = records_of(reached)
    rows = [(trace, index, node) for trace in reached.traces for index, node in enumerate(trace.nodes)]
    record["signals"] = [
        [[name, s.kind.value, str(s.values.dtype), list(s.values.shape), list(s.axes)] for name, s in n.signals.items()]
        for _, _, n in rows
    ]
    columns = _columns(reached, rows)
    text = json.dumps(record).encode("ascii")
    metadata = {b"burnish": text, b"burnish_format": b"%d" % FORMAT, b"burnish_digest": _digest(text)}
    table = pa.table(columns).replace_schema_metadata(metadata)
    with atomic_path(path) as aside:
        pq.write_table(table, aside, compression="zstd", write_page_checksum=True)


def read_groups(path: str | os.PathLike[str]) -> list[Group]:
    """Read what `write_groups` wrote. Raises InputError when the file is missing, broken, or another program's."""
    record, table = _read(Path(path))
    assert table is not None
    try:
        return groups_of(record, _traces(record, table))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged: its rows and its metadata disagree ({error})") from error


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The structural half alone (records.py), without a single token: cheap however long the traces are.

    Raises InputError as `read_groups` does.
    """
    return _read(Path(path), tokens=False)[0]


def _read(name: Path, *, tokens: bool = True) -> tuple[dict[str, Any], pa.Table | None]:
    if not name.is_file():
        raise InputError(f"no trace file at {name}: give a .parquet file from a run's traces/ directory")
    try:
        with pq.ParquetFile(
            name, thrift_string_size_limit=_METADATA_LIMIT, page_checksum_verification=True, memory_map=False
        ) as source:
            metadata = source.schema_arrow.metadata or {}
            ours = b"burnish" in metadata
            table = source.read() if ours and tokens else None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name} is not a readable Parquet file ({error}): it is damaged or of another kind") from None
    if not ours:
        raise InputError(f"{name} is a Parquet file, but not one of Burnish's traces: it has no 'burnish' metadata")
    version = metadata.get(b"burnish_format", b"?").decode("ascii", "replace")
    if version != str(FORMAT):
        raise InputError(f"{name} has trace format {version}; this version of Burnish reads {FORMAT}")
    text = metadata[b"burnish"]
    if metadata.get(b"burnish_digest") != _digest(text):
        raise InputError(f"{name} is damaged: its metadata does not match its checksum")
    return json.loads(text), table


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode("ascii")


# ---------------------------------------------------------------- writing


def _columns(reached: Reached, rows: list[tuple[Trace, int, Node]]) -> dict[str, pa.Array]:
    nodes = [node for _, _, node in rows]
    ends = rewards_by_leaf(reached)
    at_node = [ends.get((reached.of(trace), index), []) for trace, index, _ in rows]
    columns: dict[str, Any] = {
        "group": pa.array([_printable(reached.key_of[id(trace)]) for trace, _, _ in rows], pa.string()),
        "trace": pa.array([_printable(trace.id) for trace, _, _ in rows], pa.string()),
        "trace_index": pa.array([reached.of(trace) for trace, _, _ in rows], pa.int32()),
        "node": pa.array([index for _, index, _ in rows], pa.int32()),
        "parent": pa.array([node.parent for node in nodes], pa.int32()),
        "tokens": _lists([node.tokens for node in nodes], pa.int32()),
        "authors": _lists([_author_names(trace, node) for trace, _, node in rows], pa.string()),
        "roles": _lists([_ROLE_NAMES[node.roles] for node in nodes], pa.string()),
        "logprobs": _lists([node.logprobs for node in nodes], pa.float32()),
        "support": _supports(nodes),
        "spans": pa.array([[_printable(name) for name, _, _ in spans] for spans in at_node], pa.list_(pa.string())),
        "rewards": pa.array([[reward for _, reward, _ in spans] for spans in at_node], pa.list_(pa.float64())),
        "status": pa.array([[status for _, _, status in spans] for spans in at_node], pa.list_(pa.string())),
        "meta": pa.array([json.dumps(plain(node.meta, "meta of a node")) for node in nodes], pa.string()),
    }
    for name in dict.fromkeys(name for node in nodes for name in node.signals):
        found = [node.signals.get(name) for node in nodes]
        wide = any(signal is not None and signal.values.dtype == np.float64 for signal in found)
        values = [None if signal is None else signal.values.reshape(-1) for signal in found]
        columns[_SIGNAL + name] = _lists(values, pa.float64() if wide else pa.float32())
    return columns


def _printable(text: str) -> str:
    """Text for a display column: a lone surrogate, which is no character, is shown as '?'."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _author_names(trace: Trace, node: Node) -> np.ndarray:
    names = np.empty(len(trace.authors), dtype=object)
    names[:] = [author_text(author) for author in trace.authors]
    return names[node.authors] if len(names) else np.zeros(0, dtype=object)


def author_text(author: Author) -> str:
    """An author as one word: `context`, `environment:shell`, `model:policy@3`."""
    if author.kind is AuthorKind.MODEL:
        return f"{author.kind.value}:{author.name}@{author.version}"
    return f"{author.kind.value}:{author.name}" if author.name else author.kind.value


def _author_of(text: str) -> Author:
    kind, _, name = text.partition(":")
    if kind == AuthorKind.MODEL:
        name, _, version = name.rpartition("@")
        return Author.model(name, int(version))
    return Author(AuthorKind(kind), name)


def _lists(values: Sequence[np.ndarray | None], kind: pa.DataType) -> pa.Array:
    """One list per row; None becomes a null row. A NaN stays a NaN, it never becomes a null."""
    lengths = [0 if v is None else len(v) for v in values]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    present = [v for v in values if v is not None and len(v)]
    flat = np.concatenate(present) if present else np.zeros(0, dtype=kind.to_pandas_dtype())
    items = pa.array(flat.tolist(), kind) if pa.types.is_string(kind) else pa.array(flat, kind, from_pandas=False)
    mask = pa.array([v is None for v in values], pa.bool_())
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items, mask=mask)


def _supports(nodes: list[Node]) -> pa.Array:
    kind = pa.list_(pa.list_(pa.int32()))
    rows = [None if n.support is None else [n.support.at(t).tolist() for t in range(len(n))] for n in nodes]
    return pa.array(rows, kind)


# ---------------------------------------------------------------- reading


def _traces(record: dict[str, Any], table: pa.Table) -> list[Trace]:
    traces = [Trace(entry["id"], entry["meta"]) for entry in record["traces"]]
    parsed = {name: table.column(name).combine_chunks() for name in table.column_names}
    columns = {name: values.to_numpy(zero_copy_only=False) for name, values in parsed.items() if name != "support"}
    authors: dict[str, Author] = {}
    for row, described in enumerate(record["signals"]):
        trace = traces[columns["trace_index"][row]]
        names = columns["authors"][row]
        for text in set(names):
            authors.setdefault(text, _author_of(text))
        node = trace.add(
            int(columns["parent"][row]),
            columns["tokens"][row],
            [authors[text] for text in names],
            [ROLES[code] for code in _role_codes(columns["roles"][row])],
            columns["logprobs"][row],
            support=_support_of(parsed["support"][row].as_py()),
            meta=json.loads(columns["meta"][row]),
        )
        for name, kind, dtype, shape, axes in described:
            values = np.array(columns[_SIGNAL + name][row], dtype=dtype).reshape(shape)
            values.setflags(write=False)
            trace.nodes[node].signals[name] = Signal(SignalKind(kind), values, tuple(axes))
    if table.num_rows != len(record["signals"]):
        raise ValueError(f"{table.num_rows} rows where {len(record['signals'])} nodes are described")
    for trace, entry in zip(traces, record["traces"], strict=True):
        if len(trace.nodes) != entry["nodes"]:
            raise ValueError(f"trace {trace.id!r} has {len(trace.nodes)} nodes of {entry['nodes']}")
    return traces


def _role_codes(names: Sequence[str]) -> list[int]:
    codes = {role.value: code for code, role in enumerate(ROLES)}
    return [codes[name] for name in names]


def _support_of(kept: list[list[int]] | None) -> Support | None:
    if kept is None:
        return None
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in kept])]).astype(np.int64)
    return Support(offsets, np.array([i for ids in kept for i in ids], dtype=np.int32))
