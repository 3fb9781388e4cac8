"""Judges mutants and their twins from their recordings, each once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mutant import Mutant
from recording import unpack
from tale import Tale

from chaos.conclude import judge_run
from chaos.model.verdict import Verdict


class Judging:
    """`folder`: where the histories are put for the judge to read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._verdicts: dict[tuple[str, str], Verdict] = {}

    def twin(self, mutant: Mutant) -> Verdict:
        """The same run without the defect, held to the same."""
        key = (mutant.twin, repr(sorted(mutant.objective.items())))
        if key not in self._verdicts:
            tale = _asking(self.recorded(mutant.twin), mutant.objective)
            self._verdicts[key] = judge_run(tale.write(self._folder / f"twin-{len(self._verdicts)}"))[0]
        return self._verdicts[key]

    def mutant(self, mutant: Mutant) -> Verdict:
        key = ("mutant", mutant.name)
        if key not in self._verdicts:
            self._verdicts[key] = judge_run(self.history_of(mutant))[0]
        return self._verdicts[key]

    def history_of(self, mutant: Mutant) -> Path:
        """Its run directory, to be judged again."""
        run_dir = self._folder / f"mutant-{mutant.name}"
        if not run_dir.exists():
            tale = _asking(self.recorded(mutant.recording), mutant.objective)
            if mutant.edit is not None:
                mutant.edit(tale)
            tale.write(run_dir)
        return run_dir

    def recorded(self, name: str) -> Tale:
        """A recorded run; its lines are read anew each time, because an edit changes them."""
        run_dir = self._folder / f"recorded-{name}"
        return Tale(run_dir if run_dir.exists() else unpack(name, run_dir))


def _asking(tale: Tale, objective: Mapping[str, Any]) -> Tale:
    tale.plan["objective"].update(objective)
    return tale


def outcomes(verdict: Verdict, *wanted: str) -> set[str]:
    """The checks that ended so."""
    return {check.name for check in verdict.checks if check.outcome in wanted}


def words(verdict: Verdict) -> str:
    """What it says, for the message of a test that fails."""
    bad = [f"{check.name} {check.outcome}: {check.observed}" for check in verdict.checks if check.outcome != "pass"]
    return "\n".join([verdict.sentence, *bad])
