"""A run directory is judged as the run that it is, wherever it lies; what is mixed of two runs is no evidence."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent / "judge"))

from judge_build import controls, killed, plan

from chaos import conclude
from chaos.cli.main import main
from chaos.errors import CannotWrite
from chaos.history import manifest
from chaos.scenario.experiment import experiment


def recorded(run_dir: Path) -> Path:
    """A run that passed, in a folder with the name of the run."""
    run_dir.mkdir(parents=True)
    (run_dir / conclude.EXPERIMENT).write_text(json.dumps(experiment(plan(), str(run_dir))))
    (run_dir / conclude.CONTROL).write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in controls()))
    story = killed()
    story.write(run_dir)
    manifest.write(run_dir, run_id=run_dir.name, lives=story.lives)
    assert conclude.conclude(run_dir).outcome == "passed"
    return run_dir


@pytest.fixture
def run_dir(tmp_path):
    return recorded(tmp_path / "run-1")


@pytest.fixture
def other(tmp_path):
    return recorded(tmp_path / "run-2")


def judged(run_dir):
    return conclude.judge_run(run_dir)[0]


def ended_with(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def test_a_run_directory_of_another_name_is_judged_as_the_run_that_it_is(run_dir, tmp_path, capsys):
    shutil.copytree(run_dir, tmp_path / "kept for later")
    assert judged(tmp_path / "kept for later") == judged(run_dir)
    assert ended_with("judge", tmp_path / "kept for later") == 0
    assert "passed, as recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    "mixed",
    [["history"], ["experiment.json"], ["history", "control.jsonl"], ["experiment.json", "control.jsonl"]],
    ids="+".join,
)
def test_a_run_mixed_of_two_is_unknown_and_says_so_though_either_passed(run_dir, other, mixed):
    for name in mixed:
        if name == "history":
            shutil.rmtree(run_dir / name)
            shutil.copytree(other / name, run_dir / name)
        else:
            shutil.copy(other / name, run_dir / name)
    verdict = judged(run_dir)
    assert verdict.outcome == "unknown" and not verdict.known
    assert "files of two runs are mixed" in verdict.sentence
    assert not [check for check in verdict.checks if check.outcome == "fail"]
    assert not conclude.control_witness(run_dir).clean


def test_another_run_s_manifest_beside_this_run_s_files_is_unknown(run_dir, other):
    shutil.copy(other / "history" / manifest.NAME, run_dir / "history")
    assert judged(run_dir).outcome == "unknown"
    assert "run run-2" in judged(run_dir).sentence


def change(run_dir, **objective):
    path = run_dir / conclude.EXPERIMENT
    content = json.loads(path.read_text())
    content["configuration"]["plan"]["objective"] |= objective
    path.write_text(json.dumps(content))


def test_a_plan_that_was_made_milder_after_the_run_passes_nothing(run_dir):
    change(run_dir, lost_steps=1000)
    verdict = judged(run_dir)
    assert verdict.outcome == "unknown" and "experiment.json was altered after the run" in verdict.sentence


def test_a_plan_that_was_made_stricter_after_the_run_still_fails(run_dir):
    change(run_dir, recovery_time_s=0.001)
    assert judged(run_dir).outcome == "failed"


@pytest.mark.parametrize("left", ["", "first line"])
def test_fault_free_runs_that_were_altered_are_no_witness(run_dir, left):
    path = run_dir / conclude.CONTROL
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] if left else b"")
    verdict = judged(run_dir)
    assert verdict.outcome == "unknown" and "control.jsonl was altered" in verdict.sentence


def test_a_plan_of_a_newer_schema_is_refused_in_words(run_dir):
    path = run_dir / conclude.EXPERIMENT
    path.write_text(path.read_text().replace("nvrx-chaos/plan/1", "nvrx-chaos/plan/2"))
    with pytest.raises(CannotWrite, match="nvrx-chaos/plan/2"):
        judged(run_dir)


@pytest.mark.parametrize("field", ["nodes", "ranks_per_node", "steps"])
@pytest.mark.parametrize("value", [0, -1, 1 << 61])
def test_a_plan_of_a_size_that_no_job_has_is_refused_in_words(run_dir, field, value):
    path = run_dir / conclude.EXPERIMENT
    content = json.loads(path.read_text())
    content["configuration"]["plan"]["job"][field] = value
    path.write_text(json.dumps(content))
    with pytest.raises(CannotWrite, match="holds no plan that this version reads"):
        judged(run_dir)


def test_the_verdict_of_another_run_is_not_shown_for_this_one(run_dir, other, capsys):
    shutil.copy(other / conclude.VERDICT, run_dir)
    assert ended_with("report", run_dir) == 74
    assert "verdict of run run-2" in capsys.readouterr().err
    assert ended_with("judge", run_dir) == 0
    assert "passed, NOT as recorded" in capsys.readouterr().err


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b'{"schema": "nvrx-chaos/verdict/1"}'])
def test_a_run_is_judged_beside_a_verdict_that_cannot_be_read(run_dir, text, capsys):
    (run_dir / conclude.VERDICT).write_bytes(text)
    assert ended_with("judge", run_dir) == 0
    assert "passed, NOT as recorded" in capsys.readouterr().err
    assert ended_with("report", run_dir) == 74


def test_a_verdict_of_a_newer_schema_is_not_shown(run_dir, capsys):
    path = run_dir / conclude.VERDICT
    path.write_text(path.read_text().replace("nvrx-chaos/verdict/1", "nvrx-chaos/verdict/2"))
    assert ended_with("report", run_dir) == 74
    assert "nvrx-chaos/verdict/2" in capsys.readouterr().err


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name", ["experiment.json", "control.jsonl", "history/MANIFEST.json", "history/controller-40-4.jsonl"]
)
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(run_dir, name):
    (run_dir / name).unlink(missing_ok=True)
    os.mkfifo(run_dir / name)
    try:
        verdict = judged(run_dir)
    except CannotWrite as error:
        assert name in error.message and "no plain file" in error.message
    else:
        assert verdict.outcome == "unknown" and Path(name).name in verdict.sentence
