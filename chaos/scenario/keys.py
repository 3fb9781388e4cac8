"""Dotted keys of `vary` and `--set`: which value of a file they mean.

`objective.recovery_time` counts from the top; `target.rank` means the only fault; `faults.kill.at.step` means a
fault by name, `faults.0.at.step` by place. Leaves to the shape check whether the last field exists.
"""

from __future__ import annotations

import re
from typing import Any

from chaos.scenario.problems import Origin, Path, Problem, nearest
from chaos.scenario.schema import FaultEntry, ScenarioFile
from chaos.scenario.yaml_text import Document

_FIXED = ("schema", "name", "vary", *ScenarioFile.not_yet)
TOP = tuple(name for name in ScenarioFile.__struct_fields__ if name not in _FIXED)
OF_FAULT = tuple(name for name in FaultEntry.__struct_fields__ if name != "name")


def path_of(document: Document, key: str, origin: Origin) -> Path | Problem:
    """The path that a key means in this document, or what is wrong with the key."""
    parts = re.sub(r"\[(\d+)\]", r".\1", key).split(".")
    if not all(parts):
        return Problem(origin, key, "found a key with an empty part; write it like target.rank or job.steps")
    if parts[0] in OF_FAULT and parts[0] not in TOP:
        return _in_only_fault(document, key, parts, origin)
    if parts[0] == "faults":
        return _in_named_fault(document, key, parts, origin)
    if parts[0] in TOP:
        return tuple(parts)
    allowed = (*TOP, *OF_FAULT)
    return Problem(origin, key, f"unknown key; it starts with one of: {', '.join(allowed)}{nearest(parts[0], allowed)}")


def _faults(document: Document) -> list[Any]:
    faults = document.value.get("faults", [])
    return faults if isinstance(faults, list) else []


def _in_only_fault(document: Document, key: str, parts: list[str], origin: Origin) -> Path | Problem:
    names = fault_names(_faults(document))
    if len(names) == 1:
        return ("faults", 0, *parts)
    if not names:
        return Problem(origin, key, "the scenario has no fault that this could mean")
    options = ", ".join(f"faults.{name}.{key}" for name in names)
    return Problem(origin, key, f"the scenario has {len(names)} faults; say which: {options}")


def _in_named_fault(document: Document, key: str, parts: list[str], origin: Origin) -> Path | Problem:
    names = fault_names(_faults(document))
    if len(parts) < 3:
        return Problem(origin, key, "names a whole list; go down to a field, such as faults.0.at.step")
    if parts[1] in names:
        return ("faults", names.index(parts[1]), *parts[2:])
    if parts[1].isascii() and parts[1].isdigit() and int(parts[1]) < len(names):
        return ("faults", int(parts[1]), *parts[2:])
    return Problem(origin, key, f"no such fault; faults here: {', '.join(names) or 'none'}{nearest(parts[1], names)}")


def fault_names(faults: list[Any]) -> list[str]:
    """The names as they will be, default (the fault's family) included."""
    names = []
    for entry in faults:
        entry = entry if isinstance(entry, dict) else {}
        names.append(str(entry.get("name") or str(entry.get("fault", "")).partition(".")[0]))
    return names
