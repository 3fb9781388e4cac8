"""What a rank offers for the case that a wait runs out, and that the job does not feel it."""

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace

import pytest
from agent_build import enter_rank, events, run_rank

from chaos.agent import evidence as module
from chaos.agent.core import Agent
from chaos.agent.evidence import tell_collectives
from chaos.model.evidence import FOLDER, offered_signal


def offer_of(run_dir):
    """The stacks file of the one rank and the signal that its first line offers."""
    (path,) = (run_dir / FOLDER).glob("stacks-*.txt")
    life = events(run_dir, "rank_started")[0]["life"]
    return path, offered_signal(path.read_text().splitlines()[0], life)


def test_a_rank_dumps_its_stacks_on_the_signal_that_it_offers(run_dir):
    script = """
def hangs_here():
    with open(held) as file:
        number = int(file.readline().split()[-1])
    os.kill(os.getpid(), number)
held = f"{os.environ['NVRX_CHAOS_DIR']}/evidence/stacks-1-{os.getpid()}.txt"
hangs_here()
"""
    ran = run_rank(run_dir, script)
    assert ran.returncode == 0, ran.stderr
    path, number = offer_of(run_dir)
    assert number is not None and "in hangs_here" in path.read_text()
    assert path.name.startswith("stacks-1-")


def test_a_signal_that_the_job_has_a_use_for_is_not_taken(run_dir):
    """Nor is a handler undone that the job put in the place of ours: the second life here leaves it alone."""
    script = """
import signal
first = int(signal.SIGRTMIN) + 17
seen = []
signal.signal(first, lambda *_: seen.append("handler"))
signal.signal(first + 1, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {first + 2})
agent._agent = None
agent.entered(rank=1, initial_rank=1, local_rank=1, world_size=2, settings={}, reported_restart={})
os.kill(os.getpid(), first)
with open(f"{os.environ['NVRX_CHAOS_DIR']}/evidence/stacks-1-{os.getpid()}.txt") as file:
    numbers = [int(line.split()[-1]) - first for line in file if line.startswith("life")]
print(seen, numbers[-1])
"""
    ran = run_rank(run_dir, script)
    assert (ran.returncode, ran.stdout.strip()) == (0, "['handler'] 3"), ran.stderr


def test_a_forked_child_offers_nothing_and_holds_nothing_of_its_parent(run_dir):
    script = """
number = int(open(f"{os.environ['NVRX_CHAOS_DIR']}/evidence/stacks-1-{os.getpid()}.txt").readline().split()[-1])
child = os.fork()
if child == 0:
    held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{fd}")]
    os.write(1, json.dumps(sum("evidence" in each for each in held)).encode())
    os.kill(os.getpid(), number)
    os._exit(0)
_, status = os.waitpid(child, 0)
os.write(1, f" {os.WIFSIGNALED(status) and os.WTERMSIG(status) == number}".encode())
"""
    ran = run_rank(run_dir, script)
    assert ran.stdout == "0 True", ran.stderr  # the default of a real-time signal is to end the process
    path, _ = offer_of(run_dir)
    assert path.read_text().count("\n") == 1, "the child wrote into its parent's file"


def test_a_rank_whose_stacks_file_cannot_be_opened_trains_on_and_says_nothing(run_dir):
    (run_dir / FOLDER).write_text("in the way")
    ran = run_rank(run_dir, "agent.step_done(1, loss=1.0, lr=1.0, grad_norm=1.0, samples=(0, 1))")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert events(run_dir, "source_blind") == [] and len(events(run_dir, "step_done")) == 1


# --- collectives


class FakeTorch:
    """torch.distributed and its C module, as far as the flight recorder goes."""

    def __init__(self, monkeypatch, *, backend="nccl", entries=(), **names):
        dumps = names or {"_dump_fr_trace_json": lambda **asked: self.dump(**asked)}
        self.entries, self.asked = list(entries), []
        monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", SimpleNamespace(**dumps))
        distributed = SimpleNamespace(is_initialized=lambda: bool(backend), get_backend=lambda: backend)
        monkeypatch.setitem(sys.modules, "torch.distributed", distributed)

    def dump(self, *, includeCollectives, onlyActive):
        self.asked.append(onlyActive)
        return json.dumps({"entries": self.entries[:1] if onlyActive else self.entries}).encode()


def told(run_dir, agent):
    tell_collectives(agent)
    (path,) = (run_dir / FOLDER).glob("collectives-*")
    assert path.name == f"collectives-1-{agent.pid}.json"
    return json.loads(path.read_bytes())


def test_the_flight_recorder_is_written_down_as_torch_gives_it(rank, run_dir, monkeypatch):
    FakeTorch(monkeypatch, entries=[{"profiling_name": "nccl:all_reduce", "state": "started"}])
    assert told(run_dir, rank) == {"entries": [{"profiling_name": "nccl:all_reduce", "state": "started"}]}


def test_a_flight_recorder_that_is_too_long_gives_what_is_still_under_way(rank, run_dir, monkeypatch):
    torch = FakeTorch(monkeypatch, entries=[{"name": "x" * 50}] * 10)
    monkeypatch.setattr(module, "COLLECTIVES_BYTES_MAX", 200)
    assert len(told(run_dir, rank)["entries"]) == 1 and torch.asked == [False, True]
    monkeypatch.setattr(module, "COLLECTIVES_BYTES_MAX", 20)
    assert "longer than" in told(run_dir, rank)["none"]


def test_an_empty_one_names_the_backend_and_the_setting_that_fills_it(rank, run_dir, monkeypatch):
    FakeTorch(monkeypatch, backend="gloo")
    why = told(run_dir, rank)["none"]
    assert "backend gloo: this torch records NCCL only" in why and "TORCH_NCCL_TRACE_BUFFER_SIZE is 0" in why


def test_where_both_recorders_are_there_the_one_that_holds_something_is_told(rank, run_dir, monkeypatch):
    empty, full = ({"entries": entries} for entries in ([], [{"state": "started"}]))
    dumps = {"_dump_nccl_trace_json": empty, "_dump_fr_trace_json": full}
    FakeTorch(monkeypatch, **{name: lambda dump=dump, **asked: json.dumps(dump) for name, dump in dumps.items()})
    assert told(run_dir, rank) == full


def test_a_torch_without_such_a_dump_or_with_one_that_fails_is_no_error(rank, run_dir, monkeypatch):
    FakeTorch(monkeypatch, of_another_torch=None)
    assert told(run_dir, rank)["none"] == "this torch has no flight recorder"

    def fails(**asked):
        raise RuntimeError("no communicator")

    FakeTorch(monkeypatch, _dump_nccl_trace_json=fails)
    assert "no communicator" in told(run_dir, rank)["none"]


def test_a_job_that_has_not_loaded_torch_is_not_made_to(rank, run_dir, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._C._distributed_c10d", raising=False)
    before = set(sys.modules)
    assert told(run_dir, rank)["none"] == "torch.distributed is not loaded"
    assert {name for name in set(sys.modules) - before if name.startswith("torch")} == set()


@pytest.fixture
def connected(run_dir, injector, monkeypatch):
    """A rank that is connected to an injector of the test's own."""
    monkeypatch.setenv("NVRX_CHAOS_SOCKET", injector.path)
    agent = Agent.from_environment()
    enter_rank(agent)
    assert injector.greet()["say"] == "hello"
    return agent


def test_the_injector_asks_over_the_channel_and_the_answer_is_a_file(connected, run_dir, injector, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._C._distributed_c10d", raising=False)
    injector.say(say="evidence")
    injector.hang_up()  # read after the request, on the same thread
    answer = run_dir / FOLDER / f"collectives-1-{connected.pid}.json"
    for thread in threading.enumerate():
        if thread.name == "nvrx-chaos-channel":
            thread.join(20)
    assert json.loads(answer.read_bytes()) == {"none": "torch.distributed is not loaded"}
    assert events(run_dir, "source_blind") == []
