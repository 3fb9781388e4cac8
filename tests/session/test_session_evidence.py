"""What is kept of real processes that hang, each in its own way: bounded, and said where a part cannot be had."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.errors import Refused
from chaos.model.evidence import FOLDER, collectives_name, offer
from chaos.session import evidence as module
from chaos.session.evidence import Captured, Evidence, drop_offers
from chaos.session.sheets import Subject
from chaos.system.processes import PidfdKiller, ProcessTable

RUN = "run-7"
TABLE = ProcessTable()
KILLER = PidfdKiller(TABLE)
PY_SPY = Path(sys.executable).with_name("py-spy").exists() or shutil.which("py-spy")
ENTERS = """
import ctypes, os, socket, sys, time
import chaos.agent as agent
rank = int(sys.argv[1])
agent.entered(rank=rank, initial_rank=rank, local_rank=rank, world_size=2, settings={}, reported_restart={})
for step in range(30):
    agent.step_done(step, loss=1.0, lr=1.0, grad_norm=1.0, samples=(0, 1))
assert agent._agent.settled()
"""
WAITS = """
def waits_for_its_peer():
    print(flush=True)
    time.sleep(300)
waits_for_its_peer()
"""
HOLDS = """
def holds_the_interpreter():
    print(flush=True)
    c = ctypes.PyDLL(None)   # calls into it keep the interpreter's lock
    while True:
        c.sleep(300)         # a signal ends it early
holds_the_interpreter()
"""
CONNECTED = """
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
accepted, _ = listener.accept()
"""


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "history").mkdir()
    return tmp_path


@pytest.fixture
def start(run_dir):
    """Starts a rank of this run that does what it is told, and comes back when it hangs."""
    started = []

    def start(code, rank=1, *, agent=True):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NVRX_CHAOS_")}
        environment |= {"NVRX_CHAOS_DIR": str(run_dir), "NVRX_CHAOS_RUN": RUN}
        script = (ENTERS if agent else "import sys, time, ctypes, socket") + "\n" + code
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(rank)], env=environment, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "\n"
        return Subject(who=str(rank), life=TABLE.life(process.pid), rank=rank)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def capture(run_dir, *subjects, ask=lambda life: False, send=None, within_s=5.0) -> Captured:
    real = send or (lambda life, number: KILLER.send(life, number, mark=RUN))
    return Evidence(run_dir, subjects, send=real, ask=ask, within_s=within_s).capture()


def text_of(run_dir: Path, subject: Subject, what: str) -> str:
    return (run_dir / FOLDER / subject.name(what)).read_text()


@pytest.mark.parametrize(("code", "function"), [(WAITS, "waits_for_its_peer"), (HOLDS, "holds_the_interpreter")])
def test_a_rank_that_hangs_in_c_code_tells_its_stacks_itself_and_the_line_is_cited(run_dir, start, code, function):
    rank = start(code)
    found = capture(run_dir, rank)
    (stand,) = found.stands
    assert stand["rank"] == 1 and stand["text"].startswith(function)
    file, line = str(stand["ref"]).split(":")
    assert f"in {function}" in (run_dir / file).read_text().splitlines()[int(line) - 1]
    assert found.failed == () and set(found.files) == {
        f"{FOLDER}/{rank.name(what)}" for what in ("stacks", "sockets", "state")
    }
    assert TABLE.is_alive(rank.life), "looking must end nothing"


@pytest.mark.skipif(not PY_SPY, reason="py-spy is not there")
def test_a_stopped_rank_is_looked_at_from_outside_and_is_still_stopped(run_dir, start):
    rank = start(WAITS)
    os.kill(rank.life.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, rank.life.pid, os.WSTOPPED | os.WNOWAIT)
    (stand,) = capture(run_dir, rank).stands
    text = text_of(run_dir, rank, "stacks")
    assert "it is stopped, and a stopped process answers no signal" in text
    assert str(stand["text"]).startswith("waits_for_its_peer")
    assert TABLE.is_stopped(rank.life)
    assert "T" in text_of(run_dir, rank, "state").splitlines()[0]


def test_a_process_without_an_agent_gets_no_signal_at_all(run_dir, start):
    rank = start(WAITS, agent=False)
    sent = []
    capture(run_dir, rank, send=lambda life, number: sent.append(number))
    assert sent == []
    assert "it offers no signal for its stacks" in text_of(run_dir, rank, "stacks")


def test_an_offer_of_an_earlier_process_of_the_same_pid_is_not_believed(run_dir, start):
    rank = start(WAITS, agent=False)
    (run_dir / FOLDER).mkdir(exist_ok=True)
    (run_dir / FOLDER / rank.name("stacks")).write_text(offer("another-life", 51))
    sent = []
    capture(run_dir, rank, send=lambda life, number: sent.append(number))
    assert sent == []


def test_a_signal_that_is_not_caught_any_more_is_not_sent_for_it_would_end_the_process(run_dir, start):
    rank = start("import signal, faulthandler\nfor n in range(40, 64): faulthandler.unregister(n)\n" + WAITS)
    sent = []
    capture(run_dir, rank, send=lambda life, number: sent.append(number))
    assert sent == [] and "any more" in text_of(run_dir, rank, "stacks")


def test_a_process_that_cannot_be_proven_ours_is_not_signalled_and_the_file_says_so(run_dir, start):
    def refuse(life, number):
        raise Refused("nothing proves that it belongs to this run")

    rank = start(WAITS)
    capture(run_dir, rank, send=refuse)
    assert "no stacks of its own: nothing proves" in text_of(run_dir, rank, "stacks")


def test_a_rank_that_does_not_answer_in_time_is_said_to(run_dir, start, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    rank = start(WAITS)
    capture(run_dir, rank, send=lambda life, number: None, ask=lambda life: True)
    assert "it did not answer within 0.1 s" in text_of(run_dir, rank, "stacks")
    assert "it did not answer within 0.1 s" in text_of(run_dir, rank, "state")


def test_the_state_has_threads_with_what_they_wait_in_and_the_last_events_with_their_lines(run_dir, start):
    rank = start(WAITS)
    capture(run_dir, rank)
    lines = text_of(run_dir, rank, "state").splitlines()
    assert [line for line in lines if line.split()[:1] == [str(rank.life.pid)]], "the main thread's row"
    shown = [line for line in lines if line.startswith("rank-")]
    history = next((run_dir / "history").glob("rank-*")).read_text().splitlines()
    name = "-".join(rank.life.id.split("-")[-2:])
    assert len(shown) == 20 and shown[-1] == f"rank-{name}.jsonl:{len(history)} {history[-1]}"
    assert json.loads(shown[-1].split(" ", 1)[1])["kind"] == "phase_entered"


def test_a_sockets_table_says_who_holds_the_other_end(run_dir, start):
    rank = start(CONNECTED + WAITS)
    capture(run_dir, rank)
    rows = [line.split() for line in text_of(run_dir, rank, "sockets").splitlines()[2:]]
    assert sorted(row[-3] for row in rows) == ["ESTABLISHED", "ESTABLISHED", "LISTEN"]
    assert sum(" ".join(row[3:5]) == "rank 1" for row in rows) == 2


def test_the_flight_recorder_is_named_or_why_there_is_none(run_dir, start):
    rank = start(WAITS)

    def answer(life):
        (run_dir / FOLDER / collectives_name("1", rank.life.pid_inside)).write_text('{"none": "gloo has none"}')
        return True

    found = capture(run_dir, rank, ask=answer)
    assert "Flight recorder of its collectives: none: gloo has none" in text_of(run_dir, rank, "state")
    assert f"{FOLDER}/{collectives_name('1', rank.life.pid_inside)}" in found.files


def test_all_of_it_ends_in_its_time_however_long_py_spy_takes(run_dir, start, monkeypatch):
    given = []

    def slow(pid, within_s):
        given.append(within_s)
        time.sleep(within_s)
        return "no stacks\n"

    monkeypatch.setattr(module, "dump_stacks", slow)
    ranks = [start(WAITS, rank) for rank in range(3)]
    began_s = time.monotonic()
    capture(run_dir, *ranks, within_s=0.6)
    assert time.monotonic() - began_s < 3.0 and sum(given) <= 0.6
    assert "the time for all evidence was used up" in text_of(run_dir, ranks[2], "stacks")


def test_a_process_that_is_gone_leaves_files_that_say_so(run_dir, start):
    rank = start(WAITS)
    os.kill(rank.life.pid, signal.SIGKILL)
    os.waitid(os.P_PID, rank.life.pid, os.WEXITED | os.WNOWAIT)
    found = capture(run_dir, rank)
    assert found.failed == () and found.stands == ()
    assert "no stacks of its own" in text_of(run_dir, rank, "stacks")


def test_a_folder_that_cannot_be_made_or_written_is_told_and_is_no_error(run_dir, start):
    rank = start(WAITS, agent=False)
    (run_dir / FOLDER).write_text("in the way")
    assert capture(run_dir, rank) == Captured(failed=(f"{FOLDER}: File exists",))
    (run_dir / FOLDER).unlink()
    (run_dir / FOLDER / rank.name("sockets")).mkdir(parents=True)
    found = capture(run_dir, rank)
    assert found.failed == (f"{rank.name('sockets')}: Is a directory",) and len(found.files) == 2


def test_a_file_is_never_longer_than_its_bound(run_dir, start, monkeypatch):
    monkeypatch.setattr(module, "EVIDENCE_FILE_BYTES_MAX", 500)
    rank = start(WAITS)
    capture(run_dir, rank)
    assert {(run_dir / FOLDER / rank.name(what)).stat().st_size <= 500 for what in ("stacks", "state")} == {True}


def test_offers_that_were_never_taken_up_are_gone_after_the_run_and_evidence_stays(run_dir, start):
    asked, unasked = start(WAITS, 0), start(WAITS, 1)
    capture(run_dir, asked)
    drop_offers(run_dir)
    left = {path.name for path in (run_dir / FOLDER).iterdir()}
    assert asked.name("stacks") in left and unasked.name("stacks") not in left


def test_a_run_in_which_nothing_was_kept_has_no_folder_for_it(run_dir, start):
    start(WAITS)
    assert (run_dir / FOLDER).is_dir()
    drop_offers(run_dir)
    assert not (run_dir / FOLDER).exists()
    drop_offers(run_dir)
