"""trackio runs in a local database: `trackio show`. No network, no account."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burnish.tracking.spec import TrackerSpec
from burnish.tracking.tracker import Continued, shown


class TrackioTracker:
    """One run in a database of the run directory. It runs in a process of its own, whose environment it sets."""

    def __init__(self, spec: TrackerSpec) -> None:
        self.spec = spec

    def start(self, name: str, config: Mapping[str, Any], directory: Path, resume_step: int) -> str:
        """Begin, or continue the run of the same name."""
        self._seen = Continued(directory / "trackio.json", project=self.spec.project, name=self.spec.name or name)
        folder = directory / "trackio"
        folder.mkdir(parents=True, exist_ok=True)
        # read at import: where the database is, and that nobody's account is asked for
        os.environ |= {"TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
        for remote in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
            os.environ.pop(remote, None)
        import trackio

        project = self._seen.values["project"]
        self._run = trackio.init(
            project, name=self._seen.values["name"], config=dict(config), resume="allow", embed=False,
            auto_log_cpu=False, auto_log_gpu=False,
        )  # fmt: skip
        return f"`TRACKIO_DIR={shown(folder)} trackio show --project {shlex.quote(project)}` shows this run"

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Hand over the numbers of a step; of a repeated one the first stay."""
        if self._seen.is_new(step):
            self._run.log(dict(numbers), step=step)

    def finish(self, summary: Mapping[str, Any], failed: bool) -> None:
        """Store the rest. trackio has no place for a summary; a failure is an alert."""
        import trackio

        if failed:
            self._run.alert("run failed", level=trackio.AlertLevel.ERROR, step=self._seen.last_step)
        self._run.finish()
