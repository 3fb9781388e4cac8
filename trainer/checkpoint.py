"""When to save, and which checkpoint to go on from. Folders are `checkpoint_store.py`'s, forking is NVRx's.

Each rank writes its own part in the background. Rank 0 looks after each step whether all parts are there,
and publishes them: no collective, so a slow disk delays a checkpoint and never a step.
"""

from __future__ import annotations

import io
import json
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from trainer import checkpoint_store as files
from trainer import progress, state
from trainer.checkpoint_store import Checkpoint, Damaged
from trainer.resilience import AsyncWriter
from trainer.shard import Group

POLL_S = 0.005  # only while waiting at the end, where nothing else is left to do


class CheckpointNotWritten(RuntimeError):
    """A checkpoint did not become durable in the time allowed."""


class Checkpoints:
    """The checkpoints of one entry of the training function, as one rank sees them."""

    def __init__(
        self,
        out: Path,
        ours: Group,
        training: state.Training,
        writer: AsyncWriter,
        *,
        every: int,
        kept: int,
        wait_s: float,
        next_sample: Callable[[int], int],
        alive: Callable[[], None],
    ) -> None:
        """`next_sample`: position in the data after so many steps. `alive`: called while waiting."""
        self._out = out
        self._root = out / "checkpoints"
        self._ours = ours
        self._training = training
        self._writer = writer
        self._every = every
        self._kept = kept
        self._wait_s = wait_s
        self._next_sample = next_sample
        self._alive = alive
        self._attempt = ""
        self._pending: list[int] = []  # rank 0: steps whose parts are being written

    # before the first step

    def load(self) -> int:
        """Restores the newest complete checkpoint; returns the next step to do, 0 without one."""
        progress.enter("checkpoint_load")
        choice = self._agree()
        self._attempt = choice["attempt"]
        if choice["step"] is None:
            return 0
        chosen = Checkpoint(step=choice["step"], path=files.complete_path(self._root, choice["step"]))
        content = files.read_part(chosen, self._ours.rank)
        step: int = self._training.restore(torch.load(io.BytesIO(content), weights_only=True))
        progress.emit("checkpoint_loaded", step=step, path=self._shown(chosen.path))
        self.take_digest(step, "loaded")
        return step

    def _agree(self) -> dict[str, Any]:
        """Rank 0's choice, for all ranks: if each looked for itself, two could go on from different steps."""
        store = self._ours.store
        if self._ours.rank == 0:
            chosen = self._choose(attempt := secrets.token_hex(4))
            store.set("checkpoint_choice", json.dumps({"attempt": attempt, "step": chosen and chosen.step}))
        return dict(json.loads(store.get("checkpoint_choice")))

    def _choose(self, attempt: str) -> Checkpoint | None:
        self._root.mkdir(parents=True, exist_ok=True)
        files.remove_leftovers(self._root)
        for checkpoint in files.complete(self._root):
            try:
                files.check(checkpoint, self._ours.world_size)
            except Damaged as damage:
                shown = self._shown(checkpoint.path)
                progress.emit("checkpoint_refused", step=checkpoint.step, path=shown, reason=str(damage))
                files.set_aside(self._root, checkpoint, attempt)
                continue
            self._finish_commit(checkpoint)
            return checkpoint
        return None

    def _finish_commit(self, checkpoint: Checkpoint) -> None:
        """After a crash between renaming a folder and pointing at it, the checkpoint is whole: point at it now."""
        pointed_at = files.latest(self._root)
        if pointed_at == checkpoint.path.name:
            return
        files.point_latest_at(self._root, checkpoint.path)
        if pointed_at is None or pointed_at < checkpoint.path.name:
            self._report_committed(files.measure(checkpoint))

    # after each step

    def after(self, steps_done: int) -> None:
        """Publishes what has become complete, and saves when it is time."""
        self._poll()
        if self._every and steps_done % self._every == 0:
            self._save(steps_done)

    def _poll(self) -> bool:
        """Whether this rank has nothing left to write or publish."""
        busy = self._writer.busy()
        if self._pending:
            self._commit_newest_ready()
        return not busy and not self._pending

    def _save(self, step: int) -> None:
        progress.enter("checkpoint_save", step)
        began_s = time.monotonic()
        self._wait_until(lambda: not self._writer.busy(), f"the checkpoint before step {step}")
        folder = files.pending_path(self._root, step, self._attempt)
        progress.emit("checkpoint_began", step=step, path=self._shown(folder))
        captured = self._training.capture(step=step, next_sample=self._next_sample(step))
        self._writer.schedule(write_part, captured, folder, self._ours.rank)
        progress.emit("checkpoint_staged", step=step, stall_s=time.monotonic() - began_s)
        progress.emit("digest_taken", step=step, purpose="checkpoint", **state.digest(captured))
        if self._ours.rank == 0:
            self._pending.append(step)

    def _commit_newest_ready(self) -> None:
        world_size = self._ours.world_size
        for step in reversed(self._pending):
            if files.all_parts_written(files.pending_path(self._root, step, self._attempt), world_size):
                self._commit(step)
                return

    def _commit(self, step: int) -> None:
        # Not in an atomic section: each point of a commit survives a crash, and a restart must not wait for a disk.
        progress.enter("checkpoint_commit", step)
        published = files.commit(self._root, step, self._attempt, self._ours.world_size, at=progress.point)
        self._report_committed(published)
        progress.point("after_latest")
        for overtaken in [earlier for earlier in self._pending if earlier < step]:
            shutil.rmtree(files.pending_path(self._root, overtaken, self._attempt), ignore_errors=True)
        self._pending = [later for later in self._pending if later > step]
        for pruned in files.prune(self._root, self._kept):
            progress.emit("checkpoint_pruned", step=pruned.step, path=self._shown(pruned.path))

    # after the last step

    def finish(self) -> None:
        """Waits for the last checkpoint. Raises CheckpointNotWritten: a job without it has not succeeded."""
        self._wait_until(self._poll, f"the checkpoint of step {self._pending[-1] if self._pending else 'the end'}")

    def take_digest(self, step: int, purpose: str) -> None:
        captured = self._training.capture(step=step, next_sample=self._next_sample(step))
        progress.emit("digest_taken", step=step, purpose=purpose, **state.digest(captured))

    def _wait_until(self, done: Callable[[], bool], what: str) -> None:
        ends_s = time.monotonic() + self._wait_s
        while not done():
            if time.monotonic() > ends_s:
                raise CheckpointNotWritten(
                    f"{what} was not written in {self._wait_s:g} s; is {self._root} full, slow, or not writable?"
                )
            self._alive()
            time.sleep(POLL_S)

    def _report_committed(self, published: files.Published) -> None:
        shown = self._shown(published.checkpoint.path)
        step, count, size = published.checkpoint.step, published.files, published.bytes
        progress.emit("checkpoint_committed", step=step, path=shown, files=count, bytes=size)

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._out))


def write_part(captured: dict[str, Any], folder: Path, rank: int) -> None:
    """Runs in the writer's process: one rank's state into its file."""
    buffer = io.BytesIO()
    torch.save(captured, buffer)
    files.write_part(folder, rank, buffer.getbuffer())
