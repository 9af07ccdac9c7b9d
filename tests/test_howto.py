"""The commands of docs/howto.md run, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_block_of_the_how_to_runs(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "burnish"  # the command of this very checkout, whatever is on the path
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m burnish.cli "$@"\n')
    command.chmod(0o755)
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "howto.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 6
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert (folder / "runs" / "mine" / "report.html").exists()
    assert (folder / "merged" / "model.safetensors").exists()
