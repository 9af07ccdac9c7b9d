"""Wrong usage of every command ends in a sentence with the fix, never in a traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from burnish.cli import main
from burnish.running.data import read_tasks
from tests.cli.commands import ROOT

NOISE = bytes(range(128, 256)) * 3
RECIPE = """\
method: grpo
steps: 1
prompts_per_step: 2
samples_per_prompt: 2
model: {path: "nursery:arithmetic-S", dtype: float32}
data: {family: {count: 4}}
rewards: numeric
sampling: {max_tokens: 3}
"""
MODEL = "nursery:arithmetic-S"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of things that are not what a command wants."""
    monkeypatch.chdir(tmp_path)
    for name in ("noise.yaml", "noise.jsonl", "noise.gguf", "noise.parquet", "noise.jinja"):
        Path(name).write_bytes(NOISE)
    for name in ("folder.yaml", "folder.jsonl", "empty", "run/traces", "noisy_run", "noisy_metrics", "adapter"):
        Path(name).mkdir(parents=True)
    Path("good.yaml").write_text(RECIPE)
    Path("empty.yaml").write_text("")
    Path("list.yaml").write_text("- 1\n")
    Path("deep.yaml").write_text("[" * 3000)
    Path("a_file").write_text("x")
    Path("loop.yaml").symlink_to("loop.yaml")
    Path("zero.jinja").write_text("{{ 1 / 0 }}")
    Path("rows.jsonl").write_text('{"prompt": "1+1=", "answer": 2}\n')
    Path("huge.jsonl").write_text('{"prompt": "1+1=", "answer": 1e400}\n')
    Path("run/config.yaml").write_text("method: grpo\n")
    Path("run/traces/step-000001.parquet").write_bytes(NOISE)
    Path("noisy_run/config.yaml").write_bytes(NOISE)
    Path("noisy_metrics/metrics.jsonl").write_bytes(NOISE)
    Path("adapter/adapter_config.json").write_text('{"base_model_name_or_path": 3}')
    return tmp_path


LONG = "x" * 5000

CASES: list[tuple[tuple[str, ...], str]] = [
    *((("config", name), "") for name in ("", "nothere.yaml", "folder.yaml", "noise.yaml", "empty.yaml", "list.yaml")),
    *((("train", name), "") for name in ("deep.yaml", "a_file", "loop.yaml", LONG, "~", os.devnull, "a\0b")),
    *((("pipeline", "run", name), "") for name in ("", "nothere.yaml", "noise.yaml", "a_file", "folder.yaml", LONG)),
    *((("study", name), "") for name in ("", "nothere.yaml", "noise.yaml", "a_file", "empty.yaml", "good.yaml", LONG)),
    *((("pipeline", "show", name), "") for name in ("list.yaml", "empty.yaml", "good.yaml")),
    (("train", "good.yaml", "--out", "a_file"), "a_file is a file"),
    (("train", "good.yaml", "--out", "a_file/below"), "lies below one"),
    (("train", "good.yaml", "--out", ""), "not empty"),
    (("train", "good.yaml", "--out", LONG), "cannot be made"),
    (("train", "good.yaml", "threads=99999999999"), "threads: given 99999999999; it takes"),
    (("train", "good.yaml", "--force"), "--resume"),
    (("config", "good.yaml", "trackers=[x]"), "there are: tensorboard, trackio, wandb"),
    (("config", "good.yaml", "trackers=[{kind: trackio, mode: offline}]"), "mode: unused by a tracker of kind trackio"),
    (("config", "good.yaml", "steps=\0"), "not YAML"),
    (("config", "good.yaml", "seed=1e400"), "seed: given '1e400'"),
    (("config",), "a recipe is missing"),
    (("config", "good.yaml", "--schema"), "give it alone"),
    *((("show", place), "") for place in ("", "nothere", "empty", "noise.parquet", "a_file", "run", LONG)),
    *((("report", place), "") for place in ("", "nothere", "empty", "a_file", "run", LONG)),
    *((("report", place), "not text, so it is damaged") for place in ("noisy_run", "noisy_metrics")),
    (("show", "run", "--limit", "-1"), "greater than or equal to 0"),
    *((("data", "check", file), "") for file in ("", "nothere.jsonl", "folder.jsonl", "a_file", LONG)),
    (("eval", MODEL, "--data", "noise.jsonl"), "noise.jsonl, line 1"),
    (("eval", MODEL, "--data", "huge.jsonl"), "1e400 is too large a number"),
    (("data", "check", "family:"), "there are: arithmetic"),
    (("data", "check", "family:arithmetic", "family.count=99999999999999999999"), "lower count"),
    (("data", "check", "rows.jsonl", "limit=0"), "limit: given 0"),
    (("data", "chek"), "Did you mean 'check'?"),
    *((("check", model), "") for model in ("", "a_file", "noise.gguf", "empty", "adapter", LONG)),
    *((("check", model), "") for model in ("nursery:x", "wheel:")),
    (("check", MODEL, "--dtype", "float7"), "did you mean 'float64'?"),
    (("check", MODEL, "--template", "noise.jinja"), "cannot be read as UTF-8 text"),
    (("check", MODEL, "--template", "zero.jinja"), "division by zero"),
    (("check", MODEL, "--template", ""), "write auto, plain, or the path"),
    (("sample", MODEL, "hi", "-n", "99999999999999999999"), "n: given 99999999999999999999"),
    (("sample", MODEL, "hi", "-n", "0"), "greater than or equal to 1"),
    (("sample", MODEL, "hi", "--temperature", "nan"), "temperature: given nan"),
    (("sample", MODEL, "hi", "--temperature", "1e-300"), "the logits overflow"),
    (("sample", MODEL, "hi", "--max-tokens", "0"), "max_tokens: given 0"),
    (("sample", MODEL, "", "--raw"), "the prompt is empty"),
    (("sample", MODEL, "x" * 2000), "shorten the prompt"),
    (("sample", MODEL, "\ud800"), "refuses these messages"),
    (("sample", MODEL), "Missing argument 'PROMPT'"),
    (("chat", MODEL, "--top-p", "0"), "top_p: given 0.0"),
    (("eval", MODEL, "--data", "nothere.jsonl"), "no such file"),
    (("eval", MODEL, "--data", "rows.jsonl", "--save", "empty"), "--save: empty is a folder"),
    (("eval", MODEL, "--data", "rows.jsonl", "--save", "nowhere/items.json"), "lies in none"),
    (("eval", MODEL, "--data", "rows.jsonl", "data.family.count=0"), ""),
    (("export", MODEL, "a_file"), "is a file"),
    (("export", MODEL, "run"), "holds other files"),
    (("export", MODEL, "out", "--dtype", "x"), "unknown dtype"),
    (("export", MODEL, "out", "--merge"), "has no adapter to merge"),
    (("methods", "--have", ""), "there is no kind of feedback ''"),
    (("plan", "--want", "", "--have", "verifier"), "there is no behaviour ''"),
    (("plan", "--want", "correct", "--have", "verifier", "--budget", "1e9"), "has no unit"),
    (("plan", "--want", "correct", "--have", "verifier", "--model", "a_file"), "is not at hand"),
    (("explain", ""), "there is no method ''"),
    (("explain", "grpo", "more"), "unexpected extra argument"),
]  # fmt: skip


def run(arguments: tuple[str, ...]) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


@pytest.mark.parametrize(("arguments", "message"), CASES, ids=lambda value: " ".join(value)[:60] if value else "-")
def test_wrong_usage_is_told_in_a_sentence(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = sorted(folder.rglob("*"))
    code = run(arguments)
    errors = capsys.readouterr().err
    assert message in errors and "Traceback" not in errors
    assert errors.startswith(("burnish: ", "Usage: ")), errors
    assert code == 2
    left = [place for place in sorted(folder.rglob("*")) if place not in before and place.name not in ("runs", ".lock")]
    assert left == []  # nothing half made


@contextmanager
def refusing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Iterator[None]:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("burnish.view.report.read_run", fail)
        yield


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, "this user may not do that"),
        (errno.EROFS, "nothing can be written there"),
        (errno.ENOSPC, "is the disk full?"),
        (errno.EISDIR, "that is a folder"),
    ],
)
def test_what_the_file_system_refuses_is_told_with_advice(
    number: int, advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing(monkeypatch, OSError(number, os.strerror(number), "some/place")):
        assert run(("report", "run")) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("burnish: ") and "some/place" in errors and advice in errors


def test_a_closed_or_full_output_is_no_reason_for_a_traceback() -> None:
    for redirection, status in ((">&-", 2), ("> /dev/full", 1)):
        recipe = "good.yaml" if "full" in redirection else "nothere.yaml"
        code = f'PYTHONPATH="{ROOT}" exec "$0" -m burnish.cli config {recipe} {redirection}'
        done = subprocess.run(["bash", "-c", code, sys.executable], capture_output=True, text=True, check=False)
        assert done.returncode == status and done.stderr.startswith("burnish: ") and "Traceback" not in done.stderr


def test_too_little_memory_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing(monkeypatch, MemoryError("Unable to allocate 29.8 GiB")):
        assert run(("report", "run")) == 1
    assert "burnish: out of memory (Unable to allocate 29.8 GiB): ask for less at a time" in capsys.readouterr().err


def test_repeated_rows_are_a_note_and_not_a_python_warning(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("twice.jsonl").write_text('{"prompt": "1+1=", "answer": 2}\n' * 2)
    monkeypatch.setattr("sys.warnoptions", [])
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run(("eval", MODEL, "--data", "twice.jsonl", "max_tokens=2", "--dtype", "float32", "--json")) == 0
    shown = capsys.readouterr()
    assert (
        shown.err
        == "burnish: note: twice.jsonl: 1 of 2 rows repeat an earlier row (the first on line 2); all are kept\n"
    )
    with pytest.warns(UserWarning, match="1 of 2 rows repeat") as seen:
        read_tasks("twice.jsonl")
    assert [Path(warning.filename).name for warning in seen] == [Path(__file__).name]  # the user's own line
