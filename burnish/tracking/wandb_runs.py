"""wandb runs, online or offline."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burnish.tracking.spec import TrackerSpec
from burnish.tracking.tracker import Continued, shown


class WandbTracker:
    """One run of wandb. Only the run's numbers and configuration are recorded: nothing of code, machine or packages."""

    def __init__(self, spec: TrackerSpec) -> None:
        self.spec = spec

    def start(self, name: str, config: Mapping[str, Any], directory: Path, resume_step: int) -> str:
        """Begin, or continue the run whose id is in wandb.json."""
        import wandb

        self._seen = Continued(directory / "wandb.json", id=uuid.uuid4().hex[:12])
        settings = wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, save_code=False, x_disable_stats=True,
            x_disable_meta=True, x_save_requirements=False, x_disable_machine_info=True,
        )  # fmt: skip
        self._run = wandb.init(
            project=self.spec.project, entity=self.spec.entity, name=self.spec.name or name, id=self._seen.values["id"],
            resume="allow", dir=str(directory), config=dict(config), mode=self.spec.mode, settings=settings,
        )  # fmt: skip
        if self.spec.mode == "offline":
            folder = shown(Path(self._run.dir).parent)
            return f"offline; `wandb sync {folder}` sends this run"
        return f"this run is at {self._run.url}"

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Hand over the numbers of a step; of a repeated one the first stay."""
        if self._seen.is_new(step):
            self._run.log(dict(numbers), step=step)

    def finish(self, summary: Mapping[str, Any], failed: bool) -> None:
        """Send the summary and the state."""
        self._run.summary.update(dict(summary))
        self._run.finish(exit_code=int(failed))
