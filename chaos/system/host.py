"""How large this host is, how busy, and which sources of evidence it has: for `doctor`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import psutil

from chaos.errors import Refused
from chaos.system import cgroups, proc
from chaos.system.connector import Connector
from chaos.system.exit_status import tells_how_strangers_ended
from chaos.system.memory import Memory


def host_lines(out: Path) -> list[str]:
    """Lines for people: cores, memory, load, and the space where runs would be kept."""
    memory = psutil.virtual_memory()
    place = out if out.exists() else out.absolute().parent
    space = psutil.disk_usage(str(place))
    load, cores = os.getloadavg()[0], psutil.cpu_count() or 1
    busy = "; busy: times will be long" if load > cores else ""
    return [
        f"{cores} cores, load {load:.1f}{busy}",
        f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB memory free",
        f"{space.free / 2**30:.1f} GiB free for runs in {out}",
    ]


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """`doors.Offers`: empty = offered, else why not; `cgroup` is the version that counts memory."""

    pidfd_info: str
    connector: str
    run_delay: str
    oom_kills: str
    cgroup: str


def offers(root: Path = proc.PROC) -> Offers:
    """What this host has. Each is tried, and nothing is kept open."""
    told = tells_how_strangers_ended()
    found = cgroups.memory_cgroup("self", root)
    return Offers(
        pidfd_info="" if told else f"Linux {os.uname().release} tells how a process ended to its parent only",
        connector=_no_connector(),
        run_delay="" if (root / "self" / "schedstat").is_file() else "/proc/PID/schedstat is not there",
        oom_kills="" if Memory(root).oom_kills() is not None else "/proc/vmstat does not count them",
        cgroup="" if found is None else found.version,
    )


def _no_connector() -> str:
    try:
        Connector().close()
    except Refused as refused:
        return refused.message
    return ""
