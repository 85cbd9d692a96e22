"""The engine's end of the socket to the gateway. The gateway's is `engine.client.replica`."""

from __future__ import annotations

import socket
import threading

from lookhear.engine.client.backlog import Backlog
from lookhear.engine.client.wire import PREFIX, Codec
from lookhear.engine.messages import Event, Message

# Both wait when they are full. Then the socket fills, and the gateway refuses what it cannot send;
# or the engine takes no further step until the gateway reads.
INBOX_BYTES = 256 << 20
OUTBOX_EVENTS = 1 << 16


class Channel:
    """Frames over a connected socket, with a thread for each direction.

    failure: what ended one of them, if that was neither the gateway nor `close`: want of memory for
    a frame, or bytes that are none. The inbox says `None` then, too.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._codec = Codec()
        self.inbox: Backlog[Message | None] = Backlog(INBOX_BYTES)  # None: closed
        self._outbox: Backlog[Event | None] = Backlog(OUTBOX_EVENTS)
        self.failure: Exception | None = None
        self._writer = threading.Thread(target=self._write, name="engine-writer", daemon=True)
        self._reader = threading.Thread(target=self._read, name="engine-reader", daemon=True)
        self._writer.start()
        self._reader.start()

    def send(self, event: Event) -> None:
        """Waits only if the gateway has not read for long."""
        self._outbox.put(event)

    def close(self) -> None:
        """Send what is waiting, then hang up."""
        self._outbox.put(None, 0)
        self._writer.join(timeout=5.0)
        self._socket.close()

    def _write(self) -> None:
        try:
            while True:
                buffers: list[bytes | memoryview] = []
                for event in self._outbox.take(wait=True):
                    if event is None:
                        self._socket.sendall(b"".join(buffers))
                        return
                    buffers += self._codec.encode(event)
                self._socket.sendall(b"".join(buffers))
        except OSError:
            pass  # the gateway is gone; the reader notices too
        except Exception as error:
            self.failure = error
            self.inbox.put(None, 0)
        finally:
            self._outbox.abandon()

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as stream:
                while len(prefix := stream.read(PREFIX.size)) == PREFIX.size:
                    header_bytes, payload_bytes = PREFIX.unpack(prefix)
                    header, payload = stream.read(header_bytes), stream.read(payload_bytes)
                    message = self._codec.decode(header, payload)
                    self.inbox.put(message, PREFIX.size + header_bytes + payload_bytes)
        except OSError:
            pass  # the gateway is gone
        except Exception as error:
            self.failure = error
        finally:
            self.inbox.put(None, 0)
