"""What a rank lives through: forks, exceptions at any bytecode, disks that fill up. The job must not feel the agent."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from agent_build import events, kinds_of, lines_of, order, run_rank

ALLOWED = {
    "chaos", "chaos.agent", "chaos.agent.channel", "chaos.agent.core", "chaos.agent.evidence", "chaos.agent.nvrx_log",
    "chaos.agent.obey", "chaos.agent.recorder", "chaos.agent.verbs", "chaos.agent.verbs.fired",
    "chaos.agent.verbs.notify",
    "chaos.agent.verbs.raise_error", "chaos.agent.verbs.signal_self", "chaos.agent.voice", "chaos.history",
    "chaos.history.writer", "chaos.model", "chaos.model.events", "chaos.model.evidence", "chaos.model.nvrx_messages",
    "chaos.model.orders", "chaos.triggers",
}  # fmt: skip


def test_importing_the_agent_loads_the_standard_library_and_a_few_files_of_ours():
    script = "import sys; before = set(sys.modules); import chaos.agent; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(ran.stdout.split())
    ours = {name for name in loaded if name.split(".")[0] == "chaos"}
    others = {name.split(".")[0] for name in loaded - ours} - sys.stdlib_module_names
    assert ours == ALLOWED and others == set()


FORKED = """
rank.orders.take(order("signal_self", signal="KILL"))
child = os.fork()
if child == 0:
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    held = [os.readlink(link) for link in links if os.path.islink(link)]
    agent.enter("forward", 3)   # the order was the parent's
    agent.step_done(3, loss=1.0, lr=1.0, grad_norm=1.0, samples=(0, 1))
    agent.emit("checkpoint_began", step=3, path="x")
    agent.finished(3)
    tasks = len(os.listdir("/proc/self/task")), threading.active_count()
    seen = [fd for fd in held if "history" in fd or "socket" in fd], tasks, rank.settled()
    open(os.environ["SEEN"], "w").write(json.dumps(seen))
    END
_, status = os.waitpid(child, 0)
agent.emit("checkpoint_pruned", step=status, path="the parent goes on")
"""


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_a_forked_child_is_silent_without_our_thread_our_file_or_our_channel(run_dir, injector, end):
    seen = run_dir / "seen.json"
    ran = run_rank(run_dir, FORKED.replace("END", end), NVRX_CHAOS_SOCKET=injector.path, SEEN=str(seen))
    assert ran.returncode == 0, ran.stderr
    assert json.loads(seen.read_text()) == [[], [1, 1], False]
    assert kinds_of(run_dir) == ["rank_started", "settings_seen", "phase_entered", "checkpoint_pruned"]
    assert lines_of(run_dir)[-1]["step"] == 0
    assert injector.greet()["say"] == "hello" and injector.hear() is None  # the child said no goodbye


def test_a_forked_child_that_trains_is_a_life_of_its_own(run_dir):
    script = """
child = os.fork()
if child == 0:
    agent.entered(rank=0, initial_rank=0, local_rank=0, world_size=2, settings={}, reported_restart={})
    sys.exit(0)
os.waitpid(child, 0)
"""
    assert run_rank(run_dir, script).returncode == 0
    started = events(run_dir, "rank_started")
    assert len({line["life"] for line in started}) == 2 and {line["reentry"] for line in started} == {0}


INTERRUPTED = """
import ctypes

class Restart(BaseException):
    pass

arrived, sent, stop = [0], 300, threading.Event()
inside = [False]  # the training thread is where it catches the exception
training = threading.get_ident()

def bombard():
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    for number in range(1, sent + 1):
        while not inside[0]:
            time.sleep(0.00005)
        raise_in(ctypes.c_ulong(training), ctypes.py_object(Restart))
        while arrived[0] < number:     # the next one only when this one has arrived
            time.sleep(0.00005)
    stop.set()

sys.setswitchinterval(1e-5)  # so that exceptions fall anywhere, not only where the training thread waits
attacker = threading.Thread(target=bombard)
step = 0
started = False
while not stop.is_set():
    try:
        if not started:
            started = True
            attacker.start()
        while not stop.is_set():
            inside[0] = True
            step += 1
            agent.enter("forward", step)
            agent.enter("backward", step)
            agent.step_done(step, loss=1.0 / step, lr=0.1, grad_norm=1.0, samples=(step, step + 1))
            if step % 20 == 0:
                assert rank.settled()
    except Restart:
        inside[0] = False
        arrived[0] += 1
assert agent._agent.recorder is not None, "the agent went quiet"
print(arrived[0], step)
"""


def test_exceptions_at_any_bytecode_arrive_and_cost_at_most_the_event_in_hand(run_dir):
    ran = run_rank(run_dir, INTERRUPTED)
    assert ran.returncode == 0, ran.stderr
    arrived, last_step = map(int, ran.stdout.split())
    assert arrived == 300
    written = lines_of(run_dir)  # every line is whole: each is parsed
    assert {line["kind"] for line in written} <= {
        "rank_started", "settings_seen", "phase_entered", "step_done",
    }  # fmt: skip
    told = [(line["kind"], line.get("phase"), line["step"]) for line in written[3:]]
    assert len(told) == len(set(told)), "an event was written twice"
    whole = 4 * last_step  # forward, backward, step_done, data of the next step
    # An interruption ends a step; what the step still had to say after it is not said, and nothing else is lost.
    assert whole - 4 * arrived <= len(told) <= whole


def test_after_exceptions_an_order_that_was_begun_does_not_fire_later(rank, run_dir, clock):
    class Restart(BaseException):
        pass

    def interrupt():
        raise Restart

    clock.on_sleep = interrupt
    rank.orders.take(order(rank, step=3, phase="forward", after_s=0.5))
    with pytest.raises(Restart):
        rank.enter("forward", 3)
    clock.on_sleep = None
    rank.enter("forward", 3)
    assert events(run_dir, "fault_fired") == []


QUIET = """
rank.orders.take(order("signal_self", signal="KILL"))
assert rank.settled()
fd = rank._writer._fd
full = os.open("/dev/full", os.O_WRONLY)
{harm}
for step in range(1, 6):
    agent.enter("forward", step)
    agent.step_done(step, loss=1.0, lr=1.0, grad_norm=1.0, samples=(0, 1))
agent.finished(5)
rank._recorder.close()
print("trained on", rank.recorder, rank.orders.held)
"""


@pytest.mark.parametrize(
    "harm",
    [
        "os.dup2(full, fd)",
        "os.close(fd)",
        "os.close(fd); os.close(2)",
        "os.dup2(full, fd); os.dup2(full, 2)",
        "os.close(fd); sys.stderr = None",
    ],
)
def test_when_events_cannot_be_written_the_agent_goes_quiet_and_the_job_trains_on_unharmed(run_dir, harm):
    ran = run_rank(run_dir, QUIET.format(harm=harm))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "trained on None ()"
    assert kinds_of(run_dir) == ["rank_started", "settings_seen", "phase_entered"]


def test_the_last_word_of_a_rank_that_goes_quiet_names_the_reason(run_dir):
    ran = run_rank(run_dir, QUIET.format(harm="os.dup2(full, fd)"))
    assert "agent of rank 1 went quiet" in ran.stderr and "No space left" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_single_failed_line_is_said_in_the_history_itself(rank, run_dir):
    rank.emit("digest_taken", {(1, 2): "keys of a JSON object are texts"})
    assert kinds_of(run_dir)[-1] == "source_blind" and events(run_dir, "source_blind")[0]["source"] == "rank"


def test_the_file_is_not_inherited_by_a_program_that_the_job_starts(run_dir):
    enter_rank_script = "print(subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, text=True).stdout)"
    ran = run_rank(run_dir, "import subprocess\n" + enter_rank_script)
    assert ran.returncode == 0 and "0 ->" in ran.stdout and "jsonl" not in ran.stdout
