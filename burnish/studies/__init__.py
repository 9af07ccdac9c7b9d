"""Studies: evaluation and statistics."""

from burnish.studies.compared import Comparison, Lift, compare, minimum_lift, minimum_lifts
from burnish.studies.evaluation import Evaluation, Item, evaluate, greedy
from burnish.studies.intervals import cluster_wilson, mean_interval, paired_interval
from burnish.studies.measures import Result, categories_of, result_of, results_of
from burnish.studies.statistics import (
    Interval,
    bootstrap_interval,
    cluster_bootstrap,
    mcnemar,
    paired_bootstrap,
    pass_all_k,
    pass_at_k,
    t_interval,
    wilson_interval,
)

__all__ = [
    "Comparison", "Evaluation", "Interval", "Item", "Lift", "Result", "bootstrap_interval", "categories_of",
    "cluster_bootstrap", "cluster_wilson", "compare", "evaluate", "greedy", "mcnemar", "mean_interval", "minimum_lift",
    "minimum_lifts", "paired_bootstrap", "paired_interval", "pass_all_k", "pass_at_k", "result_of", "results_of",
    "t_interval", "wilson_interval",
]  # fmt: skip
