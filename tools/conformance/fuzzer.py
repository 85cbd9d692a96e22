"""The fuzzing client: `python tools/conformance/fuzzer.py URL`, with the folder that `suite.fetch`
filled among Python's paths. A line of JSON for each case.

It does what the suite's own client does for its cases, on today's autobahn.
"""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys
import time

from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketClientProtocol, connectWS
from autobahn.websocket.protocol import WebSocketProtocol
from case import Case, Cases
from twisted.internet import reactor

OPEN_SECONDS = 30.0
Case.compare = lambda self, a, b: a == b


def octets(text):
    """Of a text that is bytes."""
    return text.encode("latin-1") if isinstance(text, str) else text


class Fuzzer(WebSocketClientProtocol):
    """One case. What the cases say and hear are texts that are bytes (see `suite`)."""

    def connectionMade(self):
        self.connectionWasOpen = self.createWirelog = False
        self.txFrameStats, self.began = {}, time.monotonic()
        self.run = self.factory.case(self)
        super().connectionMade()

    def connectionLost(self, reason):
        super().connectionLost(reason)
        self.run.onConnectionLost(self.failedByMe)
        self.factory.ended(self)

    def onOpen(self):
        self.connectionWasOpen = True
        self.run.onOpen()

    def onMessage(self, payload, isBinary):
        self.run.onMessage(payload.decode("latin-1"), isBinary)

    def onPing(self, payload):
        self.run.onPing(payload.decode("latin-1"))
        super().onPing(payload)

    def onPong(self, payload):
        self.run.onPong(payload.decode("latin-1"))

    def onClose(self, wasClean, code, reason):
        self.run.onClose(wasClean, code, reason)

    def logTxFrame(self, frameHeader, payload, repeatLength, chopsize, sync):
        opcode = frameHeader.opcode
        self.txFrameStats[opcode] = self.txFrameStats.get(opcode, 0) + 1

    def logRxFrame(self, frameHeader, payload):
        pass

    def enableWirelog(self, enable):
        pass

    def sendFrame(self, opcode, payload=b"", **options):
        super().sendFrame(opcode, octets(payload), **options)

    def sendMessage(self, payload, isBinary=False, **options):
        super().sendMessage(octets(payload), isBinary, **options)

    def sendMessageFrameData(self, payload, sync=False):
        return super().sendMessageFrameData(octets(payload), sync)

    def beginMessage(self, isBinary=False, opcode=None, **options):
        super().beginMessage(isBinary, **options)

    def sendClose(self, code=None, reason=None):
        # The suite's cases may say more than today's autobahn lets people say.
        self.sendCloseFrame(code, None if reason is None else octets(reason))

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        reason = None if reasonUtf8 is None else octets(reasonUtf8)
        super().sendCloseFrame(code, reason, isReply)
        if isinstance(self.localCloseReason, bytes):
            self.localCloseReason = self.localCloseReason.decode("latin-1")

    def later(self, delay, act):
        def now():
            if self.state != WebSocketProtocol.STATE_CLOSED:
                act()

        reactor.callLater(delay, now)

    def continueLater(self, delay, act, tag=None):
        self.later(delay, act)

    def killAfter(self, delay):
        self.later(delay, self._fail_connection)

    def closeAfter(self, delay):
        self.later(delay, self.sendClose)


class Factory(WebSocketClientFactory):
    """Connects for one case after the other."""

    protocol = Fuzzer

    def __init__(self, url, cases):
        super().__init__(url)
        self.setProtocolOptions(failByDrop=False, openHandshakeTimeout=OPEN_SECONDS)
        self.logFrames = True
        self.cases = iter(cases)
        self.next()

    def next(self):
        self.case = next(self.cases, None)
        if self.case is None:
            reactor.stop()
        else:
            connectWS(self)

    def ended(self, protocol):
        run = protocol.run
        found = {
            "case": self.case.__name__.removeprefix("Case").replace("_", "."),
            "behavior": run.behavior,
            "close": run.behaviorClose,
            "result": run.result,
            "close_result": run.resultClose,
            "close_code": protocol.remoteCloseCode,
            "seconds": round(time.monotonic() - protocol.began, 3),
        }
        print(json.dumps(found), flush=True)
        reactor.callLater(0, self.next)

    def clientConnectionFailed(self, connector, reason):
        sys.exit(f"cannot connect: {reason.getErrorMessage()}")


def wanted(prefixes):
    """Cases of those sections, all if there are none."""
    for case in Cases:
        name = case.__name__.removeprefix("Case").replace("_", ".") + "."
        if not prefixes or any(name.startswith(prefix.rstrip(".*") + ".") for prefix in prefixes):
            yield case


if __name__ == "__main__":
    Factory(sys.argv[1], wanted(sys.argv[2:]))
    reactor.run()
