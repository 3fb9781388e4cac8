"""Do the failures that a scenario foresees make sense: checks that are asked and can fail, versions, a day that exists.

What a foreseen failure does to a verdict is the judge's.
"""

from __future__ import annotations

from datetime import date

from msgspec.structs import asdict
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from chaos.model.plan import NEVER_FORESEEN
from chaos.scenario.check_names import KNOWN
from chaos.scenario.check_objective import check_has_objective
from chaos.scenario.meaning import Draft, twice
from chaos.scenario.problems import Path, found, not_one_of
from chaos.scenario.schema import KnownDefect

FORESEEABLE: tuple[str, ...] = tuple(name for name in KNOWN if name not in NEVER_FORESEEN)


def check(draft: Draft) -> None:
    expected, known = draft.spec.expect_failed, draft.spec.known
    _check_names(draft, ("expect_failed",), expected)
    if known is None:
        return
    _check_names(draft, ("known", "checks"), known.checks)
    for index, name in enumerate(known.checks):
        if name in expected:
            text = f"{name} is in expect_failed, too; a failure is either wanted or known"
            draft.say(("known", "checks", index), text)
    _check_since(draft, known)
    _check_until(draft, known)


def _check_names(draft: Draft, path: Path, names: list[str]) -> None:
    for index, name in enumerate(names):
        where: Path = (*path, index)
        if name in NEVER_FORESEEN:
            draft.say(where, f"{name} cannot be foreseen to fail: without it the run would prove nothing")
        elif name not in FORESEEABLE:
            draft.say(where, not_one_of(name, FORESEEABLE))
        elif name in draft.spec.objective.checks.drop:
            draft.say(where, f"{name} is dropped by objective.checks, so it cannot fail")
        elif name != "recovered_by" or draft.spec.faults:  # without faults that one has a default
            check_has_objective(draft, where, name)
    if (again := twice(names)) is not None:
        draft.say(path, f"names {again} twice")


def _check_since(draft: Draft, known: KnownDefect) -> None:
    given = {name: text for name, text in asdict(known.since).items() if text is not None}
    if not given:
        allowed = ", ".join(asdict(known.since))
        draft.say(("known", "since"), f"found none of {allowed}; say which versions have the defect")
    for name, text in given.items():
        if not _are_conditions(text):
            words = f'found {found(text)}; allowed: conditions on a version, such as ">=0.4.1" or ">=0.4.1,<0.7"'
            draft.say(("known", "since", name), words + _guess(text))


def _are_conditions(text: str) -> bool:
    """At least one: none at all would hold for every version."""
    try:
        return any(True for _ in SpecifierSet(text))
    except InvalidSpecifier:
        return False


def _guess(text: str) -> str:
    try:
        return f'; did you mean ">={Version(text)}"?'
    except InvalidVersion:
        return ""


def _check_until(draft: Draft, known: KnownDefect) -> None:
    try:
        date.fromisoformat(known.until)
    except ValueError:
        text = f"found {found(known.until)}, which is no day; allowed: a day, such as 2027-03-01"
        draft.say(("known", "until"), text)
