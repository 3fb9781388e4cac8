"""The mutants and what caught them: their words from tests/mutants, the checks from the last run of its tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from reference.markdown import code, listed, table

ZOO = Path(__file__).resolve().parents[2] / "tests" / "mutants"


def mutants() -> str:
    """One row for each."""
    sys.path.insert(0, str(ZOO))
    from mutant import Mutant
    from zoo import MUTANTS

    caught = json.loads((ZOO / "caught.json").read_text(encoding="utf-8"))

    def found(mutant: Mutant) -> str:
        by = caught[mutant.name]
        unknown = f"unknown: {listed(by['unknown'])}" if by["unknown"] else ""
        return listed(by["failed"]) or unknown

    rows = [
        (code(mutant.name), "job" if mutant.defect else "history", mutant.broken, code(mutant.twin), found(mutant))
        for mutant in MUTANTS
    ]
    jobs = sum(1 for mutant in MUTANTS if mutant.defect)
    count = f"{len(rows)} mutants: {jobs} broken jobs, {len(rows) - jobs} broken histories."
    return f"{count}\n\n{table(('mutant', 'kind', 'what is broken', 'twin', 'caught by'), rows)}"
