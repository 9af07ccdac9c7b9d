"""What the kinds of nodes of a pipeline make, and the command line."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from burnish.cli import main
from burnish.traces.store import read_groups
from tests.running.pipeline_work import ALL, PIPELINE, inside, populate, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which the pipeline has run once."""
    folder = tmp_path_factory.mktemp("finished") / "work"
    folder.mkdir()
    with inside(folder):
        populate(folder)
        assert run().made == ALL
    return folder


@pytest.fixture
def fresh(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder before anything ran in it, as the current one."""
    shutil.copytree(finished, tmp_path / "work", ignore=shutil.ignore_patterns("out", "calls.txt"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


# ---------------------------------------------------------------- what the kinds make


def test_provenance_tells_where_an_artefact_comes_from(finished: Path) -> None:
    [path] = (finished / "out" / "artefacts").glob("tune-*")
    told = json.loads((path / "provenance.json").read_text())
    assert path.name == f"tune-{told['key']}"
    assert {told[key] for key in ("node", "kind", "pipeline", "file")} == {"tune", "train", "six", "pipeline.yaml"}
    [kept] = (finished / "out" / "artefacts").glob("kept-*")
    upstream = json.loads((kept / "provenance.json").read_text())
    assert told["inputs"]["data.path"] == {
        "value": "@kept", "hash": upstream["outputs"]["dataset"]["hash"], "node": "kept", "artefact": kept.name,
    }  # fmt: skip
    assert told["inputs"]["model.path"]["value"] == "model" and len(told["inputs"]["model.path"]["hash"]) == 32
    assert told["settings"]["method"] == "sft" and told["settings"]["optimizer"]["lr"] == 1e-3
    assert {"burnish", "torch", "transformers", "python"} <= told["versions"].keys()
    assert told["command"] and told["started"] <= told["finished"] and told["seconds"] >= 0
    assert told["outputs"]["model"]["path"] == "run/final"
    state = json.loads((finished / "out" / "pipeline.json").read_text())
    assert [(name, node["status"]) for name, node in state["nodes"].items()] == [(name, "done") for name in ALL]
    assert state["nodes"]["tune"]["artefact"] == f"artefacts/{path.name}"


def test_datasets_hold_the_tokens_and_rows_that_training_reads(finished: Path) -> None:
    by_name = {path.name.split("-")[0]: path for path in (finished / "out" / "artefacts").iterdir()}
    drawn = [g for file in sorted((by_name["draw"] / "traces").iterdir()) for g in read_groups(file)]
    assert [len(g.members) for g in drawn] == [4] * 4 and drawn[0].members[0].verdict is None
    judged = [g for file in sorted((by_name["judged"] / "traces").iterdir()) for g in read_groups(file)]
    kept = [g for file in sorted((by_name["kept"] / "traces").iterdir()) for g in read_groups(file)]
    lines = {
        name: [json.loads(line) for line in (by_name[name] / "rows.jsonl").read_text().splitlines()]
        for name in ("draw", "judged", "kept")
    }
    assert lines["draw"][0].keys() == {"prompt", "completion", "goal", "answer"}
    assert lines["draw"][0]["prompt"] == [{"role": "user", "content": "say 0"}]
    assert [row["reward"] for row in lines["judged"]] == [float(len(row["completion"])) for row in lines["judged"]]
    for group, few in zip(judged, kept, strict=True):
        texts: dict[str, float] = {}
        for member in group.members:
            text = member.trace.nodes[member.leaf].meta["text"]
            if text:
                texts.setdefault(text, member.reward)
        best = sorted(texts.values(), reverse=True)[:2]
        assert sorted((m.reward for m in few.members), reverse=True) == best
    assert len(lines["kept"]) == sum(len(group.members) for group in kept)


def test_models_are_merged_with_their_adapters_in(fresh: Path) -> None:
    lora = {"train": {"recipe": "sft.yaml", "set": {"data.path": "rows.jsonl", "model.adapter.rank": 2}}}
    more = {"train": {"recipe": "sft.yaml", "set": {"data.path": "rows.jsonl", "model.adapter.path": "@lora"}}}
    Path("rows.jsonl").write_text('{"prompt": "a", "completion": "b"}\n{"prompt": "c", "completion": "d"}\n')
    adapter = {"path": "model", "adapter": {"path": "@lora"}}
    merge = {"merge": {"models": ["model", "@lora", adapter], "weights": [0.5, 0.25, 0.5], "any_sum": True}}
    score = {"evaluate": {"model": "@merged", "data": "held.jsonl", "max_tokens": 2}}
    result = run(pipeline={"nodes": {"lora": lora, "more": more, "merged": merge, "score": score}})
    assert result["score"].result["items"] == 3
    base, tuned, merged = (
        load_file(folder / "model.safetensors")
        for folder in (Path("model"), result["lora"].artefact.place("model"), result["merged"].artefact.place("model"))
    )
    assert any(not np.array_equal(base[name], tuned[name]) for name in base)
    for name, tensor in merged.items():
        np.testing.assert_allclose(tensor, 0.5 * base[name] + 0.75 * tuned[name], rtol=0, atol=1e-6)
    assert not (result["merged"].artefact.path / "whole").exists()
    provenance = result["more"].artefact.provenance
    assert provenance["inputs"]["model.adapter.path"]["hash"] == result["lora"].artefact.hash("adapter")


# ---------------------------------------------------------------- the command line


def status(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit:
        main(["pipeline", *arguments])
    out, errors = capsys.readouterr()
    return int(exit.value.code or 0), out, errors


def test_the_command_line_runs_shows_and_refuses(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("pipeline.yaml")
    text.write_text("nodes:\n  draw: {sample: {model: model, data: tasks.jsonl, sampling: {max_tokens: 3}}}\n")
    code, out, _ = status(capsys, "show", "pipeline.yaml", "--out", "p")
    assert code == 0 and "not made yet" in out
    code, out, _ = status(capsys, "run", "pipeline.yaml", "draw.samples_per_prompt=2", "--out", "p")
    assert code == 0 and "node draw (1 of 1, sample): not made yet" in out and "samples 8" in out
    code, out, _ = status(capsys, "show", "pipeline.yaml", "draw.samples_per_prompt=2", "--out", "p", "--json")
    assert [node["state"] for node in json.loads(out)] == ["done"]
    code, out, _ = status(capsys, "show", "pipeline.yaml", "--out", "p")
    assert "samples_per_prompt 2 -> 8" in out
    code, out, _ = status(capsys, "run", "pipeline.yaml", "draw.samples_per_prompt=2", "--out", "p", "--json")
    result = json.loads(out.splitlines()[-1])
    assert result["event"] == "result" and result["nodes"]["draw"]["status"] == "kept"
    code, _, errors = status(capsys, "run", "pipeline.yaml", "draw.sample=2", "--out", "p")
    assert code == 2 and "command line, node draw: there is no key sample" in errors
    code, out, _ = status(capsys, "run", "pipeline.yaml", "draw.samples_per_prompt=2", "--quiet")
    assert code == 0 and Path("runs/pipeline/pipeline.json").exists()


def test_looking_at_a_pipeline_imports_no_torch() -> None:
    code = (
        "import sys; from burnish import show_pipeline\n"
        "show_pipeline('recipes/pipelines/rejection.yaml', out='nowhere')\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_pipeline_runs_where_an_event_loop_is_running_as_in_a_notebook(fresh: Path) -> None:
    body = {name: PIPELINE["nodes"][name] for name in ("draw", "judged", "apart")}
    body["score"] = {"evaluate": {"model": "@apart", "data": "held.jsonl", "max_tokens": 2}}

    async def notebook() -> list[str]:
        return run(pipeline={"nodes": body}).made

    assert asyncio.run(notebook()) == ["draw", "judged", "apart", "score"]


# ---------------------------------------------------------------- what is shipped


def test_the_two_stage_pipeline_runs_and_helps(tmp_path: Path) -> None:
    with inside(ROOT):
        result = run(pipeline="recipes/pipelines/sft-grpo.yaml", out=str(tmp_path / "out"))
        assert result.made == ["sft", "grpo", "before", "after-sft", "after-grpo"]
        before, sft, grpo = (result[name].result for name in ("before", "after-sft", "after-grpo"))
        assert before["items"] == 300
        assert sft["low"] > before["accuracy"] and grpo["accuracy"] > before["high"]
        assert run(pipeline="recipes/pipelines/sft-grpo.yaml", out=str(tmp_path / "out")).made == []


def test_the_rejection_sampling_pipeline_runs(tmp_path: Path) -> None:
    few = ["improve.draw.data.family.count=48", "improve.score.data.family.count=20"]
    few += ["improve.tune.steps=8", "improve.tune.prompts_per_step=16"]
    with inside(ROOT):
        result = run(*few, pipeline="recipes/pipelines/rejection.yaml", out=str(tmp_path / "out"))
    names = ("draw", "judged", "right", "tune", "score")
    assert result.made == [f"improve.{name}.{i}" for i in (1, 2) for name in names]
    tuned = result["improve.tune.1"].artefact
    right = result["improve.right.1"].artefact.path / "rows.jsonl"
    lines = [json.loads(line) for line in right.read_text().splitlines()]
    assert lines and all(row["completion"] == row["answer"] and row["reward"] == 1 for row in lines)
    assert tuned.provenance["inputs"]["data.path"]["node"] == "improve.right.1"
