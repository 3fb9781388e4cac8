"""The rooms of `chaos/`: purposes in words, arrows from the house rule that a test keeps (`tests/test_rooms.py`)."""

from __future__ import annotations

import ast
from pathlib import Path

from reference.markdown import code, listed, same_names, table

HOUSE_RULES = Path(__file__).resolve().parents[2] / "tests" / "test_rooms.py"
PURPOSE = {
    "errors": "every error that a user can meet, in one tree",
    "clock": "real and fake time",
    "files": "writing a file whole or not at all; output trouble as our errors",
    "model": "records, one family a file: events, orders, identity, undo, plan, timeline, verdict, exit statuses",
    "doors": "protocols of everything outside: the process table, killing, the ranks",
    "triggers": "progress and trigger → due or not; pure; used inside ranks and outside",
    "history": "writing events, reading them back, the manifest that says what must be there",
    "agent": "inside a rank: learns progress, reports it, carries out orders on itself",
    "system": "this host: processes and how they end, noise, memory, residue; carries out and measures undos",
    "faults": "one fault a file: parameters, order or harm, undo, confirmation; the catalogue",
    "scenario": "file → checked scenario → plan → Chaos Toolkit experiment",
    "guard": "ledger, watchdog, limits, dirty hosts, heal; knows no faults",
    "jobs": "starts the job and tells how it ended",
    "injector": "arms, fires, confirms, undoes; knows what has fired",
    "observer": "watches processes, the job's log, machine, memory and checkpoints, and writes what it saw; never acts",
    "judge": "events → lineage → incidents → checks → verdict; pure",
    "report": "verdict and timeline → terminal, HTML, JUnit, JSON",
    "conclude": "run directory → verdict and report files, the first time or again",
    "controls": "which fault-free runs of a job are there, and what they are cached under",
    "fitness": "what this host can do; used by `doctor` and before a start",
    "session": "one live run: opens all of it, and ends, undoes, concludes whatever happens",
    "toolkit": "Chaos Toolkit's border: a few lines for each action and probe",
    "runner": "one run, one process: hands the experiment to Chaos Toolkit",
    "run": "scenarios → run directories → runner processes, shown live",
    "cli": "one command a file: arguments in, exit status out",
}


def rooms() -> str:
    """In order: every arrow points to a row above."""
    arrows = _arrows()
    same_names("rooms", PURPOSE, [*arrows, "cli"])
    rows = [
        (code(name), PURPOSE[name], listed(sorted(may, key=list(arrows).index)) or "–") for name, may in arrows.items()
    ]
    rows.append((code("cli"), PURPOSE["cli"], "all but `agent`, `toolkit`, `runner`"))
    return table(("room", "purpose; what it leaves to others is in its docstring", "may import"), rows)


def _arrows() -> dict[str, set[str]]:
    for node in ast.parse(HOUSE_RULES.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "ROOMS":
            assert isinstance(node.value, ast.Dict)
            return {
                ast.literal_eval(key): set() if isinstance(value, ast.Call) else ast.literal_eval(value)
                for key, value in zip(node.value.keys, node.value.values, strict=True)
                if key is not None
            }
    raise SystemExit(f"{HOUSE_RULES} has no ROOMS")
