"""The injector's end of the control channel: a Unix socket that ranks connect to.

A rank is believed when the kernel's peer credentials, its process's life and the run's token agree.
Leases are renewed here each second, by a thread that does nothing else for long.
"""

from __future__ import annotations

import hmac
import json
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.doors import ProcessReader
from chaos.errors import CannotCreate, TargetGone
from chaos.model.identity import Life
from chaos.model.orders import LEASE_RENEWAL_S, Order

MESSAGE_BYTES_MAX = 64 * 1024
_CREDENTIALS = struct.Struct("3i")


class Reached:
    """A rank waits at the point of a `notify` order. `at`: since when, in seconds of CLOCK_MONOTONIC."""

    def __init__(
        self, order_id: str, life: Life, step: int | None, phase: str, point: str, *, at: float | None = None
    ) -> None:
        self.order_id = order_id
        self.life = life
        self.step = step
        self.phase = phase
        self.point = point
        # The rank says since when it waits, on the same clock: this thread may come to read it much later.
        now = time.monotonic()
        self.at = now if at is None else min(now, at)


class _Connection:
    def __init__(self, sock: socket.socket, pid: int, uid: int) -> None:
        self.sock = sock
        self.pid = pid
        self.uid = uid
        self.pending = b""
        self.life: Life | None = None
        self.initial_rank = -1
        self.withdrawn: set[str] = set()
        self.has_orders = False


class RankServer:
    """Implements doors.Ranks. Call-backs run on the server's thread: keep them short.

    `on_hello(life_id, initial_rank)`, `on_gone(life_id)`, `on_reached(Reached)`,
    `on_foreign(reason)` for a connection or message that was refused.
    """

    def __init__(
        self,
        path: Path,
        token: str,
        reader: ProcessReader,
        *,
        on_hello: Callable[[str, int], None],
        on_gone: Callable[[str], None],
        on_reached: Callable[[Reached], None],
        on_foreign: Callable[[str], None],
    ) -> None:
        self.path = path
        self._token = token
        self._reader = reader
        self._on_hello, self._on_gone = on_hello, on_gone
        self._on_reached, self._on_foreign = on_reached, on_foreign
        self._connections: dict[str, _Connection] = {}
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closing = False
        self._listener = self._listen()
        self._thread = threading.Thread(target=self._serve, name="nvrx-chaos-ranks", daemon=True)

    def start(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._thread.start()

    def send_order(self, order: Order) -> None:
        """Raises TargetGone when that life is not connected."""
        self._say(order.life, {"say": "order", "order": order.to_json()}, arms=True)

    def cancel(self, life: str, order_id: str) -> None:
        """Takes an order back; a life that is gone needs none."""
        try:
            self._say(life, {"say": "cancel", "order_id": order_id})
        except TargetGone:
            return

    def answer(self, reached: Reached) -> None:
        """Tells the waiting rank that it was done (a stopped rank reads it when it runs again)."""
        try:
            self._say(reached.life.id, {"say": "done", "order_id": reached.order_id})
        except TargetGone:
            return

    def ask_evidence(self, life: str) -> bool:
        """Asks a rank to write down what it knows of its collectives; false when it is not connected."""
        try:
            self._say(life, {"say": "evidence"})
        except TargetGone:
            return False
        return True

    def connected_lives(self) -> dict[str, int]:
        with self._lock:
            return {life: connection.initial_rank for life, connection in self._connections.items()}

    def was_withdrawn(self, reached: Reached) -> bool:
        """Whether the rank has said that it waits no longer."""
        with self._lock:
            connection = self._connections.get(reached.life.id)
            return connection is None or reached.order_id in connection.withdrawn

    def close(self) -> None:
        """End of file tells every rank to drop its orders."""
        self._closing = True
        os.write(self._wake_write, b"x")
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)
        with self._lock:
            for connection in self._connections.values():
                connection.sock.close()
            self._connections.clear()
        self._listener.close()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self.path.unlink(missing_ok=True)

    # the server's thread

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.path.unlink(missing_ok=True)
            listener.bind(str(self.path))
            os.chmod(self.path, 0o600)
            listener.listen(256)
        except OSError as error:
            listener.close()
            raise CannotCreate(
                f"cannot open the control channel {self.path}: {error.strerror or error}",
                remedy="set NVRX_CHAOS_HOME to a short path on a local disk",
            ) from error
        return listener

    def _serve(self) -> None:
        renewed = 0.0
        while not self._closing:
            for key, _ in self._selector.select(timeout=LEASE_RENEWAL_S / 4):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Connection):
                    self._read(key.data)
            if time.monotonic() - renewed >= LEASE_RENEWAL_S:
                renewed = time.monotonic()
                self._renew()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        sock.settimeout(0.2)  # a rank that does not read must not hold up the others
        self._selector.register(sock, selectors.EVENT_READ, _Connection(sock, pid, uid))

    def _read(self, connection: _Connection) -> None:
        try:
            chunk = connection.sock.recv(65536)
        except OSError:
            chunk = b""
        if not chunk:
            self._drop(connection)
            return
        connection.pending += chunk
        *lines, connection.pending = connection.pending.split(b"\n")
        if len(connection.pending) > MESSAGE_BYTES_MAX:
            self._refuse(connection, "a message without an end")
            return
        for line in lines:
            try:
                message = json.loads(line)
                self._heed(connection, message)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                self._refuse(connection, f"not a message of ours ({error})")
                return

    def _heed(self, connection: _Connection, message: dict[str, Any]) -> None:
        say = message["say"]
        if say == "hello":
            self._greet(connection, message)
        elif connection.life is None:
            raise ValueError(f"{say!r} before hello")
        elif say == "reached":
            self._on_reached(_reached(connection.life, message))
        elif say == "withdraw":
            with self._lock:
                connection.withdrawn.add(str(message["order_id"]))
        elif say != "bye":
            raise ValueError(f"unknown message {say!r}")

    def _greet(self, connection: _Connection, message: dict[str, Any]) -> None:
        if connection.uid != os.getuid():
            raise ValueError(f"it comes from user {connection.uid}")
        if not hmac.compare_digest(str(message["token"]), self._token):
            raise ValueError("it does not know the run's token")
        info = self._reader.info(connection.pid)
        if info is None or info.life.id != message["life"]:
            raise ValueError(f"process {connection.pid} is not the life it claims")
        connection.life, connection.initial_rank = info.life, int(message["initial_rank"])
        with self._lock:
            self._connections[info.life.id] = connection
        self._on_hello(info.life.id, connection.initial_rank)

    def _refuse(self, connection: _Connection, reason: str) -> None:
        self._on_foreign(f"process {connection.pid}: {reason}")
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.sock)
        connection.sock.close()
        life = connection.life
        if life is None:
            return
        with self._lock:
            if self._connections.get(life.id) is connection:
                del self._connections[life.id]
        self._on_gone(life.id)

    def _renew(self) -> None:
        with self._lock:
            armed = [life for life, connection in self._connections.items() if connection.has_orders]
        for life in armed:
            try:
                self._say(life, {"say": "renew"})
            except TargetGone:
                continue

    def _say(self, life: str, message: dict[str, Any], *, arms: bool = False) -> None:
        with self._lock:
            connection = self._connections.get(life)
            if connection is None:
                raise TargetGone(f"process {life} is not connected any more")
            connection.has_orders = connection.has_orders or arms
            try:
                connection.sock.sendall(json.dumps(message).encode() + b"\n")
            except OSError as error:
                raise TargetGone(f"process {life} does not take messages any more: {error}") from error


def _reached(life: Life, message: dict[str, Any]) -> Reached:
    return Reached(
        str(message["order_id"]),
        life,
        message["step"],
        str(message["phase"]),
        str(message["point"]),
        at=int(message["t_ns"]) / 1e9,
    )
