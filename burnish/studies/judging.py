"""A verifier as the judge of an evaluation."""

from __future__ import annotations

from burnish.feedback.checking import Check
from burnish.studies.evaluation import Judge, Judgement
from burnish.tasks import Task


def judged_by(check: Check) -> Judge:
    """Judges answers by a check, counted as an evaluation's. Whoever asks settles the check's feedback at the end."""

    async def judge(task: Task, answers: list[str]) -> list[Judgement]:
        verdicts = await check.feedback.verdicts(task.id, task.columns, answers, role="evaluation", settle=False)
        return [
            Judgement(
                check.correct(verdict), check.well_formed(verdict, answer), verdict.reward if check.graded else None
            )
            for verdict, answer in zip(verdicts, answers, strict=True)
        ]

    return judge
