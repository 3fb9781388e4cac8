"""A file is written whole or not at all, and what went wrong is said with its exit status."""

from __future__ import annotations

import errno
import os

import pytest

from chaos import files
from chaos.errors import CannotCreate, CannotWrite


def test_the_new_text_replaces_the_old_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "verdict.json"
    files.write_atomically(path, "old")
    files.write_atomically(path, "n\u00e9w")
    assert path.read_text(encoding="utf-8") == "n\u00e9w" and os.listdir(tmp_path) == ["verdict.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    "number, kind, status",
    [(errno.ENOSPC, CannotWrite, 74), (errno.EDQUOT, CannotWrite, 74), (errno.EACCES, CannotCreate, 73)],
)
def test_a_write_that_fails_leaves_the_old_file_and_no_half_one(tmp_path, monkeypatch, step, number, kind, status):
    path = tmp_path / "verdict.json"
    path.write_text("old")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(kind, match=r"verdict\.json") as caught:
        files.write_atomically(path, "new")
    assert caught.value.exit_status == status and caught.value.remedy
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["verdict.json"]


def test_a_folder_that_is_missing_cannot_be_written_into(tmp_path):
    with pytest.raises(CannotCreate, match="No such file"):
        files.write_atomically(tmp_path / "no" / "x", "")


def test_a_target_that_is_a_folder_is_refused(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(CannotCreate):
        files.write_atomically(tmp_path / "x", "text")
    assert os.listdir(tmp_path) == ["x"]


def test_a_folder_is_made_with_its_parents_and_may_be_there_already(tmp_path):
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_below_a_file_cannot_be_made_and_the_way_out_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotCreate, match="--out"):
        files.make_folder(tmp_path / "file" / "b")
