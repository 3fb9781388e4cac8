"""A rank that hangs for good after its restart: the run fails, and shows where every rank stood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from real_runs import BROKEN, IN_JOB, NO_CONTROLS, all_words, check, events

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

# Nobody but us notices: the monitors and Gloo are patient.
PATIENT = {"heartbeat_timeout_s": 600.0, "initial_heartbeat_timeout_s": 600.0, "collective_timeout_s": 600.0}
HUNG = "wait_for_ever (hangs.py:"


@pytest.fixture
def verdict(place) -> dict[str, Any]:
    job = {**IN_JOB, "steps": 80, "args": {**IN_JOB["args"], **PATIENT}}
    job["env"] = {"PYTHONPATH": str(BROKEN), "NVRX_BROKEN": "hangs_after_restart"}
    at = {"step": 47, "phase": "backward", "point": "in_collective"}
    kill = {"name": "kill", "fault": "process.kill", "params": {"signal": "KILL"}, "target": {"rank": 1}, "at": at}
    objective = {"recovered_by": "in_job", "recovery_time": "4s", "checks": NO_CONTROLS}
    scenario = place.scenario("hung-for-good", job=job, faults=[kill], objective=objective)
    ended = place.run(scenario)
    verdict = ended.verdict
    assert (ended.status, verdict["outcome"]) == (1, "failed"), ended.err + all_words(verdict)
    verdict["run_dir"] = ended.runs[-1]["run_dir"]
    return verdict


def test_the_verdict_names_the_function_in_which_the_rank_hung_and_the_line_that_shows_it(verdict):
    run_dir = Path(verdict["run_dir"])
    for name in ("recovered_in_time", "job_finished"):
        found = check(verdict, name)
        assert found["outcome"] == "fail", all_words(verdict)
        cited = [ref for ref in found["evidence"] if ref.startswith("evidence/stacks-1-")]
        assert len(cited) == 1
        file, line = cited[0].split(":")
        assert "in wait_for_ever" in (run_dir / file).read_text().splitlines()[int(line) - 1]

    assert verdict["sentence"].count(f"rank 1 stood in {HUNG}") == 1
    kept = next(event for event in events(run_dir) if event.kind == "evidence_captured")
    assert kept.data["failed"] == [] and all((run_dir / file).is_file() for file in kept.data["files"])
    assert {stand["rank"] for stand in kept.data["stands"]} == {0, 1, None}
    stopped = next(event for event in events(run_dir) if event.kind == "stop_requested")
    assert 0 <= kept.t_ns - stopped.t_ns < 8e9
    ended = [event for event in events(run_dir) if event.kind == "process_exited"]
    assert not [event for event in ended if stopped.t_ns < event.t_ns < kept.t_ns], "kept before anything is ended"

    def one(what: str) -> str:
        (path,) = (run_dir / "evidence").glob(what)
        return path.read_text()

    # rank 0 waits for its peer in a collective: both ends of their connection are there
    assert "rank 1" in one("sockets-0-*.txt") and "rank 0" in one("sockets-1-*.txt")
    assert "ESTABLISHED" in one("sockets-0-*.txt")
    told = one("state-0-*.txt").split("Flight recorder of its collectives: ")[1]
    assert "under way: gloo:" in told or told.startswith("none: it holds no collective of backend gloo"), told
    assert "it did not answer" in one("state-1-*.txt"), "it holds the interpreter"
    assert "rank-" in one("state-1-*.txt").split("Its last 20 events:")[1]

    page = (run_dir / "report.html").read_text()
    assert "in wait_for_ever" in page and "sockets-1-" in page
