"""Where every process of a job stands when a wait has run out: asked of itself, and looked at from outside.

Bounded in time and in size. What fails is said in the file that lacks it, or beside the list of files: it never is an
error of the run. Looks and asks only: nothing is stopped, resumed or ended here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from chaos.errors import ChaosError
from chaos.history.quote import last_lines
from chaos.history.writer import file_name
from chaos.model.evidence import FOLDER, collectives_name, offered_signal, stacks_name
from chaos.model.identity import Life
from chaos.session.collectives import in_words
from chaos.session.settings import ANSWER_S, EVENTS_SHOWN, EVIDENCE_FILE_BYTES_MAX, EVIDENCE_S
from chaos.session.sheets import Subject, owners, sockets_text, threads_table
from chaos.system.frames import stand_in
from chaos.system.proc import read_stat
from chaos.system.sockets import tcp_sockets
from chaos.system.stacks import dump_stacks
from chaos.system.threads import Thread, catches, threads_of

LOOK_S = 0.01
QUIET_S = 0.05  # a dump of stacks that has not grown for so long is whole
PY_SPY_S = 2.0  # for one process at most: the others must have their turn
PY_SPY_MIN_S = 0.1
STOPPED = "Tt"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """`stands`: where main threads stood, {rank, ref, text}. `failed`: files that could not be written, and why."""

    files: tuple[str, ...] = ()
    stands: tuple[dict[str, object], ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Asked:
    """One process that was asked for its stacks. `size`: of its file before; `why_not`: why it was not asked."""

    subject: Subject
    path: Path
    size: int = 0
    why_not: str = ""


class Evidence:
    """`send(life, signal)` may raise ChaosError; `ask(life_id)` says whether that process could be asked."""

    def __init__(
        self,
        run_dir: Path,
        subjects: Sequence[Subject],
        *,
        send: Callable[[Life, int], None],
        ask: Callable[[str], bool],
        within_s: float = EVIDENCE_S,
    ) -> None:
        self._run_dir, self._folder = run_dir, run_dir / FOLDER
        self._subjects = subjects
        self._send, self._ask = send, ask
        self._end = time.monotonic() + within_s
        self._files: list[str] = []
        self._failed: list[str] = []

    def capture(self) -> Captured:
        """All of it, in the order in which it would be lost."""
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            return Captured(failed=(f"{FOLDER}: {error.strerror or error}",))
        asked = [self._ask_for_stacks(subject) for subject in self._subjects]
        answering = [subject for subject in self._subjects if self._ask(subject.life.id)]
        sockets = {subject.who: _look(partial(tcp_sockets, subject.life.pid)) for subject in self._subjects}
        threads = {subject.who: _look(partial(threads_of, subject.life.pid)) for subject in self._subjects}
        self._await_answers(asked, answering)
        stands = [stand for each in asked if (stand := self._finish_stacks(each)) is not None]
        ends = owners(self._subjects, sockets)
        for subject in self._subjects:
            self._write(subject.name("sockets"), sockets_text(subject, sockets[subject.who], ends))
            self._write(subject.name("state"), self._state_text(subject, threads[subject.who], subject in answering))
        return Captured(files=tuple(self._files), stands=tuple(stands), failed=tuple(self._failed))

    # --- stacks

    def _ask_for_stacks(self, subject: Subject) -> _Asked:
        life = subject.life
        path, number = self._offer(subject)
        asked = _Asked(subject, path)
        if number is None:
            asked.why_not = "it offers no signal for its stacks: there is no agent in it, or no free signal"
        elif _state(life) in STOPPED:
            asked.why_not = "it is stopped, and a stopped process answers no signal"
        elif not catches(life.pid, number):
            asked.why_not = f"it does not catch signal {number} any more"
        else:
            try:
                asked.size = path.stat().st_size
                self._send(life, number)
            except ChaosError as error:
                asked.why_not = error.message
            except OSError as error:
                asked.why_not = str(error)
        return asked

    def _offer(self, subject: Subject) -> tuple[Path, int | None]:
        """The file that this very life holds open, and its signal."""
        for path in sorted(self._folder.glob(stacks_name("*", subject.life.pid_inside))):
            with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
                number = offered_signal(file.readline(), subject.life.id)
                if number is not None:
                    return path, number
        return self._folder / stacks_name(subject.who, subject.life.pid_inside), None

    def _await_answers(self, asked: Iterable[_Asked], answering: Iterable[Subject]) -> None:
        """Until every dump has stopped growing and every rank has told its collectives, or their time is over."""
        end = min(self._end, time.monotonic() + ANSWER_S)
        waiting = {each.path: (each.size, 0.0) for each in asked if not each.why_not}
        told = [self._folder / collectives_name(each.who, each.life.pid_inside) for each in answering]
        while (now := time.monotonic()) < end:
            for path, (size, since) in list(waiting.items()):
                grown = _size(path)
                if grown != size:
                    waiting[path] = (grown, now)
                elif since and now - since >= QUIET_S:
                    del waiting[path]
            told = [path for path in told if not path.exists()]
            if not waiting and not told:
                return
            time.sleep(LOOK_S)

    def _finish_stacks(self, asked: _Asked) -> dict[str, object] | None:
        """Adds what is seen from outside, and says where the main thread stood."""
        subject, name = asked.subject, asked.path.name
        if not asked.why_not and _size(asked.path) <= asked.size:
            asked.why_not = f"it did not answer within {ANSWER_S:g} s"
        text = f"--- no stacks of its own: {asked.why_not}\n" if asked.why_not else ""
        text += f"--- from outside, by py-spy; state {_state(subject.life)}\n{self._py_spy(subject.life.pid)}"
        if not self._write(name, text, append=True):
            return None
        try:
            stand = stand_in(asked.path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None
        if stand is None:
            return None
        return {"who": subject.who, "rank": subject.rank, "ref": f"{FOLDER}/{name}:{stand.line}", "text": stand.words}

    def _py_spy(self, pid: int) -> str:
        left_s = self._end - time.monotonic()
        if left_s < PY_SPY_MIN_S:
            return "not taken: the time for all evidence was used up\n"
        return dump_stacks(pid, min(left_s, PY_SPY_S))

    # --- all else

    def _state_text(self, subject: Subject, threads: list[Thread] | str, was_asked: bool) -> str:
        parts = [f"state of {subject.named}, pid {subject.life.pid}: {_state(subject.life)}", ""]
        parts += ["Threads; seconds of CPU time, and seconds ready to run without a CPU:"]
        parts += [threads] if isinstance(threads, str) else threads_table(threads)
        parts += ["", f"Flight recorder of its collectives: {self._collectives(subject, was_asked)}", ""]
        parts += [f"Its last {EVENTS_SHOWN} events:", *self._last_events(subject)]
        return "\n".join(parts) + "\n"

    def _collectives(self, subject: Subject, was_asked: bool) -> str:
        if not was_asked:
            return "not asked: it has no connection to us"
        name = collectives_name(subject.who, subject.life.pid_inside)
        try:
            told = json.loads((self._folder / name).read_bytes())
        except OSError:
            return f"it did not answer within {ANSWER_S:g} s"
        except ValueError as error:
            return f"{FOLDER}/{name} cannot be read: {error}"
        self._files.append(f"{FOLDER}/{name}")
        return f"{in_words(told)} ({FOLDER}/{name})"

    def _last_events(self, subject: Subject) -> list[str]:
        if subject.rank is None:
            return ["it writes none"]
        name = file_name("rank", subject.life.id)
        try:
            return [f"{name}:{number} {line}" for number, line in last_lines(self._history / name, EVENTS_SHOWN)]
        except OSError as error:
            return [f"cannot be read: {error.strerror or error}"]

    @property
    def _history(self) -> Path:
        return self._run_dir / "history"

    def _write(self, name: str, text: str, *, append: bool = False) -> bool:
        try:
            with (self._folder / name).open("a" if append else "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            if _size(self._folder / name) > EVIDENCE_FILE_BYTES_MAX:
                os.truncate(self._folder / name, EVIDENCE_FILE_BYTES_MAX)
        except OSError as error:
            self._failed.append(f"{name}: {error.strerror or error}")
            return False
        self._files.append(f"{FOLDER}/{name}")
        return True


def drop_offers(run_dir: Path) -> None:
    """At the end of a run: what was offered and never asked for is no evidence. What cannot be removed may stay."""
    folder = run_dir / FOLDER
    for path in folder.glob(stacks_name("*", "*")):
        with suppress(OSError):
            if path.read_bytes().count(b"\n") <= 1:
                path.unlink()
    with suppress(OSError):
        folder.rmdir()  # only when nothing is left in it


def _look(look: Callable[[], list[_T]]) -> list[_T] | str:
    """What was seen, or why it was not."""
    try:
        return look()
    except (OSError, ValueError, IndexError) as error:
        return f"cannot be read: {error}"


def _state(life: Life) -> str:
    stat = read_stat(life.pid)
    return "gone" if stat is None or stat.start_ticks != life.start_ticks else stat.state


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
