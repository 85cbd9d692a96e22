"""A decoder that one stream has to itself, and that remembers what came before."""

from __future__ import annotations

import os

from lookhear.gateway.decoding.crew import Crew, Decoder
from lookhear.gateway.decoding.jobs import Options
from lookhear.gateway.decoding.parcel import Array, Header, pack
from lookhear.gateway.decoding.verdict import Verdict
from lookhear.gateway.telemetry.metrics import Metrics


class OwnDecoder:
    """Hired with the first piece. job: what it does with each, one after the other. Whoever has it
    has to `close` it."""

    def __init__(self, job: str, crew: Crew, metrics: Metrics) -> None:
        self._job = job
        self._crew = crew
        self._metrics = metrics
        self._verdict = Verdict(crew.limits)
        self._decoder: Decoder | None = None

    async def do(self, data: bytes, options: Options) -> tuple[Header, list[Array]]:
        """What it makes of the next piece. Whoever is cancelled takes the decoder with them. Raises
        MediaError and ApiError as `Decoders.run`; after that there is nothing to be had any more.
        """
        with self._verdict.judging():
            if self._decoder is None:
                self._decoder = await self._crew.hire()
            header = {"job": self._job, "media_type": None, "options": dict(options)}
            asked = pack(header, [data])
            try:
                told, arrays = await self._crew.ask(self._decoder, asked)
            finally:
                os.close(asked)
            return self._verdict.done(told), arrays

    def close(self) -> None:
        """Its stream is over, or nobody hears it any more."""
        decoder, self._decoder = self._decoder, None
        if decoder is not None:
            self._crew.kill(decoder)
            self._metrics.decoding_jobs.labels(self._job, self._verdict.outcome).inc()
