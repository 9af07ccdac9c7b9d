"""What is drawn anew where the machinery spoilt something: ways of an attempt, answers of a compared group, attempts
that a kill interrupted."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from burnish.feedback.build import build
from burnish.feedback.spec import FeedbackSpec
from burnish.ledger import Ledger
from burnish.outside import Outside
from burnish.sampling.protocol import SamplingParams
from burnish.signals.annotators import present
from burnish.sources.context import Context
from burnish.sources.episodes import attempts
from burnish.sources.judged import single_turns
from burnish.sources.spec import BranchSpec, EpisodesSpec
from burnish.sources.speech import Setting
from burnish.tasks import Task
from burnish.traces import Group, Status, Verdict
from tests.environments.test_guard import Recorded
from tests.sources.acting import FORMAT, TOKENIZER, Echo, ScriptedSampler, Words, answers, echo, stage_for

RIGHT = answers("flip(abc)", "cba")


def verdicts(group: Group) -> list[Verdict]:
    return [member.verdict for member in group.members if member.verdict is not None]


# ---------------------------------------------------------------- ways


def branched(lost: set[int], ways: int = 4, fault: str = "verify", refills: int = 2) -> tuple[Group, Words]:
    """One attempt that parts after its first turn; the calls of `fault` numbered in `lost` fail."""
    count = [0]

    def failing(environment: Echo) -> bool:
        count[0] += 1
        return count[0] in lost

    words = Words(echo(True, fault=fault, failing=staticmethod(failing)))
    episodes = EpisodesSpec(branch=BranchSpec(turn=1, ways=ways))
    stage = stage_for(words, ScriptedSampler(RIGHT), episodes, refills=refills)
    return asyncio.run(attempts(stage, words.tasks()[0], 1)), words


@pytest.mark.parametrize(
    ("lost", "rewards"),
    [
        ({2}, [1.0, None, 1.0, 1.0, 1.0]),  # one way anew, in an attempt that does not part
        ({2, 4}, [1.0, None, 1.0, None, 1.0, 1.0]),  # two ways, in one that parts in two
        ({2, 4, 5}, [1.0, None, 1.0, None, None, 1.0, 1.0]),  # and of them one again
        ({1, 2, 3, 4}, [None] * 4 + [1.0] * 4),
        ({1, 5, 6}, [None, 1.0, 1.0, 1.0, None, None]),  # no more than twice
    ],
)
def test_of_an_attempt_in_several_ways_those_that_were_lost_are_drawn_anew(
    lost: set[int], rewards: list[float | None]
) -> None:
    group, words = branched(lost)
    assert [v.reward for v in verdicts(group)] == rewards
    assert all(environment.closed == 1 for environment in words.cls.made)
    paths = {tuple(member.trace.path(member.leaf)) for member in group.members}
    assert len(paths) == len(group.members)  # each is a sample of its own
    assert present(group) == sum(reward is not None for reward in rewards) / 4, "what was drawn anew is not missed"


def test_where_a_snapshot_failed_all_the_ways_are_drawn_anew() -> None:
    group, _ = branched({2}, fault="snapshot")
    assert [v.reward for v in verdicts(group)] == [None] + [1.0] * 4


# ---------------------------------------------------------------- groups that are judged together


class Rank:
    """A reward that is the place of an answer among those of the group, and what it was asked."""

    __name__ = "rank"

    def __init__(self, lost: dict[int, set[str]] | None = None) -> None:
        self.lost = lost or {}
        self.seen: list[list[str]] = []

    def __call__(self, completions: list[str]) -> list[float]:
        self.seen.append(list(completions))
        lost = self.lost.get(len(self.seen), set())
        return [math.nan if c in lost else float(sorted(completions).index(c)) for c in completions]


def judged(
    rewards: list[Any], n: int = 4, outside: Outside | None = None, refills: int = 2, keeps: list[bool] | None = None
) -> Group:
    """Of n attempts the one with number i says the i-th letter; those of the refills say w, x, y, z, then w again."""

    def script(before: str, number: int, turn: int) -> str:
        return "abcd"[number] if number < 4 else "wxyz"[number % 4]

    feedback = build(FeedbackSpec.model_validate({"rewards": rewards}), outside=outside)
    sampler = ScriptedSampler(script)
    sampler.keeps = sampler.keeps if keeps is None else keeps
    context = Context(sampler, FORMAT, SamplingParams(8, stop_ids=FORMAT.stop_ids), 0, Ledger())
    setting = Setting(context, lambda ids: str(TOKENIZER.decode(list(ids), skip_special_tokens=True)))
    task = Task(messages=({"role": "user", "content": "q"},), answer="a", columns={"answer": "a"})
    return asyncio.run(attempts(single_turns(feedback, setting, refills), task, n))


def test_the_only_turn_of_an_attempt_asks_for_no_session() -> None:
    keeps: list[bool] = []
    judged([{"kind": "exact"}], keeps=keeps)
    assert keeps and not any(keeps)


def test_a_function_that_compares_sees_the_whole_group_again_after_a_refill() -> None:
    rank = Rank({1: {"b"}})
    group = judged([{"kind": "function", "function": rank}])
    assert rank.seen == [["a", "b", "c", "d"], ["a", "x", "c", "d"]]
    assert [v.reward for v in verdicts(group)] == [0.0, None, 1.0, 2.0, 3.0]


def test_where_the_group_cannot_be_judged_again_the_old_verdicts_stand_and_the_new_answers_have_none() -> None:
    rank = Rank({1: {"b"}, 2: {"c"}})
    group = judged([{"kind": "function", "function": rank}], refills=1)
    found = verdicts(group)
    assert [v.reward for v in found] == [0.0, None, 2.0, 3.0, None]
    assert found[-1].status is Status.VERIFIER_ERROR and "could not be judged again as a whole" in found[-1].reason
    rank = Rank({1: {"b"}, 2: {"c"}})
    group = judged([{"kind": "function", "function": rank}], refills=2)
    assert rank.seen[1:] == [["a", "x", "c", "d"]] * 2
    assert [v.reward for v in verdicts(group)] == [0.0, None, 1.0, 2.0, None, 3.0]


def test_answers_to_both_judgements_are_replayed() -> None:
    first, rank = Recorded(), Rank({1: {"b"}})
    before = judged([{"kind": "function", "function": rank}], outside=first)
    for kept, more in ((2, 0), (1, 1)):
        again = Rank()
        after = judged([{"kind": "function", "function": again}], outside=Recorded(first.log[:kept]))
        assert verdicts(after) == verdicts(before) and len(again.seen) == more


def test_verifiers_that_judge_each_answer_by_itself_are_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from burnish.feedback.reward import Missing
    from burnish.feedback.verifiers.exact import ExactReward

    seen: list[list[str]] = []

    async def score(self: Any, row: str, columns: Any, completions: list[str]) -> list[Any]:
        seen.append(completions)
        return [Missing(Status.VERIFIER_ERROR, "lost", "raised") if c == "b" else 1.0 for c in completions]

    monkeypatch.setattr(ExactReward, "score", score)
    assert [v.reward for v in verdicts(judged([{"kind": "exact"}]))] == [1.0, None, 1.0, 1.0, 1.0]
    assert seen == [["a", "b", "c", "d"], ["x"]]


# ---------------------------------------------------------------- after a kill


@pytest.mark.parametrize("replayable", [True, False])
def test_an_attempt_that_a_kill_interrupted_is_drawn_anew_where_it_may_not_be_replayed(replayable: bool) -> None:
    first = Recorded()
    cls = echo(replayable=replayable)
    words = Words(cls)
    words.replayable = replayable  # type: ignore[attr-defined]

    def again(outside: Recorded) -> Group:
        cls.made.clear()
        stage = stage_for(words, ScriptedSampler(RIGHT), refills=1, outside=outside)
        return asyncio.run(attempts(stage, words.tasks()[0], 1))

    assert [v.reward for v in verdicts(again(first))] == [1.0]
    assert len(first.log) == 4  # reset, two steps, verify
    found = verdicts(again(Recorded(first.log[:2])))
    if replayable:
        assert [v.reward for v in found] == [1.0] and len(cls.made) == 1
    else:
        assert [v.reward for v in found] == [None, 1.0]
        assert "may not be made again (replayable = False)" in found[0].reason
        assert len(cls.made) == 1 and cls.made[0].steps == 2  # the new attempt's alone
    assert [v.reward for v in verdicts(again(Recorded(first.log)))] == [1.0] and not cls.made


def test_a_custom_class_says_for_itself_whether_it_may_be_replayed() -> None:
    from burnish.environments.registry import Custom
    from burnish.environments.spec import CustomSpec

    for replayable in (True, False):
        family = Custom(CustomSpec(path="f.py:Echo"), echo(replayable=replayable), [])
        assert stage_for(family, ScriptedSampler(RIGHT)).replayable is replayable
