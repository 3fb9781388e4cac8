"""NVRx's words from the launcher's and the monitors' own files: used, told apart from the log's, missed when lost."""

from __future__ import annotations

import os

import pytest
from judge_build import LAUNCHER, Story, check_of, hung, killed, outlived, plan, plan_for, verdict_of

from chaos.history import reader
from chaos.judge.checks.registry import REGISTRY
from chaos.judge.record import Record

LAUNCHER_FILE, MONITOR_FILE = "launcher-90-9.jsonl", "monitor-91-9.jsonl"
LATE_NS = 400_000  # the log's stamp is cut: the word itself was heard a little later
ASKED = plan(detection_time_s=4.0)


def heard(story: Story, kind: str, file: str, late_ns: int = LATE_NS, **changed):
    """The log's word of that kind once more, as it was heard in the process that said it."""
    (read,) = [event for event in story.events if event.kind == kind]
    data = {name: value for name, value in read.data.items() if name not in ("log", "error_ns")}
    at = (read.t_ns + late_ns - 1_000_000_000) / 1e9
    story._add(
        file, kind, at, data | {"source": "handler"} | changed, life=LAUNCHER, rank=read.rank, initial_rank=read.rank
    )
    return read


def killed_and_heard():
    story = killed()
    heard(story, "worker_failed", LAUNCHER_FILE)
    return story


def hung_and_heard():
    story = hung()
    heard(story, "hang_detected", MONITOR_FILE)
    return story


BOTH = [
    (killed_and_heard, ASKED, LAUNCHER_FILE),
    (hung_and_heard, plan_for("hang", detection_time_s=4.0), MONITOR_FILE),
]


@pytest.mark.parametrize("story, asked, file", BOTH, ids=["launcher", "monitor"])
def test_the_word_that_was_heard_is_the_evidence_and_not_its_copy_in_the_log(story, asked, file):
    check = check_of("detected_in_time", story(), asked)
    assert check.outcome == "pass" and "(handler)" in check.observed
    assert f"{file}:1" in check.evidence


def test_what_the_log_says_counts_as_before_where_nothing_was_heard():
    assert "logs/job.log:7" in check_of("detected_in_time", killed(), ASKED).observed


def test_another_word_near_it_does_not_lend_the_log_its_sharper_time():
    story = killed()
    heard(story, "worker_failed", LAUNCHER_FILE, text="another worker failed")
    assert "logs/job.log:7" in check_of("detected_in_time", story, ASKED).observed


def test_a_copy_later_than_the_logs_error_allows_is_no_copy():
    story = killed()
    heard(story, "worker_failed", LAUNCHER_FILE, late_ns=3_000_000)
    assert "logs/job.log:7" in check_of("detected_in_time", story, ASKED).observed


def test_hearing_and_reading_the_same_word_changes_no_other_check():
    once, twice = verdict_of(killed(), ASKED), verdict_of(killed_and_heard(), ASKED)
    assert [(check.name, check.outcome) for check in once.checks] == [
        (check.name, check.outcome) for check in twice.checks
    ]
    assert once.incidents[0].restarts == twice.incidents[0].restarts


def cut(path):
    os.truncate(path, path.stat().st_size - 9)


def alter(path):
    path.write_text(path.read_text().replace("handler", "hendler"))


@pytest.mark.parametrize("harm", [cut, os.unlink, alter])
@pytest.mark.parametrize("story, asked, file", BOTH, ids=["launcher", "monitor"])
def test_a_file_of_words_that_is_cut_lost_or_altered_makes_detection_unknown_by_name(
    tmp_path, story, asked, file, harm
):
    run_dir = story().write(tmp_path)
    assert reader.read(run_dir).blind == ()
    harm(run_dir / "history" / file)
    history = reader.read(run_dir)
    events = list(history.events())
    verdict = verdict_of(events, asked, blind=history.blind)
    check = verdict.check("detected_in_time")
    assert check.outcome == "unknown" and file in check.observed and verdict.outcome == "unknown"
    assert verdict.check("recovered_in_time").outcome == "pass"  # it needs none of NVRx's words


GONE = {"source": "in_process_monitor", "marker": "target_terminated", "text": "target process is terminated"}


def gone(story, rank, at):
    story._add(MONITOR_FILE, "interruption_reported", at, GONE, life="m", rank=rank, initial_rank=rank)


def finish_of(story, rank):
    (event,) = [event for event in story.events if event.kind == "rank_finished" and event.rank == rank]
    return (event.t_ns - 1_000_000_000) / 1e9


@pytest.mark.parametrize("rank", [0, 1])
def test_a_monitors_word_that_a_rank_which_has_finished_is_gone_is_no_interruption(rank):
    story = outlived()
    gone(story, rank, finish_of(story, rank) + 0.001)
    asked = plan_for("hang", recovered_by=("none",), detection_time_s=None)
    assert verdict_of(story, asked).outcome == verdict_of(outlived(), asked).outcome == "passed"


def test_a_monitors_word_that_a_rank_is_gone_before_it_has_finished_is_one():
    story = outlived()
    gone(story, 1, finish_of(story, 1) - 0.001)
    asked = plan_for("hang", recovered_by=("none",), detection_time_s=None)
    assert check_of("recovered_by", story, asked).outcome == "fail"


def test_a_rank_that_has_finished_and_begins_again_can_be_gone_again():
    story = killed()
    again = story.rank(1, "restart_entered", reported_restart={})
    gone(story, 1, (again.t_ns - 1_000_000_000) / 1e9 + 0.1)
    assert GONE["marker"] in [event.data.get("marker") for event in Record(story.events).of("interruption_reported")]


def test_another_word_after_a_finish_stays_what_it_is():
    story = killed()
    story.rank(1, "interruption_reported", source="in_process", marker="fn_ex", text="RuntimeError")
    assert len(Record(story.events).of("interruption_reported")) == 1


def test_a_process_in_which_nvrx_cannot_be_heard_makes_detection_unknown_with_its_reason():
    story = killed()
    story._add(
        LAUNCHER_FILE, "source_blind", 1.0, {"source": "nvrx_log", "reason": "rank monitors are not heard"},
        life=LAUNCHER,
    )  # fmt: skip
    check = check_of("detected_in_time", story, ASKED)
    assert check.outcome == "unknown" and "rank monitors are not heard" in check.observed


def test_only_the_checks_that_rest_on_nvrxs_words_need_them():
    needing = {spec.name for spec in REGISTRY if spec.needs & {"launcher", "monitor", "nvrx_log"}}
    assert needing == {"detected_in_time", "blamed_right"}
