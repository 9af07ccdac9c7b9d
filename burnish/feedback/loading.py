"""A user's reward function, found by its name, and which columns of a data row it asks for."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from burnish.errors import InputError
from burnish.feedback.reward import named
from burnish.tasks.suggest import did_you_mean

FORM = '"file.py:name" or "package.module:name"'


def load_function(name: str, base: Path | None = None) -> Callable[..., Any]:
    """The function that "file.py:name" (relative to `base`) or "package.module:name" stands for.

    Raises InputError when the file, module or function is not there, or when importing it fails.
    """
    where, colon, attribute = name.rpartition(":")
    if not (colon and where and attribute.isidentifier()):
        raise InputError(f"reward function {name!r}: write it as {FORM}")
    module = _load_file(name, (base or Path()) / where) if where.endswith(".py") else _load_module(name, where)
    if not hasattr(module, attribute):
        own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InputError(f"reward function {name!r}: {where} has no {attribute!r}; {did_you_mean(attribute, own)}")
    function = getattr(module, attribute)
    if not callable(function):
        raise InputError(f"reward function {name!r}: {attribute} is a {type(function).__name__}, not a function")
    return function


def _load_file(name: str, path: Path) -> ModuleType:
    path = path.expanduser()
    if not path.is_file():
        near = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, near) if near else f"write it as {FORM}"
        raise InputError(f"reward function {name!r}: no file {path}; {hint}")
    unique = hashlib.blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()
    spec = importlib.util.spec_from_file_location(f"burnish_user_{path.stem}_{unique}", path)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and type hints look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever foreign code raises on import is a fault of the input
        del sys.modules[spec.name]
        raise InputError(f"reward function {name!r}: importing {path} failed\n{tail(error)}") from error
    return module


def _load_module(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(f"reward function {name!r}: no module {error.name!r}; write it as {FORM}") from None
        raise InputError(f"reward function {name!r}: importing {module} failed\n{tail(error)}") from error
    except (Exception, SystemExit) as error:  # whatever foreign code raises on import is a fault of the input
        raise InputError(f"reward function {name!r}: importing {module} failed\n{tail(error)}") from error


def tail(error: BaseException, frames: int = 4) -> str:
    """The end of an exception's traceback, without the frames of Burnish and of the import machinery."""
    own = str(Path(__file__).parents[1])
    stack = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((own, "<frozen importlib"))
    ]
    lines = [*traceback.format_list(stack[-frames:]), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()


class Signature:
    """Which keyword arguments a reward function takes. Raises InputError when it cannot take `completions`."""

    def __init__(self, function: Callable[..., Any], label: str) -> None:
        self.label = label
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise InputError(f"reward function {label}: its parameters cannot be read; wrap it in a `def`") from None
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self.names = {p.name for p in named}
        self.required = {p.name for p in named if p.default is p.empty} - {"completions"}
        positional_only = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
        if positional_only or not (self.takes_all or "completions" in self.names):
            have = f"{', '.join(sorted(self.names)) or 'nothing'} by name"
            raise InputError(
                f"reward function {label} must take `completions` by name and takes {have}; "
                "write `def reward(completions, **columns)`"
            )

    def select(self, row: str, columns: Mapping[str, Any]) -> list[str]:
        """The columns to hand over. Raises InputError when one that is asked for is not there."""
        if "completions" in columns:
            raise InputError(
                f"{named(row, columns)}: the data has a column 'completions', under which reward function "
                f"{self.label} is given the model's texts; rename the column"
            )
        absent = sorted(self.required - set(columns))
        if absent:
            raise InputError(
                f"{named(row, columns)}: reward function {self.label} asks for column {absent[0]!r}, which the data "
                f"does not have; {did_you_mean(absent[0], columns)}"
            )
        return list(columns) if self.takes_all else [name for name in columns if name in self.names]
