from __future__ import annotations

import logging
import os

import pytest
from agent_build import LIVE, Clock, FakeInjector, enter_rank

import chaos.agent
from chaos.agent import nvrx_log
from chaos.agent.core import Agent
from chaos.agent.nvrx_log import HEARD, LOGGERS
from chaos.agent.voice import Voice


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    """A run directory that this process is told to report into."""
    (tmp_path / "history").mkdir()
    for name in [name for name in os.environ if name.startswith("NVRX_CHAOS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NVRX_CHAOS_DIR", str(tmp_path))
    monkeypatch.setenv("NVRX_CHAOS_RUN", "run-7")
    monkeypatch.setattr(Agent, "__init__", _kept(Agent.__init__))
    monkeypatch.setattr(chaos.agent, "_agent", None)
    monkeypatch.setattr(chaos.agent, "_blind_pid", -1)
    monkeypatch.setattr(nvrx_log, "_voice", Voice())
    before = {name: dict(vars(logging.getLogger(name))) for name in LOGGERS}
    yield tmp_path
    while LIVE:
        put_away(LIVE.pop())
    for name, settings in before.items():
        logger = logging.getLogger(name)
        for each in HEARD:
            vars(logger).pop(each, None)
        logger.setLevel(settings["level"])  # forgets what was enabled, too
        logger.disabled = settings["disabled"]


@pytest.fixture
def rank(run_dir):
    """A rank that has entered its training function, without a control channel."""
    agent = Agent.from_environment()
    enter_rank(agent)
    return agent


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def injector(tmp_path):
    injector = FakeInjector(tmp_path / "c")
    yield injector
    injector.close()


def put_away(agent):
    """Taken from the agent first: the thread of its channel may still have a last word."""
    agent.recorder = None
    agent._recorder.close()
    agent._writer.close()


def _kept(init):
    def noted_init(self, *args):
        init(self, *args)
        LIVE.append(self)

    return noted_init
