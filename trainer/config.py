"""Every setting of the reference job, and how the command line spells it. Knows no torch and no NVRx.

One frozen record for each part; each field is a flag (`checkpoint_every` is `--checkpoint-every`).
Records refuse to exist in a bad state, so whatever is parsed can be run.
"""

# ruff: noqa: RUF009 - `setting` is dataclasses.field with a sentence for --help
from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

LAYERS = ("in_process", "in_job")


def setting(default: Any, meaning: str) -> Any:
    """A field with its default and the sentence that `--help` prints."""
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """The network: a byte-level GPT."""

    layers: int = setting(2, "transformer blocks")
    width: int = setting(64, "features of a token")
    heads: int = setting(4, "attention heads; they share the width")
    context: int = setting(32, "bytes that the model sees at once")
    dropout: float = setting(0.05, "share of features dropped while training")

    def __post_init__(self) -> None:
        _at_least(self, 1, "layers", "width", "heads", "context")
        if self.width % self.heads:
            raise ValueError(f"--width {self.width} cannot be shared by {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and below 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """The text, and how much of it one step reads."""

    data: Path | None = setting(None, "text file or folder to learn; the standard library's source when left out")
    data_bytes_max: int = setting(1_000_000, "bytes of the text to use at most")
    batch: int = setting(4, "samples of one rank in one step")

    def __post_init__(self) -> None:
        _at_least(self, 1, "data_bytes_max", "batch")


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimisation:
    """AdamW, warm-up and cosine, gradient clipping."""

    learning_rate: float = setting(1e-3, "highest learning rate")
    learning_rate_floor: float = setting(0.1, "where the cosine ends, as a share of the highest")
    warmup_steps: int = setting(10, "steps of linear warm-up")
    schedule_steps: int = setting(0, "steps until the cosine has ended; 0: as many as the run has")
    weight_decay: float = setting(0.01, "AdamW's weight decay")
    clip_norm: float = setting(1.0, "gradients are scaled down to this norm")

    def __post_init__(self) -> None:
        _at_least(self, 0, "learning_rate", "learning_rate_floor", "warmup_steps", "schedule_steps", "weight_decay")
        if self.clip_norm <= 0:
            raise ValueError(f"--clip-norm is {self.clip_norm}; it must be above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What runs, where it leaves its files, and which layers of NVRx bring it back."""

    out: Path = setting(None, "folder for checkpoints; a run that finds a complete one there resumes from it")
    ranks: int = setting(2, "processes on this host")
    steps: int = setting(120, "steps in all")
    seed: int = setting(0, "seed of weights, dropout and sample order")
    recovery: str = setting("in_process,in_job", "NVRx layers switched on: in_process, in_job, both, or empty")
    shrink: bool = setting(False, "let in-process restart go on with fewer ranks")
    max_restarts: int = setting(3, "restarts by the launcher (in_job)")
    max_in_process_restarts: int = setting(10, "restarts inside one life of the processes (in_process)")
    checkpoint_every: int = setting(20, "steps between checkpoints; 0: none")
    checkpoints_kept: int = setting(2, "complete checkpoints that stay on disk")
    metrics: Path | None = setting(None, "file to which rank 0 appends a JSON line for each step")

    def __post_init__(self) -> None:
        _at_least(self, 1, "ranks", "steps", "checkpoints_kept")
        _at_least(self, 0, "seed", "max_restarts", "max_in_process_restarts", "checkpoint_every")
        for layer in self.layers:
            if layer not in LAYERS:
                raise ValueError(f"--recovery names {layer!r}; known layers: {', '.join(LAYERS)}")

    @property
    def layers(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.recovery.split(",") if name.strip())

    @property
    def in_process(self) -> bool:
        return "in_process" in self.layers

    @property
    def in_job(self) -> bool:
        return "in_job" in self.layers


@dataclass(frozen=True, kw_only=True, slots=True)
class Intervals:
    """Every interval and timeout in force, in seconds: what a recovery time is made of."""

    # launcher and rank monitors
    monitor_interval_s: float = setting(0.2, "launcher: how often it looks at its ranks")
    workload_check_interval_s: float = setting(0.2, "rank monitor: how often it looks for late heartbeats")
    initial_heartbeat_timeout_s: float = setting(60.0, "rank monitor: wait for the first heartbeat")
    heartbeat_timeout_s: float = setting(3.0, "rank monitor: silence that counts as a hang")
    heartbeat_interval_s: float = setting(0.25, "rank: shortest time between two heartbeats")
    # A stopped rank does not heed SIGTERM, and its own monitor may be told to stand down before it has fired: then
    # this is what a hang waits for.
    workers_stop_timeout_s: int = setting(1, "launcher: SIGTERM to SIGKILL when it stops ranks")
    # in-process restart
    monitor_thread_interval_s: float = setting(0.25, "in-process: monitor thread")
    monitor_process_interval_s: float = setting(0.25, "in-process: monitor process")
    progress_watchdog_interval_s: float = setting(0.25, "in-process: progress watchdog")
    in_process_heartbeat_interval_s: float = setting(0.25, "in-process: heartbeats between ranks")
    in_process_heartbeat_timeout_s: float = setting(30.0, "in-process: silence of a rank that counts as its loss")
    last_call_wait_s: float = setting(0.25, "in-process: wait for other ranks' failures before a restart")
    soft_timeout_s: float = setting(60.0, "in-process: no progress, abort and restart")
    hard_timeout_s: float = setting(90.0, "in-process: no progress, terminate the rank")
    barrier_timeout_s: float = setting(120.0, "in-process: wait for all ranks at a restart")
    completion_timeout_s: float = setting(120.0, "in-process: wait for all ranks at the end")
    termination_grace_s: float = setting(5.0, "in-process: SIGTERM to SIGKILL of a rank without progress")
    # process group and checkpoints
    collective_timeout_s: float = setting(60.0, "process group: longest wait in a collective or rendezvous")
    checkpoint_wait_s: float = setting(30.0, "longest wait for an unfinished checkpoint")

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) <= 0:
                raise ValueError(f"{flag(each.name)} is {getattr(self, each.name)}; it must be above 0")
        _in_order(self, "soft_timeout_s", "hard_timeout_s", "barrier_timeout_s")
        _in_order(self, "in_process_heartbeat_interval_s", "in_process_heartbeat_timeout_s", "barrier_timeout_s")
        _in_order(self, "monitor_process_interval_s", "in_process_heartbeat_timeout_s")
        for name in ("monitor_thread_interval_s", "monitor_process_interval_s", "progress_watchdog_interval_s"):
            _in_order(self, name, "soft_timeout_s")
        _in_order(self, "heartbeat_interval_s", "heartbeat_timeout_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """All settings of one run."""

    preset: str
    model: Model
    data: Data
    optimisation: Optimisation
    run: Run
    intervals: Intervals

    @property
    def schedule_steps(self) -> int:
        return self.optimisation.schedule_steps or self.run.steps

    def flat(self) -> dict[str, Any]:
        """Every setting under its own name, plain values only: what `settings_seen` records.

        Places are left out: two runs that differ only in where they write have equal settings.
        """
        found: dict[str, Any] = {"preset": self.preset}
        for part in (self.model, self.data, self.optimisation, self.run, self.intervals):
            found |= asdict(part)
        shown = {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}
        return {name: value for name, value in shown.items() if name not in PLACES}


PARTS: dict[str, type] = {
    "model": Model, "data": Data, "optimisation": Optimisation, "run": Run, "intervals": Intervals,
}  # fmt: skip
PLACES = frozenset({"out", "metrics"})
PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},  # the defaults: about 20 ms a step with two ranks on two CPU cores
    "small": {"layers": 4, "width": 192, "heads": 6, "context": 64},  # 1.9 million parameters
}


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """The settings that a command line asks for. Wrong ones end the program: message, exit status 2."""
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    preset = given.pop("preset", "quick")
    chosen = PRESETS[preset] | given
    if "out" not in chosen:
        parser.error("--out is missing: name the folder for checkpoints")
    try:
        parts = {name: _build(record, chosen) for name, record in PARTS.items()}
        return Settings(preset=preset, **parts)
    except ValueError as error:
        parser.error(str(error))


def flag(name: str) -> str:
    """How the command line spells a field."""
    return "--" + name.replace("_", "-")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Trains a byte-level GPT with FSDP2 under NVIDIA Resiliency Extension: ft_launcher around it, "
        "in-process restart inside it. Started again with the same --out it resumes from the newest complete "
        "checkpoint, to the same bits.",
        epilog="Example: python -m trainer --out /tmp/job --steps 200 --recovery in_job",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--preset", choices=tuple(PRESETS), help="sizes to start from (quick); other flags win")
    for title, record in PARTS.items():
        group = parser.add_argument_group(title, (record.__doc__ or "").strip())
        for each in fields(record):
            _add_flag(group, each.name, each.default, str(each.type), each.metadata["help"])
    return parser


def _add_flag(group: Any, name: str, default: Any, kind: str, meaning: str) -> None:
    if kind == "bool":
        group.add_argument(flag(name), action=argparse.BooleanOptionalAction, help=f"{meaning} (no)")
        return
    convert = {"int": int, "float": float, "str": str}.get(kind, Path)
    shown = "" if default is None else f" ({default})"
    group.add_argument(flag(name), type=convert, metavar=convert.__name__.upper(), help=meaning + shown)


def _build(record: type, chosen: dict[str, Any]) -> Any:
    return record(**{each.name: chosen[each.name] for each in fields(record) if each.name in chosen})


def _at_least(record: Any, bound: int, *names: str) -> None:
    for name in names:
        if getattr(record, name) < bound:
            raise ValueError(f"{flag(name)} is {getattr(record, name)}; it must be at least {bound}")


def _in_order(record: Any, *names: str) -> None:
    """NVRx refuses timeouts that overtake each other; say which before anything starts."""
    for first, second in itertools.pairwise(names):
        if getattr(record, first) >= getattr(record, second):
            raise ValueError(
                f"{flag(first)} is {getattr(record, first)}; "
                f"it must be below {flag(second)}, which is {getattr(record, second)}"
            )
