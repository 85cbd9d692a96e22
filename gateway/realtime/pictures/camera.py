"""What a live camera showed: the frames that changed, the newest in full, the older ones thinned.

Where frames stand in a prompt: behind the answer that was the last one when they came, at the head
of the user's next message, before the question. So the conversation reads as it happened - seen,
asked, answered, seen, asked - and a new frame is only ever added behind all frames there are. What
an engine has read stays the beginning of what it reads next, and is found in its cache; only the
question that waits behind the frames is read again, and it is short.

That is so until more frames are held than allowed. Then the older ones are thinned to every second
of them, once, which changes the prompt from the first of them on; it is read again, ahead of any
question, and can grow by `max_frames` / 2 frames until the next time. So a frame costs the same
after an hour as after a minute, as do the memory and the next question. The further back, the fewer
frames are left; the oldest of all is among those that go.
"""

from __future__ import annotations

from dataclasses import dataclass

from lookhear.gateway.decoding.results import Picture
from lookhear.media.pictures.similarity import Thumbnail, difference


@dataclass(frozen=True, slots=True, eq=False)
class DecodedFrame:
    """A frame as it came out of the decoder."""

    picture: Picture
    thumbnail: Thumbnail


@dataclass(frozen=True, slots=True, eq=False)
class CameraFrame:
    """A frame that is kept. seconds: on the client's clock. after: the id of the answer that it
    followed, None if there was none."""

    picture: Picture
    seconds: float
    after: str | None


class Camera:
    """The kept frames of one session, oldest first."""

    def __init__(self) -> None:
        self.frames: list[CameraFrame] = []
        self.capacity: int | None = None  # how many the model's context turned out to hold
        self.newest_ms: int | None = None  # of the last one that was looked at
        self._last: Thumbnail | None = None  # of the last kept one

    def is_due(self, timestamp_ms: int, max_fps: float) -> bool:
        """Whether a frame of that time is to be looked at."""
        return self.newest_ms is None or timestamp_ms - self.newest_ms >= 1000 / max_fps

    def see(
        self, seen: DecodedFrame, timestamp_ms: int, after: str | None, min_change: float
    ) -> bool:
        """Whether the frame is new enough to be kept. Times must not run backwards."""
        assert self.newest_ms is None or timestamp_ms >= self.newest_ms, timestamp_ms
        self.newest_ms = timestamp_ms
        if self._last is not None and difference(self._last, seen.thumbnail) < min_change:
            return False
        self._last = seen.thumbnail
        self.frames.append(CameraFrame(seen.picture, timestamp_ms / 1000, after))
        return True

    def thin(self, max_frames: int) -> list[CameraFrame]:
        """Make room if there are too many. -> the frames that are gone."""
        limit = 2 * max_frames if self.capacity is None else min(2 * max_frames, self.capacity)
        in_full = min(max_frames, max(1, limit // 2))
        gone: list[CameraFrame] = []
        while len(self.frames) > limit:
            older, newer = self.frames[:-in_full], self.frames[-in_full:]
            gone += older[0::2]
            self.frames = older[1::2] + newer
        return gone

    def forget(self, frames: list[CameraFrame]) -> list[CameraFrame]:
        """-> those of them that were still there; they are gone."""
        gone = [frame for frame in self.frames if frame in frames]
        self.frames = [frame for frame in self.frames if frame not in gone]
        return gone

    def clear(self) -> list[CameraFrame]:
        """Forget all, also which frame was the last. -> the frames that are gone."""
        gone, self.frames = self.frames, []
        self._last = None
        self.newest_ms = None
        return gone
