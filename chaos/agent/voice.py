"""Into whose file the words go that are heard in this process.

A rank's are its agent's to write. A launcher and the monitors have no agent: they write a file of their own, opened at
the first word, so that a process without one leaves nothing. A forked child is a process of its own: it closes what it
inherited, and never writes into its parent's file.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chaos.history.writer import Writer

if TYPE_CHECKING:
    from chaos.agent.core import Agent


class Voice:
    """One for each process. Two threads that say the first word at once open the same file: each line stays whole."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._writer: Writer | None = None
        self._silent = False
        self._role = "launcher"
        os.register_at_fork(after_in_child=self._begin_anew)

    def join(self, agent: Agent) -> None:
        """This process is the agent's rank."""
        self._agent = agent

    def say(self, kind: str, fields: Mapping[str, Any], *, rank: int | None = None, of_a_rank: bool = False) -> None:
        """`rank`: of whom a monitor speaks. `of_a_rank`: said by code that runs in ranks and in their monitors only."""
        now_ns, wall_s = time.monotonic_ns(), time.time()
        agent = self._agent
        if agent is not None and agent.pid == os.getpid():
            agent.emit(kind, fields)
            return
        if self._silent or (of_a_rank and self._role == "launcher"):
            return  # a rank without an agent: with a file of a few words it would look like one that is observed
        try:
            writer = self._opened()
            writer.write_about(kind, fields, life=writer.life, rank=self._of(rank), t_ns=now_ns, wall_s=wall_s)
        except Exception as error:
            self._go_silent(error)

    def _opened(self) -> Writer:
        if self._writer is None:
            self._writer = Writer(os.path.join(os.environ["NVRX_CHAOS_DIR"], "history"), self._role)
        return self._writer

    def _of(self, rank: int | None) -> int | None:
        """A monitor that a rank has forked does not say whose it is, but has inherited its environment."""
        if rank is not None or self._role == "launcher":
            return rank
        inherited = os.environ.get("RANK", "")
        return int(inherited) if inherited.isdecimal() else None

    def _go_silent(self, error: Exception) -> None:
        """A file that lacks a line must not look whole: the last word says so, in it or else in the job's log."""
        self._silent = True
        try:
            self._opened().write("source_blind", {"source": self._role, "reason": f"cannot write events: {error}"})
        except Exception:
            complain(f"what NVRx says in process {os.getpid()} is not kept: {error}")

    def _begin_anew(self) -> None:
        """In a forked child."""
        writer, self._writer = self._writer, None
        self._agent, self._silent, self._role = None, False, "monitor"
        if writer is not None:
            try:
                writer.close()
            except OSError:
                pass  # the job had closed it


def complain(text: str) -> None:
    """The last resort, where the history cannot take it. A job without a standard error is not to feel it."""
    stream = sys.stderr
    if stream is None:
        return  # print would take standard output instead
    try:
        # Past the stream's buffer: what stays in it because the file takes no more would give the job, at its end,
        # the exit status 120.
        os.write(stream.fileno(), f"nvrx-chaos: {text}\n".encode("utf-8", "backslashreplace"))
    except (AttributeError, io.UnsupportedOperation):
        _print(stream, text)
    except Exception:
        pass


def _print(stream: Any, text: str) -> None:
    """To a stream that stands for no file."""
    try:
        print(f"nvrx-chaos: {text}", file=stream)
    except Exception:
        pass
