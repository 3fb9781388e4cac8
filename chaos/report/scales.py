"""Numbers to places in a picture: scales, round tick values, thinning of long series. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

POINTS_MAX = 2000  # a series with more is thinned: no screen shows more, and the page stays small


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps low … high to the pixels start … end. An empty range is widened, so that nothing divides by zero."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)

    def clamped(self, value: float) -> float:
        """As a call, but never outside the picture."""
        return self(min(max(value, self.low), self.high))


@dataclass(frozen=True, slots=True)
class AxisTick:
    """One labelled place on an axis."""

    at: float
    label: str


def axis_ticks(scale: Scale, about: int, *, unit: str = "", whole: bool = False) -> tuple[AxisTick, ...]:
    """About that many ticks at round values (1, 2 or 5 times a power of ten); `whole` for counts such as steps."""
    span = scale.high - scale.low
    if span <= 0 or not math.isfinite(span):
        return (AxisTick(scale(scale.low), f"{scale.low:g}{unit}"),)
    step = _round_up(span / max(about, 1))
    step = max(1.0, step) if whole else step
    digits = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return tuple(AxisTick(scale(n * step), f"{n * step:.{digits}f}{unit}") for n in range(first, last + 1))


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value * (1 - 1e-9))


def thinned(points: Sequence[tuple[float, float]], limit: int = POINTS_MAX) -> list[tuple[float, float]]:
    """At most `limit` points: of each stretch the lowest and the highest, so that no spike is lost; both ends kept."""
    if len(points) <= limit:
        return list(points)
    inner = points[1:-1]
    buckets = max(1, (limit - 2) // 2)
    kept = [points[0]]
    for index in range(buckets):
        bucket = inner[len(inner) * index // buckets : len(inner) * (index + 1) // buckets]
        if bucket:
            low, high = min(bucket, key=lambda p: p[1]), max(bucket, key=lambda p: p[1])
            kept += [low] if low is high else sorted((low, high))
    return [*kept, points[-1]]


def line_path(points: Iterable[tuple[float, float]], x: Scale, y: Scale) -> str:
    """An SVG path through the points."""
    places = [f"{x(a):g} {y.clamped(b):g}" for a, b in points]
    if not places:
        return ""
    return "M" + places[0] + ("h0" if len(places) == 1 else "L" + " ".join(places[1:]))


def dots_path(points: Iterable[tuple[float, float]], x: Scale, y: Scale) -> str:
    """An SVG path of single places: drawn as dots by round line ends."""
    return "".join(f"M{x(a):g} {y.clamped(b):g}h0" for a, b in points)
