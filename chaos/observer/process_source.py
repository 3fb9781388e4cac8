"""Watches the job's processes come and go. What each is, `roles.py` decides; what is written of it, `telling.py`.

A process belongs to the job when it carries the run's mark, or when one that we know made it. Newcomers are found by
looking at the process table, and told by the kernel where it may be asked (then none is too short-lived to be known).
Ends are learned from pidfds (the kernel wakes us), so their times are exact to the wake-up of a thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import msgspec

from chaos.doors import ExitReader, News, NewsReader, ProcessReader
from chaos.model.events import Event
from chaos.model.identity import Life, ProcessInfo
from chaos.observer import roles
from chaos.observer.known import Known, start_ticks_at
from chaos.observer.overhear import EventWriter
from chaos.observer.telling import Telling

SCAN_S = 0.1  # how long a new process can stay unseen while ranks come and go
CALM_SCAN_S = 0.5  # and when none has for CALM_AFTER_S: each look costs the job. An end is told by the kernel at once
CALM_AFTER_S = 10.0
# Two words on one pid that are so close together are about one process: pids are not used again so soon.
SAME_MOMENT_NS = 50_000_000
REMEMBERED_S = 60.0  # those that ended: a late word of kernel or launcher may be about them


class ProcessSource:
    """Single-threaded but for `hear`, `alive` and `ended_orphans`: `step(timeout_s)` looks once."""

    def __init__(
        self, mark: str, reader: ProcessReader, exits: ExitReader, writer: EventWriter, news: NewsReader | None = None
    ) -> None:
        self._mark = mark
        self._reader, self._exits, self._news = reader, exits, news
        self._known: dict[int, Known] = {}  # alive
        self._by_pid: dict[int, Known] = {}  # the last of that pid, ended or not
        self._ranks: list[Known] = []
        self._foreign: set[int] = set()
        self._ended_lives: dict[int, Life] = {}  # a zombie stays in the table until its parent reaps it
        self._saving = roles.Saving()
        self._launcher_said: deque[tuple[int, int, int]] = deque()  # when, pid, code
        self._telling = Telling(writer, self._role_of, has_news=news is not None)
        self.launcher: Life | None = None
        self._changed_at = time.monotonic()

    def watch_launcher(self, pid: int) -> None:
        """The job's first process. Called right after its start, so that nothing of the job is missed."""
        info = self._reader.info(pid)
        if info is not None:
            self.launcher = info.life

    def hear(self, event: Event) -> None:
        """What the job itself said: when its ranks save, how the launcher says that a rank ended. From any thread."""
        if event.kind == "worker_failed":
            pid, code = event.data.get("pid"), event.data.get("code")
            if isinstance(pid, int) and isinstance(code, int):
                self._launcher_said.append((event.t_ns, pid, code))
        elif event.life is not None:
            if event.kind == "checkpoint_began":
                self._saving.began(event.life, event.t_ns)
            elif event.kind in ("checkpoint_staged", "restart_entered"):
                self._saving.over(event.life, event.t_ns)

    def step(self, timeout_s: float | None = None) -> None:
        """Waits for an end for at most `timeout_s` (None: as calm as the job is), then looks for newcomers."""
        if timeout_s is None:
            timeout_s = CALM_SCAN_S if time.monotonic() - self._changed_at > CALM_AFTER_S else SCAN_S
        ended = self._exits.poll(timeout_s)
        now_ns = time.monotonic_ns()
        # First what the kernel and the launcher say, so that an end is told with all that is known of it.
        for news in self._drain():
            self._take(news)
        self._hear_launcher()
        for life, how in ended.items():
            known = self._known.get(life.pid)
            if known is not None and known.life == life:
                known.claim(how.source, how.code, how.signal)
                self._end(known, now_ns)
        self._scan()
        self._telling.look_again()

    def alive(self) -> list[Known]:
        """The job's processes that have not ended."""
        return list(self._known.values())

    def ended_orphans(self) -> list[Life]:
        """Ended lives that nobody has reaped yet, but for the launcher, which is its starter's to reap."""
        return [life for life in list(self._ended_lives.values()) if life != self.launcher]

    def close(self) -> None:
        self._telling.close()
        self._exits.close()
        if self._news is not None:
            self._news.close()
        self._known.clear()

    # --- looking at the table

    def _scan(self) -> None:
        pids = set(self._reader.pids())
        self._foreign &= pids
        self._ended_lives = {pid: life for pid, life in self._ended_lives.items() if pid in pids}
        self._forget()
        if self.launcher is not None:
            # Seen between fork and exec, the launcher looked like one of the controller's own.
            self._foreign.discard(self.launcher.pid)
        for known in list(self._known.values()):
            if not known.watched and not self._reader.is_alive(known.life):
                self._end(known)
        for pid in sorted(pids - self._known.keys() - self._foreign):
            self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        info = self._reader.info(pid)
        if info is None or self._ended_lives.get(pid) == info.life:
            return
        if info.mark != self._mark and info.ppid not in self._known:
            # The launcher's child between fork and exec carries the launcher's environment, mark and all:
            # what has no mark now will not get one.
            self._foreign.add(pid)
            return
        self._add(Known(info, parent=self._known.get(info.ppid), watched=self._exits.watch(info.life)))

    def _forget(self) -> None:
        before_ns = time.monotonic_ns() - int(REMEMBERED_S * 1e9)
        gone = [pid for pid, known in self._by_pid.items() if known.ended_ns is not None and known.ended_ns < before_ns]
        for pid in gone:
            del self._by_pid[pid]

    # --- what the kernel tells

    def _drain(self) -> Sequence[News]:
        """A kernel that stops telling leaves us what we see ourselves: nothing that rests on it is claimed any more."""
        if self._news is None:
            return ()
        try:
            return self._news.drain()
        except OSError:
            self._news.close()
            self._news, self._telling.has_news = None, False
            return ()

    def _take(self, news: News) -> None:
        if news.kind == "forked":
            self._forked(news)
            return
        known = self._by_pid.get(news.pid)
        if known is None or news.t_ns < known.born_ns[0] - SAME_MOMENT_NS:
            return
        if news.kind == "executed":
            self._became_another(known)
        elif news.kind == "ended" and (known.ended_ns is None or news.t_ns < known.ended_ns + SAME_MOMENT_NS):
            known.told_end_ns = known.told_end_ns or news.t_ns
            known.claim("connector", news.code, news.signal)
            self._telling.claimed(known)
            if known.ended_ns is None and not known.watched:
                self._end(known)

    def _became_another(self, known: Known) -> None:
        known.executed = True
        info = self._reader.info(known.life.pid)
        if info is not None and info.life == known.life and info.command:
            known.info = msgspec.structs.replace(info, ppid=known.info.ppid)
        elif known.parent is not None and known.info.command == known.parent.info.command:
            known.info = msgspec.structs.replace(known.info, command=())  # which one it became was not seen

    def _forked(self, news: News) -> None:
        parent = self._by_pid.get(news.parent)
        if parent is None and self.launcher is not None and news.parent == self.launcher.pid:
            self._look_at(news.parent)
            parent = self._by_pid.get(news.parent)
        if parent is None or (parent.ended_ns is not None and parent.ended_ns + SAME_MOMENT_NS < news.t_ns):
            return
        known = self._by_pid.get(news.pid)
        if known is not None and abs(known.born_ns[0] - news.t_ns) < SAME_MOMENT_NS:
            known.parent = known.parent or parent
            return
        info = self._reader.info(news.pid)
        if info is not None and abs(info.life.start_ticks - start_ticks_at(news.t_ns)) <= 1:
            if not info.command:  # it is ending, and shows nothing of itself any more
                then = _like(parent.info, news)
                info = msgspec.structs.replace(info, command=then.command, environment=then.environment)
            self._add(Known(info, parent=parent, watched=self._exits.watch(info.life), forked_ns=news.t_ns))
        else:
            self._add(Known(_like(parent.info, news), parent=parent, brief=True, forked_ns=news.t_ns))

    # --- what the launcher says

    def _hear_launcher(self) -> None:
        while self._launcher_said:
            t_ns, pid, code = self._launcher_said.popleft()
            known = self._by_pid.get(pid)
            # Its number is the launcher's own: in a pid namespace it may be somebody else's here.
            same = known is not None and known.role == "rank" and known.life.pid_inside == pid
            if known is not None and same and t_ns >= known.born_ns[0]:
                known.claim("launcher", *((code, None) if code >= 0 else (None, -code)))
                self._telling.claimed(known)

    # --- coming and going

    def _add(self, known: Known) -> None:
        self._known[known.life.pid] = self._by_pid[known.life.pid] = known
        self._telling.add(known)

    def _role_of(self, known: Known) -> roles.Role | None:
        """Looks at it once more, and at its parent: either may have become another program meanwhile."""
        for each in (known, known.parent):
            if each is not None and not each.brief and each.ended_ns is None:
                info = self._reader.info(each.life.pid)
                if info is not None and info.life == each.life and info.command:
                    each.info = msgspec.structs.replace(info, ppid=each.info.ppid)
        role = roles.role_of(known, self.launcher, self._ranks, self._saving, time.monotonic() - known.seen_at)
        if role is not None and role[0] in ("launcher", "rank"):
            self._changed_at = time.monotonic()
            if role[0] == "rank":
                self._ranks.append(known)
        return role

    def _end(self, known: Known, noticed_ns: int | None = None) -> None:
        known.end(noticed_ns)
        if known.role in ("launcher", "rank"):
            self._changed_at = time.monotonic()
        del self._known[known.life.pid]
        self._ended_lives[known.life.pid] = known.life
        self._telling.ended(known)


def _like(parent: ProcessInfo, news: News) -> ProcessInfo:
    """A process that was gone before it could be looked at: a fork is what its parent is."""
    life = msgspec.structs.replace(
        parent.life, pid=news.pid, pid_inside=news.pid, start_ticks=start_ticks_at(news.t_ns)
    )
    return msgspec.structs.replace(parent, life=life, ppid=parent.pid)
