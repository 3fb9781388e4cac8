"""A recorded run as lines that can be changed: what the job did is altered, and manifest and digests are made to fit.

A change says that something else had happened. It never damages a file: damaged files are the reader's concern.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from chaos.conclude import CONTROL, EXPERIMENT
from chaos.history import manifest
from chaos.judge.detection import DIRECT

Line = dict[str, Any]
HEADER = ("life", "reentry", "group", "rank", "initial_rank")


class Tale:
    """`files`: the lines of each writer's file, in their order. `plan`: what the run was to do."""

    def __init__(self, run_dir: Path) -> None:
        history = run_dir / "history"
        self.experiment = json.loads((run_dir / EXPERIMENT).read_text())
        self.plan: dict[str, Any] = self.experiment["configuration"]["plan"]
        control = run_dir / CONTROL
        self.controls = control.read_text() if control.exists() else ""
        self.files: dict[str, list[Line]] = {
            path.name: [json.loads(line) for line in path.read_text().splitlines()]
            for path in sorted(history.glob("*.jsonl"))
        }
        described = json.loads((history / manifest.NAME).read_text())
        self.lives: list[Line] = described["lives"]
        self.run_id: str = described["run_id"]

    def write(self, run_dir: Path) -> Path:
        """As a run directory that the reader trusts."""
        history = run_dir / "history"
        history.mkdir(parents=True)
        (run_dir / EXPERIMENT).write_text(json.dumps(self.experiment))
        if self.controls:
            (run_dir / CONTROL).write_text(self.controls)
        for name, lines in self.files.items():
            (history / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        manifest.write(run_dir, run_id=self.run_id, lives=self.lives)
        return run_dir

    # --- finding

    def all(self, *kinds: str, where: Callable[[Line], bool] = lambda line: True, **fields: Any) -> list[Line]:
        """The lines of these kinds (all kinds when none is named) with these fields, in order of time."""
        found = [line for lines in self.files.values() for line in lines if _fits(line, kinds, fields) and where(line)]
        return sorted(found, key=lambda line: line["t_ns"])

    def one(self, kind: str, **fields: Any) -> Line:
        """The first of them."""
        return self.all(kind, **fields)[0]

    def last(self, kind: str, **fields: Any) -> Line:
        return self.all(kind, **fields)[-1]

    @property
    def groups(self) -> list[str]:
        """Names of the process groups that stepped, in order of their first step."""
        return list(dict.fromkeys(line["group"] for line in self.all("step_done")))

    @property
    def fired(self) -> Line:
        return self.one("fault_fired")

    @property
    def noticed(self) -> list[Line]:
        """What NVRx and the job said after the fault, in order of time."""
        return self.all(*DIRECT, where=lambda line: line["t_ns"] >= self.fired["t_ns"])

    def lives_of(self, group: str) -> list[str]:
        """The processes of a group, in order of rank."""
        members = {line["rank"]: line["life"] for line in self.all("process_group_ready", group=group)}
        return [members[rank] for rank in sorted(members)]

    # --- changing

    def add(self, like: Line, kind: str, *, after_s: float, at: Line | None = None, **fields: Any) -> Line:
        """A new line of the same writer about the same rank as `like`, so long after the line `at` (itself if none)."""
        at = at or like
        line = {"t_ns": at["t_ns"], "wall_s": at["wall_s"]} | {name: like[name] for name in HEADER}
        line |= {"kind": kind} | fields
        _move(line, after_s)
        lines = self._file_of(like)
        place = next((index for index, other in enumerate(lines) if other["t_ns"] > line["t_ns"]), len(lines))
        lines.insert(place, line)
        return line

    def drop(self, *kinds: str, where: Callable[[Line], bool] = lambda line: True, **fields: Any) -> None:
        """Takes these lines out."""
        for name, lines in self.files.items():
            self.files[name] = [line for line in lines if not (_fits(line, kinds, fields) and where(line))]

    def change(self, lines: Iterable[Line], **fields: Any) -> None:
        """Other values in these lines."""
        for line in lines:
            line.update(fields)

    def later(self, by_s: float, *, since: Line) -> None:
        """That line and all that came after it happened so much later."""
        since_ns = since["t_ns"]
        for line in self.all(where=lambda line: line["t_ns"] >= since_ns):
            _move(line, by_s)

    def end_at(self, moment: Line, *, but: Iterable[str] = ()) -> None:
        """Nothing happened after that line, but for lines of these kinds."""
        kept = frozenset(but)
        self.drop(where=lambda line: line["t_ns"] > moment["t_ns"] and line["kind"] not in kept)
        self.files = {name: lines for name, lines in self.files.items() if lines}
        self.lives = [row for row in self.lives if not row.get("file") or row["file"] in self.files]

    def split(self, file: str, at: Line, life: str) -> list[Line]:
        """From that line on another process wrote: its lines get a file of their own, and its life."""
        lines = self.files[file]
        place = next(index for index, line in enumerate(lines) if line is at)
        self.files[file], moved = lines[:place], lines[place:]
        name = manifest.file_of_life(life)
        self.files[name] = moved
        self.change(moved, life=life)
        self.lives.append({"life": life, "role": "rank", "rank": moved[0]["rank"], "file": name})
        return moved

    def file_of(self, line: Line) -> str:
        """The name of the file that holds this very line."""
        return next(name for name, lines in self.files.items() if any(other is line for other in lines))

    def _file_of(self, line: Line) -> list[Line]:
        return self.files[self.file_of(line)]


def _fits(line: Line, kinds: tuple[str, ...], fields: dict[str, Any]) -> bool:
    return (not kinds or line["kind"] in kinds) and all(line.get(name) == value for name, value in fields.items())


def _move(line: Line, by_s: float) -> None:
    line["t_ns"] += round(by_s * 1e9)
    line["wall_s"] += by_s


def own(line: Line) -> Line:
    """The fields that belong to its kind."""
    return {name: value for name, value in line.items() if name not in ("t_ns", "wall_s", "kind", *HEADER)}
