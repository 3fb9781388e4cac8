"""What is read back is what was written; whatever is missing, cut or altered is said, with file and line."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))  # one builder of whole runs serves both rooms

from judge_build import Story, controls, healthy, killed, life, plan

from chaos.errors import CannotWrite, NothingToRun
from chaos.history import manifest, reader
from chaos.judge.judge import judge


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return killed().write(tmp_path)


def files_of(run_dir: Path) -> list[Path]:
    return sorted((run_dir / "history").glob("*.jsonl"))


def verdict_of(run_dir: Path):
    history = reader.read(run_dir)
    return judge(plan(), history.events(), history.blind, controls(), run_id="run-1")[0]


def only(pattern: str, run_dir: Path) -> Path:
    (path,) = (run_dir / "history").glob(pattern)
    return path


# --- whole


def test_a_whole_history_has_no_blind_source_and_all_its_events(run_dir):
    history = reader.read(run_dir)
    assert history.blind == ()
    assert len(list(history.events())) == len(killed().events)
    assert verdict_of(run_dir).outcome == "passed"


def test_events_come_file_after_file_and_inside_a_file_in_order_of_lines(run_dir):
    places = [(event.file, event.line) for event in reader.read(run_dir).events()]
    assert places == sorted(places) and len(set(places)) == len(places)


def test_what_every_step_has_can_be_left_out_and_is_told_by_the_step(run_dir):
    history = reader.read(run_dir)
    told = list(history.events(skip_routine=True))
    phases = {event.data["phase"] for event in told if event.kind == "phase_entered"}
    assert phases == {"init", "rendezvous", "checkpoint_load"}
    assert {event.data["passed"] for event in told if event.kind == "step_done"} == {15}
    assert [event for event in history.events() if event.kind == "step_done"] == [
        event for event in told if event.kind == "step_done"
    ]


def test_one_file_is_open_at_a_time(run_dir, monkeypatch):
    for number in range(64):
        (run_dir / "history" / f"rank-{900 + number}-1.jsonl").write_text("")
    manifest.write(run_dir, run_id="run-1", lives=[])
    held = []
    for _ in reader.read(run_dir).events():
        held.append(len(os.listdir("/proc/self/fd")))
    assert max(held) - min(held) <= 1


def test_a_line_whose_time_runs_back_stays_behind_the_line_before_it(tmp_path):
    story = Story()
    story.ranks("phase_entered", at=2.0, phase="init")
    story.rank(0, "abort_began", at=1.0)
    story.rank(1, "abort_done", at=3.0)
    story.write(tmp_path)
    kinds = [event.kind for event in reader.read(tmp_path).events() if event.rank == 0]
    assert kinds == ["phase_entered", "abort_began"]


def test_events_may_be_read_twice(run_dir):
    history = reader.read(run_dir)
    assert list(history.events()) == list(history.events())


def test_reading_gives_back_every_field(run_dir):
    told = {event.ref: event for event in killed().events}
    for event in reader.read(run_dir).events():
        data = {name: value for name, value in event.data.items() if name != "passed"}  # the reader's own word
        assert told[event.ref] == replace(event, data=data)


# --- the manifest


def test_the_manifest_names_every_file_with_its_writer_and_length(run_dir):
    content = json.loads((run_dir / "history" / manifest.NAME).read_text())
    assert content["schema"] == "nvrx-chaos/manifest/2" and content["run_id"] == "run-1"
    rows = {row["name"]: row for row in content["files"]}
    assert set(rows) == {path.name for path in files_of(run_dir)}
    name = manifest.file_of_life(life(1))
    assert rows[name]["life"] == life(1)
    assert rows[name]["bytes"] == (run_dir / "history" / name).stat().st_size
    assert rows[name]["lines"] == len((run_dir / "history" / name).read_text().splitlines())


def test_a_rank_s_file_that_no_life_names_has_the_writer_that_it_names_itself(tmp_path):
    story = killed()
    story.lives = []
    content = json.loads((story.write(tmp_path) / "history" / manifest.NAME).read_text())
    rows = {row["name"]: row["life"] for row in content["files"]}
    assert rows[manifest.file_of_life(life(1))] == life(1)
    assert rows[only("controller-*", tmp_path).name] is None


def test_the_file_of_a_life_is_named_by_pid_and_start():
    assert manifest.file_of_life("abcdef01-4026531836-77-1234") == "rank-77-1234.jsonl"


def test_no_half_written_manifest_stays_behind(run_dir):
    assert [path.name for path in (run_dir / "history").glob("*partial*")] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "missing"),
        ("", "damaged"),
        ('{"schema": "nvrx-chaos/manifest/2", "files": [', "damaged"),
        ("[]", "damaged"),
        ('{"schema": "nvrx-chaos/manifest/2", "files": 3, "lives": []}', "damaged"),
        ('{"schema": "nvrx-chaos/manifest/2", "files": [{"name": "x"}], "lives": []}', "damaged"),
        (
            '{"schema": "nvrx-chaos/manifest/2", "lives": [], "files": '
            '[{"name": "x", "lines": 1, "bytes": 1, "sha256": "x"}, {"name": "y"}]}',
            "damaged",
        ),
        ('{"schema": "nvrx-chaos/manifest/2", "run_id": 1, "files": [], "lives": []}', "damaged"),
        ('{"schema": "nvrx-chaos/manifest/2", "run_id": "r", "files": [], "lives": [], "judged_by": 1}', "damaged"),
        ('{"schema": "nvrx-chaos/manifest/3", "files": [], "lives": []}', "schema 'nvrx-chaos/manifest/3'"),
    ],
)
def test_without_a_manifest_that_can_be_read_the_run_is_unknown(run_dir, text, words):
    path = run_dir / "history" / manifest.NAME
    path.unlink() if text is None else path.write_text(text)
    (blind,) = reader.read(run_dir).blind
    assert blind.source == "manifest" and words in blind.reason
    assert verdict_of(run_dir).outcome == "unknown"


def test_a_manifest_cut_at_any_line_is_damaged(run_dir):
    path = run_dir / "history" / manifest.NAME
    lines = path.read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        path.write_text("".join(lines[:kept]))
        assert [blind.source for blind in reader.read(run_dir).blind] == ["manifest"]


def test_a_rank_life_without_a_file_is_blind(tmp_path):
    story = killed()
    story.lives.append({"life": life(1, 7), "role": "rank", "rank": 1, "file": None})
    (blind,) = reader.read(story.write(tmp_path)).blind
    assert (blind.source, blind.life, blind.rank) == ("rank", life(1, 7), 1)
    assert "line 1" in blind.reason
    assert verdict_of(tmp_path).outcome == "unknown"


def test_a_launcher_without_a_file_is_not_blind(tmp_path):
    story = killed()
    story.lives.append({"life": "boot0000-1-50-5", "role": "launcher", "rank": None, "file": None})
    assert reader.read(story.write(tmp_path)).blind == ()


def test_a_history_without_the_controllers_file_is_blind_even_if_the_manifest_agrees(tmp_path):
    story = killed()
    story.events = [event for event in story.events if not event.file.startswith("controller")]
    (blind,) = reader.read(story.write(tmp_path)).blind
    assert blind.source == "controller"


def test_a_file_that_the_manifest_does_not_know_is_blind(run_dir):
    (run_dir / "history" / "rank-9-9.jsonl").write_text("")
    (blind,) = reader.read(run_dir).blind
    assert (blind.source, blind.file) == ("rank", "rank-9-9.jsonl")
    assert "another run's" in blind.reason


# --- two runs


def test_what_files_of_another_run_tell_is_not_heard(run_dir, tmp_path_factory):
    before = list(reader.read(run_dir).events())
    for path in files_of(healthy().write(tmp_path_factory.mktemp("other"))):
        shutil.copy(path, run_dir / "history" / f"{path.stem}9.jsonl")
    assert list(reader.read(run_dir).events()) == before
    assert verdict_of(run_dir).outcome == "unknown"


def test_a_history_of_another_run_is_named_before_all_else(run_dir):
    assert reader.read(run_dir, run_id="run-1").blind == ()
    only("rank-101-1000*", run_dir).unlink()
    first, *others = reader.read(run_dir, run_id="run-2").blind
    assert first.source == "manifest" and "run run-1" in first.reason and "run run-2" in first.reason
    assert "two runs" in first.reason and others


def test_two_controllers_are_two_runs_even_if_the_manifest_agrees(run_dir):
    controller = only("controller-*", run_dir)
    shutil.copy(controller, controller.with_name("controller-9-9.jsonl"))
    manifest.write(run_dir, run_id="run-1", lives=killed().lives)
    (blind,) = reader.read(run_dir).blind
    assert blind.source == "manifest" and "two runs" in blind.reason and "controller-9-9.jsonl" in blind.reason
    assert verdict_of(run_dir).outcome == "unknown"


# --- what a run is judged by


@pytest.mark.parametrize(("name", "source"), manifest.JUDGED_BY.items())
@pytest.mark.parametrize(
    ("then", "now", "words"),
    [("a", "b", "altered"), ("a", None, "any more"), (None, "b", "was not there"), ("a", "a", ""), (None, None, "")],
)
def test_a_plan_or_a_control_that_the_run_did_not_have_is_said(tmp_path, name, source, then, now, words):
    if then is not None:
        (tmp_path / name).write_text(then)
    killed().write(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if now is not None:
        (tmp_path / name).write_text(now)
    found = [(blind.source, blind.file, words in blind.reason) for blind in reader.read(tmp_path).blind]
    assert found == ([(source, name, True)] if words else [])


def test_a_manifest_that_was_altered_in_any_byte_is_not_believed(run_dir):
    path = run_dir / "history" / manifest.NAME
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert {blind.source for blind in reader.read(run_dir).blind} >= {"manifest"}, at
    path.write_bytes(whole)
    assert reader.read(run_dir).blind == ()


def test_losing_any_file_is_never_passed_and_names_file_and_line(run_dir):
    for path in files_of(run_dir):
        content = path.read_bytes()
        path.unlink()
        blind = reader.read(run_dir).blind
        assert any(b.file == path.name and b.source in path.name and "line 1" in b.reason for b in blind)
        verdict = verdict_of(run_dir)
        assert verdict.outcome == "unknown" and path.name in verdict.sentence
        path.write_bytes(content)


@pytest.mark.parametrize("ragged", [False, True], ids=["between lines", "inside a line"])
def test_cutting_any_file_at_any_line_blinds_its_source_and_names_file_and_line(run_dir, ragged):
    for path in files_of(run_dir):
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        for kept in range(len(lines)):
            path.write_bytes(b"".join(lines[:kept]) + (lines[kept][:7] if ragged else b""))
            blind = [b for b in reader.read(run_dir).blind if b.file == path.name]
            assert blind and all(b.source == manifest.source_of_file(path.name) for b in blind)
            assert any(f"line {kept + 1}" in b.reason for b in blind), (kept, blind)
        path.write_bytes(content)
    assert reader.read(run_dir).blind == ()


def test_a_run_cut_anywhere_is_never_passed(run_dir):
    for path in files_of(run_dir):
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        for kept in range(0, len(lines), 17):
            path.write_bytes(b"".join(lines[:kept]))
            verdict = verdict_of(run_dir)
            assert verdict.outcome == "unknown" and path.name in verdict.sentence
        path.write_bytes(content)


def test_a_changed_byte_is_noticed(run_dir):
    path = only("rank-101-*", run_dir)
    path.write_bytes(path.read_bytes().replace(b'"step": 46', b'"step": 45', 1))
    (blind,) = reader.read(run_dir).blind
    assert blind.source == "rank" and "altered" in blind.reason and path.name in blind.reason
    assert (blind.life, blind.rank) == (life(1), 1)


def test_a_line_added_after_the_manifest_is_noticed(run_dir):
    path = only("controller-*", run_dir)
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])
    (blind,) = reader.read(run_dir).blind
    assert blind.source == "controller" and "grew" in blind.reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not json", "is not an event"),
        ("[1, 2]", "is not an event"),
        ("{}", "is not an event"),
        ("", "is not an event"),
        ('{"t_ns": "1", "wall_s": 1.0, "kind": "job_started"}', "is not an event"),
        ('{"t_ns": true, "wall_s": 1.0, "kind": "job_started"}', "is not an event"),
        ('{"t_ns": 1, "wall_s": 1.0, "kind": "job_started", "rank": "one"}', "is not an event"),
        ('{"t_ns": 1, "wall_s": 1.0, "kind": "sun_rose", "life": null}', "unknown kind 'sun_rose'"),
        ('{"t_ns": 1, "wall_s": 1.0, "kind": "job_started", "x": "\udcff"}', "is not an event"),
    ],
)
def test_garbage_is_blindness_even_where_the_manifest_agrees(tmp_path, line, words):
    story = killed()
    story.write(tmp_path)
    path = only("rank-100-*", tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], line.encode("utf-8", "surrogateescape") + b"\n", *lines[4:]]))
    manifest.write(tmp_path, run_id="run-1", lives=story.lives)
    (blind,) = reader.read(tmp_path).blind
    assert blind.source == "rank" and f"{path.name} line 5" in blind.reason and words in blind.reason
    assert verdict_of(tmp_path).outcome == "unknown"


def test_a_file_of_garbage_gives_a_few_reasons_and_a_count(run_dir):
    path = only("rank-100-*", run_dir)
    path.write_text("garbage\n" * 1000)
    reasons = [blind.reason for blind in reader.read(run_dir).blind]
    assert len(reasons) < 8 and any("997 more lines" in reason for reason in reasons)


def test_a_folder_in_the_place_of_a_file_is_blindness(run_dir):
    path = only("rank-100-*", run_dir)
    path.unlink()
    path.mkdir()
    assert any(blind.file == path.name and "cannot be read" in blind.reason for blind in reader.read(run_dir).blind)
    list(reader.read(run_dir).events())


@pytest.mark.parametrize("what", ["absent", "without history", "a file"])
def test_where_no_history_is_the_error_says_so(tmp_path, what):
    place = tmp_path / "run"
    if what == "without history":
        place.mkdir()
    elif what == "a file":
        place.write_text("x")
    with pytest.raises(NothingToRun, match="holds no history"):
        reader.read(place)
    with pytest.raises(NothingToRun, match="holds no history"):
        manifest.write(place, run_id="r", lives=[])


def test_a_name_that_is_no_text_is_blindness_that_can_be_written_down(run_dir):
    content = only("rank-100-*", run_dir).read_bytes()
    Path(os.fsdecode(bytes(run_dir / "history") + b"/rank-\xff.jsonl")).write_bytes(content)
    (blind,) = reader.read(run_dir).blind
    assert blind.file.isascii() and "udcff" in blind.reason
    assert verdict_of(run_dir).outcome == "unknown"
    (run_dir / "history" / manifest.NAME).unlink()
    assert all(event.file.isascii() for event in reader.read(run_dir).events())


def test_a_folder_that_cannot_be_listed_is_an_error_and_no_traceback(run_dir, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(CannotWrite, match="Permission denied"):
        reader.read(run_dir)


def test_a_manifest_that_cannot_be_written_is_an_error_and_leaves_the_old_one(run_dir, monkeypatch):
    before = (run_dir / "history" / manifest.NAME).read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="No space left"):
        manifest.write(run_dir, run_id="r", lives=[])
    assert (run_dir / "history" / manifest.NAME).read_bytes() == before


def test_the_names_of_files_do_not_change_the_verdict(tmp_path):
    plain = killed().write(tmp_path / "a")
    story = killed()
    story.write(tmp_path / "b")
    old = only("rank-101-1000*", tmp_path / "b")
    old.rename(old.with_name("rank-999-1.jsonl"))
    for row in story.lives:
        row["file"] = "rank-999-1.jsonl" if row["file"] == old.name else row["file"]
    manifest.write(tmp_path / "b", run_id="run-1", lives=story.lives)
    one, other = verdict_of(plain), verdict_of(tmp_path / "b")
    assert (one.outcome, one.sentence, one.incidents) == (other.outcome, other.sentence, other.incidents)


def test_a_healthy_run_reads_as_clean(tmp_path):
    assert reader.read(healthy().write(tmp_path)).blind == ()
