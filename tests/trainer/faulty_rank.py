"""A rank of the trainer that fails once, as told by FAULT=<what>:<rank>:<step> in its environment. Run by tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from trainer import progress, train


def fail_once(what: str, rank: str, step_wanted: int, marker: Path) -> None:
    """After `step_wanted` steps are reported, this rank raises or is killed, unless the marker is there."""
    report = progress.step_done

    def step_done(step: int, **told: object) -> None:
        report(step, **told)
        if step == step_wanted and os.environ["RANK"] == rank and not marker.exists():
            marker.write_text(str(os.getpid()))
            if what != "exception":
                os.kill(os.getpid(), getattr(signal, what))
            else:
                raise RuntimeError("a fault of the test")

    progress.step_done = step_done


if __name__ == "__main__":
    fault, on_rank, at_step = os.environ["FAULT"].split(":")
    fail_once(fault, on_rank, int(at_step), Path(os.environ["FAULT_MARKER"]))
    train.main()
