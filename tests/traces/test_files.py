"""Files are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burnish.traces.files import atomic_path, atomic_write


def test_text_and_bytes_are_written_as_given(tmp_path: Path) -> None:
    atomic_write(tmp_path / "new" / "a.txt", "e\u0301\r\nz")
    atomic_write(tmp_path / "new" / "b.bin", b"\x00\xff")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"e\xcc\x81\r\nz"
    assert (tmp_path / "new" / "b.bin").read_bytes() == b"\x00\xff"


def test_an_error_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    atomic_write(target, "old")
    with pytest.raises(KeyboardInterrupt), atomic_path(target) as aside:
        aside.write_text("half")
        assert target.read_text() == "old"
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["state.json"]


def test_the_aside_file_keeps_suffix_and_the_result_has_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_path(tmp_path / "x.parquet") as aside:
        assert aside.suffix == ".parquet" and aside.parent == tmp_path
        aside.write_text("1")
    assert (tmp_path / "x.parquet").stat().st_mode == (tmp_path / "plain").stat().st_mode
