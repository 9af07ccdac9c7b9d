"""Benchmarks: ours against the best that a peer can do, in turns, with the arithmetic floor. docs/performance.md."""
