"""`nvrx-chaos report`: recorded runs rendered again."""

from __future__ import annotations

import sys
from pathlib import Path

import click

FORMATS = ("table", "html", "junit", "json")


@click.command(short_help="Render recorded runs.")
@click.argument("run_dirs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_DIR...")
@click.option("--format", "kind", default="table", show_default=True, type=click.Choice(FORMATS), help="What to write.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of standard output.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(run_dirs: tuple[Path, ...], kind: str, output: Path | None, as_json: bool) -> int:
    """Render recorded verdicts. HTML takes one run (its page); the other formats take any number.

    \b
    nvrx-chaos report reports/kill-worker/*/ --format junit --output junit.xml
    """
    from chaos import conclude
    from chaos.errors import UsageError
    from chaos.files import absolute, write_atomically

    run_dirs = tuple(absolute(run_dir) for run_dir in run_dirs)
    kind = "json" if as_json else kind
    if kind == "html" and len(run_dirs) != 1:
        raise UsageError("html renders one run at a time", remedy="give one RUN_DIR; index.html of `run` links several")
    verdicts = [conclude.read_verdict(run_dir) for run_dir in run_dirs]
    if kind == "table":
        from chaos.report.terminal import final_text, print_final

        if output is None:
            print_final(verdicts, sys.stdout)
            return 0
        text = final_text(verdicts)
    elif kind == "junit":
        from chaos.report.junit import junit_xml

        text = junit_xml(verdicts)
    elif kind == "json":
        import msgspec

        document = {"schema": "nvrx-chaos/verdicts/1", "verdicts": verdicts}
        text = msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"
    else:
        text = conclude.page(run_dirs[0], verdicts[0])
    if output is None:
        click.echo(text.encode(), nl=False)  # documents say that they are UTF-8, whatever the terminal is
    else:
        write_atomically(output, text)
        click.echo(f"wrote {output}", err=True)
    return 0
