"""What NVRx says in the launcher and in its monitors: each process's own file, and the job's log as it would be."""

from __future__ import annotations

import json

import pytest
from agent_build import run_rank
from job_build import FAILED, HUNG, LAUNCHER, MODULES, files_of, run_python, stand_in, the_file

from chaos.agent.voice import Voice
from chaos.history.writer import Writer
from chaos.model.events import HEADER


@pytest.fixture
def job(run_dir, tmp_path):
    return stand_in(tmp_path / "job")


def test_the_launchers_words_are_in_a_file_of_its_own_with_our_clock_and_its_life(run_dir, job):
    assert run_python(run_dir, *LAUNCHER, path=[job]).returncode == 0
    ((name, (joined, failed)),) = files_of(run_dir).items()
    assert (joined["kind"], failed["kind"]) == ("rendezvous_joined", "worker_failed")
    assert tuple(failed)[: len(HEADER)] == HEADER
    assert name == f"launcher-{'-'.join(failed['life'].split('-')[2:])}.jsonl"
    assert (failed["local_rank"], failed["pid"], failed["code"], failed["text"]) == (1, 77, -9, FAILED)
    assert failed["source"] == "handler" and "log" not in failed and "error_ns" not in failed
    assert 0 < joined["t_ns"] < failed["t_ns"]


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "ERROR", "CRITICAL"])
def test_the_launchers_log_is_the_same_as_without_us_and_no_level_of_it_hides_a_word(run_dir, job, level):
    with_us, without = (
        run_python(run_dir, *LAUNCHER, path=[job], with_us=each, LEVEL=level).stderr for each in (True, False)
    )
    assert with_us == without and (FAILED in without) == (level != "CRITICAL")
    assert [line["kind"] for line in the_file(run_dir, "launcher")] == ["rendezvous_joined", "worker_failed"]


def test_a_launcher_with_nothing_to_say_leaves_no_file(run_dir, job):
    script = "import nvidia_resiliency_ext.fault_tolerance.launcher as l; l.logger.error('out of coffee')"
    assert run_python(run_dir, "-c", script, path=[job]).returncode == 0
    assert files_of(run_dir) == {}


def test_each_forked_monitor_writes_a_file_of_its_own_and_names_its_rank(run_dir, job):
    ran = run_python(run_dir, *LAUNCHER, path=[job], RANKS="0 1 quiet")
    assert ran.returncode == 0, ran.stderr
    children = [json.loads(line) for line in ran.stdout.splitlines()]
    found = files_of(run_dir)
    monitors = {name: lines for name, lines in found.items() if name.startswith("monitor-")}
    assert {name.split("-")[1] for name in monitors} == {str(pid) for _, pid in children[:2]}
    assert [[line["kind"], line["rank"], line["initial_rank"], line["text"], line["waited_s"]]
            for lines in monitors.values() for line in lines] == [
        ["hang_detected", 0, 0, HUNG, 3.0], ["hang_detected", 1, 1, HUNG, 3.0],
    ]  # fmt: skip
    for name, (line,) in monitors.items():
        assert name == f"monitor-{'-'.join(line['life'].split('-')[2:])}.jsonl"
    assert [line["kind"] for line in the_file(run_dir, "launcher")] == ["rendezvous_joined", "worker_failed"]


def test_a_forked_monitor_does_not_hold_its_parents_file(run_dir, job):
    ran = run_python(run_dir, *LAUNCHER, path=[job], RANKS="quiet 0")
    quiet, speaking = ([fd for fd in json.loads(line)[0] if "history" in fd] for line in ran.stdout.splitlines())
    assert quiet == [] and len(speaking) == 1 and "/monitor-" in speaking[0]


def test_no_level_of_a_rank_monitor_hides_a_hang_and_what_it_shows_stays_as_it_is(run_dir, job):
    ran = run_python(run_dir, *LAUNCHER, path=[job], RANKS="1", MONITOR_LEVEL="CRITICAL")
    assert HUNG not in ran.stderr and the_file(run_dir, "monitor")[0]["kind"] == "hang_detected"


def test_a_monitor_that_speaks_through_the_one_logger_for_all_still_names_its_rank(run_dir, tmp_path):
    speaks = MODULES["fault_tolerance/rank_monitor_server.py"].replace(
        "logger.warning(", "logging.getLogger('nvrx').warning("
    )
    job = stand_in(tmp_path / "job", rank_monitor_server=speaks)
    ran = run_python(run_dir, *LAUNCHER, path=[job], RANKS="1", HUNG="[Cycle 0] " + HUNG)
    assert ran.returncode == 0, ran.stderr
    assert [(line["kind"], line["rank"]) for line in the_file(run_dir, "monitor")] == [("hang_detected", 1)]


def test_a_version_without_that_logger_is_no_trouble(run_dir, tmp_path):
    job = stand_in(tmp_path / "job", rank_monitor_server="def watch(ranks): pass")
    assert run_python(run_dir, *LAUNCHER, path=[job]).returncode == 0
    assert [line["kind"] for line in the_file(run_dir, "launcher")] == ["rendezvous_joined", "worker_failed"]


def test_rank_monitors_that_cannot_be_heard_are_said_to_be_so_and_the_launcher_runs_on(run_dir, tmp_path):
    job = stand_in(tmp_path / "job", rank_monitor_server="RankMonitorLogger = 3\ndef watch(ranks): pass")
    assert run_python(run_dir, *LAUNCHER, path=[job]).returncode == 0
    blind, *others = the_file(run_dir, "launcher")
    assert blind["kind"] == "source_blind" and blind["source"] == "nvrx_log" and "rank monitors" in blind["reason"]
    assert [line["kind"] for line in others] == ["rendezvous_joined", "worker_failed"]


def test_the_monitor_that_a_rank_has_forked_speaks_in_a_file_of_its_own_with_its_ranks_number(run_dir, job):
    script = """
sys.path.insert(0, os.environ["JOB"])
from nvidia_resiliency_ext.inprocess import monitor_process, wrap
child = os.fork()
if child == 0:
    monitor_process.say("target process is terminated")
    os._exit(0)
os.waitpid(child, 0)
wrap.say("rank=1 fn_ex: RuntimeError('boom')")
"""
    ran = run_rank(run_dir, script, JOB=str(job), RANK="1")
    assert ran.returncode == 0, ran.stderr
    (said,) = the_file(run_dir, "monitor")
    assert (said["kind"], said["source"], said["rank"]) == ("interruption_reported", "in_process_monitor", 1)
    assert "child" not in str(the_file(run_dir, "rank")) and the_file(run_dir, "rank")[-1]["marker"] == "fn_ex"


def test_a_rank_without_an_agent_gets_no_file_that_would_make_it_look_observed(run_dir, job):
    script = "from nvidia_resiliency_ext.inprocess import wrap; wrap.say(\"rank=1 fn_ex: RuntimeError('boom')\")"
    assert run_python(run_dir, "-c", script, path=[job], RANK="1").returncode == 0
    assert files_of(run_dir) == {}


def test_a_run_directory_that_is_gone_costs_the_launcher_one_line_of_its_log(run_dir, job):
    ran = run_python(run_dir / "gone", *LAUNCHER, path=[job])
    assert ran.returncode == 0 and ran.stderr.count("nvrx-chaos: what NVRx says in process") == 1


@pytest.mark.parametrize("room_for", ["the last word", "nothing"])
def test_a_file_that_lacks_a_line_says_so_itself_or_in_the_jobs_log(run_dir, monkeypatch, capsys, room_for):
    voice, refused = Voice(), []
    put = Writer.put

    def full(self, lines):
        refused.append(lines)
        if len(refused) == 1 or room_for == "nothing":
            raise OSError(28, "No space left on device")
        put(self, lines)

    monkeypatch.setattr(Writer, "put", full)
    voice.say("worker_failed", {"pid": 1})
    voice.say("worker_failed", {"pid": 2})
    assert len(refused) == 2, "a silent voice tries no more"
    said, shown = the_file(run_dir, "launcher"), capsys.readouterr().err
    if room_for == "nothing":
        assert said == [] and "not kept" in shown
    else:
        assert (said[0]["kind"], said[0]["source"]) == ("source_blind", "launcher") and shown == ""
        assert "No space left" in said[0]["reason"]


BOMBARDED = """
import ctypes, logging
from chaos.agent.nvrx_log import LOGGERS

class Restart(BaseException):
    pass

logging.getLogger().addHandler(logging.NullHandler())
log, arrived, sent, inside = logging.getLogger(LOGGERS[0]), [0], 100, [False]
training = threading.get_ident()

def bombard():
    for number in range(1, sent + 1):
        while not inside[0]:
            time.sleep(0.00005)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(training), ctypes.py_object(Restart))
        while arrived[0] < number:
            time.sleep(0.00005)

sys.setswitchinterval(1e-5)
attacker = threading.Thread(target=bombard)
attacker.start()
said = 0
while arrived[0] < sent:
    try:
        while arrived[0] < sent:
            inside[0] = True
            log.error("rank=1 fn_ex: boom")
            said += 1
    except Restart:
        inside[0] = False
        arrived[0] += 1
attacker.join()
log.error("rank=1 fn_ex: the last")
assert rank.settled()
print(arrived[0], said)
"""


def test_exceptions_at_any_bytecode_leave_a_rank_that_is_still_heard(run_dir):
    ran = run_rank(run_dir, BOMBARDED)
    assert ran.returncode == 0, ran.stderr
    arrived, said = map(int, ran.stdout.split())
    heard = [line["text"] for line in the_file(run_dir, "rank") if line["kind"] == "interruption_reported"]
    assert arrived == 100 and heard[-1] == "the last" and said < len(heard) <= said + arrived + 1


REAL = """
import logging, os
from nvidia_resiliency_ext.fault_tolerance.rank_monitor_server import RankMonitorLogger
if os.fork() == 0:
    monitor = RankMonitorLogger(level=logging.ERROR)
    monitor.set_connected_rank("1")
    monitor.warning("Did not get subsequent heartbeat. Waited 3.00 seconds.")
    os._exit(0)
os.wait()
"""


def test_the_rank_monitors_of_the_nvrx_that_is_installed_are_heard(run_dir):
    pytest.importorskip("nvidia_resiliency_ext")
    ran = run_python(run_dir, "-c", REAL)
    assert ran.returncode == 0, ran.stderr
    assert [(line["kind"], line["rank"]) for line in the_file(run_dir, "monitor")] == [("hang_detected", 1)]
    assert HUNG not in ran.stderr
