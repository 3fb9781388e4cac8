"""What judging costs: synthetic histories of 8, 128 and 1,024 ranks, read from disk and judged by `nvrx-chaos judge`.

Each history has a fault, a restart and steps done twice. Printed: time, time for each event, and the most memory that
the judging process held. Goal: 10 million events in at most 90 s and 1 GiB, and ten times the events in about ten
times the time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

import msgspec

from chaos.conclude import CONTROL, EXPERIMENT, judge_run
from chaos.history import manifest
from chaos.model.plan import At, FaultPlan, JobPlan, LimitsPlan, ObjectivePlan, Plan

RANKS = (8, 128, 1024)
EVENTS = (100_000, 1_000_000, 10_000_000)
EVENTS_A_STEP = 6
GOAL_S, GOAL_BYTES = 90.0, 1 << 30
STEP_NS, START_NS = 20_000_000, 10**12
LAUNCHER = "boot0000-1-50-5"
GROUPS = ("before", "after")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    options.add_argument("--events", type=int, nargs="+", default=EVENTS)
    options.add_argument("--judge", help=argparse.SUPPRESS)  # what a child process does
    arguments = options.parse_args()
    if arguments.judge:
        return judge_once(Path(arguments.judge))
    met = True
    print("  ranks      events     time   per event   most memory   outcome   time / time of a tenth")
    for ranks in arguments.ranks:
        before: float | None = None
        for events in arguments.events:
            with tempfile.TemporaryDirectory(prefix="nvrx-bench-") as scratch:
                count = build(Path(scratch), ranks, events)
                told = json.loads(subprocess.check_output([sys.executable, __file__, "--judge", scratch]))
            ratio = "" if before is None else f"{told['time_s'] / before:.1f}"
            before = told["time_s"]
            print(
                f"{ranks:7d}  {count:10,d}  {told['time_s']:6.1f} s  {told['time_s'] / count * 1e6:7.2f} us"
                f"  {told['bytes'] / 2**20:8.0f} MiB   {told['outcome']:>7}   {ratio}",
                flush=True,
            )
            met = met and told["outcome"] == "passed"
            if events >= max(EVENTS):
                met = met and told["time_s"] <= GOAL_S and told["bytes"] <= GOAL_BYTES
    goal = f"goal for {max(EVENTS):,d} events, at most {GOAL_S:.0f} s and {GOAL_BYTES >> 30} GiB"
    print(f"{goal}: {'met' if met else 'MISSED'}")
    return 0 if met else 1


def judge_once(run_dir: Path) -> int:
    began = time.perf_counter()
    verdict, _ = judge_run(run_dir)
    took = time.perf_counter() - began
    if verdict.outcome != "passed":
        print(verdict.sentence, file=sys.stderr)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"time_s": took, "bytes": most, "outcome": verdict.outcome}))
    return 0


# --- a history


def build(run_dir: Path, ranks: int, events: int) -> int:
    """Writes a run directory of about so many events; returns how many it has. One file is open at a time."""
    every = max(10, events // (ranks * EVENTS_A_STEP) // 12)
    steps = max(60, events // (ranks * EVENTS_A_STEP) * 10 // 11)
    resumed = steps * 2 // 3 // every * every
    fault_step = resumed + every * 2 // 3
    (run_dir / "history").mkdir(parents=True)
    plan = _plan(ranks, steps, fault_step, every)
    (run_dir / EXPERIMENT).write_text(json.dumps({"configuration": {"plan": msgspec.to_builtins(plan)}}))
    (run_dir / CONTROL).write_text("")
    count, lives = 0, []
    for generation, group in enumerate(GROUPS):
        first, end = (0, fault_step) if generation == 0 else (resumed, steps)
        begins_ns = START_NS + generation * (fault_step * STEP_NS + 2_000_000_000)
        for rank in range(ranks):
            life = _life(rank, generation)
            name = manifest.file_of_life(life)
            lives.append({"life": life, "role": "rank", "rank": rank, "file": name})
            with (run_dir / "history" / name).open("w", buffering=1 << 20) as out:
                count += _rank(out, plan, rank, life, group, first, end, begins_ns)
    count += _controller(run_dir / "history" / "controller-40-4.jsonl", plan, fault_step, resumed)
    manifest.write(run_dir, run_id=run_dir.name, lives=lives)
    return count


def _life(rank: int, generation: int) -> str:
    return f"boot0000-1-{1000 + rank}-{1000 + generation}"


def _plan(ranks: int, steps: int, fault_step: int, every: int) -> Plan:
    fault = FaultPlan(
        name="kill", fault="process.kill", params={"signal": "KILL"}, ranks=(1,),
        at=At(step=fault_step, phase="backward", point="in_collective"),
    )  # fmt: skip
    return Plan(
        scenario="synthetic",
        job=JobPlan(
            run="trainer", ranks_per_node=ranks, recovery=("in_job",), steps=steps, args={"checkpoint_every": every}
        ),
        faults=(fault,),
        objective=ObjectivePlan(recovered_by=("in_job",), recovery_time_s=8.0, lost_steps=steps),
        limits=LimitsPlan(timeout_s=1e6),
    )  # fmt: skip


class _Out:
    """Writes events of one process, and counts them."""

    def __init__(self, out: TextIO, header: str) -> None:
        self.out, self.header, self.count = out, header, 0

    def say(self, t_ns: int, kind: str, fields: str = "") -> None:
        self.count += 1
        self.out.write(f'{{"t_ns":{t_ns},"wall_s":{t_ns / 1e9:.6f},{self.header},"kind":"{kind}"{fields}}}\n')


def _rank(file: TextIO, plan: Plan, rank: int, life: str, group: str, first: int, end: int, begins_ns: int) -> int:
    """One life of a rank, from its start to the fault, or to the end of the job."""
    world, every = plan.job.world_size, plan.job.args["checkpoint_every"]
    who = f'"life":"{life}","reentry":0,"group":null,"rank":{rank},"initial_rank":{rank}'
    out = _Out(file, who)
    began = f',"pid":{1000 + rank},"ppid":50,"launcher":"{LAUNCHER}","local_rank":{rank},"world_size":{world}'
    out.say(begins_ns - 900_000_000, "rank_started", began + ',"reported_restart":{},"versions":{}')
    out.say(begins_ns - 899_000_000, "settings_seen", ',"settings":{"width":96}')
    out.header = who.replace('"group":null', f'"group":"{group}"')
    out.say(begins_ns - 500_000_000, "process_group_ready", f',"world_size":{world},"backend":"gloo"')
    if first:
        load = begins_ns - 100_000_000
        out.say(load, "checkpoint_loaded", f',"step":{first},"path":"step-{first}"')
        out.say(load, "digest_taken", _digest(first, rank, "loaded"))
    for step in range(first, end):
        at = begins_ns + (step - first) * STEP_NS + rank
        _step(out, step, rank, at, world)
        if (step + 1) % every == 0 and step + 1 < plan.job.steps:
            _checkpoint(out, step + 1, rank, at + STEP_NS // 2, world)
    at = begins_ns + (end - first) * STEP_NS
    if group == GROUPS[0] and rank == 1:
        where = f',"step":{end},"phase":"backward","point":"in_collective"'
        out.say(at, "fault_fired", f',"fault":"kill","order_id":"o1","verb":"signal_self"{where},"pid":{1000 + rank}')
    if group == GROUPS[1]:
        out.say(at, "digest_taken", _digest(end, rank, "end"))
        out.say(at, "rank_finished", f',"step":{end}')
    return out.count


def _step(out: _Out, step: int, rank: int, at: int, world: int) -> None:
    for number, phase in enumerate(("forward", "backward", "optimizer")):
        out.say(at - 9_000_000 + number * 1_000_000, "phase_entered", f',"phase":"{phase}","step":{step}')
    out.say(at - 2_000_000, "step_returned", f',"step":{step}')
    told = f',"loss":"{(4.0 / (step + 2)).hex()}","lr":"{(0.1).hex()}","grad_norm":"{(1.0).hex()}"'
    sample = (step * world + rank) * 4
    out.say(at, "step_done", f',"step":{step}{told},"samples":[{sample},{sample + 4}]')
    out.say(at, "phase_entered", f',"phase":"data","step":{step + 1}')


def _checkpoint(out: _Out, step: int, rank: int, at: int, world: int) -> None:
    out.say(at, "checkpoint_began", f',"step":{step},"path":"step-{step}"')
    out.say(at, "digest_taken", _digest(step, rank, "checkpoint"))
    out.say(at, "checkpoint_staged", f',"step":{step},"stall_s":0.002')
    if rank == 0:
        files = f',"files":{2 * world + 1},"bytes":1000'
        out.say(at + 2 * world, "checkpoint_committed", f',"step":{step},"path":"step-{step}"{files}')


def _digest(step: int, rank: int, purpose: str) -> str:
    digests = f'"shards":"s{step}r{rank}","replicated":"a{step}","random":"n{step}r{rank}"'
    return f',"step":{step},{digests},"purpose":"{purpose}"'


def _controller(path: Path, plan: Plan, fault_step: int, resumed: int) -> int:
    """What was seen from outside. The second launch begins when the first has ended."""
    fired = START_NS + fault_step * STEP_NS
    again = START_NS + fault_step * STEP_NS + 2_000_000_000
    end = again + (plan.job.steps - resumed) * STEP_NS + 300_000_000
    with path.open("w") as file:
        nobody = '"life":null,"reentry":null,"group":null,"rank":null,"initial_rank":null'
        out = _Out(file, nobody)
        out.say(START_NS - 1_000_000_000, "job_started", f',"pid":50,"argv":[],"launcher":"{LAUNCHER}"')
        out.say(START_NS + 12 * STEP_NS, "steady_state_met", ',"step":11,"step_time_s":0.02')
        out.header = nobody.replace('"life":null', f'"life":"{_life(1, 0)}"').replace(
            '"rank":null,"initial_rank":null', '"rank":1,"initial_rank":1'
        )
        killed = ',"pid":1001,"role":"rank","code":null,"signal":9,"source":"pidfd"'
        out.say(fired + 1_000_000, "process_exited", killed)
        out.say(fired + 2_000_000, "fault_confirmed", ',"fault":"kill","how":"exited with signal 9","evidence":[]')
        out.header = nobody
        failed = ',"local_rank":1,"pid":1001,"code":-9,"log":"logs/job.log:7","error_ns":2000000,"text":"failed"'
        out.say(fired + 500_000_000, "worker_failed", failed)
        out.say(end, "job_finished", ',"code":0,"signal":null,"reason":"ended by itself"')
        nothing = ',"processes":[],"shared_memory":[],"ports":[],"temporary_files":[],"after_s":5.1,"readable":true'
        out.say(end + 5_100_000_000, "residue_measured", nothing)
        out.say(end + 5_200_000_000, "run_concluded", ',"open_entries":0,"measured":true,"entries":3')
    return out.count


if __name__ == "__main__":
    sys.exit(main())
