"""TRL's side: training steps of GRPOTrainer and SFTTrainer, through their public interface."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import torch
from channel import Channel
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback


class Gate(TrainerCallback):
    """Holds a run before each of its steps until the next one is asked for. A step ends with its log."""

    def __init__(self, channel: Channel, **figures: Any) -> None:
        self.channel = channel
        self.figures = figures

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Everything is set up."""
        self.channel.ready()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """A step is over."""
        logs = logs or {}
        if "loss" in logs:
            names = {"length": "completions/mean_length", "reward": "reward"}
            found = {name: float(logs[theirs]) for name, theirs in names.items() if theirs in logs}
            self.channel.done(**{**self.figures, **found})


class Clock(TrainerCallback):
    """When each step ended."""

    def __init__(self) -> None:
        self.ended: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step is over."""
        self.ended.append(time.perf_counter())


def common(job: dict[str, Any]) -> dict[str, Any]:
    """Arguments of any trainer: the searched settings, one log a step, nothing saved."""
    settings = job["settings"]
    batch = min(settings["batch"], job["sequences"])
    return {
        "output_dir": job["out"], "max_steps": job["steps"], "learning_rate": job["lr"],
        "lr_scheduler_type": "constant", "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": job["sequences"] // batch,
        "bf16": settings["dtype"] == "bfloat16", "gradient_checkpointing": settings["checkpointing"],
        "torch_compile": settings["compile"],
        "logging_steps": 1, "report_to": "none", "save_strategy": "no", "use_cpu": True,
        "disable_tqdm": True, "seed": 0,
    }  # fmt: skip


def load(job: dict[str, Any]) -> tuple[Any, Any]:
    """The model in float32 (bfloat16 is autocast's), and its tokenizer."""
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(job["model"])


def rows(file: str) -> Dataset:
    """The rows of a JSON lines file."""
    return Dataset.from_list([json.loads(line) for line in Path(file).read_text("utf-8").splitlines()])


def grpo(job: dict[str, Any], callback: TrainerCallback) -> Any:
    """A trainer that samples `samples` answers of `new_tokens` tokens for each of `prompts` prompts a step."""
    from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

    model, tokenizer = load(job)
    return GRPOTrainer(
        model=model,
        reward_funcs=reward_of(job["rewards"]),
        args=GRPOConfig(
            **common(job), num_generations=job["samples"], max_completion_length=job["new_tokens"], temperature=1.0
        ),
        train_dataset=rows(job["data"]),
        processing_class=tokenizer,
        callbacks=[callback],
    )


def reward_of(file: str) -> Any:
    """The reward function that both sides use, from its file."""
    spec = importlib.util.spec_from_file_location("rewards", file)
    assert spec is not None and spec.loader is not None  # it is a Python file
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reward


def sft(job: dict[str, Any], channel: Channel) -> Any:
    """A trainer whose every step takes all rows of the data once."""
    from trl import SFTConfig, SFTTrainer  # pyright: ignore[reportPrivateImportUsage]

    model, tokenizer = load(job)
    packing = job["settings"]["packing"]
    gate = Gate(channel)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            **common(job), packing=packing == "packing", padding_free=packing == "padding-free",
            max_length=job["max_length"],
        ),
        train_dataset=rows(job["data"]),
        processing_class=tokenizer,
        callbacks=[gate],
    )  # fmt: skip
    gate.figures["trained_tokens"] = sum(int((b["labels"] != -100).sum()) for b in trainer.get_train_dataloader())
    return trainer


def toy(job: dict[str, Any], channel: Channel) -> None:
    """A whole run, from the start of the process to its end."""
    clock = Clock()
    grpo(job, clock).train()
    steps = len(clock.ended) - 1
    channel.tell(steps_per_second=steps / (clock.ended[-1] - clock.ended[0]), steps=len(clock.ended))


if __name__ == "__main__":
    _job, _channel = Channel.job(), Channel()
    if _job["kind"] == "toy":
        toy(_job, _channel)
    else:
        (sft(_job, _channel) if _job["kind"] == "sft" else grpo(_job, Gate(_channel))).train()
