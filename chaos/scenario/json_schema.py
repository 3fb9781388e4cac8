"""The JSON Schema of scenario files, for editors: made from the same records that loading uses.

It knows single values, and each fault's parameters; what values mean together only loading can say.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec

from chaos.faults.catalogue import BY_NAME
from chaos.scenario.check_foreseen import FORESEEABLE
from chaos.scenario.check_names import CORE, KNOWN
from chaos.scenario.schema import TRIGGER_EVENTS, Part, ScenarioFile

ID = "nvrx-chaos-scenario-1"


def json_schema() -> dict[str, Any]:
    """A schema that stands by itself."""
    names = list(BY_NAME)
    records = [ScenarioFile, *(BY_NAME[name].Params for name in names)]
    (whole, *params), components = msgspec.json.schema_components(records, ref_template="#/$defs/{name}")
    entry = components["FaultEntry"]
    entry["properties"]["fault"] = {"enum": names, "description": "what to do; `nvrx-chaos faults` lists them"}
    entry["allOf"] = [
        {
            "if": {"properties": {"fault": {"const": name}}},
            "then": {"properties": {"params": schema}},
        }
        for name, schema in zip(names, params, strict=True)
    ]
    components["When"]["properties"]["event"] = {"enum": list(TRIGGER_EVENTS)}
    components["Objective"]["properties"]["parts"]["propertyNames"] = {"enum": list(get_args(Part))}
    choice = components["CheckChoice"]["properties"]
    choice["add"]["items"] = {"enum": list(KNOWN)}
    choice["drop"]["items"] = {"enum": [name for name in KNOWN if name not in CORE]}
    foreseeable = {"enum": list(FORESEEABLE)}
    components["ScenarioFile"]["properties"]["expect_failed"]["items"] = foreseeable
    components["KnownDefect"]["properties"]["checks"]["items"] = foreseeable
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "nvrx-chaos scenario",
        **whole,
        "$defs": _without_null(components),
    }


def as_text() -> str:
    """The file that editors read."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _without_null(value: Any) -> Any:
    """An empty value is an error in a scenario file, so no field offers null."""
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _without_null(item) for key, item in value.items() if not (key == "default" and item is None)}
    options = plain.get("anyOf")
    if isinstance(options, list):
        kept = [option for option in options if option != {"type": "null"}]
        if len(kept) == 1:
            del plain["anyOf"]
            return {**kept[0], **plain}
        plain["anyOf"] = kept
    return plain
