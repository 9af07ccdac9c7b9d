"""Loading and saving a model print nothing of their own, and downloads keep their bars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.commands import ROOT

CODE = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("default")
from burnish.models.loading import load_model
from burnish.models.saving import save_model
from burnish.models.spec import LoraSpec, ModelSpec
whole = load_model(ModelSpec(path="nursery:arithmetic-S", dtype="float32"))
adapted = load_model(ModelSpec(path="nursery:arithmetic-S", dtype="float32", adapter=LoraSpec(rank=2)))
save_model(whole, "whole")
save_model(adapted, "adapter")
again = LoraSpec(path="adapter")
load_model(ModelSpec(path="whole", dtype="float32", adapter=again), train=False)
whole.tokenizer("1" * 2000)

from huggingface_hub.utils import are_progress_bars_disabled
from transformers.utils import logging
assert not are_progress_bars_disabled() and logging.is_progress_bar_enabled()
print("".join(f"{bar.disable}" for bar in [logging.tqdm(range(2), file=open("bar.txt", "w"))]))
"""


def test_loading_and_saving_print_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(ROOT)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n"  # a bar of the caller's own is still drawn
    noise = [line for line in done.stderr.splitlines() if "ResourceWarning" not in line and "logging.tqdm" not in line]
    assert noise == []
