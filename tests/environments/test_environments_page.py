"""docs/environments.md holds what it says: its environment works as it stands there."""

from __future__ import annotations

import json
from pathlib import Path

import burnish
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import QuietProgress
from tests.sources.acting import ScriptedSampler, answers, stage_for
from tests.tiny import tiny_network, tiny_tokenizer

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def test_the_environment_of_the_page_judges_attempts(tmp_path: Path) -> None:
    import asyncio

    from burnish.environments.registry import build
    from burnish.environments.spec import CustomSpec
    from burnish.sources.episodes import attempts
    from burnish.tasks import Task

    (tmp_path / "shop.py").write_text(PAGE.read_text("utf-8").split("```python\n")[1].split("```")[0], "utf-8")
    task = Task(prompt="a basket", columns={"basket": ["apple", "pear"]})
    family = build(CustomSpec(path="shop.py:Shop"), base=tmp_path, tasks=[task])
    for last, reward in (("8", 1.0), ("9", 0.0)):
        script = answers("price(apple)", "price(pear)", last)
        [member] = asyncio.run(attempts(stage_for(family, ScriptedSampler(script), max_tokens=40), task, 1)).members
        assert member.verdict is not None and member.verdict.reward == reward


def test_the_recipe_of_the_page_trains(tmp_path: Path) -> None:
    tiny_network("llama").save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "shop.py").write_text(PAGE.read_text("utf-8").split("```python\n")[1].split("```")[0], "utf-8")
    rows = [{"prompt": f"basket {i}", "basket": ["apple"] * (i + 1)} for i in range(3)]
    (tmp_path / "baskets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    recipe = recipe_from_mapping({
        "method": "grpo", "steps": 1, "prompts_per_step": 2, "samples_per_prompt": 2, "threads": 1,
        "model": {"path": str(tmp_path / "model")}, "sampling": {"max_tokens": 4},
        "environment": {"kind": "custom", "path": "shop.py:Shop"}, "data": {"path": "baskets.jsonl"},
    })  # fmt: skip
    done = burnish.train(recipe, out=tmp_path / "run", base=tmp_path, progress=QuietProgress())
    assert done.summary["ledger"]["policy"]["environment_steps"] >= 4
