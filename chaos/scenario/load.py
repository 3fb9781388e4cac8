"""Scenario files → `Scenario` records, one for each run. The door to this room.

Reads the file, puts it on top of `defaults.yaml` beside it, expands `vary`, checks each run's values by
themselves and together. Raises `ScenarioInvalid` with every problem found; gives nothing in part.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath

import msgspec

from chaos.errors import ScenarioInvalid
from chaos.scenario import check_faults, check_foreseen, check_job, check_objective
from chaos.scenario.layers import merged
from chaos.scenario.meaning import Draft
from chaos.scenario.problems import Origin, Problem, found, invalid, nearest
from chaos.scenario.resolve import resolved
from chaos.scenario.schema import SCHEMA, DefaultsFile, ScenarioFile
from chaos.scenario.shape import problems_of
from chaos.scenario.vary import Combination, combinations, settings_of
from chaos.scenario.yaml_text import Document, parse, read_text

DEFAULTS_NAME = "defaults.yaml"


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One run to be: the resolved scenario, the file it came from as given, the `--set` options that pick it."""

    spec: ScenarioFile
    source: str
    sets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """With what `vary` chose: kill-worker[rank=0]."""
        return self.spec.name

    def repeat_command(self, seed: int) -> str:
        """The command that runs exactly this again."""
        words = ["nvrx-chaos", "run", self.source, "--seed", str(seed)]
        for setting in self.sets:
            words += ["--set", setting]
        return shlex.join(words)


def load_scenario(path: str | FilePath, sets: Sequence[str] = ()) -> Scenario:
    """The one run of a file; ScenarioInvalid when it is wrong, or varies and so is several."""
    scenarios = load_path(path, sets)
    if len(scenarios) > 1:
        text = f"gives {len(scenarios)} runs; pick one, such as --set {scenarios[0].sets[0]}"
        raise invalid([Problem(Origin(str(path)), "vary", text)])
    return scenarios[0]


def load_path(path: str | FilePath, sets: Sequence[str] = ()) -> list[Scenario]:
    """Every run of one file, in the order of the file."""
    file, shown_as = FilePath(path), str(path)
    document = _scenario_document(parse(read_text(file, shown_as), shown_as), shown_as)
    defaults = _defaults_beside(file)
    if defaults is not None:
        document = merged(defaults, document)
    runs = combinations(document, settings_of(document, sets))
    scenarios, problems = [], []
    for run in runs:
        found_here, scenario = _scenario(run, shown_as)
        problems.extend(found_here)
        if scenario is not None:
            scenarios.append(scenario)
    if problems:
        raise invalid(problems)
    return scenarios


def load_paths(files: Iterable[str | FilePath], sets: Sequence[str] = ()) -> list[Scenario]:
    """Every run of several files. One bad file starts nothing, and the error speaks of all bad ones."""
    scenarios: list[Scenario] = []
    errors: list[str] = []
    for file in files:
        try:
            scenarios.extend(load_path(file, sets))
        except ScenarioInvalid as error:
            errors.append(error.message)
    by_name: dict[str, Scenario] = {}
    for scenario in scenarios:
        other = by_name.setdefault(scenario.name, scenario)
        if other is not scenario:
            errors.append(
                f"{scenario.source}: name: {found(scenario.name)} is also the name of a run of {other.source}"
            )
    if errors:
        raise ScenarioInvalid("\n".join(dict.fromkeys(errors)))
    return scenarios


def _scenario_document(document: Document, shown_as: str) -> Document:
    """A mapping that says it is a scenario of a format we read."""
    if not isinstance(document.value, dict):
        raise invalid([Problem(document.origin(()), "", f"found {found(document.value)}; a scenario is a mapping")])
    schema = document.value.get("schema")
    if schema == SCHEMA:
        return document
    origin = document.origin(("schema",))
    if "schema" not in document.value:
        raise invalid([Problem(Origin(shown_as, 1), "schema", f"missing; the first line is `schema: {SCHEMA}`")])
    if isinstance(schema, str) and schema.startswith("nvrx-chaos/suite/"):
        raise invalid([Problem(origin, "schema", "suites are not in this version; run the folder instead")])
    newer = isinstance(schema, str) and schema.startswith(SCHEMA.rpartition("/")[0] + "/")
    text = f"found {found(schema)}; allowed: {SCHEMA}{'' if newer else nearest(schema, [SCHEMA])}"
    raise invalid([Problem(origin, "schema", text)])


def _defaults_beside(file: FilePath) -> Document | None:
    """What `defaults.yaml` in the same folder says, checked; None when there is none."""
    beside = file.parent / DEFAULTS_NAME
    if not beside.exists() or file.name == DEFAULTS_NAME:
        return None
    document = parse(read_text(beside, str(beside)), str(beside))
    if not isinstance(document.value, dict):
        raise invalid([Problem(document.origin(()), "", f"found {found(document.value)}; defaults are a mapping")])
    problems = problems_of(document, DefaultsFile)
    if problems:
        raise invalid(problems)
    # The line says what the file is; the scenario has a schema line of its own.
    document.value.pop("schema", None)
    return document


def _scenario(run: Combination, source: str) -> tuple[list[Problem], Scenario | None]:
    """One run checked from raw values to meaning."""
    document = run.document
    problems = [*problems_of(document, ScenarioFile), *check_faults.raw_problems(document)]
    if problems:
        return problems, None
    document.value["name"] += run.suffix
    draft = Draft(_record(document, source), document)
    for family in (check_job, check_faults, check_objective, check_foreseen):
        family.check(draft)
    if draft.problems:
        return draft.problems, None
    sets = tuple(setting.as_argument for setting in run.settings)
    return [], Scenario(spec=resolved(draft.spec), source=source, sets=sets)


def _record(document: Document, source: str) -> ScenarioFile:
    try:
        return msgspec.convert(document.value, ScenarioFile)
    except msgspec.ValidationError as error:
        # The shape check words every problem it knows; this is the guard behind it.
        raise invalid([Problem(Origin(source), "", str(error))]) from None
