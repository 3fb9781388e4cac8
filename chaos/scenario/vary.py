"""`vary`: one file, one run of each combination. `--set`: single values on top of everything.

A value set from outside takes the place of a varied one, so that `--set target.rank=1` picks one run of several
and that run keeps its name.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.errors import ScenarioInvalid
from chaos.scenario.keys import path_of
from chaos.scenario.layers import put
from chaos.scenario.problems import Origin, Path, Problem, found, invalid
from chaos.scenario.yaml_text import Document, parse

RUNS_MAX = 200  # of one file; more is a search, not a scenario


@dataclass(frozen=True, slots=True)
class Setting:
    """One value for one key. `path` is where it goes in this file."""

    key: str
    path: Path
    value: Any
    origin: Origin

    @property
    def as_argument(self) -> str:
        """KEY=VALUE for `--set`, read back to the same value."""
        text = self.value if isinstance(self.value, str) else json.dumps(self.value)
        return f"{self.key}={text if _read(text) == self.value else json.dumps(self.value)}"

    @property
    def as_label(self) -> str:
        """For the name of a run, which is also the name of a folder."""
        text = self.value if isinstance(self.value, str) else json.dumps(self.value)
        return f"{self.key.rpartition('.')[2]}={re.sub(r'[^A-Za-z0-9_.+-]+', '_', text).strip('_')}"


@dataclass(slots=True)
class Combination:
    """One run: the document with its values in it, its name's suffix, and what repeats it."""

    document: Document
    suffix: str
    settings: list[Setting] = field(default_factory=list)


def settings_of(document: Document, sets: Sequence[str]) -> list[Setting]:
    """The `--set` options as values of this file; ScenarioInvalid for a key or value that cannot be meant."""
    settings, problems = [], []
    for text in sets:
        origin = Origin(f"--set {text}")
        key, equals, raw = text.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(Problem(origin, "", "found no KEY=VALUE; write it like --set target.rank=1"))
            continue
        path = path_of(document, key, origin)
        value = _read(raw)
        if isinstance(path, Problem):
            problems.append(path)
        elif value is None:
            problems.append(Problem(origin, key, f"found {found(raw)}; allowed: a value as it would stand in the file"))
        else:
            settings.append(Setting(key, path, value, origin))
    if problems:
        raise invalid(problems)
    return settings


def combinations(document: Document, settings: Sequence[Setting]) -> list[Combination]:
    """Every run of the file, in the order of the file; one when it varies nothing."""
    axes = _axes(document, settings)
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > RUNS_MAX:
        raise invalid([Problem(document.origin(("vary",)), "vary", f"found {count} runs; allowed: at most {RUNS_MAX}")])
    return [_combination(document, chosen, settings) for chosen in itertools.product(*axes)]


def _combination(document: Document, chosen: Sequence[Setting], settings: Sequence[Setting]) -> Combination:
    result = Document(json.loads(json.dumps(document.value)), dict(document.origins))
    result.value.pop("vary", None)
    on_top = [setting for setting in settings if all(setting.path != choice.path for choice in chosen)]
    for setting in (*chosen, *on_top):
        try:
            put(result, setting.path, setting.value, setting.origin)
        except (IndexError, ValueError, TypeError, AttributeError):
            # Something on the way is a single value or a shorter list: the key does not fit this file.
            key = setting.key if setting.origin.line is None else f"vary.{setting.key}"
            raise invalid([Problem(setting.origin, key, "there is no such field in this scenario")]) from None
    labels = ",".join(choice.as_label for choice in chosen)
    return Combination(result, f"[{labels}]" if labels else "", [*chosen, *on_top])


def _axes(document: Document, settings: Sequence[Setting]) -> list[list[Setting]]:
    vary = document.value.get("vary", {})
    if not isinstance(vary, dict):
        raise invalid([Problem(document.origin(("vary",)), "vary", f"found {found(vary)}; allowed: a mapping")])
    axes, problems = [], []
    for key, values in vary.items():
        origin = document.origin(("vary", key))
        path = path_of(document, key, origin)
        if isinstance(path, Problem):
            problems.append(Problem(path.origin, f"vary.{key}", path.text))
        elif not isinstance(values, list) or not values:
            text = f"found {'an empty list' if values == [] else found(values)}; allowed: a list of values"
            problems.append(Problem(origin, f"vary.{key}", text))
        elif axis := _axis(document, key, path, values, settings):
            axes.append(axis)
    problems.extend(_unclear(document, axes))
    if problems:
        raise invalid(problems)
    return axes


def _axis(document: Document, key: str, path: Path, values: list[Any], settings: Sequence[Setting]) -> list[Setting]:
    """The values of one key: the one set from outside if there is one, none when what holds the key is set."""
    for setting in settings:
        if setting.path == path:
            return [Setting(key, path, setting.value, setting.origin)]
        if path[: len(setting.path)] == setting.path:
            return []
    return [
        Setting(key, path, value, document.origin(("vary", key, index)))
        for index, value in enumerate(values)
    ]  # fmt: skip


def _unclear(document: Document, axes: Sequence[Sequence[Setting]]) -> list[Problem]:
    """Runs whose names would not tell them apart, and keys of which one undoes the other."""
    problems = []
    for axis in axes:
        labels = [setting.as_label for setting in axis]
        for index, label in enumerate(labels):
            if label in labels[:index]:
                text = f"two values give the same name {found(label)}; each value must be another"
                problems.append(Problem(axis[index].origin, f"vary.{axis[0].key}", text))
    for one, other in itertools.combinations(axes, 2):
        first, second = one[0], other[0]
        shorter = min(len(first.path), len(second.path))
        if first.path[:shorter] == second.path[:shorter]:
            text = f"sets the same field as vary.{first.key}"
            problems.append(Problem(document.origin(("vary", second.key)), f"vary.{second.key}", text))
    return problems


def _read(raw: str) -> Any:
    """The value that a text stands for; None when it stands for none."""
    try:
        return parse(raw, "value").value
    except ScenarioInvalid:
        return None
