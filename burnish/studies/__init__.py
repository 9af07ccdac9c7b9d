"""Studies: evaluation and statistics."""

from burnish.studies.evaluation import Comparison, Evaluation, Item, compare, evaluate, greedy
from burnish.studies.statistics import (
    Interval,
    bootstrap_interval,
    cluster_bootstrap,
    paired_bootstrap,
    pass_at_k,
    wilson_interval,
)

__all__ = [
    "Comparison", "Evaluation", "Interval", "Item", "bootstrap_interval", "cluster_bootstrap", "compare", "evaluate",
    "greedy", "paired_bootstrap", "pass_at_k", "wilson_interval",
]  # fmt: skip
