"""Speakers' turns of what a diariser says of every frame. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SpeakerTurn

SPEAKS = 0.5  # so probable, they do
FRAME_SECONDS = 0.01


class SpeakerTurns:
    """Of frames that come one after another. told: those that are over, in the order in which they
    ended."""

    def __init__(self) -> None:
        self.told: list[SpeakerTurn] = []
        self._frames = 0
        self._open: dict[int, int] = {}  # speaker -> the frame in which they began

    @property
    def seconds(self) -> float:
        """Of the recording that are known."""
        return self._frames * FRAME_SECONDS

    def add(self, probabilities: NDArray[np.float32]) -> None:
        """[n, speakers]: how probably each speaks in the next frames."""
        speaks = probabilities > SPEAKS
        before = np.zeros((1, speaks.shape[1]), bool)
        before[0, list(self._open)] = True
        changes = np.diff(np.concatenate([before, speaks]), axis=0)
        for frame, speaker in np.argwhere(changes).tolist():
            if speaker in self._open:
                self._end(speaker, self._frames + frame)
            else:
                self._open[speaker] = self._frames + frame
        self._frames += len(speaks)

    def under_way(self) -> list[SpeakerTurn]:
        """As far as they are known."""
        return [self._turn(speaker, self._frames) for speaker in self._open]

    def close(self) -> list[SpeakerTurn]:
        """The recording is over: all of them, by their beginning."""
        for speaker in list(self._open):
            self._end(speaker, self._frames)
        return sorted(self.told, key=lambda turn: (turn.start, turn.speaker))

    def take(self) -> list[SpeakerTurn]:
        """Those that are over and were not taken before."""
        taken, self.told = self.told, []
        return taken

    def _end(self, speaker: int, frame: int) -> None:
        self.told.append(self._turn(speaker, frame))
        del self._open[speaker]

    def _turn(self, speaker: int, end: int) -> SpeakerTurn:
        start = self._open[speaker] * FRAME_SECONDS
        return SpeakerTurn(speaker, round(start, 2), round(end * FRAME_SECONDS, 2))
