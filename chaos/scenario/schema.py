"""The records of the file format: one strict struct for each mapping of a scenario file, and its defaults.

A key that is part of the format but does not work in this version is listed in `not_yet` (and a value in
`later_values`), so that its error can say so. Leaves to `meaning.py` what keys mean together.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from chaos.model.events import KINDS
from chaos.scenario.units import PATTERN, SIZE_PATTERN

SCHEMA = "nvrx-chaos/scenario/1"
DEFAULTS_SCHEMA = "nvrx-chaos/defaults/1"

Duration: TypeAlias = Annotated[str, Meta(pattern=PATTERN, description="a duration: 500ms, 8s, 2m")]
Size: TypeAlias = Annotated[
    str, Meta(pattern=SIZE_PATTERN, description="a whole number with its unit: 512KiB, 16MiB, 1GiB")
]
Line: TypeAlias = Annotated[str, Meta(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$", description="one line of text")]
Text: TypeAlias = Annotated[
    str, Meta(max_length=2000, pattern=r"^[^\x00-\x09\x0b-\x1f\x7f]*$", description="text, also of several lines")
]
# Only addresses that anybody can open: a page of this host, or one that needs a password, tells others nothing.
Url: TypeAlias = Annotated[
    str,
    Meta(
        max_length=500,
        pattern=r"^https?://[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:[0-9]+)?(/[!-~]*)?$(?!\n)",
        description="the http or https address of a public page",
    ),
]
Day: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="a day, such as 2027-03-01")]
Versions: TypeAlias = Annotated[
    str, Meta(max_length=100, description="conditions on a version: `>=0.4.1` or `>=0.4.1,<0.7`")
]
# A scenario's name is a folder's name. Brackets hold what `vary` chose: kill-worker[rank=0].
Name: TypeAlias = Annotated[
    str,
    Meta(
        max_length=120,
        pattern=r"^[a-z0-9][a-z0-9-]*(\[[A-Za-z0-9_.,=+-]+\])?$",
        description="small letters, digits and dashes",
    ),
]
FaultName: TypeAlias = Annotated[
    str, Meta(max_length=60, pattern=r"^[a-z][a-z0-9_-]*$", description="small letters, digits, dashes")
]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=10_000_000)]
Rank: TypeAlias = Annotated[int, Meta(ge=0, le=100_000, description="initial rank")]

Layer: TypeAlias = Literal["in_process", "in_job"]
Recovery: TypeAlias = Literal["in_process", "in_job", "new_job", "none"]
Phase: TypeAlias = Literal[
    "init", "rendezvous", "data", "forward", "backward", "optimizer", "checkpoint_save",
    "checkpoint_commit", "checkpoint_load", "restart", "shutdown",
]  # fmt: skip
Point: TypeAlias = Literal["entry", "exit", "in_collective", "before_rename", "after_rename", "after_latest"]
Part: TypeAlias = Literal["detection", "teardown", "start", "rendezvous", "init", "checkpoint_load", "first_step"]

# Events that an injection can wait for: what the job does, not what we do to it, and not its end.
_NO_TRIGGER = ("rank_finished", "settings_seen", "job_started", "job_finished")
TRIGGER_EVENTS: tuple[str, ...] = tuple(
    kind for kind in list(KINDS)[: list(KINDS).index("fault_armed")] if kind not in _NO_TRIGGER
)


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """Base of the records. `not_yet`: known keys that do not work in this version, and what to do meanwhile."""

    not_yet: ClassVar[dict[str, str]] = {}
    later_values: ClassVar[dict[str, tuple[str, ...]]] = {}


class Job(Record, frozen=True, kw_only=True):
    """The job under test. Exactly one of `run` and `command`."""

    not_yet = {"attach": "start the job with `command`", "spares": "leave it out"}
    later_values = {"launcher": ("torchrun", "none"), "where": ("nodes", "slurm", "kubernetes")}

    run: Literal["trainer"] | None = None
    command: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)] | None = None
    launcher: Literal["ft_launcher"] = "ft_launcher"
    where: Literal["local"] = "local"
    nodes: Annotated[int, Meta(ge=1, le=1, description="more are not in this version")] = 1
    ranks_per_node: Annotated[int, Meta(ge=1, le=1024)] = 2
    recovery: list[Layer] = []
    shrink: bool = False
    steps: Positive = 120
    env: dict[str, str] = {}
    args: dict[str, Any] = {}


class SteadyState(Record, frozen=True, kw_only=True):
    """How many steps in a row, done by every rank, count as steady."""

    steps: Annotated[int, Meta(ge=1, le=100_000)] = 10


class Target(Record, frozen=True, kw_only=True):
    """Initial ranks. Exactly one of `rank` and `ranks`; `target: any` and `target: all` are words of their own."""

    not_yet = {"role": "hit a rank instead", "node": "list its `ranks` instead"}

    rank: Rank | None = None
    ranks: Annotated[list[Rank], Meta(min_length=1)] | None = None


class AfterPoint(Record, frozen=True, kw_only=True):
    """So long after the phase was entered."""

    after: Duration


class When(Record, frozen=True, kw_only=True):
    """When a fault is due. Exactly one of `step`, `after` (from steady state) and `event`."""

    not_yet = {"every": "list the fault once for each time", "mtbf": "list the fault once for each time"}

    step: Count | None = None
    phase: Phase | None = None
    point: Point | AfterPoint | None = None
    after: Duration | None = None
    event: str | None = None


class FaultEntry(Record, frozen=True, kw_only=True):
    """One fault. `name` defaults to its family; `params` are the fault's own."""

    name: FaultName | None = None
    fault: str
    params: dict[str, Any] = {}
    target: Literal["any", "all"] | Target = "any"
    at: When
    lasts: Duration | None = None


class RestartBounds(Record, frozen=True, kw_only=True):
    """Upper bounds of counted restarts."""

    in_process: Count | None = None
    in_job: Count | None = None


class Close(Record, frozen=True, kw_only=True):
    """Relative difference of the loss allowed per step."""

    close: Annotated[float, Meta(gt=0, le=1)]


class CheckChoice(Record, frozen=True, kw_only=True):
    """Checks asked beyond the usual ones, and usual ones not asked."""

    add: list[str] = []
    drop: list[str] = []


class Objective(Record, frozen=True, kw_only=True):
    """What the job is held to."""

    recovered_by: Recovery | Annotated[list[Recovery], Meta(min_length=1)] | None = None
    clock_from: Literal["fired", "undone"] | None = None
    detection_time: Duration | None = None
    recovery_time: Duration | None = None
    full_recovery_time: Duration | None = None
    lost_steps: Count | None = None
    restarts: RestartBounds | None = None
    parts: dict[str, Duration] = {}
    world_size: Literal["same", "shrunk"] = "same"
    state: Literal["exact"] | Close = "exact"
    data: Literal["exactly_once"] = "exactly_once"
    step_time_ratio: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    memory_growth: Size | None = None
    blamed: Literal["right"] | None = None
    checks: CheckChoice = CheckChoice()


class Limits(Record, frozen=True, kw_only=True):
    """What we may do at most. `timeout` bounds the whole run."""

    not_yet = {"stop_when": "leave it out"}

    timeout: Duration = "120s"
    ranks_down: Annotated[int, Meta(ge=1, le=100_000)] = 1
    nodes_down: Annotated[int, Meta(ge=0, le=0, description="more are not in this version")] = 0
    faults: Count | None = None


class Since(Record, frozen=True, kw_only=True):
    """Which versions have a defect. At least one."""

    nvrx: Versions | None = None
    torch: Versions | None = None
    python: Versions | None = None


class KnownDefect(Record, frozen=True, kw_only=True):
    """A defect of others: these checks fail by it, and that is counted apart until a day."""

    checks: Annotated[list[str], Meta(min_length=1)]
    since: Since
    ref: Url
    until: Day


class ScenarioFile(Record, frozen=True, kw_only=True):
    """A whole scenario file."""

    schema: Literal["nvrx-chaos/scenario/1"]
    name: Name
    title: Line = ""
    why: Text = ""
    tags: list[Annotated[str, Meta(min_length=1, max_length=60)]] = []
    job: Job
    steady_state: SteadyState = SteadyState()
    faults: list[FaultEntry] = []
    objective: Objective = Objective()
    limits: Limits = Limits()
    expect_failed: list[str] = []
    known: KnownDefect | None = None
    vary: dict[str, Annotated[list[Any], Meta(min_length=1)]] = {}


class DefaultsFile(Record, frozen=True, kw_only=True):
    """`defaults.yaml`: what the scenarios of its folder share. The same keys, fewer of them."""

    schema: Literal["nvrx-chaos/defaults/1"] = "nvrx-chaos/defaults/1"
    job: Job = Job()
    objective: Objective = Objective()
    tags: list[Annotated[str, Meta(min_length=1, max_length=60)]] = []
    steady_state: SteadyState = SteadyState()
    limits: Limits = Limits()
