#!/usr/bin/env bash
# On a machine with a GPU: the checks against the CPU, then the learner's and the engine's speed and memory.
# PYTHON names the interpreter; arguments go to benchmarks.gpu (`--help` lists them).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
"$python" -c 'import torch; assert torch.cuda.is_available(), "torch sees no CUDA device"'
"$python" -m pytest tests/gpu -q -rA -p no:xdist
"$python" -m benchmarks.gpu "$@"
