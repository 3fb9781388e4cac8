"""Every key of a scenario file: allowed values and defaults from the schema, meanings from `scenario_words.py`."""

from __future__ import annotations

import json
from typing import Any

from chaos.model.events import PHASES, POINTS
from chaos.scenario import schema
from chaos.scenario.json_schema import json_schema
from reference.markdown import code, listed, same_names, table
from reference.scenario_words import MEANING, SECTIONS

_IN_ORDER = (PHASES, POINTS, ("in_process", "in_job"), ("in_process", "in_job", "new_job", "none"), ("any", "all"))
_SECTION_OF = {record: (title, anchor) for record, title, anchor, _ in SECTIONS}


def keys() -> str:
    """One table for each mapping of the file, top level first."""
    records = json_schema()["$defs"]
    same_names(
        "scenario keys",
        MEANING,
        (f"{record}.{key}" for record in _SECTION_OF for key in records[record]["properties"]),
    )
    return "\n\n".join(_section(records[record], record, title, words) for record, title, _, words in SECTIONS)


def not_yet() -> str:
    """Words of the format that this version does not know how to do yet."""
    rows = []
    for record, title, _, _ in SECTIONS:
        of = getattr(schema, record)
        rows += [(f"{title}: {code(key)}", "the key", advice) for key, advice in of.not_yet.items()]
        rows += [
            (f"{title}: {code(key)}", f"the values {listed(values)}", "use one of the values above")
            for key, values in of.later_values.items()
        ]
    return table(("where", "not in this version", "meanwhile"), rows)


def _section(record: dict[str, Any], name: str, title: str, words: str) -> str:
    required = record.get("required", [])
    rows = []
    for key, rule in record["properties"].items():
        default = "**required**" if key in required else _default(rule)
        rows.append((code(key), _allowed(rule), default, MEANING[f"{name}.{key}"]))
    return f"### {title}\n\n{words}\n\n{table(('key', 'allowed', 'default', 'meaning'), rows)}"


def _default(rule: dict[str, Any]) -> str:
    if "default" not in rule:
        return "–"
    if "$ref" in rule and isinstance(rule["default"], dict):
        return "its own defaults"
    value = rule["default"]
    return "empty" if value in ("", [], {}) else code(value if isinstance(value, str) else json.dumps(value))


def _allowed(rule: dict[str, Any]) -> str:
    if "enum" in rule:
        return listed(_ordered(rule["enum"]))
    if "anyOf" in rule:
        return ", or ".join(_allowed(option) for option in rule["anyOf"])
    if "$ref" in rule:
        title, anchor = _SECTION_OF[rule["$ref"].rpartition("/")[2]]
        return f"mapping: [{title}](#{anchor})"
    kind = rule.get("type", "any value")
    if kind == "array":
        return f"list of {_allowed(rule['items'])}" if rule.get("items") else "list"
    if kind in ("integer", "number"):
        return _number(rule, "whole number" if kind == "integer" else "number")
    if kind == "object":
        inner = rule.get("additionalProperties")
        return f"mapping of names to {_allowed(inner)}" if isinstance(inner, dict) else "mapping"
    return {"string": rule.get("description", "text"), "boolean": "`true`, `false`"}.get(kind, kind)


def _number(rule: dict[str, Any], word: str) -> str:
    low, high = rule.get("minimum"), rule.get("maximum")
    if low is not None and low == high:
        return code(low)
    if "exclusiveMinimum" in rule:
        return f"{word} above {rule['exclusiveMinimum']:g}, at most {high:g}"
    return word if low is None else f"{word}, {low} to {high}"


def _ordered(words: list[str]) -> list[str]:
    """The schema sorts by letter; people read phases in the order of a step."""
    for order in _IN_ORDER:
        if set(words) == set(order):
            return list(order)
    return words
