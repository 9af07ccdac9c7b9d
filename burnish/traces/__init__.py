"""Traces: the record of what happened, in tokens. No torch here."""

from burnish.traces.groups import Group, Relation, RelationKind, Span
from burnish.traces.trace import (
    CONTEXT,
    DEMONSTRATION,
    ENVIRONMENT,
    ROLES,
    Author,
    AuthorKind,
    Node,
    Role,
    Signal,
    SignalKind,
    Support,
    Trace,
)
from burnish.traces.verdicts import Status, Verdict

__all__ = [
    "CONTEXT", "DEMONSTRATION", "ENVIRONMENT", "ROLES", "Author", "AuthorKind", "Group", "Node", "Relation",
    "RelationKind", "Role", "Signal", "SignalKind", "Span", "Status", "Support", "Trace", "Verdict",
]  # fmt: skip
