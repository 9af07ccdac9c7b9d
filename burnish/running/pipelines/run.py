"""Running a pipeline: each node in its turn, what is done kept, the state written down for people. No torch here.

What the nodes do is handed in as functions, since training and evaluating stand in higher rooms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from burnish.errors import BurnishError, InputError, RunError
from burnish.methods.recipe import Recipe
from burnish.running.interrupts import InterruptedRunError, Interrupts
from burnish.running.lock import Lock
from burnish.running.pipelines.artefacts import Artefact, Resolved, Store, now
from burnish.running.pipelines.contents import Contents
from burnish.running.pipelines.graph import Graph
from burnish.running.pipelines.plan import Step, look, outside_of_node, plan
from burnish.running.pipelines.spec import Made, NodeSpec
from burnish.running.progress import Progress, plain
from burnish.traces.files import atomic_write

STATE, MEMORY, _LOCK = "pipeline.json", "contents.json", ".lock"
_OURS = {STATE, MEMORY, _LOCK, "artefacts"}


@dataclass(frozen=True)
class Job:
    """What an executor gets: a node whose references are paths, and the folder that its artefact goes into.

    The folder may hold what an earlier, interrupted execution with the same key left.
    """

    id: str
    kind: str
    spec: NodeSpec | Recipe
    folder: Path
    progress: Progress


@dataclass(frozen=True)
class Product:
    """What an executor made: each thing with its place in the folder, and figures for the table of results."""

    outputs: Mapping[Made, Path]
    result: Mapping[str, Any] = field(default_factory=dict)


Executor = Callable[[Job], Product]
Display = Callable[[], AbstractContextManager[Progress]]
"""Makes a display for one node."""


@dataclass(frozen=True)
class NodeResult:
    """What became of a node: made in this run, or kept from an earlier one."""

    id: str
    kind: str
    status: Literal["made", "kept"]
    artefact: Artefact

    @property
    def result(self) -> Mapping[str, Any]:
        """The figures of the table of results."""
        return self.artefact.provenance["result"]


@dataclass(frozen=True)
class PipelineResult:
    """A finished pipeline: its directory and its nodes, in the order in which they were looked at."""

    out: Path
    nodes: tuple[NodeResult, ...]

    def __getitem__(self, id: str) -> NodeResult:
        return next(node for node in self.nodes if node.id == id)

    @property
    def made(self) -> list[str]:
        """The nodes that ran."""
        return [node.id for node in self.nodes if node.status == "made"]


def run_graph(graph: Graph, out: Path, executors: Mapping[str, Executor], display: Display) -> PipelineResult:
    """Run every node that is not done, in order; `executors` are by kind of node.

    Raises InputError when `out` holds something else or another pipeline runs there, and what an executor raises; what
    was finished before stays finished, and a node that was interrupted goes on where it was the next time.
    """
    with _held(out), Interrupts() as interrupts:
        contents, store = Contents(out / MEMORY), Store(out)
        state = _State(graph, out, plan(graph, store, contents))
        made: dict[str, Artefact] = {}
        results = []
        for number, node in enumerate(graph.nodes, 1):
            # looked at anew: a long node may have run since the plan was made
            step = look(node, made, outside_of_node(node, contents), store)
            status: Literal["made", "kept"] = "kept"
            artefact = step.artefact
            if artefact is None:
                title = f"node {node.id} ({number} of {len(graph.nodes)}, {node.kind}): {step.why}"
                status, artefact = "made", _execute(graph, step, store, executors, display, state, contents, title)
            else:
                store.check(artefact, contents)
            made[node.id] = artefact
            state.done(node.id, artefact, status)
            results.append(NodeResult(node.id, node.kind, status, artefact))
            if interrupts.requested and number < len(graph.nodes):
                raise InterruptedRunError(f"stopped after node {node.id}; run again to go on")
        return PipelineResult(out, tuple(results))


def _execute(
    graph: Graph,
    step: Step,
    store: Store,
    executors: Mapping[str, Executor],
    display: Display,
    state: _State,
    contents: Contents,
    title: str,
) -> Artefact:
    node, resolved = step.node, step.resolved
    assert resolved is not None  # the nodes before it are done
    folder = store.place(resolved)
    started = now()
    state.write(node.id, status="running", why=step.why, artefact=f"artefacts/{folder.name}")
    try:
        with display() as progress:
            progress.message(title)
            folder.mkdir(parents=True, exist_ok=True)
            spec = type(node.spec).model_validate(resolved.spec)
            product = executors[node.kind](Job(node.id, node.kind, spec, folder, progress))
        about = {"pipeline": graph.name, "file": graph.file}
        artefact = store.finish(resolved, about, product.outputs, product.result, (started, now()), contents)
        contents.save()
    except BaseException as error:
        failed = isinstance(error, BurnishError) and error.exit_status != 130
        with suppress(OSError):  # a disk that is full is told of by the first error
            state.write(node.id, status="failed" if failed else "half done", error=str(error) if failed else None)
        if isinstance(error, OSError):
            raise RunError(f"node {node.id}: {folder} could not be written ({error}); is the disk full?") from error
        if failed:
            raise type(error)(f"node {node.id}: {error}") from error
        raise
    return artefact


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Make the directory and hold its lock while the block runs."""
    try:
        held = {entry.name for entry in out.iterdir()} if out.exists() else set()
        aside = {name for name in held if name.startswith((f".{STATE}.", f".{MEMORY}."))}  # of one that was killed
        if foreign := sorted(held - _OURS - aside):
            raise InputError(
                f"{out} holds other things than a pipeline's ({foreign[0]}{', ...' * (len(foreign) > 1)}): "
                "give a directory of its own with --out"
            )
        out.mkdir(parents=True, exist_ok=True)
        lock = Lock(out / _LOCK)
    except NotADirectoryError:
        raise InputError(f"{out} is a file, or lies below one: give a directory with --out") from None
    except OSError as error:
        raise InputError(f"the pipeline's directory {out} cannot be made or written: {error.strerror}") from None
    if not lock.held:
        raise InputError(f"another pipeline runs in {out}{lock.owner()}: wait for it, or choose another --out")
    try:
        for name in aside:
            (out / name).unlink(missing_ok=True)
        yield
    finally:
        lock.release()


class _State:
    """OUT/pipeline.json: what every node is at, for people and other programs."""

    def __init__(self, graph: Graph, out: Path, steps: list[Step]) -> None:
        self.path = out / STATE
        self.values: dict[str, Any] = {"pipeline": graph.name, "file": graph.file, "updated": "", "nodes": {}}
        for step in steps:
            self.values["nodes"][step.node.id] = {"kind": step.node.kind, "status": step.state, "why": step.why}
        self._save()

    def done(self, id: str, artefact: Artefact, status: str) -> None:
        """A node is done: made just now, or kept."""
        written = artefact.provenance
        about = {"artefact": f"artefacts/{artefact.path.name}", "seconds": written["seconds"]}
        self.write(id, status="done", why=None, **{status: written["finished"]}, **about, result=written["result"])

    def write(self, id: str, **values: Any) -> None:
        """Change what is said of a node; None takes something away."""
        node = {**self.values["nodes"][id], **values}
        self.values["nodes"][id] = {key: value for key, value in node.items() if value is not None}
        self._save()

    def _save(self) -> None:
        self.values["updated"] = now().isoformat(timespec="seconds")
        atomic_write(self.path, json.dumps(plain(self.values), indent=1, ensure_ascii=False) + "\n")


__all__ = ["Executor", "Job", "NodeResult", "PipelineResult", "Product", "Resolved", "run_graph"]
