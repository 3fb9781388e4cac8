"""Every process of a real job under NVRx is told: what it is, whose it is, how it ended and who says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from real_runs import check, events

from chaos.model.events import Event

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

EXCEPTION, KILL = "exception-in-backward[rank=1]", "kill-worker[rank=1]"
both = pytest.mark.parametrize("name", [EXCEPTION, KILL])
RANKS = range(2)


@dataclass(frozen=True)
class Seen:
    """What the controller told of one run."""

    appeared: list[Event]
    ends: dict[str | None, Event]
    told: list[Event]

    def count(self, role: str, *, rank: int | None = None, of_rank: int | None = None) -> int:
        found = Counter((event.data["role"], event.rank, event.data["of_rank"]) for event in self.appeared)
        return found[role, rank, of_rank]


@pytest.fixture(scope="session")
def seen(quick: Mapping[str, Mapping[str, Any]]) -> Callable[[str], Seen]:
    def seen(name: str) -> Seen:
        told = [event for event in events(Path(quick[name]["run_dir"])) if event.file.startswith("controller-")]
        ends = [event for event in told if event.kind == "process_exited"]
        assert len({event.life for event in ends}) == len(ends), "an end was told twice"
        appeared = [event for event in told if event.kind == "process_appeared"]
        return Seen(appeared, {event.life: event for event in ends}, told)

    return seen


@both
def test_launcher_rank_monitors_and_checkpoint_writers_are_told_apart(seen, name):
    run = seen(name)
    assert run.count("launcher") == 1 and run.count("rank_monitor") == len(RANKS)
    assert all(run.count("checkpoint_writer", of_rank=rank) >= 1 for rank in RANKS)


def test_each_rank_has_one_in_process_monitor_where_that_layer_is_on(seen):
    run = seen(EXCEPTION)
    assert [run.count("in_process_monitor", of_rank=rank) for rank in RANKS] == [1, 1]
    assert [run.count("rank", rank=rank) for rank in RANKS] == [1, 1]


def test_without_that_layer_there_is_none_and_a_restart_makes_new_ranks(seen):
    run = seen(KILL)
    assert not any(event.data["role"] == "in_process_monitor" for event in run.appeared)
    assert [run.count("rank", rank=rank) for rank in RANKS] == [2, 2]


@both
def test_what_ranks_make_is_never_taken_for_a_rank(seen, name):
    run = seen(name)
    launcher = next(event.data["pid"] for event in run.appeared if event.data["role"] == "launcher")
    assert {event.data["ppid"] for event in run.appeared if event.data["role"] == "rank"} == {launcher}


@both
def test_every_process_has_ended_with_a_status_and_its_source_and_no_two_sources_disagree(seen, name):
    run = seen(name)
    assert {event.life for event in run.appeared} == set(run.ends)
    for end in run.ends.values():
        assert end.data["source"] in ("child", "pidfd", "connector"), end
        assert (end.data["code"] is None) != (end.data["signal"] is None), end
    assert [event.data for event in run.told if event.kind == "source_blind"] == []


def test_the_rank_that_was_killed_is_the_one_whose_end_says_so(seen):
    run = seen(KILL)
    ranks = [event for event in run.appeared if event.data["role"] == "rank"]
    assert [event.rank for event in ranks if run.ends[event.life].data["signal"] == 9] == [1]


@both
def test_every_checkpoint_that_was_committed_was_seen_whole_on_disk(quick, seen, name):
    looks = [event for event in seen(name).told if event.kind == "checkpoint_seen"]
    assert {event.data["step"] for event in looks} >= {100, 120}
    assert all(event.data["problem"] == "" and event.data["verified"] for event in looks)
    assert "seen whole from outside" in check(quick[name]["verdict"], "checkpoint_integrity")["observed"]


@both
def test_memory_of_every_rank_is_measured(seen, name):
    run = seen(name)
    samples = [event.data["rss_bytes"] for event in run.told if event.kind == "memory_measured"]
    measured = {life for sample in samples for life, size in sample.items() if size and size > 50 << 20}
    assert measured >= {event.life for event in run.appeared if event.data["role"] == "rank"}
