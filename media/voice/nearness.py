"""Who is near the microphone: a voice far quieter than the one before it is in the background."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from lookhear.media.voice.silero import WINDOW

RATE = 16000
LEAST = 10 ** (-15.0 / 10)  # energy, of that of the loudest voice, from which on a voice is near
SMOOTH = 4  # windows that a syllable is, over which energies are averaged
HELD = 8  # windows: a voice may be as quiet as it likes for so long, as between two syllables
HALF_SECONDS = 60.0  # of voices, in which the loudest one is forgotten by halves
FADING = 0.25 ** (WINDOW / (HALF_SECONDS * RATE))  # of an energy, from one window to the next
QUIET = 10 ** (-40.0 / 20)  # gain of a voice that is not near: 55 dB below no word is heard

Samples = NDArray[np.float32]


class Nearness:
    """Follows how loud the nearest voice of one stream is. Pure."""

    def __init__(self) -> None:
        self._energies: deque[float] = deque(maxlen=SMOOTH)
        self._recent: deque[float] = deque(maxlen=HELD)
        self._voices = 0  # windows with a voice, up to now
        self._nearest = 0.0  # energy of the loudest voice, fading while somebody speaks

    def is_near(self, energy: float, *, is_voice: bool) -> bool:
        """Whether a voice in the next window is one near the microphone. energy: of the window, the
        sum of its squares. is_voice: somebody speaks in it, whoever that is."""
        self._energies.append(energy)
        smooth = sum(self._energies) / len(self._energies)
        self._recent.append(smooth)
        self._voices = self._voices + 1 if is_voice else 0
        if is_voice:
            self._nearest *= FADING
        if self._voices >= SMOOTH:  # no noise is among them
            self._nearest = max(smooth, self._nearest)
        return max(self._recent) >= self._nearest * LEAST


class NearGate:
    """Quietens voices that are not near, with no delay: a window as loud as was judged of the one
    before it, from the gain of that one on in a straight line. Noise stays: without it between the
    words, but not in them, they are misheard. Pure."""

    def __init__(self) -> None:
        # Gains where windows begin: of the newest that was judged, those around it, the next one.
        self._gains = deque([1.0, 1.0], maxlen=4)
        self._next = 1  # the window that the last gain is the beginning of

    def judged(self, *, is_far: bool) -> None:
        """The next window; is_far: somebody speaks in it, and nobody near."""
        self._gains.append(QUIET if is_far else 1.0)
        self._next += 1

    def quieten(self, samples: Samples, begin: int) -> Samples:
        """samples: [n <= WINDOW], up to the first that no judged window has; begin: the position of
        the first on the stream -> [n], new ones where anything is quieter."""
        if min(self._gains) == 1.0:
            return samples
        windows = np.arange(self._next + 1 - len(self._gains), self._next + 1)
        positions = np.arange(begin, begin + len(samples))
        gains = np.interp(positions, windows * WINDOW, self._gains)
        return samples * gains.astype(np.float32)
