"""The resolved form of a scenario as YAML: every default written out, readable, and loadable as a scenario itself."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from ruamel.yaml import YAML

from chaos.scenario.schema import ScenarioFile

_FREE = ("args", "env", "params")  # what is in these is not ours to leave out


def resolved_yaml(spec: ScenarioFile) -> str:
    """One document. Loading it gives the same plan, wherever it lies."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.width = 100
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    writer.dump(_without_nothing(msgspec.to_builtins(spec)), stream)
    return stream.getvalue()


def _without_nothing(value: Any) -> Any:
    """Leaves out what is not set: an absent key and an empty value differ in a scenario file."""
    if isinstance(value, list):
        return [_without_nothing(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: item if key in _FREE else _without_nothing(item) for key, item in value.items()}
    return {key: item for key, item in inner.items() if _says_something(key, item)}


def _says_something(key: str, value: Any) -> bool:
    if value == []:
        return key in ("recovery", "faults")  # no layer, no fault: statements, not gaps
    return value is not None and value not in ({}, "")
