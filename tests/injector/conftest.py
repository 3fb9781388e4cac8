from __future__ import annotations

import pytest
from injector_build import Run, Time


@pytest.fixture
def time(monkeypatch):
    return Time(monkeypatch)


@pytest.fixture
def run(time):
    """Builds the injector of a plan with the faults given."""
    return lambda *faults, **limits: Run(*faults, time=time, **limits)
