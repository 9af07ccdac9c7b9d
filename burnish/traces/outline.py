"""What a trace file holds without its tokens: groups, members, rewards. Read from the file's footer alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from burnish.errors import InputError
from burnish.traces.groups import Group
from burnish.traces.store import read_record


@dataclass(frozen=True)
class Outline:
    """A group's key, and a reward for each of its members: None where there is none, or the member does not count."""

    key: str
    rewards: tuple[float | None, ...]


def read_outline(path: str | os.PathLike[str]) -> list[Outline]:
    """The groups of a trace file that have members, nested ones after their parents: in the order of `flat`.

    Raises InputError when the file is missing, broken, or another program's.
    """
    record = read_record(path)
    try:
        return [
            Outline(entry["key"], tuple(_reward(record["spans"][member]) for member in entry["members"]))
            for entry in _flat(record["groups"], record["roots"])
            if entry["members"]
        ]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged: its metadata is no record of groups ({error!r})") from error


def flat(groups: list[Group]) -> list[Group]:
    """Groups and their nested groups, those with members, parents first."""
    return [found for group in groups for found in ([group] if group.members else []) + flat(group.children)]


def _flat(entries: list[dict[str, Any]], indices: list[int]) -> Iterator[dict[str, Any]]:
    for index in indices:
        yield entries[index]
        yield from _flat(entries, entries[index]["children"])


def _reward(span: dict[str, Any]) -> float | None:
    verdict = span["verdict"]
    return None if verdict is None or span["masked"] else verdict["reward"]
