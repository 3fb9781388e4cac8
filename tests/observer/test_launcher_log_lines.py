"""Each form of line that NVRx's words come in, and nobody else's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observer_build import FakeWriter

from chaos.model.events import KINDS
from chaos.model.nvrx_messages import told
from chaos.observer.launcher_log import LauncherLog
from chaos.observer.logs import stamps
from chaos.observer.logs.clocks import LineClock, Look
from chaos.observer.logs.lines import LINE_MAX, read_line

KILLED = "failed (exitcode: -9) local_rank: 1 (pid: 777) of binary: /usr/bin/python3"
TERM = "rank=1 term_ex: RankShouldRestart()"
LAUNCHER = f"[2026-12-01 12:00:00,123] [ERROR] [ft_launcher4242@vm] {KILLED}"
MONITOR = (
    "[2026-12-01 12:00:00,123] [WARNING] [RankMonServer4300@vm:3] Did not get initial heartbeat. Waited 9.00 seconds."
)
COMMON = "2026-12-01 12:00:00,123 [WARNING] [vm] [workload:{}({}) infra:?(?)] {}.py:598 {}"
ELASTIC = f"E1201 12:00:00.123000 4242 torch/distributed/elastic/multiprocessing/api.py:1003] {KILLED}"
PROGRAM = f"2026-12-01 12:00:00,123 rank1 WARNING {TERM}"
FORMS = [
    (LAUNCHER, KILLED, None, None, ""),
    (MONITOR, "Did not get initial heartbeat. Waited 9.00 seconds.", 3, None, ""),
    (MONITOR.replace(":3]", ":<none>]"), "Did not get initial heartbeat. Waited 9.00 seconds.", None, None, ""),
    (LAUNCHER.replace("@vm]", "@vm:1]"), KILLED, None, None, ""),  # only a rank monitor names a rank
    (COMMON.format(1, "?", "wrap", TERM), TERM, 1, None, "wrap"),
    (COMMON.format("?", 1, "rank_monitor_server", "[Cycle 0] x"), "[Cycle 0] x", None, 1, "rank_monitor_server"),
    ("0: " + COMMON.format("?", "?", "launcher", "x"), "x", None, None, "launcher"),
    (ELASTIC, KILLED, None, None, "torch/distributed/elastic/multiprocessing/api"),
    (f"[default0]:{ELASTIC}", KILLED, None, None, "torch/distributed/elastic/multiprocessing/api"),
    (f"loss 1.0{LAUNCHER}", KILLED, None, None, ""),  # written without an end of line by another process
    (f"\r10%\r90%\r{LAUNCHER}\r", KILLED, None, None, ""),
    (PROGRAM, TERM, None, None, ""),
    (f"10%\r90%\r{PROGRAM}\r", TERM, None, None, ""),
    (f"[2026-12-01 12:00:00,123] WARNING {TERM}", TERM, None, None, ""),
    (f"2026-12-01 12:00:00,123 | rank: 1 | nvidia_resiliency_ext.inprocess.wrap | {TERM}", TERM, None, None, ""),
    (
        "2026-12-01 12:00:00,123 | INFO  | nvidia_resiliency_ext.inprocess.monitor_process | SIGTERM x", "SIGTERM x",
        None, None, "nvidia_resiliency_ext.inprocess.monitor_process",
    ),
]  # fmt: skip
OTHERS = [
    "", "loss 1.0", KILLED, f"the log says: {KILLED}", f"I saw {TERM}",
    f"2026-12-01 12:00:00,123 app INFO I saw {TERM}",
    f"[2026-12-01 12:00:00,123] [ERROR] [my_tool4242@vm] {KILLED}", f"[2026-12-01 12:00:00,123] [ERROR] {KILLED}",
    LAUNCHER.replace("2026-12-01", "2026-99-99"), LAUNCHER.replace("12:00:00", "12:61:00"),
    ELASTIC.replace("1201", "1301"), ELASTIC.replace("torch/", "mylib/"), f"E1201 12:00:00.123000 1 x.cpp:9] {KILLED}",
    LAUNCHER.replace("2026-", "0001-").replace("-12-", "-01-"), f"2026-12-01 12:00:00 WARNING {TERM}",
]  # fmt: skip


@pytest.mark.parametrize("text, message, rank, local_rank, logger", FORMS, ids=range(len(FORMS)))
def test_a_form_of_nvrx_is_recognised(text, message, rank, local_rank, logger):
    line = read_line(text)
    assert (line.message, line.rank, line.local_rank, line.logger) == (message, rank, local_rank, logger)
    assert line.stamp.when.replace(year=2026) == datetime(2026, 12, 1, 12, 0, 0, 123_000)
    assert line.stamp.cut_ns == stamps.MILLISECOND_NS and line.stamp.has_year == ("E1201" not in text)


@pytest.mark.parametrize("text", [f"WARNING:nvidia_resiliency_ext.inprocess.wrap:{TERM}", TERM, f"[default1]: {TERM}"])
def test_without_handlers_the_wrapper_speaks_without_a_stamp(text):
    line = read_line(text)
    assert line.message == TERM and line.stamp is None


@pytest.mark.parametrize("text", OTHERS)
def test_a_line_of_another_program_says_nothing(text):
    assert read_line(text) is None


@pytest.mark.parametrize(
    "message",
    [f"[2026-12-01 17:00:00.123456] {TERM}", "  - Cycle: 1 Event: x Node: y Time: 2026-12-01 17:00:00.123 UTC"],
)
def test_a_second_stamp_in_utc_tells_the_zone_of_the_first(message):
    line = read_line(COMMON.format(1, "?", "wrap", message))
    noon_somewhere = datetime(2026, 12, 1, 17, 0, 0, 123_000, tzinfo=UTC).timestamp()
    assert line.stamp.wall_s_beside(line.utc.wall_s(0.0)) == pytest.approx(noon_somewhere, abs=1e-6)


def at(*parts):
    return datetime(*parts).timestamp()


@pytest.mark.parametrize(
    "text, near, means",
    [
        ("1231 23:59:59.000000", at(2027, 1, 1, 0, 0, 5), at(2026, 12, 31, 23, 59, 59)),
        ("0101 00:00:01.000000", at(2026, 12, 31, 23, 59, 59), at(2027, 1, 1, 0, 0, 1)),
        ("0701 12:00:00.000000", at(2026, 7, 1, 13), at(2026, 7, 1, 12)),
        ("0229 12:00:00.000000", at(2028, 3, 1), at(2028, 2, 29, 12)),
    ],
)
def test_a_stamp_without_a_year_means_the_nearest(text, near, means):
    assert stamps.torch(text).wall_s(near) == means


def test_a_day_that_this_year_does_not_have_is_taken_for_none_near():
    assert stamps.torch("0229 12:00:00.000000").wall_s(at(2026, 3, 1)) == at(2026, 3, 1)


def test_an_hour_that_comes_twice_is_the_one_in_which_it_was_read(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        stamp = stamps.iso("2026-10-25 02:30:00,000")
        first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
        assert stamp.wall_s(first + 5) == first and stamp.wall_s(first + 3605) == first + 3600
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("digits, cut_ns", [("123", 10**6), ("123456", 10**3)])
def test_a_stamp_is_as_exact_as_it_is_written(digits, cut_ns):
    assert stamps.iso(f"2026-12-01 12:00:00.{digits}").cut_ns == cut_ns


@given(st.datetimes(min_value=datetime(2001, 1, 1), max_value=datetime(2099, 12, 31)))
def test_a_stamp_is_never_later_than_what_it_was_cut_from(when):
    text = when.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    left = when - stamps.iso(text).when
    assert timedelta(0) <= left < timedelta(milliseconds=1)


PIECES = [text for text, *_ in FORMS] + [TERM, "0001-01-01 00:00:00,000", "9999-12-31 23:59:59,999", "rank=", "[", "\r"]
LINES = st.lists(st.one_of(st.text(), st.sampled_from(PIECES)), max_size=5).map("".join)


@given(LINES)
def test_no_line_ever_raises(text):
    line, clock = read_line(text), LineClock()
    clock.begin(Look(mono_ns=10**12, wall_ns=17 * 10**17, error_ns=100))
    if line is not None:
        said, when = told(line.message, line.logger), clock.date(line)
        assert len(line.message) <= LINE_MAX and when.error_ns >= 0
        assert said is None or said.kind in KINDS


@settings(max_examples=30)
@given(st.lists(st.one_of(st.binary(), LINES.map(lambda text: text.encode("utf-8", "replace"))), max_size=6))
def test_no_file_ever_stops_the_reading(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("log") / "job.log"
    writer = FakeWriter()
    log = LauncherLog(path, "job.log", writer)
    for piece in pieces:
        with path.open("ab") as file:
            file.write(piece + b"\n")
        log.poll()
    log.poll(last=True)
    assert all(kind in KINDS for kind in writer.kinds())
