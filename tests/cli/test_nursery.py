"""The nursery's commands and functions: what there is, building by a committed recipe, measuring."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import burnish
from burnish.cli import main
from burnish.models import nursery, nursery_list
from burnish.models.loading import load_model
from burnish.running.progress import QuietProgress

RECIPE = """\
method: sft
steps: 9
prompts_per_step: 8
model: {path: "nursery:S", dtype: float32}
data: {family: {kind: symbols, levels: [1], tasks: [copy], count: 64, wording: short}}
optimizer: {lr: 4e-3}
threads: 1
traces_every: 0
checkpoint_every: 1
evaluation:
  data: {family: {kind: symbols, levels: [1], tasks: [copy], count: 6, split: heldout, wording: short}}
  correct: {kind: exact}
  max_tokens: 4
"""
MODELS = """\
copy-S: {steps: 3, sampled: [0.25, 0.1, 0.5]}
copy-M: {steps: 2, set: {optimizer.lr: 1e-3}, stored: bfloat16}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a nursery of two models that are trained in a second. None of them ships."""
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "copy.yaml").write_text(RECIPE)
    (recipes / "models.yaml").write_text(MODELS)
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(nursery_list, "RECIPES", recipes)
    nursery_list.nursery_entries.cache_clear()
    yield tmp_path / "cache"
    nursery_list.nursery_entries.cache_clear()


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The output of a command that succeeds."""
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert not exit.value.code
    return capsys.readouterr().out


def test_a_model_is_built_into_the_cache_and_found_there(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(burnish.InputError, match="burnish nursery build copy-S$"):
        nursery.nursery_folder("copy-S")
    assert "to build" in said(capsys, "nursery", "list")
    out = said(capsys, "nursery", "build", "copy-S")
    folder = nursery.nursery_folder("copy-S")
    assert folder.is_relative_to(cache) and f"copy-S: {folder} (" in out
    assert load_model("nursery:copy-S").network.dtype is not None
    assert {model.name: model.origin for model in burnish.list_nursery()} == {"copy-S": "built", "copy-M": "to build"}
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert "(was there)" in said(capsys, "nursery", "build", "copy-S")
    assert (folder / "model.safetensors").stat().st_mtime_ns == made


def test_without_names_all_that_is_not_there_is_built_in_the_type_it_is_stored_in(cache: Path) -> None:
    built = burnish.build_nursery(progress=QuietProgress())
    assert [model.name for model in built] == ["copy-S", "copy-M"]
    dtypes = {m.name: {str(t.dtype) for t in load_file(m.folder / "model.safetensors").values()} for m in built}
    assert dtypes == {"copy-S": {"torch.float32"}, "copy-M": {"torch.bfloat16"}}
    assert burnish.build_nursery(progress=QuietProgress()) == []


def test_two_builds_have_the_same_bits_and_another_recipe_has_another_place(cache: Path, tmp_path: Path) -> None:
    first, second = (burnish.build_nursery("copy-S", out=tmp_path / n, progress=QuietProgress())[0] for n in "ab")
    files = [model.folder / "model.safetensors" for model in (first, second)]
    assert files[0] == tmp_path / "a" / "copy-S" / "model.safetensors"
    assert files[0].read_bytes() == files[1].read_bytes()
    before = nursery_list.nursery_entries()["copy-S"].cached
    (tmp_path / "recipes" / "copy.yaml").write_text(RECIPE + "seed: 1\n")
    assert nursery_list.nursery_entries()["copy-S"].cached != before


def test_another_network_to_begin_with_has_another_place(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: entry.cached for name, entry in nursery_list.nursery_entries().items()}
    monkeypatch.setitem(nursery.SIZES, "M", replace(nursery.SIZES["M"], hidden=320))
    after = {name: entry.cached for name, entry in nursery_list.nursery_entries().items()}
    assert after["copy-M"] != before["copy-M"] and after["copy-S"] == before["copy-S"]
    monkeypatch.setattr(nursery, "CHAT_TEMPLATE", "")
    assert nursery_list.nursery_entries()["copy-S"].cached != before["copy-S"]


def test_a_place_that_cannot_hold_a_model_is_refused_before_anything_is_built(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "copy-M").mkdir(parents=True)
    (tmp_path / "out" / "copy-M" / "notes.txt").write_text("keep me")
    (tmp_path / "file").write_text("")
    for out, why in (("out", "copy-M holds other files"), ("file", "file is a file")):
        with pytest.raises(burnish.InputError, match=why):
            burnish.build_nursery(["copy-S", "copy-M"], out=tmp_path / out, progress=QuietProgress())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["copy-M"]


def test_a_build_that_was_interrupted_goes_on(cache: Path, tmp_path: Path) -> None:
    [whole] = burnish.build_nursery("copy-S", out=tmp_path / "whole", progress=QuietProgress())

    class Stopping(QuietProgress):
        def step(self, record: Mapping[str, Any]) -> None:
            if record["step"] == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        burnish.build_nursery("copy-S", out=tmp_path / "parts", progress=Stopping())
    assert not (tmp_path / "parts" / "copy-S").exists()
    [model] = burnish.build_nursery("copy-S", out=tmp_path / "parts", progress=QuietProgress())
    resumed = (tmp_path / "parts" / "copy-S.run" / "journal.jsonl").read_text()
    assert '"resumed"' in resumed
    weights = [folder / "model.safetensors" for folder in (whole.folder, model.folder)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_results_are_json_where_that_is_asked_for(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads(said(capsys, "nursery", "list", "--json"))
    assert listed[0] == {
        "name": "copy-S", "size": "S", "parameters": nursery.parameters("S"), "origin": "to build",
        "sampled": [0.25, 0.1, 0.5], "greedy": None,
    }  # fmt: skip
    lines = said(capsys, "nursery", "build", "copy-S", "--out", str(tmp_path / "out"), "--json").splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events].count("step") == 3
    [built] = events[-1]["built"]
    assert events[-1]["event"] == "result" and built["name"] == "copy-S" and built["same_as_shipped"] is None
    folder = tmp_path / "out" / "copy-S"
    assert built["folder"] == str(folder) and (folder / "config.json").is_file()


def test_rates_are_measured_on_held_out_tasks_beside_the_recorded_ones(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    burnish.build_nursery("copy-S", progress=QuietProgress())
    text = said(capsys, "nursery", "rates", "copy-S", "--samples", "2", "--limit", "4")
    assert "at temperature 1: " in text and "(recorded: 0.250 [0.100, 0.500])" in text and "(recorded: nothing)" in text
    found = json.loads(said(capsys, "nursery", "rates", "copy-S", "--samples", "3", "--json", "--seed", "1"))
    assert found["sampled"]["items"] == 18 and found["greedy"]["items"] == 6
    assert found["sampled"]["recorded"] == [0.25, 0.1, 0.5] and found["greedy"]["recorded"] is None
    one, other = (burnish.nursery_rates("copy-S", samples=3, seed=seed).measured["sampled"] for seed in (1, 2))
    assert one.items != other.items


@pytest.mark.parametrize(
    ("name", "message"),
    [("copy-L", "no recipe for a nursery model 'copy-L'; did you mean"), ("S", "S is a fresh network")],
)
def test_names_there_are_not_are_refused(
    name: str, message: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("build", "rates"):
        with pytest.raises(SystemExit) as exit:
            main(["nursery", command, name])
        assert exit.value.code == 2 and message in capsys.readouterr().err
