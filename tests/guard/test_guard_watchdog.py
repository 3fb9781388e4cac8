from __future__ import annotations

import threading

import msgspec
import pytest
from system_jobs import BOOT, FakeTable, fake_life, life_record

from chaos.clock import FakeClock
from chaos.guard.custody import Custody
from chaos.guard.ledger import LedgerWriter, read_ledger
from chaos.guard.silence import Silence
from chaos.guard.watchdog import Watchdog
from chaos.guard.wire import Lines, encode
from chaos.model.undo import Undo, Undone
from chaos.system.undo import Undoer

DONE = Undone(how="done", measured=True)
HANG = Undo(verb="resume_process", args={"life": life_record(fake_life(9))})
JOB = Undo(verb="stop_job", args={"mark": "m", "keep": False})


class FakeUndoer(Undoer):
    """Remembers what it was asked; `results` are given out one by one, then DONE."""

    def __init__(self) -> None:
        super().__init__(table=FakeTable(), clock=FakeClock())
        self.asked, self.results = [], []

    def carry_out(self, undo, *, opened_ticks=0, silent_since_ns=None):
        self.asked.append(undo.verb)
        return self.results.pop(0) if self.results else DONE


class Bench:
    def __init__(self, path) -> None:
        self.path, self.clock, self.undoer, self.said = path, FakeClock(), FakeUndoer(), []
        ledger = LedgerWriter(path, boot_id=BOOT, clock=self.clock)
        self.custody = Custody(ledger=ledger, undoer=self.undoer, clock=self.clock, boot_id=BOOT)
        self.watchdog = Watchdog(self.custody, self.said.append, self.clock)
        self.close = ledger.close
        self.number = 0

    def hear(self, ask, **fields):
        """The answer to one message."""
        self.number += 1
        self.watchdog.hear({"id": self.number, "ask": ask, **fields})
        self.settle()
        return next(message for message in self.said if message.get("id") == self.number)

    def open(self, undo, **fields) -> str:
        return self.hear("open", undo=msgspec.to_builtins(undo), **fields)["entry"]["id"]

    def passes(self, seconds: float, *, beats: bool = False) -> None:
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)
            if beats:
                self.watchdog.hear({"id": 0, "ask": "beat"})
            self.watchdog.look()
        self.settle()

    def settle(self) -> None:
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join(5)

    def notices(self) -> list[str]:
        return [message["notice"] for message in self.said if "notice" in message]


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path / "ledger.jsonl")
    yield bench
    bench.close()


def test_the_answer_on_disk_comes_after_the_line_is_there(bench):
    seen = []
    bench.watchdog._send = lambda message: seen.append(read_ledger(bench.path).open_entries[0].id)
    bench.watchdog.hear({"id": 1, "ask": "open", "undo": msgspec.to_builtins(HANG)})
    assert seen == ["e1"]


def test_a_held_fault_is_undone_when_its_limit_passes_and_not_before(bench):
    bench.open(HANG, fault="hang", limit_s=8.0)
    bench.passes(7.9, beats=True)
    assert bench.undoer.asked == []
    bench.passes(0.2, beats=True)
    assert bench.undoer.asked == ["resume_process"]
    assert bench.notices() == ["time_limit"]
    assert not bench.custody.open_entries()


def test_one_that_could_not_be_undone_at_its_limit_is_tried_again(bench):
    bench.open(HANG, limit_s=1.0)
    bench.undoer.results = [Undone(how="failed", measured=False)]
    bench.passes(1.5, beats=True)
    assert len(bench.custody.open_entries()) == 1
    bench.passes(3, beats=True)
    assert bench.undoer.asked == ["resume_process"] * 2
    assert not bench.custody.open_entries()


def test_five_missed_beats_undo_everything_once_held_faults_first(bench):
    bench.open(JOB)
    bench.open(HANG)
    bench.hear("beat")
    bench.passes(4.8)
    assert bench.undoer.asked == []
    bench.passes(0.5)
    assert bench.undoer.asked == ["resume_process", "stop_job"]
    bench.passes(20)
    assert bench.notices() == ["controller_hung"]


def test_after_a_hang_everything_is_undone_again_and_no_entry_is_opened(bench):
    bench.open(HANG)
    bench.passes(6)
    bench.hear("beat")
    assert bench.undoer.asked == ["resume_process"] * 2
    answer = bench.hear("open", undo=msgspec.to_builtins(HANG))
    assert (answer["error"], answer["remedy"]) == ("Refused", "start the run anew on a machine that is less loaded")
    for _ in range(10):
        bench.hear("beat")
    assert len(bench.undoer.asked) == 4


def test_beats_keep_everything_as_it_is(bench):
    bench.open(JOB)
    bench.passes(60, beats=True)
    assert bench.undoer.asked == bench.notices() == []


def test_what_fails_at_the_controllers_end_is_tried_again_and_then_left_to_heal(bench):
    bench.open(JOB)
    bench.undoer.results = [Undone(how="failed", measured=False)] * 2
    assert bench.watchdog.controller_ended() is True
    assert bench.undoer.asked == ["stop_job"] * 3
    bench.open(JOB)
    bench.undoer.results = [Undone(how="failed", measured=False)] * 99
    assert bench.watchdog.controller_ended() is False
    assert len(read_ledger(bench.path).open_entries) == 1


def test_an_undo_that_was_not_measured_closes_nothing(bench):
    entry = bench.open(HANG)
    bench.undoer.results = [Undone(how="done", measured=False)]
    assert bench.hear("undo", entry=entry)["open"] == [entry]


def test_nonsense_is_answered_with_an_error_and_kills_nobody(bench):
    assert bench.hear("dance")["error"] == "Broken"
    assert bench.hear("open")["error"] == "Broken"
    assert bench.hear("undo", entry="e9")["error"] == "Broken"
    assert bench.hear("open", undo={"verb": "explode", "args": {}})["error"] == "Broken"
    assert bench.open(HANG) == "e1"


def test_it_ends_when_asked_only_if_nothing_is_open(bench):
    entry = bench.open(HANG)
    assert bench.hear("finish")["clean"] is False
    bench.hear("undo", entry=entry)
    assert bench.watchdog.finished is False
    assert bench.hear("finish")["clean"] is True


def test_time_in_which_the_watchdog_itself_did_not_run_proves_no_hang():
    silence = Silence()
    silence.is_hung(0)
    assert not silence.is_hung(int(3600e9)), "one look after a long sleep"
    assert not silence.is_hung(int(3603.5e9))
    silence = Silence()
    assert [silence.is_hung(int(second * 1e9)) for second in range(6)] == [False] * 5 + [True]
    silence.heard()
    assert not silence.is_hung(int(6e9))


def test_messages_are_put_together_again_wherever_the_pipe_cuts_them():
    messages = [{"id": 1, "ask": "beat"}, {"id": 2, "text": "line\nbreak"}]
    data = b"".join(map(encode, messages))
    for cut in range(len(data)):
        lines = Lines()
        assert lines.feed(data[:cut]) + lines.feed(data[cut:]) == messages
    assert Lines().feed(b"nonsense\n" + data) == messages
