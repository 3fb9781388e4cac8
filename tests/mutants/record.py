"""Records twins and broken jobs: `python tests/mutants/record.py NAME...`, or `--all`.

Runs each in a place of its own, judges it, and replaces its file in `recordings/` when it shows what it is kept for: a
twin that passes, a broken job that the named checks find. What is left undecided by a busy machine is run again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real"))

import zoo
from mutant import Mutant
from real_runs import BROKEN, REPOSITORY, Ended, Place, outcomes
from recorded_runs import TWINS, keys_of
from recording import SIZE_MAX, pack

TRIES = 3
JOBS = {mutant.name: mutant for mutant in zoo.MUTANTS if mutant.defect}


def planted(defect: str) -> tuple[str, ...]:
    """The words before a command in whose job, and nowhere else, the defect shows."""
    return ("env", f"PYTHONPATH={BROKEN}", f"NVRX_BROKEN={defect}")


def run(place: Place, name: str, mutant: Mutant | None) -> Ended:
    """Once, with the fault-free runs that are there. Those must have been made without a defect."""
    scenario = place.scenario(name, **keys_of(mutant.twin if mutant else name))
    return place.run(scenario, under=planted(mutant.defect) if mutant else (), timeout=600)


def problem_of(name: str, verdict: dict[str, Any]) -> str:
    """Why this run is not worth keeping; empty when it is."""
    found = outcomes(verdict)
    if name in TWINS:
        bad = {check: outcome for check, outcome in found.items() if outcome in ("fail", "unknown")}
        return f"{bad}" if bad or verdict["outcome"] != "passed" else ""
    mutant = JOBS[name]
    missed = [check for check in mutant.must_fail if found[check] != "fail"]
    more = {check for check, outcome in found.items() if outcome == "fail"} - {*mutant.must_fail, *mutant.may_fail}
    return f"not found by {missed}, {sorted(more)} failed, too" if missed or more else ""


def record(place: Place, name: str) -> bool:
    for _ in range(TRIES):
        ended = run(place, name, JOBS.get(name))
        verdict = ended.verdict
        problem = problem_of(name, verdict)
        print(f"{name}: {verdict['outcome']}: {verdict['sentence']}", flush=True)
        if not problem:
            size = pack(name, Path(ended.runs[-1]["run_dir"]), place.folder / "pack", places=(place.folder, REPOSITORY))
            print(f"  kept, {size} bytes{'' if size <= SIZE_MAX else ': too large'}", flush=True)
            return size <= SIZE_MAX
        print(f"  not kept: {problem}", flush=True)
    return False


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join([*TWINS, *JOBS])}")
    options.add_argument("--all", action="store_true", help="everything that is recorded")
    arguments = options.parse_args()
    names = [*TWINS, *JOBS] if arguments.all else arguments.names
    strangers = set(names) - {*TWINS, *JOBS}
    if strangers or not names:
        options.error(f"not known: {', '.join(sorted(strangers))}" if strangers else "name something, or --all")
    folder = Path(tempfile.mkdtemp(prefix="nvrx-mutants-"))
    place = Place(folder=folder, out=folder / "out")
    kept = []
    try:
        # Twins first: they make the fault-free runs of their job, and make them without a defect.
        for twin in dict.fromkeys(JOBS[name].twin for name in names if name in JOBS):
            if twin not in names:
                run(place, twin, None)
        kept = [record(place, name) for name in sorted(names, key=lambda name: name not in TWINS)]
    finally:
        place.end()
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(kept) and len(kept) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
