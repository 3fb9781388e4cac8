"""Text from logs, titles and file names made harmless to look at. Escapes nothing for XML or HTML: writers do.

What a terminal or a reader's eye could obey (escape sequences, control characters, signs that turn the
direction of writing) becomes visible text, so that it is still seen that it was there.
"""

from __future__ import annotations

import re

# Not among them: tab and newline, which each writer treats as it needs.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls, delete
    "\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # invisible signs; turns of direction
    "\ud800-\udfff\ufffe\uffff]"  # half characters and non-characters: no encoder or XML reader takes them
)


def visible(text: str) -> str:
    """The text with every character that something could obey spelled out: ESC becomes `\\x1b`."""
    return _OBEYED.sub(_spelled, text)


def one_line(text: str, limit: int = 200) -> str:
    """Harmless, on one line, at most `limit` characters; says by an ellipsis that something was cut."""
    return shortened(visible(" ".join(text.split())), limit)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _spelled(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
