"""A fault-free run bears witness only when nothing at all happened to it."""

from __future__ import annotations

import pytest
from judge_build import SETTINGS, STEPS, Story, changed, control_run, excepted, healthy, killed, loss_of, without

from chaos.judge.control import control_of
from chaos.judge.record import Record
from chaos.model.events import Blind


def test_a_clean_run_gives_losses_digests_and_settings():
    witness = control_run()
    assert witness.clean and witness.unclean_why == ""
    assert witness.losses["17"] == loss_of(17) and len(witness.losses) == STEPS
    assert set(witness.digests) == {"20/0", "20/1", "40/0", "40/1", "end/0", "end/1"}
    assert witness.settings == SETTINGS


def told(events) -> Story:
    story = Story()
    story.events = events
    return story


UNCLEAN = {
    "not without faults": lambda: killed(),
    "fault_armed": lambda: _with("fault_armed", fault="x"),
    "interruption_reported": lambda: _with("interruption_reported", source="x", marker="y", text="z"),
    "worker_failed": lambda: _with("worker_failed", local_rank=0),
    "restart_entered": lambda: told(without(excepted(), "fault_fired", "fault_confirmed", "interruption_reported",
                                            "abort_began")),
    "step 30 was not done": lambda: told(without(healthy(), "step_done", where=lambda e: e.data["step"] == 30
                                                 and e.rank == 1)),
    "not every rank": lambda: told(without(healthy(), "rank_finished", where=lambda e: e.rank == 1)),
    "did not end by itself": lambda: told(changed(healthy(), "job_finished", code=1)),
    "losses were not all seen": lambda: told(changed(healthy(), "step_done", loss=None)),
    "0 process groups": lambda: Story().start().end(),
    "in a group without a name": lambda: told(changed(healthy(), "step_done", group=None)),
}  # fmt: skip


def _with(kind: str, **data) -> Story:
    story = healthy()
    story.rank(0, kind, at=1.5, **data)
    return story


@pytest.mark.parametrize("words", UNCLEAN, ids=lambda words: words.replace(" ", "-"))
def test_anything_that_happened_makes_it_no_witness(words):
    witness = control_run(UNCLEAN[words]())
    assert not witness.clean and words in witness.unclean_why


def test_a_control_with_a_blind_source_is_no_witness():
    blind = [Blind(source="rank", reason="cut before line 9")]
    witness = control_of(Record(healthy().events), blind, run_id="c", path="c", world_size=2, steps=STEPS)
    assert not witness.clean and "cut before line 9" in witness.unclean_why


def test_fewer_steps_than_planned_are_no_witness():
    witness = control_of(Record(healthy().events), (), run_id="c", path="c", world_size=2, steps=STEPS + 1)
    assert not witness.clean
