"""Each checkpoint that the job committed is looked at, and in the end all that are left; a blind look is said."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest
from observer_build import FakeWriter

from chaos.observer import checkpoint_source
from chaos.observer.checkpoint_source import CheckpointSource


class Folder:
    """A checkpoint folder made by hand (`CheckpointReader`)."""

    def __init__(self, *there):
        self.there, self.looks, self.error, self.held = list(there), [], None, None
        self.priorities = set()

    def steps(self):
        if self.error is not None:
            raise self.error
        return self.there

    def look(self, step):
        if self.held is not None:
            self.held.wait(10)
        if self.error is not None:
            raise self.error
        self.looks.append((step, threading.current_thread()))
        self.priorities.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        if step not in self.there:
            return None
        return SimpleNamespace(step=step, path=f"c/{step}", files=5, bytes=99, problem="bad", verified=False)


@pytest.fixture
def writer():
    return FakeWriter()


def run(folder, writer, *committed):
    source = CheckpointSource(folder, writer)
    for step in committed:
        source.committed(step)
    source.finish()
    return source


def test_a_committed_checkpoint_is_looked_at_and_told_with_all_that_was_seen(writer):
    run(Folder(20), writer, 20)
    seen = writer.of("checkpoint_seen")[0]
    fields = {name: seen[name] for name in ("step", "path", "files", "bytes", "problem", "verified", "life")}
    assert fields == {
        "step": 20, "path": "c/20", "files": 5, "bytes": 99, "problem": "bad", "verified": False, "life": None,
    }  # fmt: skip


def test_all_that_are_left_are_looked_at_once_more_in_the_end(writer):
    run(Folder(20, 40), writer, 20)
    assert [seen["step"] for seen in writer.of("checkpoint_seen")] == [20, 20, 40]


def test_one_that_the_job_took_away_meanwhile_is_not_told(writer):
    run(Folder(), writer, 20)
    assert writer.events == []


def test_it_is_looked_at_on_a_thread_of_the_lowest_priority_and_never_on_the_one_that_says_it(writer):
    folder, before = Folder(20), os.getpriority(os.PRIO_PROCESS, 0)
    run(folder, writer, 20)
    assert folder.priorities == {checkpoint_source.LOWEST_PRIORITY} and os.getpriority(os.PRIO_PROCESS, 0) == before
    assert threading.current_thread() not in {thread for _, thread in folder.looks} and folder.looks


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "c"), RuntimeError("broken")])
def test_a_folder_that_cannot_be_read_is_a_blind_source_said_once(writer, error):
    folder = Folder(20)
    folder.error = error
    run(folder, writer, 20, 40)
    (blind,) = writer.of("source_blind")
    assert blind["source"] == "checkpoint_folder" and str(error.args[-1]) in blind["reason"]


def test_a_folder_that_can_be_read_again_is_looked_at_again(writer):
    folder = Folder(20)
    folder.error, folder.held = PermissionError(13, "Permission denied", "c"), threading.Event()
    source = CheckpointSource(folder, writer)
    source.committed(20)
    folder.held.set()
    while not writer.of("source_blind"):
        folder.held.wait(0.001)
    folder.error = None
    source.finish()
    assert [seen["step"] for seen in writer.of("checkpoint_seen")] == [20]


def test_a_job_that_never_made_the_folder_leaves_nothing_to_be_blind_for(writer):
    folder = Folder()
    folder.error = FileNotFoundError(2, "No such file or directory", "c")
    run(folder, writer)
    assert writer.events == []


def test_a_folder_that_went_away_after_a_commit_is_blind(writer):
    folder = Folder()
    folder.error = FileNotFoundError(2, "No such file or directory", "c")
    run(folder, writer, 20)
    assert writer.kinds() == ["source_blind"]


def test_a_folder_that_hangs_is_blind_and_holds_nobody_up_for_long(writer, monkeypatch):
    monkeypatch.setattr(checkpoint_source, "LAST_LOOK_S", 0.01)
    folder = Folder(20)
    folder.held = threading.Event()
    source = run(folder, writer, 20)
    assert writer.kinds() == ["source_blind"] and "within" in writer.events[0][1]["reason"]
    folder.held.set()
    source._thread.join(10)
