"""Carries out each undo verb and measures the end state. Needs no fault's code, and may be asked twice.

Nothing here raises: an undo that fails is told as `failed`, so that the next one still gets its turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from chaos.clock import Clock, RealClock
from chaos.doors import ProcessReader
from chaos.errors import ChaosError, TargetGone
from chaos.model.identity import Life
from chaos.model.orders import LEASE_MARGIN_S
from chaos.model.undo import Undo, Undone
from chaos.system.processes import PidfdKiller, ProcessTable
from chaos.system.stop_job import stop_job

RESUME_WAIT_S = 1.0  # the kernel wakes a stopped process at once; past this somebody stops it again and again
POLL_S = 0.02


class Undoer:
    """Takes back what a record of `model/undo.py` says, on this host."""

    def __init__(
        self, *, table: ProcessReader | None = None, killer: PidfdKiller | None = None, clock: Clock | None = None
    ) -> None:
        self._table: ProcessReader = ProcessTable() if table is None else table
        self._killer = killer or PidfdKiller(self._table)
        self._clock: Clock = clock or RealClock()

    def carry_out(self, undo: Undo, *, opened_ticks: int = 0, silent_since_ns: int | None = None) -> Undone:
        """`opened_ticks`: boot ticks when the entry was opened; older processes are left alone.
        `silent_since_ns`: since when no lease has been renewed (default: now)."""
        carry_out: dict[str, Callable[[], Undone]] = {
            "resume_process": lambda: self._resume(_life(undo)),
            "stop_job": lambda: self._stop(undo.args, opened_ticks),
            "remove_path": lambda: _remove(str(undo.args["path"])),
            "disarm": lambda: self._disarm(_life(undo), float(undo.args["lease_s"]), silent_since_ns),
        }
        try:
            return carry_out[undo.verb]()
        except (ChaosError, OSError) as problem:
            return Undone(how="failed", measured=False, detail=str(problem))
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as problem:
            return Undone(how="failed", measured=False, detail=f"the record of {undo.verb} is not usable: {problem!r}")
        except Exception as problem:  # a defect of ours must not keep the other undos from their turn
            return Undone(how="failed", measured=False, detail=f"{undo.verb} failed: {problem!r}")

    def _resume(self, life: Life) -> Undone:
        end_ns = self._clock.monotonic_ns() + int(RESUME_WAIT_S * 1e9)
        while True:
            try:
                # Sent even to one that is not stopped: it also takes back a stop that is still on its way.
                self._killer.resume(life)
            except TargetGone:
                return Undone(how="gone", measured=True, detail=f"pid {life.pid} had ended")
            stopped = self._table.is_stopped(life)
            if stopped is None:
                return Undone(how="gone", measured=True, detail=f"pid {life.pid} ended when it was resumed")
            if not stopped:
                return Undone(how="done", measured=True, detail=f"pid {life.pid} is not stopped")
            if self._clock.monotonic_ns() >= end_ns:
                return Undone(how="failed", measured=False, detail=f"pid {life.pid} is still stopped after SIGCONT")
            self._clock.sleep(POLL_S)

    def _stop(self, args: dict[str, Any], opened_ticks: int) -> Undone:
        if args.get("keep"):
            return Undone(how="kept", measured=True, detail="the job was to be left running")
        return stop_job(args["mark"] or "", opened_ticks, table=self._table, killer=self._killer, clock=self._clock)

    def _disarm(self, life: Life, lease_s: float, silent_since_ns: int | None) -> Undone:
        since_ns = self._clock.monotonic_ns() if silent_since_ns is None else silent_since_ns
        void_ns = since_ns + int((lease_s + LEASE_MARGIN_S) * 1e9)
        while self._table.is_alive(life):
            rest_s = (void_ns - self._clock.monotonic_ns()) / 1e9
            if rest_s <= 0:
                return Undone(how="done", measured=True, detail=f"not renewed for its lease of {lease_s:g} s")
            self._clock.sleep(min(POLL_S, rest_s))
        return Undone(how="gone", measured=True, detail=f"pid {life.pid} had ended")


def _remove(path: str) -> Undone:
    if not os.path.lexists(path):
        return Undone(how="gone", measured=True, detail=f"{path} was not there")
    if os.path.isdir(path) and not os.path.islink(path):
        # Only what we made is removed: a folder that holds anything holds something of others.
        os.rmdir(path)
    else:
        os.unlink(path)
    if os.path.lexists(path):
        return Undone(how="failed", measured=False, detail=f"{path} is still there")
    return Undone(how="done", measured=True, detail=f"{path} removed")


def _life(undo: Undo) -> Life:
    return msgspec.convert(undo.args["life"], Life)
