"""The injector's end of the control channel, over a real socket: whom it believes, and what others cannot do to it."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from chaos.errors import CannotCreate, TargetGone
from chaos.injector import server as module
from chaos.injector.server import RankServer
from chaos.model.identity import Life, ProcessInfo
from chaos.model.orders import Order, Trigger

US = Life(boot_id="0123456789ab", pid_namespace=4, pid_inside=os.getpid(), pid=os.getpid(), start_ticks=77)


class Reader:
    """The process table: this very process, unless the test says that it is gone."""

    gone = False

    def info(self, pid):
        if self.gone or pid != os.getpid():
            return None
        return ProcessInfo(life=US, ppid=1, state="S", command=(), mark=None, environment={})


class Heard:
    """What the server told, each kind with an event that tests wait for."""

    def __init__(self):
        self.said = []
        self._news = threading.Condition()

    def note(self, *what):
        with self._news:
            self.said.append(what)
            self._news.notify_all()

    def wait(self, kind, count=1):
        with self._news:
            found = self._news.wait_for(lambda: len(self.of(kind)) >= count, timeout=10)
        assert found, f"no {kind}; heard {self.said}"
        return self.of(kind)[count - 1]

    def of(self, kind):
        return [what for what in self.said if what[0] == kind]


class Client:
    """A rank, or somebody else."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(10)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")

    def say(self, **message):
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data):
        try:
            self._socket.sendall(data)
        except OSError:
            pass  # refused while it was still talking

    def hello(self, token="t0", life=US.id, initial_rank=1):
        self.say(say="hello", token=token, life=life, pid=os.getpid(), rank=1, initial_rank=initial_rank)

    def hear(self):
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def close(self):
        self._lines.close()
        self._socket.close()


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def server(heard, monkeypatch):
    monkeypatch.setattr(module, "LEASE_RENEWAL_S", 0.02)
    with tempfile.TemporaryDirectory(prefix="nvrx-") as folder:
        server = RankServer(
            Path(folder) / "control",
            "t0",
            Reader(),
            on_hello=lambda life, rank: heard.note("hello", life, rank),
            on_gone=lambda life: heard.note("gone", life),
            on_reached=lambda reached: heard.note("reached", reached),
            on_foreign=lambda reason: heard.note("foreign", reason),
        )
        server.start()
        yield server
        if server.path.exists():
            server.close()


@pytest.fixture
def connect(server):
    clients = []

    def connect():
        clients.append(Client(server.path))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def rank(connect, heard):
    rank = connect()
    rank.hello()
    heard.wait("hello")
    return rank


def order(life=US.id):
    return Order(
        order_id="o1", fault="kill", kind="process.kill", verb="signal_self", args={"signal": "KILL"},
        trigger=Trigger(step=3, phase="forward"), life=life,
    )  # fmt: skip


def test_a_rank_that_knows_the_token_and_is_who_it_says_is_connected(server, rank, heard):
    assert server.connected_lives() == {US.id: 1} and heard.of("hello") == [("hello", US.id, 1)]


def test_only_its_owner_may_use_the_socket(server):
    assert server.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "message, why",
    [
        ({"token": "guess"}, "token"),
        ({"token": "gu\u00e9ss"}, "not a message"),
        ({"life": "0123abcd-1-2-3"}, "is not the life it claims"),
    ],
)
def test_who_cannot_prove_itself_is_refused_and_logged(server, connect, heard, message, why):
    stranger = connect()
    stranger.hello(**message)
    assert why in heard.wait("foreign")[1] and stranger.hear() is None
    assert server.connected_lives() == {} and heard.of("hello") == []


def test_a_process_that_the_table_does_not_show_is_refused(server, connect, heard, monkeypatch):
    monkeypatch.setattr(Reader, "gone", True)
    connect().hello()
    assert "is not the life it claims" in heard.wait("foreign")[1]


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage\n", b"\xff\xfe\n", b"[]\n", b"null\n", b"{}\n", b'"hello"\n', b'{"say":"hello"}\n',
        b'{"say":"jump"}\n',
        b'{"say":"reached","order_id":"o1","t_ns":1,"step":1,"phase":"x","point":"entry"}\n',
        b'{"say":"withdraw","order_id":"o1"}\n', b"[" * 60_000 + b"\n", b"x" * 70_000, b"x" * 300_000,
    ],
    ids=lambda raw: f"{raw[:24]!r}-{len(raw)}",
)  # fmt: skip
def test_what_is_no_message_of_ours_is_refused_and_the_others_are_unaffected(server, rank, connect, heard, raw):
    stranger = connect()
    stranger.raw(raw)
    heard.wait("foreign")
    assert stranger.hear() is None
    server.send_order(order())
    assert rank.hear()["say"] in ("order", "renew") and server.connected_lives() == {US.id: 1}
    assert heard.of("reached") == [] and heard.of("gone") == []


def test_a_known_rank_that_talks_nonsense_is_let_go(server, rank, heard):
    rank.raw(b"garbage\n")
    assert heard.wait("gone")[1] == US.id and server.connected_lives() == {}


def test_a_message_may_come_in_pieces(rank, heard):
    message = json.dumps(
        {"say": "reached", "order_id": "o1", "t_ns": 5, "step": 47, "phase": "backward", "point": "entry"}
    ).encode()
    rank.raw(message[:20])
    rank.raw(message[20:])
    assert heard.of("reached") == []
    rank.raw(b"\n")
    reached = heard.wait("reached")[1]
    assert (reached.order_id, reached.life, reached.step, reached.phase) == ("o1", US, 47, "backward")


def test_a_wait_counts_from_when_the_rank_began_it_not_from_when_it_was_read(rank, heard):
    began_ns = time.monotonic_ns() - 150_000_000
    rank.say(say="reached", order_id="o1", t_ns=began_ns, step=47, phase="backward", point="entry")
    assert heard.wait("reached")[1].at == pytest.approx(began_ns / 1e9)


def test_a_wait_that_would_begin_in_the_future_counts_from_now(rank, heard):
    rank.say(say="reached", order_id="o1", t_ns=2**62, step=47, phase="backward", point="entry")
    assert heard.wait("reached")[1].at <= time.monotonic()


def test_an_order_reaches_its_rank_whole(server, rank):
    server.send_order(order())
    message = rank.hear()
    while message["say"] != "order":
        message = rank.hear()
    assert Order.from_json(message["order"]) == order()


def test_leases_are_renewed_again_and_again_for_a_rank_that_holds_an_order(server, rank):
    server.send_order(order())
    messages = [rank.hear()["say"] for _ in range(5)]
    assert messages.count("renew") >= 4


def test_a_rank_without_orders_is_left_in_peace(server, rank, heard):
    server.cancel(US.id, "o0")
    rank.say(say="reached", order_id="o1", t_ns=1, step=1, phase="x", point="entry")
    server.answer(heard.wait("reached")[1])
    assert [rank.hear()["say"], rank.hear()["say"]] == ["cancel", "done"]  # and no renewal before or between


def test_an_order_for_a_life_that_is_not_connected_finds_its_target_gone(server):
    with pytest.raises(TargetGone, match="not connected"):
        server.send_order(order())
    server.cancel(US.id, "o1")  # what is gone needs no taking back


def test_a_withdrawal_is_remembered(server, rank, heard):
    rank.say(say="reached", order_id="o1", t_ns=1, step=1, phase="x", point="entry")
    reached = heard.wait("reached")[1]
    assert not server.was_withdrawn(reached)
    rank.say(say="withdraw", order_id="o1")
    rank.say(say="reached", order_id="o2", t_ns=1, step=1, phase="x", point="entry")
    other = heard.wait("reached", 2)[1]
    assert server.was_withdrawn(reached) and not server.was_withdrawn(other)


def test_a_rank_that_ends_is_gone_and_waits_no_more(server, rank, heard):
    rank.say(say="reached", order_id="o1", t_ns=1, step=1, phase="x", point="entry")
    reached = heard.wait("reached")[1]
    rank.say(say="bye", reason="the rank has finished")
    rank.close()
    assert heard.wait("gone")[1] == US.id
    assert server.connected_lives() == {} and server.was_withdrawn(reached)
    server.answer(reached)


def test_closing_tells_every_rank_by_the_end_of_its_channel_and_leaves_no_socket(server, rank):
    server.send_order(order())
    server.close()
    while (message := rank.hear()) is not None:
        assert message["say"] in ("order", "renew")
    assert not server.path.exists()


def test_a_socket_that_cannot_be_opened_names_its_path_and_the_way_out(tmp_path):
    path = tmp_path / ("x" * 120)
    with pytest.raises(CannotCreate, match="control channel") as caught:
        RankServer(
            path, "t", Reader(),
            on_hello=print, on_gone=print, on_reached=print, on_foreign=print,
        )  # fmt: skip
    assert "NVRX_CHAOS_HOME" in str(caught.value.remedy)
