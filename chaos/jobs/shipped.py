"""Where the shipped parts live: beside the package in a checkout, inside it (`_share/`) in a wheel."""

from __future__ import annotations

from pathlib import Path

from chaos.errors import Broken

_PACKAGE = Path(__file__).resolve().parent.parent


def package_root() -> Path:
    """The folder that `import chaos` comes from."""
    return _PACKAGE.parent


def trainer_root() -> Path:
    """The folder to put on PYTHONPATH so that `python -m trainer` finds the reference job."""
    for folder in (_PACKAGE / "_share", _PACKAGE.parent):
        if (folder / "trainer" / "__main__.py").is_file():
            return folder
    raise Broken(f"the reference trainer is missing beside {_PACKAGE}", remedy="install nvrx-chaos again")


def start_folder() -> Path:
    """The folder to put first on PYTHONPATH so that each Python process of a job loads us at its start."""
    folder = _PACKAGE / "agent" / "start"
    if (folder / "sitecustomize.py").is_file():
        return folder
    raise Broken(f"sitecustomize.py is missing in {folder}", remedy="install nvrx-chaos again")
