"""What a rank writes: header fields, phases, steps, reentries; and nothing at all when it is not watched."""

from __future__ import annotations

import os

import pytest
from agent_build import SETTINGS, Store, enter_rank, events, kinds_of, lines_of

import chaos.agent as agent
from chaos.agent.core import Agent
from chaos.history.writer import this_life
from chaos.model.events import HEADER, KINDS


def test_nothing_is_written_when_the_job_was_not_started_by_us(run_dir, monkeypatch):
    monkeypatch.delenv("NVRX_CHAOS_DIR")
    assert not agent.active()
    enter_rank(agent)
    agent.group_ready(Store(), rank=0, world_size=1, backend="gloo")
    agent.enter("forward", 1)
    agent.point("before_rename")
    agent.watch(object(), object(), first_step=0)
    agent.step_done(1, loss=1.0, lr=0.1, grad_norm=1.0, samples=(0, 8))
    agent.emit("checkpoint_began", step=1, path="x")
    agent.finished(1)
    assert agent._agent is None and lines_of(run_dir) == []


def test_a_life_begins_with_who_it_is_and_its_settings(run_dir):
    enter_rank(agent, iteration=0)
    first, second, third = lines_of(run_dir)
    assert (first["kind"], second["kind"], third["kind"]) == ("rank_started", "settings_seen", "phase_entered")
    assert second["settings"] == SETTINGS and third["phase"] == "init" and third["step"] is None
    assert (first["pid"], first["ppid"]) == (os.getpid(), os.getppid())
    assert first["launcher"].split("-")[2] == str(os.getppid())
    assert first["reported_restart"] == {"iteration": 0} and set(first["versions"]) >= {"python", "torch"}
    assert first["life"] == this_life() and first["reentry"] == 0 and first["group"] is None


def test_every_line_has_the_whole_header_and_a_known_kind(run_dir):
    enter_rank(agent)
    agent.group_ready(Store(), rank=1, world_size=2, backend="gloo")
    agent.step_done(1, loss=1.0, lr=0.1, grad_norm=1.0, samples=(0, 8))
    agent.emit("checkpoint_began", step=1, path="x")
    agent.finished(2)
    for line in lines_of(run_dir):
        assert tuple(line)[: len(HEADER)] == HEADER and line["kind"] in KINDS


def test_the_first_member_names_the_group_and_the_others_take_that_name(rank, run_dir):
    store = Store()
    rank.group_ready(store, rank=1, world_size=2, backend="gloo")
    store_of_others = store.values["nvrx_chaos/group"]
    rank.group_ready(store, rank=0, world_size=2, backend="gloo")
    ready = events(run_dir, "process_group_ready")
    assert [line["group"] for line in ready] == [store_of_others] * 2
    assert [line["rank"] for line in ready] == [1, 0] and [line["initial_rank"] for line in ready] == [1, 1]
    assert (ready[0]["world_size"], ready[0]["backend"]) == (2, "gloo")


def test_a_fresh_store_gives_a_new_name(rank, run_dir):
    rank.group_ready(Store(), rank=1, world_size=2, backend="gloo")
    rank.group_ready(Store(), rank=1, world_size=2, backend="gloo")
    one, other = events(run_dir, "process_group_ready")
    assert one["group"] != other["group"]


def test_a_store_that_fails_leaves_the_group_unknown_and_says_so(rank, run_dir):
    rank.group_ready(object(), rank=1, world_size=2, backend="gloo")
    assert events(run_dir, "source_blind")[0]["source"] == "group"
    assert events(run_dir, "process_group_ready")[0]["group"] is None


def test_entering_again_counts_as_a_reentry_without_a_group(run_dir):
    enter_rank(agent)
    agent.group_ready(Store(), rank=1, world_size=2, backend="gloo")
    enter_rank(agent, rank=0, iteration=1)
    again = events(run_dir, "restart_entered")
    assert [(line["reentry"], line["group"], line["rank"]) for line in again] == [(1, None, 0)]
    assert again[0]["reported_restart"] == {"iteration": 1}
    assert kinds_of(run_dir).count("rank_started") == 1
    enter_rank(agent)
    assert [line["reentry"] for line in events(run_dir, "restart_entered")] == [1, 2]


@pytest.mark.parametrize("loss", [0.1, 1 / 3, 5e-324, -0.0, float("inf"), 2.0**70])
def test_the_loss_comes_back_bit_for_bit(rank, run_dir, loss):
    rank.step_done(7, loss, 1e-3, 0.7, (16, 32))
    done = events(run_dir, "step_done")[0]
    assert float.fromhex(done["loss"]).hex() == loss.hex()
    assert float.fromhex(done["lr"]) == 1e-3 and float.fromhex(done["grad_norm"]) == 0.7
    assert done["step"] == 7 and done["samples"] == [16, 32]


def test_after_a_step_the_data_phase_of_the_next_one_begins(rank, run_dir):
    rank.step_done(7, 1.0, 1.0, 1.0, (0, 1))
    last = lines_of(run_dir)[-1]
    assert (last["kind"], last["phase"], last["step"]) == ("phase_entered", "data", 8)


def test_a_whole_number_for_a_loss_is_no_error(rank, run_dir):
    rank.step_done(1, 2, 1, 1, (0, 1))
    assert float.fromhex(events(run_dir, "step_done")[0]["loss"]) == 2.0


def test_a_loss_that_is_no_number_makes_the_rank_blind_and_does_not_reach_the_job(rank, run_dir):
    rank.step_done(1, "nothing", 1.0, 1.0, (0, 1))
    assert kinds_of(run_dir)[-1] == "source_blind" and rank.recorder is None
    rank.enter("data", 2)
    assert kinds_of(run_dir)[-1] == "source_blind"


def test_a_history_folder_that_is_missing_leaves_the_job_unharmed_and_is_said_once(run_dir, capsys):
    (run_dir / "history").rmdir()
    enter_rank(agent)
    agent.enter("forward", 1)
    enter_rank(agent)
    said = capsys.readouterr().err
    assert said.count("rank 1 is not observed") == 1 and agent._agent is None


def test_a_channel_that_cannot_be_reached_is_said_and_training_goes_on(run_dir, monkeypatch):
    monkeypatch.setenv("NVRX_CHAOS_SOCKET", str(run_dir / "nobody"))
    enter_rank(agent)
    agent.enter("forward", 1)
    blind = events(run_dir, "source_blind")
    assert [line["source"] for line in blind] == ["control_channel"]
    assert kinds_of(run_dir)[-1] == "phase_entered"


def test_a_second_process_gets_a_file_of_its_own(run_dir):
    one = Agent.from_environment()
    enter_rank(one)
    names = [path.name for path in (run_dir / "history").iterdir()]
    pid, ticks = this_life().rsplit("-", 2)[1:]
    assert names == [f"rank-{pid}-{ticks}.jsonl"]
