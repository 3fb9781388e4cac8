"""`nvrx-chaos judge`: a recorded run judged again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaos.errors import ChaosError
from chaos.model import exit_status

if TYPE_CHECKING:
    from chaos.model.verdict import Verdict


@click.command(short_help="Judge a recorded run again.")
@click.argument("run_dirs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_DIR...")
@click.option("--write", is_flag=True, help="Write verdict.json, junit.xml and report.html anew.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with the verdicts on standard output.")
def command(run_dirs: tuple[Path, ...], write: bool, as_json: bool) -> int:
    """Judge run directories from their history alone, and say whether the verdict is the one recorded.

    Without --write nothing is changed.
    """
    from chaos import conclude
    from chaos.files import absolute
    from chaos.report.terminal import print_final

    verdicts = []
    for run_dir in run_dirs:
        run_dir = absolute(run_dir)
        verdict = conclude.conclude(run_dir) if write else conclude.judge_run(run_dir)[0]
        verdicts.append(verdict)
        if not write and (run_dir / conclude.VERDICT).is_file():
            click.echo(f"{run_dir.name}: {verdict.outcome}, {_against_recorded(run_dir, verdict)}", err=True)
    if as_json:
        import msgspec

        document = {"schema": "nvrx-chaos/verdicts/1", "verdicts": verdicts}
        click.echo(msgspec.json.format(msgspec.json.encode(document)))
    else:
        print_final(verdicts, sys.stdout)
        for verdict in verdicts:
            click.echo(f"{verdict.scenario}: {verdict.sentence}")
    return exit_status.worst_status(exit_status.status_of(verdict) for verdict in verdicts)


def _against_recorded(run_dir: Path, verdict: Verdict) -> str:
    from chaos import conclude

    try:
        recorded = conclude.read_verdict(run_dir)
    except ChaosError as error:
        return f"NOT as recorded ({error.message})"
    return "as recorded" if recorded == verdict else f"NOT as recorded (recorded: {recorded.outcome})"
