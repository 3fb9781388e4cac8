"""`nvrx-chaos run`: scenarios in, verdicts out, shown live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from chaos.errors import UsageError
from chaos.model import exit_status


@click.command(short_help="Run scenarios.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--out", default="reports", show_default=True, type=click.Path(path_type=Path), help="Where runs are kept."
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the plan (which rank `any` is)."
)
@click.option(
    "--repeat", default=1, show_default=True, type=click.IntRange(min=1), help="Run each scenario this often."
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a value: --set faults.0.at.step=60.")
@click.option("--keep-job", is_flag=True, help="Leave the job running when the run ends; stop it yourself.")
@click.option("--quiet", is_flag=True, help="No live view; a line for each change, and the final table.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with all verdicts on standard output.")
def command(
    paths: tuple[str, ...],
    out: Path,
    seed: int,
    repeat: int,
    sets: tuple[str, ...],
    keep_job: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run scenario files, or every scenario in a folder.

    Each run gets a folder OUT/<scenario>/<run id> with its history, verdict.json, report.html and junit.xml.
    The fault-free runs that state and data are compared with are made first and kept for later (OUT/controls).
    Ctrl-C undoes every fault, stops the job and judges the run `unknown: interrupted`.

    \b
    nvrx-chaos run scenarios/quick
    nvrx-chaos run scenarios/quick/kill-worker.yaml --set faults.0.target.rank=0
    """
    from chaos.files import absolute, is_text
    from chaos.guard import dirty
    from chaos.jobs.shipped import trainer_root
    from chaos.report.live import LiveView
    from chaos.report.terminal import print_final
    from chaos.run import Campaign, write_index
    from chaos.scenario.discover import find_files
    from chaos.scenario.load import load_paths

    scenarios = load_paths(find_files(paths), sets)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file, not a folder", remedy="choose a folder")
    if not is_text(absolute(out)):
        raise UsageError(f"--out {str(absolute(out))!a} holds bytes that are no UTF-8", remedy="choose another folder")
    dirty.check()
    with LiveView(quiet=quiet) as view:
        campaign = Campaign(out, seed=seed, view=view, keep_job=keep_job, job_root=trainer_root())
        done = campaign.run(scenarios, repeat=repeat)
    verdicts = [run.verdict for run in done]
    if as_json:
        click.echo(_document([run.verdict for run in done], [str(run.run_dir) for run in done]))
    else:
        print_final(verdicts, sys.stdout)
    if done:
        click.echo(f"report: {write_index(out, done)}", err=True)
    for run in done:
        if run.status in exit_status.OURS:
            click.echo(
                f"{run.verdict.scenario}: {exit_status.MEANING[run.status]}: {_last_words(run.run_dir)}", err=True
            )
    statuses = [run.status for run in done]
    if campaign.interrupted:
        statuses.append(exit_status.UNKNOWN)
    status = exit_status.worst_status(statuses)
    if status == exit_status.NOT_UNDONE:
        click.echo("something of this run is not proven undone; next: nvrx-chaos heal", err=True)
    return status


def _last_words(run_dir: Path) -> str:
    """How the log of a run's own process ends: what went wrong on our side."""
    from chaos.report.clean import one_line

    log = run_dir / "logs" / "runner.log"
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return f"{log} cannot be read"
    return f"{one_line(next((line for line in reversed(lines) if line.strip()), 'nothing said'))} ({log})"


def _document(verdicts: list[Any], folders: list[str]) -> bytes:
    import msgspec

    runs = [{"run_dir": folder, "verdict": verdict} for verdict, folder in zip(verdicts, folders, strict=True)]
    return msgspec.json.format(msgspec.json.encode({"schema": "nvrx-chaos/runs/1", "runs": runs}))
