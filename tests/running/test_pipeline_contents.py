"""What counts as a change of something outside of a pipeline: its content, and its name where nobody can look."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from burnish import InputError, show_pipeline
from burnish.running.pipelines import contents
from burnish.running.pipelines.contents import Contents
from tests.tiny import tiny_network, tiny_tokenizer


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_network("llama").save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    return folder


@pytest.fixture(autouse=True)
def work(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(models / "model", tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1+1=", "answer": "2"}\n')
    (tmp_path / "rewards.py").write_text(
        "def one(completions):\n    return 1\n\n\ndef two(completions):\n    return 2\n"
    )
    monkeypatch.chdir(tmp_path)


def key(model: object = "model", rewards: str = "rewards.py:one", data: str = "rows.jsonl") -> str:
    """The key of a run that takes a model, rows and a reward function."""
    spec = model if isinstance(model, dict) else {"path": model}
    recipe = {
        "method": "grpo",
        "model": spec,
        "data": {"path": data},
        "rewards": {"kind": "function", "function": rewards},
    }
    [step] = show_pipeline({"nodes": {"t": {"train": {"recipe": recipe}}}}, out="out")[1]
    assert step.resolved is not None
    return step.resolved.key


def test_a_name_does_not_count_and_a_content_does() -> None:
    before = key()
    shutil.copytree("model", "copy")
    shutil.copy("rows.jsonl", "same.jsonl")
    shutil.copy("rewards.py", "same.py")
    assert key("copy", "same.py:one", "same.jsonl") == before
    assert key(rewards="rewards.py:two") != before  # another function of the same file
    for file in ("config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"):
        content = Path("copy", file).read_bytes()
        Path("copy", file).write_bytes(content + b" ")
        assert key("copy") != before, file
        Path("copy", file).write_bytes(content)
    Path("copy", "README.md").write_text("a model card is not read")
    assert key("copy") == before


def test_templates_and_modules_count_by_their_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    Path("template.jinja").write_text("{{ messages[0].content }}")
    before = key({"path": "model", "template": "template.jinja"}, "rewards:one")
    assert before == key({"path": "model", "template": "template.jinja"}, "rewards.py:one")
    Path("template.jinja").write_text("{{ messages[0]['content'] }}")
    assert key({"path": "model", "template": "template.jinja"}, "rewards:one") != before
    with pytest.raises(InputError, match="no file template.jinjaa; did you mean 'template.jinja'"):
        key({"path": "model", "template": "template.jinjaa"})
    with pytest.raises(InputError, match="'nowhere.rewards:one' cannot be found"):
        key(rewards="nowhere.rewards:one")


def test_what_cannot_be_looked_into_counts_by_its_name() -> None:
    keys = {key(name) for name in ("nursery:S", "nursery:M", "nursery:arithmetic-S", "wheel:some-model", "an/id", "id")}
    assert len(keys) == 6


def test_an_adapter_in_the_place_of_a_model_is_told_with_the_way_out() -> None:
    Path("adapter").mkdir()
    Path("adapter/adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="model.path: adapter is an adapter: give its base as the model's path"):
        key("adapter")
    with pytest.raises(InputError, match="model.adapter.path: model is not an adapter: it has no adapter_config.json"):
        key({"path": "model", "adapter": {"path": "model"}})
    Path("empty").mkdir()
    with pytest.raises(InputError, match="empty is not a model: it has no config.json"):
        key("empty")


def test_large_files_that_stay_as_they_are_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("large")
    file.write_bytes(b"x" * (3 << 20))
    now = contents.time.time
    first = Contents(Path("memory.json"))
    first.file(file)
    first.save()
    assert not Path("memory.json").exists()  # it changed a moment ago: its times would not tell another change
    monkeypatch.setattr(contents.time, "time", lambda: now() + 10)
    found = first.file(file)
    first.save()
    read = []
    digest = contents.hashlib.file_digest
    monkeypatch.setattr(contents.hashlib, "file_digest", lambda *a: read.append(a) or digest(*a))
    later = Contents(Path("memory.json"))
    assert later.file(file) == found and not read
    file.write_bytes(b"y" * (3 << 20))
    assert later.file(file) != found and len(read) == 1
    Path("memory.json").write_text("{")
    assert Contents(Path("memory.json")).file(file) == later.file(file)  # nothing but time is lost
