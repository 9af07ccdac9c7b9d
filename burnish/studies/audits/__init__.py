"""Audits of a run: figures with intervals, a level by a stated threshold, and what each cannot tell. No torch here."""

from burnish.studies.audits.finding import AuditReport, Figure, Finding, Level
from burnish.studies.audits.whole import AUDITS, audit

__all__ = ["AUDITS", "AuditReport", "Figure", "Finding", "Level", "audit"]
