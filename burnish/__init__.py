"""Burnish: post-training of language models in one small grammar.

`import burnish` is quick and imports no torch: the public names below are loaded from their rooms when first used. What
the command line can do, a function here does: docs/notebook.ipynb uses them all.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers
    from burnish.api import RunResult, train
    from burnish.comparing import study
    from burnish.errors import InputError, PromiseError, RunError
    from burnish.learning.learner import Learner
    from burnish.methods.recipe import Recipe
    from burnish.models.loading import load_model
    from burnish.nursery import build_nursery, list_nursery, nursery_rates
    from burnish.pipelines import run_pipeline, show_pipeline
    from burnish.running.catalogue import config, explain, list_methods
    from burnish.running.checking import check_data
    from burnish.running.choosing import plan
    from burnish.running.config import load_recipe
    from burnish.running.data import read_tasks
    from burnish.running.probing import probe_sandbox
    from burnish.running.talk import Conversation, Sample, Speaker, chat, sample
    from burnish.running.talk import export_model as export
    from burnish.sampling import LocalEngine
    from burnish.studies.audits import audit
    from burnish.studies.bench.compare import bench_compare
    from burnish.studies.bench.listing import list_benchmarks
    from burnish.studies.bench.measure import bench
    from burnish.studies.bench.search import bench_search
    from burnish.studies.check import check_model as check
    from burnish.studies.compared import compare
    from burnish.studies.gate import gate
    from burnish.studies.single import evaluate_by_name as evaluate
    from burnish.traces import Group, Span, Trace, Verdict
    from burnish.view.curve import curve
    from burnish.view.live.server import view_run
    from burnish.view.report import write_report as report
    from burnish.view.show import show

__version__ = "0.1.0"

_HOMES: dict[str, str] = {
    # what the command line does
    "train": "burnish.api",
    "run_pipeline": "burnish.pipelines",
    "show_pipeline": "burnish.pipelines",
    "study": "burnish.comparing",
    "config": "burnish.running.catalogue",
    "show": "burnish.view.show",
    "report": "burnish.view.report:write_report",
    "audit": "burnish.studies.audits",
    "view_run": "burnish.view.live.server",
    "check_data": "burnish.running.checking",
    "read_tasks": "burnish.running.data",
    "chat": "burnish.running.talk",
    "sample": "burnish.running.talk",
    "evaluate": "burnish.studies.single:evaluate_by_name",
    "check": "burnish.studies.check:check_model",
    "export": "burnish.running.talk:export_model",
    "list_methods": "burnish.running.catalogue",
    "explain": "burnish.running.catalogue",
    "plan": "burnish.running.choosing",
    "probe_sandbox": "burnish.running.probing",
    "gate": "burnish.studies.gate",
    "build_nursery": "burnish.nursery",
    "list_nursery": "burnish.nursery",
    "nursery_rates": "burnish.nursery",
    "bench": "burnish.studies.bench.measure",
    "list_benchmarks": "burnish.studies.bench.listing",
    "bench_search": "burnish.studies.bench.search",
    "bench_compare": "burnish.studies.bench.compare",
    # what goes with it
    "compare": "burnish.studies.compared",
    "curve": "burnish.view.curve",
    "load_recipe": "burnish.running.config",
    "Recipe": "burnish.methods.recipe",
    "RunResult": "burnish.api",
    "Speaker": "burnish.running.talk",
    "Sample": "burnish.running.talk",
    "Conversation": "burnish.running.talk",
    "InputError": "burnish.errors",
    "PromiseError": "burnish.errors",
    "RunError": "burnish.errors",
    # the grammar
    "Group": "burnish.traces",
    "Learner": "burnish.learning.learner",
    "LocalEngine": "burnish.sampling",
    "load_model": "burnish.models.loading",
    "Span": "burnish.traces",
    "Trace": "burnish.traces",
    "Verdict": "burnish.traces",
}
"""Public name -> the module it lives in, and its name there where that is another one."""

__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'burnish' has no attribute {name!r}; it has: {', '.join(sorted(_HOMES))}")
    module, _, there = _HOMES[name].partition(":")
    with warnings.catch_warnings():
        # tqdm, which transformers imports, misses widgets in a notebook; nothing here draws any
        warnings.filterwarnings("ignore", "IProgress not found")
        value = getattr(importlib.import_module(module), there or name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
