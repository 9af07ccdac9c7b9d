"""report.html of a run or a study: one file to read, to keep and to send. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import burnish
from burnish.errors import InputError
from burnish.traces.files import atomic_write
from burnish.view.cost import cost_section
from burnish.view.curves import BUCKETS, POINTS, curve_of, evaluation_curves, first_charts
from burnish.view.document import Document, document
from burnish.view.heat import heat
from burnish.view.packed import BEFORE, SHOWN, Packed, packed_rollouts
from burnish.view.record import RunRecord, read_run
from burnish.view.rollouts import Decode, load_tokenizer
from burnish.view.sections import configuration, evaluations, header, items, title_of
from burnish.view.stored import SAMPLE, StoredStep, chosen, rule, stored_steps
from burnish.view.study import is_study, study_document
from burnish.view.text import shown


def write_report(place: str | Path, *, out: str | Path | None = None, sample: int = SAMPLE, seed: int = 0) -> Path:
    """Write the page of a run directory, from whatever the run has written so far, or of a study's results; its path.

    It goes to report.html in that directory, or to `out`. Of the stored rollouts `sample` are drawn by `seed`, besides
    the first, the last, the best and the worst; the page says so. Raises InputError when this is neither a run nor a
    study, or a file in it is broken.
    """
    place = Path(place)
    if sample < 0:
        raise InputError(f"sample: given {sample}; it takes a whole number >= 0")
    path = Path(out) if out is not None else place / "report.html"
    if is_study(place):
        page = study_document(place)
    else:
        page = run_document(read_run(place), stored_steps(place), sample=sample, seed=seed)
    atomic_write(path, page.html.encode("utf-8", "replace"))  # a lone surrogate in a name must not cost the report
    return path


def run_document(
    record: RunRecord,
    steps: Sequence[StoredStep],
    *,
    sample: int = SAMPLE,
    seed: int = 0,
    live: dict[str, Any] | None = None,
    known: dict[str, Packed] | None = None,
) -> Document:
    """The page of a run. `live` is what a page that a server keeps up to date begins with."""
    samples = samples_of(steps, load_tokenizer(record.path), sample=sample, seed=seed, known=known)
    data = {
        "first": first_charts(),
        "metrics": curves_of(record),
        "evaluations": evaluation_curves(record.evaluations),
        "samples": samples,
        "heat": heat(steps) if samples else None,
        "live": live,
    }
    html = html_sections(record)
    body = (
        f'<header id="head">{html["head"]}</header><p id="live" class="live" role="status"></p>'
        f'{_CURVES}<div id="evaluations">{html["evaluations"]}</div>{_HEAT}{_SAMPLES}'
        f'<div id="items">{html["items"]}</div><div id="cost">{html["cost"]}</div>'
        f'<div id="configuration">{html["configuration"]}</div>'
        f"<footer>Written by Burnish {burnish.__version__} from {shown(record.path.resolve().name)}</footer>"
    )
    return document(title_of(record), body, data, live=live is not None)


def html_sections(record: RunRecord) -> dict[str, str]:
    """The parts of a run's page that are plain HTML, by the id of their element."""
    pair = record.before_and_after()
    return {
        "head": header(record, pair),
        "evaluations": evaluations(record, pair),
        "items": items(pair),
        "cost": cost_section(record),
        "configuration": configuration(record),
    }


def curves_of(record: RunRecord) -> dict[str, Any]:
    """Every numeric metric as a curve."""
    return {name: curve_of(record.series(name)) for name in record.metric_names()}


def samples_of(
    steps: Sequence[StoredStep],
    tokenizer: Decode,
    *,
    sample: int = SAMPLE,
    seed: int = 0,
    known: dict[str, Packed] | None = None,
) -> dict[str, Any] | None:
    """The rollouts a page shows and the rule they were chosen by; None where none are stored."""
    found = chosen(steps, sample=sample, seed=seed)
    if not found:
        return None
    rollouts = packed_rollouts(found, tokenizer, known)
    return {"rule": rule(steps, len(found), sample=sample, seed=seed), "tokens": BEFORE + SHOWN, "rollouts": rollouts}


_CURVES = (
    '<section id="curves" hidden><h2>Curves</h2><p class="sub">By step; evaluations by weight version, with 95 % '
    "intervals as bands. A line over a faint one is its moving average. A curve of more than "
    f"{POINTS:,} "
    f"values is drawn as {BUCKETS} means, with a band from the least to the greatest of what each stands for. "
    "Drag to look closer, double-click to go back; arrow keys read values.</p>"
    '<div class="charts" id="first-charts"></div><details id="more" hidden><summary></summary>'
    '<div class="charts" id="more-charts"></div></details></section>'
)
_HEAT = (
    '<section id="heat" hidden><h2>Rewards of groups</h2><p class="sub"></p><div class="map"></div>'
    '<p class="scale"><span class="low"></span><span class="bar"></span><span class="high"></span>'
    '<span class="dot"></span>its tokens are in this page</p></section>'
)
_SAMPLES = (
    '<section id="samples" hidden><h2>Training samples</h2><p class="sub"></p><div class="picker">'
    '<button type="button" class="earlier" aria-label="previous rollout">←</button>'
    '<select class="pick" aria-label="rollout"></select>'
    '<button type="button" class="later" aria-label="next rollout">→</button></div>'
    '<fieldset class="modes" aria-label="colour tokens by"></fieldset><p class="key"></p>'
    '<div class="rollout"><div class="about"></div>'
    '<pre class="tokens" role="group" aria-label="tokens; arrow keys move"></pre></div></section>'
)
