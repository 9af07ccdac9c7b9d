"""A changed value reaches every part that uses it, or is an error: each key of each recipe is changed, and seen to act.

The table (tests/running/every_key.py) has an entry for every key that `burnish explain` lists, so a new key fails here
until somebody says what it should change. A run is short (tests/running/observed.py); what it writes and how it worked
is compared with the run whose recipe has the key's old value, which repeats to the bit.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish.methods.registry import DECLARED, METHODS
from burnish.running.keys import documented_keys
from tests.running.every_key import HELD, TABLE
from tests.running.observed import Scene, Seen, observe


def leaves(method: str) -> list[str]:
    """The keys that hold a value, and not other keys."""
    names = [key.key for key in documented_keys(METHODS[method].recipe)]
    return [name for name in names if not any(other.startswith((f"{name}.", f"{name}[")) for other in names)]


CASES = [(method, key) for method, entries in TABLE.items() for key in entries if method in entries[key].where]


@pytest.mark.parametrize("method", DECLARED)
def test_every_key_has_an_entry_and_every_entry_a_key(method: str) -> None:
    assert set(TABLE[method]) == set(leaves(method))


# ---------------------------------------------------------------- running


class Runs:
    """Runs of recipes, each made once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._seen: dict[str, Seen] = {}
        self._adapter()

    def seen(self, method: str, given: dict[str, Any]) -> Seen:
        """What is seen of a run with these keys."""
        values = self.scene.base(method)
        for key, value in given.items():
            self._put(values, key, value)
        name = json.dumps(values, sort_keys=True)
        if name not in self._seen:
            self._seen[name] = observe(values)
        return self._seen[name]

    def _put(self, values: dict[str, Any], key: str, value: Any) -> None:
        *above, last = key.replace("[]", ".0").split(".")
        node: Any = values
        for part in above:
            node = node[int(part)] if part.isdigit() else node.setdefault(part, {})
        node[last] = self._placed(copy.deepcopy(value))

    def _placed(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._placed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._placed(inner) for inner in value]
        return self.scene.at(value[1:]) if isinstance(value, str) and value.startswith("@") else value

    def _adapter(self) -> None:
        """The adapter that one run trains, for another to go on with."""
        final = self.seen("sft", {"model.adapter": {"rank": 4}})["final"]
        (self.scene.folder / "adapter").mkdir()
        for name, content in final.items():
            (self.scene.folder / "adapter" / Path(name).name).write_bytes(content)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    yield Runs(Scene.make(tmp_path_factory.mktemp("scene")))


@pytest.mark.parametrize("method", DECLARED)
def test_what_is_seen_of_a_run_repeats(runs: Runs, method: str) -> None:
    """Otherwise a difference would say nothing."""
    given = {"evaluation": HELD, "steps": 3, "traces_every": 1, "checkpoint_every": 2}
    first = runs.seen(method, given)
    assert first["outcome"] == "finished"
    runs._seen.clear()
    second = runs.seen(method, given)
    assert {name: first[name] == second[name] for name in first} == dict.fromkeys(first, True)


@pytest.mark.parametrize(("method", "key"), CASES, ids=[f"{method}-{key}" for method, key in CASES])
def test_a_changed_value_acts_or_is_refused(runs: Runs, method: str, key: str) -> None:
    entry = TABLE[method][key]
    value = next(other for other in DECLARED if other != method) if key == "method" else entry.value
    before, after = runs.seen(method, entry.given), runs.seen(method, {**entry.given, key: value})
    if entry.fails:
        assert before["outcome"] == "finished"
        assert after["outcome"].startswith("InputError: ") and entry.fails in after["outcome"]
        return
    if entry.sees != "outcome":
        assert (before["outcome"], after["outcome"]) == ("finished", "finished")
    assert before[entry.sees] != after[entry.sees]
