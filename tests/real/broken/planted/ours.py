"""Defects of ours: in the agent inside a rank, and in the process that runs a run."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace

CONNECTS_AT_STEP = 45


def rank_connects_late(channel):
    """The rank trains before anybody can send it an order."""
    connect = channel.Channel.open

    def late(self, agent):
        def when_far_enough():
            while agent.step is None or agent.step < CONNECTS_AT_STEP:
                time.sleep(0.002)
            connect(self, agent)

        threading.Thread(target=when_far_enough, daemon=True).start()

    channel.Channel.open = late


def signal_not_sent(signal_self):
    """The rank writes that the fault fired, and then does nothing."""
    signal_self.os = SimpleNamespace(getpid=os.getpid, kill=lambda pid, number: None)


def injector_crashes(injector):
    """A defect of ours, once a fault has fired."""
    tick = injector.Injector.tick

    def broken(self):
        tick(self)
        if any(shot.state == "fired" for shot in self.shots):
            raise ZeroDivisionError("planted")

    injector.Injector.tick = broken


DEFECTS = {
    "rank_connects_late": ("chaos.agent.channel", rank_connects_late),
    "signal_not_sent": ("chaos.agent.verbs.signal_self", signal_not_sent),
    "injector_crashes": ("chaos.injector.injector", injector_crashes),
}
