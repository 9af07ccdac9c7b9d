"""What a result says of its rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import burnish
from burnish.studies.bench import floor
from burnish.studies.bench.results import KEYS, load_result
from burnish.studies.bench.spec import BENCHMARKS, Work
from tests.studies.made_up import made_up

ROUNDS = [{"ours": 10.0, "trl": 5.0}, {"ours": 30.0, "trl": 10.0}, {"ours": 12.0, "trl": 3.0}]


def test_medians_and_the_median_of_the_rounds_own_ratios() -> None:
    found = made_up("grpo-short", ROUNDS)
    assert (found["ours"], found["peer"], found["ratio"]) == (12.0, 5.0, 3.0)  # of 2, 3 and 4
    assert found["spread"] == [10.0, 30.0] and found["peers"]["trl"]["spread"] == [3.0, 10.0]
    assert found["runs"] == ROUNDS and found["peak_memory_peer"] == 1_000_000_000


@pytest.mark.parametrize(("name", "ratio"), [("grpo-short", 2.0), ("grpo-toy", 0.5), ("memory", 0.5)])
def test_a_ratio_above_1_means_that_ours_is_better_whatever_the_unit(name: str, ratio: float) -> None:
    assert made_up(name, [{"ours": 4.0, "trl": 2.0}])["ratio"] == ratio


def test_the_strongest_peer_is_the_one_at_the_top() -> None:
    found = made_up("engine-group", [{"ours": 300.0, "generate": 100.0, "vllm": 200.0}])
    assert (found["peer_name"], found["peer"], found["ratio"]) == ("vllm", 200.0, 1.5)
    assert found["peers"]["generate"]["ratio"] == 3.0
    targets = {row["target"]: row["met"] for row in found["targets"]}
    assert targets == {"peers.generate.ratio at least 2": True, "peers.vllm.ratio at least 1.3": True}


def test_a_peer_that_was_not_measured_has_no_target_and_is_named() -> None:
    found = made_up("engine-group", [{"ours": 150.0, "generate": 100.0}], absent={"vllm": "there is none"})
    assert [row["target"] for row in found["targets"]] == ["peers.generate.ratio at least 2"]
    assert found.missed == ["peers.generate.ratio at least 2"] and "vllm: not measured, there is none" in str(found)


def test_the_json_begins_with_the_promised_keys_and_is_read_back(tmp_path: Path) -> None:
    found = made_up("grpo-short", ROUNDS, floor={"seconds": 2.0, "phases": {}}, seconds=3.0)
    assert tuple(json.loads(found.json()))[: len(KEYS)] == KEYS
    found.save(tmp_path / "result.json")
    again = load_result(tmp_path / "result.json")
    assert again.values == json.loads(found.json()) and again["floor_ratio"] == 1.5
    (tmp_path / "bad.json").write_text("[")
    with pytest.raises(burnish.InputError, match=r"bad\.json is no result"):
        load_result(tmp_path / "bad.json")


# ---------------------------------------------------------------- the floor


def test_a_shared_prompt_counts_once_and_an_answer_for_each_sample() -> None:
    work = Work("grpo", prompts=2, samples=3, prompt_tokens=10, new_tokens=4)
    prefill, decode, learn = floor.phases(work, vocabulary=1000)
    assert (prefill.tokens, prefill.projected, prefill.rows) == (20, 2, 20)  # the first token comes with it
    assert (decode.tokens, decode.projected, decode.rows) == (18, 18, 6)
    assert (learn.tokens, learn.projected, learn.backward) == (20 + 24, 24, True)
    assert learn.head_rows == 24 and floor.phases(work, vocabulary=1 << 23)[2].head_rows == 2


def test_the_best_rate_of_all_rounds_gives_the_floor() -> None:
    counted = [{"name": "decode", "flops": 100}, {"name": "learn", "flops": 300}]
    found = floor.seconds(counted, [[10.0, 100.0], [20.0, 50.0]])
    assert found["seconds"] == 100 / 20 + 300 / 100 and found["phases"]["learn"]["flops_per_second"] == 100.0


def test_every_benchmark_of_the_table_is_there_with_its_targets() -> None:
    table = {row["name"]: row["targets"] for row in burnish.list_benchmarks().to_json()}
    assert list(table) == list(BENCHMARKS) and all(table.values())
    assert table["grpo-short"] == "ratio at least 3; floor_ratio at most 1.6" and "learner: forward" in repr(
        burnish.list_benchmarks()
    )
