"""What is kept of a run is whole, small, free of the machine it was made on; and a changed one is as whole."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from judging import Judging
from mutant import Mutant, broken_history
from recorded_runs import TWINS
from recording import FOLDER, SIZE_MAX, _neutral, packed
from tale import Tale
from zoo import MUTANTS

from chaos.history import reader

RECORDINGS = sorted({*TWINS, *(mutant.name for mutant in MUTANTS if mutant.defect)})
HISTORIES = [mutant for mutant in MUTANTS if mutant.edit]
of_each_recording = pytest.mark.parametrize("name", RECORDINGS)
A_PLACE = re.compile(rb"/(?:work|home|root|tmp|usr|opt)/")


@pytest.fixture(scope="module")
def judging(tmp_path_factory) -> Judging:
    return Judging(tmp_path_factory.mktemp("recordings"))


def test_they_are_of_twins_and_broken_jobs_and_there_are_no_others():
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(packed(name).name for name in RECORDINGS)


@of_each_recording
def test_a_recording_is_small(name: str):
    assert packed(name).stat().st_size <= SIZE_MAX


@of_each_recording
def test_a_recording_names_no_place_of_the_machine(name: str):
    with tarfile.open(packed(name)) as archive:
        contents = [(member.name, archive.extractfile(member).read()) for member in archive]
    assert {"experiment.json", "history/MANIFEST.json"} <= {file for file, _ in contents}
    assert [(file, found.group()) for file, text in contents if (found := A_PLACE.search(text))] == []


@of_each_recording
def test_a_tale_told_again_unchanged_has_the_same_lines(judging: Judging, tmp_path: Path, name: str):
    recorded = judging.recorded(name)
    again = Tale(recorded.write(tmp_path / "again"))
    assert again.files == recorded.files and again.plan == recorded.plan
    assert reader.read(tmp_path / "again").blind == ()


@pytest.mark.parametrize("mutant", HISTORIES, ids=lambda mutant: mutant.name)
def test_a_broken_history_is_whole_and_another_than_its_twin(judging: Judging, mutant: Mutant):
    run_dir = judging.history_of(mutant)
    assert reader.read(run_dir).blind == ()
    changed, twin = Tale(run_dir), judging.recorded(mutant.twin)
    assert (changed.files, changed.plan["faults"]) != (twin.files, twin.plan["faults"])


def test_a_path_that_is_left_in_a_recording_is_refused():
    assert _neutral(b'{"text": "at /home/x/y"}', {b"/home/x": b"HOME"}) == b'{"text": "at HOME/y"}'
    with pytest.raises(AssertionError, match="a path of this machine is left"):
        _neutral(b'{"text": "at /home/x/y"}', {})


def test_a_mutant_that_no_check_has_to_find_is_refused():
    def unbroken(tale: Tale) -> None:
        """Nothing is broken."""

    with pytest.raises(AssertionError, match="no check is named"):
        broken_history(unbroken)
