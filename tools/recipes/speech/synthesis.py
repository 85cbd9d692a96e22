"""Speech synthesis with libespeak-ng: waveforms with exact word and phoneme times.

The library is called through ctypes because the command line tool reports no timings. It keeps
its state per process, so one `Synthesizer` per process (a multiprocessing pool for speed).
Reference: `speak_lib.h` of espeak-ng 1.51.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
PAUSES = ("_", "_:", "__", "")
"""Phoneme labels of espeak that are silence (`_!` and `_|` are not)."""
_AUDIO_SYNCHRONOUS = 2
_PHONEME_EVENTS = 1
_CHARS_UTF8 = 1
_POSITION_CHARACTER = 1
_RATE, _VOLUME, _PITCH, _RANGE = 1, 2, 3, 4
_EVENT_END, _EVENT_WORD, _EVENT_PHONEME = 0, 1, 7


class SynthesizerError(RuntimeError):
    """libespeak-ng is missing, or refused a voice or a text."""


class _EventId(ctypes.Union):
    _fields_ = [
        ("number", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("string", ctypes.c_char * 8),
    ]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _EventId),
    ]


@dataclass(frozen=True)
class Speaker:
    """One way of speaking: espeak voice with variant, words per minute, pitch and its range."""

    voice: str
    rate: int
    pitch: int
    pitch_range: int
    stretch: float = 1.0
    """Resampling factor: above 1 speaks faster and higher, as with a smaller vocal tract."""


@dataclass(frozen=True)
class Utterance:
    """A spoken sentence: int16 samples at 16 kHz, times in seconds from the first sample."""

    samples: NDArray[np.int16]
    text: str
    words: tuple[tuple[str, float, float], ...]
    phonemes: tuple[tuple[str, float], ...]


class Synthesizer:
    """libespeak-ng in this process. Raises SynthesizerError where it is not installed."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("espeak-ng") or "libespeak-ng.so.1"
        try:
            self._lib = ctypes.CDLL(name)
        except OSError as error:
            raise SynthesizerError(
                f"libespeak-ng is needed to generate speech, and {name} did not load: {error}"
            ) from error
        self._rate = int(self._lib.espeak_Initialize(_AUDIO_SYNCHRONOUS, 0, None, _PHONEME_EVENTS))
        if self._rate <= 0:
            raise SynthesizerError(f"espeak_Initialize: expected a sample rate, got {self._rate}")
        self._chunks: list[NDArray[np.int16]] = []
        self._events: list[tuple[int, int, int, str]] = []
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
        )
        self._callback = prototype(self._receive)  # kept alive here: C holds the bare pointer
        self._lib.espeak_SetSynthCallback(self._callback)

    def _receive(self, wave: object, count: int, events: object) -> int:
        if count > 0 and wave:
            array = np.ctypeslib.as_array(wave, shape=(count,))
            self._chunks.append(array.copy())
        i = 0
        while True:
            event = events[i]  # type: ignore[index]
            if event.type == _EVENT_END:
                break
            if event.type == _EVENT_WORD:
                self._events.append((_EVENT_WORD, event.audio_position, event.text_position, ""))
            elif event.type == _EVENT_PHONEME:
                label = event.id.string.decode("utf-8", "replace")
                self._events.append((_EVENT_PHONEME, event.audio_position, 0, label))
            i += 1
        return 0

    def speak(self, text: str, speaker: Speaker) -> Utterance:
        """Speak one sentence. Raises SynthesizerError where espeak refuses voice or text."""
        import soxr

        lib = self._lib
        if lib.espeak_SetVoiceByName(speaker.voice.encode()) != 0:
            raise SynthesizerError(f"espeak has no voice {speaker.voice!r}")
        lib.espeak_SetParameter(_RATE, speaker.rate, 0)
        lib.espeak_SetParameter(_PITCH, speaker.pitch, 0)
        lib.espeak_SetParameter(_RANGE, speaker.pitch_range, 0)
        self._chunks, self._events = [], []
        data = text.encode("utf-8")
        status = lib.espeak_Synth(
            data, len(data) + 1, 0, _POSITION_CHARACTER, 0, _CHARS_UTF8, None, None
        )
        if status != 0 or not self._chunks:
            raise SynthesizerError(f"espeak_Synth({text!r}) gave status {status}")
        wave = np.concatenate(self._chunks).astype(np.float32) / 32768
        wave = soxr.resample(wave, self._rate * speaker.stretch, SAMPLE_RATE)
        first, last = _active(wave)
        samples = np.clip(wave * 32767, -32768, 32767).astype(np.int16)[first:last]
        shift = first / SAMPLE_RATE
        length = (last - first) / SAMPLE_RATE
        starts = [
            (max(0.0, ms / 1000 / speaker.stretch - shift), position - 1)
            for kind, ms, position, _ in self._events
            if kind == _EVENT_WORD
        ]
        phonemes = tuple(
            (label, max(0.0, ms / 1000 / speaker.stretch - shift))
            for kind, ms, _, label in self._events
            if kind == _EVENT_PHONEME
        )
        return Utterance(samples, text, _word_times(text, starts, phonemes, length), phonemes)


def _active(wave: NDArray[np.float32]) -> tuple[int, int]:
    """First and one past the last sample that is louder than 1 % of the peak."""
    loud = np.flatnonzero(np.abs(wave) > 0.01 * max(1e-4, float(np.abs(wave).max())))
    return (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (0, len(wave))


def _word_times(
    text: str,
    starts: list[tuple[float, int]],
    phonemes: tuple[tuple[str, float], ...],
    length: float,
) -> tuple[tuple[str, float, float], ...]:
    """Times of the whitespace-separated words. A word that espeak joined to its neighbour gets
    its share of the joint time by letters."""
    words = text.split()
    begins: list[float | None] = []
    offset = 0
    for word in words:
        offset = text.index(word, offset)
        inside = [t for t, p in starts if offset <= p < offset + len(word)]
        begins.append(min(inside) if inside else None)
        offset += len(word)
    begins[0] = 0.0 if begins[0] is None else min(begins[0], length)
    times: list[float] = []
    i = 0
    while i < len(words):
        j = i + 1
        while j < len(words) and begins[j] is None:
            j += 1
        begin = begins[i]
        assert begin is not None
        end = begins[j] if j < len(words) else length
        assert end is not None
        letters = [0, *accumulate(len(w) for w in words[i:j])]
        times += [begin + (end - begin) * n / letters[-1] for n in letters[:-1]]
        i = j
    ends = times[1:] + [length]
    # Pauses belong to no word: a silent phoneme ends the word before it.
    pauses = [t for label, t in phonemes if label in PAUSES]
    out = []
    for word, begin, end in zip(words, times, ends, strict=True):
        inside = [t for t in pauses if begin + 0.05 < t < end]
        out.append((word, round(begin, 3), round(max(inside[0] if inside else end, begin), 3)))
    return tuple(out)
