"""The command `nvrx-chaos`. Loads a command's file only when that command is asked for: `--help` stays fast.

Every error that users can meet ends here as one message and its documented exit status; anything else is our own
crash: exit 70, the traceback in a file, and everything undone by then.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from importlib import import_module

import click

from chaos import __version__
from chaos.errors import ChaosError
from chaos.model import exit_status

COMMANDS: dict[str, str] = {
    "run": "Run scenarios: real faults into a real job, a verdict for each.",
    "validate": "Check scenario files; start nothing.",
    "faults": "Show the catalogue of faults, or one of them.",
    "doctor": "Say what this host can inject and observe.",
    "judge": "Judge a recorded run again, from its history.",
    "report": "Render recorded runs: HTML, JUnit, JSON, or a table.",
    "heal": "Undo what an earlier run left on this host, and prove it.",
}

EPILOG = (
    "A first run: `nvrx-chaos run scenarios/quick`. What each exit status means: docs/exit-status.md "
    "(0 passed or known, 1 failed, 2 nothing was touched, 3 unknown or interrupted, 4 something is not undone, "
    "70 our crash, 73/74 output trouble)."
)


class LazyGroup(click.Group):
    """Knows its commands by name; imports one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"chaos.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"there is no command {args[0]!r}{hint} (commands: {', '.join(COMMANDS)})")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nvrx-chaos")
def group() -> None:
    """Inject faults into a running NVRx training job, and judge from evidence whether it recovered."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Always ends the process, with a documented status."""
    _open_closed_streams()
    _write_what_cannot_be_shown()
    sys.exit(_status(arguments))


def _open_closed_streams() -> None:
    """Where a caller closed one (`>&-`), what is said goes nowhere; else the next file opened would take its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8", closefd=False))


def _write_what_cannot_be_shown() -> None:
    """Names of files may be any bytes, and terminals may be of a few letters only: such signs are shown as numbers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _status(arguments: list[str] | None) -> int:
    try:
        result = group.main(args=arguments, prog_name="nvrx-chaos", standalone_mode=False)
        return result if isinstance(result, int) else exit_status.PASSED
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        _to_stderr(error.show)
        return exit_status.NOTHING_TOUCHED
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return exit_status.UNKNOWN
    except ChaosError as error:
        _say(f"nvrx-chaos: {error}")
        return error.exit_status
    except (BrokenPipeError, SystemExit):
        # The reader of our output has gone: nothing to say, and nowhere to say it. No command of ours exits by
        # itself; click and rich do when a pipe breaks, with 1, which would say that a run failed.
        _drop(1)
        return exit_status.CANNOT_WRITE
    except OSError as error:
        _say(f"nvrx-chaos: input or output failed: {error}")
        _drop(1)
        return exit_status.CANNOT_WRITE
    except Exception:
        return _crashed()


def _drop(descriptor: int) -> None:
    """What is still buffered would fail once more when the interpreter ends, and change the exit status."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    except OSError:
        pass


def _crashed() -> int:
    """Our own defect. The traceback goes into a file: it is for us, not for whoever runs a nightly job."""
    text = traceback.format_exc()
    try:
        with tempfile.NamedTemporaryFile("w", prefix="nvrx-chaos-crash-", suffix=".txt", delete=False) as file:
            file.write(text)
        where = f"; details in {file.name}"
    except OSError:
        where = f":\n{text}"
    _say(f"nvrx-chaos: this is a defect of ours ({text.splitlines()[-1]}){where}")
    return exit_status.BROKEN


def _say(text: str) -> None:
    _to_stderr(lambda: click.echo(text, err=True))


def _to_stderr(write: Callable[[], None]) -> None:
    """Where not even that can be written, the exit status has to say it alone."""
    try:
        write()
    except OSError:
        _drop(2)
