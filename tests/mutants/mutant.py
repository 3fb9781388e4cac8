"""What a mutant is: a job, or the history of one, that is broken in one way, and the checks that must find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tale import Tale

KILL = "kill"  # the twin of most: a worker is killed, and the launcher brings the job back


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`twin`: the recording of the same run without the defect. A broken history is its twin with `edit` done to it; a
    broken job was run with `defect` planted in it and has a recording of its own.

    `objective`: fields of the plan's objective that twin and mutant are judged by, beside those of the scenario.
    """

    name: str
    broken: str
    twin: str
    must_fail: tuple[str, ...] = ()
    may_fail: tuple[str, ...] = ()
    must_be_unknown: tuple[str, ...] = ()
    objective: Mapping[str, Any] = field(default_factory=dict)
    edit: Callable[[Tale], None] | None = None
    defect: str = ""

    def __post_init__(self) -> None:
        assert (self.edit is None) == bool(self.defect), f"{self.name}: an edit or a defect, not both"
        assert self.must_fail or self.must_be_unknown, f"{self.name}: no check is named that has to find it"

    @property
    def recording(self) -> str:
        return self.name if self.defect else self.twin

    @property
    def caught_by(self) -> tuple[str, ...]:
        return (*self.must_fail, *self.must_be_unknown)


def broken_history(edit: Callable[[Tale], None], *, twin: str = KILL, **fields: Any) -> Mutant:
    """Named as the function that makes it, and described by its docstring."""
    return Mutant(name=_name(edit.__name__), broken=_sentence(edit), twin=twin, edit=edit, **_tuples(fields))


def broken_job(defect: str, broken: str, *, twin: str = KILL, **fields: Any) -> Mutant:
    """Named as the defect that is planted in it."""
    sentence = broken[0].upper() + broken[1:]
    return Mutant(name=_name(defect), broken=sentence, twin=twin, defect=defect, **_tuples(fields))


def _name(name: str) -> str:
    return name.replace("_", "-")


def _sentence(edit: Callable[[Tale], None]) -> str:
    assert edit.__doc__, f"{edit.__name__} does not say what is broken"
    return " ".join(edit.__doc__.split()).removesuffix(".")


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """One check may be given as its bare name."""
    return {name: (value,) if isinstance(value, str) else value for name, value in fields.items()}
