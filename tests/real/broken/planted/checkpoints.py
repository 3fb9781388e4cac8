"""Defects in writing checkpoints, in publishing and removing them, and in choosing one."""

from __future__ import annotations

import shutil
import time

from planted import when

SLOW_WRITER_S = 1.0  # longer than the job lives from the early commit to the fault
BROKEN_STEP = 40  # the checkpoint that the recovery would go on from


def published_early(store):
    """Rank 0 takes the other ranks' word before their parts are on disk, and `latest` names what is not whole."""
    write_part = store.write_part

    def slow_in_others(folder, rank, content):
        if rank and f"step-{BROKEN_STEP:06d}" in folder.name:
            time.sleep(SLOW_WRITER_S)
        write_part(folder, rank, content)

    def hasty(folder, world_size):
        if f"step-{BROKEN_STEP:06d}" not in folder.name:
            return all((folder / f"rank{rank}.json").exists() for rank in range(world_size))
        if not (folder / "rank0.json").exists():
            return False
        for rank in range(1, world_size):
            (folder / f"rank{rank}.json").write_text(f'{{"file": "rank{rank}.pt", "bytes": 0, "sha256": ""}}')
        return True

    store.write_part, store.all_parts_written = slow_in_others, hasty


def part_one_save_behind(checkpoint):
    """Rank 1's file holds what it had at the save before: a checkpoint of two steps, whole by its checksums."""
    schedule = checkpoint.AsyncWriter.schedule
    saved = []

    def behind(self, function, captured, folder, rank):
        written = {**saved[-1], "step": captured["step"]} if rank == 1 and saved else captured
        saved[:] = [captured]
        schedule(self, function, written, folder, rank)

    checkpoint.AsyncWriter.schedule = behind


def half_a_part_accepted(checkpoint):
    """The second half of rank 1's weights never reached the disk, and the checksum was taken of what did."""
    schedule = checkpoint.AsyncWriter.schedule

    def torn(self, function, captured, folder, rank):
        if rank == 1:
            names = sorted(captured["weights"])
            lost = {name: captured["weights"][name] * 0 for name in names[len(names) // 2 :]}
            captured = {**captured, "weights": captured["weights"] | lost}
        schedule(self, function, captured, folder, rank)

    checkpoint.AsyncWriter.schedule = torn


def pruned_before_commit(checkpoint):
    """Room is made for the next checkpoint before there is one."""
    save = checkpoint.Checkpoints._save

    def hasty(self, step):
        if self._ours.rank == 0:
            for gone in checkpoint.files.prune(self._root, 0):
                checkpoint.progress.emit("checkpoint_pruned", step=gone.step, path=self._shown(gone.path))
        save(self, step)

    checkpoint.Checkpoints._save = hasty


def rank_loads_older_step(checkpoint):
    """Rank 1 restores the checkpoint before the one that was agreed on, and goes on with the others."""
    agree, load = checkpoint.Checkpoints._agree, checkpoint.Checkpoints.load

    def another_choice(self):
        choice = agree(self)
        self.agreed = choice["step"]
        older = choice["step"] - self._every if self._ours.rank == 1 and choice["step"] else choice["step"]
        return {**choice, "step": older}

    def broken(self):
        load(self)
        return self.agreed or 0

    checkpoint.Checkpoints._agree, checkpoint.Checkpoints.load = another_choice, broken


def begins_anew(checkpoint):
    """After a restart the folder of checkpoints is a fresh one, and nobody says a word."""
    choose = checkpoint.Checkpoints._choose

    def broken(self, attempt):
        if when.restarts():
            shutil.rmtree(self._root, ignore_errors=True)
        return choose(self, attempt)

    checkpoint.Checkpoints._choose = broken


def never_trains_again(checkpoint):
    """Each restart ends where the checkpoint is to be loaded, until the launcher gives up."""
    load = checkpoint.Checkpoints.load

    def broken(self):
        if when.restarts():
            raise RuntimeError("planted: the checkpoint cannot be loaded")
        return load(self)

    checkpoint.Checkpoints.load = broken


DEFECTS = {
    "published_early": ("trainer.checkpoint_store", published_early),
    "part_one_save_behind": ("trainer.checkpoint", part_one_save_behind),
    "half_a_part_accepted": ("trainer.checkpoint", half_a_part_accepted),
    "pruned_before_commit": ("trainer.checkpoint", pruned_before_commit),
    "rank_loads_older_step": ("trainer.checkpoint", rank_loads_older_step),
    "begins_anew": ("trainer.checkpoint", begins_anew),
    "never_trains_again": ("trainer.checkpoint", never_trains_again),
}
