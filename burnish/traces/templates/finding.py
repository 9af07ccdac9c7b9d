"""What was found out about a chat template when it was loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burnish.traces.templates.forms import Forms

ToolCalls = Literal["rendered", "dropped", "refused"]
Thinking = Literal["kept", "dropped later", "dropped at once"]


@dataclass(frozen=True)
class TurnEnd:
    """How an assistant's turn ends.

    `stop` is the token the model ends with. `closing` is what the render of a finished conversation puts after the
    text, the stop token included; it is empty for a template that relies on the next turn's header to end a turn.
    """

    stop: int | None
    closing: tuple[int, ...]


@dataclass(frozen=True)
class Finding:
    """The finding on a template; `str()` is the paragraph that is printed when it is loaded."""

    forms: Forms
    answer_end: TurnEnd
    call_end: TurnEnd
    stop_ids: frozenset[int]
    """The stop class: every token that ends the assistant's turn, all of them equivalent."""
    stop_tokens: tuple[str, ...]
    breaks: tuple[str, ...] = ()
    """The kinds of turn after which an earlier render is no prefix of the later one."""
    thinking: Thinking = "kept"
    thought_closing: tuple[int, ...] = ()
    """The tokens that the template puts between thinking and text."""
    trims: tuple[str, ...] = ()
    """The roles whose text loses whitespace at its ends."""
    system_added: str = ""
    """System text that the template adds when none is given."""
    system_in_user: bool = False
    refused: tuple[str, ...] = ()
    """Roles that the template refuses or leaves out."""
    dates: bool = False
    tool_calls: ToolCalls = "rendered"
    tools_shown: bool = True
    """Whether the descriptions of tools reach the prompt; otherwise tools are refused here."""
    text_beside_calls: bool = True
    """Whether text is rendered beside tool calls; otherwise such a message is refused here."""
    prompt_differs: bool = False
    """The generation prompt is not what the render of a finished turn begins with."""
    stop_appended: bool = False
    """The render of a finished conversation has no stop token: one is appended when it is trained."""

    @property
    def prefix_preserving(self) -> bool:
        """Whether adding a turn never changes the tokens before it."""
        return not self.breaks

    def __str__(self) -> str:
        parts = [self._prefix(), f"A turn ends with any of {', '.join(self.stop_tokens) or 'nothing'}."]
        if self.stop_appended:
            parts.append("The render of a last turn lacks its end: the stop token is appended when it is trained.")
        if self.thinking != "kept":
            parts.append(f"Thinking is {self.thinking}.")
        if self.prompt_differs:
            parts.append("The generation prompt is not how a finished turn begins: sampling and training start apart.")
        if self.trims:
            parts.append(
                f"Whitespace at the ends is trimmed ({', '.join(self.trims)}); sampled tokens stay as sampled."
            )
        if self.system_added:
            parts.append(f"System text is added by default: {_short(self.system_added)}.")
        if self.system_in_user:
            parts.append("System text is put into the first user turn.")
        if self.dates:
            parts.append("Today's date is injected: it is fixed at load.")
        if self.refused:
            parts.append(f"Refused or left out: {', '.join(self.refused)}.")
        parts.append(self._tools())
        return " ".join(part for part in parts if part)

    def _prefix(self) -> str:
        if self.prefix_preserving:
            return "Prefix-preserving: a conversation is one growing sequence."
        return f"Not prefix-preserving ({', '.join(self.breaks)}): edited history starts a new segment."

    def _tools(self) -> str:
        if self.tool_calls != "rendered":
            return f"Tool calls are {self.tool_calls}: messages with them are refused here."
        parts = ["Tool calls are rendered."]
        if not self.tools_shown:
            parts.append("Descriptions of tools are left out: put them into a system message.")
        if not self.text_beside_calls:
            parts.append("Text beside a tool call is dropped: such messages are refused here.")
        return " ".join(parts)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 60 else flat[:57] + "...")
