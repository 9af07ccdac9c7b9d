"""The families modular, countdown, knights and symbols: what they ask is true, and answers are worked out twice."""

from __future__ import annotations

import re
from itertools import product

import pytest

from burnish.models.nursery_list import nursery_entries
from burnish.running.config import load_recipe
from burnish.tasks import Task
from burnish.tasks.families.puzzles import KINDS, Said, fits
from tests.feedback.judging import judged, rewards
from tests.tasks.test_families_small import tasks_of

# ---------------------------------------------------------------- modular


def steps_of(task: Task) -> tuple[int, int, list[tuple[str, int]]]:
    """Modulus, first number and steps, from the short question."""
    modulus, start, rest = re.fullmatch(r"m(\d+):(\d+)(.*)", task.text).groups()  # type: ignore[union-attr]
    return int(modulus), int(start), [(sign, int(b)) for sign, b in re.findall(r"([-+*])(\d+)", rest)]


def test_a_chain_is_worked_from_left_to_right_three_steps_a_level() -> None:
    for task in tasks_of("modular", levels=[1, 2, 3, 4], count=200, wording="short"):
        modulus, value, steps = steps_of(task)
        assert modulus in (7, 11, 13) and len(steps) == 3 * task.columns["level"]
        assert [line.partition("=")[0] for line in task.columns["claims"]] != []
        for line, (sign, operand) in zip(task.columns["claims"], steps, strict=True):
            before, value = value, eval(f"({value}{sign}{operand}) % {modulus}")
            assert line == f"{before}{sign}{operand}={value}"
        assert task.columns["result"] == value and task.answer == "\n".join(task.columns["claims"])


def test_every_modulus_that_is_asked_for_occurs_and_the_smallest_there_is_works() -> None:
    tasks = tasks_of("modular", levels=[1], count=60, wording="short", moduli=[2, 5, 99])
    assert {steps_of(task)[0] for task in tasks} == {2, 5, 99}


def test_the_sentence_says_the_same_chain_and_shows_the_form() -> None:
    [task] = tasks_of("modular", 1, levels=[1], count=1)
    assert re.match(r"Start with \d+ and work modulo \d+: (add|subtract|multiply by) \d+, then ", task.text)


def test_the_form_that_a_sentence_shows_is_right_of_no_task() -> None:
    for task in tasks_of("modular", levels=[1, 2], count=300, moduli=[2, 3, 5]):
        form = re.search(r"in the form of (\d+)\+(\d+)=(\d+), and", task.text)
        modulus = re.search(r"work modulo (\d+):", task.text)
        assert form and modulus and (int(form[1]) + int(form[2])) % int(modulus[1]) == int(form[3])
        shown = f"{form[1]}+{form[2]}={form[3]}"
        assert shown not in task.columns["claims"]
        assert rewards({"kind": "claims", "credit": "fraction"}, task.columns, [shown]) == [0.0]
    for task in tasks_of("knights", levels=[2], count=80):
        forms = re.findall(r'such as "([^"]+)"', task.text)
        assert len(forms) == 2 and forms[1].endswith(": fits")
        for lines in ("\n".join(forms), *forms):
            assert rewards({"kind": "claims", "credit": "fraction"}, task.columns, [lines]) == [0.0]
            assert rewards("claims", task.columns, [lines]) == [0.0]


def test_the_first_wrong_step_is_found_and_the_result_alone_may_be_judged() -> None:
    [task] = tasks_of("modular", 2, levels=[2], count=1, wording="short")
    lines = list(task.columns["claims"])
    lines[2] = lines[2].partition("=")[0] + "=99"
    [verdict] = judged({"kind": "claims", "credit": "until_wrong"}, task.columns, ["\n".join(lines)])
    assert verdict.reward == pytest.approx(2 / 6) and verdict.evidence["details"]["claims"]["first_wrong"] == 2
    assert rewards({"kind": "numeric", "column": "result"}, task.columns, ["\n".join(lines)]) == [1.0]


# ---------------------------------------------------------------- countdown


def test_levels_have_the_numbers_and_the_signs_they_should() -> None:
    signs = {1: set(), 2: set(), 3: set(), 4: set()}
    for task in tasks_of("countdown", levels=[1, 2, 3, 4], count=2000):
        level, numbers = task.columns["level"], task.columns["numbers"]
        assert len(numbers) == (3 if level < 3 else 4) and 0 < task.columns["target"] <= 999
        assert all(1 <= number <= (50 if level == 4 else 20) for number in numbers)
        assert isinstance(task.answer, str)
        signs[level] |= set(task.answer) & set("+-*/")
        assert eval(task.answer) == task.columns["target"]
        assert sorted(map(int, re.findall(r"\d+", task.answer))) == sorted(numbers)
        assert all(str(number) in task.text for number in [*numbers, task.columns["target"]])
    assert signs == {1: set("+-"), 2: set("+-*"), 3: set("+-*"), 4: set("+-*/")}


def test_sums_are_written_in_one_order() -> None:
    """What is added first, larger numbers first: so a model need not learn which of many ways to write it."""
    for task in tasks_of("countdown", levels=[1], count=300):
        terms = [int(term) for term in re.findall(r"[+-]?\d+", str(task.answer))]
        assert terms == sorted(terms, key=lambda term: (term < 0, -abs(term)))


# ---------------------------------------------------------------- knights


def meant(said: str, kinds: dict[str, str]) -> bool:
    """Whether a statement in the short wording is true where everybody's kind is known."""
    for sign, join in (("&", all), ("|", any)):
        if sign in said:
            return join(kinds[part[0]] == part[1] for part in said.split(sign))
    if "=" in said or "!" in said:
        return (kinds[said[0]] == kinds[said[2]]) == ("=" in said)
    return kinds[said[0]] == said[1]


def possible(question: str, case: str) -> list[str]:
    """Who cannot have said what they said, in any way to go on from a case; worked out without the family's code."""
    speakers = [part.split(":") for part in question.split(" ")]
    names = [name for name, _ in speakers]
    wholes = [case + "".join(rest) for rest in product("kn", repeat=len(names) - len(case))]
    against = []
    for name, said in speakers:
        ways = [dict(zip(names, whole, strict=True)) for whole in wholes]
        if not any(meant(said, kinds) == (kinds[name] == "k") for kinds in ways):
            against.append(name)
    return against


def test_there_is_one_solution_and_every_claim_is_true_and_the_search_misses_no_case() -> None:
    for task in tasks_of("knights", levels=[2, 3], count=120, wording="short"):
        size = task.columns["level"] + 1
        whole = ["".join(case) for case in product("kn", repeat=size)]
        [solution] = [case for case in whole if not possible(task.text, case)]
        *ruled_out, last = task.columns["claims"]
        assert last == [f"{solution}:ok"]
        for ways in ruled_out:
            case = ways[0].partition(":")[0]
            assert ways == [f"{case}:{name}" for name in possible(task.text, case)]
            assert not case[:-1] or not possible(task.text, case[:-1])  # no shorter case would have done
        prefixes = [ways[0].partition(":")[0] for ways in ruled_out]
        before = whole[: whole.index(solution)]
        assert all(any(case.startswith(prefix) for prefix in prefixes) for case in before)
        assert prefixes == sorted(prefixes)


def test_any_person_who_rules_a_case_out_may_be_named() -> None:
    tasks = tasks_of("knights", levels=[2], count=200, wording="short")
    task = next(task for task in tasks if any(len(ways) > 1 for ways in task.columns["claims"]))
    other = "\n".join(ways[-1] for ways in task.columns["claims"])
    assert other != task.answer
    assert rewards({"kind": "claims", "credit": "all"}, task.columns, [other, str(task.answer)]) == [1.0, 1.0]
    guess = str(task.answer).splitlines()[-1]
    assert rewards({"kind": "claims", "credit": "all"}, task.columns, [guess]) == [0.0]
    assert rewards("claims", task.columns, [guess]) == [1.0]


def test_the_sentences_name_the_people_and_their_number_goes_by_the_level() -> None:
    for level in (1, 2, 3, 4):
        [task] = tasks_of("knights", 1, levels=[level], count=1)
        names = re.findall(r'(\w+) says: "', task.text)
        assert len(set(names)) == level + 1
        assert str(task.answer).splitlines()[-1].count(",") == level
        assert str(task.answer).endswith(": fits")
        assert all(line.rpartition(": ")[2] in {*names, "fits"} for line in str(task.answer).splitlines())


def test_puzzles_that_differ_in_the_order_of_the_people_are_on_one_side() -> None:
    """`A:Bn B:A=B` and `A:A=B B:An` are the same puzzle told from the other end."""
    swapped = str.maketrans("AB", "BA")

    def other(question: str) -> str:
        parts = sorted(part.translate(swapped) for part in question.split(" "))
        return " ".join(f"{name}:{_ordered(said)}" for name, _, said in (part.partition(":") for part in parts))

    train, held = (
        {t.text for t in tasks_of("knights", levels=[1], count=count, split=split, wording="short")}
        for split, count in (("train", 40), ("heldout", 12))
    )
    assert not {other(question) for question in train} & held
    assert {other(question) for question in train} & train  # the swap is one that the family could have drawn


@pytest.mark.parametrize("people", [2, 3, 4, 5])
def test_no_two_statements_mean_the_same_so_that_no_twin_of_a_puzzle_is_on_the_other_side(people: int) -> None:
    """What is said decides the split whatever the order and the names; other words for the same there are not."""
    pairs = [(a, b) for a in range(people) for b in range(a + 1, people)]
    said = [Said("is", (person,), kind) for person in range(1, people) for kind in KINDS]
    said += [Said(form, pair) for form in ("same", "differ") for pair in pairs]
    said += [Said(form, pair, a + b) for form in ("and", "or") for pair in pairs for a in KINDS for b in KINDS]
    cases = ["".join(case) for case in product(KINDS, repeat=people)]
    fitting = {tuple(fits((words,), 0, case) for case in cases) for words in said}  # by the first person
    assert len(fitting) == len(said)


def _ordered(said: str) -> str:
    sign = next((sign for sign in "&|=!" if sign in said), "")
    return sign.join(sorted(said.split(sign))) if sign else said


# ---------------------------------------------------------------- symbols


def test_each_task_is_answered_right_and_has_its_length() -> None:
    pairs = {"(": ")", "[": "]", "{": "}", "<": ">"}
    lengths = {1: (3, 5), 2: (6, 8), 3: (9, 12), 4: (13, 16)}
    seen = set()
    for task in tasks_of("symbols", levels=[1, 2, 3, 4], count=800, wording="short"):
        letter, _, text = task.text.partition(":")
        low, high = lengths[task.columns["level"]]
        assert low <= len(text) <= high and letter == task.columns["task"][0]
        seen.add(task.columns["task"])
        if letter == "c":
            assert task.answer == text
        elif letter == "s":
            assert task.answer == "".join(sorted(text)) != text
        else:
            whole = text + str(task.answer)
            while any(a + b in whole for a, b in pairs.items()):
                for a, b in pairs.items():
                    whole = whole.replace(a + b, "")
            assert not whole and task.answer and set(str(task.answer)) <= set(pairs.values())
    assert seen == {"brackets", "sort", "copy"}


def test_of_what_the_nursery_is_asked_to_sort_no_anagram_is_in_training() -> None:
    recipe = load_recipe(nursery_entries()["symbols-S"].recipe)
    assert recipe.data is not None and recipe.evaluation is not None and recipe.evaluation.data is not None
    texts = []
    for data in (recipe.data, recipe.evaluation.data):
        assert data.family is not None
        keys = data.family.model_dump(exclude={"kind", "tasks"})
        texts.append([t for t in tasks_of("symbols", recipe.seed, **keys) if t.columns["task"] == "sort"])
    trained, held_out = ({str(task.answer) for task in side} for side in texts)
    assert len(trained) > 800 and len(held_out) > 50 and not trained & held_out


def test_only_the_tasks_that_are_asked_for_occur() -> None:
    assert {t.columns["task"] for t in tasks_of("symbols", count=50, tasks=["sort"])} == {"sort"}
