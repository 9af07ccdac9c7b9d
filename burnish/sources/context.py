"""What a source may ask for. Every call is metered."""

from __future__ import annotations

from dataclasses import dataclass, field

from burnish.ledger import Ledger
from burnish.sampling.protocol import Completion, Sampler, SamplingParams, count_samples
from burnish.tasks import Task
from burnish.tasks.rendering import prompt_of
from burnish.traces import Author, Group, Role, Span, Trace
from burnish.traces.templates import Format, add_rendered


@dataclass
class Context:
    """A sampler with the format of its model, and the parameters that samples are drawn with."""

    sampler: Sampler
    format: Format
    params: SamplingParams
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    role: str = ""
    """What the ledger counts its work under; by default the sampler's name."""

    def __post_init__(self) -> None:
        self.role = self.role or self.sampler.name

    async def sample(self, task: Task, n: int, *, first: int = 0) -> Group:
        """n samples of a task as one group: a trace whose root is the prompt, one leaf a sample.

        Sample i draws with the random numbers of (seed, task, first + i). The prompt's tokens are what the engine
        saw, and so are the samples' (promise E6).
        """
        rendered = prompt_of(self.format, task)
        with self.ledger.timed(self.role):
            completions = await self.sampler.sample(
                rendered.tokens, self.params, n=n, seed=self.seed, task=task.number, sample=first, keep=False
            )
        count_samples(self.ledger, self.role, completions)
        trace = Trace(f"{task.id}/{first}", {"task": task.id, "domain": task.domain})
        root = add_rendered(trace, -1, rendered)
        members = [self._append(trace, root, completion) for completion in completions]
        return Group(trace.id, members, columns=dict(task.columns))

    def _append(self, trace: Trace, parent: int, completion: Completion) -> Span:
        authors = [Author.model(self.sampler.name, int(v)) for v in completion.versions]
        temperature = 0.0 if completion.greedy else self.params.temperature
        leaf = trace.add(
            parent, completion.tokens, authors, Role.ANSWER, completion.logprobs, support=completion.support,
            meta={"finish": completion.finish, "temperature": temperature},
        )  # fmt: skip
        return Span(trace, leaf)
