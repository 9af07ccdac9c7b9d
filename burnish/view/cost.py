"""The ledger of a run as a table: who did how much of what."""

from __future__ import annotations

from typing import Any

from burnish.ledger import SAID, duration_text, flops_text, summed
from burnish.view.record import RunRecord
from burnish.view.text import shown


def cost_section(record: RunRecord) -> str:
    """A row a role, a column a quantity that anyone has; "" where nothing was counted.

    The totals are those of summary.json, and of a run that has none yet the sums over its steps.
    """
    found = record.summary.get("ledger")
    totals: dict[str, dict[str, Any]] = found if isinstance(found, dict) else summed(record.metrics)
    if not totals:
        return ""
    there = {quantity for counts in totals.values() for quantity in counts}
    columns = {**SAID, "flops": "operations", "timing/seconds": "wall time"}
    names = [name for quantity, name in columns.items() if quantity in there]
    rows = "".join(
        f"<tr><th>{shown(role, longest=80)}"
        + "".join(f"<td>{_cell(quantity, counts.get(quantity))}" for quantity in columns if quantity in there)
        + "</tr>"
        for role, counts in totals.items()
    )
    return (
        "<section><h2>Cost</h2><p class='sub'>Counted where the work was done. Operations are those that the model's "
        "mathematics asks for, recomputation and padding left out; seconds of roles that work at the same time overlap."
        f'</p><div class="scroll"><table><thead><tr><th>role<th>{"<th>".join(names)}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _cell(quantity: str, amount: int | float | None) -> str:
    if amount is None:
        return ""
    if quantity == "flops":
        return flops_text(int(amount))
    return duration_text(amount) if quantity == "timing/seconds" else f"{amount:,}"
