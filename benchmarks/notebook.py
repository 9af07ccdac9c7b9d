"""Executes docs/notebook.ipynb and stores its outputs in it: `python -m benchmarks.notebook`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
LIMIT = 300
"""Seconds that a cell may take."""


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs, run with this interpreter's packages and this checkout in a kernel of its own.

    Raises nbclient.exceptions.CellExecutionError with the cell and its traceback where one fails.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["OMP_NUM_THREADS"] = "1"
    NotebookClient(notebook, timeout=LIMIT, kernel_name="python3", coalesce_streams=True, record_timing=False).execute()
    return notebook


def main() -> None:
    """Execute, store, and say how long it took."""
    started = time.perf_counter()
    nbformat.write(executed(NOTEBOOK), NOTEBOOK)
    print(f"{NOTEBOOK.relative_to(ROOT)}: {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
