"""Who is near the microphone: a voice far quieter than the one before it is in the background."""

from __future__ import annotations

from collections import deque

from lookhear.media.voice.silero import WINDOW

RATE = 16000
LEAST = 10 ** (-15.0 / 10)  # energy, of that of the loudest voice, from which on a voice is near
SMOOTH = 4  # windows that a syllable is, over which energies are averaged
HELD = 8  # windows: a voice may be as quiet as it likes for so long, as between two syllables
HALF_SECONDS = 60.0  # of voices, in which the loudest one is forgotten by halves
FADING = 0.25 ** (WINDOW / (HALF_SECONDS * RATE))  # of an energy, from one window to the next


class Nearness:
    """Follows how loud the nearest voice of one stream is. Pure."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """A new stream: nobody was heard."""
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
