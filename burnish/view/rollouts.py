"""Rollouts for people: before and after side by side, and training samples with every token coloured."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from burnish.errors import InputError
from burnish.studies import Evaluation, Item
from burnish.traces import ROLES, AuthorKind, Group, Span
from burnish.traces.show import Decoder
from burnish.view.text import number, shown

Decode = Tokenizer | Decoder | None

GROUPS, MEMBERS, TOKENS = 3, 4, 600
"""Training groups a report shows, members of each, tokens of each member."""


def load_tokenizer(run: Path) -> Tokenizer | None:
    """The tokenizer that the run saved with its model; None when there is none, then ids are shown."""
    for folder in ("final", "tokenizer"):
        file = run / folder / "tokenizer.json"
        if file.is_file():
            try:
                return Tokenizer.from_file(str(file))
            except Exception as error:  # noqa: BLE001 - the library raises no other on a broken file
                raise InputError(f"{file}: not a tokenizer ({error})") from None
    return None


def pieces(tokenizer: Decode, ids: Sequence[int]) -> list[str]:
    """The text each token adds to what stands before it; its id in brackets where no tokenizer is at hand."""
    if tokenizer is None:
        return [f"[{i}]" for i in ids]
    texts = []
    for at, token in enumerate(ids):
        context = [int(i) for i in ids[max(0, at - 1) : at]]
        before = tokenizer.decode(context, skip_special_tokens=False)
        both = tokenizer.decode([*context, int(token)], skip_special_tokens=False)
        alone = both[len(before) :] if both.startswith(before) else ""
        texts.append(alone or tokenizer.decode([int(token)], skip_special_tokens=False) or f"[{token}]")
    return texts


# ---------------------------------------------------------------- before and after


def chosen_items(before: Evaluation, after: Evaluation, count: int = 10) -> list[tuple[str, Item, Item]]:
    """Items that tell most, with what became of them: learnt first, then lost, still wrong, right before and after."""
    later = {(item.task, item.sample): item for item in after.items}
    kinds: dict[str, list[tuple[str, Item, Item]]] = {"learnt": [], "lost": [], "still wrong": [], "still right": []}
    unjudged: list[tuple[str, Item, Item]] = []
    for one in before.items:
        two = later[one.task, one.sample]
        if one.correct is None or two.correct is None:
            unjudged.append(("not judged", one, two))
            continue
        kind = (
            ("learnt" if two.correct else "still wrong")
            if not one.correct
            else ("still right" if two.correct else "lost")
        )
        kinds[kind].append((kind, one, two))
    shares = {"learnt": count - 6, "lost": 2, "still wrong": 2, "still right": 2}
    picked = [entry for kind, entries in kinds.items() for entry in entries[: shares[kind]]]
    rest = [entry for kind, entries in kinds.items() for entry in entries[shares[kind] :]]
    picked += (rest + unjudged)[: count - len(picked)]
    return sorted(picked, key=lambda entry: [*kinds, "not judged"].index(entry[0]))


def before_after(before: Evaluation, after: Evaluation) -> str:
    """HTML of the chosen items: prompt, expected answer, both completions."""
    cards = []
    for kind, one, two in chosen_items(before, after):
        expected = f'<span class="expected">expected {shown(one.expected, longest=200)}</span>' if one.expected else ""
        cards.append(
            f'<article class="pair"><header><span class="kind {kind.replace(" ", "-")}">{kind}</span>'
            f"{expected}</header>"
            f'<pre class="prompt">{shown(one.prompt)}</pre><div class="sides">'
            f"{_side('before', one)}{_side('after', two)}</div></article>"
        )
    return "".join(cards)


def _side(title: str, item: Item) -> str:
    mark = {True: '<b class="right">right</b>', False: '<b class="wrong">wrong</b>', None: ""}[item.correct]
    ended = "" if item.finish == "stop" else f" · ended by {shown(item.finish)}"
    text = shown(item.text) or '<span class="hidden">empty</span>'
    return f'<div><h4>{title} {mark}<span class="fine">{item.length} tokens{ended}</span></h4><pre>{text}</pre></div>'


# ---------------------------------------------------------------- training samples


def chosen_groups(groups: Sequence[Group], count: int = GROUPS) -> list[Group]:
    """The groups whose rewards differ most: those are what a group-relative method learns from."""

    def spread(group: Group) -> float:
        rewards = group.rewards[np.isfinite(group.rewards)]
        return float(rewards.std()) if len(rewards) else -1.0

    return sorted((group for group in groups if group.members), key=spread, reverse=True)[:count]


def training_groups(groups: Sequence[Group], tokenizer: Decode) -> str:
    """HTML of some groups: the prompt once, then members with their reward and coloured tokens."""
    parts = []
    for group in chosen_groups(groups):
        members = _apart(group.members)
        prompt = _prompt(members[0], tokenizer)
        rows = "".join(_member(member, tokenizer) for member in members)
        rest = len(group.members) - len(members)
        more = f'<p class="fine">and {rest} more of this group</p>' if rest else ""
        parts.append(f'<article class="group"><pre class="prompt">{prompt}</pre>{rows}{more}</article>')
    return "".join(parts)


def _apart(members: Sequence[Span]) -> list[Span]:
    """A few members that span the rewards: best and worst first, then those between."""
    ranked = sorted(members, key=lambda m: -math.inf if math.isnan(m.reward) else m.reward, reverse=True)
    if len(ranked) <= MEMBERS:
        return ranked
    picks = np.unique(np.linspace(0, len(ranked) - 1, MEMBERS).round().astype(int))
    return [ranked[i] for i in picks]


def _columns(span: Span) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, whether sampled, log-probabilities, advantages, roles of the span's path, shape [T] each."""
    trace = span.trace
    nodes = [trace.nodes[n] for n in trace.path(span.leaf)]
    model = np.array([a.kind is AuthorKind.MODEL for a in trace.authors], dtype=bool)
    signals = [n.signals.get("advantage") for n in nodes]
    advantages = [
        np.full(len(n), np.nan) if s is None or s.values.ndim != 1 else s.values
        for n, s in zip(nodes, signals, strict=True)
    ]
    return (
        np.concatenate([n.tokens for n in nodes]),
        np.concatenate([model[n.authors] for n in nodes]),
        np.concatenate([n.logprobs for n in nodes]),
        np.concatenate(advantages),
        np.concatenate([n.roles for n in nodes]),
    )


def _prompt(span: Span, tokenizer: Decode) -> str:
    tokens, sampled, *_ = _columns(span)
    first = int(np.argmax(sampled)) if sampled.any() else len(tokens)
    return shown("".join(pieces(tokenizer, tokens[:first].tolist())))


def _member(span: Span, tokenizer: Decode) -> str:
    tokens, sampled, logprobs, advantages, roles = _columns(span)
    first = int(np.argmax(sampled)) if sampled.any() else len(tokens)
    end = min(len(tokens), first + TOKENS)
    texts = pieces(tokenizer, tokens[:end].tolist())
    top = float(np.nanmax(np.abs(advantages))) if np.isfinite(advantages).any() else 0.0
    marked = "".join(
        _token(texts[i], int(tokens[i]), bool(sampled[i]), float(logprobs[i]), float(advantages[i]), top, int(roles[i]))
        for i in range(first, end)
    )
    cut = f'<span class="hidden">{len(tokens) - end} more tokens</span>' if end < len(tokens) else ""
    left_out = " · left out of the loss" if span.masked else ""
    reward = "no reward" if math.isnan(span.reward) else f"reward {number(span.reward)}"
    reason = f" · {shown(span.verdict.reason, longest=300)}" if span.verdict and span.verdict.reason else ""
    sign = "" if math.isnan(span.reward) else (" right" if span.reward > 0 else " wrong")
    mean = advantages[np.isfinite(advantages)]
    advantage = f" · advantage {mean.mean():+.2f}" if len(mean) else ""
    count = int(sampled.sum())
    return (
        f'<div class="member"><h4><b class="reward{sign}">{reward}</b>'
        f'<span class="fine">{count} sampled tokens{advantage}{left_out}{reason}</span></h4>'
        f"<pre>{marked}{cut}</pre></div>"
    )


def _token(text: str, token: int, sampled: bool, logprob: float, advantage: float, top: float, role: int) -> str:
    """One token; style variables --p (surprise, 0 to 1) and --a (advantage, 0 to 1) colour it."""
    body = shown(text).replace("\n", "↵\n")
    if not sampled:
        return f'<span class="other" title="{ROLES[role].value}, id {token}">{body}</span>'
    surprise = min(1.0, -logprob / 4)  # at a probability of e^-4, 2 %, the colour is full
    title = f"id {token}, probability {math.exp(min(0.0, logprob)):.3f}, log-prob {logprob:.3f}"
    style = f"--p:{surprise:.2f}"
    sign = ""
    if math.isfinite(advantage):
        title += f", advantage {advantage:+.3f}"
        style += f";--a:{abs(advantage) / top if top else 0:.2f}"
        sign = " up" if advantage > 0 else " down"
    return f'<span class="t{sign}" style="{style}" title="{html.escape(title)}">{body}</span>'
