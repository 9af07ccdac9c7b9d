"""Burnish's side: training steps through `burnish.train`, the engine, and a forward and backward pass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from channel import Channel

from burnish.running.progress import QuietProgress


class Gate(QuietProgress):
    """A display that holds a run before each of its steps until the next one is asked for."""

    def __init__(self, channel: Channel, profiled: Profiled) -> None:
        self.channel = channel
        self.profiled = profiled

    def start(self, run_title: str, steps: int) -> None:
        """Everything is set up."""
        self.channel.ready()
        self.profiled.begin()

    def step(self, record: Mapping[str, Any]) -> None:
        """A step is over."""
        self.profiled.end()
        names = ("length", "trained_tokens", "reward", "timing/sample_seconds", "timing/update_seconds")
        self.channel.done(**{name: record[name] for name in names if record.get(name) is not None})
        self.profiled.begin()


class Profiled:
    """Writes what operations took in one piece of work to a file, where one is named; costs nothing otherwise."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self._profile: Any = None

    def begin(self) -> None:
        """Just before the work."""
        if self.file is not None:
            from torch.profiler import ProfilerActivity, profile

            self._profile = profile(activities=[ProfilerActivity.CPU], acc_events=True)
            self._profile.start()

    def end(self) -> None:
        """Just after it."""
        if self.file is None:
            return
        self._profile.stop()
        rows = [
            {"operation": e.key, "seconds": e.self_cpu_time_total / 1e6, "calls": e.count}
            for e in self._profile.key_averages()
        ]
        Path(self.file).write_text(json.dumps(sorted(rows, key=lambda row: -row["seconds"])), "utf-8")

    def __call__(self, work: Callable[[int], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
        """The work between `begin` and `end`."""

        def profiled(number: int) -> dict[str, Any]:
            self.begin()
            try:
                return work(number)
            finally:
                self.end()

        return profiled


def train(job: dict[str, Any], channel: Channel) -> None:
    """Steps of a recipe, all that a run does in them included."""
    import burnish

    burnish.train(job["recipe"], out=job["out"], progress=Gate(channel, Profiled(job.get("profile"))))


def engine(job: dict[str, Any], channel: Channel) -> None:
    """Samples of a fixed number of tokens for prompts that are there at once."""
    import numpy as np

    from burnish.models.loading import load_model
    from burnish.models.spec import ModelSpec
    from burnish.sampling import LocalEngine, SamplingParams

    model = load_model(ModelSpec(path=job["model"], dtype=job["dtype"]), train=False)
    rows = len(job["prompts"]) * job["samples"]
    sampler, params = LocalEngine(model, max_rows=rows), SamplingParams(job["new_tokens"])  # without stop tokens

    def work(number: int) -> dict[str, Any]:
        async def all_at_once() -> list[Any]:
            asked = [
                sampler.sample(prompt, params, n=job["samples"], seed=number, task=task)
                for task, prompt in enumerate(job["prompts"])
            ]
            return await asyncio.gather(*asked)

        completions = [c for group in asyncio.run(all_at_once()) for c in group]
        logprobs = np.concatenate([c.logprobs for c in completions])
        return {"tokens": len(logprobs), "mean_logprob": float(logprobs.mean())}

    channel.serve(Profiled(job.get("profile"))(work))


def learner(job: dict[str, Any], channel: Channel) -> None:
    """The gradient of a policy-gradient loss over groups with random answers; no optimizer step."""
    from burnish.learning.learner import Learner
    from burnish.losses.build import build
    from burnish.losses.spec import PolicyGradientSpec
    from burnish.models.loading import load_model
    from burnish.models.spec import ModelSpec

    model = load_model(ModelSpec(path=job["model"], dtype=job["dtype"]))
    update, terms = Learner(model), [build(PolicyGradientSpec())]
    groups = _groups(job, model.name)

    def work(number: int) -> dict[str, Any]:
        update.gradients(groups, terms)
        return {"tokens": sum(len(node) for group in groups for trace in group.traces for node in trace.nodes)}

    channel.serve(Profiled(job.get("profile"))(work))


def _groups(job: dict[str, Any], name: str) -> list[Any]:
    """Every prompt with its samples as one group: random tokens, likely log-probabilities, advantages of both signs."""
    import numpy as np

    from burnish.signals.annotators import build as build_annotator
    from burnish.signals.spec import GroupAdvantageSpec
    from burnish.traces import CONTEXT, Author, Group, Role, Span, Trace, Verdict

    rng, author, groups = np.random.default_rng(0), Author.model(name, 0), []
    for task, prompt in enumerate(job["prompts"]):
        trace = Trace(f"task-{task}")
        root = trace.add(-1, np.array(prompt), CONTEXT, Role.PROMPT)
        members = []
        for _ in range(job["samples"]):
            tokens = rng.choice(np.array(prompt), size=job["new_tokens"])
            leaf = trace.add(root, tokens, author, Role.ANSWER, -rng.uniform(0.5, 4.0, size=len(tokens)))
            members.append(Span(trace, leaf, verdict=Verdict(float(rng.normal()))))
        groups.append(Group(trace.id, members))
    build_annotator(GroupAdvantageSpec())(groups)
    return groups


if __name__ == "__main__":
    _job, _channel = Channel.job(), Channel()
    {"grpo": train, "sft": train, "engine": engine, "learner": learner}[_job["kind"]](_job, _channel)
