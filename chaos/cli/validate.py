"""`nvrx-chaos validate`: reads scenario files, starts nothing."""

from __future__ import annotations

import click


@click.command(short_help="Check scenario files.")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--show", is_flag=True, help="Print the resolved form: every default, every value that `vary` chose.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a value, as `run` would.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of scenario files, for editors.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(paths: tuple[str, ...], show: bool, sets: tuple[str, ...], schema: bool, as_json: bool) -> int:
    """Check scenario files, or every scenario in a folder. Every error names file, line, field and what is allowed.

    \b
    nvrx-chaos validate scenarios/quick
    nvrx-chaos validate my.yaml --show
    """
    from chaos.scenario.discover import find_files
    from chaos.scenario.load import load_paths
    from chaos.scenario.show import resolved_yaml

    if schema:
        from chaos.scenario.json_schema import as_text

        click.echo(as_text(), nl=False)
        return 0
    scenarios = load_paths(find_files(paths), sets)
    if as_json:
        import msgspec

        rows = [{"name": each.name, "source": each.source, "resolved": each.spec} for each in scenarios]
        click.echo(msgspec.json.format(msgspec.json.encode({"schema": "nvrx-chaos/validate/1", "runs": rows})))
        return 0
    for scenario in scenarios:
        if show:
            click.echo(f"# {scenario.name}, from {scenario.source}\n{resolved_yaml(scenario.spec)}")
        else:
            click.echo(f"ok  {scenario.name}  ({scenario.source})")
    click.echo(f"{len(scenarios)} run(s), all valid", err=True)
    return 0
