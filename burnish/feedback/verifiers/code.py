"""Does the program in the answer pass the tests. It runs in the sandbox and nowhere else."""

from __future__ import annotations

import asyncio
import json
import secrets
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from burnish.environments.sandbox import Cause, Ended, ExecResult, SandboxSpec
from burnish.errors import InputError
from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.checks.jsons import BrokenJSON, equal, loads
from burnish.feedback.reward import Judged, Missing, Score, from_written, named, written
from burnish.feedback.verifiers import driver
from burnish.feedback.verifiers.json_schema import parsed
from burnish.feedback.verifiers.keyed import Keyed, column_of
from burnish.feedback.verifiers.program_tests import Tests, read_tests, same_output
from burnish.feedback.verifiers.spec import CodeSpec
from burnish.outside import Direct, Outside
from burnish.traces import Status


class CodeRunner(Protocol):
    """Runs a program in a sandbox of its own: `burnish.environments.sandbox.run_python`, or one like it."""

    async def __call__(
        self,
        files: Mapping[str, str | bytes],
        command: Sequence[str],
        limits: SandboxSpec | None = None,
        *,
        stdin: str | bytes = b"",
    ) -> ExecResult:
        """How the program ended, and whose fault it was when it failed."""
        ...


_OF_VALUES = (ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""What values that nobody thought of raise."""


class CodeReward(Keyed):
    """1.0 when all tests pass, else 0.0 or the share that passes. Without a runner there is no such reward.

    At most `at_once` sandboxes are open at a time. Results go through the journal of the run (`outside`).
    """

    def __init__(
        self, spec: CodeSpec, runner: CodeRunner | None, at_once: int = 2, outside: Outside | None = None
    ) -> None:
        super().__init__(spec.name or spec.kind)
        if runner is None:
            raise InputError("the code reward runs what a model wrote, and there is no sandbox to run it in")
        self.spec, self.runner, self.at_once = spec, runner, at_once
        self.outside: Outside = outside or Direct()
        self._slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        self._driver = Path(driver.__file__).read_text(encoding="utf-8")
        wall = 2.0 * spec.time_limit + 5.0  # a program that sleeps uses no processor time
        self._limits = SandboxSpec.model_validate(
            {"memory": spec.memory_limit << 20, "cpu_seconds": spec.time_limit, "wall_seconds": wall}
        )

    def _key(self, row: str, columns: Mapping[str, Any]) -> Any:
        value = parsed(column_of(row, columns, self.spec.column, "code", "tests"))
        if read_tests(value) is None:
            raise InputError(
                f"{named(row, columns)}: column {self.spec.column!r} holds tests in no form that is known "
                f"(docs/verifiers.md): {str(value)[:80]!r}; mend the row, or name another column"
            )
        return value

    async def _scores(self, row: str, key: Any, texts: list[str]) -> list[Score]:
        tests = read_tests(key)
        assert tests is not None  # `_key` has seen to it

        async def ask() -> list[Any]:
            return [written(score) for score in await asyncio.gather(*(self._score(row, tests, t) for t in texts))]

        return [from_written(each) for each in await self.outside.ask(f"reward/{self.name}", [row, key, texts], ask)]

    async def _score(self, row: str, tests: Tests, text: str) -> Score:
        try:
            return await self._judged(row, tests, text)
        except _OF_VALUES as error:  # a fault in judging one program must not cost the others their verdicts
            reason = f"task {row}: judging raised {type(error).__name__}: {error}"
            return Missing(Status.VERIFIER_ERROR, reason, "verifier_raised")

    async def _judged(self, row: str, tests: Tests, text: str) -> Score:
        program = read(after_thoughts(text, self.spec.thoughts_end), self.spec.read)
        if program is None:
            return Judged(0.0, "no_code", f"no program is found by the rule {self.spec.read!r}")
        files = {"solution.py": program + "\n"}
        if tests.form != "output":
            passed, ended = await self._driven(tests, files)
        else:
            passed, ended = await self._fed(tests, files)
        if ended is not None and ended.failure is not None and ended.failure.cause is Cause.MACHINERY:
            return Missing(Status.INFRA_ERROR, f"task {row}: {ended.failure.reason}", "sandbox_failed")
        return self._valued(passed, len(tests.given), ended)

    def _valued(self, passed: int, count: int, ended: ExecResult | None) -> Score:
        if passed == count:
            return 1.0
        value = passed / count if self.spec.credit == "fraction" else 0.0
        reason = f"{passed} of {count} tests passed"
        if ended is None or ended.failure is None:
            return Judged(value, "tests_failed", reason)
        kind, status = {
            Ended.WALL_LIMIT: ("time_limit", Status.TIME_LIMIT), Ended.CPU_LIMIT: ("time_limit", Status.TIME_LIMIT),
            Ended.MEMORY_LIMIT: ("memory_limit", Status.AGENT_ERROR),
        }.get(ended.ended, ("program_failed", Status.OK))  # fmt: skip
        last = ended.stderr.text.strip().rpartition("\n")[2][:200]
        return Judged(value, kind, "; ".join(filter(None, (reason, ended.failure.reason, last))), status)

    async def _driven(self, tests: Tests, files: Mapping[str, str]) -> tuple[int, ExecResult]:
        """Tests that pass in one run of the driver, and how that run ended."""
        mark = secrets.token_hex(16)
        order = json.dumps({"mark": mark, "function": tests.function, "tests": tests.given})
        ended = await self._run(files, ["python3", "-c", self._driver], order)
        said = filter(None, (_said(line, mark) for line in ended.stdout.text.split("\n")))
        # a second result says why it failed; a place that is none was written by a program that found the mark
        results = {place: result[0] for place, *result in said if type(place) is int and len(result) == 1}
        return sum(place in results and equal(e, results[place]) for place, e in enumerate(tests.expected)), ended

    async def _fed(self, tests: Tests, files: Mapping[str, str]) -> tuple[int, ExecResult | None]:
        """Tests that pass, each a run with its own input, and the first run that failed; credit all stops there."""
        passed, failed = 0, None
        for given, expected in zip(tests.given, tests.expected, strict=True):
            ended = await self._run(files, ["python3", "solution.py"], given)
            if ended.failure is not None and ended.failure.cause is Cause.MACHINERY:
                return passed, ended
            right = ended.failure is None and not ended.stdout.cut and same_output(expected, ended.stdout.text)
            passed += right
            failed = ended if failed is None and ended.failure is not None else failed
            if not right and self.spec.credit == "all":
                break
        return passed, failed

    async def _run(self, files: Mapping[str, str], command: list[str], stdin: str) -> ExecResult:
        slots = self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.at_once))
        async with slots:
            return await self.runner(files, command, self._limits, stdin=stdin)


def _said(line: str, mark: str) -> list[Any] | None:
    """What the driver says in a line; nothing for the program's own lines, and for one that was cut off."""
    if not line.startswith(f'["{mark}", '):
        return None
    try:
        return loads(line)[1:]
    except BrokenJSON:
        return None
