"""Pipelines over data of other formats: datasets of nodes in a mix, saved folders, rows that keep their columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from burnish import InputError, run_pipeline, show_pipeline
from burnish.running.pipelines.artefacts import Store
from tests.tiny import tiny_network, tiny_tokenizer

ALPACA = [{"instruction": f"say {i}", "input": "", "output": str(i), "system": "Be brief."} for i in range(3)]
DRAW = {"sample": {"model": "model", "data": {"path": "alpaca.json"}, "samples_per_prompt": 2,
                   "sampling": {"max_tokens": 3}}}  # fmt: skip


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_network("llama").save_pretrained("model")
    tiny_tokenizer().save_pretrained("model")
    Path("alpaca.json").write_text(json.dumps(ALPACA))
    Path("rows.jsonl").write_text("".join(json.dumps({"prompt": f"{i}", "completion": "a"}) + "\n" for i in range(4)))


def recipe(**data: Any) -> dict[str, Any]:
    return {"method": "sft", "steps": 2, "prompts_per_step": 2, "model": {"path": "model"}, "optimizer": {"lr": 1e-3},
            "threads": 1, "data": data}  # fmt: skip


def test_what_was_sampled_from_rows_of_another_format_is_trained_on(tmp_path: Path) -> None:
    tune = {"train": {"recipe": recipe(mix=[{"path": "@draw", "weight": 1}, {"path": "rows.jsonl", "weight": 1}])}}
    done = run_pipeline({"nodes": {"draw": DRAW, "tune": tune}}, out="out")
    found = {path.name.partition("-")[0]: path for path in (tmp_path / "out" / "artefacts").iterdir()}
    rows = [json.loads(line) for line in (found["draw"] / "rows.jsonl").read_text().splitlines()]
    assert rows[0]["prompt"][0] == {"role": "system", "content": "Be brief."} and "instruction" in rows[0]
    assert "system" not in rows[0]  # it stands in the prompt
    config = (found["tune"] / "run" / "config.yaml").read_text()
    assert "format: prompt" in config and (found["tune"] / "run" / "final").is_dir() and done is not None
    assert Store(tmp_path / "out").read(found["tune"]) is not None


def test_a_mix_takes_datasets_alone(tmp_path: Path) -> None:
    merge = {"merge": {"models": ["model", "model"]}}
    tune = {"train": {"recipe": recipe(mix=[{"path": "@both"}, {"path": "rows.jsonl"}])}}
    with pytest.raises(InputError, match=r"data.mix.0.path: @both makes a model, and a dataset is needed here"):
        show_pipeline({"nodes": {"both": merge, "tune": tune}}, out="out")
    text = {"sample": {**DRAW["sample"], "data": {"path": "rows.jsonl", "style": "text"},
                       "model": {"path": "model", "template": "plain"}}}  # fmt: skip
    tune = {"train": {"recipe": recipe(mix=[{"path": "@draw"}, {"path": "rows.jsonl"}])}}
    with pytest.raises(InputError, match=r"plain texts: set data.mix.0.style: text"):
        show_pipeline({"nodes": {"draw": text, "tune": tune}}, out="out")


def key(data: dict[str, Any]) -> str:
    [step] = show_pipeline({"nodes": {"t": {"train": {"recipe": recipe(**data)}}}}, out="out")[1]
    assert step.resolved is not None
    return step.resolved.key


def test_saved_folders_and_files_of_a_mix_count_by_their_content() -> None:
    rows = [{"prompt": "a", "completion": "b"}, {"prompt": "c", "completion": "d"}]
    datasets.Dataset.from_list(rows).save_to_disk("saved")
    saved = {"path": "saved"}
    mix = {"mix": [{"path": "rows.jsonl"}, {"path": "alpaca.json"}]}
    before = key(saved), key(mix)
    assert (key(saved), key(mix)) == before
    Path("saved/cache-1.arrow").write_bytes(b"what the library keeps for itself")
    assert key(saved) == before[0]
    Path("alpaca.json").write_text(json.dumps(ALPACA[:2]))
    datasets.Dataset.from_list(rows[:1]).save_to_disk("other")
    assert key(mix) != before[1] and key({"path": "other"}) != before[0]
