"""Which lives were seen that have something to say, so that the manifest can say whose file must be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chaos.history.writer import file_name
from chaos.model.events import Event

# role in the process table -> what the history file of such a process begins with. These speak only when NVRx does.
HELPERS = {"launcher": "launcher", "rank_monitor": "monitor", "in_process_monitor": "monitor"}


class LivesSeen:
    """Fed every event. A life counts as a rank when the process table showed it as one or it said so itself."""

    def __init__(self) -> None:
        self._ranks: dict[str, int | None] = {}
        self._helpers: dict[str, tuple[str, int | None]] = {}  # life -> role, and the rank that it serves
        self._spoke: set[str] = set()

    def feed(self, event: Event) -> None:
        if event.life is None:
            return
        if event.kind == "process_appeared":
            role = event.data.get("role")
            if role == "rank":
                self._ranks.setdefault(event.life, event.rank)
            elif role in HELPERS:
                self._helpers[event.life] = (role, event.data.get("of_rank"))
        elif event.kind == "rank_started":
            self._ranks[event.life] = event.initial_rank
            self._spoke.add(event.life)

    def for_manifest(self, run_dir: Path, *, stopped_by_us: bool) -> list[dict[str, Any]]:
        """{life, role, rank, file}; file is None for a life that never wrote one: only a rank must. A rank that we
        stopped while it was still starting had nothing to say, and is left out: such a run is never passed anyway."""
        rows = self._of_helpers(run_dir)
        for life, rank in sorted(self._ranks.items()):
            name = file_name("rank", life)
            there = (run_dir / "history" / name).is_file()
            if stopped_by_us and not there and life not in self._spoke:
                continue
            rows.append({"life": life, "role": "rank", "rank": rank, "file": name if there else None})
        return rows

    def _of_helpers(self, run_dir: Path) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for life, (role, rank) in sorted(self._helpers.items()):
            name = file_name(HELPERS[role], life)
            there = (run_dir / "history" / name).is_file()
            rows.append({"life": life, "role": role, "rank": rank, "file": name if there else None})
        return rows
