"""The pictures of docs/page.md: parts of the report of a nursery run, as Chromium draws them.

    burnish train recipes/nursery/grpo.yaml steps=160 prompts_per_step=8 optimizer.lr=2e-4 traces_every=4 \\
        traces_scores=true evaluation.every=20 --out runs/pictures
    python -m benchmarks.view_pictures runs/pictures [--out docs/images]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from burnish.view import write_report
from tests.view.browser import Browser, Page

PARTS = {"page-curves": ("head", "curves"), "page-rewards": ("heat", "heat"), "page-tokens": ("samples", "samples")}
"""Name of a picture -> the first and the last element in it."""


def pictures(run: Path, out: Path) -> None:
    """Write the pictures of a run's report, light, and one as a phone shows it, dark."""
    with tempfile.TemporaryDirectory() as folder:
        report = write_report(run, out=Path(folder) / "report.html")
        (Path(folder) / "chromium").mkdir()
        browser = Browser(Path(folder) / "chromium")
        page = browser.page()
        page.colours("light")
        page.size(1280, 2400)
        page.open(report.as_uri())
        page.until("document.querySelectorAll('#first-charts .uplot').length >= 5")
        page.run("document.getElementById('by-entropy').click()")
        for name, (first, last) in PARTS.items():
            if name == "page-tokens":
                show_token(page)
            top = page.run(f"document.getElementById('{first}').getBoundingClientRect().top + scrollY") - 12
            bottom = page.run(f"document.getElementById('{last}').getBoundingClientRect().bottom + scrollY") + 12
            page.picture(out / f"{name}.png", top=max(0, top), width=1280, height=round(bottom - max(0, top)))
        page.colours("dark")
        page.size(390, 844)
        page.open(report.as_uri())
        page.until("document.querySelectorAll('#first-charts .uplot').length >= 1")
        page.run("new Promise((done) => setTimeout(() => done(1), 300))")
        page.picture(out / "page-phone.png", width=390, height=844)
        page.close()
        browser.close()


def show_token(page: Page) -> None:
    """Put the pointer over a sampled token of a rollout, so that its numbers are in the picture."""
    page.run("page.openRollout(page.data.samples.rollouts.find((r) => r.why === 'last').id)")
    page.run("scrollTo(0, 0)")
    page.hover(".tokens .t:not(.other)")
    page.until("!document.getElementById('tip').hidden")


def main() -> None:
    """Draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    pictures(given.run, given.out)


if __name__ == "__main__":
    main()
