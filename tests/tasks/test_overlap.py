"""Held-out tasks in training data: found by prompt, by n-grams, as near-duplicates; wording is none of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from burnish.randomness import counter_generator
from burnish.tasks import DataSpec, Task, build_tasks
from burnish.tasks.ngrams import Words, bands, words_of
from burnish.tasks.overlap import overlap

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]


def sentence(seed: int, words: int = 40) -> str:
    """Words that no other seed has in this order."""
    return " ".join(counter_generator(seed, 1).choice(WORDS, words))


HELD = [Task(prompt=sentence(i), answer=str(i)) for i in range(20)]
OTHERS = [Task(prompt=sentence(i), answer=str(i)) for i in range(1000, 1200)]


def test_unrelated_texts_are_clean() -> None:
    found = overlap(HELD, OTHERS)
    assert found.hits == () and found.lines() == [] and found.share == 0
    assert (found.held_out, found.training, found.searched) == (20, 200, 200)


def test_a_task_that_is_trained_on_is_found_whatever_its_case_its_space_and_its_demonstration() -> None:
    shouted = Task(prompt="  ".join(HELD[3].text.upper().split()), demonstration="it is 3")
    messages = Task(messages=({"role": "user", "content": HELD[5].text},), answer="5")
    found = overlap(HELD, [*OTHERS, shouted, messages])
    assert [(hit.task, hit.kind) for hit in found.hits] == [(HELD[3].id, "same task"), (HELD[5].id, "same task")]
    assert found.same == 2 and "2 of 20 held-out tasks are trained on themselves" in found.lines()[0]
    assert json.loads(json.dumps(found.to_json()))["counts"]["same task"] == 2


def test_the_same_prompt_with_another_answer_is_told_apart() -> None:
    found = overlap(HELD, [Task(prompt=HELD[0].text, answer="other")])
    assert found.counts == {"same task": 0, "same prompt": 1, "ngram": 0, "near": 0}
    found = overlap(HELD, [Task(prompt=HELD[0].text, answer="other"), Task(prompt=HELD[0].text, answer="0")])
    assert found.same == 1


@pytest.mark.parametrize(("shared", "hit"), [(12, False), (13, True)])
def test_thirteen_words_in_a_row_are_an_overlap_and_twelve_are_none(shared: int, hit: bool) -> None:
    leak = " ".join(HELD[7].text.split()[10 : 10 + shared])
    found = overlap(HELD, [*OTHERS, Task(prompt="Read this.", demonstration=f"It said: {leak}; and more.")])
    assert [one.task for one in found.hits] == ([HELD[7].id] if hit else [])
    if hit:
        assert found.hits[0].kind == "ngram" and found.hits[0].share == pytest.approx(1 / 29)  # of 41 words
        assert overlap(HELD, [Task(prompt=f"x {leak} y")], ngram=12).counts["ngram"] == 1


def test_words_that_many_texts_share_are_wording() -> None:
    wording = sentence(77)
    held = [Task(prompt=f"{wording} {i} {sentence(i, 5)}", answer=str(i)) for i in range(15)]
    training = [Task(prompt=f"{wording} {i} {sentence(i, 5)}", answer=str(i)) for i in range(100, 120)]
    found = overlap(held, training)
    assert found.hits == () and found.common == 28
    few = overlap(held[:10], training[:10])
    assert few.counts["ngram"] == 10, "ten texts are not many"
    repeated = overlap(HELD, [Task(prompt=f"{HELD[2].text} again", answer=None)] * 50)
    assert [hit.task for hit in repeated.hits] == [HELD[2].id], "a leak that is repeated stays one"


def test_near_duplicates_are_found_by_minhash_as_by_comparing_every_pair() -> None:
    """Of long prompts every 24th word is changed, of every second one every 12th."""
    held = [Task(prompt=sentence(i, 220), answer="a") for i in range(30)]
    training = []
    for i, task in enumerate(held):
        words = task.text.split()
        for place in range(6, len(words), 12 if i % 2 else 24):
            words[place] = f"changed{place}"
        training.append(Task(prompt=" ".join(words)))
    found = overlap(held, training, ngram=100, similar=0.6)

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = words_of(text)
        return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}

    pairs = {}
    for task in held:
        mine = shingles(task.text)
        pairs[task.id] = max(len(mine & o) / len(mine | o) for o in (shingles(t.text) for t in training))
    similar = {task for task, share in pairs.items() if share >= 0.6}
    assert 10 <= len(similar) <= 20
    assert {hit.task for hit in found.hits} <= similar and len(found.hits) >= 0.5 * len(similar)
    for hit in found.hits:
        assert hit.kind == "near" and hit.share == pytest.approx(pairs[hit.task])


def test_bands_are_shared_as_often_as_the_similarity_says() -> None:
    generator = np.random.default_rng(0)
    hits = []
    for _ in range(200):
        common, one, two = np.split(generator.integers(0, 2**63, 360, dtype=np.uint64), [240, 300])
        left, right = bands([np.concatenate([common, one]), np.concatenate([common, two])])
        hits.append(bool(set(left) & set(right)))
    expected = 1 - (1 - (240 / 360) ** 8) ** 14
    assert np.mean(hits) == pytest.approx(expected, abs=0.12)
    assert bands([np.zeros(0, dtype=np.uint64)]) == [[]]


def test_ngrams_do_not_reach_over_the_ends_of_texts_nor_depend_on_how_texts_are_grouped() -> None:
    texts = ["a b c", "d e f g", "", "a b c d e"]
    together = [set(grams.tolist()) for grams in Words().grams(texts, 3)]
    alone = [set(next(iter(Words().grams([text], 3))).tolist()) for text in texts]
    assert together == alone and [len(grams) for grams in together] == [1, 2, 0, 3]


@pytest.mark.parametrize("kind", ["programs", "records", "modular", "countdown", "symbols"])
def test_the_splits_of_a_generated_family_are_apart_by_their_prompts(kind: str) -> None:
    def tasks(split: str) -> list[Task]:
        return build_tasks(DataSpec.model_validate({"family": {"kind": kind, "count": 60, "split": split}}))

    held, training = tasks("heldout"), tasks("train")
    assert overlap(held, training, by="prompt").hits == ()
    assert overlap(held, [*training, held[0]], by="prompt").same == 1


def test_in_a_world_the_content_tells_a_task() -> None:
    def task(seed: int) -> Task:
        return Task(prompt="find the exit", columns={"maze": seed})

    assert overlap([task(1)], [task(2)], by="content").hits == () and overlap([task(1)], [task(2)]).same == 1
    assert overlap([task(1)], [task(1)], by="content").same == 1


def test_too_much_text_is_searched_in_part_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnish.tasks.overlap.LONGEST", 1000)
    found = overlap(HELD, OTHERS)
    assert 0 < found.searched < 200 and "only the first" in found.lines()[0]


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in ({"ngram": 1}, {"similar": 0.0}):
        with pytest.raises(ValueError, match="ngram >= 2"):
            overlap(HELD, OTHERS, **wrong)  # type: ignore[arg-type]
