"""Stacks of a process, taken from outside with py-spy where it is installed. Never stops its target."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

DUMP_S = 5.0
KILL_WAIT_S = 0.5  # a reader that hangs in the kernel is not waited for any longer


def dump_stacks(pid: int, within_s: float = DUMP_S) -> str:
    """The stacks of every thread as text, or one line that says why there are none."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.is_file() else shutil.which("py-spy")
    if program is None:
        return "no stacks: py-spy is not installed (pip install 'nvrx-chaos[stacks]')\n"
    # Not blocking: a target that we had stopped ourselves must not be stopped and resumed by a reader.
    command = [program, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        return f"no stacks: {error}\n"
    try:
        out, said = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=KILL_WAIT_S)
        return f"no stacks: py-spy took longer than {within_s:.1f} s\n"
    return out if process.returncode == 0 else f"no stacks: {said.strip()}\n"
