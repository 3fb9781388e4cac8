"""The closed vocabulary of events, and the record a reader gets for one line of history.

Plain dataclasses and the standard library only: ranks import this file.
One event is one JSON object on one line, whole lines in one `os.write`; a file has one writer, so
`FILE:LINE` names the event. Header fields of every line: `t_ns` (CLOCK_MONOTONIC, nanoseconds),
`wall_s` (seconds), `life`, `reentry`, `group`, `rank`, `initial_rank`, `kind`.
`life` is the life that the event is about: in the controller's file it is the process observed (null where the
event is about the run itself), in all others (of ranks, launchers and monitors) the writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# kind -> (who writes it, its own fields). Everything a verdict rests on is one of these.
KINDS: dict[str, tuple[str, str]] = {
    # the job, written inside ranks
    "rank_started": (
        "rank",
        "pid, ppid, launcher (life of the parent), local_rank, world_size, reported_restart, versions",
    ),
    "settings_seen": ("rank", "settings (flat record of every interval and size in force, seconds)"),
    "process_group_ready": ("rank", "world_size, backend"),
    "phase_entered": ("rank", "phase, step"),
    "step_returned": ("rank", "step"),
    "step_done": (
        "rank",
        "step, loss, lr, grad_norm (hex of float64; loss and grad_norm reduced over ranks), samples [first, end),"
        " device_busy (true: reported before the device had finished it)",
    ),
    "checkpoint_began": ("rank", "step, path"),
    "checkpoint_staged": ("rank", "step, stall_s (what saving cost the training thread)"),
    "checkpoint_committed": ("rank", "step, path, files, bytes"),
    "checkpoint_loaded": ("rank", "step, path"),
    "checkpoint_refused": ("rank", "step, path, reason"),
    "checkpoint_pruned": ("rank", "step, path"),
    "digest_taken": (
        "rank",
        "step, shards (SHA-256 of this rank's shards), replicated (of what all ranks have alike),"
        " random (of this rank's random state), purpose checkpoint|loaded|end",
    ),
    "restart_entered": ("rank", "reported_restart"),
    "rank_finished": ("rank", "step (the number of steps the job has)"),
    "interruption_reported": (
        "rank, launcher, monitor or controller",
        "source (`scheduler`: not NVRx's), marker, text, ranks (those that NVRx names, where it does), log, error_ns",
    ),
    "health_check_passed": ("rank or controller", "text, source, log, error_ns"),
    "health_check_failed": ("rank, launcher or controller", "text, source, log, error_ns"),
    "abort_began": ("rank", ""),
    "abort_done": ("rank", "sockets"),
    "rank_excluded": ("rank or controller", "text, source, log, error_ns"),
    # NVRx's own words, those above among them: heard in the process that said them (`source` handler, or the layer
    # that NVRx names), or read from a log by the controller (`log`, `error_ns`)
    "worker_failed": ("launcher or controller", "local_rank, pid, code, source, log, error_ns, text"),
    "hang_detected": (
        "monitor or controller",
        "waited_s, local_rank (null but where a log names no more than that), source, log, error_ns, text",
    ),
    "rendezvous_joined": ("launcher or controller", "source, log, error_ns, text"),
    # the job, seen from outside
    "job_started": ("controller", "pid, argv, launcher (life)"),
    "process_appeared": ("controller", "pid, ppid, role, of_rank (the rank that it serves), command"),
    "process_exited": ("controller", "pid, role, code, signal, source child|pidfd|connector|launcher|none"),
    "checkpoint_seen": (
        "controller",
        "step, path, files, bytes, problem (empty: whole by its own manifest), verified (false: too large to compare"
        " every byte)",
    ),
    "job_finished": ("controller", "code, signal, reason"),
    # faults
    "fault_armed": ("controller", "fault, order_id"),
    "fault_disarmed": ("rank or controller", "fault, reason"),
    "fault_fired": ("rank or controller", "fault, order_id, verb, step, phase, point, pid"),
    "fault_not_fired": ("rank or controller", "fault, reason"),
    "fault_confirmed": ("controller", "fault, how, evidence"),
    "fault_not_confirmed": ("controller", "fault, reason, contrary (true: evidence that it did not act)"),
    "fault_undone": ("controller", "fault, how, measured"),
    "undo_failed": ("controller", "fault, reason"),
    # the run
    "steady_state_met": ("controller", "step, step_time_s"),
    "stop_condition_met": ("controller", "condition"),
    "stop_requested": ("controller", "reason, interrupted"),
    "source_blind": ("rank, launcher, monitor or controller", "source, reason"),
    "clock_offset_measured": ("controller", "offset_ns, error_ns"),
    "machine_measured": (
        "controller",
        "steal_s, foreign_cpu_s (both cumulative), run_delay_s {life: seconds, of all its threads}",
    ),
    "memory_measured": (
        "controller",
        "rss_bytes {life: bytes}, cgroup_bytes and cgroup_oom_kills (of the job's cgroup, if it has one of its own),"
        " oom_kills (of the host); kills are cumulative; each null where it cannot be read",
    ),
    "residue_measured": ("controller", "processes, shared_memory, ports, temporary_files, after_s, readable"),
    "evidence_captured": (
        "controller",
        "files, stands (where each main thread stood: rank, ref, text), failed (what could not be written), why",
    ),
    "run_concluded": ("controller", "open_entries, measured, entries"),
}

PHASES: tuple[str, ...] = (
    "init", "rendezvous", "data", "forward", "backward", "optimizer", "checkpoint_save",
    "checkpoint_commit", "checkpoint_load", "restart", "shutdown",
)  # fmt: skip
PHASES_OF_EVERY_STEP = frozenset({"data", "forward", "backward", "optimizer"})
# What a step passed through before it was reported as done, as bits: the reader adds them to a `step_done` as `passed`.
PASSED: dict[str, int] = {"forward": 1, "backward": 2, "optimizer": 4, "step_returned": 8}
TRAINED = PASSED["backward"] | PASSED["optimizer"] | PASSED["step_returned"]  # a compiled model's forward is not seen
POINTS: tuple[str, ...] = ("entry", "exit", "in_collective", "before_rename", "after_rename", "after_latest")
COMMIT_ONLY_POINTS = frozenset({"before_rename", "after_rename", "after_latest"})

# role of a process of the job, as the process table shows it
ROLES: tuple[str, ...] = (
    "launcher", "rank", "rank_monitor", "in_process_monitor", "checkpoint_writer", "data_worker", "other",
)  # fmt: skip

HEADER: tuple[str, ...] = ("t_ns", "wall_s", "life", "reentry", "group", "rank", "initial_rank", "kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of history. `data` holds the kind's own fields."""

    t_ns: int
    wall_s: float
    kind: str
    life: str | None = None
    reentry: int | None = None
    group: str | None = None
    rank: int | None = None
    initial_rank: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    line: int = 0

    @property
    def ref(self) -> str:
        """`FILE:LINE`, the event's id."""
        return f"{self.file}:{self.line}"


def is_routine(kind: str, phase: object) -> bool:
    """Whether an event is one that every step has and that no verdict looks at for itself: five of six lines."""
    return kind == "step_returned" or (kind == "phase_entered" and phase in PHASES_OF_EVERY_STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """A source of evidence that went blind: which file or source, from which line on, and why.

    `source` is `rank` (a rank's own file, `life` and `rank` say whose), `launcher`, `monitor`, `controller`,
    `control` (the fault-free runs), `manifest`, or the name given by a `source_blind` event.
    """

    source: str
    reason: str
    file: str = ""
    life: str | None = None
    rank: int | None = None
    line: int = 0  # 0: no single line

    @property
    def ref(self) -> str:
        """`FILE:LINE`, or the file alone; empty where there is none."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


def life_id(boot_id: str, pid_namespace: int, pid: int, start_ticks: int) -> str:
    """The text form of a life: one process, never confused with a later one of the same pid."""
    return f"{boot_id[:8]}-{pid_namespace}-{pid}-{start_ticks}"
