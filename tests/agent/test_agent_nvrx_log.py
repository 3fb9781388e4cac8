"""What NVRx says inside a rank becomes an event of that rank, and hearing it changes nothing of the job's own log."""

from __future__ import annotations

import logging

import pytest
from agent_build import events, kinds_of

from chaos.agent.nvrx_log import HEARD, LOGGERS, hear
from chaos.model.nvrx_messages import TEXT_MAX

RESTART = "rank=0 restart_ex: HealthCheckPassed() <- RankShouldRestart('x') <- RuntimeError('boom')"
SAID = [
    (
        "rank=1 term_ex: RankShouldRestart('Interruption.EXCEPTION on ranks={1}') <- RuntimeError('boom')",
        "interruption_reported",
        {"marker": "term_ex", "source": "in_process", "ranks": [1]},
    ),
    (
        "[2026-12-01 12:18:09.896722] rank=0 term_ex: RankShouldRestart('Interruption.EXCEPTION affecting ranks {0}, "
        "Interruption.TERMINATED affecting ranks {2}')",
        "interruption_reported",
        {"marker": "term_ex", "source": "in_process", "ranks": [0, 2]},
    ),
    (
        "rank=1 fn_ex: RuntimeError('boom')",
        "interruption_reported",
        {"marker": "fn_ex", "source": "in_process", "text": "RuntimeError('boom')"},
    ),
    (RESTART, "health_check_passed", {"source": "handler"}),
    ("rank=0 health_ex: NVMLError_LibraryNotFound", "health_check_failed", {"text": "NVMLError_LibraryNotFound"}),
    ("rank=0 exit_ex: HealthCheckError", "rank_excluded", {"text": "HealthCheckError"}),
]


class Shown(logging.Handler):
    """What a handler of the job gets to see."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


@pytest.fixture
def root():
    """The root logger as a program has it that wants warnings only, with a handler that keeps them."""
    root, handler = logging.getLogger(), Shown()
    level = root.level
    root.setLevel(logging.WARNING)
    root.addHandler(handler)
    root.shown = handler.records
    yield root
    root.removeHandler(handler)
    root.setLevel(level)
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("logger", LOGGERS)
@pytest.mark.parametrize("line, kind, fields", SAID)
def test_a_marker_becomes_an_event_of_this_rank(rank, run_dir, logger, line, kind, fields):
    logging.getLogger(logger).info(line)
    (event,) = events(run_dir, kind)
    assert fields.items() <= event.items() and (event["rank"], event["reentry"]) == (1, 0)
    assert kinds_of(run_dir)[-1] == kind


@pytest.mark.parametrize(
    "line",
    ["rank=0 terminate_ex: RuntimeError('x')", "rank=0 completion_ex: x", "starting", "rank=0 fn_ex without a colon"],
)
def test_other_lines_say_nothing(rank, run_dir, line):
    before = kinds_of(run_dir)
    logging.getLogger(LOGGERS[0]).critical(line)
    assert kinds_of(run_dir) == before


def test_a_record_that_cannot_be_formatted_says_nothing_and_goes_its_way(rank, run_dir, monkeypatch):
    before, shown = kinds_of(run_dir), Shown()
    logger = logging.getLogger(LOGGERS[0])
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [shown])
    logger.error("rank=0 fn_ex: %d", "no number")
    assert kinds_of(run_dir) == before and len(shown.records) == 1


def test_a_long_text_is_cut(rank, run_dir):
    logging.getLogger(LOGGERS[0]).error("rank=0 fn_ex: " + "x" * 10_000)
    assert len(events(run_dir, "interruption_reported")[0]["text"]) == TEXT_MAX


HIDDEN_BY = {
    "the root's level": lambda root, logger: root.setLevel(logging.ERROR),
    "the logger's own level": lambda root, logger: logger.setLevel(logging.CRITICAL),
    "logging.disable": lambda root, logger: logging.disable(logging.CRITICAL),
    "a configuration that disables it": lambda root, logger: setattr(logger, "disabled", True),
}


@pytest.mark.parametrize("hide", HIDDEN_BY.values(), ids=HIDDEN_BY)
def test_what_hides_the_restart_marker_from_the_job_does_not_hide_it_from_us(rank, run_dir, root, hide):
    logger = logging.getLogger(LOGGERS[0])
    hide(root, logger)
    logger.info(RESTART)
    assert len(events(run_dir, "health_check_passed")) == 1 and root.shown == []


def test_taking_all_handlers_away_does_not_make_us_deaf(rank, run_dir):
    logger = logging.getLogger(LOGGERS[0])
    logger.handlers.clear()
    logger.info(RESTART)
    assert len(events(run_dir, "health_check_passed")) == 1


def test_a_level_that_the_job_changes_later_decides_what_the_job_shows(rank, root):
    logger = logging.getLogger(LOGGERS[0])
    logger.info(RESTART)
    root.setLevel(logging.INFO)
    logger.info("shown")
    logger.setLevel(logging.ERROR)
    logger.warning("hidden again")
    assert [record.getMessage() for record in root.shown] == ["shown"]


def test_what_the_job_shows_names_the_place_that_spoke(rank, root):
    logging.getLogger(LOGGERS[0]).warning("here")
    (record,) = root.shown
    assert record.funcName == "test_what_the_job_shows_names_the_place_that_spoke"


def test_a_logger_that_is_heard_has_the_settings_that_it_had():
    logger = logging.Logger("stands alone", logging.ERROR)
    before = logger.level, logger.getEffectiveLevel(), list(logger.handlers), list(logger.filters), logger.propagate
    hear(logger)
    assert before == (
        logger.level, logger.getEffectiveLevel(), list(logger.handlers), list(logger.filters), logger.propagate,
    )  # fmt: skip
    assert not logger.isEnabledFor(logging.DEBUG) and set(HEARD) <= set(vars(logger))


def test_a_word_is_told_once_however_often_its_logger_is_to_be_heard(rank, run_dir):
    logger = logging.getLogger(LOGGERS[0])
    hear(logger)
    hear(logger)
    logger.info(RESTART)
    assert len(events(run_dir, "health_check_passed")) == 1
