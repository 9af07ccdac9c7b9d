"""One HTML document with its script, style and data inside, and the policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

STYLES = ("uplot.css", "page.css")
SCRIPTS = ("uplot.js", "common.js", "charts.js", "heat.js", "tokens.js", "live.js", "start.js")
"""Parts of a page in order, files of burnish/view/assets. uplot.* is the plotting library, as released."""


@dataclass(frozen=True)
class Document:
    """A page, and the content-security policy that its `meta` element and a server state."""

    html: str
    policy: str


@cache
def _asset(name: str) -> str:
    return (resources.files("burnish.view") / "assets" / name).read_text(encoding="utf-8").strip()


@cache
def style() -> str:
    """The style sheet of every page."""
    return "\n".join(_asset(name) for name in STYLES)


@cache
def script() -> str:
    """The script of every page."""
    return "\n".join(_asset(name) for name in SCRIPTS)


@cache
def policy(*, live: bool = False) -> str:
    """What a page may do: run this script and apply this style, by their hashes, and when `live` ask its own server.

    Nothing is loaded, no inline handler or style attribute works, no form is sent, no frame shows it.
    """
    asks = "; connect-src 'self'" if live else ""
    return (
        f"default-src 'none'; script-src {_hash(script())}; style-src {_hash(style())}{asks}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def data_block(values: Any) -> str:
    """JSON in a block that is no script, with no character in it that could end the block or begin a comment.

    Raises ValueError for a number that JSON cannot say.
    """
    text = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return f'<script type="application/json" id="data">{safe}</script>'


def document(title: str, body: str, data: Any, *, live: bool = False) -> Document:
    """A page of HTML `body`, whose values must be escaped already, and of the `data` that its script draws."""
    rules = policy(live=live)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(rules)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{html.escape(title)}</title><style>{style()}</style></head><body>"
        '<button type="button" id="theme" aria-label="Colours: as the system"></button>'
        f'<main>{body}</main><div id="tip" role="tooltip" hidden></div><noscript><p class="sub">This page draws its '
        f"curves and rollouts with a script of its own, which is switched off here.</p></noscript>{data_block(data)}"
        f"<script>{script()}</script></body></html>\n"
    )
    return Document(page, rules)
