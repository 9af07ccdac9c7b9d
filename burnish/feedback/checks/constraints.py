"""The 25 instruction checks of IFEval (Zhou et al. 2023, arXiv:2311.07911) by id, each a question to one text.

Arguments have the names that the data set gives them. Where the original reads a keyword as a regular expression, this
reads it as it stands; other differences are named where they are (and in docs/verifiers.md).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from burnish.feedback.checks.jsons import BrokenJSON, loads
from burnish.feedback.checks.sentences import count_sentences

Constraint = Callable[..., bool]

CONSTRAINTS: dict[str, Constraint] = {}
"""Id -> check: `check(text, **arguments)`."""

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "less than": lambda found, limit: found < limit,
    "at least": lambda found, limit: found >= limit,
}
"""How a count is compared."""


def refusal(id: str, arguments: Mapping[str, Any]) -> str:
    """Why this check with these arguments cannot be made; nothing when it can."""
    if id not in CONSTRAINTS:
        return f"there is no instruction {id!r}; there are: {', '.join(CONSTRAINTS)}"
    takes = [name for name in inspect.signature(CONSTRAINTS[id]).parameters if name != "text"]
    absent, more = [name for name in takes if name not in arguments], sorted(set(arguments) - set(takes))
    if absent or more:
        what = f"lacks {absent[0]!r}" if absent else f"takes no {more[0]!r}"
        return f"instruction {id!r} {what}; its arguments are: {', '.join(takes) or 'none'}"
    for name, value in arguments.items():
        if name.endswith("relation") and value not in RELATIONS:
            return f"instruction {id!r}: {name} is one of {', '.join(RELATIONS)}, not {value!r}"
        if name.startswith(_COUNTS) and (isinstance(value, bool) or not isinstance(value, int)):
            return f"instruction {id!r}: {name} is a whole number, not {value!r}"
        if name in _LISTS and not (isinstance(value, list) and all(isinstance(each, str) and each for each in value)):
            return f"instruction {id!r}: {name} is a list of texts, not {value!r}"
        if name in _TEXTS and not (isinstance(value, str) and value):
            return f"instruction {id!r}: {name} is a text, not {value!r}"
    return ""


_COUNTS = ("num_", "frequency", "let_frequency", "capital_frequency", "nth_")
_LISTS = ("keywords", "forbidden_words")
_TEXTS = (
    "keyword", "letter", "language", "first_word", "postscript_marker", "section_spliter", "prompt_to_repeat",
    "end_phrase",
)  # fmt: skip


def _named(id: str) -> Callable[[Constraint], Constraint]:
    def register(check: Constraint) -> Constraint:
        CONSTRAINTS[id] = check
        return check

    return register


@_named("keywords:existence")
def existence(text: str, keywords: list[str]) -> bool:
    """Every keyword occurs, in any case."""
    return all(keyword.lower() in text.lower() for keyword in keywords)


@_named("keywords:frequency")
def frequency(text: str, keyword: str, frequency: int, relation: str) -> bool:
    """The keyword occurs so often, in any case."""
    return RELATIONS[relation](text.lower().count(keyword.lower()), frequency)


@_named("keywords:forbidden_words")
def forbidden_words(text: str, forbidden_words: list[str]) -> bool:
    """None of the words occurs as a word."""
    return not any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in forbidden_words)


@_named("keywords:letter_frequency")
def letter_frequency(text: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    """The letter occurs so often, in any case."""
    return RELATIONS[let_relation](text.lower().count(letter.lower()), let_frequency)


@_named("language:response_language")
def response_language(text: str, language: str) -> bool:
    """langdetect finds this language (a code such as de). A text without letters is in none; the original passes it."""
    from langdetect import DetectorFactory, detect
    from langdetect.lang_detect_exception import LangDetectException

    DetectorFactory.seed = 0  # it draws at random otherwise
    try:
        return detect(text) == language
    except LangDetectException:
        return False


@_named("length_constraints:number_sentences")
def number_sentences(text: str, num_sentences: int, relation: str) -> bool:
    """So many sentences (burnish/feedback/checks/sentences.py; the original asks nltk)."""
    return RELATIONS[relation](count_sentences(text), num_sentences)


@_named("length_constraints:number_paragraphs")
def number_paragraphs(text: str, num_paragraphs: int) -> bool:
    """Exactly so many paragraphs with *** between them; an empty one may stand first or last only."""
    parts = [part.strip() for part in text.split("***")]
    inner = parts[1:-1]
    return all(inner) and sum(map(bool, parts)) == num_paragraphs


@_named("length_constraints:number_words")
def number_words(text: str, num_words: int, relation: str) -> bool:
    """So many words."""
    return RELATIONS[relation](len(re.findall(r"\w+", text)), num_words)


@_named("length_constraints:nth_paragraph_first_word")
def nth_paragraph_first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Exactly so many paragraphs with blank lines between them, and the nth begins with the word."""
    parts = [part.strip() for part in text.split("\n\n") if part.strip()]
    if len(parts) != num_paragraphs or not 1 <= nth_paragraph <= len(parts):
        return False
    first = re.match(r"[^\s.,?!'\"]*", parts[nth_paragraph - 1].lstrip("'\""))
    return first is not None and first[0].lower() == first_word.lower()


@_named("detectable_content:number_placeholders")
def number_placeholders(text: str, num_placeholders: int) -> bool:
    """At least so many [placeholders]."""
    return len(re.findall(r"\[[^\[\]\n]*\]", text)) >= num_placeholders


@_named("detectable_content:postscript")
def postscript(text: str, postscript_marker: str) -> bool:
    """There is a postscript: the marker, with or without blanks in it."""
    loose = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}
    return re.search(loose.get(postscript_marker, re.escape(postscript_marker.lower())), text.lower()) is not None


@_named("detectable_format:number_bullet_lists")
def number_bullet_lists(text: str, num_bullets: int) -> bool:
    """Exactly so many lines that begin with * or -."""
    lines = [line.lstrip() for line in text.split("\n")]
    return sum(line.startswith("-") or re.match(r"\*[^*]", line) is not None for line in lines) == num_bullets


@_named("detectable_format:constrained_response")
def constrained_response(text: str) -> bool:
    """One of the three answers is in it."""
    return any(f"My answer is {answer}." in text for answer in ("yes", "no", "maybe"))


@_named("detectable_format:number_highlighted_sections")
def number_highlighted_sections(text: str, num_highlights: int) -> bool:
    """At least so many *highlighted* or **highlighted** pieces that are not empty."""
    single = [piece for piece in re.findall(r"\*([^\n*]*)\*", text) if piece.strip()]
    double = [piece for piece in re.findall(r"\*\*([^\n*]*)\*\*", text) if piece.strip()]
    return len(single) + len(double) >= num_highlights


@_named("detectable_format:multiple_sections")
def multiple_sections(text: str, section_spliter: str, num_sections: int) -> bool:
    """At least so many sections that begin with the word and a number."""
    return len(re.findall(rf"{re.escape(section_spliter)}\s?\d", text)) >= num_sections


@_named("detectable_format:json_format")
def json_format(text: str) -> bool:
    """Nothing but JSON, in a fence or not. It must be an object or a list; the original takes a bare number too."""
    bare = re.sub(r"^```(?:json)?|```$", "", text.strip(), flags=re.IGNORECASE).strip()
    try:
        return isinstance(loads(bare), (dict, list))
    except BrokenJSON:
        return False


@_named("detectable_format:title")
def title(text: str) -> bool:
    """A <<title>> on one line that is not empty."""
    for line in text.split("\n"):
        start, end = line.find("<<") + 2, line.rfind(">>")
        if 2 <= start <= end and line[start:end].strip(" <>"):
            return True
    return False


@_named("combination:two_responses")
def two_responses(text: str) -> bool:
    """Exactly two different answers with ****** between them."""
    parts = [part.strip() for part in text.split("******")]
    answers = [part for part in parts if part]
    return all(parts[1:-1]) and len(answers) == 2 and answers[0] != answers[1]


@_named("combination:repeat_prompt")
def repeat_prompt(text: str, prompt_to_repeat: str) -> bool:
    """It begins with the request, word for word, in any case."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@_named("startend:end_checker")
def end_checker(text: str, end_phrase: str) -> bool:
    """It ends with the phrase, in any case; a quotation mark may follow."""
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@_named("startend:quotation")
def quotation(text: str) -> bool:
    """All of it stands in double quotation marks."""
    bare = text.strip()
    return len(bare) > 1 and bare[0] == bare[-1] == '"'


@_named("change_case:capital_word_frequency")
def capital_word_frequency(text: str, capital_frequency: int, capital_relation: str) -> bool:
    """So many words in capital letters only; WELL-KNOWN and U.S. are one word each."""
    words = re.findall(r"\w+(?:[-./&'\u2019]\w+)*", text)
    return RELATIONS[capital_relation](sum(word.isupper() for word in words), capital_frequency)


@_named("change_case:english_capital")
def english_capital(text: str) -> bool:
    """Capital letters only. The original also asks whether it is English, which a short text does not tell."""
    return text.isupper()


@_named("change_case:english_lowercase")
def english_lowercase(text: str) -> bool:
    """Small letters only; as above."""
    return text.islower()


@_named("punctuation:no_comma")
def no_comma(text: str) -> bool:
    """There is no comma."""
    return "," not in text
