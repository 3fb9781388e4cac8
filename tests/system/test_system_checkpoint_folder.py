"""A look at checkpoints that the trainer's own store wrote: whole, damaged in every way, taken away meanwhile."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from chaos.system import checkpoint_folder
from chaos.system.checkpoint_folder import CheckpointFolder
from trainer import checkpoint_store

PARTS = {0: b"zero" * 300, 1: b"one" * 500}


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "checkpoints"
    root.mkdir()
    save(root, 40)
    return root


def save(root, step):
    pending = checkpoint_store.pending_path(root, step, "a")
    for rank, content in PARTS.items():
        checkpoint_store.write_part(pending, rank, content)
    checkpoint_store.commit(root, step, "a", len(PARTS), at=lambda point: None)


def look(root, step=40, **how):
    return CheckpointFolder(root, "checkpoints", **how).look(step)


def test_a_checkpoint_as_the_trainer_writes_it_is_whole(root):
    found = look(root)
    folder = root / "step-000040"
    assert (found.step, found.path, found.problem, found.verified) == (40, "checkpoints/step-000040", "", True)
    assert found.files == len(os.listdir(folder)) == 5
    assert found.bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_what_the_trainer_itself_finds_whole_is_whole_here_and_the_other_way_round(root):
    path = root / "step-000040" / "rank1.pt"
    checkpoint = checkpoint_store.Checkpoint(step=40, path=root / "step-000040")
    checkpoint_store.check(checkpoint, 2)
    path.write_bytes(PARTS[1][:-1] + b"X")
    with pytest.raises(checkpoint_store.Damaged):
        checkpoint_store.check(checkpoint, 2)
    assert look(root).problem == "rank1.pt: its checksum is not the manifest's"


def change(root, **changes):
    path = root / "step-000040" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES = {
    "rank0.pt is missing": lambda root: (root / "step-000040" / "rank0.pt").unlink(),
    "rank1.pt has 7 bytes; the manifest says 1500": lambda root: os.truncate(root / "step-000040" / "rank1.pt", 7),
    "manifest.json is missing": lambda root: (root / "step-000040" / "manifest.json").unlink(),
    "manifest.json is damaged": lambda root: (root / "step-000040" / "manifest.json").write_bytes(b"\xff{"),
    "manifest.json: schema 'x', not 'nvrx-chaos-trainer/checkpoint/1'": lambda root: change(root, schema="x"),
    "manifest.json: does not fit the folder it lies in": lambda root: change(root, step=20),
    "manifest.json: does not name one part for each rank": lambda root: change(root, parts=[PART] * 2),
    "it is not there": lambda root: shutil.rmtree(root / "step-000040"),
    "`latest` is not there": lambda root: (root / "latest").unlink(),
    "`latest` holds '../x', which names no checkpoint": lambda root: (root / "latest").write_text("../x\n"),
    "`latest` names step-000060, which is not in place": lambda root: (root / "latest").write_text("step-000060"),
}
PART = {"file": "../../secret", "bytes": 1, "sha256": ""}


@pytest.mark.parametrize("problem", DAMAGES)
def test_every_damage_is_named(root, problem):
    DAMAGES[problem](root)
    assert look(root).problem == problem


def test_one_that_is_too_large_is_compared_by_size_only_and_says_so(root):
    (root / "step-000040" / "rank1.pt").write_bytes(b"x" * len(PARTS[1]))
    found = look(root, verified_bytes_max=100)
    assert (found.problem, found.verified) == ("", False)
    os.truncate(root / "step-000040" / "rank1.pt", 7)
    assert look(root, verified_bytes_max=100).problem.startswith("rank1.pt has 7 bytes")


@pytest.mark.parametrize("when", ["_sizes", "_manifest", "_sha256"])
def test_one_that_the_job_prunes_while_it_is_looked_at_is_no_damage(root, monkeypatch, when):
    save(root, 60)
    original = getattr(checkpoint_folder, when)

    def pruned_first(*arguments):
        list(checkpoint_store.prune(root, 1))
        return original(*arguments)

    monkeypatch.setattr(checkpoint_folder, when, pruned_first)
    assert look(root) is None


def test_latest_that_moves_on_while_its_target_is_looked_for_is_no_damage(root, monkeypatch):
    folder, original = CheckpointFolder(root, "c"), checkpoint_folder.Path.read_text

    def read_then_move_on(path, *arguments, **how):
        text = original(path, *arguments, **how)
        if path.name == "latest" and text.startswith("step-000040"):
            save(root, 60)
            list(checkpoint_store.prune(root, 1))
        return text

    monkeypatch.setattr(checkpoint_folder.Path, "read_text", read_then_move_on)
    assert folder._latest_problem() == ""


def test_all_that_are_in_place_are_listed_and_nothing_else(root):
    save(root, 20)
    checkpoint_store.write_part(checkpoint_store.pending_path(root, 60, "b"), 0, b"half")
    (root / "refused-step-000010.a").mkdir()
    assert CheckpointFolder(root, "c").steps() == [20, 40]


@pytest.mark.parametrize("make", [lambda root: None, lambda root: root.write_text("a file")])
def test_a_folder_that_cannot_be_read_is_an_error_and_not_a_missing_checkpoint(tmp_path, make):
    make(tmp_path / "gone")
    folder = CheckpointFolder(tmp_path / "gone", "c")
    with pytest.raises(OSError):
        folder.look(40)
    with pytest.raises(OSError):
        folder.steps()


def test_looking_changes_nothing(root):
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))}
    look(root)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))} == before


def test_the_layout_is_the_trainers():
    assert checkpoint_folder.SCHEMA == checkpoint_store.SCHEMA
