"""Tasks of lm-eval asked of our model: local data, its scores with our intervals, the same as ours where both ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from lm_eval.api.instance import Instance

from burnish.errors import InputError
from burnish.running.talk import Speaker
from burnish.studies.harness_model import HarnessModel
from burnish.studies.measures import result_of, results_of
from burnish.studies.suite import evaluate_tasks

ROWS = [
    {"prompt": f"{a}+{b}=", "answer": str(a + b), "choices": [str(a + b), str(a + b + 1)], "gold": 0}
    for a, b in ((12, 34), (50, 17), (23, 41), (61, 28), (35, 35), (19, 47))
]
TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
doc_to_text: "{{{{prompt}}}}"
{rest}
metadata: {{version: 1.0}}
"""
REST = {
    "sums": """\
output_type: generate_until
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 6}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]""",
    "choices": """\
output_type: multiple_choice
target_delimiter: ""
doc_to_choice: choices
doc_to_target: gold
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]""",
    "texts": """\
output_type: loglikelihood_rolling
doc_to_target: "{{prompt}}{{answer}}"
metric_list: [{metric: byte_perplexity, aggregation: weighted_perplexity, higher_is_better: false}]""",
}


def test_tasks_of_lm_eval_are_asked_of_our_model_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, rest in REST.items():
        text = TASK.format(name=name, rows=rows, rest=rest)
        whole = text.replace('doc_to_text: "{{prompt}}"', 'doc_to_text: ""')
        Path(f"{name}.yaml").write_text(whole if name == "texts" else text)
    speaker = Speaker("nursery:arithmetic-S", dtype="float32")
    names = [f"lm-eval:{name}.yaml" for name in REST]

    asked = evaluate_tasks(speaker, names[0], training_data=[rows])
    sums = asked[names[0]]
    ours = evaluate_tasks(speaker, str(rows), max_tokens=6, correct={"kind": "exact"})[str(rows)]
    assert [item.scores["exact_match"] for item in sums.items] == [float(item.correct or 0) for item in ours.items]
    assert [item.tokens for item in sums.items] == [item.tokens for item in ours.items]
    row = result_of(sums, "exact_match")
    assert row.n == 6 and row.method == "wilson" and row.sampling["generation_kwargs"]["max_gen_toks"] == 6
    assert row.value > 0.5 and sums.notes["lm_eval"] and "lm-eval's prompt of sums" in row.template
    assert asked.contamination[names[0]].counts["same task"] == 6, "whatever a template puts around the prompt"

    found = evaluate_tasks(speaker, names[1:], template="plain")
    assert all("without a chat template" in row["template"] for row in found.results())
    choices = found[names[1]]
    assert [row.metric for row in results_of(choices)] == ["acc"], "nothing was sampled: no length, no truncation"
    for item, given in zip(choices.items, ROWS, strict=True):
        scores = [_logprob(speaker, str(given["prompt"]), choice) for choice in given["choices"]]  # type: ignore[union-attr]
        assert item.scores["acc"] == float(scores[0] >= scores[1])

    texts = {row.metric: row for row in results_of(found[names[2]])}
    encoded = [f"{row['prompt']}{row['answer']}" for row in ROWS]
    begin = speaker.model.tokenizer.bos_token or speaker.model.tokenizer.eos_token
    total = sum(_logprob(speaker, begin, text) for text in encoded)
    expected = torch.exp(torch.tensor(-total / sum(len(text.encode()) for text in encoded), dtype=torch.float64))
    assert texts["byte_perplexity"].value == pytest.approx(float(expected), rel=1e-4)

    model = HarnessModel(speaker)
    prompt = model.apply_chat_template([{"role": "user", "content": "12+34="}])
    requests = [Instance("generate_until", {}, (prompt, {"until": u, "max_gen_toks": 6}), 0) for u in ([], ["6", "!"])]
    answer, cut = model.generate_until(requests)
    assert answer == "46" and cut == "4", "an answer ends before the first text that ends one"

    with pytest.raises(InputError, match=r"there is no file absent\.yaml"):
        evaluate_tasks(speaker, "lm-eval:absent.yaml")
    rows.unlink()
    Path("gone.yaml").write_text(TASK.format(name="gone", rows=tmp_path / "gone.jsonl", rest=REST["sums"]))
    with pytest.raises(InputError, match="its data must be in local files"):
        evaluate_tasks(speaker, "lm-eval:gone.yaml")


def _logprob(speaker: Speaker, context: str, text: str) -> float:
    """By the unmodified model."""
    tokenizer = speaker.model.tokenizer
    before = tokenizer(context)["input_ids"]
    ids = [*before, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    logprobs = torch.log_softmax(speaker.model.own_logits(torch.tensor(ids)).double(), -1)
    return float(sum(logprobs[i - 1, ids[i]] for i in range(len(before), len(ids))))


def test_without_the_library_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'burnish\[lm-eval\]'"):
        evaluate_tasks("nursery:arithmetic-S", "lm-eval:arc_easy")
