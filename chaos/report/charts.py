"""Two charts over steps: how long steps took, and the loss against the control. Geometry only; templates draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.report import words
from chaos.report.scales import AxisTick, Scale, axis_ticks, dots_path, line_path, thinned
from chaos.report.series import Series

WIDTH, HEIGHT = 1080, 260
LEFT, RIGHT, TOP, BOTTOM = 72, 966, 14, 222
DOTS_MAX = 160  # more of them would be a thick line
FULL_RANGE = 8.0  # times the median; slower steps are drawn at the upper edge with their number told


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series. `points` are the values for the hover read-out: "x,y x,y"."""

    label: str
    css: str
    path: str
    dots: str
    points: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A straight line across: horizontal at `y`, or vertical at `x`."""

    css: str
    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A stretch of steps."""

    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All that the template draws."""

    name: str
    lines: tuple[Line, ...]
    rules: tuple[Rule, ...]
    bands: tuple[Band, ...]
    outliers: str
    x_low: float
    x_high: float
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    notes: tuple[str, ...]


def step_time_chart(series: Series, ratio: float) -> Chart | None:
    """Step time over steps, a line per group, with the median before the fault and its bound; None without steps."""
    groups = series.slowest_times
    values = [time.time_s * 1e3 for times in groups.values() for time in times]
    median_s = series.median_before_s
    if not values or median_s is None:
        return None
    x = _step_scale(time.step for times in groups.values() for time in times)
    median_ms = median_s * 1e3
    top = min(max(max(values) * 1.08, median_ms * ratio * 1.2), max(median_ms * FULL_RANGE, median_ms * ratio * 1.2))
    y = Scale(0.0, top, BOTTOM, TOP)
    lines = tuple(
        _line(f"group {group + 1}", group_css(group), [(t.step, t.time_s * 1e3) for t in times], x, y, " ms", 1)
        for group, times in groups.items()
    )
    over = [(t.step, t.time_s * 1e3) for times in groups.values() for t in times if t.time_s * 1e3 > top]
    rules = (
        Rule(css="median", label=f"median {words.milliseconds(median_s)}", y=y(median_ms)),
        Rule(css="bound", label=f"{ratio:g} × {words.milliseconds(median_s * ratio)}", y=y(median_ms * ratio)),
    )
    return _chart("step time", lines, rules, _bands(series, x), x, axis_ticks(y, 5, unit=" ms"),
                  outliers=_triangles(over, x), notes=_slow_notes(over))  # fmt: skip


def loss_chart(series: Series) -> Chart | None:
    """Loss over steps, thin, on the control's loss, wide and pale: where they agree one lies on the other."""
    control = _finite(sorted(series.timeline.control_loss.items()))
    groups = {group: _finite(losses) for group, losses in series.losses.items()}
    values = [loss for points in (control, *groups.values()) for _, loss in points]
    if not any(groups.values()):
        return None
    x = _step_scale(step for points in (control, *groups.values()) for step, _ in points)
    margin = (max(values) - min(values)) * 0.06 or abs(values[0]) * 0.05 or 1.0
    y = Scale(min(values) - margin, max(values) + margin, BOTTOM, TOP)
    lines = [_line("control", "control", control, x, y, "", 6)] if control else []
    lines += [
        _line(f"group {group + 1}", group_css(group), points, x, y, "", 6) for group, points in groups.items() if points
    ]
    rules, notes = _against_control(series, x)
    return _chart("loss", tuple(lines), rules, _bands(series, x), x, axis_ticks(y, 5), outliers="", notes=notes)


def group_css(group: int) -> str:
    """The style class of a group; colours begin again after six, names do not."""
    return "unseen" if group < 0 else f"g{group % 6}"


def _chart(
    name: str,
    lines: tuple[Line, ...],
    rules: tuple[Rule, ...],
    bands: tuple[Band, ...],
    x: Scale,
    y_ticks: tuple[AxisTick, ...],
    *,
    outliers: str,
    notes: tuple[str, ...],
) -> Chart:
    return Chart(name=name, lines=lines, rules=rules, bands=bands, outliers=outliers, x_low=x.low, x_high=x.high,
                 x_ticks=axis_ticks(x, 10, whole=True), y_ticks=y_ticks, notes=notes)  # fmt: skip


def _step_scale(steps: Iterable[int]) -> Scale:
    seen = list(steps)
    low, high = min(seen), max(seen)
    return Scale(low, high if high > low else low + 1, LEFT, RIGHT)


def _line(
    label: str, css: str, points: Sequence[tuple[float, float]], x: Scale, y: Scale, unit: str, digits: int
) -> Line:
    kept = thinned(points)
    return Line(
        label=label,
        css=css,
        path=line_path(kept, x, y),
        dots=dots_path(kept, x, y) if len(kept) <= DOTS_MAX and css != "control" else "",
        points=" ".join(f"{step:g},{value:.{digits}f}" for step, value in kept),
        unit=unit,
    )


def _bands(series: Series, x: Scale) -> tuple[Band, ...]:
    """The stretches of steps done twice."""
    stretches: list[list[int]] = []
    for step in series.done_twice:
        if stretches and step == stretches[-1][1] + 1:
            stretches[-1][1] = step
        else:
            stretches.append([step, step])
    return tuple(
        Band(
            x=x.clamped(first - 0.5),
            width=round(x.clamped(last + 0.5) - x.clamped(first - 0.5), 1),
            label=f"done twice: steps {first}–{last}" if last > first else f"done twice: step {first}",
        )
        for first, last in stretches
    )


def _triangles(points: Sequence[tuple[float, float]], x: Scale) -> str:
    return "".join(f"M{x(step) - 4:g} {TOP + 7}l4 -7l4 7z" for step, _ in points[:200])


def _slow_notes(over: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    if not over:
        return ()
    step, value = max(over, key=lambda point: point[1])
    which = words.count(len(over), "step")
    return (f"{which} above the drawn range (▲); the slowest took {value:.0f} ms, at step {step:g}.",)


def _against_control(series: Series, x: Scale) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """What the eye should find in the picture; the check `state_exact` judges, not this."""
    control = series.timeline.control_loss
    odd = [step for points in series.losses.values() for step, loss in points if not math.isfinite(loss)]
    notes = [f"No finite loss at {words.count(len(odd), 'step')}, first at step {min(odd)}."] if odd else []
    if not control:
        return (), (*notes, "No control was given: nothing to compare with.")
    shared = [(step, loss) for points in series.losses.values() for step, loss in points if step in control]
    differing = sorted({step for step, loss in shared if loss != control[step]})
    if not shared:
        return (), (*notes, "The run and its control have no step in common.")
    if not differing:
        return (), (*notes, f"All {len(shared)} losses drawn equal the control's at the same step.")
    first = differing[0]
    note = f"{len(differing)} of {len({step for step, _ in shared})} steps differ from the control, first step {first}."
    return (Rule(css="bound", label=f"first difference: step {first}", x=x(first)),), (*notes, note)


def _finite(points: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(step, value) for step, value in points if math.isfinite(value)]
