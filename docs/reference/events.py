"""The vocabulary of events, as `chaos/model/events.py` has it."""

from __future__ import annotations

from chaos.model.events import HEADER, KINDS
from reference.markdown import code, table


def vocabulary() -> str:
    """Header fields, then every kind with its writer and its own fields."""
    rows = ((code(kind), writer, fields or "–") for kind, (writer, fields) in KINDS.items())
    header = ", ".join(code(name) for name in HEADER)
    return f"Every line begins with {header}.\n\n{table(('kind', 'written by', 'its own fields'), rows)}"
