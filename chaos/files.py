"""Writing a file so that a reader sees the old one or the new one, never half of one; and reading it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from chaos.errors import CannotCreate, CannotWrite, ChaosError


def write_atomically(path: Path, text: str) -> None:
    """Writes beside, flushes to disk, renames. Raises CannotCreate or CannotWrite; leaves no half file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, path)
    except OSError as error:
        try:
            beside.unlink(missing_ok=True)
        except OSError:
            pass
        raise output_error(path, error) from error


def read_plain(path: Path) -> bytes:
    """All of a plain file. Raises OSError, also for what is none: a pipe might keep its reader waiting for ever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no plain file")
    return path.read_bytes()


def make_folder(path: Path) -> None:
    """Makes a folder and its parents. Raises CannotCreate with the reason."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(path, error) from error


def absolute(path: Path) -> Path:
    """Without links, as far as they lead anywhere: a loop of links is left to whoever opens it."""
    return Path(os.path.realpath(path))


def is_text(path: Path) -> bool:
    """Whether a path can be written into a file of text; to the system any bytes are one."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def output_error(path: Path, error: OSError) -> ChaosError:
    """The user's error for a failed write: 74 where the device failed on the way, 73 where it cannot be created."""
    what = f"cannot write {path}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG):
        return CannotWrite(what, remedy="free some space there, or choose another folder with --out")
    return CannotCreate(what, remedy="choose a folder you may write in with --out")
