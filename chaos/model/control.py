"""A fault-free run as a witness: what it did, step by step. One line of `control.jsonl` each."""

from __future__ import annotations

from typing import Any

import msgspec

STEP_DIGITS_MAX = 19  # what 64 bits hold


class ControlRun(msgspec.Struct, frozen=True, kw_only=True):
    """Loss as hex text per step; digests per "step/rank" (`20/0`) and "end/rank".

    `clean` is false when that run was not fault-free and restart-free from first step to last
    (`unclean_why` says why): such a run is no witness.
    """

    run_id: str
    path: str
    clean: bool
    unclean_why: str = ""
    losses: dict[str, str] = {}
    digests: dict[str, str] = {}
    settings: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for step in self.losses:
            if not (step.isascii() and step.isdecimal() and len(step) <= STEP_DIGITS_MAX):
                raise ValueError(f"a loss of no step: {step[:40]!r}")
