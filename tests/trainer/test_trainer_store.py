"""Checkpoint folders: published only as a whole, trusted only when checked, safe at every point of a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer import checkpoint_store as files
from trainer.checkpoint_store import Checkpoint, Damaged

ATTEMPT = "a1"


def write_parts(root: Path, step: int, ranks: int = 2, attempt: str = ATTEMPT) -> Path:
    folder = files.pending_path(root, step, attempt)
    for rank in range(ranks):
        files.write_part(folder, rank, f"state of rank {rank} at {step}".encode())
    return folder


def publish(root: Path, step: int, ranks: int = 2, at=lambda point: None) -> Checkpoint:
    write_parts(root, step, ranks)
    return files.commit(root, step, ATTEMPT, ranks, at=at).checkpoint


class Crash(Exception):
    """The process ends here."""


def crash_at(wanted: str):
    def at(point: str) -> None:
        if point == wanted:
            raise Crash

    return at


def test_a_published_checkpoint_reads_back(tmp_path):
    checkpoint = publish(tmp_path, 40)
    files.check(checkpoint, world_size=2)
    assert files.read_part(checkpoint, 1) == b"state of rank 1 at 40"
    assert files.latest(tmp_path) == "step-000040"


def test_it_counts_its_files_and_bytes(tmp_path):
    write_parts(tmp_path, 40)
    published = files.commit(tmp_path, 40, ATTEMPT, 2, at=lambda point: None)
    found = list((tmp_path / "step-000040").iterdir())
    assert published.files == len(found) == 5
    assert published.bytes == sum(path.stat().st_size for path in found)


def test_parts_are_complete_only_when_every_rank_has_said_so(tmp_path):
    folder = files.pending_path(tmp_path, 40, ATTEMPT)
    files.write_part(folder, 0, b"zero")
    assert not files.all_parts_written(folder, world_size=2)
    (folder / "rank1.pt").write_bytes(b"one, but not yet declared durable")
    assert not files.all_parts_written(folder, world_size=2)
    files.write_part(folder, 1, b"one")
    assert files.all_parts_written(folder, world_size=2)


def test_what_is_not_published_is_no_checkpoint(tmp_path):
    write_parts(tmp_path, 40)
    assert files.complete(tmp_path) == []


def test_the_newest_comes_first(tmp_path):
    for step in (20, 100, 40):
        publish(tmp_path, step)
    assert [each.step for each in files.complete(tmp_path)] == [100, 40, 20]


@pytest.mark.parametrize(
    ("point", "published"), [("before_rename", False), ("after_rename", True)], ids=["before", "after"]
)
def test_a_crash_in_a_commit_leaves_a_whole_checkpoint_or_none(tmp_path, point, published):
    publish(tmp_path, 20)
    with pytest.raises(Crash):
        publish(tmp_path, 40, at=crash_at(point))
    steps = [each.step for each in files.complete(tmp_path)]
    assert steps == ([40, 20] if published else [20])
    for checkpoint in files.complete(tmp_path):
        files.check(checkpoint, world_size=2)
    assert files.latest(tmp_path) == "step-000020"  # the pointer never names what is not there


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("rank1.pt", cut, r"rank1\.pt: 20 bytes; the manifest says 21"),
        ("rank1.pt", flip, r"rank1\.pt: its checksum"),
        ("rank0.pt", Path.unlink, r"rank0\.pt: No such file"),
        ("manifest.json", Path.unlink, r"manifest\.json: No such file"),
        ("manifest.json", cut, None),
        ("manifest.json", lambda path: path.write_text("{}"), r"manifest\.json: not readable"),
        ("manifest.json", lambda path: path.write_text('{"schema": "other"}'), r"manifest\.json: schema 'other'"),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_the_reason(tmp_path, name, harm, said):
    checkpoint = publish(tmp_path, 40)
    harm(checkpoint.path / name)
    if said is None:
        files.check(checkpoint, world_size=2)  # the last byte is a line end: nothing is lost
        return
    with pytest.raises(Damaged, match=said):
        files.check(checkpoint, world_size=2)


def test_a_checkpoint_of_another_world_size_is_refused(tmp_path):
    with pytest.raises(Damaged, match="saved by 2 ranks; this group has 1"):
        files.check(publish(tmp_path, 40), world_size=1)


def test_a_folder_under_the_wrong_step_is_refused(tmp_path):
    publish(tmp_path, 40).path.rename(tmp_path / "step-000060")
    with pytest.raises(Damaged, match="does not fit"):
        files.check(files.complete(tmp_path)[0], world_size=2)


def test_pruning_keeps_the_newest(tmp_path):
    for step in (20, 40, 60):
        publish(tmp_path, step)
    assert [each.step for each in files.prune(tmp_path, kept=2)] == [20]
    assert [each.step for each in files.complete(tmp_path)] == [60, 40]


def test_a_late_writer_of_an_earlier_attempt_reaches_no_newer_one(tmp_path):
    files.write_part(files.pending_path(tmp_path, 40, "old"), 0, b"old")
    files.write_part(files.pending_path(tmp_path, 40, "new"), 0, b"new")
    files.commit(tmp_path, 40, "new", 1, at=lambda point: None)
    files.write_part(files.pending_path(tmp_path, 40, "old"), 0, b"old, and late")
    assert files.read_part(files.complete(tmp_path)[0], 0) == b"new"


def test_leftovers_go_and_checkpoints_stay(tmp_path):
    publish(tmp_path, 20)
    write_parts(tmp_path, 40)
    (tmp_path / ".pruned-step-000010").mkdir()
    files.remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-000020"]


def test_a_refused_checkpoint_makes_room_for_a_new_one_of_its_step(tmp_path):
    aside = files.set_aside(tmp_path, publish(tmp_path, 40), "a2")
    assert aside.is_dir()
    assert publish(tmp_path, 40).path.is_dir()


def test_a_folder_that_is_not_there_holds_no_checkpoints(tmp_path):
    assert files.complete(tmp_path / "none") == []
    assert files.latest(tmp_path / "none") is None
