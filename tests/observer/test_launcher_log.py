"""The launcher's log becomes events: golden lines of NVRx 0.4.1."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from observer_build import FakeWriter

from chaos.observer.launcher_log import STAMP_ERROR_NS, LauncherLog, on_our_clock, parse_message

KILLED = (
    "[2026-12-01 12:00:00,123] [ERROR] [ft_launcher4242@vm] failed (exitcode: -9) local_rank: 1 (pid: 777) "
    "of binary: /usr/bin/python3"
)
HEARTBEAT = (
    "[2026-12-01 12:00:05,500] [ERROR] [RankMonServer4300@vm:1] Did not get subsequent heartbeat. Waited 3.20 seconds."
)
INITIAL = (
    "[2026-12-01 12:00:05,500] [ERROR] [RankMonServer4300@vm:0] Did not get initial heartbeat. Waited 60.00 seconds."
)
SECTION = (
    "[2026-12-01 12:00:05,500] [ERROR] [RankMonServer4300@vm:3] Section 'step' has been open for 5.1s. Timeout is 5.0s."
)
JOINED = (
    "[2026-12-01 12:00:07,000] [INFO] [ft_launcher4242@vm] The node 'vm' has joined round 1 of the rendezvous 'id' "
    "as rank 0 in a world of size 1."
)
GOLDEN = [
    (KILLED, "worker_failed", None, {"local_rank": 1, "pid": 777, "code": -9}),
    (KILLED.replace("-9", "1"), "worker_failed", None, {"local_rank": 1, "pid": 777, "code": 1}),
    (HEARTBEAT, "hang_detected", 1, {"waited_s": 3.2}),
    (INITIAL, "hang_detected", 0, {"waited_s": 60.0}),
    (SECTION, "hang_detected", 3, {"waited_s": None}),
    (JOINED, "rendezvous_joined", None, {}),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "job.log"


@pytest.fixture
def writer():
    return FakeWriter()


@pytest.fixture
def log(path, writer):
    return LauncherLog(path, "logs/job.log", writer)


@pytest.mark.parametrize("line, kind, rank, fields", GOLDEN, ids=[f"{each[1]}-{each[2]}" for each in GOLDEN])
def test_a_line_becomes_its_event(path, log, writer, line, kind, rank, fields):
    path.write_text(f"loss 1.0\n{line}\n")
    log.poll()
    ((found, event),) = writer.events
    assert found == kind and event["header_rank"] == rank and event["life"] is None
    assert {name: event[name] for name in fields} == fields
    assert event["log"] == "logs/job.log:2" and event["error_ns"] == STAMP_ERROR_NS
    assert event["text"] == line.split("] ")[3]


@pytest.mark.parametrize(
    "line",
    [
        "", "loss 1.0", "[2026-12-01 12:00:00,123] [INFO] [ft_launcher1@vm] Stopping workers... Timeout = 30 sec.",
        "[2026-12-01 12:00:05,500] [ERROR] [RankMonServer4300@vm:1] FT timeout elapsed.",
        "[2026-12-01 12:00:00,123] [INFO] [ft_launcher1@vm] The node 'vm' attempts to join the next round of the "
        "rendezvous 'id'.",
        "failed (exitcode: -9) local_rank: 1 (pid: 777)",
        "[2026-99-99 12:00:00,123] [ERROR] [x] failed (exitcode: -9) local_rank: 1 (pid: 777) of binary: x",
    ],
)  # fmt: skip
def test_other_lines_say_nothing(path, log, writer, line):
    path.write_text(line + "\n")
    log.poll()
    assert writer.events == []


def test_only_a_rank_monitor_names_a_rank():
    assert parse_message("ft_launcher4242@vm:1", "Did not get initial heartbeat. Waited 1.00 seconds.")[1] is None


def test_a_stamp_is_put_on_our_clock_within_its_stated_error():
    wall_s, now_ns = time.time(), time.monotonic_ns()
    stamp = datetime.fromtimestamp(wall_s - 5.0).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    t_ns, stamp_s = on_our_clock(stamp)
    assert t_ns == pytest.approx(now_ns - 5_000_000_000, abs=STAMP_ERROR_NS + 50_000_000)
    assert 0 <= (wall_s - 5.0) - stamp_s < 0.001  # cut, not rounded


def test_the_stamps_error_covers_what_was_cut(monkeypatch):
    monkeypatch.setattr("time.monotonic_ns", lambda: 10**12)
    when = datetime(2026, 12, 1, 12, 0, 0, 123_999)
    monkeypatch.setattr("time.time", lambda: when.timestamp())
    t_ns, _ = on_our_clock("2026-12-01 12:00:00,123")
    assert 0 <= 10**12 - t_ns <= STAMP_ERROR_NS


def test_a_half_line_is_read_when_it_is_whole(path, log, writer):
    path.write_text(KILLED[:60])
    log.poll()
    assert writer.events == []
    with path.open("a") as file:
        file.write(KILLED[60:] + "\n" + HEARTBEAT)
    log.poll()
    assert writer.kinds() == ["worker_failed"] and writer.events[0][1]["log"] == "logs/job.log:1"
    with path.open("a") as file:
        file.write("\n")
    log.poll()
    assert writer.kinds() == ["worker_failed", "hang_detected"]
    assert writer.events[1][1]["log"] == "logs/job.log:2"


def test_each_line_is_told_once(path, log, writer):
    path.write_text(KILLED + "\n")
    log.poll()
    log.poll()
    assert len(writer.events) == 1


def test_bytes_that_are_no_text_do_not_stop_the_reading(path, log, writer):
    path.write_bytes(b"\xff\xfe\x00\n" + KILLED.encode() + b"\n")
    log.poll()
    assert writer.kinds() == ["worker_failed"]


def test_a_long_file_is_read_in_pieces_and_whole(path, log, writer, monkeypatch):
    monkeypatch.setattr("chaos.observer.launcher_log.READ_BYTES_MAX", 37)
    path.write_text("".join(f"{line}\n" for line, *_ in GOLDEN))
    log.poll()
    assert writer.kinds() == [kind for _, kind, *_ in GOLDEN]


def test_before_the_job_starts_a_missing_log_is_no_news(log, writer, path):
    log.poll()
    assert writer.events == []
    path.write_text(KILLED + "\n")
    log.poll()
    assert writer.kinds() == ["worker_failed"]


def test_a_log_that_never_came_is_blind_in_the_end_and_said_once(log, writer):
    log.poll()
    log.poll(last=True)
    log.poll(last=True)
    assert [fields["source"] for fields in writer.of("source_blind")] == ["launcher_log"]


def test_a_log_that_goes_away_is_blind_at_once(path, log, writer):
    path.write_text("one\n")
    log.poll()
    path.unlink()
    log.poll()
    assert writer.kinds() == ["source_blind"]


def test_a_log_that_cannot_be_read_is_said_once_and_read_when_it_can_be(path, log, writer):
    path.mkdir()
    log.poll()
    log.poll()
    assert writer.kinds() == ["source_blind"] and writer.events[0][1]["source"] == "launcher_log"
    path.rmdir()
    path.write_text(KILLED + "\n")
    log.poll()
    assert writer.kinds() == ["source_blind", "worker_failed"]
