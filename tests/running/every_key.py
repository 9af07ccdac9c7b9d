"""What each key of a recipe should change: the table of tests/running/test_every_key.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from burnish.methods.registry import DECLARED
from tests.running.every_data_key import DATA_KEYS, MODULAR, PROGRAMS, RECORDS, SYMBOLS

NUMERIC = {"kind": "numeric", "tolerance": 0.5}
HELD = {"data": {"path": "@held.jsonl"}, "max_tokens": 3, "correct": {"tolerance": 0.5}}


@dataclass(frozen=True)
class Entry:
    """Another value of a key, and what must come out otherwise: something that was seen, or the error it must give.

    "@name" in a value is a file of the scene. `given` are keys that both runs have, without which this one means
    nothing. `where` are the methods to try it with: one is enough where the same code runs for each.
    """

    value: Any
    sees: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    fails: str = ""
    where: tuple[str, ...] = DECLARED


def fails(value: Any, message: str, **options: Any) -> Entry:
    """The value must be refused."""
    return Entry(value, fails=message, **options)


def grpo(value: Any, sees: str, **given: Any) -> Entry:
    """A key that methods with samples have; `__` in the names of `given` is the dot."""
    return Entry(value, sees, _dotted(given))


def both(value: Any, sees: str, **given: Any) -> Entry:
    """A key that every method has."""
    return Entry(value, sees, _dotted(given))


def _dotted(given: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("__", "."): value for key, value in given.items()}


def reward(function: str) -> dict[str, Any]:
    """`given` with another function of the scene as the reward."""
    return {"rewards": {"rewards": [{"kind": "function", "function": f"@rewards.py:{function}"}]}}


def numeric(**keys: Any) -> dict[str, Any]:
    """`given` with a numeric reward."""
    return {"rewards": {"rewards": [{**NUMERIC, **keys}]}}


def verified(kind: str, **keys: Any) -> dict[str, Any]:
    """`given` with a verifier of that kind."""
    return {"rewards": {"rewards": [{"kind": kind, **keys}]}}


def of_kind(value: Any, kinds: str) -> Entry:
    """A key of other kinds of reward than the one that is there."""
    return Entry(value, fails=f"belongs to kind {kinds}", given=numeric(), where=("grpo",))


DENSE, SHORT = ({"kind": "function", "function": f"@rewards.py:{name}"} for name in ("dense", "short"))
GATED = {"rewards": {"rewards": [DENSE, SHORT], "gates": [{"component": "dense", "least": -1.0}]}}
CLOSED = {"rewards": {**GATED["rewards"], "gates": [{"component": "dense", "least": 1e9, "gates": ["dense"]}]}}
"""`given` with two rewards, the first of which gates: open, and closed to itself alone."""


def family(**keys: Any) -> dict[str, Any]:
    """`given` with a generated family in place of the file."""
    return {"data": {"family": {"kind": "arithmetic", "count": 20, **keys}}}


def tracked(value: Any, kind: str) -> Entry:
    """A key of a tracker of that kind."""
    return Entry(value, "trackers", {"trackers": [{"kind": kind}]}, where=("sft",))


ADAPTED = {"model__adapter": {"rank": 4}}

COMMON: dict[str, Entry] = {
    "method": fails("@", "rewards"),  # the other method: tried with each
    "seed": both(1, "weights"),
    "steps": both(3, "weights"),
    "prompts_per_step": both(3, "weights"),
    "model.path": both("@other", "weights"),
    "model.dtype": both("float64", "weights"),
    "model.device": fails("cuda:99", "device 'cuda:99' is not there"),
    "model.template": both("@template.jinja", "traces"),
    "model.adapter.rank": both(2, "weights", **ADAPTED),
    "model.adapter.alpha": both(5, "weights", **ADAPTED),
    "model.adapter.dropout": fails(0.5, "dropout is always off"),
    "model.adapter.targets": both(["c_attn"], "weights", **ADAPTED),
    "model.adapter.rslora": both(True, "weights", **ADAPTED),
    "model.adapter.path": both("@adapter", "weights", model__adapter={}),
    "data.path": both("@more.jsonl", "weights"),
    "data.family.kind": fails("geometry", "given 'geometry'", given=family()),
    "data.family.operations": both(["*"], "traces", **family()),
    "data.family.digits": both([3], "traces", **family()),
    "data.family.count": both(7, "traces", **family()),
    "data.family.split": both("heldout", "traces", **family()),
    "data.family.negative": both(True, "traces", **family(operations=["-"])),
    "data.family.question": both("{a} {op} {b} is", "traces", **family()),
    "data.family.levels": both([3], "traces", **family(**RECORDS)),
    "data.family.wording": both("full", "traces", **family(**RECORDS)),
    "data.family.examples": both(1, "traces", **family(**RECORDS)),
    "data.family.takes": both(["text"], "traces", **family(**PROGRAMS)),
    "data.family.moduli": both([5], "traces", **family(**MODULAR)),
    "data.family.tasks": both(["copy"], "traces", **family(**SYMBOLS)),
    "data.style": both("text", "traces", model__template="plain", **family()),
    "data.system": both("be brief", "traces"),
    "data.seed": both(5, "traces", data__shuffle=True),
    "data.prompt": both("question", "traces"),
    "data.answer": both("other", "traces"),
    "data.messages": both("asked", "traces"),
    "data.completion": both("reply", "weights"),
    "data.template": both("{question}?", "traces"),
    "data.limit": both(3, "traces"),
    "data.shuffle": both(True, "traces"),
    "optimizer.name": both("adagrad", "weights"),
    "optimizer.lr": both(2e-2, "weights"),
    "optimizer.betas": both([0.5, 0.9], "weights"),
    "optimizer.eps": both(1e-3, "weights"),
    "optimizer.weight_decay": both(0.5, "weights"),
    "optimizer.momentum": both(0.5, "weights", optimizer__name="sgd"),
    "optimizer.muon.momentum": both(0.1, "weights", optimizer__name="muon", steps=3),
    "optimizer.muon.nesterov": both(False, "weights", optimizer__name="muon", steps=3),
    "optimizer.muon.iterations": both(1, "weights", optimizer__name="muon"),
    "optimizer.muon.coefficients": both("polar", "weights", optimizer__name="muon"),
    "optimizer.muon.scale": both("original", "weights", optimizer__name="muon"),
    "optimizer.muon.normalise": both(True, "weights", optimizer__name="muon"),
    "optimizer.muon.split": both(False, "weights", optimizer__name="muon"),
    "optimizer.muon.rest_lr": both(0.1, "weights", optimizer__name="muon"),
    "optimizer.muon.precision": both("bfloat16", "weights", optimizer__name="muon"),
    "optimizer.clip_norm": both(1e-3, "weights", optimizer__name="sgd"),
    "optimizer.schedule": both("cosine", "weights"),
    "optimizer.warmup_steps": both(2, "weights", steps=3),
    "optimizer.decay_steps": both(3, "weights", optimizer__schedule="linear"),
    "optimizer.final_ratio": both(0.5, "weights", optimizer__schedule="linear"),
    "learner.micro_batch_tokens": both(30, "layout"),
    "learner.share_prefixes": both(False, "layout"),
    "learner.packing": both(False, "layout"),
    "learner.gradient_checkpointing": both(True, "forwards"),
    "learner.head": both("chunked", "head"),
    "learner.optimizer_steps": both(2, "weights"),
    "evaluation.every": both(1, "evaluations", evaluation=HELD),
    "traces_every": both(1, "traces", steps=3),
    "deterministic": both(True, "torch"),
    "checkpoint_every": both(1, "files"),
    "keep_checkpoints": both(1, "files", steps=3, checkpoint_every=1),
    "guards.stall_seconds": Entry(0.1, "files", {"steps": 1, **reward("stall")}, where=("grpo",)),
    "trackers[].kind": tracked("trackio", "tensorboard"),
    "trackers[].project": tracked("mine", "wandb"),
    "trackers[].name": tracked("mine", "wandb"),
    "trackers[].entity": tracked("us", "wandb"),
    "trackers[].mode": tracked("offline", "wandb"),
    "threads": Entry(2, "torch", where=("sft",)),
}  # fmt: skip


def evaluated(value: Any, sees: str = "evaluations", **given: Any) -> Entry:
    """A key of the evaluation, which is the same code for every method."""
    return Entry(value, sees, {"evaluation": HELD, **_dotted(given)}, where=("sft",))


def refused(value: Any, message: str, **given: Any) -> Entry:
    """A value of a key of the evaluation that must be refused."""
    return Entry(value, "", {"evaluation": HELD, **given}, fails=message, where=("sft",))


def held_family(**keys: Any) -> dict[str, Any]:
    """`given` with an evaluation on a generated family."""
    return {"evaluation": {**HELD, **family(split="heldout", **keys)}}


LEVEL = {"evaluation__correct__column": "level"}
"""Of families whose answers are no numbers."""

EVALUATION: dict[str, Entry] = {
    "data.path": evaluated("@kept.jsonl"),
    "data.family.kind": refused("geometry", "given 'geometry'", **held_family()),
    "data.family.operations": evaluated(["*"], **held_family()),
    "data.family.digits": evaluated([3], **held_family()),
    "data.family.count": evaluated(7, **held_family()),
    "data.family.split": evaluated("train", **held_family()),
    "data.family.negative": evaluated(True, **held_family(operations=["-"])),
    "data.family.question": evaluated("{a} {op} {b} is", **held_family()),
    "data.family.levels": evaluated([3], **held_family(**RECORDS), **LEVEL),
    "data.family.wording": evaluated("full", **held_family(**RECORDS), **LEVEL),
    "data.family.examples": evaluated(1, **held_family(**RECORDS), **LEVEL),
    "data.family.takes": evaluated(["text"], **held_family(**PROGRAMS), **LEVEL),
    "data.family.moduli": evaluated([5], **held_family(**MODULAR), **LEVEL),
    "data.family.tasks": evaluated(["copy"], **held_family(**SYMBOLS), **LEVEL),
    "data.family.careless": refused(
        1.0,
        "careless: for demonstrations, unused",
        evaluation={**HELD, **family(split="heldout", **RECORDS), "correct": {"column": "level"}},
    ),
    "data.style": evaluated("text", model__template="plain", **held_family()),
    "data.system": evaluated("be brief"),
    "data.seed": evaluated(5, evaluation__data__shuffle=True),
    "data.prompt": evaluated("question"),
    "data.answer": evaluated("other"),
    "data.messages": evaluated("asked"),
    "data.completion": refused("reply", "answers are compared with `correct.column`"),
    "data.template": evaluated("{question}?"),
    "data.limit": evaluated(3),
    "data.shuffle": evaluated(True),
    "correct.weight": refused(2, "correct.weight: only for rewards"),
    "correct.name": refused("mine", "correct.name: only for rewards"),
    "correct.kind": refused("format", "correct.tolerance belongs to kind numeric"),
    "correct.column": evaluated("other"),
    "correct.mode": evaluated("exact"),
    "correct.tolerance": evaluated(10, evaluation__correct__column="other"),
    "correct.fractions": evaluated(True),
    "max_tokens": evaluated(2),
    "samples": evaluated(3, evaluation__temperature=1.0),
    "temperature": evaluated(2.0),
    "top_k": evaluated(1, evaluation__temperature=2.0),
    "top_p": evaluated(0.01, evaluation__temperature=2.0),
    "min_p": evaluated(0.99, evaluation__temperature=2.0),
    "overlap": evaluated("tell", "outcome", evaluation__data__path="@rows.jsonl"),
    "concurrency": evaluated(1, "asked"),
}

WORLD = {"kind": "lookup", "count": 8}
HACKABLE = {"kind": "hackable", "count": 8}


def _environment(method: str) -> dict[str, Entry]:
    """Keys of an environment, whose world stands in place of data and rewards."""
    none: dict[str, Any] = {"data": None, "rewards": None} if method == "grpo" else {"data": None}

    def world(value: Any, **keys: Any) -> Entry:
        return Entry(value, "traces", {**none, "environment": {**WORLD, **keys}})

    def own(value: Any, path: str = "@talk.py:Talk", **options: Any) -> Entry:
        custom = {"kind": "custom", "path": path, **options}
        return Entry(value, "traces", {"rewards": None, "environment": custom}, where=("grpo",))

    shown, careless, calls = world(1.0, **HACKABLE), world(1.0), world("hermes", kind="grid", levels=[1], count=2)
    if method == "sft":  # a demonstration with the tools described in that form is longer than the tiny model's context
        calls = Entry("hermes", "", calls.given, fails="does not fit the context")
    if method == "grpo":
        shown = Entry(1.0, "", shown.given, fails="environment.shown: for supervised training, unused")
        careless = Entry(1.0, "", careless.given, fails="environment.careless: for supervised training, unused")
    return {
        "environment.kind": world("grid"),
        "environment.calls": calls,
        "environment.levels": world([3]),
        "environment.count": world(5),
        "environment.split": world("heldout"),
        "environment.seed": world(5),
        "environment.wording": world("full"),
        "environment.world": world("grid", **HACKABLE),
        "environment.cheap": world("fine", **HACKABLE, visible=True),
        "environment.visible": world(True, **HACKABLE),
        "environment.shown": shown,
        "environment.careless": careless,
        "environment.examples": world(2),
        "environment.sets": world(["shop"], kind="desk"),
        "environment.path": own("@talk.py:Slow"),
        "environment.options": own({"word": "well"}, options={"word": "so"}),
    }


def talked(value: Any, sees: str, path: str = "@talk.py:Talk", **given: Any) -> Entry:
    """A key of attempts, with an environment that talks for three turns."""
    return Entry(value, sees, {"rewards": None, "environment": {"kind": "custom", "path": path}, **_dotted(given)})


def held_world(value: Any, **keys: Any) -> Entry:
    """A key of the world that an evaluation is in."""
    world = {**WORLD, "split": "heldout", **keys}
    return Entry(value, "evaluations", {"evaluation": {"environment": world, "max_tokens": 6}}, where=("sft",))


EVALUATION |= {
    "environment.kind": held_world("grid"),
    "environment.calls": held_world("hermes", kind="grid"),
    "environment.levels": held_world([3]),
    "environment.count": held_world(5),
    "environment.split": held_world("train"),
    "environment.seed": held_world(5),
    "environment.wording": held_world("full"),
    "environment.world": held_world("grid", **HACKABLE),
    "environment.cheap": held_world("fine", **HACKABLE, visible=True),
    "environment.visible": held_world(True, **HACKABLE),
    "environment.shown": Entry(
        1.0, "", held_world(0, **HACKABLE).given, fails="environment.shown: for demonstrations", where=("sft",)
    ),
    "environment.examples": held_world(2),
    "environment.sets": held_world(["shop"], kind="desk"),
    "environment.careless": Entry(
        1.0, "", held_world(0).given, fails="environment.careless: for demonstrations", where=("sft",)
    ),
}

SFT: dict[str, Entry] = {
    **_environment("sft"),
    "data.messages": both("talk", "traces"),
    "data.answer": fails("other", "it is for whoever judges samples; sft does not use it"),
    "data.family.careless": Entry(1.0, "traces", family(**RECORDS), where=("sft",)),
    "learner.share_prefixes": fails(False, "each demonstration is a sequence of its own"),
    "options.reduction": both("sequence_mean", "weights"),
}

MASKED = {"surrogate": "divergence_mask", "passes": 3}
EFFORT = {"rule": "effort", "right": 0.1}
TOGGLE = {"rule": "toggle", "right": 0.05, "percentile": 0}
CORRECTED = {"old": "learner", "correction": {}}
MISMATCHED = {"mismatch": {"temperature": 1.3}}
CENTRED = {"surrogate": "reinforce", "centering": {"least_mass": 0.01}}
KL_COV = {"rule": "kl", "share": 0.1}

GRPO: dict[str, Entry] = {
    **_environment("grpo"),
    "data.family.careless": fails(
        1.0, "careless: for demonstrations, unused", given=family(**RECORDS), where=("grpo",)
    ),
    "episodes.turns": talked(1, "traces"),
    "episodes.tokens": talked(7, "traces"),
    "episodes.seconds": talked(0.01, "metrics", "@talk.py:Slow"),
    "episodes.call_seconds": talked(0.01, "outcome", "@talk.py:Slow"),
    "episodes.live": talked(4, "asked", "@talk.py:Quick"),
    "episodes.branch.turn": talked(2, "traces", episodes__branch={"turn": 1}),
    "episodes.branch.ways": talked(3, "traces", episodes__branch={"turn": 1}),
    "refills": talked(0, "traces", "@talk.py:Flaky"),
    "selection.kind": grpo("oversample", "metrics", selection={"kind": "refill"}),
    "selection.rounds": grpo(0, "metrics", selection={"kind": "refill"}, **reward("flat")),
    "selection.factor": grpo(3.0, "metrics", selection={"kind": "oversample"}),
    "selection.by": grpo("hard", "traces", selection={"kind": "oversample"}),
    "deterministic": grpo(True, "engine"),
    "data.completion": fails("reply", "data.completion is for demonstrations"),
    "guards.silent_steps": grpo(1, "outcome", **reward("none")),
    "guards.truncated_share": grpo(0.01, "outcome", guards__truncated_steps=1),
    "guards.truncated_steps": grpo(1, "outcome", guards__truncated_share=0.01),
    "guards.discarded_share": grpo(0.01, "outcome", guards__discarded_steps=1, **reward("some")),
    "guards.discarded_steps": grpo(1, "outcome", guards__discarded_share=0.01, **reward("some")),
    "guards.entropy_floor": grpo(1e9, "outcome", guards__entropy_steps=1),
    "guards.entropy_steps": grpo(1, "outcome", guards__entropy_floor=1e9),
    "guards.zero_variance_steps": grpo(1, "outcome", **reward("same")),
    "mismatch.rounded": grpo("int8", "traces", **MISMATCHED),
    "mismatch.stale": grpo(1, "traces", **MISMATCHED, steps=3),
    "mismatch.temperature": grpo(0.7, "traces", **MISMATCHED),
    "samples_per_prompt": grpo(3, "weights"),
    "sampling.max_tokens": grpo(3, "traces"),
    "sampling.temperature": grpo(0.5, "traces"),
    "sampling.top_k": grpo(2, "traces"),
    "sampling.top_p": grpo(0.5, "traces"),
    "sampling.min_p": grpo(0.5, "traces"),
    "rewards.rewards[].weight": grpo(2, "weights", seed=3),
    "rewards.rewards[].name": grpo("mine", "metrics"),
    "rewards.rewards[].kind": grpo("format", "metrics", rewards={"rewards": [{"kind": "numeric"}]}),
    "rewards.rewards[].column": grpo("other", "metrics", seed=3, **numeric()),
    "rewards.rewards[].mode": grpo("exact", "metrics", **numeric()),
    "rewards.rewards[].tolerance": grpo(50, "metrics", **numeric()),
    "rewards.rewards[].fractions": grpo(True, "metrics", seed=3, **numeric()),
    "rewards.rewards[].function": grpo("@rewards.py:short", "weights"),
    "rewards.rewards[].time_limit": grpo(0.05, "outcome", **reward("slow")),
    "rewards.rewards[].thoughts_end": grpo("/", "metrics", **verified("exact", column="other")),
    "rewards.rewards[].read": grpo("boxed", "metrics", **verified("exact", column="other", thoughts_end="/")),
    "rewards.rewards[].normalise": grpo(
        ["punctuation"], "metrics", sampling__max_tokens=2, **verified("exact", column="other")
    ),
    # what these do shows in answers that the tiny model does not write: tests/feedback/test_*.py
    "rewards.rewards[].memory_limit": of_kind(100, "math or json_schema or"),
    "rewards.rewards[].repair": of_kind(True, "math"),
    "rewards.rewards[].strict": of_kind(True, "json_schema"),
    "rewards.rewards[].key": of_kind("other", "json_schema"),
    "rewards.rewards[].valid_share": of_kind(0.2, "json_schema"),
    "rewards.rewards[].tools": of_kind("other", "tool_call"),
    "rewards.rewards[].credit": of_kind("all", "tool_call or instructions or code or claims"),
    "rewards.rewards[].name_share": of_kind(0.5, "tool_call"),
    "rewards.rewards[].argument_share": of_kind(True, "tool_call"),
    "rewards.rewards[].extra_arguments": of_kind(True, "tool_call"),
    "rewards.rewards[].alternatives": of_kind(True, "tool_call"),
    "rewards.rewards[].arguments": of_kind("other", "instructions"),
    "rewards.rewards[].loose": of_kind(True, "instructions"),
    "rewards.rewards[].options": of_kind("other", "choice"),
    "rewards.rewards[].rule": of_kind("boxed", "choice"),
    "rewards.rewards[].pattern": of_kind("x", "choice"),
    "rewards.rewards[].option_text": of_kind(False, "choice"),
    "rewards.rewards[].partial": of_kind(False, "reasoning_gym"),
    "rewards.rewards[].numbers": of_kind("other", "expression"),
    "rewards.rewards[].every": of_kind(False, "expression"),
    "rewards.rewards[].form_share": of_kind(0.1, "expression"),
    "rewards.gates[].component": fails("absent", "there is no component 'absent'", given=GATED, where=("grpo",)),
    "rewards.gates[].least": grpo(1e9, "weights", **GATED),
    "rewards.gates[].gates": Entry(["short"], "weights", CLOSED, where=("grpo",)),
    "rewards.workers": fails(0, "whole number >= 1", where=("grpo",)),
    "rewards.concurrency": grpo(1, "metrics", **reward("crowd")),
    "engine_rows": grpo(3, "decoded"),
    "traces_scores": grpo(True, "traces"),
    "options.advantage": grpo("grpo", "weights"),
    "options.reduction": grpo("sequence_mean", "weights"),
    "options.centre": grpo("length_weighted", "weights", options={"advantage": "group"}),
    "options.scale": grpo("std", "weights", options={"advantage": "group"}),
    "options.k": grpo(3, "weights", options={"advantage": "max_at_k", "k": 2}),
    "options.decay": grpo(0.1, "weights", options={"advantage": "group", "centre": "moving_average"}, steps=3),
    "options.by": grpo("state", "outcome"),  # answers of one turn have no states: nothing to train on
    "options.ratio": grpo("sequence", "weights", options__passes=3),
    "options.segment_tokens": grpo(1, "weights", options={"ratio": "segment", "passes": 3}),
    "options.surrogate": grpo("cispo", "weights", options__passes=3),
    "options.dual_clip": grpo(1.0001, "weights", options__passes=3),
    "options.soft_positive": grpo(3.0, "weights", options={"surrogate": "sapo", "passes": 3}),
    "options.soft_negative": grpo(3.0, "weights", options={"surrogate": "sapo", "passes": 3}),
    "options.tau": grpo(5, "weights", options={"surrogate": "squared", "passes": 3}),
    "options.divergence": grpo("kl", "weights", options={**MASKED, "threshold": 0.02}),
    "options.threshold": grpo(1e-6, "weights", options=MASKED),
    "options.covariance.rule": grpo("kl", "weights", options={"passes": 3, "covariance": {"share": 0.2}}),
    "options.covariance.share": grpo(0.9, "weights", options={"passes": 3, "covariance": KL_COV}),
    "options.covariance.coefficient": grpo(9, "weights", options={"passes": 3, "covariance": KL_COV}),
    "options.covariance.low": grpo(-50, "weights", options={"covariance": {"low": 40, "high": 50, "share": 0.5}}),
    "options.covariance.high": grpo(50, "weights", options={"covariance": {"low": -50, "high": -49, "share": 0.5}}),
    "options.entropy_share": grpo(0.3, "weights"),
    "options.drift": grpo(5, "weights", options__passes=3),
    "options.shaping.rule": grpo("concave", "weights", options={"shaping": {}}),
    "options.shaping.coefficient": grpo(5, "weights", options={"shaping": {}}),
    "options.shaping.after": grpo(1, "weights", options={"shaping": {}}),
    "options.shaping.longest": grpo(3, "weights", options={"shaping": {}}),
    "options.shaping.buffer": grpo(4, "weights", options={"shaping": {}}),
    "options.shaping.right": grpo(0.0, "weights", options={"shaping": {"rule": "relative"}}),
    "options.shaping.percentile": grpo(0, "weights", options={"shaping": {**EFFORT, "first": 1}}),
    "options.shaping.every": grpo(1, "weights", options={"shaping": {**TOGGLE, "accuracy": 0.1}}, steps=3),
    "options.shaping.accuracy": grpo(
        0.01,
        "weights",
        options={"shaping": {**TOGGLE, "right": -3, "every": 1}},
        steps=4,
        optimizer__lr=1e-4,
        **reward("short"),
    ),
    "options.shaping.rate": grpo(5, "weights", options={"shaping": {"rule": "concave"}}),
    "options.shaping.power": grpo(1, "weights", options={"shaping": {"rule": "concave"}}),
    "options.shaping.first": grpo(0.1, "weights", options={"shaping": EFFORT}),
    "options.shaping.last": grpo(0.1, "weights", options={"shaping": {**EFFORT, "steps": 1}}, steps=3),
    "options.shaping.steps": grpo(1, "weights", options={"shaping": {**EFFORT, "first": 9, "last": 0.1}}, steps=3),
    "options.correction.rule": grpo("mis", "weights", options=CORRECTED, **MISMATCHED),
    "options.correction.level": grpo("sequence", "weights", options=CORRECTED, **MISMATCHED),
    "options.correction.low": grpo(0.99, "weights", options={**CORRECTED, "correction": {"rule": "mis"}}, **MISMATCHED),
    "options.correction.high": grpo(0.9, "weights", options=CORRECTED, **MISMATCHED),
    "options.correction.normalise": grpo(True, "weights", options=CORRECTED, **MISMATCHED),
    "options.centering.k": grpo(
        2, "weights", options={**CENTRED, "centering": {"weight": "none", "least_mass": 0.01}}, **MISMATCHED
    ),
    "options.centering.weight": grpo("none", "weights", options=CENTRED, **MISMATCHED),
    "options.centering.low": grpo(0.99, "weights", options={**CENTRED, "centering": {"weight": "mis"}}, **MISMATCHED),
    "options.centering.high": grpo(0.9, "weights", options=CENTRED, **MISMATCHED),
    "options.centering.least_mass": fails(
        0.999, "cover only", given={"options": {**CENTRED, "centering": {"k": 1, "least_mass": 0.01}}}, where=("grpo",)
    ),
    "options.constant": grpo(7, "weights", options={"reduction": "constant", "constant": 3}),
    "options.clip_low": grpo(0.0, "weights", options__passes=3),
    "options.clip_high": grpo(0.0, "weights", options__passes=3),
    "options.old": grpo("learner", "traces"),
    "options.passes": grpo(2, "weights"),
    "options.kl": grpo(5, "weights"),
    "options.kl_estimator": grpo("k2", "weights", options__kl=5),
    "options.kl_k": grpo(2, "weights", options={"kl": 5, "kl_estimator": "top_k"}),
    "options.entropy": grpo(0.5, "weights"),
    "options.drop_zero_variance": grpo(True, "weights", prompts_per_step=3, **reward("flat")),
    "options.mask_truncated": grpo(True, "weights"),
}

TABLE: dict[str, dict[str, Entry]] = {
    method: COMMON
    | {key: Entry(**entry) for key, entry in DATA_KEYS.items()}
    | {f"evaluation.{key}": entry for key, entry in EVALUATION.items()}
    | own
    for method, own in (("sft", SFT), ("grpo", GRPO))
}
