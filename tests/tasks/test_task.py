"""A task's identity is its content, and its answer is private."""

from __future__ import annotations

import subprocess
import sys

import pytest

from burnish.tasks import Task


def test_the_id_is_the_content() -> None:
    a = Task(prompt="1+1=", answer="2", columns={"x": 1, "y": [1, 2]})
    b = Task(prompt="1+1=", answer="2", columns={"y": [1, 2], "x": 1})
    assert a.id == b.id and a == b and hash(a) == hash(b)
    assert len({a.id, Task(prompt="1+1=").id, Task(prompt="1+2=", answer="2").id}) == 3


def test_the_id_is_the_same_in_every_process() -> None:
    code = "from burnish.tasks import Task; print(Task(prompt='1+1=', answer='2').id)"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert other.stdout.strip() == Task(prompt="1+1=", answer="2").id


def test_the_answer_is_not_shown() -> None:
    task = Task(prompt="What is it?", answer="secret", columns={"answer": "secret"}, demonstration="secret")
    assert "secret" not in repr(task) and "secret" not in task.text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "either messages or a prompt"),
        ({"prompt": "a", "messages": ({"role": "user", "content": "a"},)}, "either messages or a prompt"),
        ({"prompt": ""}, "not empty"),
        ({"prompt": "a", "demonstration": ({"role": "assistant", "content": "b"},)}, "text after a prompt text"),
        ({"messages": ({"role": "user", "content": "a"},), "demonstration": "b"}, "messages after messages"),
        ({"prompt": "a", "columns": {"x": object()}}, "JSON values"),
    ],
)
def test_a_wrong_task_is_refused(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Task(**values)


def test_the_text_is_what_a_person_reads() -> None:
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}
    assert Task(messages=(user,)).text == "Hi"
    assert Task(messages=(system, user)).text == "system: Be brief.\n\nuser: Hi"
