"""Shutting connections down: peers are freed, what must live is spared."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from trainer import sockets

Pair = tuple[socket.socket, socket.socket]


class Wires:
    """Listeners and connected pairs on this host, all closed at the end of a test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def listen(self) -> socket.socket:
        return self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def connect(self, listener: socket.socket) -> Pair:
        ours = self._stack.enter_context(socket.create_connection(listener.getsockname(), timeout=5))
        theirs = self._stack.enter_context(listener.accept()[0])
        theirs.settimeout(5)
        return ours, theirs


@pytest.fixture
def wires() -> Iterator[Wires]:
    with ExitStack() as stack:
        yield Wires(stack)


def alive(pair: Pair) -> bool:
    try:
        pair[0].sendall(b"x")
        return pair[1].recv(1) == b"x"
    except OSError:
        return False


def test_a_connection_made_after_the_spared_ones_is_shut_on_both_ends(wires):
    listener = wires.listen()
    old = wires.connect(listener)
    spared = sockets.connections()
    new = wires.connect(listener)
    assert sockets.shut_down(spared=spared, spared_port=None) == 2  # both ends are ours here
    assert new[1].recv(1) == b""
    assert alive(old)


def test_what_others_hold_to_the_spared_port_lives(wires):
    spared = sockets.connections()
    store = wires.listen()
    _, accepted = wires.connect(store)
    assert sockets.shut_down(spared=spared, spared_port=store.getsockname()[1]) == 1
    accepted.sendall(b"still open on our side")  # only the client's end was shut


def test_listeners_and_unix_sockets_are_left_alone(wires):
    spared = sockets.connections()
    listener = wires.listen()
    left, right = socket.socketpair()
    with left, right:
        assert sockets.shut_down(spared=spared, spared_port=None) == 0
        left.sendall(b"x")
        assert right.recv(1) == b"x"
    assert alive(wires.connect(listener))


def test_looking_leaves_no_descriptor_open(wires):
    pair = wires.connect(wires.listen())
    before = sockets.connections()
    assert sockets.connections() == before and len(before) >= 2
    assert alive(pair)
