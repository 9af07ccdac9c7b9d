"""Tokens per second, utilisation and peak memory of the learner at a 0.6B model's size, and the engine's speed.

    python -m benchmarks.gpu [--tokens 4096 8192 16384] [--work sft rl rl-group] [--adapter full lora-16] [--repeat 3]
        [--recompute auto] [--head auto] [--device auto] [--out benchmarks/results/gpu.json]
    python -m benchmarks.gpu --tiny --device cpu        # the same code in seconds, for continuous integration

Random weights in the shape of Qwen3-0.6B, bfloat16 with float32 masters, AdamW. `sft` and `rl` train sequences of
`tokens` tokens, one a micro-batch; `rl-group` fills the micro-batch with a prompt of a quarter and eight answers that
share it. Operations are those of the mathematics (docs/ledger.md), nothing counted twice.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec, OptimizerSpec
from burnish.ledger import Ledger
from burnish.losses.build import build
from burnish.losses.spec import CrossEntropySpec, PolicyGradientSpec
from burnish.models.adapters import attach_adapter
from burnish.models.devices import device_title, on_gpu, resolve_device, wait
from burnish.models.language_model import LanguageModel
from burnish.models.spec import LoraSpec
from burnish.sampling import LocalEngine, SamplingParams
from burnish.traces import CONTEXT, DEMONSTRATION, Author, Group, Role, SignalKind, Span, Trace

SHAPE: dict[str, Any] = {
    "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 3072, "vocab_size": 151_936, "max_position_embeddings": 40_960, "tie_word_embeddings": True,
}  # fmt: skip
"""Qwen3-0.6B."""
TINY = SHAPE | {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 96, "vocab_size": 2_000,
}  # fmt: skip

PUBLISHED: dict[tuple[str, str, int], tuple[int, float, float]] = {
    ("sft", "full", 8192): (26_005, 0.168, 31.7), ("sft", "full", 16_384): (25_486, 0.237, 52.8),
    ("rl", "full", 16_384): (11_896, 0.111, 12.5), ("rl", "lora-16", 16_384): (13_342, 0.109, 5.1),
}  # fmt: skip
"""Of Qwen3-0.6B on one H100, from prime-rl's committed baselines: tokens/s, share of the peak rate, peak GiB."""

PEAK = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12, "L40S": 362e12, "B200": 2250e12}
"""Operations a second in dense bfloat16, as the maker states them, by what a device's name holds."""

_PROMPT = 16


def model_of(shape: dict[str, Any], adapter: str, device: torch.device) -> LanguageModel:
    """A model with random weights in bfloat16, made on the device."""
    torch.manual_seed(0)
    with device:
        network: Any = AutoModelForCausalLM.from_config(Qwen3Config(**shape), dtype=torch.bfloat16)
    if adapter != "full":
        network = attach_adapter(network, LoraSpec(rank=16), train=True, seed=0)
    model = LanguageModel(network, device=device, compute_dtype=torch.bfloat16)
    if not model.sharing:
        raise SystemExit(f"this would measure the wrong thing: {model.path_in_use}")
    return model


def groups_of(work: str, tokens: int, batches: int, vocabulary: int) -> list[Group]:
    """As much work as fills `batches` micro-batches of `tokens` tokens."""
    rng, groups = np.random.default_rng(0), []
    for index in range(batches):
        prompt, answers = (tokens // 4, 8) if work == "rl-group" else (_PROMPT, 1)
        length = (tokens - prompt) // answers
        trace, members = Trace(str(index)), []
        root = trace.add(-1, rng.integers(0, vocabulary, prompt), CONTEXT, Role.PROMPT)
        for place in range(answers):
            ids = rng.integers(0, vocabulary, length)
            if work == "sft":
                leaf = trace.add(root, ids, DEMONSTRATION, Role.ANSWER)
                trace.write(leaf, "ce_weight", np.ones(length), SignalKind.WEIGHT)
            else:
                # as improbable as a random model finds them, so that no ratio is clipped
                sampled = np.full(length, -np.log(vocabulary))
                leaf = trace.add(root, ids, Author.model("policy", 0), Role.ANSWER, sampled)
                advantage = np.full(length, 1.0 if (index + place) % 2 else -1.0)
                trace.write(leaf, "advantage", advantage, SignalKind.POLICY, learner="policy")
            members.append(Span(trace, leaf))
        groups.append(Group(trace.id, members))
    return groups


def measure_learner(args: argparse.Namespace, work: str, adapter: str, tokens: int) -> dict[str, Any]:
    """Seconds of each optimizer step after a warm-up, and what it took; or that there was not enough memory."""
    device = resolve_device(args.device)
    _clear(device)
    result: dict[str, Any] = {"work": work, "adapter": adapter, "tokens": tokens}
    known = None if args.tiny else PUBLISHED.get((work, adapter, tokens))
    result["published"] = known and dict(zip(("tokens_per_second", "mfu", "peak_gib"), known, strict=True))
    recompute = args.recompute == "on" or (args.recompute == "auto" and work != "sft")
    layout = LearnerSpec(micro_batch_tokens=tokens, gradient_checkpointing=recompute, head=args.head)
    model, ledger = model_of(TINY if args.tiny else SHAPE, adapter, device), Ledger()
    learner = Learner(model, OptimizerSpec(lr=1e-6), layout, ledger=ledger)
    terms = [build(CrossEntropySpec() if work == "sft" else PolicyGradientSpec())]
    groups = groups_of(work, tokens, args.batches, model.vocab_size)
    seconds: list[float] = []
    metrics: dict[str, float] = {}
    try:
        for step in range(args.warmup + args.repeat):
            if step == args.warmup:
                _forget_peak(device)
            wait(device)
            start = time.perf_counter()
            metrics = learner.update(groups, terms)
            wait(device)
            seconds += [time.perf_counter() - start] if step >= args.warmup else []
    except torch.OutOfMemoryError as error:
        return result | {"error": f"out of memory: {str(error).splitlines()[0]}"}
    computed = sum(len(node) for group in groups for trace in group.traces for node in trace.nodes)
    flops = ledger.total("policy", "flops") / (args.warmup + args.repeat)
    rate = flops / float(np.median(seconds))
    return result | {
        "recomputed_layers": recompute, "computed_tokens": computed, "trained_tokens": int(metrics["trained_tokens"]),
        "seconds": seconds, "tokens_per_second": computed / float(np.median(seconds)), "flops": flops,
        "flops_per_second": rate, "mfu": rate / args.peak if args.peak else None, "peak_gib": _peak_gib(device),
        "loss": metrics["loss"],
    }  # fmt: skip


def measure_engine(args: argparse.Namespace) -> dict[str, Any]:
    """Sampled tokens a second: 8 prompts, 8 samples of each."""
    device = resolve_device(args.device)
    model = model_of(TINY if args.tiny else SHAPE, "full", device)
    prompt, new = (24, 8) if args.tiny else (512, 128)
    prompts = np.random.default_rng(0).integers(0, model.vocab_size, (8, prompt)).tolist()
    engine, params, seconds = LocalEngine(model), SamplingParams(new), []

    async def work(seed: int) -> None:
        await asyncio.gather(*(engine.sample(p, params, n=8, seed=seed, task=i) for i, p in enumerate(prompts)))

    for step in range(1 + args.repeat):
        wait(device)
        start = time.perf_counter()
        asyncio.run(work(step))
        wait(device)
        seconds += [time.perf_counter() - start] if step else []
    rate = 64 * new / float(np.median(seconds))
    return {"prompt_tokens": prompt, "new_tokens": new, "rows": 64, "seconds": seconds, "tokens_per_second": rate}


def _clear(device: torch.device) -> None:
    """Give back what the model before has left."""
    gc.collect()
    if on_gpu(device):
        torch.cuda.empty_cache()


def _forget_peak(device: torch.device) -> None:
    if on_gpu(device):
        torch.cuda.reset_peak_memory_stats(device)


def _peak_gib(device: torch.device) -> float | None:
    """Most memory of tensors at once, in GiB; on a CPU torch keeps no such count."""
    return torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu(device) else None


def line(result: dict[str, Any]) -> str:
    """A result in words, with the published figure beside it."""
    head = f"{result['work']:9}{result['adapter']:8}{result['tokens']:>7} "
    if "error" in result:
        return head + result["error"]
    share = "" if result["mfu"] is None else f"  {result['mfu']:.1%} of the peak rate"
    memory = "" if result["peak_gib"] is None else f"  {result['peak_gib']:.1f} GiB"
    beside = ""
    if known := result["published"]:
        ratio = result["tokens_per_second"] / known["tokens_per_second"]
        beside = f"  | published {known['tokens_per_second']:,} tokens/s, {known['peak_gib']} GiB: {ratio:.2f}x"
    return f"{head}{result['tokens_per_second']:>10,.0f} tokens/s{share}{memory}{beside}"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and short sequences, to try the script")
    parser.add_argument("--tokens", type=int, nargs="+", default=None)
    parser.add_argument("--work", nargs="+", default=["sft", "rl", "rl-group"], choices=["sft", "rl", "rl-group"])
    parser.add_argument("--adapter", nargs="+", default=["full", "lora-16"], choices=["full", "lora-16"])
    parser.add_argument("--recompute", default="auto", choices=["auto", "on", "off"], help="auto: for rl, not for sft")
    parser.add_argument("--head", default="auto", choices=["auto", "chunked", "fused"])
    parser.add_argument("--batches", type=int, default=2, help="micro-batches of an optimizer step")
    for name, value in (("warmup", 2), ("repeat", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--peak", type=float, default=None, help="operations a second that the device is said to do")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args(given)
    args.tokens = args.tokens or ([256] if args.tiny else [4096, 8192, 16_384])
    return args


def main() -> None:
    """Measure, print, write."""
    args = arguments()
    device = resolve_device(args.device)
    title = device_title(device)
    args.peak = args.peak or next((rate for name, rate in PEAK.items() if on_gpu(device) and name in title), None)
    print(f"{title}, torch {torch.__version__}; published figures are prime-rl's for Qwen3-0.6B on one H100:")
    for (work, adapter, tokens), (rate, share, gib) in PUBLISHED.items():
        print(f"  {work} {adapter} {tokens}: {rate:,} tokens/s, {share:.1%} of the peak rate, {gib} GiB")
    if not on_gpu(device):
        print("not a GPU: what this prints says nothing about one, whose figures stay unverified")
    results = []
    for tokens in args.tokens:
        for work in args.work:
            for adapter in args.adapter:
                results.append(measure_learner(args, work, adapter, tokens))
                print(line(results[-1]), flush=True)
    engine = measure_engine(args)
    print(f"engine, 64 rows: {engine['tokens_per_second']:,.0f} tokens/s")
    if args.out is not None:
        settings = {k: v for k, v in vars(args).items() if k not in ("out", "device")}
        found = {
            "device": title,
            "torch": torch.__version__,
            "settings": settings,
            "learner": results,
            "engine": engine,
        }
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
