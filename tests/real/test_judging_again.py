"""A recorded run whose evidence is lost, cut or altered: never passed, and the verdict says which file is to blame."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from real_runs import all_words, check

from chaos import conclude
from chaos.history.manifest import write as write_manifest
from chaos.model.verdict import Verdict

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

RANDOM_CUTS = 20
RANDOM_BYTES = 20


@pytest.fixture
def copy(killed_run, tmp_path):
    """A copy of a run that passed, and still passes when nothing is changed."""
    copied = tmp_path / killed_run.name
    shutil.copytree(killed_run, copied, ignore=shutil.ignore_patterns("job"))
    assert conclude.judge_run(copied)[0].outcome == "passed"
    return copied


def history_files(run_dir: Path) -> list[Path]:
    found = sorted((run_dir / "history").glob("*.jsonl"))
    assert len(found) >= 4, "the controller's, two ranks before the fault, one or two after it"
    return found


def words_of(verdict: Verdict) -> str:
    return "\n".join([verdict.sentence, *(each.observed for each in verdict.checks)])


def assert_not_passed(run_dir: Path, file: Path, what: str) -> None:
    verdict = conclude.judge_run(run_dir)[0]
    assert verdict.outcome != "passed", f"{file.name} {what}: {verdict.sentence}"
    assert file.name in words_of(verdict), f"{file.name} {what} is not named: {verdict.sentence}"


def test_a_run_that_lost_any_one_file_is_not_passed(copy):
    for file in history_files(copy):
        content = file.read_bytes()
        file.unlink()
        assert_not_passed(copy, file, "lost")
        file.write_bytes(content)


def test_a_run_that_lost_its_manifest_is_not_passed(copy):
    manifest = copy / "history" / "MANIFEST.json"
    manifest.unlink()
    assert_not_passed(copy, manifest, "lost")


def test_a_run_whose_manifest_forgets_a_file_that_is_lost_too_is_not_passed(copy):
    """Both gone together: only the lives that were seen tell that a file must have been there."""
    manifest = copy / "history" / "MANIFEST.json"
    for file in [path for path in history_files(copy) if path.name.startswith("rank")]:
        whole, content = manifest.read_bytes(), file.read_bytes()
        said = json.loads(whole)
        file.unlink()
        write_manifest(copy, run_id=said["run_id"], lives=said["lives"])
        assert_not_passed(copy, file, "lost with its line in the manifest")
        manifest.write_bytes(whole)
        file.write_bytes(content)


def test_a_run_with_a_file_cut_at_any_line_is_not_passed(copy):
    rng = random.Random(7391)
    for file in history_files(copy):
        content = file.read_bytes()
        lines = content.splitlines(keepends=True)
        few = {0, 1, 2, len(lines) - 2, len(lines) - 1} | {rng.randrange(len(lines)) for _ in range(RANDOM_CUTS)}
        for kept in sorted(few & set(range(len(lines)))):
            file.write_bytes(b"".join(lines[:kept]))
            assert_not_passed(copy, file, f"cut after line {kept} of {len(lines)}")
        file.write_bytes(content)


@pytest.mark.slow
def test_a_run_with_the_controllers_file_cut_at_every_line_is_not_passed(copy):
    file = next(path for path in history_files(copy) if path.name.startswith("controller"))
    lines = file.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines)):
        file.write_bytes(b"".join(lines[:kept]))
        assert_not_passed(copy, file, f"cut after line {kept} of {len(lines)}")


def test_a_run_with_a_file_cut_inside_a_line_is_not_passed(copy):
    rng = random.Random(7392)
    for file in history_files(copy):
        content = file.read_bytes()
        for kept in sorted(rng.randrange(1, len(content)) for _ in range(3)):
            file.write_bytes(content[:kept])
            assert_not_passed(copy, file, f"cut at byte {kept} of {len(content)}")
        file.write_bytes(content)


def test_a_run_with_one_byte_altered_is_not_passed(copy):
    rng = random.Random(7393)
    for file in history_files(copy):
        content = file.read_bytes()
        for place in sorted(rng.randrange(len(content)) for _ in range(RANDOM_BYTES // 4)):
            altered = bytearray(content)
            altered[place] ^= 1 << rng.randrange(7)
            file.write_bytes(bytes(altered))
            assert_not_passed(copy, file, f"altered at byte {place}")
        file.write_bytes(content)


def test_a_run_with_lines_of_another_run_in_its_history_is_not_passed(copy, quick):
    other = Path(quick["control"]["run_dir"])
    stranger = next((other / "history").glob("rank*.jsonl"))
    shutil.copy(stranger, copy / "history")
    assert_not_passed(copy, stranger, "is not this run's")


def test_what_is_not_passed_does_not_end_with_status_0(copy, place):
    history_files(copy)[-1].unlink()
    ended = place.cli("judge", copy)
    assert ended.status in (1, 3)
    assert "NOT as recorded (recorded: passed)" in ended.err


def test_an_objective_of_a_tenth_of_the_measured_recovery_fails(copy, place):
    recorded = json.loads((copy / "verdict.json").read_text())
    experiment = json.loads((copy / "experiment.json").read_text())
    objective = experiment["configuration"]["plan"]["objective"]
    objective["recovery_time_s"] = recorded["incidents"][0]["recovery_time_s"] / 10
    (copy / "experiment.json").write_text(json.dumps(experiment))
    ended = place.cli("judge", copy, "--json")
    verdict = json.loads(ended.out)["verdicts"][0]
    assert (ended.status, verdict["outcome"]) == (1, "failed"), all_words(verdict)
    assert check(verdict, "recovered_in_time")["outcome"] == "fail"


def test_a_folder_that_is_no_run_is_refused_in_words(place, tmp_path):
    ended = place.cli("judge", tmp_path)
    assert ended.status == 2
    assert "is not a run directory" in ended.err
