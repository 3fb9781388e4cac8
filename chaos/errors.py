"""Every error that a user can meet, in one tree. Knows nothing of how they are shown.

ChaosError                      exit status it ends with
├── UsageError              2   wrong flags or paths; nothing was touched
│   ├── ScenarioInvalid     2   the file is wrong: file, line, field, found, allowed
│   ├── HostDirty           2   an earlier run left an open entry: `nvrx-chaos heal`
│   └── NothingToRun        2   no scenario found, no run directory
├── Refused                 3   this run may not start here (verdict `not_run`): reason and remedy
├── JobMisbehaved           3   the job did what no verdict can rest on (died early, never steady)
├── TargetGone              3   the fault could not fire: its target is not there any more
├── NotUndone               4   something of ours is not proven undone
├── Broken                 70   a defect of ours
├── CannotCreate           73   an output cannot be created
└── CannotWrite            74   input or output failed (full disk, unreadable file)
"""

from __future__ import annotations


class ChaosError(Exception):
    """Base of all errors that users meet.

    `exit_status` is the documented one (`docs/exit-status.md`); `remedy` is the next step, one line.
    """

    exit_status = 70

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.remedy}" if self.remedy else self.message


class UsageError(ChaosError):
    """Wrong flags or paths; nothing was touched."""

    exit_status = 2


class ScenarioInvalid(UsageError):
    """A scenario or suite file is wrong; the message names file, line and field."""


class HostDirty(UsageError):
    """An earlier run left something on this host that nobody looks after any more."""


class NothingToRun(UsageError):
    """The paths given hold nothing that can be run or judged."""


class Refused(ChaosError):
    """This run may not start here; becomes a verdict `not_run` with reason and remedy."""

    exit_status = 3


class JobMisbehaved(ChaosError):
    """The job died early, never became steady, or ended before the fault."""

    exit_status = 3


class TargetGone(ChaosError):
    """The process that a fault was to hit is not there any more, or is not the same."""

    exit_status = 3


class NotUndone(ChaosError):
    """Something of ours could not be undone, or its undo could not be measured."""

    exit_status = 4


class Broken(ChaosError):
    """A defect of ours."""

    exit_status = 70


class CannotCreate(ChaosError):
    """An output folder or file cannot be created."""

    exit_status = 73


class CannotWrite(ChaosError):
    """Reading or writing failed on the way: full disk, lost rights, broken pipe."""

    exit_status = 74
