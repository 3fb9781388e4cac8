"""Saving and loading in one process: real tensors, a real forked writer, the agent's place taken by a list."""

from __future__ import annotations

import io
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from trainer import checkpoint, progress, resilience, state
from trainer import checkpoint_store as files
from trainer.checkpoint import CheckpointNotWritten, Checkpoints
from trainer.optimise import Schedule
from trainer.shard import Group

WAIT_S = 20.0  # far above what a write takes; a test that needs it has failed


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the agent would have been told."""
    events: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(progress, "emit", lambda kind, **fields: events.append((kind, fields)))
    monkeypatch.setattr(progress, "point", lambda name: events.append((name, {})))
    return events


@pytest.fixture
def group() -> Iterator[Group]:
    """A process group of one rank, on a store in memory."""
    store = dist.PrefixStore("test", dist.HashStore())
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield Group(store=store, rank=0, world_size=1, backend="gloo", device=torch.device("cpu"))
    resilience.end_writers()
    dist.destroy_process_group()


def training(seed: int = 0) -> state.Training:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return state.Training(model, optimizer, Schedule(peak=0.1, floor=0.01, warmup_steps=2, steps=50))


def step(run: state.Training) -> float:
    loss = run.model(torch.ones(4, 6)).square().sum()
    loss.backward()
    run.optimizer.step()
    run.optimizer.zero_grad()
    return loss.item()


def checkpoints(out: Path, group: Group, run: state.Training, writer: Any = None, wait_s: float = WAIT_S):
    fresh = Group(
        store=dist.PrefixStore(os.urandom(4).hex(), group.store),
        rank=group.rank,
        world_size=group.world_size,
        backend=group.backend,
        device=group.device,
    )
    return Checkpoints(
        out,
        fresh,
        run,
        writer or resilience.AsyncWriter(),
        every=10,
        kept=2,
        wait_s=wait_s,
        next_sample=lambda steps: steps * 4,
        alive=lambda: None,
    )


def save(out: Path, group: Group, run: state.Training, at: int) -> None:
    saving = checkpoints(out, group, run)
    saving.load()
    saving.after(at)
    saving.finish()


def kinds(told: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [kind for kind, _ in told]


def test_a_resumed_run_repeats_the_same_losses_to_the_bit(tmp_path, group, told):
    run = training()
    for _ in range(3):
        step(run)
    save(tmp_path, group, run, 10)
    expected = [step(run) for _ in range(4)]

    resumed = training(seed=1)
    assert checkpoints(tmp_path, group, resumed).load() == 10
    assert [step(resumed) for _ in range(4)] == expected


@pytest.mark.parametrize("lost", ["weights", "optimizer", "random"])
def test_each_part_of_the_state_is_needed_for_that(tmp_path, group, told, lost):
    run = training()
    for _ in range(3):
        step(run)
    captured = run.capture(step=3, next_sample=12)
    expected = [step(run) for _ in range(4)]
    captured[lost] = training(seed=1).capture(step=3, next_sample=12)[lost] if lost != "optimizer" else captured[lost]
    if lost == "optimizer":
        for moments in captured["optimizer"].values():
            moments["exp_avg"].zero_()
    resumed = training(seed=2)
    resumed.restore(captured)
    assert [step(resumed) for _ in range(4)] != expected


def test_weights_changed_right_after_scheduling_do_not_reach_the_file(tmp_path, group, told):
    run = training()
    step(run)
    before = {name: weight.detach().clone() for name, weight in run.model.named_parameters()}
    saving = checkpoints(tmp_path, group, run)
    saving.load()
    saving.after(10)
    with torch.no_grad():
        for weight in run.model.parameters():
            weight.fill_(7.0)
        for moments in run.optimizer.state.values():
            moments["exp_avg"].fill_(7.0)
    saving.finish()
    saved = torch.load(io.BytesIO(files.read_part(files.complete(tmp_path / "checkpoints")[0], 0)))
    assert saved["weights"].keys() == before.keys()
    assert all(torch.equal(saved["weights"][name], weight) for name, weight in before.items())
    assert not any((moments["exp_avg"] == 7.0).any() for moments in saved["optimizer"].values())


def test_a_captured_state_shares_no_memory_with_the_run():
    run = training()
    step(run)
    captured = run.capture(step=1, next_sample=4)
    first = state.digest(captured)
    step(run)
    assert state.digest(captured) == first
    assert state.digest(run.capture(step=1, next_sample=4)) != first


def test_the_agent_hears_of_a_commit_in_order(tmp_path, group, told):
    run = training()
    step(run)
    save(tmp_path, group, run, 10)
    assert kinds(told) == [
        "checkpoint_began", "checkpoint_staged", "digest_taken",
        "before_rename", "after_rename", "checkpoint_committed", "after_latest",
    ]  # fmt: skip
    committed = dict(told)["checkpoint_committed"]
    assert committed["path"] == "checkpoints/step-000010"
    assert committed["step"] == 10 and committed["files"] == 3


def test_saved_and_loaded_states_have_the_same_digest(tmp_path, group, told):
    run = training()
    step(run)
    save(tmp_path, group, run, 10)
    resumed = training(seed=1)
    checkpoints(tmp_path, group, resumed).load()
    taken = [fields for kind, fields in told if kind == "digest_taken"]
    assert [each["purpose"] for each in taken] == ["checkpoint", "loaded"]
    parts = ("shards", "replicated", "random")
    assert [taken[0][part] for part in parts] == [taken[1][part] for part in parts]
    assert len({taken[0][part] for part in parts}) == 3


@pytest.mark.parametrize(
    ("part", "told_by"),
    [("random", "random"), ("schedule", "replicated"), ("weights", "shards"), ("step", "replicated")],
)
def test_a_part_that_is_another_one_changes_its_own_digest_only(part, told_by):
    run, other = training(), training(seed=1)
    step(run)
    step(other)
    other.schedule.peak = 0.2
    captured = run.capture(step=1, next_sample=4)
    torch.rand(1)  # draws on
    changed = {**captured, part: other.capture(step=2, next_sample=8)[part]}
    before, after = state.digest(captured), state.digest(changed)
    assert {name for name in before if before[name] != after[name]} == {told_by}


def test_old_checkpoints_go_only_after_a_new_one_is_published(tmp_path, group, told):
    run = training()
    step(run)
    saving = checkpoints(tmp_path, group, run)
    saving.load()
    for at in (10, 20, 30):
        saving.after(at)
        saving.finish()
    assert [each.step for each in files.complete(tmp_path / "checkpoints")] == [30, 20]
    order = [(kind, fields["step"]) for kind, fields in told if kind in ("checkpoint_committed", "checkpoint_pruned")]
    assert order == [
        ("checkpoint_committed", 10), ("checkpoint_committed", 20),
        ("checkpoint_committed", 30), ("checkpoint_pruned", 10),
    ]  # fmt: skip


def test_a_damaged_newer_checkpoint_is_refused_and_recorded(tmp_path, group, told):
    run = training()
    step(run)
    for at in (10, 20):
        save(tmp_path, group, run, at)
    (tmp_path / "checkpoints/step-000020/rank0.pt").write_bytes(b"garbage")
    told.clear()
    assert checkpoints(tmp_path, group, training(seed=1)).load() == 10
    assert kinds(told) == ["checkpoint_refused", "checkpoint_loaded", "digest_taken"]
    assert told[0][1]["step"] == 20 and "rank0.pt" in told[0][1]["reason"]
    assert files.latest(tmp_path / "checkpoints") == "step-000010"
    save(tmp_path, group, training(), 20)  # the refused one is not in the way


def test_a_commit_cut_short_after_its_rename_is_finished_by_the_next_attempt(tmp_path, group, told, monkeypatch):
    run = training()
    step(run)
    save(tmp_path, group, run, 10)

    def crash(name: str) -> None:
        if name == "after_rename":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(progress, "point", crash)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, group, run, 20)
    told.clear()
    assert checkpoints(tmp_path, group, training(seed=1)).load() == 20
    assert kinds(told)[:2] == ["checkpoint_committed", "checkpoint_loaded"]
    assert files.latest(tmp_path / "checkpoints") == "step-000020"


def test_without_a_checkpoint_a_run_starts_at_step_0(tmp_path, group, told):
    assert checkpoints(tmp_path, group, training()).load() == 0
    assert told == []


def test_a_part_that_never_comes_ends_the_wait_with_an_error(tmp_path, group, told):
    class Lost:
        def schedule(self, *_: Any) -> None:
            """The write is lost."""

        def busy(self) -> bool:
            return False

    saving = checkpoints(tmp_path, group, training(), writer=Lost(), wait_s=0.05)
    saving.load()
    saving.after(10)
    with pytest.raises(CheckpointNotWritten, match=r"step 10 was not written in 0\.05 s"):
        saving.finish()
    assert "checkpoint_committed" not in kinds(told)


def _sleep_forever(pids: Path) -> None:
    pids.write_text(str(os.getpid()))
    signal.pause()


def wait_for(path: Path) -> int:
    ends_s = time.monotonic() + WAIT_S
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < ends_s, "the writer never began"
        time.sleep(0.005)
    return int(path.read_text())


def test_a_failed_attempt_leaves_no_writer_behind(tmp_path, group):
    writer = resilience.AsyncWriter()
    writer.schedule(_sleep_forever, tmp_path / "pid")
    pid = wait_for(tmp_path / "pid")
    assert writer.busy()
    resilience.end_writers()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_writer_dies_with_a_killed_trainer(tmp_path, group):
    trainer = os.fork()
    if trainer == 0:
        resilience.AsyncWriter().schedule(_sleep_forever, tmp_path / "pid")
        signal.pause()
    writer = os.pidfd_open(wait_for(tmp_path / "pid"))
    try:
        os.kill(trainer, signal.SIGKILL)
        os.waitpid(trainer, 0)
        assert select.select([writer], [], [], WAIT_S)[0], "the writer outlived its trainer"
    finally:
        _end(writer)


def _end(process: int) -> None:
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        pass  # as it should be
    os.close(process)


def test_the_part_a_rank_writes_can_be_loaded_without_trusting_it(tmp_path):
    run = training()
    step(run)
    folder = files.pending_path(tmp_path, 10, "a")
    checkpoint.write_part(run.capture(step=10, next_sample=40), folder, 0)
    assert torch.load(folder / "rank0.pt", weights_only=True)["next_sample"] == 40
