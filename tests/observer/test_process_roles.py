"""What each process of a job is: as NVRx 0.4.1 and torch make them, and what must not be taken for a rank."""

from __future__ import annotations

import pytest
from observer_build import life

from chaos.model.identity import ProcessInfo
from chaos.observer.known import Known, born_between
from chaos.observer.roles import SETTLES_S, SPAWN_SETTLES_S, Saving, role_of

LAUNCHER_COMMAND = ("python", "-m", "nvidia_resiliency_ext.fault_tolerance.launcher", "train.py")
RANK_COMMAND = ("python", "-u", "train.py")
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(3, 5)", "--multiprocessing-fork")
FORKSERVER = ("python", "-c", "from multiprocessing.forkserver import main; main(3)")


def process(pid, command, parent=None, *, name="python", session=None, ppid=None, role="", rank=None, **environment):
    info = ProcessInfo(
        life=life(pid), ppid=ppid or (parent.life.pid if parent else 1), state="S", command=command, mark="m",
        environment=environment, name=name, session=session or pid,
    )  # fmt: skip
    known = Known(info, parent=parent)
    known.role, known.rank = role, rank
    return known


LAUNCHER = process(10, LAUNCHER_COMMAND, role="launcher")
RANK = process(11, RANK_COMMAND, LAUNCHER, role="rank", rank=1, RANK="1")


def role(known, *, age_s=0.0, saving=None, ranks=(RANK,)):
    return role_of(known, LAUNCHER.life, list(ranks), saving or Saving(), age_s)


def of_rank(pid, command=RANK_COMMAND, parent=RANK, **how):
    how.setdefault("session", RANK.life.pid)
    return process(pid, command, parent, **how, RANK="1")


def test_a_child_of_the_launcher_with_the_rank_variable_is_that_rank():
    assert role(process(12, RANK_COMMAND, LAUNCHER, RANK="1")) == ("rank", 1)


@pytest.mark.parametrize("number", ["", "-1", "one", "²"])
def test_a_rank_variable_that_is_no_number_makes_no_rank(number):
    assert role(process(12, RANK_COMMAND, LAUNCHER, RANK=number)) == ("other", None)


def test_a_launcher_inside_a_script_is_the_launcher_and_its_children_are_the_ranks():
    script = process(9, ("bash", "run.sh"), role="launcher")
    launcher = process(10, LAUNCHER_COMMAND, script)
    assert role_of(launcher, script.life, [], Saving(), 0.0) == ("launcher", None)
    launcher.role = "launcher"
    rank = process(11, RANK_COMMAND, launcher, RANK="0")
    assert role_of(rank, script.life, [], Saving(), 0.0) == ("rank", 0)


def test_what_a_script_with_a_rank_variable_of_its_own_starts_is_no_rank():
    script = process(9, ("bash", "run.sh"), role="launcher", RANK="0", WORLD_SIZE="2")
    for command, expected in ((LAUNCHER_COMMAND, "launcher"), (("nvidia-smi",), "other")):
        inherits = process(10, command, script, RANK="0", WORLD_SIZE="2")
        assert role_of(inherits, script.life, [], Saving(), 0.0) == (expected, None)
    started = process(11, RANK_COMMAND, script, RANK="0", WORLD_SIZE="2", MASTER_PORT="2950")
    assert role_of(started, script.life, [], Saving(), 0.0) == ("rank", 0)


def test_another_program_that_the_launcher_starts_is_no_monitor():
    assert role(process(12, ("nvidia-smi",), LAUNCHER)) == ("other", None)


def test_what_the_launcher_forked_is_a_rank_monitor_once_it_has_stayed_so():
    monitor = process(12, LAUNCHER_COMMAND, LAUNCHER)
    assert role(monitor, age_s=SETTLES_S / 2) is None  # it may yet become a rank
    assert role(monitor, age_s=SETTLES_S) == ("rank_monitor", None)


def test_a_fork_of_a_launcher_with_rank_variables_of_its_own_is_no_rank():
    launcher = process(10, LAUNCHER_COMMAND, role="launcher", RANK="0")
    assert role(process(12, LAUNCHER_COMMAND, launcher, RANK="0"), age_s=SETTLES_S) == ("rank_monitor", None)


def test_a_rank_may_run_the_very_command_of_the_script_that_started_it():
    script = process(10, RANK_COMMAND, role="launcher")
    assert role(process(12, RANK_COMMAND, script, RANK="0")) == ("rank", 0)


def test_a_fork_of_a_launcher_that_is_not_nvrxs_is_no_rank_monitor():
    torchrun = process(10, ("python", "torchrun", "train.py"), role="launcher")
    assert role(process(12, torchrun.info.command, torchrun), age_s=SETTLES_S) == ("other", None)


def test_a_fork_of_the_launcher_that_ends_at_once_is_no_rank_monitor():
    brief = process(12, LAUNCHER_COMMAND, LAUNCHER)
    brief.end()
    assert role(brief) == ("other", None)


def test_an_orphan_of_the_ranks_program_in_a_session_of_neither_is_its_in_process_monitor():
    assert role(of_rank(30, parent=None, session=29)) == ("in_process_monitor", 1)


def test_the_two_processes_that_lead_to_the_monitor_are_not_the_monitor():
    first = of_rank(28)
    second = of_rank(29, parent=first, session=29)
    for step in (first, second):
        assert role(step) is None
        assert role(step, age_s=SETTLES_S) == ("other", 1)
    assert role(of_rank(30, parent=second, session=29)) == ("in_process_monitor", 1)


def test_a_monitor_is_told_to_its_own_rank_by_the_rank_variable():
    other = process(13, RANK_COMMAND, LAUNCHER, role="rank", rank=0, RANK="0")
    orphan = process(30, RANK_COMMAND, ppid=1, session=29, RANK="0")
    assert role(orphan, ranks=(RANK, other)) == ("in_process_monitor", 0)


def test_an_orphan_of_another_program_is_not_taken_for_a_monitor():
    assert role(process(30, ("leaked",), session=29, RANK="1"), age_s=SETTLES_S) == ("other", None)


@pytest.mark.parametrize("command", [RANK_COMMAND, SPAWNED])
def test_what_torch_named_a_data_worker_is_one_forked_or_spawned(command):
    assert role(of_rank(20, command, name="pt_data_worker")) == ("data_worker", 1)


def test_a_data_worker_behind_a_fork_server_is_one_too():
    server = of_rank(20, FORKSERVER, role="other")
    assert role(of_rank(21, FORKSERVER, server, name="pt_data_worker")) == ("data_worker", 1)


def test_a_spawned_helper_is_given_the_time_to_import_torch_and_take_its_name():
    helper = of_rank(20, SPAWNED)
    assert role(helper, age_s=SPAWN_SETTLES_S / 2) is None
    assert role(helper, age_s=SPAWN_SETTLES_S) == ("other", 1)


def saving(began_before_s, staged_after_s):
    born_ns = born_between(life(20))
    saving = Saving()
    saving.began(RANK.life.id, born_ns[0] - int(began_before_s * 1e9))
    if staged_after_s is not None:
        saving.over(RANK.life.id, born_ns[1] + int(staged_after_s * 1e9))
    return saving


@pytest.mark.parametrize("command", [RANK_COMMAND, SPAWNED])
@pytest.mark.parametrize("staged_after_s", [0.002, None])
def test_what_a_rank_makes_inside_its_saving_call_is_a_checkpoint_writer(command, staged_after_s):
    assert role(of_rank(20, command), saving=saving(0.001, staged_after_s)) == ("checkpoint_writer", 1)


@pytest.mark.parametrize("span", [(-0.05, 1.0), (1.0, -0.5)])
def test_what_a_rank_makes_before_or_after_its_saving_call_is_none(span):
    assert role(of_rank(20), saving=saving(*span), age_s=SETTLES_S) == ("other", 1)


def test_what_a_helper_of_a_rank_makes_while_that_rank_saves_is_no_writer():
    helper = of_rank(19)
    assert role(of_rank(20, parent=helper), saving=saving(0.001, 0.002), age_s=SETTLES_S) == ("other", 1)


def test_a_program_that_a_rank_starts_while_it_saves_is_no_writer():
    assert role(of_rank(20, ("nvidia-smi",)), saving=saving(0.001, 0.002)) == ("other", 1)


def test_a_data_worker_that_is_made_while_its_rank_saves_stays_a_data_worker():
    assert role(of_rank(20, name="pt_data_worker"), saving=saving(0.001, 0.002)) == ("data_worker", 1)


def test_what_a_writer_forks_for_its_files_is_a_writer():
    writer = of_rank(20, role="checkpoint_writer")
    assert role(of_rank(21, parent=writer)) == ("checkpoint_writer", 1)


def test_a_restart_in_the_middle_of_saving_ends_the_call():
    over = Saving()
    born_ns = born_between(life(20))
    over.began(RANK.life.id, born_ns[0] - 2_000_000_000)
    over.over(RANK.life.id, born_ns[0] - 1_000_000_000)
    over.over(RANK.life.id, born_ns[1] + 1_000_000_000)  # the first end counts
    assert role(of_rank(20), saving=over, age_s=SETTLES_S) == ("other", 1)


def test_what_inherited_the_rank_variable_is_never_a_rank():
    made = [
        of_rank(20), of_rank(21, SPAWNED), of_rank(22, parent=of_rank(20)), of_rank(23, parent=None),
        of_rank(24, ("python", "train.py")), process(25, (), RANK), process(26, RANK_COMMAND, ppid=1, RANK="7"),
    ]  # fmt: skip
    roles = [role(each, age_s=SPAWN_SETTLES_S) for each in made]
    assert [found[0] for found in roles] == ["other"] * len(made)


def test_without_a_launcher_nothing_is_a_rank():
    assert role_of(process(12, RANK_COMMAND, RANK="1"), None, [], Saving(), SETTLES_S) == ("other", None)
