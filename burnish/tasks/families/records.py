"""Facts about people, to be written as JSON that fits a schema: the family `records`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from burnish.errors import InputError
from burnish.randomness import counter_uniform, stable_hash
from burnish.tasks.families.generated import Asking, Item, pick
from burnish.tasks.families.spec import RecordsSpec
from burnish.tasks.task import Task

NAMES = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jack", "Kira", "Leo", "Mia", "Nils", "Olga",
    "Paul", "Quinn", "Rosa", "Sam", "Tina", "Uma", "Vera", "Will", "Xena", "Yara", "Zoe", "Alma", "Bruno",
    "Carla", "Dora", "Emil", "Flora", "Greta", "Henry", "Irene", "Jonas", "Karl", "Lena", "Marco", "Nina",
)  # fmt: skip
VALUES: Mapping[str, Sequence[Any]] = {
    "age": range(18, 90),
    "city": (
        "Rome", "Paris", "Oslo", "Lima", "Cairo", "Delhi", "Tokyo", "Quito", "Berlin", "Madrid", "Lisbon", "Vienna",
        "Dublin", "Prague", "Boston", "Denver", "Accra", "Seoul", "Hanoi", "Perth", "Turin", "Basel", "Leeds",
        "Malmo",
    ),
    "job": (
        "baker", "doctor", "farmer", "lawyer", "miner", "nurse", "painter", "pilot", "plumber", "singer", "tailor",
        "teacher", "waiter", "writer",
    ),
    "pet": (
        "cat", "dog", "duck", "goat", "hen", "horse", "mouse", "parrot", "pig", "rabbit", "snake", "turtle",
    ),
    "height": range(150, 200),
    "colour": (
        "black", "blue", "brown", "green", "grey", "orange", "pink", "purple", "red", "white", "yellow",
    ),
}  # fmt: skip
"""The facts there are beside the name, and what each is drawn from. No two share a word."""

_SENTENCES: Mapping[str, tuple[str, ...]] = {
    "age": ("{name} is {value} years old.", "{name} turned {value} this year."),
    "city": ("{name} lives in {value}.", "The home of {name} is in {value}."),
    "job": ("{name} works as a {value}.", "The job of {name} is {value}."),
    "pet": ("{name} has a {value}.", "The pet of {name} is a {value}."),
    "height": ("{name} is {value} cm tall.", "The height of {name} is {value} cm."),
    "colour": ("{name} loves the colour {value}.", "The favourite colour of {name} is {value}."),
}
_MARKS = {"age": "{}y", "height": "{}cm"}
"""How a fact is written short where its value alone would not tell which it is."""

_CARELESS = stable_hash("burnish.tasks.families.records/careless")

_FACTS = {1: (1, 1), 2: (2, 2), 3: (3, 2), 4: (1, 1)}
"""Level: facts that are told of each person, and those of them that are asked for."""


@dataclass(frozen=True)
class Person:
    """Facts in the order in which they are told, and which are asked for, in the order of the schema."""

    name: str
    told: tuple[tuple[str, Any], ...]
    asked: tuple[str, ...]
    phrasing: tuple[int, ...]

    @property
    def right(self) -> dict[str, Any]:
        """What is asked for, filled in."""
        known = {"name": self.name, **dict(self.told)}
        return {key: known[key] for key in self.asked}


def _draw_person(random: np.random.Generator, name: str, level: int) -> Person:
    told, asked = _FACTS[level]
    keys = [list(VALUES)[place] for place in random.permutation(len(VALUES))[:told]]
    values = tuple((key, pick(random, VALUES[key])) for key in keys)
    wanted = ["name", *random.permutation(keys)[:asked].tolist()]
    order = tuple(random.permutation(wanted).tolist())
    return Person(name, values, order, tuple(int(number) for number in random.integers(2, size=told)))


def draw_people(random: np.random.Generator, level: int) -> tuple[Person, ...]:
    """One person, or at level 4 two of whom the second is the friend of the first."""
    names = [NAMES[place] for place in random.permutation(len(NAMES))[: 2 if level == 4 else 1]]
    return tuple(_draw_person(random, name, level) for name in names)


def right_of(people: Sequence[Person]) -> dict[str, Any]:
    """The record that is asked for."""
    first, *others = people
    return {**first.right, **({"friend": others[0].right} if others else {})}


def schema_of(right: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a record: every key is required and no other is allowed."""

    def of(value: Any) -> dict[str, Any]:
        if isinstance(value, Mapping):
            return schema_of(value)
        return {"type": "integer" if isinstance(value, int) else "string"}

    properties = {key: of(value) for key, value in right.items()}
    return {"type": "object", "properties": properties, "required": list(right), "additionalProperties": False}


def _form(right: Mapping[str, Any]) -> dict[str, Any]:
    """The record with nothing filled in: what a small model makes of a schema is another schema."""
    empty = {int: 0, str: "..."}
    return {key: _form(value) if isinstance(value, Mapping) else empty[type(value)] for key, value in right.items()}


def told(people: Sequence[Person], *, short: bool = False) -> str:
    """The text with the facts: sentences, or with `short` the values alone, `Ada 36y Rome & Bob cat`."""
    if short:
        parts = (" ".join([p.name, *(_MARKS.get(key, "{}").format(v) for key, v in p.told)]) for p in people)
        return " & ".join(parts)
    sentences = [
        _SENTENCES[key][way].format(name=person.name, value=value)
        for person in people
        for (key, value), way in zip(person.told, person.phrasing, strict=True)
    ]
    if len(people) == 2:
        sentences.append(f"{people[1].name} is the friend of {people[0].name}.")
    return " ".join(sentences)


def question(people: Sequence[Person], *, short: bool = False) -> str:
    """What is asked, with a record of that form to fill in, or with `short` with its keys: `name,age:Ada 36y`."""
    right = right_of(people)
    if short:
        keys = (f"{key}({','.join(value)})" if isinstance(value, dict) else key for key, value in right.items())
        return f"{','.join(keys)}:{told(people, short=True)}"
    return f"{told(people)}\n\nWrite this as JSON like {json.dumps(_form(right))}. Answer with the JSON only."


def records_tasks(
    spec: RecordsSpec, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The family's tasks. Columns: prompt, answer (the JSON), level, schema, right (the record).

    Raises InputError when the family does not hold `spec.count` items of the levels asked for.
    """
    short = spec.wording == "short"

    def draw(random: np.random.Generator, level: int) -> Item:
        people = draw_people(random, level)
        facts = sorted([person.name, *sorted(map(str, person.told))] for person in people)
        return Item(json.dumps(facts), question(people, short=short), people)

    def written(people: tuple[Person, ...]) -> tuple[str, str, dict[str, Any]]:
        right = right_of(people)
        answer = json.dumps(right, separators=(",", ":") if short else None)
        return question(people, short=short), answer, {"schema": schema_of(right), "right": right}

    tasks = Asking(spec, "records", seed, chat, system, demonstrations).tasks(draw, written)
    if not spec.careless:
        return tasks
    if not demonstrations:
        raise InputError("data.family.careless: for demonstrations, unused where the model samples; remove it")
    return [_careless(task, short) if _is_careless(task, seed, spec.careless) else task for task in tasks]


def _is_careless(task: Task, seed: int, share: float) -> bool:
    return float(counter_uniform(_CARELESS, seed, task.number)) < share


def _careless(task: Task, short: bool) -> Task:
    """The task with a demonstration that leaves the last field out, which the schema refuses."""
    right = dict(list(task.columns["right"].items())[:-1])
    text = json.dumps(right, separators=(",", ":") if short else None)
    shown = text if isinstance(task.demonstration, str) else ({"role": "assistant", "content": text},)
    return replace(task, demonstration=shown)
