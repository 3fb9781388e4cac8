"""Scenarios in, run directories and verdicts out: one runner process a run, shown live.

Makes the control pair of a job first, when it is not there yet. Judges nothing itself.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import msgspec

from chaos import conclude, controls, fitness
from chaos.errors import CannotWrite, ChaosError, NothingToRun
from chaos.files import absolute, make_folder, output_error, write_atomically
from chaos.history.follow import Follower
from chaos.model import exit_status
from chaos.model.control import ControlRun
from chaos.model.events import Event
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.scenario.experiment import experiment
from chaos.scenario.load import Scenario
from chaos.scenario.plan import compile_plan
from chaos.scenario.show import resolved_yaml

POLL_S, CALM_POLL_S = 0.3, 1.0  # how often the run is shown anew: live, and line by line. Its end is told by the kernel
SIGNALS = (signal.SIGINT, signal.SIGTERM)
RUNNER_ENDS_S = 60.0  # after a signal: undoing, measuring and judging take seconds; past this it is killed
WATCHDOG_ENDS_S = 12.0  # it has everything undone within 10 s of a runner's end
LEDGER = "ledger.jsonl"


class View(Protocol):
    """What shows a run to people."""

    @property
    def is_live(self) -> bool:
        """Whether somebody watches a picture that is drawn anew."""
        ...

    def run_began(self, plan: Plan, k: int, n: int, run_dir: Path) -> None: ...

    def event(self, event: Event) -> None: ...

    def tick(self) -> None: ...

    def run_ended(self, verdict: Verdict) -> None: ...


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """One run that has ended."""

    verdict: Verdict
    run_dir: Path
    status: int


class Campaign:
    """Runs scenarios one after the other. A signal ends the current run (undone, judged unknown) and starts no more."""

    def __init__(self, out: Path, *, seed: int, view: View, keep_job: bool = False, job_root: Path) -> None:
        self._out, self._seed, self._view = out, seed, view
        self._keep_job, self._job_root = keep_job, job_root
        self.interrupted = ""
        self._runner: subprocess.Popen[bytes] | None = None
        self._signal_passed_at: float | None = None

    def run(self, scenarios: Sequence[Scenario], *, repeat: int = 1) -> list[Done]:
        """Every scenario `repeat` times. Raises the errors of chaos/errors.py for what concerns the whole command."""
        if not scenarios:
            raise NothingToRun("no scenario to run")
        make_folder(self._out)
        plans = [(scenario, compile_plan(scenario, seed=self._seed)) for scenario in scenarios for _ in range(repeat)]
        done: list[Done] = []
        previous = self._take_over_signals()
        try:
            for number, (scenario, plan) in enumerate(plans, 1):
                if self.interrupted:
                    break
                done.append(self._one(scenario, plan, number, len(plans)))
        finally:
            for which, handler in previous.items():
                signal.signal(which, handler)
        return done

    # one run

    def _one(self, scenario: Scenario, plan: Plan, number: int, total: int) -> Done:
        refused = fitness.refusal(plan)
        if refused is not None:
            return self._refuse(scenario, plan, refused, number, total)
        witnesses = self._control_pair(scenario, plan, number, total)
        run_dir = self._prepare(self._out / folder_name(plan.scenario), scenario, plan, witnesses)
        if self.interrupted:
            return self._not_started(run_dir, plan)
        return self._execute(run_dir, plan, number, total)

    def _execute(self, run_dir: Path, plan: Plan, number: int, total: int) -> Done:
        self._view.run_began(plan, number, total, run_dir)
        status = self._watch_runner(run_dir)
        if not (run_dir / conclude.EXPERIMENT).is_file():
            raise CannotWrite(
                f"{run_dir} vanished while the run was going on, and all evidence with it: there is no verdict",
                remedy="leave the output folder alone until the run has ended",
            )
        if not (run_dir / conclude.VERDICT).is_file():
            self._conclude_from_outside(run_dir)
            status = exit_status.worst_status([exit_status.BROKEN, status])
        verdict = conclude.read_verdict(run_dir)
        self._view.run_ended(verdict)
        return Done(verdict=verdict, run_dir=run_dir, status=status)

    def _watch_runner(self, run_dir: Path) -> int:
        follower = Follower(run_dir / "history")
        log_path = run_dir / "logs" / "runner.log"
        try:
            log = open(log_path, "ab")  # noqa: SIM115 - handed to the runner, closed below
        except OSError as error:
            raise output_error(log_path, error) from error
        # Blocked signals are inherited: one that comes before the runner can heed it waits there until it can.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            with log:
                self._runner = subprocess.Popen(
                    [sys.executable, "-m", "chaos.runner", str(run_dir)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        ended = os.pidfd_open(self._runner.pid)
        try:
            while self._runner.poll() is None:
                self._show(follower)
                self._pass_signal_on()
                select.select([ended], [], [], POLL_S if self._view.is_live else CALM_POLL_S)
        finally:
            os.close(ended)
            self._show(follower)
            status = self._runner.wait()
            self._runner = None
        return status

    def _show(self, follower: Follower) -> None:
        for event in follower.poll():
            self._view.event(event)
        self._view.tick()

    def _pass_signal_on(self) -> None:
        runner = self._runner
        if not self.interrupted or runner is None:
            return
        now = time.monotonic()
        if self._signal_passed_at is None:
            self._signal_passed_at = now
            runner.send_signal(signal.Signals[self.interrupted])
        elif now - self._signal_passed_at > RUNNER_ENDS_S:
            runner.kill()  # the watchdog undoes what it held

    def _conclude_from_outside(self, run_dir: Path) -> None:
        """The runner left no verdict: it crashed, or was killed. Its watchdog undoes; we judge what is written."""
        self._await_watchdog(run_dir)
        try:
            conclude.conclude(run_dir)
        except ChaosError:
            plan = conclude.read_plan(run_dir)
            self._write_plain(run_dir, plan, "unknown", "the run's own process ended without a verdict")

    def _await_watchdog(self, run_dir: Path) -> None:
        """Where there was one, it copies its ledger here as its last act: until then the job may still be running."""
        ends = time.monotonic() + WATCHDOG_ENDS_S
        while _has_begun(run_dir) and not (run_dir / LEDGER).is_file() and time.monotonic() < ends:
            self._view.tick()
            time.sleep(POLL_S)

    # around a run

    def _prepare(self, place: Path, scenario: Scenario | None, plan: Plan, witnesses: Sequence[ControlRun]) -> Path:
        """The run directory, as it is before the run."""
        run_dir = place / new_run_id()
        make_folder(run_dir / "history")
        make_folder(run_dir / "logs")
        content: dict[str, Any] = experiment(plan, str(absolute(run_dir)))
        content["configuration"]["keep_job"] = self._keep_job
        write_atomically(run_dir / conclude.EXPERIMENT, json.dumps(content, indent=1))
        if scenario is not None:
            write_atomically(run_dir / "scenario.yaml", resolved_yaml(scenario.spec))
        if witnesses:
            near = [msgspec.structs.replace(each, path=os.path.relpath(each.path, run_dir)) for each in witnesses]
            lines = "".join(msgspec.json.encode(witness).decode() + "\n" for witness in near)
            write_atomically(run_dir / conclude.CONTROL, lines)
        return absolute(run_dir)

    def _control_pair(self, scenario: Scenario, plan: Plan, number: int, total: int) -> list[ControlRun]:
        """Two fault-free runs of the same job: found, or made now."""
        if not controls.wanted(plan):
            return []
        place = controls.folder(self._out, plan, self._job_root)
        witnesses = [conclude.control_witness(path) for path in controls.run_dirs(place)]
        clean = [witness for witness in witnesses if witness.clean]
        tries = 0
        while len(clean) < controls.PAIR and tries < controls.TRIES and not self.interrupted:
            tries += 1
            run_dir = self._prepare(place, None, controls.control_plan(plan), [])
            self._execute(run_dir, controls.control_plan(plan), number, total)
            witness = conclude.control_witness(run_dir)
            witnesses.append(witness)
            if witness.clean:
                clean.append(witness)
            elif len(witness.losses) < plan.job.steps:
                break  # the job does not even end by itself: no noise to wait out, and the run will say why
        # Unclean ones go along when there are no others: the verdict then says why there is no witness.
        return clean[-controls.PAIR :] if len(clean) >= controls.PAIR else witnesses[-controls.PAIR :]

    def _refuse(self, scenario: Scenario, plan: Plan, finding: fitness.Finding, number: int, total: int) -> Done:
        run_dir = self._prepare(self._out / folder_name(plan.scenario), scenario, plan, [])
        self._view.run_began(plan, number, total, run_dir)
        verdict = self._write_plain(run_dir, plan, "not_run", f"refused: {finding.detail}", finding.remedy)
        self._view.run_ended(verdict)
        return Done(verdict=verdict, run_dir=run_dir, status=exit_status.UNKNOWN)

    def _not_started(self, run_dir: Path, plan: Plan) -> Done:
        sentence = f"interrupted by {self.interrupted} before the job was started"
        verdict = self._write_plain(run_dir, plan, "unknown", sentence)
        self._view.run_ended(verdict)
        return Done(verdict=verdict, run_dir=run_dir, status=exit_status.UNKNOWN)

    def _write_plain(self, run_dir: Path, plan: Plan, outcome: str, sentence: str, remedy: str = "") -> Verdict:
        verdict = conclude.plain_verdict(
            plan, run_dir.name, outcome, sentence, remedy=remedy, interrupted=bool(self.interrupted)
        )
        conclude.write_verdict(run_dir, verdict)
        return verdict

    def _take_over_signals(self) -> dict[int, Any]:
        def note(number: int, _frame: FrameType | None) -> None:
            self.interrupted = self.interrupted or signal.Signals(number).name

        return {which: signal.signal(which, note) for which in SIGNALS}


def run_scenario(scenario: Scenario, out: Path, *, seed: int = 0, view: View | None = None) -> Verdict:
    """Runs one scenario and gives its verdict; for use from Python."""
    from chaos.jobs.shipped import trainer_root

    campaign = Campaign(out, seed=seed, view=view or SilentView(), job_root=trainer_root())
    return campaign.run([scenario])[0].verdict


class SilentView:
    """Shows nothing."""

    is_live = False

    def run_began(self, plan: Plan, k: int, n: int, run_dir: Path) -> None:
        return None

    def event(self, event: Event) -> None:
        return None

    def tick(self) -> None:
        return None

    def run_ended(self, verdict: Verdict) -> None:
        return None


def new_run_id() -> str:
    """Sortable, and unlike any other."""
    return time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)


def _has_begun(run_dir: Path) -> bool:
    """Whether the runner came so far that there was something to undo: its history begins after its watchdog."""
    return next((run_dir / "history").glob("*.jsonl"), None) is not None


def folder_name(scenario: str) -> str:
    """A scenario's name as a folder: what `vary` chose stays readable."""
    return "".join(letter if letter.isalnum() or letter in "-_=,.[]" else "_" for letter in scenario) or "scenario"


def write_index(out: Path, done: Sequence[Done]) -> Path:
    """`index.html` over the runs of one command."""
    from chaos.report.html import index_html

    links = [os.path.relpath(run.run_dir / conclude.REPORT, absolute(out)) for run in done]
    there = [link if (run.run_dir / conclude.REPORT).is_file() else "" for link, run in zip(links, done, strict=True)]
    path = out / "index.html"
    write_atomically(path, index_html([run.verdict for run in done], there))
    return path
