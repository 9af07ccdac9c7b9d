"""vLLM's side: its offline engine on a CPU, in an environment of its own.

The environment variables that bind it to the cores are set by whoever starts this script.
"""

from __future__ import annotations

from typing import Any

from channel import Channel


def main() -> None:
    """Samples of a fixed number of tokens with their log-probabilities, all prompts handed over at once."""
    job, channel = Channel.job(), Channel()
    from vllm import LLM, SamplingParams  # pyright: ignore[reportMissingImports]

    settings = job["settings"]
    rows = len(job["prompts"]) * job["samples"]
    engine = LLM(
        model=job["model"], dtype=settings["dtype"], max_model_len=job["longest"], max_num_seqs=rows,
        enforce_eager=not settings["compile"], enable_prefix_caching=settings["prefix_caching"], seed=0,
    )  # fmt: skip

    def work(number: int) -> dict[str, Any]:
        params = SamplingParams(
            n=job["samples"], temperature=1.0, max_tokens=job["new_tokens"], min_tokens=job["new_tokens"],
            ignore_eos=True, logprobs=0 if settings["logprobs"] else None, detokenize=False,
        )  # fmt: skip
        prompts = [{"prompt_token_ids": prompt} for prompt in job["prompts"]]
        found = engine.generate(prompts, params, use_tqdm=False)
        drawn = [output for request in found for output in request.outputs]
        tokens = sum(len(output.token_ids) for output in drawn)
        mean = sum(output.cumulative_logprob for output in drawn) / tokens if settings["logprobs"] else None
        return {"tokens": tokens, "mean_logprob": mean}

    channel.serve(work)


if __name__ == "__main__":
    main()
