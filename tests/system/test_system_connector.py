"""The kernel's news of processes: threads left out, births with their makers, ends with their status."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess

import pytest

from chaos.errors import Refused
from chaos.system import connector
from chaos.system.connector import Connector, News, news_of


def message(what, body, *, t_ns=77):
    head = struct.pack("=IHHII", 0, 3, 0, 0, 0) + struct.pack("=IIIIHH", 1, 1, 0, 0, 0, 0)
    return head + struct.pack("=IIQ", what, 0, t_ns) + body


@pytest.mark.parametrize(
    ("what", "body", "expected"),
    [
        (0x1, struct.pack("=iiii", 5, 4, 9, 9), News(kind="forked", t_ns=77, pid=9, parent=4)),
        (0x1, struct.pack("=iiii", 5, 4, 10, 9), None),  # a thread
        (0x2, struct.pack("=ii", 10, 9), News(kind="executed", t_ns=77, pid=9)),
        (0x80000000, struct.pack("=iiII", 9, 9, 3 << 8, 17), News(kind="ended", t_ns=77, pid=9, code=3)),
        (0x80000000, struct.pack("=iiII", 9, 9, 9, 17), News(kind="ended", t_ns=77, pid=9, signal=9)),
        (0x80000000, struct.pack("=iiII", 9, 9, 0x80 | 11, 17), News(kind="ended", t_ns=77, pid=9, signal=11)),
        (0x80000000, struct.pack("=iiII", 10, 9, 0, 17), None),  # a thread
        (0x200, struct.pack("=ii16s", 9, 9, b"name"), None),
        (0x1, b"\x05\x00", None),
    ],
)
def test_a_message_becomes_news_or_nothing(what, body, expected):
    assert news_of(message(what, body)) == expected


def test_what_is_no_message_is_nothing():
    assert news_of(b"") is None and news_of(b"\0" * 40) is None


class FakeSocket:
    """Gives messages by their sender's port, and errors."""

    def __init__(self, *steps):
        self.steps, self.sent, self.closed = list(steps), [], False

    def recvfrom(self, size):
        if not self.steps:
            raise BlockingIOError(errno.EAGAIN, "nothing")
        step = self.steps.pop(0)
        if isinstance(step, OSError):
            raise step
        return step

    def send(self, request):
        self.sent.append(request)

    def close(self):
        self.closed = True


def listening(*steps):
    found = Connector.__new__(Connector)
    found._socket = FakeSocket(*steps)
    return found


FORK = message(0x1, struct.pack("=iiii", 5, 4, 9, 9))


def test_only_the_kernels_word_counts():
    assert listening((FORK, (4711, 0)), (FORK, (0, 1))).drain() == [News(kind="forked", t_ns=77, pid=9, parent=4)]


def test_news_that_were_lost_are_said_and_what_follows_is_still_read():
    kinds = [news.kind for news in listening(OSError(errno.ENOBUFS, "full"), (FORK, (0, 1))).drain()]
    assert kinds == ["lost", "forked"]


def test_another_error_of_the_socket_is_not_taken_for_silence():
    with pytest.raises(OSError, match="broken"):
        listening(OSError(errno.EIO, "broken")).drain()


def test_the_kernel_is_told_when_nobody_listens_any_more():
    one = listening()
    fake = one._socket
    one.close()
    assert fake.closed and fake.sent[-1].endswith(struct.pack("=I", 2))


@pytest.mark.parametrize(
    "error", [PermissionError(1, "Operation not permitted"), OSError(93, "Protocol not supported")]
)
def test_where_the_kernel_refuses_reason_and_remedy_are_said(monkeypatch, error):
    def refuse(*_):
        raise error

    monkeypatch.setattr(connector.socket, "socket", refuse)
    with pytest.raises(Refused, match="process connector") as refused:
        Connector()
    assert "CAP_NET_ADMIN" in refused.value.remedy


def test_a_kernel_that_does_not_answer_refuses(monkeypatch):
    class Silent(socket.socket):
        def setsockopt(self, *_):
            return None

        def bind(self, _):
            return None

        def send(self, _):
            return 0

    monkeypatch.setattr(connector, "_ANSWER_S", 0.01)
    monkeypatch.setattr(connector.socket, "socket", lambda *_: Silent(socket.AF_UNIX, socket.SOCK_DGRAM))
    with pytest.raises(Refused, match="does not answer"):
        Connector()


@pytest.fixture
def real():
    try:
        found = Connector()
    except Refused as refused:
        pytest.skip(refused.message)
    yield found
    found.close()


def test_a_real_child_is_born_executed_and_ended_with_its_status(real):
    with subprocess.Popen(["sh", "-c", "exit 7"]) as process:
        process.wait(10)
    news = [each for each in real.drain() if each.pid == process.pid]
    assert [each.kind for each in news] == ["forked", "executed", "ended"]
    assert news[0].parent == os.getpid() and news[2].code == 7
