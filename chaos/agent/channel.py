"""The control channel of a rank: a Unix socket to the injector, served by one thread of its own.

JSON lines both ways. From here: hello, reached, withdraw. From the injector: order, renew, cancel, done, evidence.
End of file, or anything that is not a message, disarms: an order that nobody stands behind does no harm.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from chaos.agent.evidence import tell_collectives
from chaos.model.orders import Order

if TYPE_CHECKING:
    from chaos.agent.core import Agent

MESSAGE_BYTES_MAX = 64 * 1024


class Channel:
    """Owned by one life. `open` connects and says hello; a failure to connect leaves the rank unharmed and says so."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self._socket: socket.socket | None = None
        self._answered: set[str] = set()

    def open(self, agent: Agent) -> None:
        """Connects, says hello and starts the thread."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(2.0)
            sock.connect(self._address)
            sock.settimeout(None)
        except OSError as error:
            sock.close()
            agent.emit("source_blind", {"source": "control_channel", "reason": f"cannot reach the injector: {error}"})
            return
        self._socket = sock
        self._send(
            {
                "say": "hello",
                "token": self._token,
                "life": agent.life,
                "pid": agent.pid,
                "rank": agent.rank,
                "initial_rank": agent.initial_rank,
            }
        )
        threading.Thread(target=self._serve, args=(agent, sock), name="nvrx-chaos-channel", daemon=True).start()

    def reached(self, order: Order, *, step: int | None, phase: str, point: str) -> None:
        """`t_ns`: the wait begins then, or a moment later. The injector may read this long after."""
        where = {"step": step, "phase": phase, "point": point}
        self._send({"say": "reached", "order_id": order.order_id, "t_ns": time.monotonic_ns(), **where})

    def withdraw(self, order: Order) -> None:
        self._send({"say": "withdraw", "order_id": order.order_id})

    def was_answered(self, order_id: str) -> bool:
        return order_id in self._answered

    def close(self, reason: str) -> None:
        """Says goodbye: the injector then knows that no order can fire here any more."""
        self._send({"say": "bye", "reason": reason})

    def forget(self) -> None:
        """In a forked child: close the descriptor only; a shutdown would cut the parent's connection too."""
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    def _send(self, message: dict[str, Any]) -> None:
        sock = self._socket
        if sock is None:
            return
        try:
            sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._socket = None

    def _serve(self, agent: Agent, sock: socket.socket) -> None:
        pending = b""
        while True:
            try:
                chunk = sock.recv(65536)
            except OSError:
                chunk = b""
            if not chunk:
                break
            pending += chunk
            *lines, pending = pending.split(b"\n")
            if len(pending) > MESSAGE_BYTES_MAX:
                break
            for line in lines:
                self._obey(agent, line)
        self._socket = None
        sock.close()
        agent.orders.drop_all("the injector is gone")

    def _obey(self, agent: Agent, line: bytes) -> None:
        try:
            message = json.loads(line)
            say = message["say"]
            if say == "order":
                agent.orders.take(Order.from_json(message["order"]))
            elif say == "renew":
                agent.orders.renew()
            elif say == "cancel":
                agent.orders.cancel(message["order_id"])
            elif say == "done":
                self._answered.add(message["order_id"])
            elif say == "evidence":
                tell_collectives(agent)
            else:
                raise ValueError(f"unknown message {say!r}")
        except Exception as error:
            agent.emit("source_blind", {"source": "control_channel", "reason": f"a message was ignored: {error}"})
