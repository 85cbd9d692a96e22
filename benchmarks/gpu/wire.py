"""The engine's end of a real socket, and what its two threads cost: for `benchmarks.host`."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence

from lookhear.engine.client.channel import Channel
from lookhear.engine.client.wire import Codec
from lookhear.engine.messages import Event, Message


class Wire:
    """Messages go through it as the gateway sends them, events as the engine's process does. The
    threads share Python's lock with the one that drives the device, as there."""

    def __init__(self) -> None:
        near, self._far = socket.socketpair()
        self._codec = Codec()
        self._channel = Channel(near)
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()
        self.sent_seconds = 0.0  # of the gateway's side in this thread: nobody's here

    def carry(self, message: Message) -> Message:
        """As it arrives in the inbox."""
        start = time.thread_time()
        self._far.sendall(b"".join(self._codec.encode(message)))
        self.sent_seconds += time.thread_time() - start
        [arrived] = self._channel.inbox.take(wait=True)
        assert arrived is not None, self._channel.failure
        return arrived

    def send(self, events: Sequence[Event]) -> None:
        """To nobody."""
        for event in events:
            self._channel.send(event)

    def thread_seconds(self) -> float:
        """Processor time of the threads that read and write, so far."""
        channel = self._channel
        clocks = [
            time.pthread_getcpuclockid(thread.ident)
            for thread in (channel._reader, channel._writer)
            if thread.ident is not None
        ]
        return sum(map(time.clock_gettime, clocks))

    def close(self) -> None:
        """All threads have ended."""
        self._far.shutdown(socket.SHUT_WR)  # the reader ends
        self._channel.close()
        self._drain.join()
        self._far.close()

    def _read(self) -> None:
        while self._far.recv(1 << 16):
            pass
