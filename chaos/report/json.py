"""A verdict as JSON: what `verdict.json` holds and `--json` prints. The fields stand in the record's own order."""

from __future__ import annotations

import msgspec

from chaos.model.verdict import Verdict


def verdict_json(verdict: Verdict) -> str:
    """Indented by two, in the record's order (free mappings sorted), ending in a newline; same verdict, same bytes."""
    packed = msgspec.json.encode(verdict, order="deterministic")
    return msgspec.json.format(packed, indent=2).decode() + "\n"
