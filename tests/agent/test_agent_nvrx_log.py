"""What NVRx's own log lines become: golden lines of 0.4.1 and of 0.6/0.7."""

from __future__ import annotations

import logging

import pytest
from agent_build import events, kinds_of

from chaos.agent.nvrx_log import LOGGERS, TEXT_MAX

NEW = (
    "2026-12-01 12:18:09,896 [{level}] [vm] [workload:0(?) infra:?(?)] wrap.py:628 [2026-12-01 12:18:09.896722] rank=0 "
)
GOLDEN = [
    (
        "rank=1 term_ex: RankShouldRestart('Interruption.EXCEPTION on ranks={1}') <- RuntimeError('boom')",
        ("interruption_reported", "term_ex", "RankShouldRestart('Interruption.EXCEPTION on ranks={1}')"),
    ),
    ("rank=1 fn_ex: RuntimeError('boom')", ("interruption_reported", "fn_ex", "RuntimeError('boom')")),
    ("rank=0 async_ex: RankShouldRestart()", ("interruption_reported", "async_ex", "RankShouldRestart()")),
    ("rank=0 other_ex: KeyboardInterrupt()", ("interruption_reported", "other_ex", "KeyboardInterrupt()")),
    (
        "rank=0 restart_ex: HealthCheckPassed() <- RankShouldRestart('x') <- RuntimeError('boom')",
        ("health_check_passed", None, "HealthCheckPassed()"),
    ),
    ("rank=0 health_ex: NVMLError_LibraryNotFound", ("health_check_failed", None, "NVMLError_LibraryNotFound")),
    ("rank=0 exit_ex: HealthCheckError", ("rank_excluded", None, "HealthCheckError")),
    (
        NEW.format(level="INFO") + "restart_ex: HealthCheckPassed()",
        ("health_check_passed", None, "HealthCheckPassed()"),
    ),
    (
        NEW.format(level="WARNING") + "term_ex: RankShouldRestart('Interruption.EXCEPTION affecting ranks {0}')",
        ("interruption_reported", "term_ex", "RankShouldRestart('Interruption.EXCEPTION affecting ranks {0}')"),
    ),
]


@pytest.mark.parametrize("logger", LOGGERS)
@pytest.mark.parametrize("line, wanted", GOLDEN)
def test_a_marker_becomes_its_event(rank, run_dir, logger, line, wanted):
    kind, marker, text = wanted
    logging.getLogger(logger).info(line)
    (event,) = events(run_dir, kind)
    assert event.get("marker") == marker and event["text"].startswith(text)
    assert kinds_of(run_dir)[-1] == kind


@pytest.mark.parametrize(
    "line",
    [
        "rank=0 terminate_ex: RuntimeError('x')", "rank=0 completion_ex: x", "rank=0 finalize_ex: x", "starting",
        "rank=0 fn_ex without a colon",
    ],
)  # fmt: skip
def test_other_lines_say_nothing(rank, run_dir, line):
    before = kinds_of(run_dir)
    logging.getLogger(LOGGERS[0]).critical(line)
    assert kinds_of(run_dir) == before


def test_a_record_that_cannot_be_formatted_does_not_reach_the_job(rank, run_dir, capsys):
    before = kinds_of(run_dir)
    logger = logging.getLogger(LOGGERS[0])
    logger.handlers[-1].handle(logger.makeRecord("x", logging.ERROR, "f", 1, "fn_ex: %d", ("no number",), None))
    assert kinds_of(run_dir) == before and capsys.readouterr().err == ""


def test_a_long_text_is_cut(rank, run_dir):
    logging.getLogger(LOGGERS[0]).error("rank=0 fn_ex: " + "x" * 10_000)
    assert len(events(run_dir, "interruption_reported")[0]["text"]) == TEXT_MAX


@pytest.mark.parametrize("root_level", [logging.WARNING, logging.ERROR])
def test_the_restart_marker_is_seen_although_the_programs_root_is_quiet(rank, run_dir, root_level):
    root = logging.getLogger()
    before, handlers = root.level, list(root.handlers)
    try:
        root.setLevel(root_level)
        logging.getLogger(LOGGERS[0]).info("rank=0 restart_ex: HealthCheckPassed()")
        assert root.level == root_level and root.handlers == handlers
    finally:
        root.setLevel(before)
    assert len(events(run_dir, "health_check_passed")) == 1


def test_the_handler_takes_no_lock_that_an_interruption_could_leave_held(rank):
    assert all(logging.getLogger(name).handlers[-1].lock is None for name in LOGGERS)
