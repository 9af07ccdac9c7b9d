"""The parts of a run's page that are plain HTML: its head, its evaluations, before and after, its configuration."""

from __future__ import annotations

import math
from typing import Any

from burnish.errors import InputError
from burnish.studies import Comparison, Evaluation, Interval, compare
from burnish.view.record import RunRecord
from burnish.view.rollouts import before_after
from burnish.view.text import number, shown

Pair = tuple[Evaluation, Evaluation] | None


def title_of(record: RunRecord) -> str:
    """Method and name of a run."""
    method = record.config.get("method")
    if isinstance(method, dict):
        method = method.get("name") or method.get("kind")
    return f"{method} · {record.path.resolve().name}" if method else record.path.resolve().name


# ---------------------------------------------------------------- top


def header(record: RunRecord, pair: Pair) -> str:
    """What the run was, what it changed, and its main numbers."""
    parts = [f"<h1>{shown(title_of(record))}</h1>", f'<p class="sub">{_subtitle(record)}</p>']
    comparison = _compared(pair)
    if comparison:
        parts.append(f'<p class="lead">{_sentence(comparison)}</p>')
    tiles = _tiles(record, pair, comparison)
    parts.append(f'<div class="tiles">{"".join(tiles)}</div>' if tiles else "")
    return "".join(parts)


def _subtitle(record: RunRecord) -> str:
    config = record.config
    model, data = config.get("model"), config.get("data")
    found = [
        ("model", model.get("path") if isinstance(model, dict) else model),
        ("data", _origin(data) if isinstance(data, dict) else data),
        ("prompts per step", config.get("prompts_per_step")),
        ("samples per prompt", config.get("samples_per_prompt")),
        ("seed", config.get("seed")),
    ]
    return " · ".join(f"{name} {shown(str(value), longest=120)}" for name, value in found if value is not None)


def _origin(data: dict[str, Any]) -> str | None:
    family = data.get("family")
    return data.get("path") or (family.get("kind") if isinstance(family, dict) else family)


def _compared(pair: Pair) -> Comparison | None:
    """By accuracy, or by reward where only that was judged."""
    if pair is None:
        return None
    try:
        return compare(*pair, "correct" if pair[0].accuracy and pair[1].accuracy else "reward")
    except InputError:  # nothing judged, or sampled differently: shown in the table, but not subtracted
        return None


def _sentence(comparison: Comparison) -> str:
    difference = comparison.difference
    verb = "did not move measurably" if not difference.excludes_zero else ("rose" if difference.low > 0 else "fell")
    if comparison.measure == "reward":
        what, before, after = "reward", number(comparison.before.estimate), number(comparison.after.estimate)
        gain, scale = f"{difference.estimate:+.3g}", 1
    else:
        what, before, after = "accuracy", _share(comparison.before.estimate), _share(comparison.after.estimate)
        gain, scale = f"{100 * difference.estimate:+.1f} points", 100
    return (
        f"Held-out {what} {verb}: <b>{before}</b> before, <b>{after}</b> after, a difference of <b>{gain}</b> "
        f"[{scale * difference.low:+.3g}, {scale * difference.high:+.3g}] (95 % interval, paired over "
        f"{comparison.items} items; {comparison.improved} {'learnt' if scale == 100 else 'better'}, "
        f"{comparison.worsened} {'lost' if scale == 100 else 'worse'})."
    )


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _tiles(record: RunRecord, pair: Pair, comparison: Comparison | None) -> list[str]:
    tiles = []
    if comparison and comparison.measure == "correct":
        tiles.append(_change_tile("Accuracy", comparison.before, comparison.after, main=True))
    if pair and pair[0].format_rate and pair[1].format_rate:
        tiles.append(_change_tile("Right format", pair[0].format_rate, pair[1].format_rate))
    rewards = _finite(record, "reward")
    if rewards:
        tenth = max(1, len(rewards) // 10)
        first, last = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
        tiles.append(_tile("Training reward", f"<i>{first:.2f} →</i> {last:.2f}", main=not tiles))
    if record.metrics:
        tiles.append(_tile("Steps", number(float(record.metrics[-1]["step"]))))
    speeds = _finite(record, "timing/tokens_per_second")
    if speeds:
        tiles.append(_tile("Tokens per second", number(sorted(speeds)[len(speeds) // 2])))
    seconds = next(
        (record.summary[k] for k in ("seconds", "wall_seconds", "train_seconds") if k in record.summary), None
    )
    if isinstance(seconds, (int, float)):
        tiles.append(_tile("Training time", f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.0f} s"))
    return tiles


def _finite(record: RunRecord, key: str) -> list[float]:
    return [value for _, value in record.series(key) if math.isfinite(value)]


def _change_tile(name: str, before: Interval, after: Interval, *, main: bool = False) -> str:
    return _tile(name, f"<i>{100 * before.estimate:.0f} →</i> {100 * after.estimate:.0f} %", main=main)


def _tile(name: str, value: str, *, main: bool = False) -> str:
    kind = "tile main" if main else "tile"
    return f'<div class="{kind}"><div class="name">{name}</div><div class="big">{value}</div></div>'


def evaluations(record: RunRecord, pair: Pair) -> str:
    """A row an evaluation."""
    if not record.evaluations:
        return ""
    rewarded = any(evaluation.interval("reward") for evaluation in record.evaluations)
    rows = "".join(_evaluation_row(evaluation, rewarded) for evaluation in record.evaluations)
    comparison = _compared(pair)
    note = "" if comparison else "No two evaluations of the same items can be compared. "
    return (
        "<section><h2>Evaluations</h2>"
        f'<p class="sub">{note}Intervals are 95 %. Accuracy reads the number out of the text; format asks whether '
        "the text is in the form that was wanted, right or wrong.</p>"
        '<div class="scroll"><table><thead><tr><th>evaluation<th>version<th>items<th>accuracy<th>right format'
        f"{'<th>reward' if rewarded else ''}<th>mean length<th>cut off<th>sampling</tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _evaluation_row(evaluation: Evaluation, rewarded: bool) -> str:
    temperature = evaluation.params.get("temperature")
    sampling = "greedy" if temperature == 0 else f"temperature {temperature}"
    missing = evaluation.missing("correct") if evaluation.accuracy else 0
    absent = f'<span class="fine">{missing} missing</span>' if missing else ""
    reward = f"<td>{_interval(evaluation.interval('reward'), share=False)}" if rewarded else ""
    return (
        f"<tr><th>{shown(evaluation.name, longest=80)}<td>{evaluation.version}<td>{len(evaluation.items)}"
        f"<td>{_interval(evaluation.accuracy)}{absent}<td>{_interval(evaluation.format_rate)}{reward}"
        f"<td>{evaluation.mean_length:.1f}<td>{_share(evaluation.truncated)}"
        f"<td>{shown(sampling)}, at most {shown(str(evaluation.params.get('max_tokens')))}</tr>"
    )


def _interval(interval: Interval | None, *, share: bool = True) -> str:
    if interval is None:
        return '<span class="fine">not judged</span>'
    if not share:
        low, high = number(interval.low), number(interval.high)
        return f'<b>{number(interval.estimate)}</b><span class="fine">{low} to {high}</span>'
    around = f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"
    return f'<b>{_share(interval.estimate)}</b><span class="fine">{around}</span>'


def items(pair: Pair) -> str:
    """The same prompts answered by the first and the last weights."""
    if pair is None:
        return ""
    return (
        "<section><h2>Before and after</h2><p class='sub'>The same held-out prompts, asked of the first and the last "
        f"weights. Not a random sample: items that changed come first.</p>{before_after(*pair)}</section>"
    )


def configuration(record: RunRecord) -> str:
    """The recipe and the summary, folded."""
    parts = []
    if record.config_text:
        text = shown(record.config_text, longest=20_000)
        parts.append(f"<details><summary>config.yaml</summary><pre>{text}</pre></details>")
    scalars = {k: v for k, v in record.summary.items() if isinstance(v, (str, int, float, bool))}
    if scalars:
        rows = "".join(f"<tr><th>{shown(str(k))}<td>{shown(str(v), longest=400)}</tr>" for k, v in scalars.items())
        table = f'<div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'
        parts.append(f"<details><summary>summary.json</summary>{table}</details>")
    return f"<section><h2>Configuration</h2>{''.join(parts)}</section>" if parts else ""
