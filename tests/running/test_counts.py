"""The ledger of whole runs, counted again by hand from the traces and evaluations that they wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnish import train
from burnish.ledger import summed
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import QuietProgress
from burnish.traces import Group
from burnish.traces.store import read_groups
from tests.tiny import tiny_network, tiny_tokenizer

HIDDEN, VOCABULARY, LAYERS, WIDTH = 32, 97, 2, 32  # of the tiny llama: four heads of 8
BASE = LAYERS * (2 * HIDDEN * 32 + 2 * HIDDEN * 16 + 3 * HIDDEN * 48)
"""Parameters that a token passes, but the vocabulary head."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_network("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def forward(positions: list[int], logits: int, parameters: int = BASE) -> int:
    """Operations of computing tokens at some positions, each seeing itself and all before it, and some logits."""
    pairs = sum(p + 1 for p in positions)
    return 2 * parameters * len(positions) + 4 * LAYERS * WIDTH * pairs + 2 * HIDDEN * VOCABULARY * logits


def sampling(prompt: int, lengths: list[int], parameters: int = BASE) -> int:
    """One prompt and its samples: the prompt once, and of each sample what was fed to the model again."""
    total = forward(list(range(prompt)), 1, parameters)
    return total + sum(forward(list(range(prompt, prompt + n - 1)), n - 1, parameters) for n in lengths)


def tree(prompt: int, lengths: list[int]) -> list[int]:
    """Positions of a prompt and of the samples that share it."""
    return [*range(prompt), *(p for n in lengths for p in range(prompt, prompt + n))] if lengths else []


def odd(completions: list[str], **columns: Any) -> list[float | None]:
    """Missing for every third completion."""
    return [None if i % 3 == 2 else len(c) + c.count("e") for i, c in enumerate(completions)]


def grpo(model: Path, /, **keys: Any) -> Any:
    return recipe_from_mapping({
        "method": "grpo", "steps": 3, "prompts_per_step": 2, "samples_per_prompt": 6, "traces_every": 1,
        "model": {"path": str(model)}, "data": {"family": {"kind": "arithmetic", "count": 20}},
        "sampling": {"max_tokens": 45}, "rewards": [{"kind": "numeric"}], "optimizer": {"lr": 1e-3},
        "options": {"kl": 0.1, "passes": 2, "mask_truncated": True, "old": "learner"},
        "evaluation": {"data": {"family": {"kind": "arithmetic", "count": 5, "split": "heldout"}}, "every": 2,
                       "max_tokens": 7}, **keys,
    })  # fmt: skip


def shapes(groups: list[Group]) -> list[tuple[int, list[int], list[int]]]:
    """Of each group: prompt tokens, tokens of each sample, tokens of the samples that are trained on."""
    found = []
    for group in groups:
        nodes = [(m, m.trace.nodes[m.leaf]) for m in group.members]
        prompt = len(group.members[0].trace.nodes[0])
        # the function left out every third, and what max_tokens cut off is masked
        kept = [len(n) for i, (_, n) in enumerate(nodes) if i % 3 != 2 and n.meta["finish"] == "stop"]
        found.append((prompt, [len(n) for _, n in nodes], kept))
    return found


def stored(out: Path) -> list[list[Group]]:
    return [read_groups(path) for path in sorted(out.glob("traces/*.parquet"))]


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def evaluated(out: Path, parameters: int = BASE) -> dict[str, int]:
    """The evaluations' counts, from their items."""
    tokenizer = tiny_tokenizer()
    counts = {"prompts": 0, "rollouts": 0, "sampled_tokens": 0, "prefilled_tokens": 0, "flops": 0}
    for path in sorted(out.glob("evaluations/*.json")):
        for item in json.loads(path.read_text())["items"]:
            chat = [{"role": "user", "content": item["prompt"]}]
            prompt = len(tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"])
            counts["prompts"] += 1
            counts["rollouts"] += 1
            counts["sampled_tokens"] += len(item["tokens"])
            counts["prefilled_tokens"] += prompt
            counts["flops"] += sampling(prompt, [len(item["tokens"])], parameters)
    return counts


def counts_of(ledger: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The ledger without times, all of which are there and positive."""
    assert all(roles["timing/seconds"] > 0 for roles in ledger.values())
    return {r: {k: v for k, v in c.items() if k != "timing/seconds"} for r, c in ledger.items() if r != "run"}


def test_a_run_with_a_reference_missing_rewards_cut_samples_and_two_passes_is_counted_exactly(
    model: Path, tmp_path: Path
) -> None:
    out = train(grpo(model), out=tmp_path / "run", reward=odd, progress=QuietProgress()).out
    ledger = json.loads((out / "summary.json").read_text())["ledger"]
    found = [shape for groups in stored(out) for shape in shapes(groups)]
    sampled, trained = sum(sum(s) for _, s, _ in found), sum(sum(k) for _, _, k in found)
    everything = sum(len(s) for _, s, _ in found)
    assert len(found) == 6 and 0 < sum(len(k) for _, _, k in found) < everything * 2 // 3  # both kinds of loss occur
    scored = sum(forward(tree(p, k), sum(k)) for p, _, k in found)
    assert counts_of(ledger) == {
        "policy": {
            "prompts": 6, "rollouts": 36, "sampled_tokens": sampled, "prefilled_tokens": sum(p for p, _, _ in found),
            "trained_tokens": 2 * trained, "scored_tokens": trained,
            # a backward pass takes twice a forward pass; the old log-probabilities one forward pass more
            "flops": sum(sampling(p, s) for p, s, _ in found) + 2 * 3 * scored + scored,
        },
        "reference": {"scored_tokens": trained, "flops": scored},
        "reward": {"reward_calls": 6},
        "evaluation": evaluated(out),
    }  # fmt: skip
    assert ledger["evaluation"]["prompts"] == 5 * 3  # before, after step 2, after step 3


def test_each_record_has_its_steps_counts_and_the_records_add_up(model: Path, tmp_path: Path) -> None:
    out = train(grpo(model), out=tmp_path / "run", reward=odd, progress=QuietProgress()).out
    ledger = json.loads((out / "summary.json").read_text())["ledger"]
    for record, groups in zip(records(out), stored(out), strict=True):
        found = shapes(groups)
        assert (record["prompts"], record["samples"]) == (2, 12)
        assert record["sampled_tokens"] == sum(sum(s) for _, s, _ in found)
        assert record["trained_tokens"] == 2 * sum(sum(k) for _, _, k in found)
        assert record["ledger/reference/scored_tokens"] == sum(sum(k) for _, _, k in found)
        assert record["ledger/reward/reward_calls"] == 2
    # the first record has the evaluation before it, the second and the third their own
    assert [r["ledger/evaluation/prompts"] for r in records(out)] == [5, 5, 5]
    assert counts_of(summed(records(out))) == counts_of(ledger)


def test_adapters_count_with_the_gradients_that_they_need_and_the_reference_without(
    model: Path, tmp_path: Path
) -> None:
    keys = {"model": {"path": str(model), "adapter": {"rank": 3}}, "options": {"kl": 0.1, "mask_truncated": True}}
    out = train(grpo(model, **keys), out=tmp_path / "run", reward=odd, progress=QuietProgress()).out
    ledger = json.loads((out / "summary.json").read_text())["ledger"]
    # rank 3 on every linear map: in + out of queries, output, keys, values, gate, up and down
    adapter = LAYERS * 3 * (2 * (HIDDEN + 32) + 2 * (HIDDEN + 16) + 3 * (HIDDEN + 48))
    found = [shape for groups in stored(out) for shape in shapes(groups)]
    training = 0
    for prompt, _, kept in found:
        tokens, logits = len(tree(prompt, kept)), sum(kept)
        # back: the input's gradient of every map, the weight's of the adapter's own; both operands of attention
        back = 2 * BASE * tokens + 4 * adapter * tokens + 2 * HIDDEN * VOCABULARY * logits
        pairs = sum(p + 1 for p in tree(prompt, kept))
        training += forward(tree(prompt, kept), logits, BASE + adapter) + back + 8 * LAYERS * WIDTH * pairs
    assert ledger["policy"]["flops"] == sum(sampling(p, s, BASE + adapter) for p, s, _ in found) + training
    assert ledger["reference"]["flops"] == sum(forward(tree(p, k), sum(k)) for p, _, k in found)
    assert counts_of(ledger)["evaluation"] == evaluated(out, BASE + adapter)


def test_a_supervised_run_is_counted_exactly(model: Path, tmp_path: Path) -> None:
    rows = [{"prompt": f"say {i}", "completion": "and so on " * i} for i in range(1, 6)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = recipe_from_mapping({
        "method": "sft", "steps": 4, "prompts_per_step": 2, "model": {"path": str(model)}, "traces_every": 1,
        "data": {"path": str(tmp_path / "rows.jsonl")}, "optimizer": {"lr": 1e-3},
    })  # fmt: skip
    out = train(recipe, out=tmp_path / "run", progress=QuietProgress()).out
    trained = operations = 0
    for group in (group for groups in stored(out) for group in groups):
        [member] = group.members
        nodes = [member.trace.nodes[n] for n in member.trace.path(member.leaf)]
        learnt = sum(int((node.signals["ce_weight"].values > 0).sum()) for node in nodes if "ce_weight" in node.signals)
        trained += learnt
        operations += 3 * forward(list(range(sum(map(len, nodes)))), learnt)
    ledger = json.loads((out / "summary.json").read_text())["ledger"]
    assert counts_of(ledger) == {"policy": {"prompts": 8, "trained_tokens": trained, "flops": operations}}
    assert sum(r["trained_tokens"] for r in records(out)) == trained > 0


def test_the_ledger_is_told_at_the_end_and_stands_in_the_report(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = train(grpo(model, steps=2), out=tmp_path / "run", reward=odd).out
    told = " ".join(capsys.readouterr().out.split())
    ledger = json.loads((out / "summary.json").read_text())["ledger"]
    assert f"policy: 4 prompts, 24 rollouts, {ledger['policy']['sampled_tokens']:,} tokens sampled" in told
    assert "reward: 4 reward calls" in told and "evaluation: 10 prompts" in told and "in all: " in told
    page = (out / "report.html").read_text()
    assert "<h2>Cost</h2>" in page and f"<td>{ledger['policy']['sampled_tokens']:,}<td>" in page


def test_a_run_that_stopped_and_went_on_has_the_ledger_of_one_that_did_not(model: Path, tmp_path: Path) -> None:
    class StopError(Exception): ...

    calls = []

    class Stopping(QuietProgress):
        def step(self, record: Any) -> None:
            if record["step"] == 3 and not calls:
                calls.append(record)
                raise StopError

    keys = {"steps": 4, "checkpoint_every": 2, "deterministic": True, "threads": 1}
    whole = train(grpo(model, **keys), out=tmp_path / "whole", reward=odd, progress=QuietProgress()).out
    with pytest.raises(StopError):
        train(grpo(model, **keys), out=tmp_path / "killed", reward=odd, progress=Stopping())
    killed = train(grpo(model, **keys), out=tmp_path / "killed", reward=odd, progress=QuietProgress(), resume=True).out
    one, other = (json.loads((out / "summary.json").read_text())["ledger"] for out in (whole, killed))
    assert counts_of(one) == counts_of(other) == counts_of(summed(records(killed)))
