from __future__ import annotations

import uuid

import pytest
from system_jobs import Job, kill_marked


@pytest.fixture
def mark():
    """A run id of this test alone; nothing that carries it outlives the test."""
    mark = f"test-{uuid.uuid4().hex[:12]}"
    yield mark
    kill_marked(mark)


@pytest.fixture
def job(mark):
    job = Job(mark)
    yield job
    job.end()
