"""How processes ended, also those that are not our children. Watches; never reaps, never signals.

A pidfd opened while the process lives keeps its identity after its end, whoever reaps it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import struct

import msgspec

from chaos.doors import ProcessReader
from chaos.model.identity import Life
from chaos.system import proc
from chaos.system.processes import same_process

# struct pidfd_info of linux/pidfd.h, first version (64 bytes): mask, cgroup id, eleven ids, exit code.
_INFO = struct.Struct("<QQ11Ii")
_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11  # _IOWR(0xFF, 11, struct pidfd_info)

_TRIED = 7  # any code that is not 0


class ExitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`code` and `signal`: at most one is set, both None = unknown. `source`: child | pidfd | none."""

    code: int | None = None
    signal: int | None = None
    source: str = "none"


class ExitWatcher:
    """`doors.ExitReader`: holds a pidfd for every life it is told of, and says how each ended."""

    def __init__(self, table: ProcessReader) -> None:
        self._table = table
        self._handles: dict[Life, int] = {}

    def watch(self, life: Life) -> bool:
        """False when that life has ended already: its status can no longer be learnt."""
        if life in self._handles:
            return True
        try:
            handle = os.pidfd_open(life.pid)
        except OSError:
            return False
        # A zombie still tells its status, so only identity is asked for here.
        info = self._table.info(life.pid)
        if info is None or not same_process(info.life, life):
            os.close(handle)
            return False
        self._handles[life] = handle
        return True

    def poll(self, timeout_s: float = 0.0) -> dict[Life, ExitStatus]:
        """The lives that ended since the last call, each told once; waits at most `timeout_s` for the first."""
        # select() would refuse descriptors above 1023.
        poller = select.poll()
        for handle in self._handles.values():
            poller.register(handle, select.POLLIN)
        ready = {handle for handle, _ in poller.poll(timeout_s * 1000)}
        ended = {life: handle for life, handle in self._handles.items() if handle in ready}
        result = {life: exit_status(handle, life.pid) for life, handle in ended.items()}
        for life, handle in ended.items():
            os.close(handle)
            del self._handles[life]
        return result

    def close(self) -> None:
        """Lets go of every handle."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()


def exit_status(handle: int, pid: int) -> ExitStatus:
    """How the ended process behind this pidfd ended. `pid` must be the one it was opened for."""
    return _of_own_child(handle) or _of_reaped(handle) or _of_zombie(handle, pid) or _of_reaped(handle) or ExitStatus()


def _of_own_child(handle: int) -> ExitStatus | None:
    try:
        # WNOWAIT: whoever started the child still gets to reap it.
        result = os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return None
    if result is None:
        return None
    if result.si_code == os.CLD_EXITED:
        return ExitStatus(code=result.si_status, source="child")
    return ExitStatus(signal=result.si_status, source="child")


def _of_reaped(handle: int) -> ExitStatus | None:
    """The kernel keeps the status with the pidfd from the moment somebody reaped the process (Linux 6.15)."""
    buffer = bytearray(_INFO.pack(_INFO_EXIT, *([0] * 13)))
    try:
        fcntl.ioctl(handle, _PIDFD_GET_INFO, buffer)
    except OSError as problem:
        if problem.errno in (errno.ENOTTY, errno.EINVAL, errno.ESRCH, errno.EPERM):
            return None
        raise
    values = _INFO.unpack(buffer)
    return _from_wait_status(values[-1]) if values[0] & _INFO_EXIT else None


def _of_zombie(handle: int, pid: int) -> ExitStatus | None:
    """Not reaped yet: its row in the process table still shows the status."""
    stat = proc.read_stat(pid)
    if stat is None or stat.state != "Z":
        return None
    try:
        # Signal 0 still finds it, so nobody has reaped it and the row just read was its own.
        signal.pidfd_send_signal(handle, 0)
    except OSError:
        return None
    return _from_wait_status(stat.exit_status)


def _from_wait_status(status: int) -> ExitStatus:
    if os.WIFSIGNALED(status):
        return ExitStatus(signal=os.WTERMSIG(status), source="pidfd")
    return ExitStatus(code=os.WEXITSTATUS(status), source="pidfd")


def tells_how_strangers_ended() -> bool:
    """Whether this kernel keeps the status with the pidfd: tried on a child that is reaped before it is asked."""
    pid = os.fork()
    if pid == 0:
        os._exit(_TRIED)
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        os.waitpid(pid, 0)
        return False
    try:
        os.waitpid(pid, 0)
        return _of_reaped(handle) == ExitStatus(code=_TRIED, source="pidfd")
    finally:
        os.close(handle)
