"""What holds for every history: over generated jobs, faults, restarts, and files that are lost."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from history_build import Generated, histories
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judge_build import controls, excepted, fault, hung, killed, plan, plan_for, write_files

from chaos.history import manifest, reader
from chaos.judge.judge import judge
from chaos.model.events import Blind, Event
from chaos.model.plan import Plan
from chaos.model.timeline import Timeline
from chaos.model.verdict import IncidentVerdict, Verdict

MANY = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
FEW = settings(MANY, max_examples=20)


def ruled(run: Generated, events: list[Event] | None = None, blind: tuple[Blind, ...] = ()) -> tuple[Verdict, Timeline]:
    return judge(run.plan, list(run.events) if events is None else events, blind, [], run_id="r")


@MANY
@given(run=histories())
def test_judging_twice_gives_the_same_to_the_byte(run):
    assert msgspec.json.encode(ruled(run)) == msgspec.json.encode(ruled(run))


@MANY
@given(run=histories(), seed=st.integers(0, 99))
def test_the_order_in_which_files_are_read_changes_nothing(run, seed):
    order = run.files
    random.Random(seed).shuffle(order)
    shuffled = [event for name in order for event in run.events if event.file == name]
    assert ruled(run, shuffled) == ruled(run)


@MANY
@given(run=histories())
def test_no_time_is_ever_negative_and_parts_add_up(run):
    verdict, timeline = ruled(run)
    for incident in verdict.incidents:
        times = _times(incident)
        assert all(time_s >= 0 for time_s in times if time_s is not None)
        if incident.parts:
            assert abs(sum(part.time_s for part in incident.parts) - incident.recovery_time_s) < 1e-6
    assert all(span.start_s <= span.end_s for span in timeline.spans)


def _times(incident: IncidentVerdict) -> list[float | None]:
    return [
        incident.detection_time_s, incident.recovery_time_s, incident.catch_up_time_s, incident.full_recovery_time_s,
        incident.detection_error_s, *(part.time_s for part in incident.parts),
    ]  # fmt: skip


@MANY
@given(run=histories())
def test_every_firing_is_in_exactly_one_outage_and_outages_come_in_order(run):
    verdict, _ = ruled(run)
    told = [name for incident in verdict.incidents for name in incident.faults]
    fired = [event.data["fault"] for event in run.events if event.kind == "fault_fired"]
    assert told == fired  # each fault of a generated run fires once


@MANY
@given(run=histories())
def test_restarts_of_the_outages_are_no_more_than_there_were(run):
    verdict, timeline = ruled(run)
    for layer in ("in_process", "in_job"):
        counted = sum(incident.restarts.get(layer, 0) for incident in verdict.incidents)
        assert counted <= sum(1 for group in timeline.groups if group.layer == layer)


@MANY
@given(run=histories(), data=st.data())
def test_noise_of_what_is_not_the_job_changes_no_incident(run, data):
    noise = _noise(run, data)
    quiet, loud = ruled(run)[0], ruled(run, [*run.events, *noise])[0]
    assert loud.incidents == quiet.incidents
    assert [check.outcome for check in loud.checks if check.name in OF_INCIDENTS] == [
        check.outcome for check in quiet.checks if check.name in OF_INCIDENTS
    ]


OF_INCIDENTS = frozenset({"recovered_by", "restart_budget", "world_size", "lost_work", "steady_before"})


def _noise(run: Generated, data: st.DataObject) -> list[Event]:
    """Processes that are no ranks, samples of an idle machine, and log lines of no meaning."""
    first, last = min(event.t_ns for event in run.events), max(event.t_ns for event in run.events)
    found = []
    for number, t_ns in enumerate(data.draw(st.lists(st.integers(first, last), max_size=12))):
        kind, fields = data.draw(st.sampled_from(NOISE))
        found.append(
            Event(
                t_ns=t_ns,
                wall_s=0.0,
                kind=kind,
                data=fields,
                life=f"boot0000-1-{9000 + number}-9",
                file="controller-41-4.jsonl",
                line=number + 1,
            )
        )
    return found


NOISE = [
    ("process_appeared", {"pid": 9000, "ppid": 101, "role": "data_worker", "command": "py"}),
    ("process_exited", {"pid": 9000, "role": "data_worker", "code": 0, "signal": None}),
    ("process_exited", {"pid": 9000, "role": "checkpoint_writer", "code": None, "signal": 15}),
    ("machine_measured", {"steal_s": 0.0, "foreign_cpu_s": 0.0, "run_delay_s": {}}),
    ("memory_measured", {"rss_bytes": {}, "cgroup_bytes": None, "oom_kills": 0}),
    ("rendezvous_joined", {"log": "logs/job.log:1", "error_ns": 0, "text": "x"}),
    ("evidence_captured", {"files": [], "why": "asked"}),
]


JUNK = [None, "x", -1, 1.5, [], {}, True, [1, 2], 10**30, "9"]
OF_OUTAGES = {
    "process_exited": ("signal", "code", "pid", "role"),
    "memory_measured": ("oom_kills",),
    "rank_started": ("launcher", "pid"),
    "worker_failed": ("pid", "error_ns", "text"),
    "interruption_reported": ("text", "source", "error_ns", "ranks"),
    "settings_seen": ("settings",),
    "process_group_ready": ("world_size",),
    "fault_undone": ("how",),
}


@MANY
@given(run=histories(), data=st.data())
def test_junk_in_what_outages_rest_on_is_never_a_traceback(run, data):
    kind = data.draw(st.sampled_from(sorted(OF_OUTAGES)))
    field, junk = data.draw(st.sampled_from(OF_OUTAGES[kind])), data.draw(st.sampled_from(JUNK))
    spoiled = [
        replace(event, data={**event.data, field: junk}) if event.kind == kind else event for event in run.events
    ]
    for incident in ruled(run, spoiled)[0].incidents:
        assert all(time_s >= 0 for time_s in _times(incident) if time_s is not None)


# --- files


def _on_disk(folder: Path, run: Generated) -> Path:
    write_files(folder, run.events)
    lives = {event.life: event for event in run.events if event.kind == "rank_started"}
    manifest.write(
        folder,
        run_id="r",
        lives=[{"life": life, "role": "rank", "rank": e.rank, "file": e.file} for life, e in lives.items()],
    )
    return folder


def _of_disk(folder: Path, of_plan: Plan, *, with_controls: bool = False) -> Verdict:
    history = reader.read(folder, run_id="r")
    events = list(history.events())
    return judge(of_plan, events, history.blind, controls() if with_controls else [], run_id="r")[0]


@FEW
@given(run=histories(), data=st.data())
def test_a_run_that_lost_whole_files_is_never_passed(run, data):
    lost = data.draw(st.lists(st.sampled_from(run.files), min_size=1, unique=True))
    with TemporaryDirectory() as scratch:
        folder = _on_disk(Path(scratch), run)
        for name in lost:
            (folder / "history" / name).unlink()
        assert _of_disk(folder, run.plan).outcome != "passed"


PASSING = [(killed(), plan()), (excepted(), plan_for("boom")), (hung(), plan_for("hang"))]
DAMAGE = ("drop", "cut", "alter", "swap", "garbage")


@FEW
@given(which=st.integers(0, len(PASSING) - 1), data=st.data())
def test_a_run_that_would_pass_is_not_passed_once_any_file_is_lost_cut_or_altered(which, data):
    story, of_plan = PASSING[which]
    run = Generated(tuple(story.events), of_plan)
    with TemporaryDirectory() as scratch:
        folder = _on_disk(Path(scratch), run)
        assert _of_disk(folder, of_plan, with_controls=True).outcome == "passed"
        path = folder / "history" / data.draw(st.sampled_from([*run.files, manifest.NAME]))
        before = path.read_bytes()
        _damage(path, data)
        after = path.read_bytes() if path.exists() else b""
        if after != before:
            assert _of_disk(folder, of_plan, with_controls=True).outcome != "passed"


def _damage(path: Path, data: st.DataObject) -> None:
    whole = path.read_bytes()
    how = data.draw(st.sampled_from(DAMAGE))
    at = data.draw(st.integers(0, len(whole) - 1))
    lines = whole.splitlines(keepends=True)
    if how == "drop":
        path.unlink()
    elif how == "cut":
        path.write_bytes(whole[:at])
    elif how == "alter":
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    elif how == "swap":
        path.write_bytes(b"".join(reversed(lines)))
    else:
        path.write_bytes(whole[:at] + b"\xff{garbage" + whole[at:])


@FEW
@given(run=histories(), data=st.data())
def test_a_file_lost_turns_no_failure_into_a_pass(run, data):
    name = data.draw(st.sampled_from(run.files))
    kept = [event for event in run.events if event.file != name]
    source = "controller" if name.startswith("controller") else "rank"
    verdict = ruled(run, kept, (Blind(source=source, reason=f"{name} is missing", file=name),))[0]
    assert verdict.outcome != "passed"


def test_a_generated_history_is_one_that_a_reader_takes():
    """So that what is shown above is shown for histories as they are on disk."""
    run = Generated(tuple(killed().events), plan(fault()))
    with TemporaryDirectory() as scratch:
        folder = _on_disk(Path(scratch), run)
        assert reader.read(folder).blind == ()
        entries = json.loads((folder / "history" / manifest.NAME).read_text())
        assert {row["name"] for row in entries["files"]} == set(run.files)
