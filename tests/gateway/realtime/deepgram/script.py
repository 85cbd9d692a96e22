"""A client of one of Deepgram's live wires, driven by hand."""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import QueryParams

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.deepgram.listen import ListenDialect
from lookhear.gateway.realtime.protocol.commands import Append
from lookhear.gateway.telemetry.ids import IdFactory
from tests.gateway.scripted import Script

RATE = 16_000


class ListenScript(Script):
    """query: of its URL. spoken: the dialect, of class `wire`."""

    wire: type[ListenDialect]

    def __init__(self, query: str, **options: Any) -> None:
        self.query = query
        super().__init__(**options)

    def dialect(self, query: dict[str, str], ids: IdFactory) -> ListenDialect:
        self.spoken = self.wire(QueryParams(self.query), ids)
        return self.spoken

    def tell(self, message: str | dict[str, Any] | bytes) -> list[dict[str, Any]]:
        """A message; -> the frames that it caused."""
        frame = json.dumps(message) if isinstance(message, dict) else message
        try:
            commands = self.spoken.parse(frame)
        except ProtocolError as problem:
            return self._take(self.protocol.refuse(problem))
        told = []
        for command in commands:
            assert not isinstance(command, Append)
            told += self._take(self.protocol.receive(command, now=self.now))
        return told
