"""Trackers: programs that show a run's metrics, besides its directory. TensorBoard, trackio, wandb."""

from burnish.tracking.spec import TrackerSpec
from burnish.tracking.tracker import Tracker
from burnish.tracking.trackers import Trackers, check

__all__ = ["Tracker", "TrackerSpec", "Trackers", "check"]
