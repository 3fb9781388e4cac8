"""`nvrx-chaos doctor`: what this host can inject and observe."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.model import exit_status


@click.command(short_help="Say what this host can do.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(as_json: bool) -> int:
    """Look at this host: what every run needs, which sources of evidence it has, and which faults can be injected
    here. Changes nothing.

    Ends with 3 when something that every run needs is missing.
    """
    from chaos import fitness
    from chaos.guard import dirty
    from chaos.guard.home import home_path
    from chaos.system.host import host_lines, offers

    host, faults = fitness.host_findings(), fitness.fault_findings()
    sources = fitness.source_findings(offers())
    left = [state.folder.run_id for state in dirty.run_states() if state.dirty]
    status = exit_status.PASSED if all(finding.fit for finding in host) else exit_status.UNKNOWN
    if as_json:
        import msgspec

        found = {"host": host, "sources": sources, "faults": faults}
        document = {"schema": "nvrx-chaos/doctor/1", **found, "dirty_runs": left}
        click.echo(msgspec.json.format(msgspec.json.encode(document)))
        return status
    for title, findings in (("host", host), ("sources", sources), ("faults", faults)):
        click.echo(title)
        for finding in findings:
            word = "ok  " if finding.fit else "some" if title == "sources" else "no  "
            click.echo(f"  {word}  {finding.name:<22} {finding.detail}")
            if finding.remedy and not finding.fit:
                click.echo(f"        {'':<22} next: {finding.remedy}")
    for line in host_lines(Path("reports")):
        click.echo(line)
    click.echo(f"home of ledgers: {home_path()}")
    click.echo(f"left by earlier runs: {', '.join(left) + '   next: nvrx-chaos heal' if left else 'nothing'}")
    return status
