"""Rendered tokens with author and role, and how they become nodes of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field

from burnish.traces.trace import CONTEXT, ROLES, Author, AuthorKind, Role, Trace


@dataclass
class Rendered:
    """Tokens with one author and one role each."""

    tokens: list[int] = field(default_factory=list)
    authors: list[Author] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.authors) == len(self.roles):
            raise ValueError("a rendering needs one author and one role per token")

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, part: slice) -> Rendered:
        return Rendered(self.tokens[part], self.authors[part], self.roles[part])

    def __add__(self, other: Rendered) -> Rendered:
        return Rendered(self.tokens + other.tokens, self.authors + other.authors, self.roles + other.roles)

    def __bool__(self) -> bool:
        return bool(self.tokens)

    @property
    def trained(self) -> list[bool]:
        """Which tokens a demonstration trains: those whose author is DEMONSTRATION."""
        return [author.kind is AuthorKind.DEMONSTRATION for author in self.authors]


@dataclass(frozen=True)
class Extension:
    """How a conversation goes on: the first `keep` tokens of the path stay valid, `added` follows them.

    `keep` equals the path's length as long as the template leaves history alone. Otherwise the template has edited
    what the engine saw, and what follows is a new segment: a branch from the longest prefix that is still valid.
    """

    keep: int
    added: Rendered
    new_segment: bool


def add_rendered(trace: Trace, parent: int, rendered: Rendered) -> int:
    """Append a rendering as one node after `parent` (-1: a root) and return the node."""
    return trace.add(parent, rendered.tokens, rendered.authors, rendered.roles)


def add_extension(trace: Trace, leaf: int, extension: Extension) -> int:
    """Append an extension of the path to `leaf` and return the new leaf.

    A new segment branches at the deepest node that ends within the kept prefix. Kept tokens of the node after it are
    copied into the branch. Sampled ones are context there: they are trained where they were sampled, not twice.
    """
    if not extension.new_segment:
        return add_rendered(trace, leaf, extension.added)
    parent, end, copy = -1, 0, Rendered()
    for index in trace.path(leaf):
        node = trace.nodes[index]
        if end + len(node) > extension.keep:
            count = extension.keep - end
            authors = [trace.authors[code] for code in node.authors[:count]]
            copy = Rendered(
                node.tokens[:count].tolist(),
                [CONTEXT if author.kind is AuthorKind.MODEL else author for author in authors],
                [ROLES[code] for code in node.roles[:count]],
            )
            break
        parent, end = index, end + len(node)
    return add_rendered(trace, parent, copy + extension.added)
