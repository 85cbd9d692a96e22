"""The pair of sockets between a worker and its parent: small messages, some with a connection."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

MAX_MESSAGE = 64 * 1024  # bytes
AT_ONCE = 64  # messages read in one turn of the event loop

Message = Mapping[str, Any]


class Control:
    """One end. Each message is whole (SOCK_SEQPACKET). on_message: told each, with the connection
    that came along, which is the receiver's to close. on_end: the other end is closed."""

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[Message, socket.socket | None], None],
        on_end: Callable[[], None],
    ) -> None:
        self._sock = sock
        self._on_message = on_message
        self._on_end = on_end
        sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._read)

    def send(self, message: Message, connection: socket.socket | None = None) -> bool:
        """Whether it was taken: an end that is gone or reads nothing takes none. Never waits."""
        data = json.dumps(message).encode()
        given = [] if connection is None else [connection.fileno()]
        try:
            socket.send_fds(self._sock, [data], given)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """The other end will know. Twice is as good as once."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    def _read(self) -> None:
        for _ in range(AT_ONCE):
            if self._sock.fileno() < 0:  # closed by who was told
                return
            try:
                data, descriptors, _, _ = socket.recv_fds(self._sock, MAX_MESSAGE, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                for descriptor in descriptors:
                    os.close(descriptor)
                self.close()
                self._on_end()
                return
            came = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            self._on_message(json.loads(data), came[0] if came else None)


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
