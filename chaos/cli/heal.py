"""`nvrx-chaos heal`: what dead runs left on this host, undone and proven."""

from __future__ import annotations

import click

from chaos.model import exit_status


@click.command(short_help="Undo what an earlier run left.")
@click.option("--list", "list_only", is_flag=True, help="Only say what is open, of live runs too.")
@click.option("--dry-run", is_flag=True, help="Say what would be undone; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(list_only: bool, dry_run: bool, as_json: bool) -> int:
    """Carry out every undo that a dead run left open on this host, measure that it worked, close it.

    Runs that are live are left alone. Ends with 0 when nothing is left, with 4 when something is not proven undone.
    """
    from chaos.guard.heal import heal

    result = heal(list_only=list_only, dry_run=dry_run)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode({"schema": "nvrx-chaos/heal/1", "heal": result})))
    else:
        for run in result.runs:
            click.echo(f"{run.run_id}{' (live)' if run.live else ''}{': ' + run.problem if run.problem else ''}")
            for entry in run.entries:
                word = "open" if entry.undone is None else entry.undone.how if entry.healed else "NOT UNDONE"
                detail = f"  {entry.undone.detail}" if entry.undone is not None and entry.undone.detail else ""
                click.echo(f"  {word:<10}  {entry.what}{detail}")
        for folder in result.removed:
            click.echo(f"{'would remove' if dry_run else 'removed'} {folder}")
        if not result.runs:
            click.echo("nothing is left by earlier runs")
    return exit_status.PASSED if result.dry_run or result.clean else exit_status.NOT_UNDONE
