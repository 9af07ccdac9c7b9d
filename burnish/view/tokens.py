"""Stored rollouts and the tokenizer to read them with, for `burnish show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from burnish.errors import InputError
from burnish.traces import Group
from burnish.traces.show import Decoder
from burnish.traces.store import read_groups
from burnish.view.rollouts import load_tokenizer


class _Decoder:
    """A tokenizers.Tokenizer with the two calls that showing needs."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def decode(self, token_ids: Sequence[int], **options: object) -> str:
        """Text of ids, special tokens included."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def convert_ids_to_tokens(self, ids: int) -> str | None:
        """The vocabulary's own name of an id."""
        return self.tokenizer.id_to_token(ids)


def stored_groups(place: Path) -> tuple[Path, list[Group]]:
    """The groups of a traces file, or of the last one in a run directory, and the file.

    Raises InputError when there is none.
    """
    if place.is_file():
        return place, read_groups(place)
    if not place.is_dir():
        raise InputError(f"{place}: no such file or run directory")
    files = sorted(place.glob("traces/[!.]*.parquet"))
    if not files:
        raise InputError(f"{place} holds no traces/*.parquet: set traces_every in the recipe, or give a .parquet file")
    return files[-1], read_groups(files[-1])


def run_tokenizer(place: Path, named: str | None) -> Decoder | None:
    """The tokenizer named: a tokenizer.json, a folder with one, or a model; else the one of the run, if it has one."""
    if named is None:
        run = place if place.is_dir() else place.parent.parent
        found = load_tokenizer(run)
        return None if found is None else _Decoder(found)
    file = Path(named)
    file = file / "tokenizer.json" if file.is_dir() else file
    if file.is_file() and file.suffix == ".json":
        try:
            return _Decoder(Tokenizer.from_file(str(file)))
        except Exception as error:  # noqa: BLE001 - the library raises no other on a broken file
            raise InputError(f"{file}: not a tokenizer ({error})") from None
    from burnish.models.loading import load_tokenizer as load_by_name  # imports torch

    return load_by_name(named)
