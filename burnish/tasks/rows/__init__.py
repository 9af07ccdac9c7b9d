"""Rows of data, wherever they stand: JSON lines, a JSON array, Parquet, a data set saved by `datasets`, or a hub."""

from burnish.tasks.rows.origins import Rows, open_rows

__all__ = ["Rows", "open_rows"]
