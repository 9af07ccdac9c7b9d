"""TensorBoard event files. `tensorboard --logdir runs` shows every run below a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.types_pb2 import DT_STRING  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.record_writer import RecordWriter

from burnish.tracking.tracker import shown


class TensorBoardTracker:
    """Scalars by step, the configuration and the summary as text. Each life of a run has a file of its own.

    A reader takes files in the order of their names, so they are numbered: clocks may be set back.
    """

    def start(self, name: str, config: Mapping[str, Any], directory: Path, resume_step: int) -> str:
        """Open the next file; events after `resume_step` in earlier ones are superseded."""
        folder = directory / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        lives = len(list(folder.glob("events.out.tfevents.*")))
        self._file = (folder / f"events.out.tfevents.{lives + 1:06d}.burnish").open("xb")
        self._writer = RecordWriter(self._file)
        self._write(Event(file_version="brain.Event:2"))
        if lives:
            self._write(Event(step=resume_step + 1, session_log=SessionLog(status=SessionLog.START)))
        self._text("config", config, resume_step)
        return f"`tensorboard --logdir {shown(folder)}` shows this run"

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """One event with every number; it is in the file when this returns."""
        self._last = step
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        self._write(Event(step=step, summary=Summary(value=values)))

    def finish(self, summary: Mapping[str, Any], failed: bool) -> None:
        """Write the summary and close the file."""
        self._text("summary", {**summary, "failed": failed}, self._last)
        self._writer.close()

    _last = 0

    def _text(self, tag: str, values: Mapping[str, Any], step: int) -> None:
        """Values as a JSON block on TensorBoard's text page."""
        text = "```json\n" + json.dumps(values, indent=1, ensure_ascii=False, default=str) + "\n```"
        tensor = TensorProto(
            dtype=DT_STRING,
            string_val=[text.encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        value = Summary.Value(tag=f"{tag}/text_summary", tensor=tensor, metadata=metadata)
        self._write(Event(step=step, summary=Summary(value=[value])))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._writer.write(event.SerializeToString())
        self._file.flush()
