"""A grid with walls: where the goal lies is told, of the walls only the four cells around are seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from burnish.environments.protocol import (
    Action,
    Attempt,
    Call,
    Environment,
    Move,
    Observation,
    Policy,
    passed,
    result,
    said,
    tool,
)
from burnish.environments.spec import GridSpec
from burnish.environments.worlds.generated import generate, world_task
from burnish.tasks import Task
from burnish.traces import Verdict

Cell = tuple[int, int]
"""Column and row; rows are counted southwards."""

DIRECTIONS: Mapping[str, Cell] = {"n": (0, -1), "e": (1, 0), "s": (0, 1), "w": (-1, 0)}
FREE, WALL, GOAL = ".", "#", "G"

_WALLS = 0.2


def draw(generator: np.random.Generator, level: int) -> dict[str, Any]:
    """A task: a square of side level + 2 in which the goal can be reached."""
    side = level + 2
    while True:
        walls = generator.random((side, side)) < _WALLS
        cells = [(int(x), int(y)) for y, x in zip(*np.nonzero(~walls), strict=True)]
        if len(cells) < 2:
            continue
        start, goal = (cells[int(i)] for i in generator.choice(len(cells), 2, replace=False))
        if path_to(goal, start, cells.__contains__) is not None:
            rows = ["".join(WALL if wall else FREE for wall in row) for row in walls]
            return {"map": rows, "start": list(start), "goal": list(goal)}


def path_to(goal: Cell, start: Cell, passable: Any) -> str | None:
    """A shortest way as directions, east and west before north and south; None when there is none."""
    came: dict[Cell, tuple[Cell, str]] = {}
    waiting = deque([start])
    while waiting:
        cell = waiting.popleft()
        if cell == goal:
            way = ""
            while cell != start:
                cell, direction = came[cell]
                way = direction + way
            return way
        for direction in "ewns":
            other = moved(cell, direction)
            if other != start and other not in came and passable(other):
                came[other] = cell, direction
                waiting.append(other)
    return None


def moved(cell: Cell, direction: str) -> Cell:
    """The cell next to one."""
    dx, dy = DIRECTIONS[direction]
    return cell[0] + dx, cell[1] + dy


def offset(content: Mapping[str, Any]) -> str:
    """Where the goal lies from the start, one letter a step: `een`."""
    (x, y), (gx, gy) = content["start"], content["goal"]
    return ("e" if gx > x else "w") * abs(gx - x) + ("s" if gy > y else "n") * abs(gy - y)


class Grid(Environment):
    """A walker in a grid. A turn that calls nothing gives up."""

    pure = True

    def __init__(self, wording: str = "short") -> None:
        self.full = wording == "full"
        self.map: list[str] = []
        self.place = self.goal = (0, 0)

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """See `Environment.reset`."""
        self.map = task.columns["map"]
        (x, y), (gx, gy) = task.columns["start"], task.columns["goal"]
        self.place, self.goal = (x, y), (gx, gy)
        words = "Go one cell: n, e, s or w." if self.full else ""
        return said(task.text, tool("go", words, direction=tuple(DIRECTIONS)), state_key=self._state())

    async def step(self, action: Action) -> Observation:
        """See `Environment.step`."""
        if not action.calls:
            return Observation(done=True)
        answers = []
        for call in action.calls:
            there = moved(self.place, call.arguments["direction"])
            if self._at(there) != WALL:
                self.place = there
            answers.append(result(call, around(self.map, self.place, self.goal)))
            if self.place == self.goal:
                return Observation(tuple(answers), done=True)
        return Observation(tuple(answers), state_key=self._state())

    def _at(self, cell: Cell) -> str:
        return look(self.map, cell, self.goal)

    def _state(self) -> str:
        return f"{self.place[0]},{self.place[1]}"

    async def verify(self, attempt: Attempt) -> Verdict:
        """See `Environment.verify`."""
        return passed(self.place == self.goal, "the goal was not reached")


def look(rows: list[str], cell: Cell, goal: Cell) -> str:
    """What is in a cell; outside are walls."""
    x, y = cell
    inside = 0 <= y < len(rows) and 0 <= x < len(rows[y])
    return GOAL if cell == goal else rows[y][x] if inside else WALL


def around(rows: list[str], cell: Cell, goal: Cell) -> str:
    """The four cells around one: north, east, south, west."""
    return "".join(look(rows, moved(cell, direction), goal) for direction in DIRECTIONS)


class GridWorld:
    """See `burnish.environments.protocol.World`."""

    name = "grid"
    pure = True

    def __init__(self, spec: GridSpec, seed: int = 0) -> None:
        self.spec, self.seed = spec, seed if spec.seed is None else spec.seed
        self.levels: Sequence[int] = sorted(spec.levels)
        side = self.levels[-1] + 2
        self.turns = side * side

    def tasks(self) -> list[Task]:
        """See `World.tasks`."""
        contents = generate(self.name, self.spec, self.seed, draw)
        return [world_task(self.name, c, self._prompt(c), None, self.seed) for c in contents]

    def _prompt(self, content: Mapping[str, Any]) -> str:
        (x, y), (gx, gy) = content["start"], content["goal"]
        seen = around(content["map"], (x, y), (gx, gy))
        if self.spec.wording == "short":
            return f"{offset(content)} {seen}"
        return (
            f"You stand in a grid with walls. From where you stand the goal is {len(offset(content))} steps away, "
            f"walls apart: {' '.join(offset(content))}. The cells to the north, east, south and west of you are "
            f"{seen} (# wall, . free, G the goal). Reach it with go."
        )

    def make(self) -> Environment:
        """See `World.make`."""
        return Grid(self.spec.wording)

    def oracle(self, task: Task, draw: Any) -> Generator[Move, Observation, None]:
        """Takes what is unseen for free, goes a shortest way, and looks for another when a wall turns up."""
        told = offset(task.columns)
        goal = told.count("e") - told.count("w"), told.count("s") - told.count("n")
        far, place, walls = 2 * len(task.columns["map"]), (0, 0), set[Cell]()
        seen = around(task.columns["map"], tuple(task.columns["start"]), tuple(task.columns["goal"]))
        while True:
            walls |= {moved(place, d) for d, what in zip(DIRECTIONS, seen, strict=True) if what == WALL}
            way = path_to(goal, place, _outside(walls, far))
            if not way:  # only where others have moved the walker
                return
            observation = yield Call("go", {"direction": way[0]})
            place, seen = moved(place, way[0]), observation.messages[-1]["content"]

    def shown_by(self, task: Task) -> Policy:
        """See `World.shown_by`."""
        return self.oracle

    def stray(self, task: Task, draw: Any) -> Move:
        """See `World.stray`."""
        return Call("go", {"direction": list(DIRECTIONS)[int(draw.integers(4))]})

    @property
    def shortcuts(self) -> Mapping[str, Policy]:
        """See `World.shortcuts`."""
        return {"give up at once": _give_up, "the whole way in one text": _telling, "the goal as a direction": _word}

    def exploits(self) -> Mapping[str, Policy]:
        """See `World.exploits`."""
        return {}

    def secrets(self, task: Task) -> list[str]:
        """See `World.secrets`."""
        return ["/".join(task.columns["map"]), "\n".join(task.columns["map"])]


def _outside(walls: Container[Cell], far: int) -> Any:
    return lambda cell: cell not in walls and max(abs(cell[0]), abs(cell[1])) <= far


def _give_up(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield GOAL


def _telling(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield " ".join(f"go({direction})" for direction in offset(task.columns)) + " G"


def _word(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield Call("go", {"direction": GOAL})
