"""What a process of the job is, from what can be seen of it: parentage, command line, name, session, and the moment
of its birth. Decides from values only, and says `other` where nothing tells: nothing is ever guessed to be a rank.

How NVRx 0.4.1 and torch make processes:
- the launcher is the job's first process, or was started by that one: a script around it;
- a rank is started by the launcher, in a session of its own, with the rank variables;
- a rank monitor is forked by the launcher and stays what the launcher is;
- the in-process monitor is forked twice by its rank, between the two forks a new session begins, and the first two
  processes end: left is an orphan that runs the rank's program in a session that is neither the rank's nor its own;
- an asynchronous checkpoint writer is forked, or spawned, while its rank is inside its saving call;
- a data worker is forked or spawned by a rank at any time, and torch gives it a name.
The rank variables alone prove nothing: all that a rank makes inherits them.
"""

from __future__ import annotations

from chaos.model.identity import Life
from chaos.observer.known import Known

DATA_WORKER_NAME = "pt_data_worker"
NVRX_LAUNCHERS = ("nvidia_resiliency_ext.fault_tolerance.launcher", "ft_launcher")
LAUNCHERS = (*NVRX_LAUNCHERS, "torchrun", "torch.distributed.run")
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
# What it is by then, it stays: a fork that does not become another program at once, and a rank's word about its saving.
SETTLES_S = 2.0
SPAWN_SETTLES_S = 60.0  # a spawned interpreter imports torch first, and is named after that: 30 s on a busy machine

Role = tuple[str, int | None]  # role, and the rank that it is or serves


class Saving:
    """When each life was inside its saving call, as it said itself. Fed from another thread: one call, one change."""

    def __init__(self) -> None:
        self._spans: dict[str, tuple[int, int | None]] = {}

    def began(self, life: str, t_ns: int) -> None:
        self._spans[life] = (t_ns, None)

    def over(self, life: str, t_ns: int) -> None:
        """It has staged its part, or was thrown out of the call by a restart."""
        began_ns, ended_ns = self._spans.get(life, (t_ns, t_ns))
        if ended_ns is None:
            self._spans[life] = (began_ns, t_ns)

    def covers(self, life: Life, born_ns: tuple[int, int]) -> bool:
        """Whether something born in that interval can have been made by the call."""
        if life.id not in self._spans:
            return False
        began_ns, ended_ns = self._spans[life.id]
        return born_ns[1] >= began_ns and (ended_ns is None or born_ns[0] <= ended_ns)


def role_of(known: Known, launcher: Life | None, ranks: list[Known], saving: Saving, age_s: float) -> Role | None:
    """Its role, or None while that may still change. `launcher`: the job's first process. `ranks`: all ranks seen so
    far, ended ones too."""
    if launcher is None:
        return _wait(known, age_s, None)
    if known.life == launcher:
        return "launcher", None
    if known.parent is not None and known.parent.role == "launcher":
        return _child_of_launcher(known, known.parent, age_s)
    rank = rank_behind(known, ranks)
    if rank is None:
        return _wait(known, age_s, None)
    return _helper_of(known, rank, saving, age_s)


def _child_of_launcher(known: Known, launcher: Known, age_s: float) -> Role | None:
    if not known.info.command:
        return _wait(known, age_s, None)  # it is ending, or was never seen
    if not known.is_fork_of(launcher):
        return _started_by_launcher(known, launcher)
    # Between fork and exec every process looks like this.
    if age_s < SETTLES_S and known.ended_ns is None:
        return None
    monitors = _runs(launcher, NVRX_LAUNCHERS) and age_s >= SETTLES_S and not known.brief
    return ("rank_monitor", None) if monitors else ("other", None)


def _started_by_launcher(known: Known, launcher: Known) -> Role:
    """A rank's variables were set for it by its launcher. What a shell that has some itself starts is no rank."""
    mine, theirs = ({name: of.info.environment.get(name) for name in RANK_VARIABLES} for of in (known, launcher))
    number = rank_in(known.info.environment)
    if number is not None and mine != theirs:
        return "rank", number
    return ("launcher" if _runs(known, LAUNCHERS) else "other"), None


def _runs(known: Known, programs: tuple[str, ...]) -> bool:
    return any(word.endswith(programs) for word in known.info.command)


def rank_behind(known: Known, ranks: list[Known]) -> Known | None:
    """The rank that it descends from. An orphan of which no parent was seen is told by program and rank variable."""
    ancestor = known.parent
    while ancestor is not None:
        if ancestor.role == "rank":
            return ancestor
        if ancestor.role == "launcher":
            return None
        ancestor = ancestor.parent
    number = rank_in(known.info.environment)
    same = [rank for rank in ranks if rank.rank == number and known.is_fork_of(rank)]
    return same[-1] if same else None


def _helper_of(known: Known, rank: Known, saving: Saving, age_s: float) -> Role | None:
    number = rank.rank
    if known.info.name == DATA_WORKER_NAME:
        return "data_worker", number
    if _is_daemon_of(known, rank):
        return "in_process_monitor", number
    own_program = not known.is_fork_of(rank)
    if own_program and (known.info.command or known.executed) and not _is_spawned(known):
        return "other", number  # a compiler, a resource tracker, nvidia-smi: it was executed, so it is none of ours
    if known.parent is not None and known.parent.role == "checkpoint_writer":
        return "checkpoint_writer", number  # NVRx's writer forks one process for each file
    if known.parent is rank and saving.covers(rank.life, known.born_ns):
        return "checkpoint_writer", number
    return _wait(known, age_s, number)


def _is_daemon_of(known: Known, rank: Known) -> bool:
    """Not one of the two that only lead to it: the first is in the rank's session, the second leads its own."""
    if known.brief or known.parent is rank or not known.is_fork_of(rank):
        return False
    return known.info.session not in (0, rank.info.session, known.life.pid)


def _is_spawned(known: Known) -> bool:
    return any("multiprocessing.spawn" in word or "multiprocessing.forkserver" in word for word in known.info.command)


def _wait(known: Known, age_s: float, number: int | None) -> Role | None:
    patience_s = SPAWN_SETTLES_S if _is_spawned(known) and known.ended_ns is None else SETTLES_S
    return ("other", number) if age_s >= patience_s else None


def rank_in(environment: dict[str, str]) -> int | None:
    """The rank variable; None where there is none that is a number."""
    text = environment.get("RANK", "")
    return int(text) if text.isascii() and text.isdigit() else None
