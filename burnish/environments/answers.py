"""What an environment answers, checked and as JSON values. No torch here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from burnish.environments.protocol import Environment, Observation, shown_calls
from burnish.traces import Status, Verdict

_ROLES = ("system", "user", "tool")
_LARGEST = 1e30
"""Rewards beyond this overflow in single precision once they are squared or summed."""
_HALF = re.compile("[\ud800-\udfff]")


class EnvironmentFault(Exception):  # noqa: N818 - a fault of the machinery, told as a verdict
    """An environment raised, hung, or answered something that is no answer."""

    def __init__(self, method: str, reason: str, trace: str = "") -> None:
        super().__init__(reason)
        self.method, self.reason, self.trace = method, sayable(reason), sayable(trace)

    @property
    def verdict(self) -> Verdict:
        """The missing reward that an attempt gets for it."""
        return Verdict.missing(Status.INFRA_ERROR, f"environment.{self.method}: {self.reason}", fault=self.method)


def sayable(text: str) -> str:
    """The text with each half of a surrogate pair, which no tokenizer and no file takes, replaced by U+FFFD."""
    return _HALF.sub("\ufffd", text)


def kind_of(value: Any) -> str:
    """What a value is, for a message."""
    return "None" if value is None else f"a {type(value).__name__}"


def checked_environment(value: Any, itself: Environment) -> Environment:
    """What a snapshot of an environment gave. Raises EnvironmentFault."""
    if not isinstance(value, Environment):
        raise EnvironmentFault("snapshot", f"gave {kind_of(value)}, not an Environment")
    if value is itself:
        raise EnvironmentFault("snapshot", "gave the environment itself, not an independent one in its state")
    return value


def checked_observation(method: str, value: Any) -> Observation:
    """The observation that a method gave, its texts sayable. Raises EnvironmentFault where it is none."""
    if not isinstance(value, Observation):
        raise EnvironmentFault(method, f"gave {kind_of(value)}, not an Observation")
    for name, given in (("messages", value.messages), ("tools", value.tools)):
        if not isinstance(given, (tuple, list)):
            raise EnvironmentFault(method, f"gave {kind_of(given)} as {name}, not a tuple")
    for place, message in enumerate(value.messages, start=1):
        example = method == "reset" and place < len(value.messages)
        _check_message(method, message, (*_ROLES, "assistant") if example else _ROLES)
    if not value.messages and (method == "reset" or not value.done):
        raise EnvironmentFault(method, "gave an observation without messages, which a model cannot answer")
    if value.state_key is not None and not isinstance(value.state_key, str):
        raise EnvironmentFault(method, f"a state_key is a text or None, not {kind_of(value.state_key)}")
    messages, tools, state_key = _sayable_values(
        method, "an observation", (list(value.messages), list(value.tools), value.state_key)
    ) or (value.messages, value.tools, value.state_key)
    return replace(value, messages=tuple(messages), tools=tuple(tools), state_key=state_key)


def _check_message(method: str, message: Any, roles: Sequence[str]) -> None:
    if not isinstance(message, dict) or message.get("role") not in roles:
        raise EnvironmentFault(method, f"a message needs one of the roles {', '.join(roles)}: {str(message)[:80]}")
    if not isinstance(message.get("content"), str):
        raise EnvironmentFault(method, f"a message needs a text as its content: {str(message)[:80]}")
    try:
        shown_calls(message)
    except ValueError as error:
        raise EnvironmentFault(method, str(error)) from None


def _sayable_values(method: str, name: str, values: Any) -> Any:
    """The values with every text in them sayable; None where they are so already. Raises EnvironmentFault for what is
    not made of JSON values."""
    try:
        text = json.dumps(values, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentFault(method, f"gave {name} that is not made of JSON values: {error}") from None
    return json.loads(sayable(text)) if _HALF.search(text) else None


def checked_verdict(value: Any) -> Verdict:
    """The verdict that verify gave. Raises EnvironmentFault where it is none."""
    if not isinstance(value, Verdict):
        raise EnvironmentFault("verify", f"gave {kind_of(value)}, not a Verdict")
    if not isinstance(value.status, Status):
        raise EnvironmentFault("verify", f"gave {kind_of(value.status)} as a status, not a Status")
    _check_parts(value)
    given = [value.reward, value.reason, value.components, value.evidence]
    reward, reason, components, evidence = _sayable_values("verify", "a verdict", given) or given
    return Verdict(reward, value.status, reason, components, evidence)


def _check_parts(verdict: Verdict) -> None:
    """Raise EnvironmentFault for parts of another type than they are read as."""
    kinds = verdict.evidence.get("kinds", {}) if isinstance(verdict.evidence, dict) else {}
    for name, value, right in (
        ("a reason", verdict.reason, isinstance(verdict.reason, str)),
        ("components", verdict.components, _is_numbers(verdict.components)),
        ("evidence", verdict.evidence, isinstance(verdict.evidence, dict)),
        ("evidence['kinds']", kinds, isinstance(kinds, dict) and all(isinstance(k, str) for k in kinds.values())),
    ):
        if not right:
            raise EnvironmentFault("verify", f"gave a verdict with {str(value)[:80]} as {name}")
    if verdict.reward is not None and abs(verdict.reward) > _LARGEST:
        raise EnvironmentFault("verify", f"gave a reward of {verdict.reward:g}, with which nothing can be computed")


def _is_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(number, (int, float)) and math.isfinite(number)
        for name, number in value.items()
    )


def written(method: str, value: Any) -> Any:
    """An answer as JSON values. Raises EnvironmentFault for one that is none."""
    if method == "verify":
        v = checked_verdict(value)
        return [v.reward, v.status.value, v.reason, v.components, v.evidence]
    o = checked_observation(method, value)
    return [list(o.messages), list(o.tools), o.done, o.state_key]


def read(method: str, value: Any) -> Any:
    """The answer that `written` wrote."""
    if method == "verify":
        reward, status, reason, components, evidence = value
        return Verdict(reward, Status(status), reason, components, evidence)
    messages, tools, done, state_key = value
    return Observation(tuple(messages), tuple(tools), done, state_key)
