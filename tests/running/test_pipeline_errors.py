"""What is told of a pipeline that cannot work: file, line, node, key and fix, before anything runs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from burnish import InputError
from burnish.pipelines import run_pipeline, show_pipeline

HEAD = """\
nodes:
  a: {train: {recipe: sft.yaml}}
  lora: {train: {recipe: sft.yaml, set: {model.adapter.rank: 2}}}
  draw: {sample: {model: "@a", data: rows.jsonl, samples_per_prompt: 2}}
"""
SFT = """\
method: sft
steps: 20
model: {path: "nursery:arithmetic-S"}
data: {path: demonstrations.jsonl}
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sft.yaml").write_text(SFT)
    Path("rows.jsonl").write_text('{"prompt": "1+1=", "answer": "2"}\n')
    Path("demonstrations.jsonl").write_text('{"prompt": "1+1=", "completion": "2"}\n')


def pairs(table: str) -> list[tuple[str, str]]:
    """What is given, and indented below it what is told."""
    lines = table.strip("\n").splitlines()
    return [(given, message.strip()) for given, message in zip(lines[::2], lines[1::2], strict=True)]


def told(text: str, *overrides: str) -> str:
    """What is wrong, as `show` tells it; nothing is made on the way."""
    Path("p.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        show_pipeline("p.yaml", out="out", overrides=overrides)
    assert not Path("out").exists()
    return str(error.value)


NODES = """
b: {trian: {recipe: sft.yaml}}
    p.yaml, line 5: node b: there is no kind of node 'trian'; did you mean 'train'?
b: {train: {}}
    p.yaml, line 5, node b: recipe is missing
b: {train: {recipe: stf.yaml}}
    p.yaml, line 5, node b: stf.yaml: no such file; did you mean sft.yaml?
b: {train: {recipe: sft.yaml, sett: {}}}
    p.yaml, line 5, node b: there is no key sett; did you mean set?
b: {train: {recipe: sft.yaml, set: {stpes: 3}}}
    p.yaml, line 5, node b: there is no key stpes; did you mean steps?
b: {train: {recipe: sft.yaml, set: {optimizer: {lr: fast}}}}
    p.yaml, line 5, node b: optimizer.lr: given 'fast'; it takes
b: {train: {recipe: {method: sft, model: {path: x}, data: {path: y}, lr: 1}}}
    p.yaml, line 5, node b: there is no key lr; did you mean optimizer.lr?
b: {sample: {model: '@a', data: rows.jsonl, n: 3}}
    p.yaml, line 5, node b: there is no key n; this has: model,
b: {sample: {model: '@a', data: rows.jsonl, sampling: {temperature: 0}}}
    greedy samples of a prompt are all alike
b: {sample: {model: '@a', data: {path: rows.jsonl, style: text}}}
    data.style: text needs model.template: plain
b: {sample: {model: {path: '@a', adapter: {rank: 2}}, data: rows.jsonl}}
    a new adapter changes no answer
b: {judge: {data: '@draw'}}
    p.yaml, line 5, node b: rewards is missing
b: {filter: {data: '@draw', min_reward: 2, max_reward: 1}}
    line 5, node b: min_reward 2 is above max_reward 1
b: {filter: {data: '@draw', best: 1}}
    line 5, node b: data: the conditions of this filter need rewards
b: {merge: {models: ['@a']}}
    p.yaml, line 5, node b: models
b: {merge: {models: ['@a', '@a'], weights: [1, 1]}}
    node b: the weights sum to 2, not 1: change them, or set any_sum
b: {merge: {models: ['@a', '@a'], weights: [1]}}
    node b: 1 weights for 2 models: give one for each
b: {merge: {models: ['@a', '@a'], any_sum: true}}
    node b: any_sum is unused
b: {merge: {models: [{path: '@a', dtype: float32}, '@a']}}
    there is no key models.0.dtype
b: {evaluate: {model: '@a', data: rows.jsonl, every: 2}}
    p.yaml, line 5, node b: there is no key every
b: {evaluate: {model: '@a', data: rows.jsonl, correct: {weight: 2}}}
    correct.weight: only for rewards, unused
b: {evaluate: {model: '@lroa', data: rows.jsonl}}
    line 5, node b: model.path: there is no node @lroa; did you mean '@lora'?
b: {evaluate: {model: '@draw', data: rows.jsonl}}
    model.path: @draw makes a dataset, and a model is needed here
b: {evaluate: {model: '@a', data: '@a'}}
    data.path: @a makes a model, and a dataset is needed here
b: {judge: {data: '@lora', rewards: numeric}}
    data: @lora makes a model and an adapter, and a dataset is needed
b: {train: {recipe: sft.yaml, set: {model.adapter.path: '@a'}}}
    model.adapter.path: @a makes a model, and an adapter is needed here; it trains all weights
b: {merge: {models: ['@c', '@a']}} ;; c: {merge: {models: ['@b', '@a']}}
    the nodes take from each other in a ring:
b: {merge: {models: ['@b', '@a']}}
    line 5, node b: the nodes take from each other in a ring: b -> b
b: {evaluate: {model: '@previous.a', data: rows.jsonl}}
    @previous.a is for nodes that are repeated, and these are not
b: {evaluate: {model: '@a', data: rosw.jsonl}}
    line 5, node b: data.path: no file rosw.jsonl; did you mean 'rows.jsonl'?
b: {evaluate: {model: ./nowhere, data: rows.jsonl}}
    line 5, node b: model.path: model path ./nowhere does not exist
b: {evaluate: {model: nursery:none, data: rows.jsonl}}
    there is no nursery model 'none'
b: {judge: {data: ./folder, rewards: numeric}}
    line 5, node b: data: folder does not exist; name a node, such as @draw
b: {judge: {data: '@draw', rewards: {kind: function, function: 'nowhere.py:f'}}}
    node b: rewards.rewards.0.function: no file nowhere.py
b: {}
    p.yaml, line 5: node b: given nothing; it takes one of train, sample, judge, filter, merge, evaluate
b: {train: {recipe: sft.yaml}, merge: {}}
    line 5: node b: given train and merge; it takes one of
b: {train: sft.yaml}
    line 5: node b: train is 'sft.yaml', but it has keys of its own
start: {train: {recipe: sft.yaml}}
    line 5: a node cannot be called start, which has a meaning of its own
1b: {train: {recipe: sft.yaml}}
    line 5: '1b' is no name for a node
a: {train: {recipe: sft.yaml}}
    line 5, column 3: nodes.a is given twice, first on line 2
"""


@pytest.mark.parametrize(("node", "message"), pairs(NODES))
def test_a_wrong_node_is_told_by_line_key_and_fix(node: str, message: str) -> None:
    assert message in told(f"{HEAD}  {node.replace(' ;; ', chr(10) + '  ')}\n")


BLOCKS = """
 | repeat: 0
    b.repeat: given 0; it takes whole number from 1 to 10,000
 | repeat: 2
    node b.t: model.path: @previous.t has no meaning in the first iteration: say what it starts from, in block b
 | start: {x: model}
    b.start.x: no node of that name is repeated here; there are: t, u
 | start: {t: 3}
    b.start.t: given 3; it takes a path, or @node
 | start: {t: '@u'}
    start.t is @u, which is repeated itself: name a path, or a node outside
 | start: {t: '@x'}
    there is no node @x
 | start: {t: 'nursery:S', u: 'nursery:S'}
    p.yaml, line 4: start.u is unused: no node here refers to @previous.u
 | rpeat: 2
    p.yaml, line 4: there is no key b.rpeat; did you mean 'repeat'?
repeat: 2 | repeat: 2
    the pipeline is repeated as a whole, so block b in it cannot be repeated as well
repeat: yes | repeat: 2
    p.yaml, line 1: repeat: given true; it takes whole number
seed: -1 | repeat: 2
    p.yaml, line 1: seed: given -1; it takes whole number >= 0
pipeline: 3 | repeat: 2
    p.yaml, line 1: pipeline: given 3; it takes a name
sede: 1 | repeat: 2
    p.yaml, line 1: there is no key sede; did you mean 'seed'?
"""


@pytest.mark.parametrize(("keys", "message"), pairs(BLOCKS))
def test_a_wrong_block_is_told_by_line_and_fix(keys: str, message: str) -> None:
    top, _, key = keys.partition(" | ")
    text = f"""\
        {top}
        nodes:
          b:
            {key}
            nodes:
              t: {{train: {{recipe: sft.yaml, set: {{model.path: "@previous.t"}}}}}}
              u: {{evaluate: {{model: "@t", data: rows.jsonl}}}}
        """
    assert message in told(textwrap.dedent(text))


def test_references_into_and_out_of_blocks_are_explained() -> None:
    block = """\
nodes:
  a: {train: {recipe: sft.yaml}}
  b:
    repeat: 2
    nodes:
      t: {train: {recipe: sft.yaml, set: {model.path: "@a"}}}
      c: {nodes: {}}
"""
    assert "line 7: block c stands in block b: blocks do not nest" in told(block)
    block = block.replace("      c: {nodes: {}}\n", "")
    whole = told(f'{block}  d: {{evaluate: {{model: "@b", data: rows.jsonl}}}}\n')
    assert "line 7, node d: model.path: @b is not a node; did you mean '@b.t'?" in whole or "@b.t" in whole
    inner = told(f'{block}      u: {{evaluate: {{model: "@b.t", data: rows.jsonl}}}}\n')
    assert "@b.t is not a node; inside of block b write @t" in inner


OVERRIDES = """
a.stpes=3
    command line, node a: there is no key stpes; did you mean steps?
b.steps=3
    command line: b.steps: there is no node b; there are: a, lora, draw
a.set.steps=3
    command line: a recipe's key follows the name of the node: write a.steps=...
a.recipe=none.yaml
    command line: none.yaml: no such file
draw.samples=3
    command line, node draw: there is no key samples
draw.samples_per_prompt=0
    command line, node draw: samples_per_prompt: given 0; it takes whole number
draw.data=none.jsonl
    data.path: no file none.jsonl
steps=3
    command line: steps: there is no key or node steps; there are: pipeline, seed, repeat, a, lora, draw
a.steps
    command line: 'a.steps' is no change; write NODE.KEY=VALUE, such as sft.steps=20
seed=x
    p.yaml: seed: given 'x'; it takes whole number >= 0
start.a=x
    start.a is unused
"""


@pytest.mark.parametrize(("override", "message"), pairs(OVERRIDES))
def test_a_wrong_override_is_told_as_one(override: str, message: str) -> None:
    assert message in told(HEAD, override)


def test_an_override_given_twice_is_refused() -> None:
    assert "command line: a.steps is given twice" in told(HEAD, "a.steps=30", "a.steps=40")


def test_all_mistakes_are_told_at_once() -> None:
    wrong = told(f"{HEAD}  b: {{train: {{recipe: none.yaml}}}}\n  c: {{judge: {{rewards: numeric}}}}\n", "a.stpes=3")
    assert len(wrong.splitlines()) == 3


def test_what_is_no_pipeline_is_told_so() -> None:
    for text in ("", "3", "method: sft", "nodes: []", "nodes: {}"):
        assert "p.yaml holds no pipeline: it needs `nodes:`" in told(text)
    assert "did you mean p.yaml?" in _missing("pp.yaml")


def _missing(name: str) -> str:
    with pytest.raises(InputError) as error:
        show_pipeline(name)
    return str(error.value)


BEFORE = """
{train: {recipe: sft.yaml, set: {data.path: bad.jsonl}}}
    node b: bad.jsonl, line 2: malformed JSON
{train: {recipe: sft.yaml, set: {data.path: rows.jsonl}}}
    node b: rows.jsonl, line 1: no column 'completion'
{evaluate: {model: "@a", data: demonstrations.jsonl}}
    node b: task .* compares with column 'answer', which is not there
{judge: {data: "@draw", rewards: {kind: function, function: "rewards.py:score"}}}
    node b: task .* asks for column 'goal', which the data does not have
{judge: {data: "@draw", rewards: {kind: function, function: "rewards.py:scroe"}}}
    node b: .* has no 'scroe'; did you mean 'score'
{train: {recipe: grpo.yaml}}
    node b: 1 of the 1 held-out tasks are also trained on
"""


@pytest.mark.parametrize(("node", "message"), pairs(BEFORE))
def test_data_and_rewards_are_checked_before_the_first_node_runs(node: str, message: str) -> None:
    grpo = SFT.replace("sft", "grpo").replace("demonstrations", "rows")
    Path("grpo.yaml").write_text(f"{grpo}rewards: numeric\nevaluation: {{data: {{path: rows.jsonl}}}}\n")
    Path("bad.jsonl").write_text('{"prompt": "a", "completion": "b"}\n{"prompt"\n')
    Path("rewards.py").write_text("def score(completions, goal):\n    return [1.0] * len(completions)\n")
    Path("p.yaml").write_text(f"{HEAD}  b: {node}\n")
    with pytest.raises(InputError, match=message):
        run_pipeline("p.yaml", out="out", progress="quiet")
    assert not Path("out").exists()


def test_a_function_that_has_no_file_is_refused_since_its_change_could_not_be_seen() -> None:
    judge = {"data": "@draw", "rewards": {"kind": "function", "function": lambda completions: [1.0]}}
    sample = {"model": "nursery:arithmetic-S", "data": "rows.jsonl"}
    with pytest.raises(InputError, match=r'name a reward function as "file.py:name"'):
        show_pipeline({"nodes": {"draw": {"sample": sample}, "judged": {"judge": judge}}})


def test_plain_texts_are_trained_on_as_such() -> None:
    plain = {"path": "nursery:arithmetic-S", "template": "plain"}
    sample = {"model": plain, "data": {"path": "rows.jsonl", "style": "text"}}
    train = {"recipe": "sft.yaml", "set": {"data.path": "@draw"}}
    both = {"nodes": {"draw": {"sample": sample}, "t": {"train": train}}}
    with pytest.raises(
        InputError, match=r"node t: data.path: the prompts of @draw are plain texts: set data.style: text"
    ):
        show_pipeline(both)
    train["set"] |= {"data.style": "text", "model.template": "plain"}
    assert len(show_pipeline(both, out="out")[1]) == 2
