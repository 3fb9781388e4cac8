"""Recorded runs whose failures are foreseen: judged from their files, and from files that are not whole any more."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import msgspec
import pytest
from foreseen_build import DAY, FAILED, KNOWN, LOST, PASSED, REF, UNKNOWN, expecting, knowing, told
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from judge_build import controls, excepted, fault, healthy, killed, plan, plan_for, plan_of_control, verdict_of

from chaos import conclude
from chaos.cli.main import main
from chaos.history import manifest, reader
from chaos.model.plan import Plan
from chaos.scenario.experiment import experiment

HELD_TO = [
    (killed(), plan(**LOST), FAILED),
    (killed(), expecting("lost_work", **LOST), PASSED),
    (killed(), knowing("lost_work", **LOST), KNOWN),
    (killed(), expecting("lost_work"), FAILED),
    (killed(), knowing("lost_work", until=date(2023, 11, 13), **LOST), FAILED),
    (excepted(), knowing("lost_work", of=plan_for("boom", **LOST)), KNOWN),
    (healthy(), expecting("world_size", of=plan_of_control()), FAILED),
    (healthy(), plan(fault()), UNKNOWN),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Each run as files, with a manifest that knows them."""
    folders = [story.write(tmp_path_factory.mktemp("run")) for story, _, _ in HELD_TO]
    return [{path.name: path.read_bytes() for path in (folder / "history").iterdir()} for folder in folders]


def judged(folder: Path, files: dict[str, bytes], of_plan: Plan) -> tuple[str, bool]:
    """What files give that lie alone in a run directory."""
    history = folder / "history"
    history.mkdir(exist_ok=True)
    for stale in history.iterdir():
        stale.unlink()
    for name, content in files.items():
        (history / name).write_bytes(content)
    read = reader.read(folder)
    events = list(read.events(skip_routine=True))
    return told(verdict_of(events, of_plan, blind=read.blind))


def altered(data: st.DataObject, content: bytes) -> bytes | None:
    """The file after something went wrong with it; None: it is gone."""
    how = data.draw(st.sampled_from(["gone", "cut", "bit", "lost", "twice", "swapped", "said otherwise"]))
    lines = content.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    if how == "gone":
        return None
    if how == "cut":
        return content[: data.draw(st.integers(0, len(content) - 1))]
    if how == "bit":
        place = data.draw(st.integers(0, len(content) - 1))
        return content[:place] + bytes([content[place] ^ 1 << data.draw(st.integers(0, 6))]) + content[place + 1 :]
    if how == "swapped":
        lines[at], lines[at - 1] = lines[at - 1], lines[at]
    elif how == "said otherwise":
        lines[at] = _said_otherwise(data, lines[at])
    else:
        lines[at : at + 1] = [] if how == "lost" else [lines[at], lines[at]]
    return b"".join(lines)


def _said_otherwise(data: st.DataObject, line: bytes) -> bytes:
    """An event that was made to say something else, well-formed."""
    try:
        said = json.loads(line)
    except ValueError:
        return b"{}\n"  # a line of the manifest, which is one document of many lines
    if not isinstance(said, dict):
        return b"{}\n"
    name = data.draw(st.sampled_from(sorted(said)))
    said[name] = data.draw(st.sampled_from([None, 0, 1, 40, 60, 1.7e9, "", "step_done", [], {}, True]))
    return json.dumps(said).encode() + b"\n"


@pytest.mark.parametrize("index", range(len(HELD_TO)))
def test_whole_files_give_what_their_events_give(written, tmp_path, index):
    story, of_plan, expected = HELD_TO[index]
    assert judged(tmp_path, written[index], of_plan) == expected == told(verdict_of(story, of_plan))


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_files_that_are_lost_cut_or_altered_never_make_a_run_passed_or_known(written, tmp_path_factory, data):
    index = data.draw(st.integers(0, len(HELD_TO) - 1))
    name = data.draw(st.sampled_from(sorted(written[index])))
    content = altered(data, written[index][name])
    assume(content != written[index][name])
    files = {**written[index], name: content} if content is not None else without_file(written[index], name)
    _, of_plan, whole = HELD_TO[index]
    outcome = judged(tmp_path_factory.mktemp("altered"), files, of_plan)
    if name == manifest.NAME:  # what it says of the run's name, say, nothing rests on
        assert outcome in (whole, FAILED, UNKNOWN)
    else:
        assert outcome in (FAILED, UNKNOWN)


def without_file(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {other: content for other, content in files.items() if other != name}


# --- the whole way: a run directory, its verdict, its reports, the exit status


def recorded(run_dir: Path, of_plan: Plan) -> Path:
    run_dir.mkdir(exist_ok=True)
    (run_dir / conclude.EXPERIMENT).write_text(json.dumps(experiment(of_plan, "reports/run-1")))
    (run_dir / conclude.CONTROL).write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in controls()))
    return killed().write(run_dir)


def ended_with(*arguments: object) -> object:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.mark.parametrize(("until", "status"), [(DAY, 0), (date(2023, 11, 13), 1)], ids=["known", "past its day"])
def test_a_known_failure_ends_with_0_and_one_past_its_day_with_1_as_often_as_it_is_judged(
    tmp_path, until, status, capsys
):
    run_dir = recorded(tmp_path, knowing("lost_work", until=until, **LOST))
    verdict = conclude.conclude(run_dir)
    assert told(verdict) == (KNOWN if status == 0 else FAILED)
    assert ended_with("judge", run_dir) == status
    shown = capsys.readouterr()
    assert "as recorded" in shown.err and "NOT" not in shown.err
    assert shown.out.splitlines().count("0 passed, 0 failed, 1 known, 0 unknown, 0 not run") == (status == 0)


def test_the_reports_of_a_known_failure_name_the_page_to_read(tmp_path):
    run_dir = recorded(tmp_path, knowing("lost_work", **LOST))
    conclude.conclude(run_dir)
    assert 'type="known"' in (run_dir / conclude.JUNIT).read_text() and REF in (run_dir / conclude.JUNIT).read_text()
    assert (
        "failed (known)" in (run_dir / conclude.REPORT).read_text() and REF in (run_dir / conclude.REPORT).read_text()
    )
    written = json.loads((run_dir / conclude.VERDICT).read_text())
    assert (written["outcome"], written["known"], written["foreseen"]) == ("failed", True, {"lost_work": "known"})


def test_an_expected_failure_ends_with_0_and_its_absence_with_1(tmp_path):
    assert ended_with("judge", recorded(tmp_path / "came", expecting("lost_work", **LOST))) == 0
    assert ended_with("judge", recorded(tmp_path / "missing", expecting("lost_work"))) == 1
