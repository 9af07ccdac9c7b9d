"""E6: tokens in, tokens out. Over templates, history edits, tool turns and unicode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.traces import CONTEXT, Author, Role, Trace
from burnish.traces.templates import ChatFormat, add_extension, add_rendered
from tests.traces.families import byte_tokenizer, chat, template_names

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Look a word up.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
]
HARD = [
    "",
    "hello hello",
    "  hello  ",
    "\n\nhello\n\n",
    "e\u0301a\u0308",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "zero\u200bwidth\u2060joined\ufeff",
    "12 + 12 = 24",
    '{"a": [1, 2]}',
    "line\r\nbreak\ttab",
    "\u4f60\u597d",
    "<b>&amp;</b>",
]
texts = st.sampled_from(HARD) | st.text(st.characters(exclude_categories=["Cs", "Co"]), max_size=8)
model = Author.model("policy", 0)


def scattered(tokenizer: Any, ids: list[int]) -> list[int]:
    """The same text in tokens of one byte each: ids that decode alike but do not re-encode to themselves."""
    vocabulary = tokenizer.get_vocab()
    out: list[int] = []
    for token in ids:
        pieces = list(tokenizer.convert_ids_to_tokens(token))
        added = token in tokenizer.added_tokens_decoder
        out += [token] if added or any(p not in vocabulary for p in pieces) else [vocabulary[p] for p in pieces]
    return out


@dataclass(frozen=True)
class Turn:
    kind: str
    text: str
    scatter: bool
    cut: bool
    reply: str


turns = st.builds(
    Turn, st.sampled_from(["answer", "answer", "call", "thought"]), texts, st.booleans(), st.booleans(), texts
)


def message_of(turn: Turn, fmt: ChatFormat) -> dict[str, Any]:
    if turn.kind == "call" and fmt.finding.tool_calls == "rendered" and "tool results" not in fmt.finding.refused:
        function = {"name": "look_up", "arguments": {"word": turn.text}}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "id": "a1b2c3d4e", "function": function}],
        }
    if turn.kind == "thought":
        if fmt.official.forms.thinking_key:
            return {"role": "assistant", "content": turn.text, "reasoning_content": "hello so"}
        return {"role": "assistant", "content": f"<think>\nhello so\n</think>\n\n{turn.text}"}
    return {"role": "assistant", "content": turn.text}


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(template_names()), texts, st.lists(turns, min_size=1, max_size=3), st.booleans())
def test_e6_a_path_is_what_the_engine_was_given_and_what_it_sampled(
    name: str, question: str, plan: list[Turn], with_tools: bool
) -> None:
    fmt = chat(name)
    tokenizer = byte_tokenizer(name)
    finding = fmt.finding
    tools = TOOLS if with_tools and finding.tools_shown else None
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    trace = Trace(name)
    prompt = fmt.prompt(messages, tools)
    assert prompt.tokens == fmt.official.ids(messages, tools, prompt=True)
    seen = list(prompt.tokens)  # what the engine holds
    leaf = add_rendered(trace, -1, prompt)
    exact = True  # whether every sampled turn so far is what the template makes of its message
    begun = True  # whether every turn began as the generation prompt has it
    for turn in plan:
        message = message_of(turn, fmt)
        trained = fmt.demonstration([*messages, message], tools)[-1]
        sampled = last_run(trained.tokens, trained.trained)
        if turn.cut:
            sampled = sampled[:-1]
        if turn.scatter:
            sampled = scattered(tokenizer, sampled)
        seen = seen + sampled
        leaf = trace.add(leaf, sampled, model, Role.ANSWER, [-1.0] * len(sampled))
        if "tool_calls" in message:
            new = [{"role": "tool", "name": "look_up", "tool_call_id": "a1b2c3d4e", "content": turn.reply}]
        else:
            new = [{"role": "user", "content": turn.reply}]
        text = fmt.official.text([*messages, message], tools)
        begun = begun and text.startswith(fmt.official.text(messages, tools, prompt=True))
        turn_is_exact = fmt.official.ids([*messages, message], tools)[: len(seen)] == seen
        extension = fmt.extend([*messages, message], seen, new, tools)
        messages = [*messages, message, *new]
        official = fmt.official.ids(messages, tools, prompt=True)
        added = extension.added.tokens
        assert all(author.kind != "model" for author in extension.added.authors)
        if extension.new_segment:
            assert seen[: extension.keep] + added == official
            exact = True
        else:
            assert extension.keep == len(seen)  # nothing the engine saw is dropped or changed
            exact = exact and turn_is_exact
            if finding.prefix_preserving and exact:
                assert seen + added == official
            assert official[len(official) - len(added) :] == added
        seen = seen[: extension.keep] + added
        leaf = add_extension(trace, leaf, extension)
        assert trace.tokens(leaf).tolist() == seen
        if finding.prefix_preserving and begun:
            assert not extension.new_segment


def last_run(tokens: list[int], trained: list[bool]) -> list[int]:
    start = max(i for i in range(len(tokens)) if trained[i] and (i == 0 or not trained[i - 1]))
    stop = next((i for i in range(start, len(tokens)) if not trained[i]), len(tokens))
    return tokens[start:stop]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(template_names()), st.lists(turns, min_size=1, max_size=3), texts)
def test_e6_a_demonstration_is_the_official_render_with_its_stop_trained(
    name: str, plan: list[Turn], question: str
) -> None:
    fmt = chat(name)
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    for turn in plan:
        message = message_of(turn, fmt)
        messages.append(message)
        if "tool_calls" in message:
            messages.append({"role": "tool", "name": "look_up", "tool_call_id": "a1b2c3d4e", "content": turn.reply})
            messages.append({"role": "assistant", "content": turn.text})
        messages.append({"role": "user", "content": turn.reply})
    messages.pop()
    segments = fmt.demonstration(messages)
    official = fmt.official.ids(messages)
    runs = sum(count_runs(segment.trained) for segment in segments)
    assert runs == sum(m["role"] == "assistant" for m in messages)
    last = segments[-1].tokens
    if fmt.finding.stop_appended:  # a template without an end of turn gets its stop token
        official = [*official, last[-1]]
    tokenizer = byte_tokenizer(name)
    assert tokenizer.decode(last) == tokenizer.decode(official)
    if all(opens_cleanly(fmt, messages[: i + 1]) for i, m in enumerate(messages) if m["role"] == "assistant"):
        assert last == official
    if fmt.finding.prefix_preserving:
        assert len(segments) == 1 or fmt.finding.prompt_differs
    for segment in segments:
        for place, (token, trained) in enumerate(zip(segment.tokens, segment.trained, strict=True)):
            following = segment.trained[place + 1] if place + 1 < len(segment) else False
            if trained and not following:
                assert token in fmt.stop_ids
            if not trained:
                assert segment.authors[place].kind in ("context", "environment")


def opens_cleanly(fmt: ChatFormat, messages: list[dict[str, Any]]) -> bool:
    """Whether no token spans the edge between the generation prompt and the finished turn."""
    opening = fmt.official.ids(messages[:-1], prompt=True)
    begins = fmt.official.text(messages).startswith(fmt.official.text(messages[:-1], prompt=True))
    return not begins or fmt.official.ids(messages)[: len(opening)] == opening


def count_runs(trained: list[bool]) -> int:
    return sum(now and not before for now, before in zip(trained, [False, *trained], strict=False))


def test_a_new_segment_branches_inside_a_node_without_touching_it() -> None:
    fmt = chat("qwen3")
    messages = [{"role": "user", "content": "hello"}]
    trace = Trace()
    prompt = fmt.prompt(messages)
    root = add_rendered(trace, -1, prompt)
    answer = {"role": "assistant", "content": "<think>\nhello so\n</think>\n\nyes"}
    sampled = fmt.official.encode("<think>\nhello so\n</think>\n\nyes<|im_end|>")
    leaf = trace.add(root, sampled, model, Role.ANSWER, [-0.5] * len(sampled))
    before = trace.tokens(leaf).tolist()
    extension = fmt.extend([*messages, answer], before, [{"role": "user", "content": "and"}])
    assert extension.new_segment and len(prompt) <= extension.keep < len(before)
    branch = add_extension(trace, leaf, extension)
    assert trace.nodes[branch].parent == root and trace.tokens(leaf).tolist() == before
    assert {trace.authors[i] for i in trace.nodes[branch].authors} == {CONTEXT}
