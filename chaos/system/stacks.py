"""Stacks of a process that hangs, taken from outside with py-spy where it is installed. Never stops its target."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

DUMP_S = 5.0


def dump_stacks(pid: int) -> str:
    """The stacks of every thread as text, or one line that says why there are none."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.is_file() else shutil.which("py-spy")
    if program is None:
        return "no stacks: py-spy is not installed (pip install 'nvrx-chaos[stacks]')\n"
    try:
        # Not blocking: a target that we had stopped ourselves must not be stopped and resumed by a reader.
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(pid)],
            capture_output=True,
            text=True,
            timeout=DUMP_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no stacks: {error}\n"
    return done.stdout if done.returncode == 0 else f"no stacks: {done.stderr.strip()}\n"
