"""One run, one process: hands the compiled experiment to chaoslib, which finds `chaos.toolkit` by name.

`python -m chaos.runner RUN_DIR` ends with the status of `model/exit_status.py`. Only this process imports chaoslib.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

from chaos.errors import ChaosError
from chaos.model import exit_status

SETTINGS = {"runtime": {"rollbacks": {"strategy": "always"}}}


def main(arguments: list[str]) -> int:
    """Runs one experiment and returns the run's exit status."""
    run_dir = Path(arguments[0])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        experiment = json.loads((run_dir / "experiment.json").read_text(encoding="utf-8"))
        journal = _run(experiment)
        _write_journal(run_dir, journal)
    except ChaosError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except BaseException:
        traceback.print_exc()
        return _conclude_after_a_crash()
    return _status()


def _run(experiment: dict[str, Any]) -> Any:
    from chaoslib.experiment import run_experiment

    return run_experiment(experiment, settings=SETTINGS)


def _write_journal(run_dir: Path, journal: Any) -> None:
    from chaoslib import __version__

    from chaos.files import write_atomically

    journal["chaoslib-version"] = __version__
    write_atomically(run_dir / "journal.json", json.dumps(journal, indent=1, default=str))


def _conclude_after_a_crash() -> int:
    """Our own defect: everything is undone all the same."""
    from chaos.toolkit import current

    session = current.existing()
    if session is not None:
        session.conclude()
    return exit_status.BROKEN


def _status() -> int:
    from chaos.toolkit import current

    session = current.existing()
    if session is None:
        return exit_status.BROKEN
    verdict = session.verdict
    statuses = [exit_status.status_of(verdict)] if verdict is not None else []
    if session.left_open:
        statuses.append(exit_status.NOT_UNDONE)
    if session.failure is not None:
        failure = session.failure
        statuses.append(failure.exit_status if isinstance(failure, ChaosError) else exit_status.BROKEN)
        words = failure.message if isinstance(failure, ChaosError) else repr(failure)
        print(f"the run failed on our side: {words}", file=sys.stderr)
    if not statuses:
        statuses.append(exit_status.BROKEN)
    return exit_status.worst_status(statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
