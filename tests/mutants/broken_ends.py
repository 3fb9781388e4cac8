"""Histories that end badly: something is left, a rank is missing, or nobody ends at all."""

from __future__ import annotations

from mutant import broken_history
from tale import Tale

LEFT_AFTER_S = 5.2  # longer than what is only slow to end may take
WAITED_S = 60.0
KEPT_BYTES = 64 << 20


def shared_memory_left(tale: Tale) -> None:
    """The job left a file in shared memory."""
    _left(tale, shared_memory=["torch_5418_2204463_0"])


def port_left(tale: Tale) -> None:
    """The job left a process that listens on a port."""
    _left(tale, processes=["pid 5430: python -m http.server"], ports=["tcp 29500 (pid 5430)"])


def temporary_file_left(tale: Tale) -> None:
    """The job left a temporary file."""
    _left(tale, temporary_files=["launcher.sock"])


def says_0_with_a_dead_rank(tale: Tale) -> None:
    """The launcher ends with status 0, and one rank died before it had finished."""
    life = tale.lives_of(tale.groups[-1])[1]
    tale.drop("rank_finished", rank=1)
    tale.change(tale.all("process_exited", life=life), code=None, signal=11)


def says_1_though_done(tale: Tale) -> None:
    """Every rank had done all steps, and the job ends with status 1."""
    tale.change(tale.all("job_finished"), code=1)


def hung_at_exit(tale: Tale) -> None:
    """One rank had done all its steps and never ended, until the job was stopped."""
    life = tale.lives_of(tale.groups[-1])[1]
    tale.drop("process_exited", life=life)
    finished = tale.one("job_finished")
    tale.later(WAITED_S, since=finished)
    tale.add(finished, "stop_requested", after_s=-1.0, reason="the run's time was over", interrupted=False)
    tale.change([finished], code=None, signal=9)


def keeps_memory_at_each_restart(tale: Tale) -> None:
    """Each restart inside a process leaves 64 MiB more in it."""
    entered = tale.all("restart_entered")
    for measured in tale.all("memory_measured"):
        held = measured["rss_bytes"]
        for life in (life for life, size in held.items() if size is not None):
            restarts = sum(1 for line in entered if line["life"] == life and line["t_ns"] <= measured["t_ns"])
            held[life] += restarts * KEPT_BYTES


def _left(tale: Tale, **things: list[str]) -> None:
    tale.change(tale.all("residue_measured"), after_s=LEFT_AFTER_S, **things)


MUTANTS = (
    broken_history(shared_memory_left, must_fail="no_residue"),
    broken_history(port_left, must_fail="no_residue"),
    broken_history(temporary_file_left, must_fail="no_residue"),
    broken_history(says_0_with_a_dead_rank, must_fail="job_finished"),
    broken_history(says_1_though_done, must_fail="job_finished"),
    broken_history(hung_at_exit, must_fail="job_finished"),
    broken_history(keeps_memory_at_each_restart, twin="exceptions", must_fail="memory_flat"),
)
