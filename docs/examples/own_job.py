"""A small FSDP job of one's own, with the lines that let nvrx-chaos see inside it and time faults to a step.

Start it by itself with: ft_launcher --standalone --nproc-per-node=2 --max-restarts=2 own_job.py
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

from chaos import agent  # 1: does nothing when the job was not started by nvrx-chaos

STEPS, SAVE_EVERY, BATCH, RATE = 80, 10, 4, 1e-3
# A fresh folder for each run, or the next run would go on where this one ended.
ROOT = Path(os.environ.get("NVRX_CHAOS_DIR", ".")) / "job"


def main() -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    agent.entered(  # 2: first of all; begins the rank's own history
        rank=rank,
        initial_rank=rank,
        local_rank=int(os.environ["LOCAL_RANK"]),
        world_size=world_size,
        settings={"save_every": SAVE_EVERY, "batch": BATCH},
        reported_restart={"torchelastic_restart_count": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))},
    )
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    agent.group_ready(store, rank=rank, world_size=world_size, backend="gloo")  # 3: tells process groups apart
    train(rank, world_size)
    agent.finished(STEPS)  # 6: all steps are done
    dist.destroy_process_group()


def train(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    first_step = load(model, optimizer)
    agent.watch(model, optimizer, first_step=first_step)  # 4: learns the phases of a step
    for step in range(first_step, STEPS):
        first = (step * world_size + rank) * BATCH  # the samples that this rank reads in this step
        generator = torch.Generator().manual_seed(first)
        inputs = torch.randn(BATCH, 64, generator=generator)
        loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor().item()
        optimizer.step()
        optimizer.zero_grad()
        mean_loss = loss.detach().clone()
        dist.all_reduce(mean_loss, dist.ReduceOp.AVG if dist.get_backend() == "nccl" else dist.ReduceOp.SUM)
        loss_value = mean_loss.item() / (1 if dist.get_backend() == "nccl" else world_size)
        # 5: the step is done on the device, and its loss has been read
        agent.step_done(step, loss=loss_value, lr=RATE, grad_norm=norm, samples=(first, first + BATCH))
        if (step + 1) % SAVE_EVERY == 0:
            save(model, optimizer, step + 1)


def load(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The next step to do: 0 without a checkpoint."""
    latest = ROOT / "latest"
    if not latest.exists():
        return 0
    step = int(latest.read_text())
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=ROOT / f"step-{step}")
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    return step


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=ROOT / f"step-{step}")
    if dist.get_rank() == 0:
        beside = ROOT / "latest.new"
        beside.write_text(str(step))
        beside.replace(ROOT / "latest")
    dist.barrier()


if __name__ == "__main__":
    main()
