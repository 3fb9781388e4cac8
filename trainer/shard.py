"""The process group and FSDP2: opens a group on a fresh store prefix, shards a model over it.

Which ranks there are, and who hosts the store, is told by `resilience.py`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from trainer.resilience import Entry

LISTENER_POLL_S = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The process group of one entry. `store` is its own prefix: nothing of an earlier group can be in it."""

    store: dist.Store
    rank: int
    world_size: int
    backend: str
    device: torch.device


@contextmanager
def group(entry: Entry, *, timeout_s: float) -> Iterator[Group]:
    """Opens the process group; closes it when the block ends well.

    After an error it is left as it is: in-process restart aborts it, else the process ends.
    """
    device = choose_device(entry)
    backend = "nccl" if device.type == "cuda" else "gloo"
    timeout = timedelta(seconds=timeout_s)
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if not entry.hosts_store:
        wait_for_listener(host, port, timeout_s=timeout_s)
    base = dist.TCPStore(host, port, is_master=entry.hosts_store, wait_for_workers=False, timeout=timeout)
    store = dist.PrefixStore(entry.group_prefix, base)
    dist.init_process_group(backend, store=store, rank=entry.rank, world_size=entry.world_size, timeout=timeout)
    yield Group(store=store, rank=entry.rank, world_size=entry.world_size, backend=backend, device=device)
    dist.destroy_process_group()


def wait_for_listener(host: str, port: int, *, timeout_s: float) -> None:
    """Returns as soon as the store can be reached; after the timeout too, and then the store says what is wrong.

    Left to itself the store waits ever longer between two tries: a quarter of a second of each recovery.
    """
    ends_s = time.monotonic() + timeout_s
    while time.monotonic() < ends_s:
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
            return
        except OSError:
            time.sleep(LISTENER_POLL_S)


def choose_device(entry: Entry) -> torch.device:
    """A GPU for each rank of this host when there are that many, else the CPU."""
    if torch.cuda.is_available() and torch.cuda.device_count() >= entry.local_world_size:
        device = torch.device("cuda", entry.local_rank)
        torch.cuda.set_device(device)
        torch.use_deterministic_algorithms(True)
        return device
    return torch.device("cpu")


def shard(model: nn.Module, units: nn.ModuleList, ours: Group) -> nn.Module:
    """Each unit is gathered by itself when its turn comes; the rest of the model belongs to the root."""
    mesh = init_device_mesh(ours.device.type, (ours.world_size,))
    for unit in units:
        fully_shard(unit, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def local(tensor: Tensor) -> Tensor:
    """This rank's shard of a sharded tensor; any other tensor as it is."""
    to_local = getattr(tensor, "to_local", None)
    return tensor if to_local is None else to_local()
