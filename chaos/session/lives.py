"""Which lives of ranks were seen, so that the manifest can say whose file must be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chaos.history.writer import file_name
from chaos.model.events import Event


class LivesSeen:
    """Fed every event. A life counts when the process table showed it as a rank or it said so itself."""

    def __init__(self) -> None:
        self._ranks: dict[str, int | None] = {}
        self._spoke: set[str] = set()

    def feed(self, event: Event) -> None:
        if event.life is None:
            return
        if event.kind == "process_appeared" and event.data.get("role") == "rank":
            self._ranks.setdefault(event.life, event.rank)
        elif event.kind == "rank_started":
            self._ranks[event.life] = event.initial_rank
            self._spoke.add(event.life)

    def for_manifest(self, run_dir: Path, *, stopped_by_us: bool) -> list[dict[str, Any]]:
        """{life, role, rank, file}; file is None for a rank that never wrote one. A rank that we stopped while it was
        still starting had nothing to say, and is left out: such a run is never passed anyway."""
        rows = []
        for life, rank in sorted(self._ranks.items()):
            name = file_name("rank", life)
            there = (run_dir / "history" / name).is_file()
            if stopped_by_us and not there and life not in self._spoke:
                continue
            rows.append({"life": life, "role": "rank", "rank": rank, "file": name if there else None})
        return rows
