"""NVIDIA Resiliency Extension, all of it: the only file that imports it.

In-process restart around the training function, heartbeats to the rank monitor, asynchronous saving.
Pieces of a layer that is off are not imported: imports are a good part of a recovery.
"""

import ctypes
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from trainer import progress, sockets
from trainer.config import Settings

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # loaded here, because a forked writer should load nothing


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of the training function, as the layers around it tell it."""

    rank: int
    world_size: int
    initial_rank: int
    local_rank: int
    local_world_size: int
    iteration: int
    launcher_restarts: int
    # Whether this rank must host the group's store. In-process restart hosts one already, for all its iterations.
    hosts_store: bool
    # A section of code that a restart never interrupts: it waits until the section ends.
    atomic: Callable[[], AbstractContextManager[Any]] = nullcontext

    @property
    def group_prefix(self) -> str:
        """Never used by two groups that could see the same store."""
        return f"trainer/{self.launcher_restarts}/{self.iteration}"

    @property
    def reported_restart(self) -> dict[str, int]:
        return {"iteration": self.iteration, "torchelastic_restart_count": self.launcher_restarts}


def run(settings: Settings, train: Callable[[Entry], None]) -> None:
    """Calls the training function, under in-process restart when that layer is on."""
    if not settings.run.in_process:
        train(_entry(initial_rank=_env("RANK"), iteration=0, hosts_store=_env("RANK") == 0, atomic=nullcontext))
        return
    from nvidia_resiliency_ext import inprocess

    initial_rank = _env("RANK")

    # The wrapper hands itself to the parameter annotated with its type, which must not be a string here.
    def entered(layer: inprocess.CallWrapper = None) -> None:
        end_writers()  # should the last attempt have been stopped before it could
        abort.connections_before = sockets.connections()
        train(_entry(initial_rank=initial_rank, iteration=layer.iteration, hosts_store=False, atomic=layer.atomic))

    abort = _abort()
    _wrapper(settings, abort)(entered)()


def _wrapper(settings: Settings, abort: Any) -> Any:
    from nvidia_resiliency_ext import inprocess

    run, wait = settings.run, settings.intervals
    return inprocess.Wrapper(
        initialize=inprocess.initialize.RetryController(
            max_iterations=run.max_in_process_restarts + 1,
            min_world_size=1 if run.shrink else _env("WORLD_SIZE"),
        ),
        abort=abort,
        monitor_thread_interval=timedelta(seconds=wait.monitor_thread_interval_s),
        monitor_process_interval=timedelta(seconds=wait.monitor_process_interval_s),
        heartbeat_interval=timedelta(seconds=wait.in_process_heartbeat_interval_s),
        progress_watchdog_interval=timedelta(seconds=wait.progress_watchdog_interval_s),
        soft_timeout=timedelta(seconds=wait.soft_timeout_s),
        hard_timeout=timedelta(seconds=wait.hard_timeout_s),
        heartbeat_timeout=timedelta(seconds=wait.in_process_heartbeat_timeout_s),
        barrier_timeout=timedelta(seconds=wait.barrier_timeout_s),
        completion_timeout=timedelta(seconds=wait.completion_timeout_s),
        last_call_wait=timedelta(seconds=wait.last_call_wait_s),
        termination_grace_time=timedelta(seconds=wait.termination_grace_s),
    )


def _abort() -> Any:
    from nvidia_resiliency_ext.inprocess.abort import AbortTorchDistributed

    class FreePeers(AbortTorchDistributed):
        """NVRx's abort knows NCCL only; on Gloo the group's connections are shut down first.

        Spared are the connections from before this entry (the restart's own store) and those that other
        ranks hold to the store on our side. The group's own connection to the store is shut down as
        well, so that a rank still waiting for peers in the rendezvous is freed too.
        """

        connections_before: frozenset[int] = frozenset()

        def __call__(self, state: Any) -> Any:
            progress.emit("abort_began")
            store_port = _env("MASTER_PORT")
            count = sockets.shut_down(spared=self.connections_before, spared_port=store_port)
            state = super().__call__(state)
            progress.emit("abort_done", sockets=count)
            return state

    return FreePeers()


def _entry(**told: Any) -> Entry:
    return Entry(
        rank=_env("RANK"),
        world_size=_env("WORLD_SIZE"),
        local_rank=_env("LOCAL_RANK"),
        local_world_size=_env("LOCAL_WORLD_SIZE"),
        launcher_restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        **told,
    )


def _env(name: str) -> int:
    return int(os.environ[name])


class Heartbeats:
    """Tells the rank monitor that this rank gets on. Does nothing when in-job restart is off."""

    _client: Any = None  # one connection for a life, whatever in-process restarts it goes through

    def __init__(self, settings: Settings, entry: Entry) -> None:
        self._on = settings.run.in_job
        self._interval_s = settings.intervals.heartbeat_interval_s
        self._atomic = entry.atomic
        self._last_s = 0.0
        if not self._on:
            return
        if Heartbeats._client is not None:
            self.beat()  # an in-process restart is no hang
        else:
            # Not before the first entry: in-process restart forks its monitor, which would hold our socket.
            from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

            with self._atomic():
                client = RankMonitorClient()
                client.init_workload_monitoring()
                Heartbeats._client = client

    def beat(self) -> None:
        """Sends a heartbeat, unless the last one is younger than the interval."""
        now_s = time.monotonic()
        if self._on and now_s - self._last_s >= self._interval_s:
            self._last_s = now_s
            with self._atomic():  # half a message would spoil the connection
                Heartbeats._client.send_heartbeat()

    def stop(self) -> None:
        """From here on silence is no hang."""
        if self._on and Heartbeats._client is not None:
            with self._atomic():
                Heartbeats._client.shutdown_workload_monitoring()
                Heartbeats._client = None


class AsyncWriter:
    """Runs a function in a process forked for it, through NVRx's queue of asynchronous calls.

    Forked rather than NVRx's persistent worker: the worker imports torch anew in each life (a second
    of CPU in the middle of a recovery), hangs its trainer when it dies, and outlives a killed one.
    A forked writer shares our memory copy-on-write, and dies with us.
    """

    def __init__(self, atomic: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
        from nvidia_resiliency_ext.checkpointing.async_ckpt.core import AsyncCallsQueue

        # It warns at each save that this mode will go some day.
        logging.getLogger("nvidia_resiliency_ext.checkpointing.async_ckpt.core").setLevel(logging.ERROR)
        if not torch.cuda.is_available():
            # NVRx waits for copies from the GPU before it forks; without one that call is an error.
            torch.cuda.synchronize = lambda device=None: None
        self._queue = AsyncCallsQueue(persistent=False)
        self._atomic = atomic

    def schedule(self, function: Callable[..., None], *arguments: Any) -> None:
        from nvidia_resiliency_ext.checkpointing.async_ckpt.core import AsyncRequest

        request = AsyncRequest(_write_and_die_with_parent, (os.getpid(), function, *arguments), [])
        with self._atomic():  # a fork that is interrupted leaves a writer that nobody knows
            self._queue.schedule_async_request(request)

    def busy(self) -> bool:
        """Whether a scheduled call still runs; never waits."""
        if self._queue.get_num_unfinalized_calls() == 0:
            return False
        self._queue.maybe_finalize_async_calls(blocking=False, no_dist=True)
        return bool(self._queue.get_num_unfinalized_calls())


def end_writers() -> None:
    """Ends the writers of an attempt that failed: nothing of it may write into the next one."""
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


def _write_and_die_with_parent(parent: int, function: Callable[..., None], *arguments: Any) -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:  # else it died before we asked to die with it
        function(*arguments)
