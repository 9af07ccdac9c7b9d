"""The registry: from what a recipe says about an environment to tasks and environments. No torch here."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from burnish.environments.protocol import Environment, Family, Policy, World
from burnish.environments.spec import CustomSpec, DeskSpec, EnvironmentSpecBase, GridSpec, HackableSpec, LookupSpec
from burnish.environments.worlds.desk import DeskWorld
from burnish.environments.worlds.grid import GridWorld
from burnish.environments.worlds.hackable import HackableWorld
from burnish.environments.worlds.lookup import LookupWorld
from burnish.errors import InputError
from burnish.tasks import Task
from burnish.tasks.suggest import did_you_mean

WORLDS: tuple[str, ...] = ("lookup", "grid", "desk", "hackable")
"""The generated worlds by name."""


def build(spec: EnvironmentSpecBase, *, seed: int = 0, base: Path | None = None, tasks: Sequence[Task] = ()) -> Family:
    """What a spec declares: a family of tasks with the environment they are attempted in.

    `seed` is the run's, for worlds that have none of their own. `tasks` are those of the recipe's data, for a custom
    environment, whose file is taken from `base`. Raises InputError for a class that cannot be loaded or made.
    """
    return _build(spec, seed, base, tasks)


@singledispatch
def _build(spec: EnvironmentSpecBase, seed: int, base: Path | None, tasks: Sequence[Task]) -> Family:
    raise InputError(f"no environment is registered for {type(spec).__name__}")


@_build.register
def _lookup(spec: LookupSpec, seed: int, base: Path | None, tasks: Sequence[Task]) -> World:
    return LookupWorld(spec, seed)


@_build.register
def _grid(spec: GridSpec, seed: int, base: Path | None, tasks: Sequence[Task]) -> World:
    return GridWorld(spec, seed)


@_build.register
def _desk(spec: DeskSpec, seed: int, base: Path | None, tasks: Sequence[Task]) -> World:
    return DeskWorld(spec, seed)


@_build.register
def _hackable(spec: HackableSpec, seed: int, base: Path | None, tasks: Sequence[Task]) -> World:
    shared = {name: getattr(spec, name) for name in type(spec).model_fields if name in LookupSpec.model_fields}
    shared.pop("kind")
    inner = LookupWorld(LookupSpec(**shared), seed) if spec.world == "lookup" else GridWorld(GridSpec(**shared), seed)
    return HackableWorld(spec, inner, seed)


@_build.register
def _custom(spec: CustomSpec, seed: int, base: Path | None, tasks: Sequence[Task]) -> Family:
    return Custom(spec, load_class(spec.path, base), tasks)


# ---------------------------------------------------------------- a user's own


def _check_declared(path: str, cls: type[Environment]) -> None:
    """Raise InputError for what a class says of itself in another form than is read."""
    turns, floor = getattr(cls, "turns", 16), getattr(cls, "floor", 0.0)
    shortcuts, guesses = getattr(cls, "shortcuts", {}), getattr(cls, "guesses", ())
    policies = [getattr(cls, name, None) for name in ("oracle", "stray", "secrets", "hidden")]
    for right, words in (
        (type(turns) is int and turns > 0, f"turns is a whole number above 0, not {turns!r}"),
        (isinstance(floor, (int, float)), f"floor is a number, not {floor!r}"),
        (
            isinstance(shortcuts, Mapping) and all(map(callable, shortcuts.values())),
            "shortcuts is a dict of name: policy",
        ),
        (isinstance(guesses, (tuple, list, set, frozenset)), "guesses is a list of names of shortcuts"),
        (all(p is None or callable(p) for p in policies), "oracle, stray, secrets and hidden are static functions"),
    ):
        if not right:
            raise InputError(f"environment {path!r}: {cls.__name__}.{words}")


class Custom:
    """A user's environment with the tasks of the recipe's data.

    What its class defines of `oracle`, `stray`, `shortcuts`, `guesses`, `floor`, `secrets` and `hidden` (static, with
    the signatures of `World`) is what its admission gate works with.
    """

    def __init__(self, spec: CustomSpec, cls: type[Environment], tasks: Sequence[Task]) -> None:
        self.spec, self.cls, self.name = spec, cls, cls.__name__
        self._tasks = list(tasks)
        self.turns = getattr(cls, "turns", 16)
        _check_declared(spec.path, cls)
        self.levels = sorted({int(task.difficulty) for task in tasks if task.difficulty is not None})
        if absent := sorted(getattr(cls, "__abstractmethods__", ())):
            raise InputError(f"environment {spec.path!r}: {cls.__name__} does not define {', '.join(absent)}")
        try:
            inspect.signature(cls).bind(**spec.options)
        except TypeError as error:
            raise InputError(f"environment {spec.path!r} cannot be made with its options: {error}") from None

    def with_tasks(self, tasks: Sequence[Task]) -> Custom:
        """The same environment for other tasks."""
        return Custom(self.spec, self.cls, tasks)

    def tasks(self) -> list[Task]:
        """The data's."""
        return list(self._tasks)

    @property
    def pure(self) -> bool:
        """As its class says."""
        return self.cls.pure

    @property
    def replayable(self) -> bool:
        """As its class says."""
        return self.cls.replayable

    def make(self) -> Environment:
        """A fresh one."""
        return self.cls(**self.spec.options)

    @property
    def oracle(self) -> Policy | None:
        """See `World.oracle`."""
        return getattr(self.cls, "oracle", None)

    @property
    def stray(self) -> Any:
        """See `World.stray`."""
        return getattr(self.cls, "stray", None)

    @property
    def shortcuts(self) -> Mapping[str, Policy]:
        """See `World.shortcuts`."""
        return getattr(self.cls, "shortcuts", {})

    @property
    def guesses(self) -> Sequence[str]:
        """See `World.shortcuts`."""
        return getattr(self.cls, "guesses", ())

    @property
    def floor(self) -> float:
        """See `World.shortcuts`."""
        return float(getattr(self.cls, "floor", 0.0))

    def exploits(self) -> Mapping[str, Policy]:
        """See `World.exploits`."""
        return {}

    def secrets(self, task: Task) -> Sequence[str]:
        """See `World.secrets`; by default the task's answer."""
        given = getattr(self.cls, "secrets", None)
        if given is None:
            return [task.answer] if task.answer else []
        found = given(task)
        if not isinstance(found, (tuple, list)):
            raise InputError(
                f"environment {self.spec.path!r}: {self.name}.secrets gives a list of texts, not {found!r}"
            )
        return found

    @property
    def hidden(self) -> Callable[[Task], Sequence[str]] | None:
        """See `World.shortcuts`."""
        return getattr(self.cls, "hidden", None)


def load_class(path: str, base: Path | None = None) -> type[Environment]:
    """The class that "file.py:Name" (relative to `base`) or "package.module:Name" stands for. Raises InputError."""
    where, _, name = path.rpartition(":")
    try:
        module = _file(path, (base or Path()) / where) if where.endswith(".py") else importlib.import_module(where)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever foreign code raises on import is a fault of the input
        raise InputError(f"environment {path!r}: importing {where} failed: {type(error).__name__}: {error}") from error
    cls = getattr(module, name, None)
    if isinstance(cls, type) and issubclass(cls, Environment):
        return cls
    found = [k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, Environment)]
    wrong = (
        f"{where} has no {name!r}" if cls is None else f"{name} is not a subclass of burnish.environments.Environment"
    )
    raise InputError(f"environment {path!r}: {wrong}; {did_you_mean(name, [k for k in found if k != 'Environment'])}")


def _file(name: str, path: Path) -> ModuleType:
    path = path.expanduser()
    if not path.is_file():
        raise InputError(f"environment {name!r}: there is no file {path}")
    unique = blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()
    spec = importlib.util.spec_from_file_location(f"burnish_user_{path.stem}_{unique}", path)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and type hints look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module
