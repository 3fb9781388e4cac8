"""Whose history file the manifest asks for."""

from __future__ import annotations

import pytest

from chaos.model.events import Event
from chaos.session.lives import LivesSeen

SPOKE, SILENT = "boot-1-11-100", "boot-1-12-101"


def event(kind: str, life: str, **data: object) -> Event:
    return Event(t_ns=0, wall_s=0.0, kind=kind, life=life, rank=1, initial_rank=1, data=data)


@pytest.fixture
def seen(tmp_path):
    (tmp_path / "history").mkdir()
    lives = LivesSeen()
    for life in (SPOKE, SILENT):
        lives.feed(event("process_appeared", life, role="rank"))
    lives.feed(event("rank_started", SPOKE))
    lives.feed(event("process_appeared", "boot-1-10-99", role="launcher"))
    return lives


def files(rows):
    return {row["life"]: row["file"] for row in rows if row["role"] == "rank"}


def test_a_rank_that_never_wrote_a_file_is_named_without_one(seen, tmp_path):
    (tmp_path / "history" / "rank-11-100.jsonl").touch()
    rows = seen.for_manifest(tmp_path, stopped_by_us=False)
    assert files(rows) == {SPOKE: "rank-11-100.jsonl", SILENT: None}


def test_a_rank_that_we_stopped_while_it_started_has_nothing_to_be_asked_for(seen, tmp_path):
    (tmp_path / "history" / "rank-11-100.jsonl").touch()
    assert files(seen.for_manifest(tmp_path, stopped_by_us=True)) == {SPOKE: "rank-11-100.jsonl"}


def test_a_rank_that_spoke_and_lost_its_file_is_asked_for_whoever_stopped_the_job(seen, tmp_path):
    assert files(seen.for_manifest(tmp_path, stopped_by_us=True)) == {SPOKE: None}


@pytest.mark.parametrize(
    "role, name", [("launcher", "launcher"), ("rank_monitor", "monitor"), ("in_process_monitor", "monitor")]
)
def test_a_helper_that_spoke_has_its_file_and_one_that_did_not_needs_none(seen, tmp_path, role, name):
    for life in ("boot-1-20-200", "boot-1-21-201"):
        seen.feed(event("process_appeared", life, role=role, of_rank=1))
    (tmp_path / "history" / f"{name}-20-200.jsonl").touch()
    rows = [row for row in seen.for_manifest(tmp_path, stopped_by_us=False) if row["life"] in HELPED]
    assert rows == [
        {"life": "boot-1-20-200", "role": role, "rank": 1, "file": f"{name}-20-200.jsonl"},
        {"life": "boot-1-21-201", "role": role, "rank": 1, "file": None},
    ]


def test_what_never_speaks_is_not_in_the_manifest(seen, tmp_path):
    seen.feed(event("process_appeared", "boot-1-20-200", role="checkpoint_writer", of_rank=1))
    assert "boot-1-20-200" not in {row["life"] for row in seen.for_manifest(tmp_path, stopped_by_us=False)}


HELPED = {"boot-1-20-200", "boot-1-21-201"}
