"""A history read while it is written: whole lines only, every file, in order of time."""

from __future__ import annotations

import json

import pytest

from chaos.history.follow import Follower, as_event
from chaos.model.events import HEADER


def line(t_s, kind="step_done", **fields):
    head = dict.fromkeys(HEADER) | {"t_ns": int(t_s * 1e9), "wall_s": t_s, "life": "a-1-2-3", "kind": kind}
    return json.dumps({**head, **fields}).encode() + b"\n"


@pytest.fixture
def follower(tmp_path):
    return Follower(tmp_path)


def add(tmp_path, name, raw):
    with open(tmp_path / name, "ab") as file:
        file.write(raw)


def steps(events):
    return [event.data["step"] for event in events]


def test_a_half_written_line_is_kept_until_it_is_whole(follower, tmp_path):
    whole = line(1, step=1)
    add(tmp_path, "rank-1.jsonl", whole[:30])
    assert follower.poll() == []
    add(tmp_path, "rank-1.jsonl", whole[30:-1])
    assert follower.poll() == []
    add(tmp_path, "rank-1.jsonl", b"\n" + line(2, step=2)[:10])
    (event,) = follower.poll()
    assert (event.data, event.ref) == ({"step": 1}, "rank-1.jsonl:1")
    add(tmp_path, "rank-1.jsonl", line(2, step=2)[10:])
    (event,) = follower.poll()
    assert event.ref == "rank-1.jsonl:2"


def test_each_event_is_given_once(follower, tmp_path):
    add(tmp_path, "rank-1.jsonl", line(1, step=1))
    assert steps(follower.poll()) == [1] and follower.poll() == []


def test_many_files_are_merged_in_order_of_time(follower, tmp_path):
    add(tmp_path, "rank-1.jsonl", line(1, step=1) + line(4, step=4))
    add(tmp_path, "rank-2.jsonl", line(3, step=3) + line(5, step=5))
    add(tmp_path, "controller-9.jsonl", line(2, step=2))
    assert steps(follower.poll()) == [1, 2, 3, 4, 5]


def test_events_of_one_moment_keep_the_order_of_their_file(follower, tmp_path):
    add(tmp_path, "rank-1.jsonl", b"".join(line(1, step=step) for step in range(20)))
    assert steps(follower.poll()) == list(range(20))


def test_of_steps_in_a_row_the_first_and_the_last_are_given_and_none_before_an_event_is_lost(follower, tmp_path):
    def compact(*arguments, **fields):
        return json.dumps(json.loads(line(*arguments, **fields)), separators=(",", ":")).encode() + b"\n"

    def phase(t_s):
        return compact(t_s, "phase_entered", phase="forward", step=0)

    told = [phase(0.5), *(compact(1 + step, step=step) for step in range(4)), phase(6)]
    told += [compact(7, "fault_fired", fault="kill"), compact(8, step=4), phase(9), compact(10, step=5)]
    add(tmp_path, "rank-1-2.jsonl", b"".join(told))
    seen = [(event.kind, event.data.get("step"), event.line) for event in follower.poll()]
    steps_seen = [("step_done", 0, 2), ("step_done", 3, 5), ("step_done", 4, 8), ("step_done", 5, 10)]
    assert seen == [*steps_seen[:2], ("fault_fired", None, 7), *steps_seen[2:]]


def test_a_file_that_appears_later_is_read_from_its_beginning(follower, tmp_path):
    add(tmp_path, "rank-1.jsonl", line(1, step=1))
    follower.poll()
    add(tmp_path, "rank-2.jsonl", line(0.5, step=7))
    assert steps(follower.poll()) == [7]


def test_other_files_are_not_read(follower, tmp_path):
    add(tmp_path, "MANIFEST.json", line(1, step=1))
    add(tmp_path, "rank-1.jsonl.tmp", line(1, step=1))
    assert follower.poll() == []


def test_a_folder_that_is_not_there_yet_has_no_events(tmp_path):
    late = Follower(tmp_path / "history")
    assert late.poll() == []
    (tmp_path / "history").mkdir()
    add(tmp_path / "history", "rank-1.jsonl", line(1, step=1))
    assert steps(late.poll()) == [1]


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage", b"[]", b"null", b"7", b'"text"', b"{}", b'{"kind":"step_done"}', b"\xff\xfe", b"",
        line(1, kind="step_wished_for").strip(), b'{"kind":["step_done"]}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_event_is_passed_over_and_counted(follower, tmp_path, raw):
    add(tmp_path, "rank-1.jsonl", raw + b"\n" + line(1, step=1))
    (event,) = follower.poll()
    assert event.line == 2


def test_header_and_own_fields_are_told_apart():
    event = as_event(line(1.5, rank=3, initial_rank=1, group="g", reentry=2, step=9, loss="0x1p+0").strip(), "f", 4)
    assert (event.t_ns, event.rank, event.initial_rank, event.group, event.reentry) == (1_500_000_000, 3, 1, "g", 2)
    assert event.data == {"step": 9, "loss": "0x1p+0"} and event.ref == "f:4"
