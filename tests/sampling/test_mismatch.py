"""A sampler that is on purpose not the learner: what it samples with, what it says, and what a run makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.errors import InputError
from burnish.learning.scoring import score, score_top
from burnish.models.language_model import LanguageModel
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import QuietProgress
from burnish.sampling.mismatch import MismatchedEngine, rounded
from burnish.sampling.protocol import SamplingParams
from burnish.sampling.spec import MismatchSpec
from burnish.traces import CONTEXT, Author, Group, Role, Span, Trace
from burnish.traces.store import read_groups
from tests.tiny import tiny_network

PARAMS = SamplingParams(max_tokens=6)


def pair() -> tuple[LanguageModel, LanguageModel]:
    return tuple(LanguageModel(tiny_network("qwen2", 0), name="policy") for _ in range(2))  # type: ignore[return-value]


def moved(model: LanguageModel, version: int) -> None:
    """An update: every weight a little larger."""
    with torch.no_grad():
        for values in model.network.parameters():
            values.mul_(1.1)
    model.version = version


async def sampled(engine: MismatchedEngine, temperature: float) -> Group:
    trace = Trace("t")
    root = trace.add(-1, [5, 6, 7], CONTEXT, Role.PROMPT)
    members = []
    for completion in await engine.sample([5, 6, 7], PARAMS, n=6, seed=1, task=0):
        authors = [Author.model("policy", int(v)) for v in completion.versions]
        meta = {"temperature": temperature}
        leaf = trace.add(root, completion.tokens, authors, Role.ANSWER, completion.logprobs, meta=meta)
        members.append(Span(trace, leaf))
    return Group("g", members)


def gap(model: LanguageModel, group: Group) -> float:
    return float(np.abs(score(model, [group]).sampler_gap).max())


@pytest.mark.parametrize(
    ("spec", "temperature"),
    [
        (MismatchSpec(rounded="int8"), 1.0),
        (MismatchSpec(rounded="bfloat16"), 1.0),
        (MismatchSpec(temperature=1.3), 1.3),
    ],
    ids=["int8", "bfloat16", "temperature"],
)
def test_its_log_probabilities_are_true_and_are_not_the_learners(spec: MismatchSpec, temperature: float) -> None:
    from burnish.running.sync import finished

    policy, copy = pair()
    engine = MismatchedEngine(policy, copy, spec)
    group = finished(sampled(engine, 1.0))
    assert gap(policy, group) > 1e-3
    for node in group.members[0].trace.nodes[1:]:
        node.meta["temperature"] = temperature  # what it really drew at
    assert gap(engine.model, group) < 1e-4


def test_a_stale_sampler_lags_behind_and_says_which_version_it_has() -> None:
    policy, copy = pair()
    engine = MismatchedEngine(policy, copy, MismatchSpec(stale=2))
    first = next(iter(copy.network.parameters())).clone()
    found = []
    for version in range(1, 5):
        moved(policy, version)
        engine.publish(version)
        found.append(engine.version)
    assert found == [0, 0, 1, 2]
    torch.testing.assert_close(next(iter(copy.network.parameters())), first * 1.1**2)
    from burnish.running.sync import finished

    completion = finished(engine.sample([5, 6], PARAMS, seed=0, task=0))[0]
    assert set(completion.versions.tolist()) == {2}


def test_int8_has_255_steps_a_row_and_leaves_vectors() -> None:
    matrix = torch.randn(3, 1000)
    found = rounded(matrix, "int8")
    assert all(len(row.unique()) <= 255 for row in found)
    assert float((found - matrix).abs().max()) <= float(matrix.abs().max()) / 127 / 2 * 1.001
    vector = torch.randn(5)
    assert rounded(vector, "int8") is vector


def test_its_most_probable_tokens_are_those_it_drew_from() -> None:
    from burnish.running.sync import finished

    policy, copy = pair()
    engine = MismatchedEngine(policy, copy, MismatchSpec(temperature=1.3))
    group = finished(sampled(engine, 1.0))
    covered = score_top(engine.model, [group], 1000, ("top_ids", "top_logprobs"), temperature=1.3)
    assert covered == pytest.approx(1.0)
    for member in group.members:
        node = member.trace.nodes[member.leaf]
        ids, logprobs = (node.signals[name].values for name in ("top_ids", "top_logprobs"))
        assert ids.shape == (len(node), 97) and (np.diff(logprobs, axis=1) <= 0).all()
        own = logprobs[ids == node.tokens[:, None]]
        np.testing.assert_allclose(own, node.logprobs, atol=1e-4)
    assert score_top(engine.model, [group], 3, ("top_ids", "top_logprobs"), temperature=1.3) < 1


SUMS: dict[str, Any] = {
    "steps": 2, "prompts_per_step": 4, "samples_per_prompt": 4, "sampling": {"max_tokens": 6}, "threads": 1,
    "model": {"path": "nursery:arithmetic-S", "dtype": "float32"}, "checkpoint_every": 0, "traces_every": 1,
    "data": {"family": {"kind": "arithmetic", "digits": [2], "count": 64, "question": "{a}{op}{b}="}},
    "rewards": "numeric", "optimizer": {"lr": 1e-3}, "mismatch": {"rounded": "int8", "stale": 1},
}  # fmt: skip


def run(folder: Path, method: str, **changes: Any) -> tuple[list[dict[str, float]], list[Group]]:
    recipe = recipe_from_mapping({"method": method, **SUMS, **changes})
    burnish.train(recipe, out=folder, progress=QuietProgress())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return lines, read_groups(folder / "traces" / "step-000002.parquet")


def test_a_run_corrects_for_it_and_tells_how_much(tmp_path: Path) -> None:
    lines, groups = run(tmp_path / "run", "grpo", options={"old": "learner", "correction": {"rule": "mis"}})
    assert all(line["sampler_gap"] > 1e-3 and line["mismatch_k3"] > 0 for line in lines)
    assert all(0.5 < line["correction"] < 2 and line["correction_square"] > 0 for line in lines)
    assert {a.version for g in groups for t in g.traces for a in t.authors if a.version >= 0} == {0}  # a step behind


def test_score_centering_trains_on_the_samplers_own_top_tokens(tmp_path: Path) -> None:
    lines, groups = run(tmp_path / "run", "score-centering")
    assert all(line["covered_mass"] > 0.99 and line["grad_norm"] > 0 for line in lines)
    node = groups[0].traces[0].nodes[1]
    assert node.signals["top_logprobs"].values.shape[1] == 100  # the nursery's whole vocabulary


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"checkpoint_every": 5}, "mismatch.stale: a checkpoint does not hold the older weights"),
        ({"mismatch": {}}, "rounded, stale or temperature must differ"),
        ({"options": {"correction": {}}}, "would count it twice; set old: learner"),
        ({"options": {"centering": {}}}, "set surrogate: reinforce and old: sampler"),
        (
            {"options": {"surrogate": "reinforce", "centering": {}, "entropy_share": 0.5}},
            "a choice among tokens would bring the drift back",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        recipe_from_mapping({"method": "grpo", **SUMS, **changes})
    assert message in str(error.value)


def test_a_copy_of_another_kind_is_refused() -> None:
    policy, _ = pair()
    with pytest.raises(InputError, match="with the parameters of the policy"):
        MismatchedEngine(policy, LanguageModel(tiny_network("gpt2", 0), name="policy"), MismatchSpec(stale=1))
