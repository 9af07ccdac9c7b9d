"""Verifiers under fault, and the speed of the math pool.

    python -m benchmarks.verifiers [--verifications 10000] [--share 0.05] [--seed 0] [--skip-speed] [--write FILE]

Faults: of so many verifications by the math verifier, in groups of ten, a share each has its worker killed, its
worker stopped (so that it runs out of time without computing), its check raise, its row without a right answer, or
garbage for an answer. Every verdict is compared with what was done to it. Exits 1 when any is wrong.

Speed: the same verifications in one process, by plain calls, and in a pool of two. Besides the time on the wall, which
other work on the machine disturbs, it counts processor time: what the pool adds to each verification limits its gain.
Where other work goes on, `chrt -r 1 python -m benchmarks.verifiers --skip-faults` goes before it for half a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import sys
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from burnish.feedback import FeedbackSpec, build
from burnish.feedback.checks import mathematics
from burnish.feedback.reward import SCORED
from burnish.feedback.workers.pool import Answer, Job, Pool
from burnish.traces import CONTEXT, Group, Role, Span, Trace

ROOT = Path(__file__).parents[1]
FAULTS = {
    "worker killed": "worker_killed", "time out of the machinery": "worker_stuck",
    "exception in the verifier": "verifier_raised", "missing answer key": "no_key", "garbage answer": "scored",
}  # fmt: skip
"""What is injected -> how it must be named; garbage is the candidate's and must score 0 under a name of `SCORED`."""

GROUP = 10
GARBAGE = (
    "\\boxed{" * 50, "[" * 1000, "\0" * 100, "\ud800", "", "$\\frac{", "x" * 1_000_001, "the answer is the answer",
    "{\"name\": ", "\\boxed{\\text{}}", "\u202e" * 50,
)  # fmt: skip


_INSTEAD = {"worker killed": "killed", "time out of the machinery": "stopped", "exception in the verifier": "raising"}


class FaultyPool(Pool):
    """Exchanges the check of a job whose text bears a mark for one that goes wrong, and takes the mark off."""

    def submit(self, job: Job) -> Future[Answer]:
        fault, _, text = job.argument["text"].rpartition("\1")
        argument = {**job.argument, "text": text}
        check = f"benchmarks.faulty_checks:{_INSTEAD[fault]}" if fault else job.check
        return super().submit(replace(job, check=check, argument=argument))


def _plan(verifications: int, share: float, seed: int) -> list[str]:
    """The fault of each verification, or right, or wrong. A row without a key lacks it for its whole group."""
    each = round(verifications * share)
    generator = random.Random(seed)
    groups = verifications // GROUP
    keyless = set(generator.sample(range(groups), each // GROUP))
    plan = ["missing answer key" if place // GROUP in keyless else "right" for place in range(groups * GROUP)]
    rest = [place for place, fault in enumerate(plan) if fault == "right"]
    generator.shuffle(rest)
    for number, fault in enumerate(name for name in FAULTS if name != "missing answer key"):
        for place in rest[number * each : (number + 1) * each]:
            plan[place] = fault
    for place in rest[4 * each : 5 * each]:
        plan[place] = "wrong"
    return plan


def _groups(plan: list[str], seed: int) -> tuple[list[Group], list[str]]:
    generator = random.Random(seed + 1)
    groups, texts = [], []
    for first in range(0, len(plan), GROUP):
        right, members = generator.randrange(2, 10_000), []
        for fault in plan[first : first + GROUP]:
            text = rf"So it is \boxed{{{right}}}." if fault != "wrong" else rf"So it is \boxed{{{right + 1}}}."
            text = generator.choice(GARBAGE) if fault == "garbage answer" else text
            texts.append(f"{fault}\1{text}" if fault in _INSTEAD else text)
            trace = Trace(str(len(texts) - 1))
            members.append(Span(trace, trace.add(-1, [1], CONTEXT, Role.PROMPT)))
        keyless = plan[first] == "missing answer key"
        groups.append(Group(f"row-{first // GROUP}", members, columns={} if keyless else {"answer": str(right)}))
    return groups, texts


def _expected(fault: str, reward: float | None, kind: str) -> bool:
    match fault:
        case "right":
            return reward == 1.0 and not kind
        case "wrong":
            return reward == 0.0 and kind == "wrong"
        case "garbage answer":
            return reward == 0.0 and kind in SCORED
    return reward is None and kind == FAULTS[fault]


def inject(verifications: int = 10_000, share: float = 0.05, seed: int = 0) -> dict[str, Any]:
    """Verify under injected faults; what was injected, what came of it, and everything that is not accounted for."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    plan = _plan(verifications, share, seed)
    groups, texts = _groups(plan, seed)
    pool = FaultyPool(
        8, ["benchmarks.faulty_checks", "burnish.feedback.checks.mathematics", "math_verify"], patience=0.5
    )
    spec = {"rewards": [{"kind": "math", "time_limit": 1.0}], "concurrency": 16}
    judge = build(FeedbackSpec.model_validate(spec), pool=pool)
    start = time.perf_counter()
    asyncio.run(judge.judge(groups, lambda span: texts[int(span.trace.id)]))
    seconds = time.perf_counter() - start
    judge.close()
    came: Counter[str] = Counter()
    zeros, unaccounted, right = 0, [], 0
    machinery = set(FAULTS) - {"garbage answer"}
    for place, fault in enumerate(plan):
        verdict = groups[place // GROUP].members[place % GROUP].verdict
        assert verdict is not None
        kind = verdict.evidence.get("kinds", {}).get("math", "")
        came[
            f"{fault} -> {'missing' if verdict.reward is None else f'{verdict.reward:g}'}: {kind or 'nothing wrong'}"
        ] += 1
        zeros += fault in machinery and verdict.reward is not None
        right += fault == "right" and verdict.reward == 1.0
        if not _expected(fault, verdict.reward, kind):
            unaccounted.append([place, fault, verdict.reward, kind, verdict.reason])
    named = Counter(judge.counts())
    again = {id(group.members[place]) for group, place in judge.to_resample(groups)}
    lost = {id(groups[p // GROUP].members[p % GROUP]) for p, fault in enumerate(plan) if fault in _INSTEAD}
    return {
        "verifications": len(plan), "injected": {fault: plan.count(fault) for fault in FAULTS},
        "came_of_it": dict(sorted(came.items())), "counted_by_name": dict(sorted(named.items())),
        "trained_as_zero_through_the_machinery": zeros, "unaccounted": unaccounted[:20],
        "to_be_resampled_are_the_lost": again == lost, "right_answers_left": plan.count("right"),
        "right_answers_scored_1": right, "seconds": round(seconds, 1),
    }  # fmt: skip


TALK = "First we look at what is given, and call the unknown $x$. Then $%d x + %d = %d$, from which $x$ follows. "
FORMS = (
    (r"\frac{%d}{%d}", r"So it is \boxed{\frac{%d}{%d}}."),
    (r"%d + %d\sqrt{2}", r"Therefore \boxed{%d + %d\sqrt{2}}."),
    ("(x + %d)(x - %d)", r"Expanding gives $(x + %d)(x - %d)$."),
    ("%d.%d", "#### %d.%d"),
    (r"\{%d, %d\}", r"The solutions are \boxed{\{%d, %d\}}."),
    ("[%d, %d)", "Hence $x \\in [%d, %d)$."),
)


def _problems(count: int, seed: int) -> list[dict[str, Any]]:
    """Arguments of checks, no two alike, so that no cache answers; one answer in four is wrong."""
    generator = random.Random(seed)
    found = []
    for number in range(count):
        key, answer = FORMS[number % len(FORMS)]
        low, high = generator.randrange(2, 500), generator.randrange(500, 9999)
        talk = "".join(TALK % tuple(generator.randrange(2, 99) for _ in range(3)) for _ in range(4))
        text = talk + answer % (low, high + (number % 4 == 0))
        found.append({"key": key % (low, high), "text": text, "read": "any", "repair": False, "thoughts": None})
    return found


def speed(verifications: int, rounds: int = 3) -> dict[str, Any]:
    """Verifications a second in one process and in a pool of two, in turns; best of `rounds` each."""
    one, two, own, pooled, same = [], [], [], [], True
    mathematics.warm()
    for turn in range(rounds):
        arguments = _problems(verifications, turn)
        start, cpu = time.perf_counter(), time.process_time()
        values = [mathematics.check(argument, lambda: None).value for argument in arguments]
        one.append(time.perf_counter() - start)
        own.append(time.process_time() - cpu)
        pool = Pool(2, ["burnish.feedback.checks.mathematics", "math_verify"])
        try:
            submitted = [pool.submit(_job(each)) for each in _problems(2, rounds + turn)]
            [future.result() for future in submitted]  # the processes stand
            start, cpu = time.perf_counter(), time.process_time() + _of_workers(pool)
            submitted = [pool.submit(_job(argument)) for argument in arguments]
            same = same and values == [future.result()["value"] for future in submitted]
            two.append(time.perf_counter() - start)
            pooled.append(time.process_time() + _of_workers(pool) - cpu)
        finally:
            pool.close()
    return {
        "verifications": verifications, "same_values": same, "share_right": sum(values) / len(values),
        "one_process_per_second": round(verifications / min(one), 1),
        "pool_of_two_per_second": round(verifications / min(two), 1),
        "gain_on_the_wall": round(min(one) / min(two), 2),
        "processor_ms_in_one_process": round(1000 * min(own) / verifications, 3),
        "processor_ms_in_the_pool": round(1000 * min(pooled) / verifications, 3),
        "gain_by_processor_time_on_two_cores": round(2 * min(own) / min(pooled), 2),
        "load_average_of_the_machine": round(os.getloadavg()[0], 1), "cores": os.cpu_count(),
        "scheduled_before_all_others": os.sched_getscheduler(0) != os.SCHED_OTHER,
    }  # fmt: skip


def _job(argument: dict[str, Any]) -> Job:
    return Job("burnish.feedback.checks.mathematics:check", argument, 5.0, 1 << 30)


def _of_workers(pool: Pool) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pool.processes()]
    return sum(each.user + each.system for each in times)


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description="Faults and speed of the verifiers.")
    parser.add_argument("--verifications", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speed-verifications", type=int, default=1000)
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--skip-faults", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    command = "python -m benchmarks.verifiers"
    earlier = json.loads(options.write.read_text("utf-8")) if options.write and options.write.exists() else {}
    report = {**earlier, "command": command, "seed": options.seed, "python": platform.python_version()}
    if not options.skip_faults:
        report["faults"] = inject(options.verifications, options.share, options.seed)
    if not options.skip_speed:
        report["speed"] = speed(options.speed_verifications)
    text = json.dumps(report, indent=2)
    print(text)
    if options.write:
        options.write.write_text(text + "\n", encoding="utf-8")
    faults = report.get("faults", {})
    sys.exit(bool(faults.get("unaccounted") or faults.get("trained_as_zero_through_the_machinery")))


if __name__ == "__main__":
    main()
