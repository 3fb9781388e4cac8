"""Logs of real runs of three versions, read as they grew: exactly the events expected, at the times noted by others.

`tests/golden/record.py` recorded them, and noted in each process of the job when a log record was made.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from observer_build import FakeWriter

from chaos.observer.launcher_log import LauncherLog
from chaos.observer.logs.clocks import Look

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
STATED_ERROR_NS = 2_100_000  # milliseconds, cut, and how far our two clocks can have moved unseen


def interrupted(rank, marker, ranks=None, source="in_process"):
    return "interruption_reported", rank, {"source": source, "marker": marker, "ranks": ranks}


def passed(rank):
    return "health_check_passed", rank, {}


RECOVERED = [
    interrupted(1, "fn_ex"), interrupted(1, "term_ex", [1]), passed(1), interrupted(0, "term_ex", [1]), passed(0),
]  # fmt: skip
JOINED = ("rendezvous_joined", None, {})
FAILED = ("worker_failed", None, {"local_rank": 1, "code": -9})
GROUP_FAILED = interrupted(None, "group_failed", source="in_job")
CYCLE = interrupted(None, "failure_detected", source="in_job")
HUNG = ("hang_detected", 1, {"waited_s": 2.0, "local_rank": None})
HUNG_LOCALLY = ("hang_detected", None, {"waited_s": 2.0, "local_rank": 1})
OLD_RESTART, NEW_RESTART = [FAILED, GROUP_FAILED, JOINED], [FAILED, CYCLE, GROUP_FAILED, JOINED]

EXPECTED = {
    ("0.4.1", "exception"): RECOVERED,
    ("0.4.1", "kill"): [JOINED, *OLD_RESTART],
    ("0.4.1", "stop"): [JOINED, HUNG, *OLD_RESTART],
    ("0.6.0", "exception"): RECOVERED,
    ("0.6.0", "kill"): [JOINED, *NEW_RESTART],
    ("0.6.0", "stop"): [JOINED, HUNG_LOCALLY, *NEW_RESTART],
    ("0.7.0", "exception"): RECOVERED,
    ("0.7.0", "kill"): [JOINED, *NEW_RESTART],
    ("0.7.0", "stop"): [JOINED, HUNG_LOCALLY, *NEW_RESTART],
}  # fmt: skip
CASES = sorted(EXPECTED)


class Recording:
    """One golden log and what was noted beside it."""

    def __init__(self, version, case):
        folder = GOLDEN / f"nvrx-{version}"
        self.lines = (folder / f"{case}.log").read_text().splitlines(keepends=True)
        self.notes = json.loads((folder / f"{case}.json").read_text())

    def look(self, after_ns):
        start = self.notes["start_mono_ns"], self.notes["start_wall_ns"]
        return Look(mono_ns=start[0] + after_ns, wall_ns=start[1] + after_ns, error_ns=1000)

    def said_ns(self, log):
        return self.notes["start_mono_ns"] + self.notes["said_ns"][log.partition(":")[2]]

    def read(self, folder, every_s):
        """Grows a file as the log grew, with a look every so often; None: read once, at the end."""
        path, writer, now_ns = folder / "job.log", FakeWriter(), 0
        path.write_text("")
        log = LauncherLog(path, "job.log", writer, lambda: self.look(now_ns))
        left = list(zip(self.notes["arrived_ns"], self.lines, strict=True))
        step_ns = left[-1][0] if every_s is None else int(every_s * 1e9)
        while left:
            now_ns += step_ns
            came = [line for arrived_ns, line in left if arrived_ns <= now_ns]
            left = left[len(came) :]
            with path.open("a") as file:
                file.writelines(came)
            log.poll(last=not left)
        return writer


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    """Where the logs were recorded."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def told(writer):
    return [(kind, event["header_rank"]) for kind, event in writer.events]


@pytest.mark.parametrize("every_s", [0.1, 0.5, None])
@pytest.mark.parametrize("version, case", CASES)
def test_a_real_log_gives_exactly_its_events(tmp_path, version, case, every_s):
    writer, expected = Recording(version, case).read(tmp_path, every_s), EXPECTED[version, case]
    assert told(writer) == [(kind, rank) for kind, rank, _ in expected]
    for (_, event), (_, _, fields) in zip(writer.events, expected, strict=True):
        assert {name: event[name] for name in fields} == fields


@pytest.mark.parametrize("every_s", [0.1, 0.5, None])
@pytest.mark.parametrize("version, case", CASES)
def test_its_times_hold_within_the_error_that_they_state(tmp_path, version, case, every_s):
    recording = Recording(version, case)
    for kind, event in recording.read(tmp_path, every_s).events:
        off_ns = abs(event["t_ns"] - recording.said_ns(event["log"]))
        assert off_ns <= event["error_ns"] <= STATED_ERROR_NS, f"{kind} {event['log']}"


@pytest.mark.parametrize("version, case", [each for each in CASES if each[1] != "exception"])
def test_what_launcher_and_monitor_say_comes_after_the_harm(tmp_path, version, case):
    recording = Recording(version, case)
    harmed_ns = recording.notes["start_mono_ns"] + recording.notes["fault_ns"]
    writer = recording.read(tmp_path, 0.1)
    first = next(event for kind, event in writer.events if kind != "rendezvous_joined")
    assert 0 < first["t_ns"] - harmed_ns < 20e9


@pytest.mark.parametrize("version", ["0.6.0", "0.7.0"])
def test_without_nvml_every_rank_fails_its_health_check_and_leaves(tmp_path, version):
    writer = Recording(version, "no_nvml").read(tmp_path, 0.1)
    for rank in (0, 1):
        kinds = [kind for kind, teller in told(writer) if teller == rank]
        assert "health_check_failed" in kinds and kinds[-1] == "rank_excluded" and "health_check_passed" not in kinds


def test_a_log_whose_zone_is_not_ours_is_blind_where_no_line_tells_the_zone(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC+5")
    time.tzset()
    writer = Recording("0.4.1", "kill").read(tmp_path, 0.1)
    assert writer.kinds().count("source_blind") == 1 and "time zone" in writer.of("source_blind")[0]["reason"]


def test_a_line_that_tells_utc_is_dated_in_any_zone(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC+5")
    time.tzset()
    recording = Recording("0.6.0", "exception")
    writer = recording.read(tmp_path, 0.1)
    assert told(writer) == [(kind, rank) for kind, rank, _ in RECOVERED]
    assert all(abs(event["t_ns"] - recording.said_ns(event["log"])) <= STATED_ERROR_NS for _, event in writer.events)


OF_EVERY_LINUX = ("dev", "proc", "sys", "usr")


@pytest.mark.parametrize("version, case", CASES)
def test_no_name_of_the_recording_machine_is_left_in_it(version, case):
    text = "".join(Recording(version, case).lines)
    folders = {name for name in re.findall(r"(?:^|[\s'\"=(])/([a-z]+)/", text) if name not in OF_EVERY_LINUX}
    assert folders == set()
    assert text.count("node0") == text.count("@node0") + text.count("[node0]")
