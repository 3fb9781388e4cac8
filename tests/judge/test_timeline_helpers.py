"""Processes in the picture: it begins with the job, and shows ends of helpers only where they failed."""

from __future__ import annotations

import pytest
from judge_build import changed, healthy, plan

from chaos.judge.judge import judge


def marks(role, **how):
    story = healthy()
    ended = story.controller("process_exited", of="boot0000-1-900-9", pid=900, role=role, **how)
    timeline = judge(plan(), story.events, (), (), run_id="run-1")[1]
    return [mark for mark in timeline.marks if mark.ref == ended.ref]


@pytest.mark.parametrize("role", ["checkpoint_writer", "data_worker", "in_process_monitor", "rank_monitor", "other"])
def test_only_a_helper_that_failed_is_marked(role):
    assert marks(role, code=0, signal=None) == []
    for how in ({"code": 1, "signal": None}, {"code": None, "signal": 9}, {"code": None, "signal": None}):
        assert len(marks(role, **how)) == 1, how


@pytest.mark.parametrize("role", ["launcher", "rank"])
def test_the_end_of_launcher_and_ranks_is_always_marked(role):
    assert len(marks(role, code=0, signal=None)) == 1


def test_the_picture_begins_with_the_job_though_its_launcher_was_made_a_moment_before():
    story = healthy()
    early = changed(story, "process_appeared", lambda event: event.data["role"] == "launcher", t_ns=990_000_000)
    spans = judge(plan(), early, (), (), run_id="run-1")[1].spans
    assert [span.start_s for span in spans if span.kind == "life" and span.lane == "launcher"] == [0.0]
