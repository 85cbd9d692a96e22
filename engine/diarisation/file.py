"""A whole recording, one chunk after another. Pure."""

from __future__ import annotations

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.core.single_pass import RowsResult
from lookhear.engine.diarisation.request import ChunkRequest
from lookhear.engine.diarisation.speaker_cache import Chunking
from lookhear.engine.diarisation.turns import SpeakerTurns
from lookhear.engine.messages import DiariseFile, Event, FileDiarised, FileFailed
from lookhear.engine.models import frames


class FileDiarisation:
    """Turns `DiariseFile` into `FileDiarised`; satisfies `Owner`. stack: frames of a place.
    emphasis: see `frames.stretch`."""

    is_urgent = False

    def __init__(
        self, message: DiariseFile, chunking: Chunking, stack: int, emphasis: float
    ) -> None:
        self._message, self._chunking = message, chunking
        self._stack, self._emphasis = stack, emphasis
        self._frames = frames.num_frames(len(message.samples))
        self._places = -(-self._frames // stack)
        self._next = 0  # place of the next chunk
        self._is_asked = False
        self._turns = SpeakerTurns()
        self.is_done = False

    def wants_request(self) -> bool:
        """Whether there is more to hear, and nothing in flight."""
        return not self.is_done and not self._is_asked and self._next < self._places

    def cost(self) -> Cost:
        """In samples."""
        chunking = self._chunking
        places = chunking.behind + chunking.chunk + chunking.ahead
        return Cost(places * self._stack * frames.HOP)

    def make_request(self) -> ChunkRequest:
        """About the next chunk."""
        first, cut = self._next, self._chunking
        end = min(first + cut.chunk, self._places)
        begin = max(first - cut.behind, 0)
        until = min((end + cut.ahead) * self._stack, self._frames)
        self._is_asked = True
        return ChunkRequest(
            self._message.request,
            cut,
            frames.stretch(
                self._message.samples, begin * self._stack, until, emphasis=self._emphasis
            ),
            first - begin,
            end - first,
            min(end * self._stack, self._frames) - first * self._stack,
        )

    def absorb(self, result: Result) -> list[Event]:
        """Who speaks in the chunk is known."""
        assert isinstance(result, RowsResult)
        self._turns.add(result.rows)
        self._next = min(self._next + self._chunking.chunk, self._places)
        self._is_asked = False
        return self.settle()

    def settle(self) -> list[Event]:
        """The answer, once all was heard."""
        if self.is_done or self._next < self._places:
            return []
        self.is_done = True
        return [FileDiarised(self._message.request, self._turns.close())]

    def fail(self, code: str, message: str) -> list[Event]:
        """The rest would be about other speakers."""
        self.is_done = True
        return [FileFailed(self._message.request, code, message)]
