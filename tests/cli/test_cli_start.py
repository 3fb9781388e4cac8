"""The command starts fast: what it loads, what it says of itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cli_build import QUICK, ROOT

from chaos import __version__
from chaos.cli.main import COMMANDS

HEAVY = {"torch", "chaoslib", "numpy", "psutil", "nvidia_resiliency_ext"}
LOOK = (
    "import sys\nfrom chaos.cli.main import _status\nstatus = _status(sys.argv[1:])\n"
    "print('LOADED', *sys.modules, file=sys.stderr)\nsys.exit(status)"
)


def loaded_by(*arguments):
    ran = subprocess.run(
        [sys.executable, "-c", LOOK, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return {name.split(".")[0] for name in ran.stderr.rpartition("LOADED")[2].split()}


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["validate", QUICK], ["validate", "--schema"], ["faults"], ["faults", "process.kill"]]
    + [[name, "--help"] for name in COMMANDS],
    ids=" ".join,
)
def test_nothing_heavy_is_loaded(arguments):
    assert not loaded_by(*arguments) & HEAVY


def test_help_names_every_command_and_where_exit_statuses_are_explained(call):
    ran = call("--help")
    assert ran.returncode == 0 and ran.stderr == ""
    for name, summary in COMMANDS.items():
        assert name in ran.stdout and summary.split(":")[0].split(";")[0] in " ".join(ran.stdout.split())
    assert "docs/exit-status.md" in " ".join(ran.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, call):
    ran = call(name, "-h")
    assert ran.returncode == 0 and f"Usage: nvrx-chaos {name}" in ran.stdout and len(ran.stdout.splitlines()) > 5


def test_the_version_is_the_packages(call):
    assert call("--version").stdout.strip().endswith(__version__)
