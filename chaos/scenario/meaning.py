"""What the values of a scenario mean together: the second pass, over a scenario whose every value is right by itself.

Each family of checks has a file (`check_job`, `check_faults`, `check_objective`, `check_foreseen`); this one holds what
they share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos.scenario.problems import Path, Problem, dotted
from chaos.scenario.schema import ScenarioFile
from chaos.scenario.yaml_text import Document


@dataclass(slots=True)
class Draft:
    """A scenario being checked, and what was found so far."""

    spec: ScenarioFile
    document: Document
    problems: list[Problem] = field(default_factory=list)

    def say(self, path: Path, text: str) -> None:
        self.problems.append(Problem(self.document.origin(path), dotted(path), text))

    @property
    def world_size(self) -> int:
        return self.spec.job.nodes * self.spec.job.ranks_per_node


def twice(values: Iterable[object]) -> object | None:
    """The first value that comes a second time; None when each comes once."""
    seen: set[object] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
