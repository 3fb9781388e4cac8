"""How large this host is, and how busy: for `doctor`."""

from __future__ import annotations

import os
from pathlib import Path

import psutil


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
