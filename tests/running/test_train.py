"""Whole runs on tiny random models: what is written, what loads again, and what a user is told when it cannot work."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from burnish import InputError, RunError, train
from burnish.methods.recipe import Recipe
from burnish.running.config import load_recipe, recipe_from_mapping
from burnish.traces.store import read_groups
from tests.tiny import tiny_network, tiny_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random chat model as an ordinary folder."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_network("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def grpo(folder: Path, **keys: Any) -> Recipe:
    values: dict[str, Any] = {
        "method": "grpo", "steps": 2, "prompts_per_step": 2, "samples_per_prompt": 4, "model": {"path": str(folder)},
        "data": {"family": {"kind": "arithmetic", "count": 20}}, "sampling": {"max_tokens": 5},
        "rewards": [{"kind": "numeric"}], "optimizer": {"lr": 1e-3}, **keys,
    }  # fmt: skip
    return recipe_from_mapping(values)


def sft(model: Path, tmp_path: Path, **keys: Any) -> Recipe:
    rows = [{"prompt": f"say {i}", "completion": f"{i} and {i}"} for i in range(6)]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {"method": "sft", "steps": 3, "prompts_per_step": 2, "model": {"path": str(model)},
              "data": {"path": str(data)}, "optimizer": {"lr": 1e-3}, **keys}  # fmt: skip
    return recipe_from_mapping(values)


def dense(completions: list[str], **columns: Any) -> list[float]:
    """A reward with spread even for a random model: how many letters e."""
    return [c.count("e") + 0.1 * len(c) for c in completions]


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


def test_a_grpo_run_writes_what_its_directory_promises(model: Path, tmp_path: Path) -> None:
    evaluation = {"data": {"family": {"kind": "arithmetic", "count": 6, "split": "heldout"}}, "max_tokens": 4}
    result = train(grpo(model, evaluation=evaluation, checkpoint_every=1), out=tmp_path / "run", reward=dense)
    out = result.out
    assert load_recipe(out / "config.yaml").steps == 2
    records = metrics(out)
    assert [r["step"] for r in records] == [1, 2]
    assert all({"loss", "reward", "timing/tokens_per_second", "timing/rss_bytes"} <= r.keys() for r in records)
    assert records[0]["samples"] == 8 and records[0]["sampled_tokens"] == records[0]["trained_tokens"]
    assert records[0]["sampler_gap"] < 1e-5
    summary = json.loads((out / "summary.json").read_text())
    assert summary["optimizer_steps"] == 2 and summary["comparison"]["items"] == 6
    assert '"loss":{"x":[1.0,2.0]' in (out / "report.html").read_text()
    assert [len(g.members) for g in read_groups(out / "traces" / "step-000002.parquet")] == [4, 4]
    before, middle, after = weights(model), weights(out / "checkpoints" / "step-1"), weights(out / "final")
    assert not all(torch.equal(before[n], middle[n]) for n in before)
    assert not all(torch.equal(middle[n], after[n]) for n in before)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(model: Path, tmp_path: Path) -> None:
    losses = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(grpo(model, seed=seed), out=tmp_path / name, reward=dense)
        losses.append([r["loss"] for r in metrics(tmp_path / name)])
    assert losses[0] == losses[1] != losses[2]


def test_every_grpo_option_changes_the_run(model: Path, tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {
        "base": {}, "advantage": {"advantage": "grpo"}, "reduction": {"reduction": "sequence_mean"},
        "constant": {"reduction": "constant", "constant": 3},
        "kl": {"kl": 5.0}, "k2": {"kl": 5.0, "kl_estimator": "k2"},
        "entropy": {"entropy": 0.5}, "passes": {"passes": 2}, "mask_truncated": {"mask_truncated": True},
        "clip": {"passes": 2, "clip_low": 0.0, "clip_high": 0.0},
    }  # fmt: skip
    finals = {}
    for name, options in changes.items():
        train(grpo(model, options=options, traces_every=0), out=tmp_path / name, reward=dense)
        finals[name] = (tmp_path / name / "final" / "model.safetensors").read_bytes()
    assert len(set(finals.values())) == len(finals)


def test_traces_can_have_the_learners_numbers_and_training_stays_the_same(model: Path, tmp_path: Path) -> None:
    finals = []
    for name, wanted in (("with", True), ("without", False)):
        train(grpo(model, traces_scores=wanted, traces_every=2, steps=4), out=tmp_path / name, reward=dense)
        finals.append((tmp_path / name / "final" / "model.safetensors").read_bytes())
    assert finals[0] == finals[1]
    [group, _] = read_groups(tmp_path / "with" / "traces" / "step-000003.parquet")
    node = group.members[0].trace.nodes[group.members[0].leaf]
    assert abs(node.signals["learner_logprob"].values - node.logprobs).max() < 1e-4
    assert (node.signals["entropy"].values > 0).all()
    counted = [record.get("ledger/traces/scored_tokens") for record in metrics(tmp_path / "with")]
    assert counted[1] is None and counted[2] == metrics(tmp_path / "with")[2]["sampled_tokens"]
    with pytest.raises(InputError, match="traces_scores: unused, since traces_every is 0"):
        grpo(model, traces_scores=True, traces_every=0)


def test_the_old_log_probabilities_can_be_the_learners(model: Path, tmp_path: Path) -> None:
    train(grpo(model, options={"old": "learner"}), out=tmp_path / "run", reward=dense)
    [group, _] = read_groups(tmp_path / "run" / "traces" / "step-000001.parquet")
    node = group.members[0].trace.nodes[group.members[0].leaf]
    assert abs(node.signals["old_logprob"].values - node.logprobs).max() < 1e-4


def test_an_adapter_run_saves_what_peft_loads_and_its_reference_is_the_base(model: Path, tmp_path: Path) -> None:
    recipe = grpo(model, model={"path": str(model), "adapter": {"rank": 4}}, options={"kl": 0.1})
    train(recipe, out=tmp_path / "run", reward=dense)
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), str(tmp_path / "run" / "final"))
    with torch.no_grad():
        assert any(float(p.abs().max()) > 0 for n, p in loaded.named_parameters() if "lora_B" in n)
    records = metrics(tmp_path / "run")
    assert records[0]["reference_kl"] == pytest.approx(0, abs=1e-9) and records[1]["reference_kl"] > 0


def test_sft_lowers_its_loss_and_learns_the_stop_token(model: Path, tmp_path: Path) -> None:
    recipe = sft(model, tmp_path, steps=30, optimizer={"lr": 3e-2})
    out = train(recipe, out=tmp_path / "run").out
    losses = [r["loss"] for r in metrics(out)]
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    [group, _] = read_groups(out / "traces" / "step-000001.parquet")
    [member] = group.members
    nodes = [member.trace.nodes[n] for n in member.trace.path(member.leaf)]
    trained = [
        token
        for node in nodes
        for token, weight in zip(node.tokens.tolist(), node.signals["ce_weight"].values, strict=True)
        if weight == 1
    ]
    assert trained[-1] == tiny_tokenizer().eos_token_id


def test_plain_path_models_train_too(tmp_path: Path) -> None:
    tiny_network("mamba").save_pretrained(tmp_path / "mamba")
    tiny_tokenizer().save_pretrained(tmp_path / "mamba")
    out = train(grpo(tmp_path / "mamba", steps=1), out=tmp_path / "run", reward=dense).out
    assert metrics(out)[0]["sampler_gap"] < 1e-4


def test_a_missing_reward_leaves_the_group_and_is_counted(model: Path, tmp_path: Path) -> None:
    def some(completions: list[str], **columns: Any) -> list[float | None]:
        return [None if i == 0 else float(i) for i in range(len(completions))]

    train(grpo(model, steps=1), out=tmp_path / "run", reward=some)
    [record] = metrics(tmp_path / "run")
    assert record["reward_missing"] == 2 and record["reward"] == pytest.approx(2.0)
    [group, _] = read_groups(tmp_path / "run" / "traces" / "step-000001.parquet")
    assert "advantage" not in group.members[0].trace.nodes[group.members[0].leaf].signals
    assert record["trained_tokens"] == sum(
        len(m.trace.nodes[m.leaf]) for g in read_groups(tmp_path / "run" / "traces" / "step-000001.parquet")
        for m in g.members[1:]
    )  # fmt: skip


def test_what_a_user_is_told(model: Path, tmp_path: Path) -> None:
    def broken(completions: list[str], **columns: Any) -> list[float]:
        raise KeyError("no such thing")

    with pytest.raises(RunError, match="no such thing"):
        train(grpo(model), out=tmp_path / "raises", reward=broken)
    assert not (tmp_path / "raises").exists()  # nothing was recorded: the corrected run may have the directory
    train(grpo(model, steps=1), out=tmp_path / "raises", reward=dense)
    with pytest.raises(InputError, match="already holds a run"):
        train(grpo(model), out=tmp_path / "raises", reward=dense)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(InputError, match="is not empty"):
        train(grpo(model), out=tmp_path / "mine", reward=dense)
    with pytest.raises(InputError, match="cannot be made|taken"):
        train(grpo(model), out=tmp_path / ("n" * 300), reward=dense)
    with pytest.raises(InputError, match="no use for a reward function"):
        train(sft(model, tmp_path), out=tmp_path / "x", reward=dense)
    evaluation = {"data": {"family": {"kind": "arithmetic", "count": 6}}}
    with pytest.raises(InputError, match="also trained on"):
        train(grpo(model, evaluation=evaluation), out=tmp_path / "x")
    data = tmp_path / "long.jsonl"
    rows = [{"prompt": "short", "answer": "1"}, {"prompt": "many words " * 200, "answer": "1"}]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match="context"):
        train(grpo(model, data={"path": str(data)}), out=tmp_path / "long", reward=dense)
    assert not (tmp_path / "x").exists() and not (tmp_path / "long").exists()


def test_a_tokenizer_without_a_template_needs_plain_text_asked_for(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    tiny_network("llama").save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    with pytest.raises(InputError, match="no chat template: set template: plain"):
        train(grpo(tmp_path / "base"), out=tmp_path / "x", reward=dense)
    plain = {"model": {"path": str(tmp_path / "base"), "template": "plain"}, "steps": 1}
    text = {"family": {"kind": "arithmetic", "count": 8}, "style": "text"}
    out = train(grpo(tmp_path / "base", data=text, **plain), out=tmp_path / "run", reward=dense).out
    [group, _] = read_groups(out / "traces" / "step-000001.parquet")
    prompt = tokenizer.decode(group.members[0].trace.nodes[0].tokens)
    assert prompt.endswith("=") and prompt[0].isdigit()
    with pytest.raises(InputError, match="needs model.template: plain"):
        train(grpo(tmp_path / "base", data=text), out=tmp_path / "y", reward=dense)


def test_a_run_in_which_nothing_could_be_trained_fails_and_says_where_to_look(model: Path, tmp_path: Path) -> None:
    def none(completions: list[str], **columns: Any) -> list[None]:
        return [None] * len(completions)

    with pytest.raises(RunError, match="no optimizer step was taken in 2 steps"):
        train(grpo(model), out=tmp_path / "run", reward=none)
    with pytest.raises(RunError, match="no optimizer step was taken in 2 steps"):
        train(grpo(model), out=tmp_path / "run", reward=none, resume=True)  # it is over, and it is still a failure
    assert [r["trained_tokens"] for r in metrics(tmp_path / "run")] == [0, 0]


def test_rewards_without_any_spread_are_told_of_once(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def same(completions: list[str], **columns: Any) -> list[float]:
        return [1.0] * len(completions)

    train(grpo(model, steps=7, traces_every=0), out=tmp_path / "run", reward=same)
    assert " ".join(capsys.readouterr().out.split()).count("no group had two different ones") == 1


def test_the_saved_configuration_names_the_reward_that_was_used(model: Path, tmp_path: Path) -> None:
    train(grpo(model, steps=1), out=tmp_path / "run", reward=dense)
    assert "function: tests.running.test_train:dense" in (tmp_path / "run" / "config.yaml").read_text()


def test_train_works_where_an_event_loop_is_running_as_in_a_notebook(model: Path, tmp_path: Path) -> None:
    async def notebook() -> int:
        return train(grpo(model, steps=1), out=tmp_path / "run", reward=dense).summary["optimizer_steps"]

    assert asyncio.run(notebook()) == 1


def test_e5_the_gap_stays_flat_and_small_at_a_learning_rate_of_nothing(model: Path, tmp_path: Path) -> None:
    train(grpo(model, steps=4, optimizer={"lr": 1e-30}), out=tmp_path / "run", reward=dense)
    assert all(r["sampler_gap"] < 1e-5 for r in metrics(tmp_path / "run"))


def test_greedy_sampling_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(InputError, match="greedy samples of a prompt are all alike"):
        grpo(Path("nowhere"), sampling={"max_tokens": 5, "temperature": 0})


def test_a_model_with_damaged_weights_is_named_as_such(tmp_path: Path) -> None:
    network = tiny_network("llama")
    with torch.no_grad():
        network.model.norm.weight[3] = float("nan")
    network.save_pretrained(tmp_path / "nan")
    tiny_tokenizer().save_pretrained(tmp_path / "nan")
    with pytest.raises(InputError, match="norm.weight.*NaN"):
        train(grpo(tmp_path / "nan"), out=tmp_path / "run", reward=dense)
