"""Running: the run directory and the loop."""
