"""Rows from every kind of file, and from what the `datasets` library saved; bad files are refused with the fix."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from burnish.errors import InputError, Note
from burnish.tasks import DataSpec, Task, build_tasks
from burnish.tasks.readers import Reading, read_origin
from burnish.tasks.rows import open_rows

USER = {"role": "user", "content": "Light on!"}
CALL = {
    "role": "assistant",
    "tool_calls": [{"type": "function", "function": {"name": "light", "arguments": {"on": True}}}],
}
TALK = [USER, CALL, {"role": "tool", "name": "light", "content": "done"}, {"role": "assistant", "content": "It is on."}]
ROWS = [{"prompt": "a", "answer": 1}, {"prompt": "b", "answer": 2}, {"prompt": "c", "answer": 3}]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `datasets` caches stays in the test's folder, and it asks no hub."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    yield


def reading(**keys: Any) -> Reading:
    return read_origin(DataSpec.model_validate(keys), want=None)


def texts(tasks: list[Task]) -> list[str]:
    return [task.text for task in tasks]


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def hub_folder(path: Path) -> Path:
    """A folder laid out like a data set of the hub: two configurations, two splits, no script."""
    path.mkdir()
    for name, words in (("plain", "ab"), ("shouted", "AB")):
        (path / name).mkdir()
        for split, word in zip(("train", "test"), words, strict=True):
            (path / name / f"{split}.jsonl").write_text(json.dumps({"prompt": word, "answer": 1}) + "\n")
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n"
        + "".join(f"  - split: {split}\n    path: {name}/{split}.jsonl\n" for split in ("train", "test"))
        for name in ("plain", "shouted")
    )
    (path / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    return path


# ---------------------------------------------------------------- read


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_a_json_array_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf \n" + json.dumps(ROWS, indent=1).encode())
    found = reading(path=str(tmp_path / name))
    assert texts(found.tasks) == ["a", "b", "c"] and str(found.tasks[1].place) == f"{tmp_path / name}, item 2"


def test_the_same_rows_read_alike_from_every_kind_of_file(tmp_path: Path) -> None:
    rows = [
        {"messages": TALK, "tools": json.dumps([{"name": "light", "parameters": {}}])},
        {"messages": TALK[:1] + TALK[3:]},
    ]
    lines, array = tmp_path / "rows.jsonl", tmp_path / "rows.json"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    array.write_text(json.dumps(rows))
    table = parquet(tmp_path / "rows.parquet", rows)
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "saved"))
    found = [reading(path=str(path)) for path in (lines, array, table, tmp_path / "saved")]
    assert all(each.faults == [] for each in found)
    shown = [[(t.messages, t.demonstration, t.tools) for t in each.tasks] for each in found]
    assert shown[1:] == shown[:-1]
    assert shown[0][0][1] == tuple(TALK[1:])
    assert [str(each.tasks[1].place).rpartition(", ")[2] for each in found] == ["line 2", "item 2", "row 2", "row 2"]


def test_parquet_values_become_json_and_bytes_are_left_out(tmp_path: Path) -> None:
    row = {
        "prompt": "a", "day": datetime.date(2026, 1, 2), "cost": decimal.Decimal("1.50"), "image": b"\x00",
        "picture": {"bytes": b"\x00", "path": "p"}, "none": None, "list": [1.5, None],
    }  # fmt: skip
    found = reading(path=str(parquet(tmp_path / "rows.parquet", [row])))
    assert found.tasks[0].columns == {
        "prompt": "a", "day": "2026-01-02", "cost": "1.50", "none": None, "list": [1.5, None],
    }  # fmt: skip
    assert found.told.endswith("columns of bytes, left out: image, picture")


def test_a_number_that_is_none_is_a_bad_row_of_parquet(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", [{"prompt": "a", "x": 1.0}, {"prompt": "b", "x": float("nan")}])
    [fault] = reading(path=str(path)).faults
    assert str(fault) == f"{path}, row 2: 'x' holds nan, which is not JSON; write null or a number"


def test_a_saved_folder_is_read_with_its_splits(tmp_path: Path) -> None:
    one = datasets.Dataset.from_list(ROWS)
    one.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict(train=one, test=datasets.Dataset.from_list(ROWS[:1])).save_to_disk(str(tmp_path / "two"))
    assert texts(reading(path=str(tmp_path / "one")).tasks) == ["a", "b", "c"]
    assert texts(reading(path=str(tmp_path / "two"), split="test").tasks) == ["a"]
    with pytest.raises(InputError, match=r"holds several splits; name one in data.split: train, test"):
        reading(path=str(tmp_path / "two"))
    with pytest.raises(InputError, match=r"has no split 'tets'; did you mean 'test'\?"):
        reading(path=str(tmp_path / "two"), split="tets")
    with pytest.raises(InputError, match="holds one data set without splits"):
        reading(path=str(tmp_path / "one"), split="test")


def test_a_column_of_pictures_is_left_out_unread(tmp_path: Path) -> None:
    features = datasets.Features({"prompt": datasets.Value("string"), "image": datasets.Image(decode=True)})
    rows = {"prompt": ["a"], "image": [{"bytes": b"no picture", "path": None}]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "saved"))
    found = reading(path=str(tmp_path / "saved"))
    assert found.tasks[0].columns == {"prompt": "a"} and found.told.endswith("left out: image")


def test_a_folder_like_the_hubs_is_read_by_configuration_and_split(tmp_path: Path) -> None:
    hub = str(hub_folder(tmp_path / "hub"))
    found = [
        texts(reading(hub=hub, name=name, split=split).tasks)
        for name in ("plain", "shouted") for split in ("train", "test")
    ]  # fmt: skip
    assert found == [["a"], ["b"], ["A"], ["B"]]
    relative = build_tasks(DataSpec(hub="hub", name="plain", split="test"), base=tmp_path)
    assert texts(relative) == ["b"]
    assert datasets.is_progress_bar_enabled()


# ---------------------------------------------------------------- refused


def test_a_hub_that_cannot_answer_is_told_with_what_to_do(tmp_path: Path) -> None:
    hub = str(hub_folder(tmp_path / "hub"))
    with pytest.raises(
        InputError, match=r"data.hub: .*configuration plian \(ValueError: BuilderConfig 'plian' not fou"
    ):
        reading(hub=hub, name="plian", split="train")
    with pytest.raises(InputError, match="data.revision: .* is a folder, which has no revisions"):
        reading(hub=hub, revision="main")
    with pytest.raises(InputError, match=r"holds several splits; name one in data.split: train, test"):
        reading(hub=hub, name="plain")
    with pytest.raises(InputError, match=r"data.hub: the hub could not be reached for no-such/data, .*give its folder"):
        reading(hub="no-such/data")


def test_without_the_library_its_installation_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "state.json").write_text("{}")
    code = (
        "import sys; sys.modules['datasets'] = None\n"
        "from burnish.tasks import DataSpec, build_tasks\n"
        "from burnish.errors import InputError\n"
        "try: build_tasks(DataSpec(path='saved'))\n"
        "except InputError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert "pip install 'burnish[datasets]'" in done.stdout


def test_reading_a_file_imports_no_library_for_data_sets(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n')
    code = (
        "import sys\nfrom burnish.tasks import DataSpec, build_tasks\n"
        "build_tasks(DataSpec(path='rows.jsonl'))\nprint('datasets' in sys.modules, 'torch' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b'[{"prompt": "a"},', r"a.json, line 1, column \d+: the array is not JSON"),
        ("a.json", b'[{"prompt": NaN}]', "NaN is not JSON"),
        ("a.json", b'[{"prompt": "\xe9"}]', "byte 14 is not UTF-8"),
        ("a.json", b"[]", "the file has no rows"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.parquet", b"prompt,a", "not a Parquet file that can be read"),
        ("a.txt", b"a", "rows are read from JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_rows(DataSpec(path=str(tmp_path / name)))


def test_an_item_of_an_array_that_is_no_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"prompt": "a"}, 3, {"prompt": "\\ud800"}]')
    found = reading(path=str(tmp_path / "a.json"))
    assert [str(f.place).rpartition(", ")[2] for f in found.faults] == ["item 2", "item 3"]
    assert [f.kind for f in found.faults] == ["malformed", "malformed"]


def test_a_folder_and_a_missing_file_say_what_to_give(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, r"no data set that `save_to_disk` wrote \(there is no state.json\)"),
        (tmp_path / "none.parquet", "no such file; check data.path"),
    ):
        with pytest.raises(InputError, match=message):
            reading(path=str(path))
    parquet(tmp_path / "rows.parquet", ROWS)
    with pytest.raises(InputError, match=r"it holds rows.parquet: give one of them, or the folder as data.hub"):
        reading(path=str(tmp_path))
    with pytest.raises(InputError, match=r"no such file; did you mean 'rows.parquet'\?"):
        reading(path=str(tmp_path / "row.parquet"))
    with pytest.raises(InputError, match=r"data.split: .* is a file, which has no splits"):
        reading(path=str(tmp_path / "rows.parquet"), split="train")
    (tmp_path / "rows.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"give its file .*rows.jsonl"):
        reading(path=str(tmp_path))


def test_bad_rows_are_refused_or_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": ""}\nno\n{"prompt": "b"}\n{"prompt": 1}\n' + '{"prompt": ""}\n' * 4)
    with pytest.raises(InputError) as error:
        build_tasks(DataSpec(path=str(path)))
    lines = str(error.value).splitlines()
    assert [line.split(": ")[0] for line in lines[:5]] == [f"{path}, line {n}" for n in (2, 3, 5, 6, 7)]
    assert lines[5:] == ["and 2 more rows; `burnish data check` lists them"]
    with pytest.warns(
        Note, match=r"7 of 9 rows cannot be used and are left out .*5 empty \(first .*line 2\), 1 malformed"
    ):
        assert texts(build_tasks(DataSpec(path=str(path), on_bad_row="skip", limit=5))) == ["a", "b"]
    path.write_text('{"prompt": ""}\n')
    with pytest.raises(InputError, match="none of the 1 rows can be used: 1 empty"):
        build_tasks(DataSpec(path=str(path), on_bad_row="skip"))


def test_a_value_that_python_has_nothing_for_is_a_bad_row_of_parquet(tmp_path: Path) -> None:
    texts = pa.array([b"good", b"\xff\xfe", b"fine"], pa.binary()).cast(pa.string(), safe=False)
    far = pa.array([0, 0, 1 << 62], pa.int64()).cast(pa.timestamp("ms"))
    pq.write_table(pa.table({"prompt": texts, "when": far}), tmp_path / "rows.parquet")
    reading = read_origin(DataSpec(path=str(tmp_path / "rows.parquet")), want="prompts")
    assert [task.text for task in reading.tasks] == ["good"]
    assert [fault.kind for fault in reading.faults] == ["malformed", "malformed"]
