"""Jobs that never get to train: no traceback of ours, and the verdict carries what the job said last."""

from __future__ import annotations

import time
from typing import Any

import pytest
from real_runs import all_words, traceback_in

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

LAST_WORDS = "the dataset at /data/shard-7 is not there"


def scenario(place, name: str, command: list[str], **more: Any):
    return place.scenario(
        name,
        job={"command": command, "recovery": ["in_job"], "steps": 120},
        faults=[{"name": "kill", "fault": "process.kill", "params": {"signal": "KILL"}, "at": {"step": 47}}],
        objective={"recovered_by": "in_job", "recovery_time": "4s"},
        **more,
    )


def assert_unknown(place, ended) -> dict[str, Any]:
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (3, "unknown"), ended.err + all_words(verdict)
    assert not traceback_in(ended)
    assert not (place.out / "controls").exists(), "nothing is asked of it that needs a fault-free run"
    return verdict


def test_a_job_that_dies_at_once_is_unknown_and_its_last_words_are_told(place):
    command = ["sh", "-c", f"echo starting; echo {LAST_WORDS} >&2; exit 3"]
    ended = place.run(scenario(place, "dies-at-once", command))
    verdict = assert_unknown(place, ended)
    assert LAST_WORDS in all_words(verdict)
    assert "status 3" in all_words(verdict)


def test_a_command_that_does_not_exist_is_named(place):
    ended = place.run(scenario(place, "no-such-command", ["no-such-trainer", "--fast"]))
    verdict = assert_unknown(place, ended)
    assert "no-such-trainer" in all_words(verdict)


def test_a_job_that_never_trains_is_ended_at_its_limit(place):
    command = ["sh", "-c", f"echo {LAST_WORDS}; exec sleep 300"]
    began_s = time.monotonic()
    ended = place.run(scenario(place, "never-trains", command, limits={"timeout": "5s"}))
    verdict = assert_unknown(place, ended)
    assert "limits.timeout of 5 s" in all_words(verdict)
    assert LAST_WORDS in all_words(verdict)
    assert time.monotonic() - began_s < 60
