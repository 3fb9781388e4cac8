"""What a rank's flight recorder says is still under way, in words. Reads torch's dump as far as it understands it."""

from __future__ import annotations

from typing import Any

SHOWN_MAX = 5


def in_words(dump: Any) -> str:
    """`46 recorded; under way: gloo:all_gather, number 46 of default_pg`. An answer of the agent without a dump says
    why there is none."""
    entries = dump.get("entries") if isinstance(dump, dict) else None
    if not isinstance(entries, list):
        why = dump.get("none") if isinstance(dump, dict) else None
        return f"none: {why or 'not a dump that is understood'}"
    open_ones = [entry for entry in entries if isinstance(entry, dict) and not _over(entry)]
    words = "; ".join(_name(entry) for entry in open_ones[-SHOWN_MAX:]) or "none"
    more = f"; and {len(open_ones) - SHOWN_MAX} before these" if len(open_ones) > SHOWN_MAX else ""
    return f"{len(entries)} recorded; under way: {words}{more}"


def _over(entry: dict[str, Any]) -> bool:
    """Gloo's are retired when they are done, and keep their state; NCCL's are retired, too, when they time out."""
    state = entry.get("state")
    return state == "completed" or (state == "scheduled" and entry.get("retired") is True)


def _name(entry: dict[str, Any]) -> str:
    group = entry.get("process_group")
    of = group[-1] if isinstance(group, list) and group else "its group"
    return f"{entry.get('profiling_name', 'unnamed')}, number {entry.get('collective_seq_id', '?')} of {of}"
