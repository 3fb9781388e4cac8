"""What a process of the job shows of itself when a wait has run out: stacks on a signal, collectives when asked.

The stacks are written by faulthandler, in C: they come also while the main thread is inside C code, or while somebody
holds the interpreter. The signal is a real-time one that nothing in the process catches, ignores or blocks, so no
handler of the job is touched. Whatever fails here fails in silence: then there is only what can be seen from outside.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from chaos.model.evidence import FOLDER, collectives_name, offer, stacks_name

if TYPE_CHECKING:
    from chaos.agent.core import Agent

_FIRST_SIGNAL = int(signal.SIGRTMIN) + 17  # libraries that want one take the first or the last
_MASKS = ("SigBlk:", "SigIgn:", "SigCgt:")
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
COLLECTIVES_BYTES_MAX = 4 << 20
# Older torch records NCCL only; newer ones have Gloo's collectives under the second name.
_DUMPS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")


class _Offer(NamedTuple):
    """What this process holds for its stacks."""

    signal_number: int
    fd: int


_held: _Offer | None = None
_hooked = False


# --- stacks


def offer_stacks(agent: Agent) -> None:
    """Opens this life's stacks file, and lets faulthandler write into it on a free signal."""
    global _held, _hooked
    _withdraw()
    fd = -1
    try:
        number = _free_signal()
        if number is None:
            return
        fd = os.open(_path(stacks_name(agent.initial_rank, agent.pid)), _FLAGS, 0o644)
        faulthandler.register(number, file=fd, all_threads=True, chain=False)
        _held, fd = _Offer(number, fd), -1
        if not _hooked:
            os.register_at_fork(after_in_child=_withdraw)
            _hooked = True
        # Only now: who reads this line may send the signal, and without a handler it would end the process.
        os.write(_held.fd, offer(agent.life, number).encode("ascii"))
    except Exception:
        if fd >= 0:
            os.close(fd)


def _withdraw() -> None:
    """Also in a forked child, which has the handler and would write into its parent's file."""
    global _held
    held, _held = _held, None
    if held is None:
        return
    # Otherwise the job has come to use that signal, and the handler to be taken away would be its own.
    if signal.getsignal(held.signal_number) == signal.SIG_DFL:
        faulthandler.unregister(held.signal_number)
    try:
        os.close(held.fd)
    except OSError:
        pass  # the job had closed it


def _free_signal() -> int | None:
    """One that the kernel knows no use of in this process: Python's own table does not show those of libraries."""
    taken = 0
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(_MASKS):
                taken |= int(line.split()[1], 16)
    free = (number for number in range(_FIRST_SIGNAL, int(signal.SIGRTMAX)) if not taken >> (number - 1) & 1)
    return next(free, None)


def _path(name: str) -> str:
    folder = os.path.join(os.environ["NVRX_CHAOS_DIR"], FOLDER)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)


# --- collectives


def tell_collectives(agent: Agent) -> None:
    """Writes torch's flight recorder, or why there is none. On the channel's thread: a process that holds the
    interpreter for good does not answer."""
    try:
        text = _flight_recorder()
    except Exception as error:
        text = _none(f"it could not be read: {error!r}")
    try:
        path = _path(collectives_name(agent.initial_rank, agent.pid))
        with open(path + ".partial", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".partial", path)  # who waits for this file finds it whole
    except Exception:
        return  # the missing file is said by who waits for it


def _flight_recorder() -> str:
    c10d = sys.modules.get("torch._C._distributed_c10d")  # never imported here: then there are no collectives either
    if c10d is None:
        return _none("torch.distributed is not loaded")
    for dump in (found for name in _DUMPS if (found := getattr(c10d, name, None)) is not None):
        text = _text(dump(includeCollectives=True, onlyActive=False))
        if not json.loads(text).get("entries"):
            continue
        if len(text) > COLLECTIVES_BYTES_MAX:
            text = _text(dump(includeCollectives=True, onlyActive=True))
        if len(text) > COLLECTIVES_BYTES_MAX:
            return _none(f"its dump is longer than {COLLECTIVES_BYTES_MAX >> 20} MiB")
        return text
    return _none(_why_empty(c10d))


def _why_empty(c10d: Any) -> str:
    if not any(hasattr(c10d, name) for name in _DUMPS):
        return "this torch has no flight recorder"
    backend, settings = _backend() or "unknown", "TORCH_FR_BUFFER_SIZE or TORCH_NCCL_TRACE_BUFFER_SIZE"
    return f"it holds no collective of backend {backend}: this torch records NCCL only, or {settings} is 0"


def _backend() -> str:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return ""
    return str(distributed.get_backend())


def _text(raw: Any) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)


def _none(why: str) -> str:
    return json.dumps({"none": why})
