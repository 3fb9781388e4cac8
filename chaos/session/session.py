"""One live run: opens guard, injector and observer on the doors of this host, runs the job, ends it.

Whatever happens it undoes, measures what is left, and concludes exactly once. Decides nothing about the job:
that is the judge's, from the history.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path

from chaos.conclude import conclude, plain_verdict, write_verdict
from chaos.doors import NewsReader
from chaos.errors import CannotWrite, ChaosError, JobMisbehaved, Refused
from chaos.files import output_error
from chaos.guard.guard import Guard
from chaos.history.follow import Follower
from chaos.history.writer import Writer
from chaos.injector.injector import Injector
from chaos.injector.server import RankServer
from chaos.jobs.local import LOG_NAME, LocalJob
from chaos.judge.progress import Live, Watch
from chaos.model.plan import Plan
from chaos.model.undo import Undo
from chaos.model.verdict import Verdict
from chaos.observer.observer import Observer
from chaos.session.ending import Ending
from chaos.session.lives import LivesSeen
from chaos.session.settings import (
    CALM_PUMP_S,
    DRAIN_LOOK_S,
    DRAIN_LOOKS,
    EXIT_GRACE_S,
    PUMP_S,
    RECOVERY_WAIT_FACTOR,
    RECOVERY_WAIT_MIN_S,
)
from chaos.system.checkpoint_folder import CheckpointFolder
from chaos.system.connector import Connector
from chaos.system.exit_status import ExitWatcher
from chaos.system.machine import Machine
from chaos.system.memory import Memory
from chaos.system.processes import PidfdKiller, ProcessTable
from chaos.system.residue import shared_memory_names
from chaos.system.subreaper import become_subreaper


class Session:
    """Open, begin, arm, conclude. `interrupted` is set by the signal handlers and looked at by every wait."""

    def __init__(self, plan: Plan, run_dir: Path, *, keep_job: bool = False) -> None:
        self.plan, self.run_dir, self.run_id = plan, run_dir, run_dir.name
        self.keep_job = keep_job
        self.interrupted = ""
        self.verdict: Verdict | None = None
        self.failure: BaseException | None = None  # what went wrong on our side
        self.left_open: list[str] = []  # what is not proven undone
        self.concluded = False
        self._ended_because = ""
        self._wait_ran_out = False
        self._opened = False  # the watchdog is there
        self._ready = False  # and everything else too
        self._began = 0.0
        self._steady = False
        self._job_entry: str | None = None
        self._job_ended = False
        self._all_finished_at: float | None = None
        self._fault_watch: Watch | None = None
        self._fault_seen_at = 0.0

    # the experiment's steps

    def open(self) -> None:
        """Watchdog first, then everything that it must know of, then the sources. Harms nothing, starts no job."""
        become_subreaper()
        self.guard = Guard.start(self.run_id, self.run_dir)
        self._opened = True
        try:
            self._writer = Writer(str(self.run_dir / "history"), "controller")
        except OSError as error:
            raise output_error(self.run_dir / "history", error) from error
        self._table = ProcessTable()
        self._killer = PidfdKiller(self._table)
        token = secrets.token_hex(16)
        socket_path = self.guard.folder.path / "control"
        self.guard.intend(Undo(verb="remove_path", args={"path": str(socket_path)}))
        self._ranks = RankServer(
            socket_path,
            token,
            self._table,
            on_hello=lambda life, rank: None,
            on_gone=self._on_rank_gone,
            on_reached=lambda reached: self._injector.on_reached(reached),
            on_foreign=self._on_foreign,
        )
        self._injector = Injector(
            self.plan,
            ranks=self._ranks,
            guard=self.guard,
            killer=self._killer,
            reader=self._table,
            writer=self._writer,
            mark=self.run_id,
        )
        self._job = LocalJob(
            self.plan.job,
            self.run_dir,
            {
                "NVRX_CHAOS_RUN": self.run_id,
                "NVRX_CHAOS_DIR": str(self.run_dir),
                "NVRX_CHAOS_SOCKET": str(socket_path),
                "NVRX_CHAOS_TOKEN": token,
            },
        )
        self._observer = Observer(
            mark=self.run_id,
            log_path=self._job.log_path,
            log_name=f"logs/{LOG_NAME}",
            writer=self._writer,
            reader=self._table,
            exits=ExitWatcher(self._table),
            machine=Machine(),
            memory=Memory(),
            helpers=lambda: [os.getpid(), self.guard.watchdog_pid],
            news=_news(),
            checkpoints=self._checkpoints(),
        )
        self._follower = Follower(self.run_dir / "history")
        self._live = Live(
            world_size=self.plan.job.world_size,
            steady_steps=self.plan.steady_steps,
            steps=self.plan.job.steps,
            may_shrink=self.plan.job.shrink,
        )
        self._lives = LivesSeen()
        self._shared_memory_before = shared_memory_names()
        self._ranks.start()
        self._observer.start()
        self._ready = True

    def begin(self) -> None:
        """Starts the job and waits until it is steady. Raises JobMisbehaved when it does not become so."""
        if not self.interrupted:
            self._start_job()
        while not self._live.steady():
            self._wait_a_little()
            reason = self._why_end()
            if reason:
                self._ended_because = reason
                raise JobMisbehaved(self._not_steady(reason))
        self._steady = True
        self._say("steady_state_met", {"step": self._live.step_by_all, "step_time_s": self._live.step_time_s()})
        self._injector.steady_state_met()

    def arm(self, fault: str) -> None:
        """Queues one fault and returns."""
        if not self.interrupted:
            self._injector.arm(fault)

    def conclude(self) -> None:
        """Waits for the end, undoes, stops the job, measures what is left, judges. Once only."""
        if self.concluded:
            return
        self.concluded = True
        try:
            if self._ready:
                self._run_to_its_end()
        except Exception as error:
            self.note(error)
        finally:
            self._close_down()
        self._judge()

    def _judge(self) -> None:
        try:
            if self._ready:
                self.verdict = conclude(self.run_dir)
            else:
                self.verdict = plain_verdict(
                    self.plan, self.run_id, "unknown", self._why_not_opened(), interrupted=bool(self.interrupted)
                )
                write_verdict(self.run_dir, self.verdict)
        except Exception as error:
            self.note(error)

    def _why_not_opened(self) -> str:
        if self.failure is not None:
            return f"the run could not be opened: {self.failure}"
        return f"interrupted {'by ' + self.interrupted if self.interrupted else ''} before the job was started"

    # waits

    def _run_to_its_end(self) -> None:
        if self._job.pid is None:
            return
        while not (reason := self._why_end()):
            self._wait_a_little()
        self._ended_because = reason

    def _wait_a_little(self) -> None:
        time.sleep(CALM_PUMP_S if self._calm else PUMP_S)
        self._pump()

    @property
    def _calm(self) -> bool:
        """Whether nothing is waited for but the job's end: then looking often would only slow the job down."""
        nothing_due = self._steady and self._injector.is_settled and self._fault_watch is None
        return nothing_due and not self._live.done()

    def _pump(self) -> None:
        self._take_in()
        if self._observer.failure is not None:
            raise self._observer.failure

    def _why_end(self) -> str:
        """Why the run ends now, or an empty string."""
        if self.interrupted:
            return f"interrupted by {self.interrupted}"
        if not self.guard.alive():
            self._injector.refuse_more()
            return "the watchdog has died: no new harm, and everything is undone without it"
        if self._job.poll() is not None:
            self._note_job_end()
            return "job ended"
        elapsed = time.monotonic() - self._began
        over = elapsed > self.plan.limits.timeout_s
        reason = f"limits.timeout of {self.plan.limits.timeout_s:g} s reached" if over else ""
        reason = reason or self._hung_at_exit() or self._recovery_wait_over()
        self._wait_ran_out = bool(reason)
        return reason

    def _hung_at_exit(self) -> str:
        if not self._live.done():
            self._all_finished_at = None
            return ""
        now = time.monotonic()
        self._all_finished_at = self._all_finished_at or now
        if now - self._all_finished_at > EXIT_GRACE_S:
            return f"every rank had finished, but the launcher did not end within {EXIT_GRACE_S:g} s"
        return ""

    def _recovery_wait_over(self) -> str:
        """Past four times the objective there is nothing left to wait for."""
        objective, watch = self.plan.objective.recovery_time_s, self._fault_watch
        if objective is None or watch is None:
            return ""
        if self._live.recovered(watch) or self._live.went_on(watch) or self._live.done():
            self._fault_watch = None
            return ""
        most = max(RECOVERY_WAIT_FACTOR * objective, RECOVERY_WAIT_MIN_S)
        return f"no recovery within {most:g} s" if time.monotonic() - self._fault_seen_at > most else ""

    # the job

    def _start_job(self) -> None:
        self._job_entry = self.guard.intend(Undo(verb="stop_job", args={"mark": self.run_id, "keep": self.keep_job}))
        self._began = time.monotonic()
        try:
            pid = self._job.start()
        except JobMisbehaved as error:
            self._ended_because = error.message
            raise
        self._observer.processes.watch_launcher(pid)
        self._say(
            "job_started",
            {"pid": pid, "argv": self._job.command(), "launcher": self._job.life},
            life=self._job.life,
        )

    def _note_job_end(self) -> None:
        if self._job_ended:
            return
        self._job_ended = True
        status = self._job.poll()
        assert status is not None
        self._say(
            "job_finished",
            {
                "code": status if status >= 0 else None,
                "signal": -status if status < 0 else None,
                "reason": "ended by itself",
                "last_lines": self._job.last_lines() if status != 0 else [],
            },
            life=self._job.life,
        )

    def _not_steady(self, reason: str) -> str:
        if reason != "job ended":
            return f"the job did not become steady: {reason}"
        lines = "\n".join(f"    {line}" for line in self._job.last_lines())
        return f"the job ended (status {self._job.poll()}) before it was steady; its last lines:\n{lines}"

    # the end

    def _close_down(self) -> None:
        if not self._ready:
            self._close_half_open()
            return
        ending = Ending(
            run_dir=self.run_dir,
            run_id=self.run_id,
            guard=self.guard,
            writer=self._writer,
            observer=self._observer,
            injector=self._injector,
            ranks=self._ranks,
            table=self._table,
            killer=self._killer,
        )
        ended_by_itself = self._job_ended and not self.interrupted
        if not ended_by_itself:
            # First of all: once we take a fault back, what the job does is no answer to that fault any more.
            ending.attempt(self._say_stopped)
        if self._wait_ran_out:
            ending.keep_evidence(self._ended_because)
        ending.undo_faults()
        if self._job.pid is not None:
            ending.attempt(self._drain)
            if ended_by_itself:
                ending.measure_residue(self._shared_memory_before)
            ending.stop_job(self._job_entry)
            ending.attempt(self._note_job_stopped)
            ending.attempt(self._drain)
        ending.settle()
        ending.write_down(self._lives.for_manifest(self.run_dir, stopped_by_us=not ended_by_itself))
        self.left_open = ending.left_open
        for error in ending.errors:
            self.note(error)

    def _close_half_open(self) -> None:
        """Opening failed on the way: whatever the watchdog was told of is taken back."""
        if not self._opened:
            return
        try:
            self.guard.undo_all()
            self.left_open = [entry.id for entry in self.guard.open_entries()]
            self.guard.finish()
        except Exception as error:
            self.note(error)

    def _drain(self) -> None:
        """Takes in what was written since the last look, so that the injector knows how its last shots ended."""
        for _ in range(DRAIN_LOOKS):
            self._take_in()
            time.sleep(DRAIN_LOOK_S)

    def _take_in(self) -> None:
        """What the history says since the last look, to whoever needs it; then what is due."""
        for event in self._follower.poll():
            self._live.feed(event)
            self._lives.feed(event)
            self._injector.on_event(event)
            self._observer.hear(event)
            if event.kind == "fault_fired":
                self._fault_watch, self._fault_seen_at = self._live.watch(), time.monotonic()
        self._injector.tick()

    def _say_stopped(self) -> None:
        reason = self._ended_because or (f"interrupted by {self.interrupted}" if self.interrupted else "an error")
        self._say("stop_requested", {"reason": reason, "interrupted": bool(self.interrupted)})

    def _note_job_stopped(self) -> None:
        if self._job_ended:
            return
        self._job_ended = True
        self._say(
            "job_finished",
            {
                "code": None,
                "signal": None,
                "reason": "kept running" if self.keep_job else "stopped by us",
                "last_lines": self._job.last_lines(),
            },
            life=self._job.life,
        )

    def note(self, error: BaseException) -> None:
        """Keeps the first error; a job that misbehaved is no defect of ours."""
        if isinstance(error, OSError) and not isinstance(error, ChaosError):
            error = CannotWrite(f"input or output failed: {error}")
        if self.failure is None and not isinstance(error, JobMisbehaved):
            self.failure = error

    # small things

    def _checkpoints(self) -> CheckpointFolder | None:
        """Where the layout of the job's folder is known: the reference trainer's."""
        folder = self._job.checkpoint_folder
        return None if folder is None else CheckpointFolder(folder, folder.name)

    def _on_rank_gone(self, life: str) -> None:
        self._injector.on_gone(life)

    def _on_foreign(self, reason: str) -> None:
        print(f"control channel: refused {reason}", file=sys.stderr)

    def _say(self, kind: str, fields: dict[str, object], *, life: str | None = None) -> None:
        try:
            self._writer.write_about(kind, fields, life=life)
        except OSError as error:
            raise CannotWrite(f"cannot write the run's history: {error.strerror or error}") from error


def _news() -> NewsReader | None:
    """What the kernel tells of processes, where it tells us; else the process table is looked at more closely."""
    try:
        return Connector()
    except Refused:
        return None
