from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest

# The small real jobs and fakes of the neighbouring room.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))

from system_jobs import kill_marked


@pytest.fixture
def mark():
    """A run id of this test alone; nothing that carries it outlives the test."""
    mark = f"test-{uuid.uuid4().hex[:12]}"
    yield mark
    kill_marked(mark)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    return folder
