"""`report.html` and the index of several: one file each, nothing loaded from elsewhere, readable without scripts.

Everything that comes from a run is text to be escaped: templates escape by default, and the page forbids by its
own policy whatever would run all the same. The pictures' geometry is made by `lanes`, `charts` and `incident`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chaos.model.plan import Plan
from chaos.model.timeline import Timeline
from chaos.model.verdict import Verdict
from chaos.report import charts, evidence, incident, lanes, words
from chaos.report.clean import one_line, shortened, visible
from chaos.report.series import Series

TEMPLATES = Path(__file__).parent / "templates"
CHECK_ORDER = {"fail": 0, "unknown": 1, "pass": 2}  # the rest, not asked, comes last
CELL_MAX = 2000
LOG_LINES_MAX, LOG_CHARACTERS_MAX = 200, 20_000
LOGS_MAX = 20


def report_html(
    verdict: Verdict,
    timeline: Timeline | None,
    *,
    logs: Mapping[str, str] | None = None,
    plan: Plan | None = None,
    kept: Mapping[str, str] | None = None,
    quotes: Mapping[str, str] | None = None,
) -> str:
    """The page of one run. `logs` maps a log's name to its excerpt; `plan` adds title, reason and objectives; `kept`
    maps the name of what was kept when a wait ran out to its text, `quotes` a reference to what stands there.

    Without a timeline (a run that never started) the page has words and tables only.
    """
    ratio = plan.objective.step_time_ratio if plan is not None else 1.5
    return _render(
        "report.html.j2",
        verdict=verdict,
        plan=plan,
        incidents=[
            (each, incident.incident_bars(each, plan.objective if plan else None)) for each in verdict.incidents
        ],
        checks=sorted(
            verdict.checks,
            key=lambda check: (CHECK_ORDER.get(check.outcome, 3), check.name in verdict.foreseen),
        ),
        settings=sorted(verdict.settings_seen.items()),
        quotes=quotes or {},
        sheets=evidence.sheets(kept or {}),
        logs=[_excerpt(name, text) for name, text in list((logs or {}).items())[:LOGS_MAX]],
        **_pictures(verdict, timeline, ratio),
    )


def index_html(verdicts: Sequence[Verdict], links: Sequence[str]) -> str:
    """One page over several runs. `links` are relative paths to their reports, in the same order, "" for none."""
    if len(links) != len(verdicts):
        raise ValueError(f"{len(verdicts)} verdicts need as many links, got {len(links)}")
    # quoted whole, colon and all: a link can only ever be a path below this page
    rows = [(verdict, quote(visible(link), safe="/.-_~")) for verdict, link in zip(verdicts, links, strict=True)]
    return _render("index.html.j2", rows=rows, verdicts=verdicts)


def _pictures(verdict: Verdict, timeline: Timeline | None, ratio: float) -> dict[str, Any]:
    nothing = timeline is None or not (timeline.steps or timeline.spans or timeline.marks)
    if timeline is None or nothing:
        return {"zooms": [], "overview": None, "hidden_ranks": 0, "step_time": None, "loss": None, "groups": ()}
    series = Series(timeline)
    windows = series.incident_windows(verdict)
    many = len(windows) > 1
    return {
        "zooms": [
            lanes.zoomed_picture(series, window, f"incident {window.number}" if many else "incident")
            for window in windows
        ],
        "overview": lanes.overview_picture(series, windows),
        "hidden_ranks": lanes.hidden_rank_count(series),
        "step_time": charts.step_time_chart(series, ratio),
        "loss": charts.loss_chart(series),
        "groups": timeline.groups,
    }


def _excerpt(name: str, text: str) -> tuple[str, str, str]:
    """Name, last lines, and what was left out: the end of a log is where the reason stands."""
    lines = text[-LOG_CHARACTERS_MAX:].splitlines()[-LOG_LINES_MAX:]
    kept = "\n".join(lines)
    cut = len(text) - len(kept)
    return one_line(name), kept, f"last {words.count(len(lines), 'line')} of the excerpt" if cut > 2 else ""


def _render(template: str, **values: Any) -> str:
    style, script = _asset("style.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(style=style, script=script, policy=policy, **values) + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    environment.globals.update(words=words, charts=charts, lanes=lanes, incident_panel=incident, evidence=evidence)
    environment.filters.update(line=one_line, cell=lambda text: shortened(str(text), CELL_MAX))
    return environment


def _harmless(value: Any) -> Any:
    """What every expression of a template gives: escaping follows and is not this function's work."""
    if isinstance(value, Markup):
        return value
    return words.NOTHING if value is None else visible(str(value))


@cache
def _asset(name: str) -> Markup:
    """A file of our own, put into the page as it is."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8").strip())


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
