"""`burnish show`: what is printed of a trace, and that hostile text cannot reach the terminal."""

from __future__ import annotations

import io
import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from burnish.traces import CONTEXT, ENVIRONMENT, Author, Group, Relation, Role, SignalKind, Span, Status, Trace, Verdict
from burnish.traces.show import show_groups, visible
from tests.traces.families import byte_tokenizer

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eabc\x9b31m\u2028[bold red]x[/]"


def printed(groups: list[Group], *, colour: bool = False, **options: object) -> str:
    out = io.StringIO()
    show_groups(
        groups,
        Console(file=out, width=250, force_terminal=colour, color_system="truecolor" if colour else None),
        **options,
    )  # type: ignore[arg-type]
    return out.getvalue()


def example(text: str = "hello 12") -> Group:
    tokenizer = byte_tokenizer("qwen3")
    trace = Trace("t0")
    root = trace.add(-1, tokenizer("hi")["input_ids"], CONTEXT, Role.PROMPT)
    ids = tokenizer(text)["input_ids"]
    leaf = trace.add(root, ids, Author.model("policy", 7), Role.ANSWER, [-0.5] * len(ids))
    advantage = [0.0] + [1.25] * (len(ids) - 1)
    trace.write(leaf, "advantage", advantage, SignalKind.POLICY, learner="policy")
    trace.write(leaf, "reference_logprob", [-0.75] * len(ids))
    trace.write(leaf, "features", np.arange(len(ids) * 6.0).reshape(-1, 6), axes=["feature"])
    return Group("g", [Span(trace, leaf, verdict=Verdict(1.0))], columns={"question": "hi"})


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"\s*\d+\s", line)]


def test_every_token_shows_author_role_mask_logprob_and_signals() -> None:
    text = printed([example()], tokenizer=byte_tokenizer("qwen3"))
    lines = rows(text)
    assert len(lines) == 2 + len(byte_tokenizer("qwen3")("hello 12")["input_ids"])
    assert "context" in lines[0] and "prompt" in lines[0] and "-0.5" not in lines[0]
    assert re.search(
        r"hell\W+model:policy@7\W+answer\s+│\s+│\s+-0\.5000\W+0\W+-0\.75", lines[2]
    )  # weight 0: not trained
    assert re.search(r"o\W+model:policy@7\W+answer\W+advantage\W+-0\.5000\W+1\.25\W+-0\.75\W+6 7 8 9 …", lines[3])
    assert "reward 1 (ok)" in text and "question = hi" in text


def test_without_a_tokenizer_the_ids_stand_alone() -> None:
    group = example()
    identity = int(group.members[0].trace.nodes[1].tokens[0])
    text = printed([group])
    assert str(identity) in rows(text)[2] and "hell" not in text


def test_spans_that_do_not_count_train_nothing() -> None:
    group = example()
    span = group.members[0]
    span.masked = True
    assert "advantage │" not in "".join(rows(printed([group]))) and "not counted" in printed([group])
    span.masked, span.verdict = False, Verdict.missing(Status.INFRA_ERROR, "the machine broke")
    assert "no reward (infra_error: the machine broke)" in printed([group]) and "not counted" in printed([group])
    span.verdict, span.start = None, 4
    masks = [("advantage" in line) for line in rows(printed([group]))]
    assert masks[:4] == [False] * 4 and all(masks[4:])


def test_limit_says_how_much_it_left_out() -> None:
    total = len(rows(printed([example()])))
    assert f"{total - 2} more tokens" in printed([example()], limit=2)
    assert len(rows(printed([example()], limit=2))) == 2


def test_relations_and_nested_groups_are_shown() -> None:
    inner, outer = example(), example()
    outer.members.append(inner.members[0])
    outer.relate(Relation(1, 0, margin=0.5))
    outer.children.append(inner)
    text = printed([outer])
    assert (
        "member 1 is preferred to member 0 by 0.5" in text and "1 nested groups" in text and text.count("group g") == 2
    )


def test_hostile_text_never_reaches_the_terminal_raw() -> None:
    group = example(HOSTILE)
    trace = group.members[0].trace
    leaf = trace.add(1, [1], Author(ENVIRONMENT.kind, HOSTILE), Role.OBSERVATION)
    trace.id = HOSTILE
    trace.write(leaf, HOSTILE, [1.0], SignalKind.WEIGHT)
    verdict = Verdict.missing(Status.VERIFIER_ERROR, HOSTILE)
    group = Group(
        HOSTILE, [Span(trace, leaf, name=HOSTILE), Span(trace, leaf, verdict=verdict)], columns={HOSTILE: HOSTILE}
    )
    for colour in (False, True):
        text = printed([group], tokenizer=byte_tokenizer("qwen3"), colour=colour)
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # rich's own colours, which only set the style
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "\\x1b[2J" in text and "[bold red]x[/]" in text


@given(st.text())
def test_visible_text_is_printable_and_tells_different_texts_apart(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert shown.encode("ascii", "backslashreplace").decode("unicode_escape") == text
