"""Attempts in an environment: what the engine saw is what is trained; whose fault it was decides what becomes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from burnish.environments import Attempt
from burnish.environments.registry import build
from burnish.environments.spec import LookupSpec
from burnish.errors import InputError, RunError
from burnish.signals.annotators import build as build_annotator
from burnish.signals.spec import GroupAdvantageSpec
from burnish.sources.episodes import Episodes, Stage, attempts
from burnish.sources.spec import BranchSpec, EpisodesSpec, RolloutsSpec
from burnish.traces import AuthorKind, Group, Role, SignalKind, Status, Verdict
from burnish.traces.trace import ROLES
from tests.sources.acting import TOKENIZER, Echo, ScriptedSampler, Words, answers, echo, stage_for, transcript

RIGHT = answers("flip(abc)", "cba")


def attempted(stage: Stage, n: int = 2, task: int = 0, words: Words | None = None) -> Group:
    tasks = (words or Words(echo())).tasks()
    return asyncio.run(attempts(stage, tasks[task], n))


def verdicts(group: Group) -> list[Verdict]:
    return [member.verdict for member in group.members if member.verdict is not None]


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize("pure", [True, False])
def test_e6_what_is_trained_is_what_the_engine_saw(pure: bool) -> None:
    sampler = ScriptedSampler(answers("flip(abc)", "add(1,2)", "cba"))
    words = Words(echo(pure))
    group = attempted(stage_for(words, sampler), 3, words=words)
    paths = [member.trace.tokens(member.leaf).tolist() for member in group.members]
    whole = [ids for ids in sampler.seen if len(ids) == max(map(len, sampler.seen))]
    assert paths == whole and len(paths) == 3
    assert transcript(group) == "‹bos›abc\nflip(abc)‹eos›cba\nadd(1,2)‹eos›1\ncba‹eos›"
    assert [v.reward for v in verdicts(group)] == [1.0] * 3
    assert sampler.open == 0


@pytest.mark.parametrize("form", ["text", "hermes"])
def test_examples_are_shown_in_the_form_that_calls_have_and_are_nobodys_samples(form: Any) -> None:
    def get(key: str) -> str:
        call = f'<tool_call>\n{{"name": "get", "arguments": {{"key": "{key}"}}}}\n</tool_call>'
        return call if form == "hermes" else f"get({key})"

    world = build(LookupSpec(levels=(1,), count=1, examples=2), seed=0)
    [task] = world.tasks()
    own = f"{get('bc')}‹eos›", f"{task.answer}‹eos›"
    sampler = ScriptedSampler(answers(*(turn.removesuffix("‹eos›") for turn in own)))
    group = asyncio.run(attempts(stage_for(world, sampler, calls=form, max_tokens=80), task, 2))
    assert [v.reward for v in verdicts(group)] == [1.0] * 2
    shown = "".join(f"{key}\n{get(key)}‹eos›{value}\n{value}‹eos›" for key, value in (("ps", 889), ("tw", 966)))
    assert transcript(group).endswith(f"{shown}bc\n{own[0]}{task.answer}\n{own[1]}")
    trace, leaf = group.members[0].trace, group.members[0].leaf
    sampled = [trace.nodes[node].tokens[trace.sampled_by(node, "policy")] for node in trace.path(leaf)]
    assert TOKENIZER.decode(np.concatenate(sampled)) == "".join(own)


def test_no_policy_weight_on_a_token_of_the_environment() -> None:
    script = ScriptedSampler(lambda before, number, turn: ["flip(abc)", "cba" if number else "abc"][turn])
    words = Words(echo(pure=True))
    group = attempted(stage_for(words, script), 2, words=words)
    build_annotator(GroupAdvantageSpec())([group])
    trace = group.members[0].trace
    weighted = []
    for node in trace.nodes:
        kinds = [trace.authors[a].kind for a in node.authors]
        signal = node.signals.get("advantage")
        if signal is not None:
            assert signal.kind is SignalKind.POLICY and set(kinds) == {AuthorKind.MODEL}
            weighted.append(float(signal.values[0]))
    assert sorted(weighted) == [-0.5, -0.5, 0.5, 0.5]
    said = [n for n in trace.nodes if AuthorKind.ENVIRONMENT in {trace.authors[a].kind for a in n.authors}]
    assert len(said) == 2
    assert {ROLES[r] for n in said for r, a in zip(n.roles, n.authors, strict=True)
            if trace.authors[a].kind is AuthorKind.ENVIRONMENT} == {Role.OBSERVATION}  # fmt: skip


def test_turns_are_spans_with_the_state_they_were_taken_in_and_what_they_were() -> None:
    words = Words(echo(pure=True))
    group = attempted(stage_for(words, ScriptedSampler(RIGHT)), 1, words=words)
    trace = group.members[0].trace
    texts = [("turn", "start", "flip(abc)‹eos›"), ("turn", "flipped 1", "cba‹eos›")]
    found = []
    for span in trace.spans:
        ids = trace.tokens(span.leaf)[span.start : span.stop].tolist()
        found.append((span.name, span.state_key, ScriptedSampler(RIGHT).tokenizer.decode(ids)))
    assert found == texts
    roles = [ROLES[trace.nodes[span.leaf].roles[0]] for span in trace.spans]
    assert roles == [Role.ACTION, Role.ANSWER]


def test_a_sampler_without_sessions_is_asked_with_the_whole_path() -> None:
    words = Words(echo(pure=True))
    one, two = (ScriptedSampler(RIGHT, sessions=s) for s in (True, False))
    first, second = (attempted(stage_for(words, s), 2, words=words) for s in (one, two))
    assert transcript(first) == transcript(second)
    assert [a["before"] for a in one.asked] == [a["before"] for a in two.asked]


def test_several_calls_in_one_turn_are_answered_one_by_one() -> None:
    from tests.sources.qwenlike import FORMAT, TOKENIZER

    call = '<tool_call>\n{"name": "flip", "arguments": {"word": "%s"}}\n</tool_call>'
    script = answers(call % "abc" + "\n" + call % "xy", "cba")
    words = Words(echo(pure=True))
    sampler = ScriptedSampler(script, TOKENIZER)
    stage = stage_for(words, sampler, form=FORMAT, tokenizer=TOKENIZER, max_tokens=200)
    assert stage.syntax.name == "hermes" and stage.tools_shown
    group = attempted(stage, 1, words=words)
    text = transcript(group, tokenizer=TOKENIZER)
    assert "<tools>" in text and '"name": "flip"' in text
    assert "<tool_response>\ncba\n</tool_response><tool_response>\nyx\n</tool_response><|im_end|>" in text
    assert verdicts(group)[0].reward == 1.0
    assert group.members[0].trace.tokens(group.members[0].leaf).tolist() == sampler.seen[-1]


def test_a_template_that_edits_history_makes_segments_that_are_each_trained_where_they_were_sampled() -> None:
    """Thinking is taken out of earlier turns: what the engine saw then is a branch of its own."""
    from tests.sources.qwenlike import FORGETFUL, TOKENIZER

    call = '<tool_call>\n{"name": "flip", "arguments": {"word": "abc"}}\n</tool_call>'
    thinking, done = f"<think>\nhm\n</think>\n\n{call}", "<think>\nyes\n</think>\n\ncba"
    words = Words(echo(pure=True))
    sampler = ScriptedSampler(lambda before, n, turn: done if "</tool_response>" in before else thinking, TOKENIZER)
    stage = stage_for(words, sampler, form=FORGETFUL, tokenizer=TOKENIZER, max_tokens=200)
    group = attempted(stage, 2, words=words)
    [nested] = group.children
    assert len(nested.members) == len(group.members) == 2
    seen = {tuple(ids) for ids in sampler.seen}
    assert {tuple(m.trace.tokens(m.leaf).tolist()) for m in (*group.members, *nested.members)} == seen
    assert [m.verdict for m in nested.members] == [m.verdict for m in group.members]
    trace = group.members[0].trace
    sampled = sum(int((~np.isnan(node.logprobs)).sum()) for node in trace.nodes)
    turns = [len(ids) - len(asked["before"]) for ids, asked in zip(sampler.seen, sampler.asked, strict=True)]
    assert sampled == sum(turns)
    assert len({(a["seed"], a["number"]) for a in sampler.asked}) == 4  # a segment draws by numbers of its own


# ---------------------------------------------------------------- whose fault it was


@pytest.mark.parametrize(
    ("turn", "kind", "told"),
    [
        ("flip(abc", "broken_call", "flip is not closed"),
        ("flap(abc)", "unknown_tool", "there is no tool 'flap'"),
        ("add(1,x)", "wrong_type", "'x' is not of type 'integer'"),
        ("add(1)", "missing_argument", "add takes a, b"),
    ],
)
def test_a_call_that_cannot_be_made_is_told_to_the_model_and_scored(turn: str, kind: str, told: str) -> None:
    words = Words(echo(pure=True))
    for last, reward in (("cba", 1.0), ("no", 0.0)):
        group = attempted(stage_for(words, ScriptedSampler(answers(turn, last))), 2, words=words)
        assert told in transcript(group)
        [first, _] = verdicts(group)
        assert first.reward == reward and first.status.counts
        assert first.evidence["wrong_calls"] == {kind: 1}
    assert all(environment.steps == 1 for environment in words.cls.made)  # the wrong call never reached it


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        ('<tool_call>\n{"name": "flip", "arguments": {"word": \n</tool_call>', "broken_json"),
        ('<tool_call>\n{"name": "flip"', "broken_json"),
        ("<tool_call>\n" + "[" * 3000 + "\n</tool_call>", "too_deep"),
        ('<tool_call>\n{"name": "flop", "arguments": {}}\n</tool_call>', "unknown_tool"),
        ('<tool_call>\n{"name": "flip", "arguments": {"word": 3}}\n</tool_call>', "wrong_type"),
        ('<tool_call>\n{"name": "flip", "arguments": {}}\n</tool_call>', "missing_argument"),
        ('<tool_call>\n{"name": "flip", "arguments": {"word": "a", "x": 1}}\n</tool_call>', "unexpected_argument"),
    ],
)
def test_json_calls_that_cannot_be_made(turn: str, kind: str) -> None:
    from tests.sources.qwenlike import FORMAT, TOKENIZER

    words = Words(echo(pure=True))
    sampler = ScriptedSampler(answers(turn, "cba"), TOKENIZER)
    group = attempted(stage_for(words, sampler, form=FORMAT, tokenizer=TOKENIZER, max_tokens=4000), 1, words=words)
    [verdict] = verdicts(group)
    assert verdict.reward == 1.0 and verdict.evidence["wrong_calls"] == {kind: 1}


@pytest.mark.parametrize("how", ["raise", "nonsense"])
@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("method", ["reset", "step", "verify", "close"])
def test_an_environment_that_fails_costs_no_reward_but_the_attempt(method: str, pure: bool, how: str) -> None:
    if (method, how) == ("close", "nonsense"):
        how = "raise"
    cls = echo(pure, fault=method, how=how)
    words = Words(cls)
    group = attempted(stage_for(words, ScriptedSampler(RIGHT)), 3, words=words)
    assert [v.status for v in verdicts(group)] == [Status.INFRA_ERROR] * 3
    assert all(v.reward is None and v.reason.startswith(f"environment.{method}: ") for v in verdicts(group))
    assert np.isnan(group.rewards).all() and not any(member.counts for member in group.members)
    assert all(environment.closed == 1 for environment in cls.made) and len(cls.made) == 3
    if how == "raise":
        assert f"{method} is broken" in verdicts(group)[0].evidence["trace"]


@pytest.mark.parametrize(("pure", "how"), [(True, "hang"), (False, "hang"), (False, "block")])
@pytest.mark.parametrize("method", ["reset", "step", "verify", "close"])
def test_an_environment_that_hangs_is_left_behind_and_holds_nobody_up(method: str, pure: bool, how: str) -> None:
    """One of three attempts hangs; the others come to their end meanwhile."""
    first = [True]

    def failing(environment: Echo) -> bool:
        return first.pop() if first else False

    words = Words(echo(pure, fault=method, how=how, failing=staticmethod(failing)))
    stage = stage_for(words, ScriptedSampler(RIGHT), EpisodesSpec(call_seconds=0.3))
    group = attempted(stage, 3, words=words)
    lost = [v for v in verdicts(group) if v.reward is None]
    assert [v.reward for v in verdicts(group) if v.reward is not None] == [1.0, 1.0]
    assert [v.reason for v in lost] == [f"environment.{method}: did not answer within 0.3 s"]
    assert lost[0].status is Status.INFRA_ERROR


def test_what_the_machinery_spoilt_is_refilled_by_new_numbers_up_to_a_bound() -> None:
    count = [0]

    def failing(environment: Echo) -> bool:
        count[0] += 1
        return count[0] in (2, 3, 5)

    words = Words(echo(True, fault="verify", failing=staticmethod(failing)))
    sampler = ScriptedSampler(RIGHT)
    stage = stage_for(words, sampler, refills=1)
    group = attempted(stage, 4, words=words)
    rewards = [v.reward for v in verdicts(group)]
    assert rewards == [1.0, None, None, 1.0, None, 1.0]
    numbers = list(dict.fromkeys(asked["number"] for asked in sampler.asked))
    assert numbers == [0, 1, 2, 3, (1 << 32) + 1, (1 << 32) + 2]
    ledger = stage.setting.context.ledger
    assert ledger.total("policy", "prompts") == 1 and ledger.total("policy", "rollouts") == 6
    assert ledger.total("policy", "environment_steps") == 12
    count[0] = 0
    twice = attempted(stage_for(words, ScriptedSampler(RIGHT), refills=2), 4, words=words)
    assert [v.reward for v in verdicts(twice)] == [1.0, None, None, 1.0, None, 1.0, 1.0]


def test_a_step_in_which_the_environment_spoilt_everything_ends_the_run_with_its_traceback() -> None:
    words = Words(echo(fault="step"))
    source = Episodes(
        RolloutsSpec(prompts_per_step=2, samples_per_prompt=2), words.tasks(), stage_for(words, ScriptedSampler(RIGHT))
    )

    async def collect() -> list[Group]:
        return [group async for group in source.groups(0)]

    with pytest.raises(RunError, match=r"failed in all 4 attempts of a step[\s\S]*ZeroDivisionError: step is broken"):
        asyncio.run(collect())


# ---------------------------------------------------------------- budgets


def ended(stage: Stage, words: Words) -> tuple[list[Verdict], list[Any]]:
    seen: list[Attempt] = []
    inner = words.cls.verify

    async def verify(self: Echo, attempt: Attempt) -> Verdict:
        seen.append(attempt)
        return await inner(self, attempt)

    words.cls.verify = verify  # type: ignore[method-assign]
    group = attempted(stage, 1, words=words)
    return verdicts(group), [(a.ended, len(a.turns)) for a in seen]


def test_an_attempt_that_is_out_of_turns_is_scored() -> None:
    words = Words(echo(pure=True))
    stage = stage_for(words, ScriptedSampler(answers("flip(abc)")), EpisodesSpec(turns=3))
    [verdict], [how] = ended(stage, words)
    assert how == ("turns", 3) and verdict.reward == 0.0 and verdict.status is Status.TASK_FAIL
    assert verdict.reason == "the task was not done; out of turns"


def test_wrong_calls_use_turns_up() -> None:
    words = Words(echo(pure=True))
    stage = stage_for(words, ScriptedSampler(answers("flap(abc)")), EpisodesSpec(turns=5))
    [verdict], [how] = ended(stage, words)
    assert how == ("turns", 5) and verdict.reward == 0.0 and verdict.evidence["wrong_calls"] == {"unknown_tool": 5}


def test_a_turn_has_a_budget_of_tokens_and_an_attempt_one_for_all_its_turns() -> None:
    words = Words(echo(pure=True))
    sampler = ScriptedSampler(answers("flip(abc)"))
    stage = stage_for(words, sampler, EpisodesSpec(tokens=24, turns=9), max_tokens=16)
    [verdict], [how] = ended(stage, words)
    assert [asked["most"] for asked in sampler.asked] == [16, 14, 4]  # flip(abc) and its end are ten
    assert how == ("done", 3) and verdict.reward == 0.0  # `flip`, cut off, calls nothing
    words = Words(echo(pure=True))
    stage = stage_for(words, ScriptedSampler(answers("flip(abc)")), EpisodesSpec(tokens=20, turns=9))
    [verdict], [how] = ended(stage, words)
    assert how == ("tokens", 2) and verdict.reward == 0.0 and verdict.reason.endswith("out of tokens")


def test_an_attempt_ends_where_the_context_is_full() -> None:
    words = Words(echo(pure=True))
    stage = stage_for(words, ScriptedSampler(answers("flip(abc)")), EpisodesSpec(turns=50), context_length=40)
    [verdict], [how] = ended(stage, words)
    assert how[0] == "context" and verdict.reward == 0.0
    with pytest.raises(InputError, match="an attempt begins with 5 tokens, but the context of the model is 5"):
        attempted(stage_for(words, ScriptedSampler(RIGHT), context_length=5), 1, words=words)


def test_an_expired_clock_is_scored_with_its_own_status() -> None:
    """It counts what the environment works, not what the model or the machine take besides."""
    words = Words(echo(pure=True))
    inner = words.cls.step

    async def slow(self: Echo, action: Any) -> Any:
        await asyncio.sleep(0.05)
        return await inner(self, action)

    words.cls.step = slow  # type: ignore[method-assign]
    stage = stage_for(words, ScriptedSampler(answers("flip(abc)")), EpisodesSpec(turns=50, seconds=0.1))
    [verdict], [how] = ended(stage, words)
    assert how[0] == "clock" and 2 <= how[1] <= 3
    assert verdict.reward == 0.0 and verdict.status is Status.TIME_LIMIT and verdict.status.counts


# ---------------------------------------------------------------- concurrency, branches


def test_attempts_are_in_flight_together_and_no_more_environments_than_may_be_there() -> None:
    words = Words(echo(pure=True), count=4)
    for live, most in ((100, 8), (4, 4)):
        sampler = ScriptedSampler(answers("flip(abc)", "cba"))
        stage = stage_for(words, sampler, EpisodesSpec(live=live))
        source = Episodes(RolloutsSpec(prompts_per_step=4, samples_per_prompt=2), words.tasks(), stage)

        async def collect(source: Episodes = source) -> list[Group]:
            return [group async for group in source.groups(0)]

        groups = asyncio.run(collect())
        assert [g.key.split("/")[0] for g in groups] == [task.id for task, _ in source.order.at(0)]
        assert sampler.most == most
    with pytest.raises(InputError, match="need 2 environments at a time, and only 1 may be there"):
        Episodes(
            RolloutsSpec(prompts_per_step=1, samples_per_prompt=2), words.tasks(),
            stage_for(words, ScriptedSampler(RIGHT), EpisodesSpec(live=1)),
        )  # fmt: skip


@pytest.mark.parametrize("pure", [True, False])
def test_an_attempt_goes_on_in_several_ways_from_a_snapshot(pure: bool) -> None:
    script = ScriptedSampler(lambda before, number, turn: "flip(abc)" if turn == 0 else "cba" if number % 2 else "no")
    words = Words(echo(pure))
    stage = stage_for(words, script, EpisodesSpec(branch=BranchSpec(turn=1, ways=3)))
    group = attempted(stage, 2, words=words)
    trace = group.members[0].trace
    assert len(group.members) == 6 and len(trace.nodes) == 1 + 2 + 2 + 6  # prompt, first turns, observations, ways
    numbers = [asked["number"] for asked in script.asked if len(asked["before"]) > 8]
    assert len(set(numbers)) == 6
    assert {v.reward for v in verdicts(group)} <= {0.0, 1.0}
    starts = [member.trace.path(member.leaf)[:3] for member in group.members]
    assert starts[0] == starts[1] == starts[2] != starts[3] == starts[4] == starts[5]
    assert script.open == 0 and all(environment.closed == 1 for environment in words.cls.made)


def test_a_snapshot_that_fails_spoils_the_attempt() -> None:
    words = Words(echo(pure=True, fault="snapshot"))
    stage = stage_for(words, ScriptedSampler(RIGHT), EpisodesSpec(branch=BranchSpec(turn=1, ways=2)))
    group = attempted(stage, 2, words=words)
    assert [v.reason for v in verdicts(group)] == [
        "environment.snapshot: raised ZeroDivisionError: snapshot is broken"
    ] * 2
    assert all(environment.closed == 1 for environment in words.cls.made)
