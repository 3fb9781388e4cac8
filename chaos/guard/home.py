"""Where ledgers live: one folder per run in the home folder of this host. Knows paths, not their contents."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from chaos.errors import CannotCreate, UsageError
from chaos.model.identity import Life

HOME_VARIABLE = "NVRX_CHAOS_HOME"
_ROOT_HOME = Path("/var/lib/nvrx-chaos")
_FORBIDDEN = ("", ".", "..")


def home_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The home folder of this user on this host; not created by asking."""
    if chosen := environment.get(HOME_VARIABLE):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return _ROOT_HOME
    # XDG says a relative path there is to be ignored.
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path(environment.get("HOME") or "~").expanduser() / ".local/state"
    return base / "nvrx-chaos"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: whose run it is. `run_dir` is where its report lies."""

    run_id: str
    run_dir: str
    controller: Life
    started_wall_s: float


class RunFolder(msgspec.Struct, frozen=True, kw_only=True):
    """One run's folder in the home."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def lock(self) -> Path:
        return self.path / "watchdog.lock"

    @property
    def log(self) -> Path:
        return self.path / "watchdog.log"

    def record(self) -> RunRecord | None:
        """What `run.json` says; None when it is missing or unreadable."""
        try:
            return msgspec.json.decode((self.path / "run.json").read_bytes(), type=RunRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def remove(self) -> None:
        """Removes the folder with all in it."""
        shutil.rmtree(self.path)


def make_run_folder(home: Path, record: RunRecord) -> RunFolder:
    """A fresh folder for this run. Raises CannotCreate when that is not possible."""
    if record.run_id in _FORBIDDEN or "/" in record.run_id:
        raise UsageError(f"{record.run_id!r} cannot name a run: it must be a plain file name")
    folder = RunFolder(path=home / record.run_id)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.path.mkdir(mode=0o700)
        (folder.path / "run.json").write_bytes(msgspec.json.encode(record) + b"\n")
    except FileExistsError:
        raise CannotCreate(
            f"run {record.run_id} already has a folder: {folder.path}", remedy="nvrx-chaos heal, or another run id"
        ) from None
    except OSError as problem:
        raise CannotCreate(
            f"the ledger's folder cannot be made: {folder.path}: {problem.strerror}",
            remedy=f"free some space there, or set {HOME_VARIABLE} to a folder on a local disk that you can write",
        ) from None
    return folder


def run_folders(home: Path) -> list[RunFolder]:
    """Every run's folder, by name; none when the home does not exist. Raises OSError when it cannot be read."""
    try:
        names = sorted(os.listdir(home))
    except FileNotFoundError:
        return []
    return [RunFolder(path=home / name) for name in names if (home / name).is_dir()]


class Lock:
    """An exclusive lock on a file, held for as long as this object (or its process) lives."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @staticmethod
    def take(path: Path) -> Lock | None:
        """None when somebody holds it. Raises OSError when the file cannot be opened."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return Lock(handle)

    def release(self) -> None:
        """May be called twice."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock. A lock file that never was is held by nobody."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who ask at one time do not see each other as the holder.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
