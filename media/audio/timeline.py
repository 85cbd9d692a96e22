"""Where the sound of a file belongs: what its times leave out is silence.

Recorders of calls write nothing while a microphone is off, and the sound of a film may begin later
than its pictures. Samples alone would then come too early, and so would subtitles.
"""

from __future__ import annotations

__all__ = ["Timeline"]

# Browsers time a packet to the millisecond and players bear with 0.1 s (FFmpeg's min_hard_comp).
JITTER = 0.1
MAX_PAUSE = 3600.0  # a number that is larger is damaged


class Timeline:
    """Of one track, whose frames come in order. begins: the time of the file's first picture or
    sound, in seconds; None: nobody says, so that of the first frame. most: a longer pause is none,
    the clock was set."""

    def __init__(self, begins: float | None, most: float = MAX_PAUSE) -> None:
        self._end = begins  # of what was placed last
        self._most = most
        self._is_empty = True
        self._has_loss = False
        self.placed = 0.0  # seconds of sound, and of pauses that nobody lost

    def lose(self) -> None:
        """A packet of the next frames could not be decoded."""
        self._has_loss = True

    def place(self, time: float | None, seconds: float) -> float:
        """A frame: when it is to be heard, None if nobody says, and how long it lasts. How many
        seconds of silence belong before it."""
        if self._end is None:
            self._end = time or 0.0
        pause = 0.0 if time is None else time - self._end
        if not JITTER <= pause <= self._most:
            if time is not None and abs(pause) > JITTER:
                self._end = time  # a clock that was set: it goes on from here
            pause = 0.0
        self._end += pause + seconds
        self.placed += seconds
        if not self._is_empty and not self._has_loss:
            self.placed += pause
        self._is_empty = self._has_loss = False
        return pause
