"""A method: a declaration of source, terms and controller, with what a user must know to choose it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializeAsAny

from burnish.control.spec import FixedControllerSpec
from burnish.methods.recipe import Recipe
from burnish.sources.spec import SourceSpec


class Declaration(BaseModel):
    """What runs: the source of groups, the phases with annotators and terms, the frozen models beside the policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: SerializeAsAny[SourceSpec]
    controller: FixedControllerSpec
    references: tuple[str, ...] = ()
    """Names of frozen copies of the starting policy; with an adapter, the policy with its adapter off."""


Need = Literal[
    "demonstrations", "verifier", "reward-function", "environment", "preferences", "teacher-logprobs", "teacher-text"
]  # fmt: skip
"""A kind of feedback; FEEDBACK says what each is."""

FEEDBACK: dict[Need, str] = {
    "demonstrations": "prompts with answers that are to be imitated",
    "verifier": "a program that tells right answers from wrong ones: a check of docs/verifiers.md, tests, a schema",
    "reward-function": "a function of your own that says what an answer is worth",
    "environment": "a world in which attempts are made and judged: tools, files, a game",
    "preferences": "pairs of answers of which one was preferred",
    "teacher-logprobs": "a stronger model whose log-probabilities can be asked for",
    "teacher-text": "a stronger model that only writes text",
}

Behaviour = Literal["imitate", "correct", "act", "keep-form", "cover", "be-brief", "please", "know"]
"""Something that a model is to do better; BEHAVIOURS says what each is."""

BEHAVIOURS: dict[Behaviour, str] = {
    "imitate": "write as given examples do: their style, their domain, a first step towards a task it cannot do at all",
    "correct": "be right more often, where something can tell what is right",
    "act": "reach a goal over several turns, with tools or in a world",
    "keep-form": "keep to a form that can be checked: a schema, a call's arguments, instructions about the text",
    "cover": "have a right answer among many samples (pass@k)",
    "be-brief": "say the same in fewer tokens",
    "please": "answer as people would rather have it, where no program can tell",
    "know": "know facts that it does not know yet",
}


@dataclass(frozen=True)
class Method:
    """A method by name. `declare` turns a validated recipe of the class `recipe` into a declaration."""

    name: str
    summary: str
    status: Literal["found", "derived"]
    needs: tuple[Need, ...]
    """Any one of these kinds of feedback is enough."""
    cost: str
    citation: str
    page: str
    recipe: type[Recipe]
    declare: Callable[[Any], Declaration]
    rows: tuple[str, ...] = ()
    """Ids of what it serves, as in `burnish.methods.rows.ROWS`."""
    serves: Mapping[Behaviour, str] = field(default_factory=dict)
    """What it can make a model do better, and by which means: how it does that, or which key asks for it."""
    formula: str = ""
    """Its loss in plain text, as on its page."""
    preset_of: str | None = None
    """The method whose declaration it is with other defaults of the options; None: it has one of its own."""
