"""The training run of one rank, top to bottom: `ft_launcher` starts this module once for each rank."""

# ruff: noqa: E402 - the first statement speeds up the imports below it
from __future__ import annotations

import gc

# Imports are most of what a new process costs in a recovery, and a fifth of that is the collector, which
# walks ever more objects that will never be garbage.
gc.disable()

import logging
import os

import torch
import torch._dynamo  # FSDP and the optimizer would import it at their first use
from torch.nn import functional

from trainer import config, corpus, metrics, optimise, progress, resilience, shard
from trainer.checkpoint import Checkpoints
from trainer.config import Settings
from trainer.data import Batches
from trainer.model import Gpt
from trainer.resilience import Entry
from trainer.state import Training

LOG_EVERY_STEPS = 20
log = logging.getLogger("trainer")


def main() -> None:
    settings = config.parse()
    gc.freeze()  # what was imported is never looked at again: neither in a step nor in an in-process restart
    gc.enable()
    # INFO for all: the lines in which NVRx says that it restarts are of that level.
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s rank{os.environ['RANK']} %(levelname)s %(message)s")
    torch.set_num_threads(1)  # sums taken in another order would differ in their last bits
    resilience.run(settings, lambda entry: train(settings, entry))


def train(settings: Settings, entry: Entry) -> None:
    """Runs until the last step. After a restart it is called again, and nothing of the failed call is left."""
    progress.entered(
        rank=entry.rank,
        initial_rank=entry.initial_rank,
        local_rank=entry.local_rank,
        world_size=entry.world_size,
        settings=settings.flat(),
        reported_restart=entry.reported_restart,
    )
    try:
        heartbeats = resilience.Heartbeats(settings, entry)
        progress.enter("rendezvous")
        with shard.group(entry, timeout_s=settings.intervals.collective_timeout_s) as ours:
            progress.group_ready(ours.store, rank=ours.rank, world_size=ours.world_size, backend=ours.backend)
            train_in_group(settings, entry, ours, heartbeats)
        heartbeats.stop()
        progress.finished(settings.run.steps)
    finally:
        resilience.end_writers()


def train_in_group(settings: Settings, entry: Entry, ours: shard.Group, heartbeats: resilience.Heartbeats) -> None:
    run = settings.run
    training, batches = build(settings, ours)
    model, optimizer, schedule = training.model, training.optimizer, training.schedule
    checkpoints = Checkpoints(
        run.out,
        ours,
        training,
        resilience.AsyncWriter(entry.atomic),
        every=run.checkpoint_every,
        kept=run.checkpoints_kept,
        wait_s=settings.intervals.checkpoint_wait_s,
        next_sample=batches.position,
        alive=heartbeats.beat,
    )
    first_step = checkpoints.load()
    log.info("rank %d of %d begins at step %d", ours.rank, ours.world_size, first_step)
    progress.watch(model, optimizer, first_step=first_step)
    with metrics.recorder(run.metrics, rank=ours.rank) as record:
        for step in range(first_step, run.steps):
            inputs, targets = batches.batch(step)
            scores = model(inputs.to(ours.device))
            loss = functional.cross_entropy(scores.flatten(0, 1), targets.to(ours.device).flatten())
            loss.backward()
            mean_loss, norm = optimise.reduce_and_clip(model, loss, settings.optimisation.clip_norm)
            rate = schedule.rate(step)
            optimise.set_rate(optimizer, rate)
            optimizer.step()
            optimizer.zero_grad()
            progress.step_done(step, loss=mean_loss, lr=rate, grad_norm=norm, samples=batches.span(step))
            record(step=step, loss=mean_loss, grad_norm=norm, lr=rate)
            if ours.rank == 0 and (step + 1) % LOG_EVERY_STEPS == 0:
                log.info("step %d: loss %.4f", step + 1, mean_loss)
            checkpoints.after(step + 1)
            heartbeats.beat()
    progress.enter("shutdown", run.steps)
    checkpoints.finish()
    checkpoints.take_digest(run.steps, "end")


def build(settings: Settings, ours: shard.Group) -> tuple[Training, Batches]:
    """Model, optimizer and data as they are before the first step: the same on every entry."""
    run, data, shape = settings.run, settings.data, settings.model
    text = corpus.read(data.data, bytes_max=data.data_bytes_max, bytes_min=shape.context + 1)
    batches = Batches(
        text, context=shape.context, batch=data.batch, seed=run.seed, rank=ours.rank, world_size=ours.world_size
    )
    torch.manual_seed(run.seed)  # all ranks draw the same weights, and then keep their shard of them
    model = Gpt(shape).to(ours.device)
    shard.shard(model, model.blocks, ours)
    torch.manual_seed(run.seed + 1 + ours.rank)  # dropout differs from rank to rank
    optimizer = optimise.make_optimizer(model, settings.optimisation)
    schedule = optimise.Schedule.of(settings.optimisation, settings.schedule_steps)
    return Training(model, optimizer, schedule), batches


if __name__ == "__main__":
    main()
