"""`nvrx-chaos faults`: the catalogue."""

from __future__ import annotations

from typing import Any

import click


@click.command(short_help="Show the catalogue of faults.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(name: str | None, as_json: bool) -> int:
    """List the faults that can be injected; with NAME, show one: parameters, what it certifies and what not."""
    import msgspec

    from chaos.errors import UsageError
    from chaos.faults.catalogue import BY_NAME, CATALOGUE

    if name is not None and name not in BY_NAME:
        from difflib import get_close_matches

        near = get_close_matches(name, BY_NAME, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"there is no fault {name!r}{hint}", remedy="nvrx-chaos faults   # lists them")
    chosen = [BY_NAME[name]] if name else list(CATALOGUE)
    if as_json:
        rows = [_row(fault) for fault in chosen]
        click.echo(msgspec.json.format(msgspec.json.encode({"schema": "nvrx-chaos/faults/1", "faults": rows})))
    elif name is None:
        width = max(len(fault.name) for fault in chosen)
        for fault in chosen:
            click.echo(f"{fault.name:<{width}}  {fault.summary}")
        click.echo("\nnvrx-chaos faults NAME shows one of them.", err=True)
    else:
        _show(chosen[0])
    return 0


def _row(fault: Any) -> dict[str, Any]:
    return {
        "name": fault.name,
        "summary": fault.summary,
        "layer": fault.layer,
        "fidelity": fault.fidelity,
        "ends": fault.ends,
        "usual_recovery": fault.usual_layer,
        "certifies": fault.certifies,
        "does_not_certify": fault.does_not_certify,
        "needs": list(fault.needs),
        "touches": list(fault.touches),
        "params": _params(fault),
    }


def _params(fault: Any) -> dict[str, Any]:
    import msgspec

    schema = msgspec.json.schema(fault.Params)
    definition = schema["$defs"][fault.Params.__name__]
    properties: dict[str, Any] = definition.get("properties", {})
    return properties


def _show(fault: Any) -> None:
    row = _row(fault)
    for key in ("name", "summary", "layer", "fidelity", "ends", "usual_recovery", "certifies", "does_not_certify"):
        click.echo(f"{key.replace('_', ' '):<17} {row[key]}")
    click.echo(f"{'needs':<17} {', '.join(row['needs'])}")
    click.echo(f"{'touches':<17} {', '.join(row['touches']) or 'nothing but its target'}")
    if not row["params"]:
        click.echo(f"{'params':<17} none")
    for name, rule in row["params"].items():
        allowed = ", ".join(map(str, rule["enum"])) if "enum" in rule else rule.get("type", "")
        default = f" (default {rule['default']!r})" if "default" in rule else ""
        click.echo(f"{'params.' + name:<17} {allowed}{default}")
    click.echo(f"\nin a scenario:\nfaults: [{{fault: {fault.name}, at: {{step: 57, phase: backward}}}}]")
