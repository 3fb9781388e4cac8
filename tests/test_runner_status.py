"""How a runner ends: by its verdict, and by what it left."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chaos import runner
from chaos.errors import CannotWrite
from chaos.model.verdict import Verdict
from chaos.toolkit import current


def session(outcome, *, known=False, left_open=False, failure=None):
    verdict = Verdict(scenario="s", run_id="r", seed=0, outcome=outcome, known=known, sentence="x")
    return SimpleNamespace(verdict=verdict, left_open=left_open, failure=failure)


@pytest.mark.parametrize(
    "held, status",
    [
        (session("passed"), 0), (session("failed"), 1), (session("unknown"), 3), (session("failed", known=True), 0),
        (session("failed", known=True, left_open=True), 4), (session("passed", left_open=True), 4),
        (session("failed", known=True, failure=CannotWrite("disk full")), 74),
        (session("passed", failure=ValueError("ours")), 70), (None, 70),
    ],
    ids=str,
)  # fmt: skip
def test_a_known_failure_ends_with_0_unless_something_of_ours_is_wrong(monkeypatch, held, status):
    monkeypatch.setattr(current, "existing", lambda: held)
    assert runner._status() == status
