"""The records that every room shares: closed sets, and records that refuse to exist in a bad state."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import msgspec
import pytest

from chaos.model import events, orders, undo
from chaos.model.exit_status import BY_OUTCOME, MEANING, status_of, worst_status
from chaos.model.identity import Life, ProcessInfo
from chaos.model.orders import Order, Trigger
from chaos.model.plan import At, FaultPlan, JobPlan, Plan
from chaos.model.undo import Undo
from chaos.model.verdict import SCHEMA, WORD, Check, Outcome, Verdict, worst

DESIGNED_KINDS = """
job_started rank_started process_group_ready phase_entered step_returned step_done checkpoint_began checkpoint_staged
checkpoint_committed checkpoint_seen checkpoint_loaded checkpoint_refused restart_entered rank_finished job_finished
interruption_reported worker_failed hang_detected health_check_passed health_check_failed abort_began abort_done
rank_excluded rendezvous_joined process_appeared process_exited fault_armed fault_disarmed fault_fired fault_not_fired
fault_confirmed fault_not_confirmed fault_undone undo_failed steady_state_met stop_condition_met stop_requested
source_blind settings_seen clock_offset_measured machine_measured memory_measured residue_measured digest_taken
checkpoint_pruned evidence_captured run_concluded
"""


def test_the_kinds_of_events_are_a_closed_set():
    assert set(events.KINDS) == set(DESIGNED_KINDS.split())
    writers = {word for writers, _ in events.KINDS.values() for word in re.split(", | or ", writers)}
    assert writers == {"rank", "launcher", "monitor", "controller"}


def test_points_of_a_commit_are_points():
    assert set(events.POINTS) > events.COMMIT_ONLY_POINTS and "in_collective" in events.POINTS
    assert len(set(events.PHASES)) == len(events.PHASES) == 11


def test_an_event_is_cited_by_file_and_line():
    event = events.Event(t_ns=1, wall_s=1.0, kind="step_done", file="history/rank-7-9.jsonl", line=12)
    assert event.ref == "history/rank-7-9.jsonl:12"


def test_what_ranks_import_of_the_model_is_the_standard_library():
    script = (
        "import sys; before = set(sys.modules); import chaos.model.events, chaos.model.orders;"
        "print(*{m.split('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert ran.stdout.split() == ["chaos"]


def test_a_process_of_a_reused_pid_is_another_life():
    one = Life(boot_id="0123456789abcdef", pid_namespace=4, pid_inside=7, pid=700, start_ticks=50)
    other = msgspec.structs.replace(one, start_ticks=51)
    assert one.id == "01234567-4-7-50" and one.id != other.id and one != other
    assert ProcessInfo(life=one, ppid=1, state="S", command=(), mark=None, environment={}).pid == 700


def order(**changes):
    fields = {"order_id": "o", "fault": "kill", "kind": "process.kill", "verb": "signal_self", "life": "a-1-2-3"}
    return Order(**{"trigger": Trigger(step=3, phase="forward"), "args": {"signal": "KILL"}, **fields, **changes})


def test_an_order_comes_back_from_its_json():
    one = order(trigger=Trigger(step=47, phase="backward", point="in_collective", after_s=0.005))
    assert Order.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize("verb", ["", "rm", "exit_now "])
def test_an_order_with_an_unknown_verb_does_not_exist(verb):
    with pytest.raises(ValueError, match="unknown verb"):
        order(verb=verb)


@pytest.mark.parametrize("change", [{"trigger": None}, {"trigger": {"steps": 1}}, {"verb": "rm"}, {"more": 1}])
def test_what_is_no_order_is_refused(change):
    with pytest.raises((KeyError, TypeError, ValueError)):
        Order.from_json({**order().to_json(), **change})


def test_an_order_without_a_trigger_is_refused():
    raw = order().to_json()
    del raw["trigger"]
    with pytest.raises(KeyError):
        Order.from_json(raw)


def test_a_lease_outlives_several_renewals_and_a_notify_never_outlives_its_lease():
    assert 2 * orders.LEASE_RENEWAL_S < orders.LEASE_S and orders.NOTIFY_WAIT_S < orders.LEASE_S


def test_records_cannot_be_changed_afterwards():
    with pytest.raises(AttributeError):
        order().verb = "notify"
    with pytest.raises(AttributeError):
        JobPlan(run="trainer").steps = 3


def test_an_undo_with_an_unknown_verb_does_not_exist():
    assert all(Undo(verb=verb, args={}).verb == verb for verb in undo.UNDO_VERBS)
    with pytest.raises(ValueError, match="unknown undo verb"):
        Undo(verb="format_disk", args={})


def test_an_undo_read_back_from_a_ledger_is_checked_too():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"verb": "format_disk", "args": {}}', type=Undo)


PLAN = Plan(
    scenario="s",
    job=JobPlan(run="trainer", nodes=2, ranks_per_node=4),
    faults=(FaultPlan(name="kill", fault="process.kill", params={"signal": "KILL"}, ranks=(1,), at=At(step=5)),),
)


def test_a_plan_comes_back_from_its_json_and_unknown_fields_are_refused():
    raw = msgspec.to_builtins(PLAN)
    assert msgspec.convert(json.loads(json.dumps(raw)), Plan) == PLAN
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**raw, "more": 1}, Plan)


def test_no_top_level_key_of_a_plan_is_called_type():
    assert "type" not in msgspec.to_builtins(PLAN)  # chaoslib would replace the whole plan


def test_a_plan_knows_its_world_and_its_faults():
    assert PLAN.job.world_size == 8 and PLAN.fault("kill").ranks == (1,)
    with pytest.raises(KeyError):
        PLAN.fault("hang")


def test_the_worst_outcome_wins_and_nothing_judged_is_unknown():
    assert worst([Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN]) is Outcome.FAIL
    assert worst([Outcome.PASS, Outcome.UNKNOWN]) is Outcome.UNKNOWN
    assert worst([Outcome.PASS]) is Outcome.PASS and worst([]) is Outcome.UNKNOWN
    assert WORD == {Outcome.PASS: "pass", Outcome.UNKNOWN: "unknown", Outcome.FAIL: "fail"}


def test_a_verdict_finds_its_checks_by_name():
    check = Check(name="undone", outcome="pass")
    verdict = Verdict(scenario="s", run_id="r", seed=0, outcome="passed", sentence="x", checks=(check,))
    assert verdict.check("undone") is check and verdict.check("other") is None and verdict.schema == SCHEMA


@pytest.mark.parametrize(
    "statuses, wins",
    [
        ([], 3), ([0], 0), ([0, 3], 3), ([3, 1], 1), ([0, 1, 3, 4], 4), ([4, 73], 73), ([73, 74], 74),
        ([74, 70, 4], 70), ([0, -9], 70), ([1, 99], 70),
    ],
)  # fmt: skip
def test_the_status_that_wins(statuses, wins):
    assert worst_status(statuses) == wins == worst_status(reversed(statuses))


def test_every_status_has_its_meaning_and_every_outcome_its_status():
    assert set(MEANING) == {0, 1, 2, 3, 4, 70, 73, 74}
    assert BY_OUTCOME == {"passed": 0, "failed": 1, "unknown": 3, "not_run": 3}


@pytest.mark.parametrize(
    "outcome, known, status", [("failed", True, 0), ("failed", False, 1), ("unknown", True, 3), ("passed", False, 0)]
)
def test_a_known_failure_ends_with_0_and_nothing_else_does_for_being_known(outcome, known, status):
    verdict = Verdict(scenario="s", run_id="r", seed=0, outcome=outcome, known=known, sentence="x")
    assert status_of(verdict) == status
