"""The pages in a real browser: they draw, tell their numbers, follow a run, and nothing that a model wrote runs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from burnish.traces import SignalKind
from burnish.traces.store import write_groups
from burnish.view import write_report
from burnish.view.live.server import LivePage, view_run
from tests.view.browser import Browser, Page
from tests.view.runs import HOSTILE, evaluation, groups, write_run

ATTACK = (
    "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
    "<svg onload=window.pwned=1>\u202e\u200b<!--<script>"
)
"""What a model, a task or a reward function may spell."""


def hostile_run(path: Path, steps: int = 51) -> Path:
    """A run whose outside texts all attack the page, with every number of a token stored."""
    run = write_run(path, steps=steps, hostile=ATTACK)
    made = groups(ATTACK)
    made[0].key = ATTACK
    for member in made[0].members:
        node = member.trace.nodes[member.leaf]
        size = len(node)
        member.trace.write(member.leaf, "log_ratio", np.linspace(-0.25, 0.5, size))
        member.trace.write(member.leaf, "entropy", np.linspace(0.125, 1.5, size))
        member.trace.write(member.leaf, ATTACK, np.ones(size), SignalKind.STATISTIC)
    write_groups(run / "traces" / "step-000052.parquet", [*made, *groups()])
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": steps + 1, "reward": 0.75, ATTACK: 1.5}) + "\n")
    return run


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    made = browser.page()
    made.size(1280)
    yield made
    made.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(hostile_run(tmp_path_factory.mktemp("runs") / "mine")).as_uri()


DRAWN = """[...document.querySelectorAll('#first-charts canvas, #heat canvas')].map((canvas) => {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 200) colours.add(pixels.slice(i, i + 3).join());
  return colours.size;
})"""
"""How many colours there are in each plot."""


def test_a_report_draws_in_light_and_dark_without_a_complaint_or_a_request(page: Page, report: str) -> None:
    papers = {}
    for scheme in ("light", "dark"):
        page.colours(scheme)
        page.open(report)
        page.until("document.querySelectorAll('#first-charts .uplot').length === 6")
        assert min(page.run(DRAWN)) >= 2
        papers[scheme] = page.run("getComputedStyle(document.body).backgroundColor")
    assert papers == {"light": "rgb(251, 250, 248)", "dark": "rgb(20, 23, 26)"}
    page.run("document.getElementById('theme').click()")  # light, whatever the system prefers
    assert page.run("getComputedStyle(document.body).backgroundColor") == papers["light"]
    assert page.complaints == []
    assert set(page.asked) == {report}


def test_a_tooltip_tells_every_number_of_its_token(page: Page, report: str) -> None:
    page.open(report)
    page.run("page.openRollout('step-000052/0/0')")
    start = page.run("page.data.samples.rollouts.find((r) => r.id === 'step-000052/0/0').start")
    page.hover(f'.t[data-i="{start}"]')
    page.until("!document.getElementById('tip').hidden")
    told = dict(
        page.run("[...document.querySelectorAll('#tip dt')].map((t) => [t.textContent, t.nextSibling.textContent])")
    )
    stored = groups()[0].members[0].trace.nodes[1]
    assert told["token"] == '"1"' and told["id"] == str(stored.tokens[0])
    assert told["author"] == "model:policy@50" and told["role"] == "answer"
    assert float(told["log-prob"]) == pytest.approx(float(stored.logprobs[0]), rel=1e-4)
    assert float(told["probability"]) == pytest.approx(float(np.exp(stored.logprobs[0])), abs=1e-3)
    assert (told["advantage"], told["log-ratio"], told["entropy"]) == ("0.5", "-0.25", "0.125")
    assert float(told["ratio"]) == pytest.approx(np.exp(-0.25), abs=1e-3)


def test_tokens_are_coloured_by_what_the_reader_chooses(page: Page, report: str) -> None:
    page.open(report)
    page.run("page.openRollout('step-000052/0/0')")
    colours = "[...document.querySelectorAll('.tokens .t:not(.other)')].map((t) => getComputedStyle(t).backgroundColor)"
    seen = {}
    for name in ("logprob", "advantage", "log_ratio", "entropy", "author"):
        page.run(f"document.getElementById('by-{name}').click()")
        seen[name] = page.run(colours)
    assert set(seen["advantage"]) == {"rgba(16, 138, 96, 0.6)"}  # all reinforced, alike
    assert seen["log_ratio"][0].startswith("rgba(205, 60, 50") and seen["log_ratio"][-1] == "rgba(16, 138, 96, 0.6)"
    assert len(set(seen["entropy"])) == len(seen["entropy"]) and len(set(seen["author"])) == 1
    assert len({tuple(value) for value in seen.values()}) == 5
    assert page.run("document.querySelector('.key').textContent").endswith("model:policy@50")


def test_keys_reach_a_token_and_move_on_from_it(page: Page, report: str) -> None:
    page.open(report)
    page.run("document.querySelector('#samples .later').focus()")
    for _ in range(3):
        page.press("Tab")
        if page.run("document.activeElement.matches('.t')"):
            break
    first = page.run("document.activeElement.dataset.i")
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("ArrowRight")
    assert page.run("document.activeElement.dataset.i") == str(int(first) + 1)
    page.until("document.getElementById('tip').textContent.includes('log-prob')")
    page.press("Escape")
    assert page.run("document.getElementById('tip').hidden")
    page.run("document.querySelector('#heat canvas').focus()")
    page.press("ArrowRight")
    page.until("document.getElementById('tip').textContent.includes('reward')")
    page.press("Enter")
    assert page.run("document.activeElement.matches('.t')")
    page.run("document.querySelector('figure[data-metric=reward]').focus()")
    page.press("ArrowRight")
    assert page.run("document.activeElement.querySelector('.values').textContent").startswith("step 1: ")


def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page, report: str) -> None:
    page.size(390)
    page.open(report)
    page.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    page.run("document.getElementById('more').scrollIntoView()")
    assert page.run("document.documentElement.scrollWidth") <= 390
    page.hover(".tokens .t:not(.other)")
    box = page.run("(({left, right}) => [left, right])(document.getElementById('tip').getBoundingClientRect())")
    assert box[0] >= 0 and box[1] <= 390


def test_what_others_wrote_is_shown_and_never_runs(page: Page, report: str) -> None:
    page.open(report)
    page.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    for rollout in page.run("page.data.samples.rollouts.map((r) => r.id)"):
        page.run(f"page.openRollout({json.dumps(rollout)})")
    assert page.run("typeof window.pwned") == "undefined"
    assert page.run("document.scripts.length") == 2  # the data, and the page's own
    assert (
        page.run("document.querySelectorAll('img, svg, iframe, object, embed, link, [onerror], [onload]').length") == 0
    )
    text = page.run("document.body.innerText")
    assert text.count("</script><script>window.pwned=1</script>") >= 3 and "U+202E" in text
    assert page.complaints == []
    # and if it were put into the page as markup after all, the policy holds
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.pwned=1>')")
    page.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.pwned=1'}))")
    page.until("new Promise((done) => setTimeout(() => done(true), 50))")
    assert page.run("typeof window.pwned") == "undefined"
    assert any("Content Security Policy" in complaint for complaint in page.complaints)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, LivePage]]:
    monkeypatch.setattr("burnish.view.live.following.EVERY", 100)
    monkeypatch.setattr("burnish.view.live.following.SAMPLES_EVERY", 0.0)
    monkeypatch.setattr("burnish.view.live.following.SHARE", 1e9)
    run = hostile_run(tmp_path / "mine", steps=20)
    (run / "summary.json").unlink()  # still going
    with view_run(run, port=0, token="secret") as served:
        yield run, served


def test_a_page_follows_a_run_without_a_reload(page: Page, served: tuple[Path, LivePage]) -> None:
    run, live = served
    page.open(live.url)
    assert page.run("location.search") == ""  # the token went into a cookie
    page.run("window.unloaded = false")
    assert page.run("document.getElementById('live').textContent") == "live, step 21"
    count = "document.querySelector('figure[data-metric=reward]').metric.x.length"
    assert page.run(count) == 21
    with (run / "metrics.jsonl").open("a") as file:
        for step in range(22, 32):
            file.write(json.dumps({"step": step, "reward": 0.5 + step / 100, "new": step, ATTACK: 2}) + "\n")
            file.flush()
            time.sleep(0.02)
    page.until(f"{count} === 31")
    assert page.run("document.querySelector('figure[data-metric=reward] .values').textContent").endswith("0.81")
    page.until("document.getElementById('live').textContent === 'live, step 31'")
    assert page.run("document.querySelector('figure[data-metric=new]').metric.y.length") == 10

    replace(evaluation("late", 31, [HOSTILE] * 8, [True] * 8), name=ATTACK).save(run / "evaluations" / "later.json")
    page.until("document.querySelectorAll('#evaluations tbody tr').length === 4")
    write_groups(run / "traces" / "step-000060.parquet", groups(ATTACK))
    page.until("[...document.querySelectorAll('.pick option')].some((o) => o.value.startsWith('step-000060/'))")

    with (run / "metrics.jsonl").open("a") as file:  # a resumed run repeats a step
        file.write(json.dumps({"step": 30, "reward": 0.25}) + "\n")
    page.until(f"{count} === 30")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"broken\n{"step": 32}\n')
    page.until("document.getElementById('live').className === 'live bad'")
    told = page.run("document.getElementById('live').textContent")
    assert re.search(r"metrics\.jsonl, line 33: not a record with a step", told)
    assert page.run("window.unloaded") is False and page.run("typeof window.pwned") == "undefined"
    assert page.complaints == []
