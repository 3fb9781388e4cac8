"""Steps done, as columns of numbers: ten million of them fit into memory, and are compared without a loop.

Loss, learning rate and gradient norm are kept and compared as the bits they are, so a NaN equals itself.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaos.model.events import Event

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

NOT_TOLD = -1  # a sample position, or what a step passed through, that was not seen
_BITS_NOT_TOLD = 0x7FF8_C4A0_5000_0001  # a NaN that no computation yields
_FLOAT_NOT_TOLD: float = struct.unpack("<d", struct.pack("<q", _BITS_NOT_TOLD))[0]
_NEVER = np.iinfo(np.int64).max

_INTEGERS = ("step", "t_ns", "track", "line", "first", "end", "passed")
_FLOATS = ("loss", "lr", "grad_norm")


@dataclass(frozen=True, slots=True, order=True)
class Track:
    """One rank's steps in one group, as one file tells them."""

    rank: int
    life: str
    reentry: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """One step finished by one rank. `samples` None = positions unseen, floats as hex text, None = unseen."""

    step: int
    rank: int
    life: str
    reentry: int
    t_ns: int
    loss: str | None
    samples: tuple[int, int] | None
    ref: str


class Growing:
    """The steps of one group while they are read, in any order of files."""

    def __init__(self) -> None:
        self.tracks: dict[tuple[int, str, int, str], int] = {}
        self.integers = {name: array("q") for name in _INTEGERS}
        self.floats = {name: array("d") for name in _FLOATS}
        self.busy: set[int] = set()

    def add(self, event: Event) -> None:
        """One `step_done` with a step, a rank and a life."""
        assert event.rank is not None and event.life is not None  # the record has looked
        key = (event.rank, event.life, event.reentry or 0, event.file)
        track = self.tracks.setdefault(key, len(self.tracks))
        data = event.data
        first, end = _samples(data.get("samples"))
        passed = data.get("passed", NOT_TOLD)
        values = (data["step"], event.t_ns, track, event.line, first, end, passed)
        for column, value in zip(self.integers.values(), values, strict=True):
            column.append(value)
        for name, floats in self.floats.items():
            floats.append(_float(data.get(name)))
        if data.get("device_busy") is True:
            self.busy.add(data["step"])


class Steps:
    """The steps of one group by step and rank. Of a step that a rank did twice the first counts, and the others are
    in `repeated`. Every column has one value for each step of each rank."""

    step: Integers
    t_ns: Integers
    rank: Integers
    track: Integers
    line: Integers
    first: Integers
    end: Integers
    passed: Integers
    loss: Integers
    lr: Integers
    grad_norm: Integers

    def __init__(self, growing: Growing | None = None, *, until_ns: int | None = None) -> None:
        """`until_ns`: later steps are left out."""
        growing = growing or Growing()
        self.busy = frozenset(growing.busy)  # steps that a rank reported before its device had finished them
        keys = sorted(growing.tracks)
        self.tracks = tuple(Track(*key) for key in keys)
        place = np.empty(len(keys), np.int64)
        for index, key in enumerate(keys):
            place[growing.tracks[key]] = index
        columns: dict[str, Integers] = {name: _column(raw) for name, raw in growing.integers.items()}
        columns |= {name: _column(raw) for name, raw in growing.floats.items()}
        columns["track"] = place[columns["track"]]
        ranks = np.array([track.rank for track in self.tracks], np.int64)
        columns["rank"] = ranks[columns["track"]]
        order = np.lexsort([columns[name] for name in ("line", "track", "t_ns", "rank", "step")])
        if until_ns is not None:
            order = order[columns["t_ns"][order] <= until_ns]
        step, rank = columns["step"][order], columns["rank"][order]
        again = np.zeros(len(order), np.bool_)
        again[1:] = (step[1:] == step[:-1]) & (rank[1:] == rank[:-1])
        self.repeated = tuple(self._told(columns, int(index)) for index in order[again])
        order = order[~again]
        for name, column in columns.items():
            setattr(self, name, column[order])

    def __len__(self) -> int:
        return len(self.step)

    # --- which steps

    @cached_property
    def numbers(self) -> frozenset[int]:
        """The steps that any rank did."""
        return frozenset(self.step.tolist())

    @cached_property
    def starts(self) -> Integers:
        """Where each step begins in the columns, steps in order."""
        changes = np.ones(len(self), np.bool_)
        changes[1:] = self.step[1:] != self.step[:-1]
        return np.flatnonzero(changes)

    @property
    def lowest(self) -> int:
        return int(self.step[0])

    @property
    def highest(self) -> int:
        return int(self.step[-1])

    @cached_property
    def first_ns(self) -> int:
        return int(self.t_ns.min())

    @cached_property
    def last_ns(self) -> int:
        return int(self.t_ns.max())

    def highest_by(self, t_ns: int) -> int | None:
        """The highest step that any rank had done by then."""
        done = self.step[self.t_ns <= t_ns]
        return int(done.max()) if len(done) else None

    # --- steps of all ranks

    def complete(self, needed: range) -> dict[int, int]:
        """step -> when the last rank had done it, for the steps that every needed rank did."""
        if not len(self):
            return {}
        count = np.add.reduceat(self._of(needed).astype(np.int64), self.starts)
        last = np.maximum.reduceat(self.t_ns, self.starts)
        whole = count == len(needed)
        return dict(zip(self.step[self.starts][whole].tolist(), last[whole].tolist(), strict=True))

    def first_by_all_after(self, t_ns: int, needed: range) -> int | None:
        """When every needed rank had done its first step after that moment; None: not all did one."""
        later = self._of(needed) & (self.t_ns > t_ns)
        firsts = np.full(len(needed), _NEVER, np.int64)
        np.minimum.at(firsts, self.rank[later] - needed.start, self.t_ns[later])
        latest = int(firsts.max(initial=0))
        return latest if len(needed) and latest != _NEVER else None

    def _of(self, ranks: range) -> Mask:
        mask: Mask = (self.rank >= ranks.start) & (self.rank < ranks.stop)
        return mask

    # --- single ones

    def done(self, index: int) -> StepDone:
        """What the columns say at that place."""
        return self._told({name: getattr(self, name) for name in (*_INTEGERS, *_FLOATS)}, index)

    def ref(self, index: int) -> str:
        return f"{self.tracks[self.track[index]].file}:{self.line[index]}"

    def of_step(self, step: int) -> range:
        """The places of that step, in order of rank."""
        low, high = np.searchsorted(self.step, [step, step + 1])
        return range(int(low), int(high))

    def place(self, step: int, rank: int) -> int | None:
        """Where that rank's step is."""
        return next((index for index in self.of_step(step) if self.rank[index] == rank), None)

    def firsts_of_tracks(self) -> Iterator[tuple[Track, int]]:
        """Each track that has a step, with the place of its earliest, earliest first."""
        order = np.lexsort([self.track, self.t_ns])
        _, where = np.unique(self.track[order], return_index=True)
        for index in np.sort(where):
            place = int(order[index])
            yield self.tracks[self.track[place]], place

    def _told(self, columns: Mapping[str, Integers], index: int) -> StepDone:
        track = self.tracks[columns["track"][index]]
        first, end = int(columns["first"][index]), int(columns["end"][index])
        return StepDone(
            step=int(columns["step"][index]), rank=track.rank, life=track.life, reentry=track.reentry,
            t_ns=int(columns["t_ns"][index]), loss=hex_of(int(columns["loss"][index])),
            samples=None if first == NOT_TOLD else (first, end), ref=f"{track.file}:{columns['line'][index]}",
        )  # fmt: skip


def told(bits: Integers) -> Mask:
    """Which of these floats were seen."""
    seen: Mask = bits != _BITS_NOT_TOLD
    return seen


def hex_of(bits: int) -> str | None:
    """A float's bits as `float.hex` writes it; None where it was not seen."""
    return None if bits == _BITS_NOT_TOLD else float_of(bits).hex()


def float_of(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def relative(one: Integers, other: Integers) -> NDArray[np.float64]:
    """Relative differences between floats given as bits; NaN where one is not a finite number."""
    left, right = one.view(np.float64), other.view(np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(left - right) / np.maximum(np.abs(left), np.abs(right))
    size[left == right] = 0.0
    size[~np.isfinite(size)] = np.nan
    return size


def _column(raw: array[Any]) -> Integers:
    """The array itself where it can be shared: nothing is appended any more."""
    return np.frombuffer(raw, np.int64) if len(raw) else np.empty(0, np.int64)


def _float(text: Any) -> float:
    try:
        return float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        return _FLOAT_NOT_TOLD


def _samples(raw: Any) -> tuple[int, int]:
    if not isinstance(raw, list | tuple) or len(raw) != 2:
        return NOT_TOLD, NOT_TOLD
    first, end = raw
    if not isinstance(first, int) or not isinstance(end, int) or not 0 <= first <= end < _NEVER:
        return NOT_TOLD, NOT_TOLD
    return first, end
