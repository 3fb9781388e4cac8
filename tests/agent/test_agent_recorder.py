"""Notes of the job's threads become lines: in order, soon, before what must wait for them, and at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from agent_build import PRELUDE, lines_now, run_rank

from chaos.agent.recorder import BATCH, Recorder
from chaos.history.writer import Writer
from chaos.model.events import HEADER

BOUND_S = 5.0  # for a busy machine; the promise is FLUSH_S


class Folder:
    """A history with one recorder, and the reasons for which it ended."""

    def __init__(self, root):
        self.root = root
        self.writer = Writer(str(root / "history"), "rank")
        self.ended = []
        self.recorder = Recorder(self.writer, self.ended.append)

    def lines(self):
        return lines_now(self.root)

    def fill_disk(self):
        with open("/dev/full", "wb") as full:
            os.dup2(full.fileno(), self.writer._fd)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "history").mkdir()
    folder = Folder(tmp_path)
    yield folder
    folder.recorder.close()
    folder.writer.close()


@pytest.fixture
def held(folder, monkeypatch):
    """The recorder's thread stands in front of the file until the event is set."""
    goes_on, stands, put = threading.Event(), threading.Event(), Writer.put

    def hold(self, lines):
        stands.set()
        goes_on.wait(20)
        put(self, lines)

    monkeypatch.setattr(Writer, "put", hold)
    folder.recorder.note("abort_began")
    assert stands.wait(20)
    yield goes_on
    goes_on.set()


def within(bound_s, claim):
    """Looks until the claim holds; how long it took."""
    began = time.monotonic()
    while not claim():
        assert time.monotonic() - began < bound_s
        time.sleep(0.001)
    return time.monotonic() - began


def test_what_is_noted_is_in_the_file_soon_without_being_asked(folder):
    for step in range(50):
        folder.recorder.note_phase("forward", step)
    within(BOUND_S, lambda: len(folder.lines()) == 50)
    assert [line["step"] for line in folder.lines()] == list(range(50))


def test_an_event_outside_the_steps_does_not_wait_for_the_turn_of_the_others(folder, monkeypatch):
    monkeypatch.setattr("chaos.agent.recorder.FLUSH_S", 60.0)
    assert folder.recorder.settle()  # the pause that begins now is a long one
    folder.recorder.note_phase("checkpoint_commit", 3)
    folder.recorder.note("checkpoint_committed", {"step": 3})
    within(BOUND_S, lambda: [line["kind"] for line in folder.lines()] == ["phase_entered", "checkpoint_committed"])


def test_every_note_becomes_its_line_with_the_time_it_was_taken_at(folder):
    before = time.monotonic_ns()
    folder.recorder.note_phase('a "phase"\n\u00e9', None)
    folder.recorder.note_step_returned(7)
    folder.recorder.note_step_returned(None)
    folder.recorder.note_step_done(7, 0.1, 1e-3, float("inf"), (16, 32))
    folder.recorder.note("abort_done", {"sockets": 2})
    folder.recorder.note("abort_began")
    after, wall_s = time.monotonic_ns(), time.time()
    assert folder.recorder.settle()
    lines = folder.lines()
    assert [{key: line[key] for key in line if key not in HEADER[:7]} for line in lines] == [
        {"kind": "phase_entered", "phase": 'a "phase"\n\u00e9', "step": None},
        {"kind": "step_returned", "step": 7},
        {"kind": "step_returned", "step": None},
        {
            "kind": "step_done", "step": 7, "loss": (0.1).hex(), "lr": (1e-3).hex(), "grad_norm": "inf",
            "samples": [16, 32],
        },
        {"kind": "abort_done", "sockets": 2},
        {"kind": "abort_began"},
    ]  # fmt: skip
    assert all(tuple(line)[: len(HEADER)] == HEADER for line in lines)
    times = [line["t_ns"] for line in lines]
    assert before <= times[0] and times == sorted(times) and times[-1] <= after
    assert all(abs(line["wall_s"] - wall_s) < BOUND_S for line in lines)


def test_values_are_taken_when_they_are_noted(folder, held):
    fields = {"shards": {"a": 1}}
    folder.recorder.note("digest_taken", fields)
    fields["shards"]["a"] = 2
    held.set()
    assert folder.recorder.settle() and folder.lines()[-1]["shards"] == {"a": 1}


def test_another_header_is_that_of_later_notes_only(folder, held):
    folder.recorder.identify(reentry=0, group="g", rank=1, initial_rank=1)
    folder.recorder.note_phase("init", None)
    folder.recorder.identify(reentry=1, group=None, rank=0, initial_rank=1)
    folder.recorder.note_phase("init", None)
    held.set()
    assert folder.recorder.settle()
    assert [(line["reentry"], line["group"], line["rank"]) for line in folder.lines()] == [
        (None, None, None), (0, "g", 1), (1, None, 0),
    ]  # fmt: skip


def test_settled_is_said_only_when_the_lines_are_in_the_file(folder):
    for step in range(200):
        folder.recorder.note_phase("forward", step)
        assert folder.recorder.settle() and folder.lines()[-1]["step"] == step


def test_settled_is_not_said_while_the_file_has_not_taken_the_lines(folder, held, monkeypatch):
    monkeypatch.setattr("chaos.agent.recorder.SETTLE_S", 0.05)
    assert folder.recorder.settle() is False
    held.set()
    monkeypatch.setattr("chaos.agent.recorder.SETTLE_S", 20.0)
    assert folder.recorder.settle() is True and folder.ended == []


@pytest.mark.parametrize("breaks", [Folder.fill_disk, lambda folder: folder.writer.close()], ids=["full", "closed"])
def test_nothing_is_settled_on_a_disk_that_fails_and_that_is_said_once(folder, breaks):
    assert folder.recorder.settle()
    breaks(folder)
    folder.recorder.note_phase("forward", 1)
    assert folder.recorder.settle() is False
    folder.recorder.note_phase("forward", 2)
    assert folder.recorder.settle() is False
    assert len(folder.ended) == 1 and folder.lines() == []


def test_who_waits_when_the_disk_fails_is_answered_after_the_end_was_told(folder, held):
    """So the agent is quiet before the training thread goes on."""
    seen = []
    waiting = threading.Thread(target=lambda: seen.append((folder.recorder.settle(), list(folder.ended))))
    waiting.start()
    within(BOUND_S, lambda: folder.recorder._notes)
    folder.fill_disk()
    held.set()
    waiting.join(20)
    ((settled, ended),) = seen
    assert settled is False and len(ended) == 1 and "No space left" in ended[0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda recorder: recorder.note("digest_taken", {(1, 2): "keys of a JSON object are texts"}),
        lambda recorder: recorder.note_phase("forward", "three"),
        lambda recorder: recorder.note_step_done(1, "nothing", 1.0, 1.0, (0, 1)),
    ],
    ids=["fields", "step", "loss"],
)
def test_what_cannot_be_noted_ends_the_recorder_after_what_came_before_it(folder, spoil):
    folder.recorder.note_phase("forward", 1)
    spoil(folder.recorder)
    folder.recorder.note_phase("forward", 2)
    assert folder.recorder.settle() is False
    assert [line["step"] for line in folder.lines()] == [1] and len(folder.ended) == 1


def test_notes_of_two_threads_keep_the_order_of_each(folder):
    def channel():
        for number in range(2000):
            folder.recorder.note("source_blind", {"number": number})

    other = threading.Thread(target=channel)
    other.start()
    for step in range(2000):
        folder.recorder.note_phase("forward", step)
    other.join()
    assert folder.recorder.settle()
    lines = folder.lines()
    assert [line["step"] for line in lines if line["kind"] == "phase_entered"] == list(range(2000))
    assert [line["number"] for line in lines if line["kind"] == "source_blind"] == list(range(2000))


def test_what_one_thread_notes_after_another_has_noted_comes_after_it(folder, held):
    for number in range(10):
        thread = threading.Thread(target=folder.recorder.note, args=("source_blind", {"number": number}))
        thread.start()
        thread.join()
        folder.recorder.note_phase("forward", number)
    held.set()
    assert folder.recorder.settle()
    assert [line.get("number", line.get("step")) for line in folder.lines()[1:]] == [n // 2 for n in range(20)]


def test_a_backlog_goes_out_in_writes_of_limited_size_and_the_end_waits_for_all_of_it(folder, held, monkeypatch):
    for step in range(3 * BATCH):
        folder.recorder.note_phase("forward", step)
    sizes, put = [], Writer.put
    monkeypatch.setattr(Writer, "put", lambda self, lines: (sizes.append(lines.count("\n")), put(self, lines)))
    monkeypatch.setattr("chaos.agent.recorder.CLOSE_S", 20.0)
    held.set()
    folder.recorder.close()
    assert [line["step"] for line in folder.lines()[1:]] == list(range(3 * BATCH))
    assert max(sizes) <= BATCH and not folder.recorder._thread.is_alive()


def test_the_end_of_the_process_does_not_wait_for_a_disk_that_takes_nothing(folder, held, monkeypatch):
    monkeypatch.setattr("chaos.agent.recorder.CLOSE_S", 0.05)
    folder.recorder.close()
    assert folder.recorder._thread.is_alive()


ENDS = {"normally": "", "by exit": "sys.exit(3)", "by an exception": "raise ValueError('the job fails')"}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_process_that_ends_by_itself_has_written_all_it_noted(tmp_path, end):
    (tmp_path / "history").mkdir()
    script = "for step in range(1, 5000): agent.enter('forward', step)\nagent.emit('abort_began')\n"
    ran = run_rank(tmp_path, script + end)
    assert ran.stderr == "" or "the job fails" in ran.stderr
    steps = [line["step"] for line in lines_now(tmp_path) if line.get("phase") == "forward"]
    assert steps == list(range(1, 5000)) and lines_now(tmp_path)[-1]["kind"] == "abort_began"


def test_a_rank_that_says_it_has_finished_has_written_it_before_it_goes_on(tmp_path):
    (tmp_path / "history").mkdir()
    assert run_rank(tmp_path, "agent.enter('forward', 3)\nagent.finished(3)\nos._exit(5)").returncode == 5
    assert [line["kind"] for line in lines_now(tmp_path)][-2:] == ["phase_entered", "rank_finished"]


def test_a_sigkill_from_outside_takes_no_more_than_the_last_notes_and_no_half_line(tmp_path):
    (tmp_path / "history").mkdir()
    script = """
for step in range(1, 10**9):
    agent.enter("forward", step)
    time.sleep(0.001)
    print(step, flush=True)
"""
    environment = os.environ | {"NVRX_CHAOS_DIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", PRELUDE + script], env=environment, stdout=subprocess.PIPE) as rank:
        while int(rank.stdout.readline()) < 100:
            pass
        # What has been noted by now is in the file soon, whatever comes then.
        within(BOUND_S, lambda: b'"step":100}' in next((tmp_path / "history").iterdir()).read_bytes())
        rank.kill()
    raw = next((tmp_path / "history").iterdir()).read_bytes()
    steps = [json.loads(line)["step"] for line in raw.splitlines()[3:]]
    assert raw.endswith(b"\n") and steps == list(range(1, len(steps) + 1)) and len(steps) >= 100


def test_a_hundred_exceptions_into_the_wait_itself_leave_the_recorder_at_work(tmp_path):
    (tmp_path / "history").mkdir()
    ran = run_rank(tmp_path, WAITING)
    assert ran.returncode == 0, ran.stderr
    steps = [line["step"] for line in lines_now(tmp_path) if line.get("phase") == "forward"]
    assert ran.stdout.split() == ["100", "True"] and steps == sorted(set(steps)) and steps[-1] == 10**9


WAITING = """
import ctypes

class Restart(BaseException):
    pass

training, arrived = threading.get_ident(), [0]

def bombard():
    for number in range(1, 101):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(training), ctypes.py_object(Restart))
        while arrived[0] < number:
            time.sleep(0.00005)

sys.setswitchinterval(1e-5)
attacker = threading.Thread(target=bombard)
step = 0
while arrived[0] < 100:
    try:
        if not attacker.ident:
            attacker.start()
        while arrived[0] < 100:
            step += 1
            agent.enter("forward", step)
            assert rank.settled()
    except Restart:
        arrived[0] += 1
agent.enter("forward", 10**9)
print(arrived[0], rank.settled())
"""
