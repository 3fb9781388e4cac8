"""Which sources of evidence a host has: each is tried, and what is missing says why."""

from __future__ import annotations

import os

import pytest

from chaos.errors import Refused
from chaos.system import exit_status, host
from chaos.system.exit_status import tells_how_strangers_ended


def refuse():
    raise Refused("no connector here")


def test_here_each_source_that_is_offered_can_be_used():
    found = host.offers()
    assert (found.run_delay, found.oom_kills) == ("", "") and found.cgroup in ("v1", "v2", "")
    assert (found.pidfd_info == "") is tells_how_strangers_ended()


def test_nothing_is_left_open_and_no_child_is_left():
    before = set(os.listdir("/proc/self/fd"))
    host.offers()
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_kernel_that_does_not_keep_the_status_is_found_out_by_trying(monkeypatch):
    monkeypatch.setattr(exit_status, "_PIDFD_GET_INFO", 0x1)
    assert not tells_how_strangers_ended()
    assert "to its parent only" in host.offers().pidfd_info


def test_a_host_without_pidfds_tells_nothing(monkeypatch):
    def no_pidfd(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(exit_status.os, "pidfd_open", no_pidfd)
    assert not tells_how_strangers_ended()


def test_why_the_connector_refuses_is_said(monkeypatch):
    monkeypatch.setattr(host, "Connector", refuse)
    assert host.offers().connector == "no connector here"


def test_a_proc_that_shows_nothing_offers_nothing(tmp_path):
    found = host.offers(tmp_path)
    assert found.run_delay and found.oom_kills and found.cgroup == ""
