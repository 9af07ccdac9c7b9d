"""What is found out about each shipped template, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from burnish.errors import InputError
from burnish.traces import DEMONSTRATION, ENVIRONMENT, Role
from burnish.traces.templates import ChatFormat, PlainFormat, Rendered, chat_format
from tests.traces.families import byte_tokenizer, chat, template_names
from tests.traces.template_table import documented, table
from tests.traces.test_templates_e6 import TOOLS

UNHANDLED: dict[str, str] = {}
"""Shipped templates that cannot be examined, and why: docs/templates.md says there are none."""

CALL = {"type": "function", "id": "a1b2c3d4e", "function": {"name": "look_up", "arguments": {"word": "hello"}}}


def pieces(name: str, rendered: Rendered) -> list[tuple[str, str, str]]:
    """Runs of equal author and role as (author, role, text)."""
    runs: list[tuple[str, str, list[int]]] = []
    for token, author, role in zip(rendered.tokens, rendered.authors, rendered.roles, strict=True):
        if not runs or runs[-1][:2] != (author.kind.value, role.value):
            runs.append((author.kind.value, role.value, []))
        runs[-1][2].append(token)
    return [(author, role, byte_tokenizer(name).decode(ids)) for author, role, ids in runs]


def test_exactly_the_listed_templates_cannot_be_handled() -> None:
    failed = {}
    for name in template_names():
        try:
            chat(name)
        except InputError as error:
            failed[name] = str(error)
    assert failed == UNHANDLED
    assert len(template_names()) >= 70


def test_the_documented_table_is_what_is_found() -> None:
    assert documented() == table()


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("qwen2_5", {"<|im_end|>"}),
        ("llama3_1", {"<|eot_id|>"}),
        ("gemma3", {"<end_of_turn>", "<eos>"}),
        ("phi3", {"<|end|>", "<|endoftext|>"}),
        ("cohere2", {"<|END_OF_TURN_TOKEN|>"}),
        ("deepseekv3", {"<｜end▁of▁sentence｜>"}),
        ("gptoss", {"<|return|>", "<|call|>"}),
        ("glm4moe", {"<|user|>", "<|observation|>", "<|endoftext|>"}),
        ("gemma4_v5", {"<turn|>", "<|tool_response>", "<eos>"}),
    ],
)
def test_the_stop_class_holds_every_token_that_ends_a_turn(name: str, stops: set[str]) -> None:
    assert set(chat(name).finding.stop_tokens) == stops


def test_stop_tokens_of_a_generation_config_join_the_class() -> None:
    tokenizer = byte_tokenizer("qwen2_5")
    extra = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert chat_format(tokenizer, stop_ids=[extra]).stop_ids == chat("qwen2_5").stop_ids | {extra}


@pytest.mark.parametrize(
    ("name", "thinking", "breaks"),
    [
        ("qwen2_5", "kept", ()),
        ("qwen3", "dropped later", ("plain turns", "turns with thinking", "tool turns", "turns after tools")),
        ("qwen3_training", "kept", ()),
        ("deepseek_r1_distill", "dropped at once", ("turns with thinking",)),
        ("gptoss", "dropped later", ("plain turns", "turns with thinking", "turns after tools")),
        ("glm4moe", "dropped later", ("turns with thinking",)),
    ],
)
def test_history_edits_are_found(name: str, thinking: str, breaks: tuple[str, ...]) -> None:
    assert (chat(name).finding.thinking, chat(name).finding.breaks) == (thinking, breaks)


def test_other_edits_are_found_and_printed() -> None:
    assert "Whitespace at the ends is trimmed (user, assistant)" in str(chat("gemma3").finding)
    assert chat("gemma3").finding.system_in_user and "system messages" in chat("gemma").finding.refused
    assert "You are Qwen" in str(chat("qwen2_5").finding) and not chat("qwen3").finding.system_added
    assert chat("llama3_2").finding.dates and not chat("llama3").finding.dates
    assert chat("deepseekv3").official.forms.arguments_as_text and chat("smolvlm").official.forms.content_as_parts
    assert str(chat("qwen3").finding).startswith("Not prefix-preserving (plain turns")
    assert str(chat("phi3").finding).startswith("Prefix-preserving")


def test_the_date_stays_fixed_after_loading() -> None:
    fmt = ChatFormat.examine(byte_tokenizer("llama3_2"))
    fmt.official.today = fmt.official.today.replace(year=1999, month=1, day=2)
    assert "Today Date: 02 Jan 1999" in fmt.official.text([{"role": "user", "content": "hello"}])


def test_roles_and_authors_follow_the_messages() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [CALL]},
        {"role": "tool", "name": "look_up", "tool_call_id": "a1b2c3d4e", "content": "seen"},
        {"role": "assistant", "content": "done", "reasoning_content": "so"},
    ]
    (segment,) = chat("qwen3_training").demonstration(messages)
    call = '{"name": "look_up", "arguments": {"word": "hello"}}'
    assert pieces("qwen3_training", segment) == [
        ("context", "scaffold", "<|im_start|>system\n"),
        ("context", "prompt", "be brief"),
        ("context", "scaffold", "<|im_end|>\n<|im_start|>user\n"),
        ("context", "prompt", "hello"),
        ("context", "scaffold", "<|im_end|>\n<|im_start|>assistant\n"),
        ("demonstration", "thought", "<think>\nhm\n</think>\n\n"),
        ("demonstration", "action", f"<tool_call>\n{call}\n</tool_call><|im_end|>"),
        ("context", "scaffold", "\n<|im_start|>user\n<tool_response>\n"),
        ("environment", "observation", "seen"),
        ("context", "scaffold", "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"),
        ("demonstration", "thought", "<think>\nso\n</think>\n\n"),
        ("demonstration", "answer", "done<|im_end|>"),
        ("context", "scaffold", "\n"),
    ]  # fmt: skip


def test_edited_history_trains_each_turn_once_in_its_own_context() -> None:
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "one", "reasoning_content": "hm"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "two", "reasoning_content": "so"},
    ]
    first, second = chat("qwen3").demonstration(messages)
    trained = [[text for author, _, text in pieces("qwen3", s) if author == "demonstration"] for s in (first, second)]
    assert trained == [["<think>\nhm\n</think>\n\n", "one<|im_end|>"], ["<think>\nso\n</think>\n\n", "two<|im_end|>"]]
    assert "hm" not in byte_tokenizer("qwen3").decode(second.tokens)


def test_a_cut_turn_is_closed_as_context() -> None:
    fmt = chat("qwen2_5")
    messages = [{"role": "user", "content": "hello"}]
    path = fmt.prompt(messages).tokens + fmt.official.encode("on and on")
    extension = fmt.extend(
        [*messages, {"role": "assistant", "content": "on and on"}], path, [{"role": "user", "content": "stop"}]
    )
    assert byte_tokenizer("qwen2_5").decode(extension.added.tokens).startswith("<|im_end|>\n<|im_start|>user\nstop")
    assert DEMONSTRATION not in extension.added.authors


def test_tool_results_are_the_environments() -> None:
    fmt = chat("qwen2_5")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    call = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    turn = fmt.demonstration([*messages, call], TOOLS)[-1]
    path = turn.tokens[: turn.trained[::-1].index(True) * -1 or None]
    result = {"role": "tool", "name": "look_up", "tool_call_id": "a1b2c3d4e", "content": "seen"}
    extension = fmt.extend([*messages, call], path, [result], TOOLS)
    added = extension.added
    observed = [
        token
        for token, author, role in zip(added.tokens, added.authors, added.roles, strict=True)
        if author == ENVIRONMENT and role is Role.OBSERVATION
    ]
    assert byte_tokenizer("qwen2_5").decode(observed) == "seen" and not extension.new_segment


def test_text_that_looks_like_a_mark_only_makes_the_roles_coarse() -> None:
    rendered = chat("qwen2_5").prompt([{"role": "user", "content": "a\U00100000b\U00100001"}])
    assert set(rendered.roles) == {Role.PROMPT}
    assert "a\U00100000b\U00100001" in byte_tokenizer("qwen2_5").decode(rendered.tokens)


USER = {"role": "user", "content": "y"}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", **fields}


@pytest.mark.parametrize(
    ("name", "messages", "complaint"),
    [
        ("gemma", [{"role": "system", "content": "x"}, USER], "message 0 has role system"),
        ("phi3", [USER, assistant(content="", tool_calls=[CALL])], "message 1 has tool calls"),
        ("llama3_1", [USER, assistant(tool_calls=[CALL])], "message 1 has text beside"),
        ("gemma3", [USER, assistant(reasoning_content="z")], "message 1 has reasoning_content"),
        ("gemma3", [USER, USER, assistant()], "roles must alternate"),
        ("phi3", [USER, {"role": "tool", "content": "z"}, assistant()], "message 1 has role tool"),
        ("qwen3", [{"role": "narrator", "content": "z"}, USER, assistant()], "message 0 has role narrator"),
        ("qwen3", [{"content": "y"}], "message 0 has no role"),
        ("qwen3", [USER], "nothing to train"),
    ],
)
def test_what_would_be_left_out_silently_is_refused(name: str, messages: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        chat(name).demonstration(messages)


def test_tools_that_the_template_does_not_show_are_refused() -> None:
    with pytest.raises(InputError, match="leaves out the tools' descriptions"):
        chat("phi3").prompt([{"role": "user", "content": "y"}], TOOLS)


def test_a_missing_or_useless_template_says_what_to_do(tmp_path: Path) -> None:
    bare = copy.deepcopy(byte_tokenizer("qwen3"))
    bare.chat_template = None
    with pytest.raises(InputError, match="no chat template: set template: plain"):
        chat_format(bare)
    assert isinstance(chat_format(bare, "plain"), PlainFormat)
    with pytest.raises(InputError, match="neither auto, plain, nor a readable Jinja file"):
        chat_format(bare, "plane")
    for text, complaint in [("{{ bos_token }}", "leaves out the text"), ("{% if %}", "refuses these messages")]:
        (tmp_path / "t.jinja").write_text(text)
        with pytest.raises(InputError, match=complaint):
            chat_format(bare, str(tmp_path / "t.jinja"))
    (tmp_path / "good.jinja").write_text("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}")
    rendered = chat_format(bare, str(tmp_path / "good.jinja")).prompt([{"role": "user", "content": "hello"}])
    assert bare.decode(rendered.tokens) == "hello<|im_end|>" and bare.chat_template is None
