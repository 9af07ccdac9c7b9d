"""Seconds that advantages by a critic take over long sequences: `python -m benchmarks.gae`."""

from __future__ import annotations

import argparse
import time

import numpy as np

from burnish.signals.gae import adaptive_lambda, gae


def main() -> None:
    """Print the median, the least and the most of some runs, the first left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    shape = (args.sequences, args.tokens)
    rewards, values = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    lengths = rng.integers(args.tokens // 2, args.tokens + 1, args.sequences)
    seconds = []
    for _ in range(args.runs + 1):
        started = time.perf_counter()
        gae(rewards, values, lengths, adaptive_lambda(lengths, 0.5))
        seconds.append(time.perf_counter() - started)
    kept = sorted(seconds[1:])
    middle = kept[len(kept) // 2]
    print(f"{args.tokens:,} x {args.sequences}: {middle:.3f} s (of {len(kept)}: {kept[0]:.3f} to {kept[-1]:.3f})")


if __name__ == "__main__":
    main()
