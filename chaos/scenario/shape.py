"""Plain values against a struct: every problem of a mapping at once, where msgspec's own check stops at the first.

Says what is wrong with each value by itself. Leaves to `meaning.py` what values mean together; the struct is
still built by msgspec afterwards, so this only has to find words, never to be the last guard.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import msgspec.inspect as inspect

from chaos.scenario.problems import Path, Problem, dotted, found, nearest, not_one_of
from chaos.scenario.schema import Record
from chaos.scenario.units import LONGEST_S, PATTERN, seconds
from chaos.scenario.yaml_text import Document

_MISSING_WORDS = {
    "job": "missing; such as {run: trainer, recovery: [in_job]}",
    "schema": "missing; the first line is `schema: nvrx-chaos/scenario/1`",
    "at": "missing; say when: {step: 47, phase: backward} or {after: 5s} or {event: restart_entered}",
    "checks": "missing; name the checks that fail by the defect",
    "since": 'missing; say which versions have the defect, such as {nvrx: ">=0.4.1"}',
    "ref": "missing; give the address of a public page that tells of the defect",
    "until": "missing; say the last day on which it is not counted, such as 2027-03-01",
}


def problems_of(document: Document, record: type[msgspec.Struct], path: Path = ()) -> list[Problem]:
    """Everything about the value at `path` that the record would not take."""
    checker = _Checker(document)
    value = document.value
    for part in path:
        value = value[part]
    checker.check(value, inspect.type_info(record), path, record)
    return checker.problems


class _Checker:
    """One pass over one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def check(self, value: Any, kind: inspect.Type, path: Path, owner: type[msgspec.Struct]) -> None:
        """`owner` is the record that holds the field: it knows which values come in a later version."""
        description = ""
        if isinstance(kind, inspect.Metadata):
            description = str((kind.extra_json_schema or {}).get("description", ""))
            kind = kind.type
        if isinstance(kind, inspect.AnyType):
            return  # free values: what is inside them is the business of whoever they are for
        if value is None:
            self._say(path, f"found {found(value)}; allowed: {_allowed(kind, description)}")
        elif isinstance(kind, inspect.UnionType):
            self._union(value, kind, path, owner, description)
        elif isinstance(kind, inspect.StructType):
            self._struct(value, kind, path)
        elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
            self._list(value, kind, path, owner, description)
        elif isinstance(kind, inspect.DictType):
            self._dict(value, kind, path, owner)
        else:
            self._leaf(value, kind, path, owner, description)

    def _say(self, path: Path, text: str) -> None:
        self.problems.append(Problem(self._document.origin(path), dotted(path), text))

    def _struct(self, value: Any, kind: inspect.StructType, path: Path) -> None:
        names = [field.encode_name for field in kind.fields]
        if not isinstance(value, dict):
            expected = f"a mapping with {', '.join(names)}" if names else "an empty mapping"
            self._say(path, f"found {found(value)}; allowed: {expected}")
            return
        for key in value:
            if key not in names:
                self._unknown(key, kind.cls, names, path)
        for field in kind.fields:
            if field.encode_name in value:
                self.check(value[field.encode_name], field.type, (*path, field.encode_name), kind.cls)
            elif field.required:
                words = _MISSING_WORDS.get(field.encode_name, "missing")
                self._say((*path, field.encode_name), words)

    def _unknown(self, key: str, record: type, names: list[str], path: Path) -> None:
        if issubclass(record, Record) and key in record.not_yet:
            self._say((*path, key), f"not in this version; {record.not_yet[key]}")
            return
        allowed = ", ".join(names) if names else "nothing; this fault has no parameters"
        self._say((*path, key), f"unknown field; allowed: {allowed}{nearest(key, names)}")

    def _list(self, value: Any, kind: Any, path: Path, owner: type[msgspec.Struct], description: str) -> None:
        if not isinstance(value, list):
            self._say(path, f"found {found(value)}; allowed: {_allowed(kind, description)}")
            return
        if len(value) < (kind.min_length or 0):
            self._say(path, "found an empty list; allowed: at least one entry")
        for index, item in enumerate(value):
            self.check(item, kind.item_type, (*path, index), owner)

    def _dict(self, value: Any, kind: inspect.DictType, path: Path, owner: type[msgspec.Struct]) -> None:
        if not isinstance(value, dict):
            self._say(path, f"found {found(value)}; allowed: a mapping")
            return
        for key, item in value.items():
            self.check(item, kind.value_type, (*path, key), owner)

    def _union(
        self, value: Any, kind: inspect.UnionType, path: Path, owner: type[msgspec.Struct], description: str
    ) -> None:
        """One member is picked by the shape of the value, so that the message is about what was meant."""
        for member in kind.types:
            if isinstance(member, inspect.NoneType):
                continue  # "not set" is written by leaving the key out
            plain = member.type if isinstance(member, inspect.Metadata) else member
            if isinstance(value, dict) == isinstance(plain, inspect.StructType | inspect.DictType) and isinstance(
                value, list
            ) == isinstance(plain, inspect.ListType | inspect.VarTupleType):
                self.check(value, member, path, owner)
                return
        self._say(path, f"found {found(value)}; allowed: {_allowed(kind, description)}")

    def _leaf(self, value: Any, kind: inspect.Type, path: Path, owner: type[msgspec.Struct], description: str) -> None:
        if isinstance(kind, inspect.LiteralType):
            self._literal(value, kind, path, owner)
        elif isinstance(kind, inspect.StrType) and kind.pattern == PATTERN:
            self._duration(value, path)
        else:
            text = _leaf_problem(value, kind, description)
            if text:
                self._say(path, text)

    def _literal(self, value: Any, kind: inspect.LiteralType, path: Path, owner: type[msgspec.Struct]) -> None:
        allowed = [str(option) for option in kind.values]
        if isinstance(value, str) and value in allowed:
            return
        field = next((part for part in reversed(path) if isinstance(part, str)), "")
        if issubclass(owner, Record) and value in owner.later_values.get(field, ()):
            self._say(path, f"{found(value)} is not in this version; allowed: {', '.join(allowed)}")
            return
        self._say(path, not_one_of(value, allowed))

    def _duration(self, value: Any, path: Path) -> None:
        try:
            time_s = seconds(value) if isinstance(value, str) else None
        except ValueError:
            time_s = None
        if time_s is None:
            guess = f"; did you mean {value}s?" if isinstance(value, int | float) and value is not True else ""
            self._say(path, f"found {found(value)}; allowed: a number with its unit, such as 500ms, 8s or 2m{guess}")
        elif not 0 < time_s <= LONGEST_S:
            self._say(path, f"found {found(value)}; allowed: more than 0s, at most {LONGEST_S / 60:.0f}m")


def _leaf_problem(value: Any, kind: inspect.Type, description: str) -> str:
    """What is wrong with one plain value; empty when nothing is."""
    fits = False
    if isinstance(kind, inspect.StrType):
        fits = (
            isinstance(value, str)
            and len(value) >= (kind.min_length or 0)
            and (kind.max_length is None or len(value) <= kind.max_length)
            and (kind.pattern is None or re.search(kind.pattern, value) is not None)
        )
    elif isinstance(kind, inspect.BoolType):
        fits = isinstance(value, bool)
    elif isinstance(kind, inspect.IntType):
        fits = isinstance(value, int) and not isinstance(value, bool) and _within(value, kind)
    elif isinstance(kind, inspect.FloatType):
        fits = isinstance(value, int | float) and not isinstance(value, bool) and _within(value, kind)
    if fits:
        return ""
    hint = ""
    if isinstance(kind, inspect.StrType) and isinstance(value, int | float):
        hint = "; put it in quotes" if re.search(kind.pattern or "", str(value)) else ""
    return f"found {found(value)}; allowed: {_allowed(kind, description)}{hint}"


def _within(value: float, kind: Any) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


def _allowed(kind: inspect.Type, description: str = "") -> str:
    """A type in words."""
    if isinstance(kind, inspect.Metadata):
        return _allowed(kind.type, str((kind.extra_json_schema or {}).get("description", "")))
    suffix = f" ({description})" if description else ""
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(str(option) for option in kind.values)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(_allowed(member) for member in kind.types if not isinstance(member, inspect.NoneType))
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return _number_words(kind) + suffix
    if isinstance(kind, inspect.StrType):
        longest = f", at most {kind.max_length} characters" if kind.max_length else ""
        return (description or "text") + longest
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return f"a list of {_allowed(kind.item_type)}"
    if isinstance(kind, inspect.StructType):
        return f"a mapping with {', '.join(field.encode_name for field in kind.fields)}"
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    return "a mapping" if isinstance(kind, inspect.DictType) else "a value"


def _number_words(kind: Any) -> str:
    noun = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
    if kind.ge is not None and kind.ge == kind.le:
        return f"{kind.ge:g}"
    bounds = []
    if kind.ge is not None:
        bounds.append(f"at least {kind.ge:g}")
    if kind.gt is not None:
        bounds.append(f"more than {kind.gt:g}")
    if kind.le is not None:
        bounds.append(f"at most {kind.le:.0f}" if kind.le >= 1e6 else f"at most {kind.le:g}")
    return f"{noun} {' and '.join(bounds)}".rstrip()
