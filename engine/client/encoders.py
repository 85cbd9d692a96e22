"""Encoders of one model, and the media that its other engines want of them.

A medium is asked of one encoder, that with the fewest under way, however many engines want it. What
is under way when an encoder dies is asked of another one, or of the same one when it is back.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from lookhear.engine.client.errors import EngineUnavailable
from lookhear.engine.client.replica import Replica
from lookhear.engine.messages import EncodeMedium, EncodingFailed, MediumEncoded, ModelCard

# Deaths of encoders over one medium: it may be what kills them.
MOST_DEATHS = 3


@dataclass(slots=True)
class _Ask:
    """One medium. engines: that want it. encoder: that has it; None while there is none. timer:
    gives it up, while it waits."""

    message: EncodeMedium
    engines: dict[Replica, None] = field(default_factory=dict)
    encoder: Replica | None = None
    deaths: int = 0
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        """It waits no more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Encoders:
    """name: the model's. wait_seconds: for an encoder, where there is none. parameters: of one,
    once it was ready. Every method belongs to one event loop."""

    def __init__(self, name: str, wait_seconds: float) -> None:
        self._name = name
        self._wait_seconds = wait_seconds
        self.replicas: list[Replica] = []
        self.parameters = 0
        self._asked: dict[bytes, _Ask] = {}
        self._untold: list[tuple[Replica, MediumEncoded | EncodingFailed]] = []

    def ask(self, engine: Replica, message: EncodeMedium) -> None:
        """An engine wants a medium's embeddings; it is told of them, or why there are none."""
        asked = self._asked.get(message.digest)
        if asked is not None:
            asked.engines[engine] = None
            return
        asked = self._asked[message.digest] = _Ask(message, {engine: None})
        self._send(asked)

    def _send(self, asked: _Ask) -> None:
        up = [replica for replica in self.replicas if replica.is_running]
        answering = [replica for replica in up if replica.is_answering]
        for encoder in sorted(answering or up, key=self._load):
            try:
                encoder.send(asked.message)
            except EngineUnavailable:  # it is gone, or does not keep up
                continue
            asked.encoder = encoder
            asked.stop_timer()
            return
        asked.encoder = None
        if asked.timer is None:
            loop, digest = asyncio.get_running_loop(), asked.message.digest
            asked.timer = loop.call_later(self._wait_seconds, self._give_up, digest)

    def _load(self, encoder: Replica) -> int:
        return sum(asked.encoder is encoder for asked in self._asked.values())

    def take(self, event: MediumEncoded | EncodingFailed) -> None:
        """What an encoder says of a medium; of one that nobody waits for: ignored."""
        asked = self._asked.pop(event.digest, None)
        if asked is None:
            return
        asked.stop_timer()
        self._untold += [(engine, event) for engine in asked.engines]
        self._tell()

    def _tell(self) -> None:
        """Engines what they asked for; again later, if they do not keep up."""
        untold, self._untold = self._untold, []
        for engine, event in untold:
            try:
                engine.send(event)
            except EngineUnavailable:
                if engine.is_running:
                    self._untold.append((engine, event))

    def _give_up(self, digest: bytes) -> None:
        text = f"no encoder of {self._name} is running; try again"
        self.take(EncodingFailed(digest, "engine_unavailable", text))

    def came_up(self, card: ModelCard) -> None:
        """One of them is loaded."""
        self.parameters = card.parameters
        self.look()

    def look(self) -> None:
        """One of them may be asked again, or told: whoever waits is."""
        self._tell()
        for asked in [asked for asked in self._asked.values() if asked.encoder is None]:
            self._send(asked)

    def lose(self, encoder: Replica) -> None:
        """It died, and what it had with it."""
        for asked in [asked for asked in self._asked.values() if asked.encoder is encoder]:
            asked.encoder = None
            asked.deaths += 1
            if asked.deaths < MOST_DEATHS:
                self._send(asked)
            else:
                text = f"the encoder of {self._name} died over the picture {asked.deaths} times"
                self.take(EncodingFailed(asked.message.digest, "engine_died", text))

    def forget(self, engine: Replica) -> None:
        """An engine died: nobody tells it anything. What is under way may be wanted again."""
        for asked in self._asked.values():
            asked.engines.pop(engine, None)
        self._untold = [told for told in self._untold if told[0] is not engine]

    def close(self) -> None:
        """Nothing is waited for any more."""
        for asked in self._asked.values():
            asked.stop_timer()
        self._asked.clear()
