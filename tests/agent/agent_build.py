"""Small builders for the agent's tests: orders, what was written, ranks in processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

from chaos.model.orders import Order, Trigger

SETTINGS = {"heartbeat_s": 3.0}
LIVE = []  # the agents that this process has made in the test at hand


def lines_of(folder):
    """Every event under a run directory, file by file, in the order of its lines. Waits for what was said before."""
    for agent in LIVE:
        await_written(agent)
    return lines_now(folder)


def await_written(agent):
    """Until all that the agent has noted is in its file; or, when it went quiet, until it has said its last word."""
    if not agent._recorder.settle():
        agent._recorder._thread.join(20)
        assert not agent._recorder._thread.is_alive()


def lines_now(folder):
    """As `lines_of`, but of what is there at this moment."""
    found = []
    for path in sorted((folder / "history").glob("*.jsonl")):
        found += [json.loads(line) for line in path.read_bytes().splitlines()]
    return found


def kinds_of(folder):
    return [line["kind"] for line in lines_of(folder)]


def events(folder, kind):
    return [line for line in lines_of(folder) if line["kind"] == kind]


def enter_rank(agent, rank=1, **restart):
    """What a training script says first, through the module or the object."""
    agent.entered(
        rank=rank, initial_rank=rank, local_rank=rank, world_size=2, settings=SETTINGS, reported_restart=restart
    )


def order(agent, verb="raise_error", order_id="o1", args=None, life=None, **trigger):
    return Order(
        order_id=order_id,
        fault="boom",
        kind="process.exception",
        verb=verb,
        args=args if args is not None else {"type": "RuntimeError", "message": "bang"},
        trigger=Trigger(**trigger),
        life=life or agent.life,
    )


class Store:
    """A store as torch gives one: compare_set returns what is there afterwards."""

    def __init__(self):
        self.values = {}

    def compare_set(self, key, expected, desired):
        if self.values.get(key, "") == expected:
            self.values[key] = desired
        return self.values[key].encode()


class Clock:
    """CLOCK_MONOTONIC and sleep, moved by hand."""

    def __init__(self, monkeypatch):
        self.now_ns = 10**12
        self.on_sleep = None
        monkeypatch.setattr("time.monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr("time.sleep", self.sleep)

    def sleep(self, seconds):
        if self.on_sleep is not None:
            self.on_sleep()
        self.advance(seconds)

    def advance(self, seconds):
        self.now_ns += int(seconds * 1e9)


class FakeInjector:
    """The other end of the control channel, driven by the test's own thread."""

    def __init__(self, path):
        self.path = str(path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(1)
        self._listener.settimeout(20)
        self._connection = None

    def greet(self):
        self._connection, _ = self._listener.accept()
        self._connection.settimeout(20)
        self._lines = self._connection.makefile("rb")
        return self.hear()

    def hear(self):
        line = self._lines.readline()
        return json.loads(line) if line else None

    def say(self, **message):
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def say_raw(self, raw):
        self._connection.sendall(raw)

    def hang_up(self):
        if self._connection is not None:
            self._lines.close()
            self._connection.close()
            self._connection = None

    def close(self):
        self.hang_up()
        self._listener.close()


PRELUDE = """
import json, os, signal, sys, threading, time
import chaos.agent as agent
from chaos.model.orders import Order, Trigger
agent.entered(rank=1, initial_rank=1, local_rank=1, world_size=2, settings={}, reported_restart={})
rank = agent._agent
def order(verb, order_id="o1", **args):
    return Order(order_id=order_id, fault="boom", kind="process.kill", verb=verb, args=args,
                 trigger=Trigger(step=3, phase="forward"), life=rank.life)
"""


def run_rank(folder, script, **environment):
    """Runs `script` in a process of its own, as a rank of the run in `folder`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NVRX_CHAOS_")}
    env |= {"NVRX_CHAOS_DIR": str(folder), "NVRX_CHAOS_RUN": "run-7", **environment}
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script], env=env, capture_output=True, text=True, timeout=60, check=False
    )
