"""Rows that the `datasets` library reads: a data set that it saved in a folder, or one of a hub.

The library is imported when one of the two is asked for, and at no other time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from burnish.errors import InputError
from burnish.tasks.faults import Place, RowError
from burnish.tasks.rows.arrow import plain_rows
from burnish.tasks.suggest import did_you_mean

Row = dict[str, Any]

SAVED = ("state.json", "dataset_dict.json")
"""The file by which a folder is known that `save_to_disk` wrote."""


def is_saved(path: Path) -> bool:
    """Whether a folder is one that `save_to_disk` wrote."""
    return any((path / name).is_file() for name in SAVED)


def saved_files(path: Path) -> list[Path]:
    """The files that hold a data set which `save_to_disk` wrote, in order; what `datasets` caches there is none."""
    return sorted(f for f in path.rglob("*") if f.is_file() and not f.name.startswith(("cache-", "tmp")))


def saved_rows(path: Path, split: str | None, left_out: set[str]) -> Iterator[tuple[Place, Row | RowError]]:
    """The rows of a folder that `save_to_disk` wrote. Raises InputError for a folder that cannot be read, and for a
    split that is not there or not named."""
    with _library() as library:
        try:
            found = library.load_from_disk(str(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: the data set cannot be read ({error})") from None
        yield from _rows(_split(found, split, str(path)), str(path), left_out)


def hub_rows(
    hub: str, *, split: str | None, name: str | None, revision: str | None, left_out: set[str]
) -> Iterator[tuple[Place, Row | RowError]]:
    """The rows of a data set of the hub, or of a folder that is laid out like one (data files, and a README.md).

    Raises InputError when it cannot be had: no network, no such data set, configuration, revision or split.
    """
    if Path(hub).is_dir() and revision is not None:
        raise InputError(f"data.revision: {hub} is a folder, which has no revisions; remove it")
    with _library() as library:
        try:
            found = library.load_dataset(hub, name=name, revision=revision)
        except (OSError, ValueError, KeyError, RuntimeError, library.exceptions.DatasetsError) as error:
            raise InputError(_no_data(hub, name, error)) from None
        where = hub if name is None else f"{hub} ({name})"
        yield from _rows(_split(found, split, where), where, left_out)


def _no_data(hub: str, name: str | None, error: Exception) -> str:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    if any(isinstance(each, ConnectionError) for each in causes) and not Path(hub).is_dir():
        return (
            f"data.hub: the hub could not be reached for {hub}, and it is not in the cache of `datasets` ({reason}). "
            "Look at the network; without one, save the data set where there is one (`save_to_disk`) and give its "
            "folder as data.path"
        )
    what = hub if name is None else f"{hub}, configuration {name}"
    return f"data.hub: `datasets` cannot load {what} ({type(error).__name__}: {reason})"


def _split(found: Any, split: str | None, where: str) -> Any:
    """The one split that is meant."""
    if not isinstance(found, dict):
        if split is not None and str(found.split) != split:
            raise InputError(f"data.split: {where} holds one data set without splits; remove it")
        return found
    if split is None:
        if len(found) > 1:
            raise InputError(f"{where} holds several splits; name one in data.split: {', '.join(map(str, found))}")
        return next(iter(found.values()))
    if split not in found:
        raise InputError(f"data.split: {where} has no split {split!r}; {did_you_mean(split, map(str, found))}")
    return found[split]


def _rows(data: Any, name: str, left_out: set[str]) -> Iterator[tuple[Place, Row | RowError]]:
    """Rows of a data set; columns of pictures and sounds are left out unread."""
    media = [
        column
        for column, feature in data.features.items()
        if hasattr(feature, "decode_example") and type(feature).__name__ not in ("ClassLabel", "Json")
    ]
    left_out.update(media)
    rows = (row for batch in data.remove_columns(media).iter(1000) for row in _transposed(batch))
    yield from plain_rows(rows, name, left_out)


def _transposed(batch: dict[str, list[Any]]) -> Iterator[Row]:
    names = list(batch)
    for values in zip(*batch.values(), strict=True):
        yield dict(zip(names, values, strict=True))


@contextmanager
def _library() -> Iterator[ModuleType]:
    """The library, without its progress bars while it works."""
    try:
        import datasets
        import datasets.exceptions
    except ImportError as error:
        raise InputError(
            f"this data is read with the `datasets` library, which is not installed ({error}): "
            "pip install 'burnish[datasets]'"
        ) from None
    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield datasets
    finally:
        if shown:
            datasets.enable_progress_bars()
