"""What the page costs: how long a large report takes to open, how big it is, and what serving a live one takes.

    python -m benchmarks.view [--repeats 5] [--steps 1000] [--write FILE]

`report`: a run of 10,000 steps with 40 metrics and 5,000 stored rollouts of 260 tokens, made up; its report is written
once and opened in a new tab of headless Chromium, from the command to go there until everything in it is drawn and two
frames have passed. `live`: a nursery run (recipes/nursery/grpo.yaml with more steps) as one process, `burnish view` of
it as another, one page open in Chromium all the while. Processor seconds, user and system, of either from its start to
the end of training, so imports count on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from burnish.traces import CONTEXT, Author, Group, Role, SignalKind, Span, Trace, Verdict
from burnish.traces.files import atomic_write
from burnish.traces.store import write_groups
from burnish.view import write_report
from tests.view.browser import Browser, waited
from tests.view.runs import CONFIG, tokenizer

STEPS, METRICS, STORED, GROUPS, MEMBERS, PROMPT, OWN = 10_000, 40, 125, 5, 8, 60, 200
ROOT = Path(__file__).parents[1]


def large_run(path: Path) -> Path:
    """10,000 steps, 40 metrics, 5,000 rollouts in 125 files: everything a large page has to hold."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(CONFIG)
    random = np.random.default_rng(0)
    names = ["reward", "loss", "entropy", "length", "timing/tokens_per_second"]
    names += [f"metric/{i}" for i in range(METRICS - len(names))]
    values = random.normal(size=(STEPS, len(names))).cumsum(0) / 100 + random.normal(size=(STEPS, len(names)))
    with (path / "metrics.jsonl").open("w") as file:
        for step, row in enumerate(values.tolist(), 1):
            file.write(json.dumps({"step": step, **dict(zip(names, row, strict=True))}) + "\n")
    made, policy = tokenizer(), Author.model("policy", 1)
    (path / "final").mkdir()
    made.save(str(path / "final" / "tokenizer.json"))
    letters = np.array(made.encode("abcdefghijklmnopqrstuvwxyz      ").ids)
    for number in range(STORED):
        groups = []
        for g in range(GROUPS):
            members = [rollout(random, letters, policy, f"{number}-{g}-{m}") for m in range(MEMBERS)]
            groups.append(Group(f"task {number}-{g}", members))
        write_groups(path / "traces" / f"step-{1 + number * (STEPS // STORED):06d}.parquet", groups)
    return path


def rollout(random: np.random.Generator, letters: np.ndarray, policy: Author, name: str) -> Span:
    """Random text with every number that a page shows."""
    trace = Trace(name)
    root = trace.add(-1, random.choice(letters, PROMPT), CONTEXT, Role.PROMPT)
    logprobs = -random.exponential(0.6, OWN).astype(np.float32)
    leaf = trace.add(root, random.choice(letters, OWN), policy, Role.ANSWER, logprobs)
    reward = float(random.random())
    trace.write(leaf, "advantage", np.full(OWN, reward - 0.5), SignalKind.POLICY, learner="policy")
    trace.write(leaf, "learner_logprob", logprobs + random.normal(0, 0.02, OWN))
    trace.write(leaf, "entropy", random.exponential(0.5, OWN))
    return Span(trace, leaf, verdict=Verdict(reward))


def report(folder: Path, browser: Browser, repeats: int) -> dict[str, Any]:
    """Seconds to write and to open the report of a large run, and its size."""
    run = large_run(folder / "large")
    began = time.process_time()
    path = write_report(run)
    written = time.process_time() - began
    seconds, counts = [], {}
    for _ in range(repeats):
        page = browser.page()
        page.size(1280)
        start = time.perf_counter()
        page.open(path.as_uri())
        page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        seconds.append(time.perf_counter() - start)
        counts = page.run(
            "({plots: document.querySelectorAll('.uplot').length, metrics: document.querySelectorAll('figure').length, "
            "rollouts: page.data.samples.rollouts.length, rule: page.data.samples.rule})"
        )
        assert page.complaints == [], page.complaints
        page.close()
    return {
        "work": {"steps": STEPS, "metrics": METRICS, "rollouts": STORED * GROUPS * MEMBERS, "tokens": PROMPT + OWN},
        "page": counts,
        "bytes": path.stat().st_size,
        "write_cpu_seconds": round(written, 2),
        "open_seconds": {"median": round(statistics.median(seconds), 3), "all": [round(s, 3) for s in seconds]},
    }


def live(folder: Path, browser: Browser, steps: int) -> dict[str, Any]:
    """Processor seconds of a training run and of the server whose page is open all the while."""
    run = folder / "live"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    burnish = [sys.executable, "-m", "burnish.cli"]
    recipe = [str(ROOT / "recipes/nursery/grpo.yaml"), f"steps={steps}", "traces_every=50"]
    training = subprocess.Popen([*burnish, "train", *recipe, "--out", str(run), "--quiet"], env=environment, cwd=folder)
    waited(lambda: (run / "metrics.jsonl").is_file(), "training began", 300)
    serving = subprocess.Popen(
        [*burnish, "view", str(run), "--port", "0", "--json"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert serving.stdout is not None
    page = browser.page()
    page.size(1280)
    page.open(json.loads(serving.stdout.readline())["url"])
    _, status, used = os.wait4(training.pid, 0)
    assert status == 0, "the training failed"
    state = page.run("document.getElementById('live').textContent")
    times = psutil.Process(serving.pid).cpu_times()
    serving.terminate()
    serving.wait(30)
    assert page.complaints == [], page.complaints
    trained, served = used.ru_utime + used.ru_stime, times.user + times.system
    return {
        "work": {"recipe": "recipes/nursery/grpo.yaml", "steps": steps, "traces_every": 50},
        "page": state,
        "training_cpu_seconds": round(trained, 1),
        "server_cpu_seconds": round(served, 2),
        "share": round(served / trained, 4),
    }


def main() -> None:
    """Measure both and print them, or write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "chromium").mkdir()
        browser = Browser(folder / "chromium")
        found = {
            "command": f"python -m benchmarks.view --repeats {given.repeats} --steps {given.steps}",
            "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
            "report": report(folder, browser, given.repeats),
            "live": live(folder, browser, given.steps),
        }
        browser.close()
    text = json.dumps(found, indent=1) + "\n"
    if given.write:
        atomic_write(given.write, text)
    print(text, end="")


if __name__ == "__main__":
    main()
