"""What most tests of the observer stand on: a host, the kernel's word, a writer, and a clock, all faked."""

from __future__ import annotations

import pytest
from observer_build import FakeHost, FakeNews, FakeWriter, Now


@pytest.fixture
def host():
    return FakeHost()


@pytest.fixture
def news():
    return FakeNews()


@pytest.fixture
def writer():
    return FakeWriter()


@pytest.fixture
def now(monkeypatch):
    return Now(monkeypatch)
