"""scenarios/quick for real: each fault brought back by the layer it is for, and every file that a run leaves.

The suite runs once; each test looks at one thing of it.
"""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from real_runs import check, events, undecided_by_noise

from chaos import conclude
from chaos.guard.ledger import read_ledger

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

LAYER = {
    "control": None,
    "exception-in-backward[rank=0]": "in_process",
    "exception-in-backward[rank=1]": "in_process",
    "kill-worker[rank=0]": "in_job",
    "kill-worker[rank=1]": "in_job",
    "hang-worker[rank=0]": "in_job",
    "hang-worker[rank=1]": "in_job",
}
WITH_FAULT = [name for name, layer in LAYER.items() if layer]
DONE_TWICE_MIN = 5
VERDICT_KEYS = {
    "schema", "scenario", "run_id", "seed", "outcome", "known", "sentence", "fidelity", "faults", "incidents",
    "checks", "goodput", "ettr", "controls", "settings_seen", "versions", "repeat",
}  # fmt: skip
INCIDENT_KEYS = {
    "faults", "recovered_by", "detection_time_s", "recovery_time_s", "catch_up_time_s", "full_recovery_time_s",
    "parts", "lost_steps", "restarts",
}  # fmt: skip
FILES = (
    "scenario.yaml", "experiment.json", "journal.json", "control.jsonl", "ledger.jsonl", "verdict.json", "report.html",
    "junit.xml", "history/MANIFEST.json", "logs/job.log", "logs/runner.log",
)  # fmt: skip


@pytest.fixture(scope="session")
def run_of(quick):
    return lambda name: (quick[name]["verdict"], Path(quick[name]["run_dir"]))


def test_the_suite_ends_with_status_0(suite):
    """Or, on a machine too busy to decide every run, with 3: never with another."""
    noisy = any(undecided_by_noise(run["verdict"]) for run in suite.runs)
    assert suite.status == (3 if noisy else 0), suite.err[-3000:]


def test_the_suite_has_the_runs_that_are_expected(suite):
    assert sorted(run["verdict"]["scenario"] for run in suite.runs) == sorted(LAYER)


@pytest.mark.parametrize("name", LAYER)
def test_each_run_passed(run_of, name):
    verdict, _ = run_of(name)
    assert verdict["outcome"] == "passed", verdict["sentence"]
    assert [each for each in verdict["checks"] if each["outcome"] in ("fail", "unknown")] == []


@pytest.mark.parametrize("name", WITH_FAULT)
def test_the_layer_that_was_named_brought_it_back(run_of, name):
    verdict, _ = run_of(name)
    assert [incident["recovered_by"] for incident in verdict["incidents"]] == [LAYER[name]]
    assert check(verdict, "recovered_by")["observed"] == LAYER[name]
    other = "in_job" if LAYER[name] == "in_process" else "in_process"
    assert verdict["incidents"][0]["restarts"][other] == 0


def test_the_control_needed_no_recovery(run_of):
    verdict, run_dir = run_of("control")
    assert [incident for incident in verdict["incidents"] if incident["recovered_by"] != "none"] == []
    assert not [event for event in events(run_dir) if event.kind in ("restart_entered", "worker_failed")]


@pytest.mark.parametrize("name", LAYER)
def test_the_state_rests_on_two_fault_free_runs(run_of, name):
    verdict, _ = run_of(name)
    observed = check(verdict, "state_exact")["observed"]
    assert re.search(r"two fault-free runs over 120 steps and \d+ shard digests, equal bits", observed), observed
    assert len(verdict["controls"]) == 2


@pytest.mark.parametrize("name", WITH_FAULT)
def test_the_state_rests_on_steps_done_twice(run_of, name):
    verdict, _ = run_of(name)
    observed = check(verdict, "state_exact")["observed"]
    twice = re.search(r"the run itself over (\d+) steps done twice.*equal bits", observed)
    assert twice is not None and int(twice[1]) >= DONE_TWICE_MIN, observed


@pytest.mark.parametrize("name", WITH_FAULT)
def test_lost_steps_alone_fail_neither_state_nor_data(run_of, name):
    verdict, _ = run_of(name)
    assert verdict["incidents"][0]["lost_steps"] >= DONE_TWICE_MIN
    assert {check(verdict, each)["outcome"] for each in ("state_exact", "data_exactly_once", "lost_work")} == {"pass"}


@pytest.mark.parametrize("name", WITH_FAULT)
def test_the_fault_is_seen_in_the_history_where_the_plan_put_it(run_of, name):
    verdict, run_dir = run_of(name)
    fired = [event for event in events(run_dir) if event.kind == "fault_fired"]
    assert [(event.data["step"], event.data["phase"]) for event in fired] == [(57, "backward")]
    assert fired[0].initial_rank == int(name[-2])
    assert [fault["confirmed"] != "" for fault in verdict["faults"]] == [True]


@pytest.mark.parametrize("name", [name for name in WITH_FAULT if name.startswith("hang")])
def test_a_hang_is_known_by_the_line_of_the_rank_monitor(run_of, name):
    verdict, run_dir = run_of(name)
    detected = check(verdict, "detected_in_time")
    places = [ref for ref in detected["evidence"] if "job.log" in ref]
    by_event = [event for event in events(run_dir) if event.ref in detected["evidence"]]
    assert detected["outcome"] == "pass"
    assert places or [event.kind for event in by_event if event.kind == "hang_detected"], detected
    log = (run_dir / "logs" / "job.log").read_text(errors="replace").splitlines()
    for event in (event for event in by_event if event.kind == "hang_detected"):
        # heard in the monitor itself, or read in the job's log
        where = event.data.get("log")
        said = event.data["text"] if where is None else log[int(str(where).rpartition(":")[2]) - 1]
        assert "Did not get subsequent heartbeat" in said


@pytest.mark.parametrize("name", [name for name in WITH_FAULT if name.startswith("hang")])
def test_a_stopped_rank_is_resumed_or_gone_and_that_is_measured(run_of, name):
    verdict, run_dir = run_of(name)
    undone = [event for event in events(run_dir) if event.kind == "fault_undone"]
    assert [event.data["measured"] for event in undone] == [True]
    assert verdict["faults"][0]["undone"] != ""


@pytest.mark.parametrize("name", LAYER)
def test_a_run_directory_holds_every_file(run_of, name):
    _, run_dir = run_of(name)
    assert [file for file in FILES if not (run_dir / file).is_file()] == []


@pytest.mark.parametrize("name", LAYER)
def test_the_verdict_has_the_keys_of_its_schema(run_of, name):
    _, run_dir = run_of(name)
    verdict = json.loads((run_dir / "verdict.json").read_text())
    assert verdict["schema"] == "nvrx-chaos/verdict/1"
    assert set(verdict) >= VERDICT_KEYS
    assert all(set(incident) >= INCIDENT_KEYS for incident in verdict["incidents"])
    assert all({"name", "outcome", "expected", "observed", "evidence"} <= set(each) for each in verdict["checks"])
    assert {"torch", "nvidia-resiliency-ext", "python"} <= set(verdict["versions"])


@pytest.mark.parametrize("name", LAYER)
def test_evidence_names_lines_that_are_there(run_of, name):
    _, run_dir = run_of(name)
    verdict = json.loads((run_dir / "verdict.json").read_text())
    for ref in {ref for each in verdict["checks"] for ref in each["evidence"]}:
        file, _, line = ref.rpartition(":")
        found = next(path for path in (run_dir / "history" / file, run_dir / file) if path.is_file())
        assert 1 <= int(line) <= len(found.read_bytes().splitlines()), ref


@pytest.mark.parametrize("name", LAYER)
def test_the_junit_file_tells_a_pass(run_of, name):
    _, run_dir = run_of(name)
    root = xml.parse(run_dir / "junit.xml").getroot()
    assert list(root.iter("testcase"))
    assert not list(root.iter("failure")) and not list(root.iter("error"))


@pytest.mark.parametrize("name", LAYER)
def test_the_page_is_whole_and_names_its_run(run_of, name):
    _, run_dir = run_of(name)
    page = (run_dir / "report.html").read_text()
    assert page.rstrip().endswith("</html>") and "<svg" in page
    assert run_dir.name in page
    assert not re.search(r'(?:src|href)="https?://', page), "a report must not fetch anything"


@pytest.mark.parametrize("name", LAYER)
def test_chaoslib_went_through_the_whole_experiment(run_of, name):
    _, run_dir = run_of(name)
    journal = json.loads((run_dir / "journal.json").read_text())
    assert (journal["status"], journal["deviated"]) == ("completed", False)
    assert [each["status"] for each in journal["run"]] == ["succeeded"] * (2 if LAYER[name] else 1)
    assert [each["status"] for each in journal["rollbacks"]] == ["succeeded"]


@pytest.mark.parametrize("name", LAYER)
def test_every_entry_of_the_ledger_is_closed(run_of, name):
    _, run_dir = run_of(name)
    content = read_ledger(run_dir / "ledger.jsonl")
    assert content.entries and not content.open_entries and not content.unreadable
    assert all(entry.undone.measured for entry in content.entries)


def test_fault_free_runs_are_made_once_for_each_job(run_of, shared_out):
    by_job: dict[str, set[Path]] = {}
    for name in LAYER:
        verdict, run_dir = run_of(name)
        for path in verdict["controls"]:
            found = (run_dir / path).resolve()
            by_job.setdefault(found.parent.name, set()).add(found)
    assert [len(paths) for paths in by_job.values()] == [2, 2], "two jobs, one for each layer; a pair for each"
    for job in by_job:
        made = [path for path in (shared_out / "controls" / job).iterdir() if path.is_dir()]
        assert len([path for path in made if _was_clean(path)]) == 2, f"{job}: {len(made)} fault-free runs"


def _was_clean(run_dir: Path) -> bool:
    return conclude.control_witness(run_dir).clean


@pytest.mark.parametrize("name", ["control", "kill-worker[rank=1]", "hang-worker[rank=1]"])
def test_judging_again_gives_the_same_verdict(run_of, place, name):
    _, run_dir = run_of(name)
    recorded = (run_dir / "verdict.json").read_bytes()
    ended = place.cli("judge", run_dir, "--json")
    assert ended.status == 0
    assert "as recorded" in ended.err and "NOT as recorded" not in ended.err
    assert json.loads(ended.out)["verdicts"] == [json.loads(recorded)]
    assert (run_dir / "verdict.json").read_bytes() == recorded


def test_a_run_can_be_judged_and_written_anew_somewhere_else(killed_run, place):
    elsewhere = place.folder / killed_run.name
    shutil.copytree(killed_run, elsewhere)
    recorded = json.loads((elsewhere / "verdict.json").read_text())
    for name in ("verdict.json", "junit.xml", "report.html"):
        (elsewhere / name).unlink()
    assert place.cli("judge", elsewhere, "--write").status == 0
    assert json.loads((elsewhere / "verdict.json").read_text()) == recorded
    assert (elsewhere / "junit.xml").is_file() and (elsewhere / "report.html").is_file()


def _is_table(text: str) -> bool:
    return "kill-worker[rank=1]" in text and "passed" in text


def _is_page(text: str) -> bool:
    return text.lstrip().lower().startswith("<!doctype html") and text.rstrip().endswith("</html>")


def _is_junit(text: str) -> bool:
    return next(xml.fromstring(text).iter("testcase"), None) is not None


def _is_json(text: str) -> bool:
    found: dict[str, Any] = json.loads(text)
    return [each["outcome"] for each in found["verdicts"]] == ["passed"]


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("table", lambda text: "kill-worker[rank=1]" in text),
        ("html", _is_page),
        ("junit", _is_junit),
        ("json", _is_json),
    ],
)
def test_a_recorded_run_is_rendered(killed_run, place, kind, holds):
    ended = place.cli("report", killed_run, "--format", kind)
    assert ended.status == 0, ended.err
    assert holds(ended.out), ended.out[:500]


def test_the_run_leaves_an_index_of_its_reports(quick, shared_out):
    page = (shared_out / "index.html").read_text()
    links = [unquote(link) for link in re.findall(r'href="([^"]+/report\.html)"', page)]
    assert links and [link for link in links if not (shared_out / link).is_file()] == []
