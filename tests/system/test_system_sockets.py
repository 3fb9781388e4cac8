"""TCP sockets of a process: real ones of this process, and tables as the kernel would write them."""

from __future__ import annotations

import os
import socket

import pytest
from system_jobs import sleeper

from chaos.system.sockets import tcp_sockets


@pytest.fixture
def pair():
    """A listener, and a connection to it whose accepted end is not read."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            yield listener, client, accepted


def row(sockets, sock):
    return next(each for each in sockets if each.fd == sock.fileno())


def name(address):
    return f"{address[0]}:{address[1]}"


def test_both_ends_of_a_connection_are_shown_with_what_waits_to_be_read(pair):
    listener, client, accepted = pair
    client.sendall(b"four")
    accepted.recv(1, socket.MSG_PEEK)  # returns when it has arrived
    found = tcp_sockets(os.getpid())
    assert row(found, listener).state == "LISTEN"
    ours = row(found, client)
    assert (ours.local, ours.remote) == (name(client.getsockname()), name(client.getpeername()))
    assert (ours.state, ours.unread) == ("ESTABLISHED", 0)
    theirs = row(found, accepted)
    assert (theirs.local, theirs.remote, theirs.unread) == (ours.remote, ours.local, 4)


def test_a_connection_that_the_other_end_has_closed_is_seen_as_such(pair):
    _, client, accepted = pair
    client.close()
    assert accepted.recv(1) == b""
    assert row(tcp_sockets(os.getpid()), accepted).state == "CLOSE_WAIT"


def test_sockets_of_other_processes_are_left_out(pair):
    with sleeper() as other:
        assert tcp_sockets(other.pid) == []


def test_a_process_that_is_gone_is_an_error_and_not_a_process_without_sockets(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        tcp_sockets(1, tmp_path)


LINE = "   0: {local} {remote} 01 0000000A:00000003 00:00000000 00000000  0  0 4711 1 0 20 4 30 10 -1\n"


def table(tmp_path, name, local, remote):
    """A process whose descriptor 9 is the socket of that one line."""
    folder = tmp_path / "7"
    (folder / "fd").mkdir(parents=True)
    (folder / "net").mkdir()
    (folder / "fd" / "9").symlink_to("socket:[4711]")
    (folder / "net" / name).write_text("  sl  local_address\n" + LINE.format(local=local, remote=remote))
    return tcp_sockets(7, tmp_path)


def test_addresses_are_read_in_the_machines_order_of_bytes(tmp_path):
    (found,) = table(tmp_path, "tcp", "0100007F:1F90", "0200010A:0050")
    assert found == (9, "127.0.0.1:8080", "10.1.0.2:80", "ESTABLISHED", 10, 3)


def test_an_address_of_the_older_kind_is_the_same_at_both_ends(tmp_path):
    (found,) = table(tmp_path, "tcp6", "0000000000000000FFFF00000100007F:1F90", "00000000000000000000000001000000:0050")
    assert (found.local, found.remote) == ("127.0.0.1:8080", "[::1]:80")
