"""View: reports for people."""

from burnish.view.report import write_report

__all__ = ["write_report"]
