"""Histories of process groups that should not have been: alone, again, by the wrong layer, or under one name."""

from __future__ import annotations

from mutant import broken_history
from tale import Line, Tale, own

ANY_RESTARTS = {"restarts": None}
LONE_STEP_S = 0.01
BARELY_S = 0.03  # what is done alone before the launcher ends it; it notices after a tenth of a second or more
ALONE_S = 3.0  # longer than all steps take alone
OTHER_GROUP = "a10ea10ea10ea10e"
ZOMBIE_AFTER_S = 0.05
AGAIN_AFTER_S = 3.0


def survivor_trains_alone(tale: Tale) -> None:
    """The survivor trained on alone until the launcher restarted both."""
    _alone(tale, 2)


def finishes_alone_and_again(tale: Tale) -> None:
    """The survivor finished the job alone; then both were started and trained it once more."""
    tale.later(ALONE_S, since=tale.noticed[0])
    steps = tale.plan["job"]["steps"]
    last = _alone(tale, steps)
    finished = tale.add(last, "rank_finished", step=steps, after_s=LONE_STEP_S)
    finished.update(reentry=last["reentry"], group=last["group"])


def zombie_commits(tale: Tale) -> None:
    """A process of the old group commits a checkpoint after the new group has begun to train."""
    old, new = tale.groups[0], tale.groups[-1]
    commit = tale.last("checkpoint_committed", group=old)
    first = tale.one("step_done", group=new)
    tale.add(commit, "checkpoint_committed", at=first, after_s=ZOMBIE_AFTER_S, **own(commit))
    for exited in tale.all("process_exited", life=commit["life"]):
        exited["t_ns"] = first["t_ns"] + round(2 * ZOMBIE_AFTER_S * 1e9)


def one_name_for_two_groups(tale: Tale) -> None:
    """A store outlived the group, and the next one found its name there."""
    old, new = tale.groups[0], tale.groups[-1]
    tale.change(tale.all(group=new), group=old)


def launcher_instead_of_in_process(tale: Tale) -> None:
    """The launcher started new processes where in-process restart should have brought the job back."""
    for number, entered in enumerate(tale.all("restart_entered")):
        started = tale.one("rank_started", life=entered["life"])
        appeared = tale.one("process_appeared", life=entered["life"])
        life = f"{entered['life']}{number}"
        tale.change(tale.all("process_exited", life=entered["life"]), life=life)
        tale.add(appeared, "process_exited", at=entered, after_s=-0.03, pid=1, role="rank", code=1, signal=None)
        tale.add(appeared, "process_appeared", at=entered, after_s=-0.02, **own(appeared))["life"] = life
        moved = tale.split(tale.file_of(entered), entered, life)
        tale.change(moved, reentry=0)
        entered.update(kind="rank_started", **own(started))


def restarts_once_more(tale: Tale) -> None:
    """Brought back, the job did one step, failed by itself and had to be brought back again."""
    group = tale.groups[-1]
    entered, first = tale.all("restart_entered"), tale.last("step_done", group=group, step=40)
    begun_ns, until_ns = entered[0]["t_ns"], first["t_ns"]
    blocks = {
        name: [dict(line) for line in lines if line["reentry"] == 1 and begun_ns <= line["t_ns"] <= until_ns]
        for name, lines in tale.files.items()
    }
    tale.later(AGAIN_AFTER_S, since=entered[0])
    tale.change(tale.all(reentry=1), reentry=2)
    for name, block in blocks.items():
        tale.change((line for line in block if line["group"] == group), group=OTHER_GROUP)
        lines = tale.files[name]
        place = next((index for index, line in enumerate(lines) if line["reentry"] == 2), len(lines))
        lines[place:place] = block


def restarted_by_itself_before(tale: Tale) -> None:
    """The job restarted by itself before the first fault fired."""
    name = tale.plan["faults"].pop(0)["name"]
    tale.drop(fault=name)


def never_steady(tale: Tale) -> None:
    """The job did a few steps and then none, until it was given up."""
    moment = tale.last("step_done", step=tale.plan["steady_steps"] - 2)
    tale.end_at(moment, but=("job_finished", "residue_measured", "run_concluded"))
    finished = tale.one("job_finished")
    tale.add(finished, "stop_requested", after_s=-0.5, reason="not steady in time", interrupted=False)


def restarts_where_nothing_happened(tale: Tale) -> None:
    """A healthy job is interrupted by NVRx, and nothing had been done to it."""
    step = tale.one("step_done", rank=1, step=60)
    tale.add(step, "interruption_reported", after_s=0.001, source="in_process", marker="", text="no heartbeat")


def blames_a_healthy_rank(tale: Tale) -> None:
    """The launcher names only the rank that was not hit."""
    healthy = tale.lives_of(tale.groups[0])[0]
    pid = int(healthy.split("-")[2])
    for line in tale.all("worker_failed"):
        hit = line["pid"]
        line.update(local_rank=0, pid=pid, text=line["text"].replace("local_rank: 1", "local_rank: 0"))
        line["text"] = line["text"].replace(str(hit), str(pid))


def _alone(tale: Tale, steps: int) -> Line:
    """Rank 0 enters again after the fault, in a group of its own that cannot use what two ranks had saved, and does so
    many steps; the last one."""
    last = tale.last("step_done", group=tale.groups[0], rank=0)

    def put(kind: str, after_s: float, **fields: object) -> Line:
        line = tale.add(last, kind, at=tale.fired, after_s=BARELY_S + after_s, **fields)
        line.update(reentry=1, group=None if kind == "restart_entered" else OTHER_GROUP)
        return line

    put("restart_entered", 0.0, reported_restart={"iteration": 1})
    put("process_group_ready", 0.001, world_size=1, backend="gloo")
    for step in {line["step"] for line in tale.all("checkpoint_committed", group=last["group"])}:
        put("checkpoint_refused", 0.002, step=step, path=f"checkpoints/step-{step:06d}", reason="saved by 2 ranks")
    for step in range(steps):
        begun_s = 0.003 + step * LONE_STEP_S
        for number, phase in enumerate(("data", "forward", "backward", "optimizer")):
            put("phase_entered", begun_s + number * LONE_STEP_S / 10, phase=phase, step=step)
        put("step_returned", begun_s + LONE_STEP_S / 2, step=step)
        told = {name: last[name] for name in ("loss", "lr", "grad_norm")}
        done = put("step_done", begun_s + LONE_STEP_S / 2, step=step, **told, samples=[4 * step, 4 * step + 4])
    return done


MUTANTS = (
    broken_history(survivor_trains_alone, must_fail="world_size", objective=ANY_RESTARTS),
    broken_history(
        finishes_alone_and_again, must_fail="single_history", may_fail=("world_size", "lost_work"),
        objective=ANY_RESTARTS,
    ),
    broken_history(zombie_commits, must_fail="single_history"),
    broken_history(one_name_for_two_groups, must_be_unknown=("recovered_in_time", "steady_after", "single_history")),
    broken_history(
        launcher_instead_of_in_process, twin="exception", must_fail="recovered_by", objective=ANY_RESTARTS
    ),
    broken_history(restarts_once_more, twin="exception", must_fail="restart_budget"),
    broken_history(restarted_by_itself_before, twin="exceptions", must_be_unknown="steady_before"),
    broken_history(never_steady, must_be_unknown=("steady_before", "faults_fired_as_planned")),
    broken_history(restarts_where_nothing_happened, twin="healthy", must_fail="recovered_by"),
    broken_history(blames_a_healthy_rank, must_fail="blamed_right"),
)  # fmt: skip
