"""Paths: a folder gives its scenarios, and what gives none says what was found instead."""

from __future__ import annotations

import pytest
from scenario_build import SHORTEST, edited

from chaos.errors import NothingToRun
from chaos.scenario.discover import find_files


def put(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def test_a_folder_gives_its_scenario_files_in_order_of_name(tmp_path):
    put(tmp_path, b=SHORTEST, a=SHORTEST, defaults="job: {steps: 90}\n", notes="hello: there\n")
    (tmp_path / "c.txt").write_text(SHORTEST)
    assert [file.name for file in find_files([tmp_path])] == ["a.yaml", "b.yaml"]


def test_defaults_that_say_what_they_are_are_no_scenario(tmp_path):
    put(tmp_path, a=SHORTEST, defaults="schema: nvrx-chaos/defaults/1\n")
    assert [file.name for file in find_files([tmp_path])] == ["a.yaml"]


def test_a_scenario_with_a_slip_in_its_schema_line_is_not_passed_over(tmp_path):
    put(tmp_path, a=SHORTEST, b=edited(SHORTEST, ("scenario/1", "scenaro/1")))
    assert [file.name for file in find_files([tmp_path])] == ["a.yaml", "b.yaml"]


def test_a_file_that_cannot_be_looked_into_is_not_passed_over(tmp_path, monkeypatch):
    put(tmp_path, a=SHORTEST)

    def refuses(*_):
        raise PermissionError

    monkeypatch.setattr(type(tmp_path), "open", refuses)
    assert [file.name for file in find_files([tmp_path])] == ["a.yaml"]


def test_the_schema_line_may_come_after_others_and_be_quoted(tmp_path):
    put(tmp_path, a='# a note\nname: x\n"schema": "nvrx-chaos/scenario/1"\n')
    assert len(find_files([tmp_path])) == 1


def test_a_file_given_is_taken_whatever_it_says(tmp_path):
    put(tmp_path, notes="hello: there\n")
    assert find_files([tmp_path / "notes.yaml"]) == [tmp_path / "notes.yaml"]


def test_a_file_given_twice_runs_once(tmp_path):
    put(tmp_path, a=SHORTEST)
    assert find_files([tmp_path / "a.yaml", tmp_path]) == [tmp_path / "a.yaml"]


def test_a_folder_without_scenarios_says_what_it_holds(tmp_path):
    put(tmp_path, notes="hello: there\n")
    (tmp_path / "a.yml").write_text(SHORTEST)
    with pytest.raises(NothingToRun, match=r"no \*\.yaml file with a line `schema: .*found: a\.yml, notes\.yaml"):
        find_files([tmp_path])


def test_an_empty_folder_says_so(tmp_path):
    with pytest.raises(NothingToRun, match="found: nothing"):
        find_files([tmp_path])


def test_a_folder_of_folders_names_one_that_holds_scenarios(tmp_path):
    (tmp_path / "quick").mkdir()
    put(tmp_path / "quick", a=SHORTEST)
    with pytest.raises(NothingToRun, match=r"give a folder that holds scenarios, such as .*quick"):
        find_files([tmp_path])


def test_a_path_that_is_not_there_names_the_nearest(tmp_path):
    put(tmp_path, **{"kill-worker": SHORTEST})
    with pytest.raises(NothingToRun, match=r'there is no such file or folder; did you mean "kill-worker\.yaml"\?'):
        find_files([tmp_path / "kil-worker.yaml"])


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_an_impossible_path_is_answered(path):
    with pytest.raises(NothingToRun):
        find_files([path])


def test_no_path_at_all_is_answered():
    with pytest.raises(NothingToRun, match="no path given"):
        find_files([])
