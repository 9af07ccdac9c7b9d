"""The command line: exit statuses, messages, and no torch where none is needed."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish import __version__
from burnish.cli import app, main
from burnish.cli.app import printable
from burnish.methods.registry import METHODS
from burnish.running.directory import fresh_directory
from burnish.sampling.spec import SamplingSpec
from tests.tiny import tiny_network, tiny_tokenizer
from tests.view.runs import write_run

ROOT = Path(__file__).parents[1]
RECIPE = str(ROOT / "recipes" / "demo.yaml")
COMMANDS = (
    "train",
    "eval",
    "sample",
    "chat",
    "show",
    "report",
    "check",
    "export",
    "config",
    "methods",
    "plan",
    "explain",
    "data",
    "pipeline",
)


def burnish(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from burnish.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


def status(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a command run in this process, through the entry."""
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    out, errors = capsys.readouterr()
    return int(exit.value.code or 0), out, errors


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny random chat model as an ordinary folder."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_network("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


# ---------------------------------------------------------------- usage and errors


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0 and "Usage:" in result.output


def test_the_commands_that_need_no_model_import_no_torch() -> None:
    code = (
        "import sys; from burnish.cli import main\n"
        f"for command in (['config', {RECIPE!r}], ['methods'], ['explain', 'grpo'], ['train', 'nothere.yaml']):\n"
        "    try: main(command)\n"
        "    except SystemExit: pass\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "No such command 'trian'"),
        (["train", RECIPE, "--ouT", "x"], "No such option"),
        (["train", "nothere.yaml"], "nothere.yaml: no such file"),
        (["train", RECIPE, "sample_per_prompt=3"], "did you mean samples_per_prompt?"),
        (["train", RECIPE, "optimizer.lr=fast"], "optimizer.lr: given 'fast'; it takes number"),
        (["config"], "config: a recipe is missing, such as"),
        (["config", RECIPE, "--schema"], "--schema is the same for every recipe; give it alone"),
        (["config", RECIPE, "method=grop"], "there is no method 'grop'; did you mean 'grpo'?"),
        (["methods", "--have", "verifer"], "did you mean 'verifier'?"),
        (["explain", "grop"], "there is no method 'grop'; did you mean 'grpo'?"),
        (["show", "nothere"], "nothere: no such file or run directory"),
        (["report", "nothere"], "no such run directory"),
        (["sample", "m", "hi", "--temperature", "0", "--top-k", "3"], "top_k does nothing at temperature 0"),
        (["sample", "m", "hi", "--top-p", "2"], "top_p: given 2.0; it takes number > 0 and <= 1"),
        (["eval", "m", "--data", "family:arithmetc"], "did you mean 'arithmetic'?"),
        (["eval", "m", "max_token=3"], "there is no key max_token; did you mean max_tokens?"),
        (["data", "check", "nothere.jsonl"], "nothere.jsonl"),
    ],
)
def test_wrong_usage_ends_with_status_2_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, errors = status(capsys, *arguments)
    assert code == 2 and out == "" and message in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("command", ["check", "export", "chat"])
def test_a_model_that_is_not_there_ends_with_status_2(capsys: pytest.CaptureFixture[str], command: str) -> None:
    arguments = [command, "./no/model", *(["out"] if command == "export" else [])]
    code, _, errors = status(capsys, *arguments)
    assert code == 2 and "does not exist" in errors


def test_the_process_itself_ends_with_the_status() -> None:
    done = burnish("config", RECIPE, "stepps=3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "burnish: command line: there is no key stepps; did you mean steps?\n"
    assert burnish("--version").stdout.strip() == __version__


def test_an_unexpected_exception_keeps_its_traceback() -> None:
    code = (
        "import burnish.running.catalogue as c\n"
        "def broken(*a, **b): raise ZeroDivisionError('inside')\n"
        "c.config = broken\n"
        "from burnish.cli import main; main(['config', 'x.yaml'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" in done.stderr and "inside" in done.stderr


def test_an_interrupt_ends_with_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("burnish.running.catalogue.config", interrupted)
    code, _, errors = status(capsys, "config", "x.yaml")
    assert code == 130 and "Traceback" not in errors


def test_escape_sequences_of_a_model_do_not_reach_the_terminal() -> None:
    assert printable("a\tb\n\x1b[2Jc\u202e é") == "a\tb\n\\x1b[2Jc\\u202e é"


# ---------------------------------------------------------------- configuration and methods


def test_config_prints_a_file_that_loads_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["optimizer.lr=1e-4", "seed=3"]
    _, text, _ = status(capsys, "config", RECIPE, *changes, "--plain")
    assert "lr: 0.0001" in text and "seed: 3" in text and "#" not in text
    (tmp_path / "again.yaml").write_text(status(capsys, "config", RECIPE, *changes)[1])
    assert status(capsys, "config", str(tmp_path / "again.yaml"), "--plain") == (0, text, "")


def test_config_prints_one_schema_for_every_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = status(capsys, "config", "--schema")
    assert code == 0 and json.loads(text)["properties"]["method"]["enum"] == list(METHODS)


def test_methods_are_listed_and_chosen_by_what_one_has(capsys: pytest.CaptureFixture[str]) -> None:
    _, everything, _ = status(capsys, "methods")
    assert all(name in everything for name in METHODS)
    _, chosen, _ = status(capsys, "methods", "--have", "demonstrations")
    assert "sft" in chosen and "grpo" not in chosen
    assert "No method learns from teacher-text" in status(capsys, "methods", "--have", "teacher-text")[1]


@pytest.mark.parametrize("method", ["sft", "grpo", "gspo"])
def test_explain_gives_idea_source_and_keys(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = status(capsys, "explain", method)
    assert code == 0 and METHODS[method].summary in text and "optimizer.lr" in text
    assert json.loads(status(capsys, "explain", method, "--schema")[1])["title"]


# ---------------------------------------------------------------- models


def test_check_reports_the_gap_and_what_is_estimated(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = status(capsys, "check", model, "--dtype", "float32")
    assert code == 0
    stops = "stop tokens: <|im_end|>"
    for part in ("Prefix-preserving", stops, "prefix-shared attention (2 layers)", "max ", "99.9th percentile"):
        assert part in text
    assert text.count("(estimated") == 2
    code, text, _ = status(capsys, "check", model, "--dtype", "float32", "--json")
    found = json.loads(text)
    assert found["passed"] and 0 < found["gap"]["largest"] < 1e-4 and found["gap"]["tokens"] > 50


def test_check_fails_where_sampler_and_learner_disagree(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise E5 broken on purpose: the learner scores with other weights than the engine sampled with."""
    import torch

    from burnish.learning import scoring
    from burnish.studies import check

    def moved(model, *arguments, **options):
        with torch.no_grad():
            model.head.projection.weight.mul_(1.01)
        return scoring.score(model, *arguments, **options)

    monkeypatch.setattr(check, "score", moved)
    code, _, errors = status(capsys, "check", model, "--dtype", "float32")
    assert code == 1 and "promise E5 is broken" in errors


def test_samples_are_repeatable_and_raw_text_is_continued(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sample", model, "a", "b", "-n", "2", "--max-tokens", "5", "--dtype", "float32"]
    _, first, _ = status(capsys, *arguments)
    assert first.count("--- prompt") == 4
    assert status(capsys, *arguments)[1] == first
    assert status(capsys, *arguments, "--raw")[1] != first


@pytest.mark.parametrize("end", ["/exit\nnever\n", ""])
def test_a_chat_goes_on_until_exit(
    model: str, end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n\nand\n" + end))
    code, text, _ = status(capsys, "chat", model, "--max-tokens", "4", "--dtype", "float32")
    assert code == 0 and text.count("[cut: length]") == 2


def test_a_conversation_keeps_its_tokens_and_extends_its_session(model: str) -> None:
    from burnish.running.talk import Conversation, Speaker, model_spec

    speaker = Speaker(model_spec(model, dtype="float32"))
    params = speaker.params(SamplingSpec(max_tokens=6))
    talk = Conversation(speaker, params, system="be kind")
    first = talk.say("hello").tokens.tolist()
    path = list(talk.path)
    second = talk.say("and now?").tokens.tolist()
    assert talk.path[: len(path)] == path and path[-len(first) :] == first and talk.path[-len(second) :] == second
    assert [m["role"] for m in talk.messages] == ["system", "user", "assistant", "user", "assistant"]
    [fresh] = speaker.engine.sample_sync(talk.path[: -len(second)], params, seed=0, task=1)
    assert fresh.tokens.tolist() == second  # the same as sampling from the whole conversation anew
    assert speaker.engine.metrics()["tokens_reused"] > 0


def test_eval_prints_shares_with_intervals(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"1+{i}", "answer": str(1 + i)}) + "\n" for i in range(5)))
    saved = tmp_path / "items.json"
    arguments = ["eval", model, "--data", str(rows), "max_tokens=3", "--dtype", "float32"]
    code, text, _ = status(capsys, *arguments, "--save", str(saved))
    assert code == 0 and re.search(r"accuracy: 0\.0 % \(95 %: 0\.0 to \d+\.\d\)", text) and "5 items" in text
    assert len(json.loads(saved.read_text())["items"]) == 5
    summary = json.loads(status(capsys, *arguments, "--json")[1])
    assert summary["items"] == 5 and summary["accuracy"]["estimate"] == 0


def test_export_writes_a_folder_that_loads(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(capsys, "export", model, str(tmp_path / "out"), "--dtype", "bfloat16")[0] == 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


# ---------------------------------------------------------------- runs


def test_training_twice_makes_two_runs_and_tells_of_them(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(
        f"method: grpo\nsteps: 1\nprompts_per_step: 2\nsamples_per_prompt: 2\nmodel: {{path: {model}}}\n"
        "data: {family: {count: 4}}\nrewards: numeric\nsampling: {max_tokens: 3}\n"
    )
    code, text, _ = status(capsys, "train", "tiny.yaml", "seed=5")
    assert code == 0 and "step 1/1" in text and text.splitlines()[-1] == "run: runs/tiny-5"
    code, text, _ = status(capsys, "train", "tiny.yaml", "seed=5", "--json")
    events = [json.loads(line) for line in text.splitlines()]
    assert events[-1]["event"] == "result" and events[-1]["out"] == "runs/tiny-5-2"
    run = Path(events[-1]["out"])
    assert status(capsys, "config", str(run / "config.yaml"), "--plain")[1] == (run / "config.yaml").read_text()
    monkeypatch.setenv("COLUMNS", "160")
    code, text, _ = status(capsys, "show", str(run), "--group", "0", "--limit", "0")
    assert code == 0 and "member 1" in text and "policy" in text and "advantage" in text
    assert "there is no group 9" in status(capsys, "show", str(run), "--group", "9")[2]
    code, _, errors = status(capsys, "train", "tiny.yaml", "--out", str(run))
    assert code == 2 and "already holds a run" in errors


def test_a_refused_run_leaves_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text("method: sft\nmodel: {path: ./none}\ndata: {path: none.jsonl}\n")
    assert status(capsys, "train", "r.yaml")[0] == 2
    assert list(Path("runs").iterdir()) == []


def test_fresh_directories_are_numbered(tmp_path: Path) -> None:
    names = [fresh_directory(tmp_path / "runs", "a").name for _ in range(3)]
    assert names == ["a", "a-2", "a-3"]


def test_report_prints_where_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    code, text, _ = status(capsys, "report", str(run))
    assert code == 0 and Path(text.strip()).is_file()


def test_data_check_shows_the_first_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"q": "1+1", "answer": 2}\n')
    code, text, _ = status(capsys, "data", "check", str(file), "prompt=q")
    assert code == 0 and text.startswith(f"{file}: 1 row; format prompt, told by the columns q; read for prompts\n")
    assert text.endswith("1 row can be used, 0 cannot; 0 with a warning\nthe first:\nprompt: 1+1\nanswer: 2\n")
    code, text, _ = status(capsys, "data", "check", str(file))
    assert code == 1 and f"{file}, line 1: no column 'prompt'" in text and "the first" not in text
    code, _, errors = status(capsys, "data", "check", str(tmp_path / "none.jsonl"))
    assert code == 2 and "no such file; did you mean 'rows.jsonl'?" in errors


def test_data_check_renders_rows_for_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"prompt": "1+1=", "completion": "2"}, {"prompt": "2+2=", "completion": "4" * 40}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = ("--model", "nursery:arithmetic-S")
    assert status(capsys, "data", "check", str(file), *model)[0] == 0
    code, text, _ = status(capsys, "data", "check", str(file), *model, "--max-tokens", "20", "--json")
    report = json.loads(text)
    assert code == 1 and report["kinds"]["long"]["first"][0]["row"] == f"{file}, line 2"
    assert status(capsys, "data", "check", str(file), *model, "--max-tokens", "20", "--prompts")[0] == 0
    code, _, errors = status(capsys, "data", "check", str(file), "--max-tokens", "20")
    assert code == 2 and "name the model as well (--model)" in errors
    assert status(capsys, "data", "check", str(file), "--prompts", "--demonstrations")[0] == 2
    assert status(capsys, "data", "check", "family:arithmetic", "family.count=5", *model)[0] == 0


# ---------------------------------------------------------------- documents


def _shown_commands() -> list[str]:
    """Every line of the documents' code blocks that begins with `burnish `."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    lines = [line for document in documents for line in document.read_text(encoding="utf-8").splitlines()]
    blocks = [line.strip() for line in lines if re.match(r"(    |\t|)(\$ )?burnish [a-z]", line)]
    return sorted({block.removeprefix("$ ") for block in blocks})


@pytest.mark.parametrize("line", _shown_commands())
def test_every_command_in_the_documents_exists_with_its_options(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    command = " ".join(words[: 2 if words[0] in ("data", "pipeline", "bench", "env", "nursery") else 1])
    help_text = CliRunner().invoke(app, [*command.split(), "--help"])
    assert help_text.exit_code == 0, line
    for option in (word.partition("=")[0] for word in words if word.startswith("-")):
        assert re.search(rf"(^|[\s,]){re.escape(option)}\b", help_text.output), f"{line}: no option {option}"


def test_the_documents_show_commands() -> None:
    assert any(line.startswith("burnish train") for line in _shown_commands())
