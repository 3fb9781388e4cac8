"""The job's log, read as it grows: each line told once, and blindness said by name."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from observer_build import FakeWriter

from chaos.observer.launcher_log import LauncherLog
from chaos.observer.logs.clocks import Look, look
from chaos.observer.overhear import Overhearing

WALL_NS = 1_796_126_400 * 10**9  # 2026-12-01 12:00:00 UTC
MONO_NS = 10**12


class Clocks:
    """Both clocks of a host, moved by hand."""

    def __init__(self):
        self.mono_ns, self.wall_ns = MONO_NS, WALL_NS

    def __call__(self):
        return Look(mono_ns=self.mono_ns, wall_ns=self.wall_ns, error_ns=1000)

    def advance(self, seconds):
        self.mono_ns += int(seconds * 1e9)
        self.wall_ns += int(seconds * 1e9)

    def stamp(self, seconds_ago=0.0):
        return datetime.fromtimestamp(self.wall_ns / 1e9 - seconds_ago).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "job.log"


@pytest.fixture
def writer():
    return FakeWriter()


@pytest.fixture
def log(path, writer, clocks):
    return LauncherLog(path, "logs/job.log", writer, clocks)


def killed(clocks, seconds_ago=0.0, rank=1):
    return (
        f"[{clocks.stamp(seconds_ago)}] [ERROR] [ft_launcher4242@vm] "
        f"failed (exitcode: -9) local_rank: {rank} (pid: 777) of binary: /usr/bin/python3"
    )


def hung(clocks, seconds_ago=0.0):
    return (
        f"[{clocks.stamp(seconds_ago)}] [WARNING] [RankMonServer4300@vm:1] "
        "Did not get subsequent heartbeat. Waited 3.20 seconds."
    )


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def test_a_line_becomes_its_event(path, log, writer, clocks):
    path.write_text(f"loss 1.0\n{killed(clocks, 0.3)}\n")
    log.poll()
    ((kind, event),) = writer.events
    assert kind == "worker_failed" and event["life"] is None and event["header_rank"] is None
    assert (event["local_rank"], event["pid"], event["code"], event["log"]) == (1, 777, -9, "logs/job.log:2")
    assert event["text"].startswith("failed (exitcode: -9)")
    assert abs(event["t_ns"] - (MONO_NS - 300_000_000)) <= event["error_ns"] < 3_000_000
    assert event["wall_s"] == pytest.approx(WALL_NS / 1e9 - 0.3)


def test_a_rank_monitor_names_its_rank(path, log, writer, clocks):
    path.write_text(hung(clocks) + "\n")
    log.poll()
    assert writer.of("hang_detected")[0]["header_rank"] == 1 and writer.of("hang_detected")[0]["waited_s"] == 3.2


def test_a_half_line_is_read_when_it_is_whole(path, log, writer, clocks):
    line = killed(clocks)
    path.write_text(line[:60])
    log.poll()
    assert writer.events == []
    append(path, line[60:] + "\n" + hung(clocks))
    log.poll()
    assert writer.kinds() == ["worker_failed"] and writer.events[0][1]["log"] == "logs/job.log:1"
    append(path, "\n")
    log.poll()
    assert writer.kinds() == ["worker_failed", "hang_detected"]
    assert writer.events[1][1]["log"] == "logs/job.log:2"


def test_each_line_is_told_once(path, log, writer, clocks):
    path.write_text(killed(clocks) + "\n")
    log.poll()
    log.poll()
    assert len(writer.events) == 1


def test_bytes_that_are_no_text_do_not_stop_the_reading(path, log, writer, clocks):
    path.write_bytes(b"\xff\xfe\x00\n" + killed(clocks).encode() + b"\n")
    log.poll()
    assert writer.kinds() == ["worker_failed"]


def test_a_long_file_is_read_in_pieces_and_whole(path, log, writer, clocks, monkeypatch):
    monkeypatch.setattr("chaos.observer.launcher_log.READ_BYTES_MAX", 37)
    path.write_text(f"{killed(clocks)}\n{hung(clocks)}\n{killed(clocks)}\n")
    log.poll()
    assert writer.kinds() == ["worker_failed", "hang_detected", "worker_failed"]


def test_a_line_without_end_does_not_fill_the_memory(path, log, writer, clocks, monkeypatch):
    monkeypatch.setattr("chaos.observer.launcher_log.PENDING_BYTES_MAX", 300)
    monkeypatch.setattr("chaos.observer.launcher_log.READ_BYTES_MAX", 64)
    path.write_text("x" * 5000)
    log.poll()
    assert len(log._pending) <= 300
    append(path, "\n" + killed(clocks) + "\n")
    log.poll()
    assert [event["log"] for event in writer.of("worker_failed")] == ["logs/job.log:2"]


def test_before_the_job_starts_a_missing_log_is_no_news(log, writer, path, clocks):
    log.poll()
    assert writer.events == []
    path.write_text(killed(clocks) + "\n")
    log.poll()
    assert writer.kinds() == ["worker_failed"]


def reasons(writer):
    assert {fields["source"] for fields in writer.of("source_blind")} <= {"launcher_log"}
    return [fields["reason"] for fields in writer.of("source_blind")]


def test_a_log_that_never_came_is_blind_in_the_end_and_said_once(log, writer):
    log.poll()
    log.poll(last=True)
    log.poll(last=True)
    assert len(reasons(writer)) == 1


def test_a_log_that_goes_away_is_blind_at_once(path, log, writer):
    path.write_text("one\n")
    log.poll()
    path.unlink()
    log.poll()
    assert len(reasons(writer)) == 1


def test_a_log_that_cannot_be_read_is_said_once_and_read_when_it_can_be(path, log, writer, clocks):
    path.mkdir()
    log.poll()
    log.poll()
    assert len(reasons(writer)) == 1
    path.rmdir()
    path.write_text(killed(clocks) + "\n")
    log.poll()
    assert writer.kinds() == ["source_blind", "worker_failed"]


def test_a_log_that_was_cut_is_blind_and_read_on_from_there(path, log, writer, clocks):
    path.write_text(killed(clocks) + "\n" + "x" * 500 + "\n")
    log.poll()
    path.write_text("cut\n")
    log.poll()
    assert "became shorter" in reasons(writer)[0]
    append(path, hung(clocks) + "\n")
    log.poll()
    assert writer.kinds() == ["worker_failed", "source_blind", "hang_detected"]


def test_a_healthy_log_is_never_blind(path, log, writer, clocks):
    path.write_text("")
    for number in range(50):
        clocks.advance(0.1)
        append(path, f"{hung(clocks, 0.05)}\nloss {number}\n{killed(clocks, 0.03)}\n")
        log.poll(last=number == 49)
    assert reasons(writer) == [] and len(writer.events) == 100


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, 0.5, -0.05, 0.002])
def test_when_the_wall_clock_jumps_times_from_the_log_are_unknown(path, log, writer, clocks, jump_s):
    path.write_text("")
    log.poll()
    clocks.advance(0.2)
    append(path, killed(clocks) + "\n")
    said_ns = clocks.mono_ns
    clocks.advance(0.2)
    clocks.wall_ns += int(jump_s * 1e9)
    log.poll()
    assert f"jumped by {jump_s:+.3f} s" in reasons(writer)[0]
    (event,) = writer.of("worker_failed")
    assert event["t_ns"] - event["error_ns"] <= said_ns <= event["t_ns"]
    clocks.advance(0.2)
    append(path, hung(clocks) + "\n")
    log.poll()
    assert writer.of("hang_detected")[0]["error_ns"] < 3_000_000 and len(reasons(writer)) == 1


def test_a_clock_that_is_adjusted_moves_both_and_is_no_jump(path, log, writer, clocks):
    for _ in range(20):
        clocks.advance(0.1)
        clocks.wall_ns += 50_000  # 500 ppm
        path.write_text("") if not path.exists() else append(path, killed(clocks) + "\n")
        log.poll()
    assert reasons(writer) == []


def test_the_real_clocks_read_together_agree_with_each_other():
    first = look()
    before_ns, wall_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    slack_ns = first.error_ns + (after_ns - before_ns) + 1_000_000
    assert 0 < first.error_ns < 50_000_000 and abs(wall_ns - after_ns - first.difference_ns) < slack_ns


def test_an_hour_in_the_past_is_another_zone_and_not_a_time(path, log, writer, clocks):
    path.write_text("")
    log.poll()
    clocks.advance(0.2)
    append(path, killed(clocks, 3600.1) + "\n")
    log.poll()
    assert "time zone" in reasons(writer)[0]
    (event,) = writer.of("worker_failed")
    assert event["t_ns"] == clocks.mono_ns and 200_000_000 <= event["error_ns"] < 5_000_000_000


def test_stamps_from_the_future_are_not_believed(path, log, writer, clocks):
    path.write_text(killed(clocks, -7.0) + "\n")
    log.poll()
    assert "6.998 s ahead" in reasons(writer)[0]
    assert writer.of("worker_failed")[0]["t_ns"] == clocks.mono_ns


def test_stamps_that_run_backwards_are_not_believed_even_in_a_log_read_at_once(path, log, writer, clocks):
    path.write_text(f"{killed(clocks, 1.0)}\n{hung(clocks, 60.0)}\n")
    log.poll()
    assert "before the line was written" in reasons(writer)[0]
    assert [event["error_ns"] < 3_000_000 for _, event in writer.events if "error_ns" in event] == [True, False]


def test_a_line_that_came_a_little_late_has_an_error_that_covers_the_doubt(path, log, writer, clocks):
    path.write_text("")
    log.poll()
    clocks.advance(0.2)
    append(path, killed(clocks, 0.7) + "\n")
    log.poll()
    (event,) = writer.of("worker_failed")
    assert reasons(writer) == [] and 699_000_000 <= event["error_ns"] <= 704_000_000


def test_a_line_without_a_stamp_was_said_between_two_looks(path, log, writer, clocks):
    path.write_text("")
    log.poll()
    clocks.advance(0.2)
    append(path, "WARNING:nvidia_resiliency_ext.inprocess.wrap:rank=1 term_ex: RankShouldRestart()\n")
    log.poll()
    (event,) = writer.of("interruption_reported")
    assert (event["header_rank"], event["t_ns"]) == (1, clocks.mono_ns)
    assert 200_000_000 <= event["error_ns"] <= 2_300_000_000 and reasons(writer) == []


ENDED = {"pid": 7, "role": "rank", "code": None, "signal": 9, "source": "pidfd"}
CAME = {"pid": 8, "ppid": 1, "role": "rank", "command": "python"}


def restart_of_rank_1(log, clocks, ended=ENDED, came=CAME):
    log.saw_process("process_exited", ended, 1, clocks.mono_ns)
    clocks.advance(1.0)
    log.saw_process("process_appeared", came, 1, clocks.mono_ns)


def test_a_restart_that_the_log_never_told_is_hidden_by_a_log_level(path, log, writer, clocks):
    path.write_text("")
    restart_of_rank_1(log, clocks)
    log.poll()
    assert reasons(writer) == []  # it may still come
    log.poll(last=True)
    assert "rank 1 died" in reasons(writer)[0] and "log level" in reasons(writer)[0]


def test_a_restart_that_the_log_told_is_not_hidden(path, log, writer, clocks):
    path.write_text("")
    restart_of_rank_1(log, clocks)
    append(path, killed(clocks, 0.5, rank=0) + "\n")  # whichever rank it blames
    log.poll(last=True)
    assert reasons(writer) == []


def test_a_rank_that_died_and_was_not_started_again_asks_for_no_word(path, log, writer, clocks):
    path.write_text("")
    log.saw_process("process_appeared", CAME, 1, clocks.mono_ns)
    clocks.advance(1.0)
    log.saw_process("process_exited", ENDED, 1, clocks.mono_ns)
    log.poll(last=True)
    assert reasons(writer) == []


def test_the_word_on_one_restart_does_not_stand_for_another(path, log, writer, clocks):
    path.write_text("")
    restart_of_rank_1(log, clocks)
    append(path, killed(clocks, 0.5) + "\n")
    log.poll()
    clocks.advance(60)
    restart_of_rank_1(log, clocks)
    log.poll(last=True)
    assert len(reasons(writer)) == 1


@pytest.mark.parametrize(
    "ended, came",
    [
        (ENDED | {"signal": 15}, CAME), (ENDED | {"signal": None, "code": 0}, CAME), (ENDED | {"role": "other"}, CAME),
        (ENDED, CAME | {"role": "other"}),
    ],
)  # fmt: skip
def test_what_is_no_restart_of_a_dead_rank_asks_for_no_word(path, log, writer, clocks, ended, came):
    path.write_text("")
    restart_of_rank_1(log, clocks, ended, came)
    log.poll(last=True)
    assert reasons(writer) == []


def test_what_is_overheard_reaches_history_unchanged(path, log, writer, clocks):
    path.write_text("")
    heard = Overhearing(writer, log.saw_process)
    heard.write_about("process_exited", ENDED, life="a", rank=1, t_ns=clocks.mono_ns, wall_s=1.0)
    heard.write_about("process_appeared", CAME, life="b", rank=1)
    assert writer.kinds() == ["process_exited", "process_appeared"]
    assert writer.events[0][1] == ENDED | {"life": "a", "header_rank": 1, "t_ns": clocks.mono_ns, "wall_s": 1.0}
    log.poll(last=True)
    assert len(reasons(writer)) == 1


def test_an_end_that_is_told_late_is_still_the_end_before_the_restart(path, log, writer, clocks):
    path.write_text("")
    log.saw_process("process_appeared", CAME, 1, clocks.mono_ns)
    log.saw_process("process_exited", ENDED, 1, clocks.mono_ns - 10**9)
    log.poll(last=True)
    assert "rank 1 died" in reasons(writer)[0]
