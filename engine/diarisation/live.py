"""A recording that goes on, one chunk after another as it is heard. Pure.

The same chunks as of the whole recording with the same cut, each once all is there that it sees
beside itself: so how the audio came in pieces changes nothing. What no later chunk sees is let go.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.core.single_pass import RowsResult
from lookhear.engine.diarisation.request import ChunkRequest
from lookhear.engine.diarisation.speaker_cache import Chunking
from lookhear.engine.diarisation.turns import SpeakerTurns
from lookhear.engine.messages import DiarisingFailed, Event, SpeakersHeard, SpeakerTurn
from lookhear.engine.models import frames


class LiveDiarisation:
    """Turns `DiariseLive` of one session into `SpeakersHeard`; satisfies `Owner`. key: its own.
    stack: frames of a place. emphasis: see `frames.stretch`."""

    is_urgent = False

    def __init__(
        self, key: str, session: str, chunking: Chunking, stack: int, emphasis: float
    ) -> None:
        self._key, self._session, self._chunking = key, session, chunking
        self._stack, self._emphasis = stack, emphasis
        self._samples = np.zeros(0, np.float32)
        self._begin = 0  # of the samples that are kept
        self._next = 0  # place of the next chunk
        self._is_asked = False
        self._is_last = False  # no more audio will come
        self._turns = SpeakerTurns()
        self.is_done = self.has_failed = False

    @property
    def num_heard(self) -> int:
        """Samples that came so far."""
        return self._begin + len(self._samples)

    @property
    def num_kept(self) -> int:
        """Samples that are still here."""
        return len(self._samples)

    @property
    def is_closed(self) -> bool:
        """Whether no more audio will come."""
        return self._is_last

    def append(self, samples: NDArray[np.float32], *, is_last: bool) -> None:
        """More of the recording."""
        assert not self._is_last
        self._samples = np.concatenate([self._samples, samples])
        self._is_last = is_last

    @property
    def _frames(self) -> int:
        """Those that no later sample changes."""
        heard = self.num_heard
        return frames.num_frames(heard) if self._is_last else frames.num_final(heard)

    @property
    def _places(self) -> int:
        """Whole ones; of a recording that is over, the last one, too."""
        places, rest = divmod(self._frames, self._stack)
        return places + (rest > 0 and self._is_last)

    def wants_request(self) -> bool:
        """Whether a chunk is there, with all that it sees, and nothing in flight."""
        if self.is_done or self._is_asked:
            return False
        cut, left = self._chunking, self._places - self._next
        return left >= (1 if self._is_last else cut.chunk + cut.ahead)

    def cost(self) -> Cost:
        """In samples."""
        cut = self._chunking
        return Cost((cut.behind + cut.chunk + cut.ahead) * self._stack * frames.HOP)

    def make_request(self) -> ChunkRequest:
        """About the next chunk."""
        first, cut, count = self._next, self._chunking, self._frames
        end = min(first + cut.chunk, self._places)
        begin = max(first - cut.behind, 0)
        self._is_asked = True
        return ChunkRequest(
            self._key,
            cut,
            frames.stretch(
                self._samples,
                begin * self._stack,
                min((end + cut.ahead) * self._stack, count),
                begin=self._begin,
                emphasis=self._emphasis,
            ),
            first - begin,
            end - first,
            min(end * self._stack, count) - first * self._stack,
        )

    def absorb(self, result: Result) -> list[Event]:
        """Who speaks in the chunk is known."""
        assert isinstance(result, RowsResult)
        self._turns.add(result.rows)
        self._next = min(self._next + self._chunking.chunk, self._places)
        self._is_asked = False
        self._let_go()
        return [self._told(self._turns.under_way()), *self.settle()]

    def _told(self, under_way: list[SpeakerTurn], *, is_last: bool = False) -> SpeakersHeard:
        over, seconds = self._turns.take(), round(self._turns.seconds, 2)
        return SpeakersHeard(self._session, over, under_way, seconds, is_last)

    def _let_go(self) -> None:
        """Of the audio, what no later chunk sees."""
        first = max(self._next - self._chunking.behind, 0) * self._stack
        begin = max(first * frames.HOP - frames.BEFORE, self._begin)
        self._samples = self._samples[begin - self._begin :].copy()
        self._begin = begin

    def settle(self) -> list[Event]:
        """The end, once all was heard."""
        if self.is_done or not self._is_last or self._is_asked or self._next < self._places:
            return []
        self.is_done = True
        self._turns.close()
        return [self._told([], is_last=True)]

    def fail(self, code: str, message: str) -> list[Event]:
        """The rest would be about other speakers."""
        self.is_done = self.has_failed = True
        return [DiarisingFailed(self._session, code, message)]
