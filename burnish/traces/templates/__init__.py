"""Chat templates: examined when loaded, rendered token-exactly, incrementally. No torch, no transformers import."""

from burnish.traces.templates.chat import ChatFormat
from burnish.traces.templates.finding import Finding, TurnEnd
from burnish.traces.templates.forms import Forms
from burnish.traces.templates.plain import PlainFormat
from burnish.traces.templates.rendered import Extension, Rendered, add_extension, add_rendered
from burnish.traces.templates.select import Format, chat_format

__all__ = [
    "ChatFormat", "Extension", "Finding", "Format", "Forms", "PlainFormat", "Rendered", "TurnEnd", "add_extension",
    "add_rendered", "chat_format",
]  # fmt: skip
