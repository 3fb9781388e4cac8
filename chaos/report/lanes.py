"""The timeline picture: a lane per rank with lives, steps and groups; below them launcher and job; lines for what
happened to all. Geometry only; templates draw it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.model.timeline import Mark, Span
from chaos.report import words
from chaos.report.charts import group_css
from chaos.report.clean import one_line
from chaos.report.scales import AxisTick, Scale, axis_ticks
from chaos.report.series import Series, Window

WIDTH, LEFT, RIGHT = 1080, 84, 1068
RANK_HEIGHT, ROW_HEIGHT, GAP = 62, 22, 8
OVERVIEW_HEIGHT = 16
LANES_MAX = 16
MARKS_MAX = 400  # per lane: more would be a blot
LETTER = 7.0  # about the width of a character of the pictures' small text
GUIDES = {"fault_fired": "fired", "fault_undone": "undone", "detected": "detected", "recovered": "recovered"}
GLYPHS = {
    "process_exited": ("exit", "process ended"),
    "checkpoint_committed": ("commit", "checkpoint committed"),
    "checkpoint_loaded": ("load", "checkpoint loaded"),
    "fault_confirmed": ("confirm", "fault confirmed from outside"),
    "steady_state_met": ("steady", "steady state reached"),
}
OTHER_GLYPH = ("other", "other event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Something that took time."""

    x: float
    y: float
    width: float
    height: float
    css: str
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """The steps of one group in one lane, as one path."""

    css: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A word in the picture."""

    x: float
    y: float
    css: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyph:
    """Something at one moment in one lane."""

    x: float
    y: float
    shape: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One rank, or launcher, or job."""

    name: str
    y: float
    height: float
    boxes: tuple[Box, ...] = ()
    ticks: tuple[Ticks, ...] = ()
    labels: tuple[Label, ...] = ()
    glyphs: tuple[Glyph, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A moment that concerns all lanes. `row` keeps labels apart; `anchor` keeps them inside the picture."""

    x: float
    css: str
    text: str
    row: int
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePicture:
    """All that the template draws."""

    title: str
    top: float
    bottom: float
    height: float
    lanes: tuple[Lane, ...]
    guides: tuple[Guide, ...]
    axis: tuple[AxisTick, ...]
    windows: tuple[Box, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    has_ghosts: bool = False


def zoomed_picture(series: Series, window: Window, title: str) -> LanePicture:
    """One incident, every step visible."""
    scale = Scale(window.start_s, window.end_s, LEFT, RIGHT)
    guides = _guides(series, window, scale)
    top = 18.0 + 15 * (1 + max((guide.row for guide in guides), default=0))
    lanes: list[Lane] = []
    y = top
    for name in _lane_names(series):
        lane = _lane(series, name, window, scale, y)
        if lane is not None:
            lanes.append(lane)
            y += lane.height + GAP
    shapes = {glyph.shape for lane in lanes for glyph in lane.glyphs}
    legend = tuple((shape, text) for shape, text in (*GLYPHS.values(), OTHER_GLYPH) if shape in shapes)
    ghosts = any(ticks.css == "ghost" for lane in lanes for ticks in lane.ticks)
    return LanePicture(title=title, top=top, bottom=y, height=y + 26, lanes=tuple(lanes), guides=guides,
                       axis=axis_ticks(scale, 9, unit=" s"), legend=legend, has_ghosts=ghosts)  # fmt: skip


def overview_picture(series: Series, windows: Sequence[Window]) -> LanePicture:
    """The whole run, small, with the zoomed stretches framed."""
    whole = Window(start_s=0.0, end_s=_end_s(series))
    scale = Scale(whole.start_s, whole.end_s, LEFT, RIGHT)
    top = 16.0
    names = [name for name in _lane_names(series) if name.startswith("rank ")]
    lanes = tuple(
        Lane(
            name=name,
            y=top + index * (OVERVIEW_HEIGHT + 4),
            height=OVERVIEW_HEIGHT,
            boxes=tuple(_life_boxes(series, name, whole, scale, top + index * (OVERVIEW_HEIGHT + 4), OVERVIEW_HEIGHT)),
            ticks=_ticks(series, name, whole, scale, top + index * (OVERVIEW_HEIGHT + 4) + 3, OVERVIEW_HEIGHT - 6),
        )
        for index, name in enumerate(names)
    )
    bottom = top + len(lanes) * (OVERVIEW_HEIGHT + 4)
    frames = tuple(
        Box(x=scale(w.start_s), y=top - 4, width=max(3.0, round(scale(w.end_s) - scale(w.start_s), 1)),
            height=bottom - top + 4, css="frame", text="", title=f"incident {w.number}")
        for w in windows
    )  # fmt: skip
    guides = tuple(guide for guide in _guides(series, whole, scale) if guide.css == "fired")
    return LanePicture(title="whole run", top=top, bottom=bottom, height=bottom + 26, lanes=lanes, guides=guides,
                       axis=axis_ticks(scale, 9, unit=" s"), windows=frames)  # fmt: skip


def hidden_rank_count(series: Series) -> int:
    """How many ranks the pictures leave out."""
    return max(0, len(series.timeline.ranks) - LANES_MAX)


def _end_s(series: Series) -> float:
    ends = [span.end_s for span in series.timeline.spans] + [mark.t_s for mark in series.timeline.steps]
    return max([series.timeline.end_s, *ends, 0.001])


def _lane_names(series: Series) -> list[str]:
    """Ranks (those hit by a fault first to be kept, all in order), then launcher, job and whatever else is named."""
    timeline = series.timeline
    hit = {mark.lane for mark in timeline.marks if mark.kind in ("fault_fired", "process_exited")}
    ranks = [f"rank {rank}" for rank in timeline.ranks]
    kept = set(sorted(ranks, key=lambda name: name not in hit)[:LANES_MAX])
    others = {span.lane for span in timeline.spans} | {mark.lane for mark in timeline.marks}
    order = {"launcher": 0, "job": 1}
    return [name for name in ranks if name in kept] + sorted(
        others - set(ranks), key=lambda name: (order.get(name, 2), name)
    )


def _lane(series: Series, name: str, window: Window, scale: Scale, y: float) -> Lane | None:
    timeline = series.timeline
    marks = [m for m in timeline.marks if m.lane == name and m.kind not in GUIDES and _inside(m.t_s, window)]
    spans = [s for s in timeline.spans if s.lane == name and s.end_s >= window.start_s and s.start_s <= window.end_s]
    if name.startswith("rank "):
        return _rank_lane(series, name, spans, marks, window, scale, y)
    rows = _packed([span for span in spans if span.kind not in ("life", "steps")], scale)
    if not rows and not marks:
        return None
    base = y + (ROW_HEIGHT if marks else 0)
    boxes = list(_life_boxes(series, name, window, scale, y, ROW_HEIGHT - 2)) if marks else []
    boxes += [_span_box(span, scale, base + row * ROW_HEIGHT, ROW_HEIGHT - 4, window.parts) for span, row in rows]
    height = (base - y) + ROW_HEIGHT * (1 + max((row for _, row in rows), default=-1))
    return Lane(name=one_line(name, 12), y=y, height=height, boxes=tuple(boxes),
                glyphs=_glyphs(marks, scale, y + ROW_HEIGHT / 2))  # fmt: skip


def _rank_lane(
    series: Series, name: str, spans: Sequence[Span], marks: Sequence[Mark], window: Window, scale: Scale, y: float
) -> Lane:
    boxes = list(_life_boxes(series, name, window, scale, y, RANK_HEIGHT))
    held = [span for span in spans if span.kind in ("fault", "hold")]
    boxes += [_span_box(span, scale, y + 20, 22) for span in held]
    below = _packed([span for span in spans if span.kind not in ("life", "steps", "fault", "hold")], scale)
    boxes += [
        _span_box(span, scale, y + RANK_HEIGHT + 3 + row * ROW_HEIGHT, ROW_HEIGHT - 4, window.parts)
        for span, row in below
    ]
    return Lane(
        name=name,
        y=y,
        height=RANK_HEIGHT + ROW_HEIGHT * (1 + max((row for _, row in below), default=-1)),
        boxes=tuple(boxes),
        ticks=_ticks(series, name, window, scale, y + 21, 20),
        labels=_group_labels(series, name, window, scale, y + 14),
        glyphs=_glyphs(marks, scale, y + 51),
    )


def _life_boxes(series: Series, name: str, window: Window, scale: Scale, y: float, height: float) -> Iterable[Box]:
    lives = [span for span in series.timeline.spans if span.lane == name and span.kind == "life"]
    for span in lives:
        if span.end_s >= window.start_s and span.start_s <= window.end_s:
            box = _span_box(span, scale, y, height)
            yield Box(x=box.x, y=y, width=box.width, height=height, css="life", text="", title=box.title)


def _ticks(series: Series, name: str, window: Window, scale: Scale, y: float, height: float) -> tuple[Ticks, ...]:
    """Steps on one half pixel are one line, and lines that touch are one area: no step is left out, and the size has
    a bound whatever the number of steps."""
    places: dict[str, dict[float, None]] = {}
    for mark in series.steps_of_lane.get(name, ()):
        if _inside(mark.t_s, window):
            css = "ghost" if series.is_ghost(mark) else group_css(mark.group)
            places.setdefault(css, {})[round(scale(mark.t_s) * 2) / 2] = None
    return tuple(Ticks(css=css, path=_tick_path(sorted(xs), y, height)) for css, xs in places.items())


def _tick_path(xs: Sequence[float], y: float, height: float) -> str:
    runs: list[list[float]] = []
    for x in xs:
        if runs and x - runs[-1][1] <= 1.0:
            runs[-1][1] = x
        else:
            runs.append([x, x])
    return "".join(
        f"M{first:g} {y:g}v{height:g}" + (f"H{last:g}v{-height:g}z" if last > first else "") for first, last in runs
    )


def _group_labels(series: Series, name: str, window: Window, scale: Scale, y: float) -> tuple[Label, ...]:
    """Each group's name and all its steps on this rank, where it first comes into view."""
    steps_of: dict[int, list[int]] = {}
    seen_at_s: dict[int, float] = {}
    for mark in series.steps_of_lane.get(name, ()):
        steps_of.setdefault(mark.group, []).append(mark.step)
        if _inside(mark.t_s, window):
            seen_at_s.setdefault(mark.group, mark.t_s)
    labels, free_x = [], float(LEFT)
    for group, at_s in seen_at_s.items():
        first, last = min(steps_of[group]), max(steps_of[group])
        text = ("group unknown" if group < 0 else f"group {group + 1}") + f": steps {first}–{last}"
        x = min(max(free_x, scale(at_s)), RIGHT - LETTER * len(text))
        labels.append(Label(x=round(x, 1) + 3, y=y, css=group_css(group), text=text))
        free_x = x + LETTER * len(text) + 10
    return tuple(labels)


def _span_box(span: Span, scale: Scale, y: float, height: float, parts: Sequence[str] = ()) -> Box:
    x, end = scale.clamped(span.start_s), scale.clamped(span.end_s)
    width = max(1.5, round(end - x, 1))
    name, time = one_line(words.spaced(span.name), 60), words.seconds(span.end_s - span.start_s)
    if span.kind == "fault" and span.lane == "job" and not name.startswith("outage"):
        name = f"outage: {name}"  # the fault itself is drawn on the rank that it hit
    detail = f": {one_line(span.detail, 300)}" if span.detail else ""
    title = f"{words.spaced(one_line(span.kind, 30))} {name}, {time} ({span.start_s:.3f}–{span.end_s:.3f} s){detail}"
    css = span.kind if span.kind in ("life", "fault", "hold", "detection", "recovery_part") else "span"
    texts = [f"{name} {time}", name]
    if span.kind == "recovery_part" and span.name in parts:
        number = parts.index(span.name) + 1
        texts = [f"{number} {text}" for text in texts] + [str(number)]
        css += " odd" if number % 2 == 0 else ""
    text = next((text for text in texts if LETTER * len(text) + 8 <= width), "")
    return Box(x=x, y=y, width=width, height=height, css=css, text=text, title=title)


def _packed(spans: Iterable[Span], scale: Scale) -> list[tuple[Span, int]]:
    """Each span with the first row in which it overlaps nothing; parts of a recovery in rows of their own, below."""
    placed: list[tuple[Span, int]] = []
    ends: list[float] = []
    first_row = 0
    for span in sorted(spans, key=lambda span: (span.kind == "recovery_part", span.start_s, -span.end_s)):
        if span.kind == "recovery_part" and placed and placed[-1][0].kind != "recovery_part":
            first_row = len(ends)
        start = scale(span.start_s) + 0.6
        row = next((row for row in range(first_row, len(ends)) if ends[row] <= start), len(ends))
        ends[row : row + 1] = [max(scale(span.end_s), scale(span.start_s) + 1.5)]
        placed.append((span, row))
    return placed


def _glyphs(marks: Sequence[Mark], scale: Scale, y: float) -> tuple[Glyph, ...]:
    glyphs = []
    for mark in marks[:MARKS_MAX]:
        shape, words_of_kind = GLYPHS.get(mark.kind, (OTHER_GLYPH[0], words.spaced(one_line(mark.kind, 40))))
        told = (words.spaced(mark.name), mark.detail, mark.ref)
        about = ", ".join(one_line(part, 200) for part in told if part and part != words_of_kind)
        title = f"{words_of_kind} at {mark.t_s:.3f} s" + (f": {about}" if about else "")
        glyphs.append(Glyph(x=scale.clamped(mark.t_s), y=y, shape=shape, title=title))
    return tuple(glyphs)


def _guides(series: Series, window: Window, scale: Scale) -> tuple[Guide, ...]:
    marks = [mark for mark in series.timeline.marks if mark.kind in GUIDES and _inside(mark.t_s, window)]
    guides: list[Guide] = []
    row_ends: list[float] = []
    for mark in sorted(marks, key=lambda mark: mark.t_s)[:MARKS_MAX]:
        x = scale.clamped(mark.t_s)
        text = _guide_text(mark)
        anchor = "end" if x + LETTER * len(text) > WIDTH - 4 else "start"
        left = x - LETTER * len(text) - 4 if anchor == "end" else x
        row = next((index for index, end in enumerate(row_ends) if end <= left), len(row_ends))
        row_ends[row : row + 1] = [left + LETTER * len(text) + 14]
        guides.append(Guide(x=x, css=GUIDES[mark.kind], text=text, row=row, anchor=anchor))
    return tuple(guides)


def _guide_text(mark: Mark) -> str:
    name = one_line(words.spaced(mark.name), 40)
    word = GUIDES[mark.kind]
    where = f" on {one_line(mark.lane, 12)}" if mark.kind == "fault_fired" and mark.lane not in ("", "job") else ""
    text = word if not name or name.lower() in (word, words.spaced(mark.kind)) else f"{name} {word}"
    return f"{text}{where} {mark.t_s:.2f} s"


def _inside(t_s: float, window: Window) -> bool:
    return window.start_s <= t_s <= window.end_s
