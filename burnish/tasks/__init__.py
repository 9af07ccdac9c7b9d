"""Tasks: something to attempt, where it comes from, and generated families with exact answers."""

from burnish.tasks.build import build_tasks
from burnish.tasks.spec import ArithmeticSpec, DataSpec
from burnish.tasks.task import Message, Task

__all__ = ["ArithmeticSpec", "DataSpec", "Message", "Task", "build_tasks"]
