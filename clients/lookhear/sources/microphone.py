"""The machine's microphone as a source of PCM."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

from lookhear.errors import NotInstalled, SourceError
from lookhear.sources.pcm import RATE, PcmConverter


class Microphone:
    """The machine's microphone as a source; recording starts on entering or at first use.

    device: name or number as sounddevice knows it, None for the default. queue_seconds: how much
    may wait unread (while a lost connection comes back) before recording fails with `SourceError`.
    A device that cannot record at 24 kHz records at its own rate, and is resampled.
    """

    def __init__(self, device: str | int | None = None, queue_seconds: float = 120.0) -> None:
        self._device = device
        self._rate = RATE
        self._blocks: queue.Queue[bytes] = queue.Queue(maxsize=int(queue_seconds * 50))
        self._overflowed = False
        self._stopped = False
        self._lost = False  # it records no more, and nobody has stopped it
        self._was_read = False
        self._stream: Any = None

    def start(self) -> bool:
        """Open the device; False if it was open already or has been stopped.

        SourceError if there is none, NotInstalled if `lookhear[microphone]` is missing.
        """
        if self._stream is not None or self._stopped:
            return False
        sounddevice = _sounddevice()
        try:
            self._stream = self._open(sounddevice)
            self._stream.start()
        except (sounddevice.PortAudioError, ValueError) as error:
            self._stream = None
            named = "" if self._device is None else f" {self._device!r}"
            raise SourceError(f"cannot record from the microphone{named}: {error}") from error
        return True

    def _open(self, sounddevice: Any) -> Any:
        options = {"channels": 1, "dtype": "int16", "device": self._device}
        try:
            return self._stream_at(sounddevice, RATE, options)
        except sounddevice.PortAudioError as error:
            if "sample rate" not in str(error).lower():
                raise
        found = sounddevice.query_devices(self._device, "input")
        self._rate = round(found["default_samplerate"])
        return self._stream_at(sounddevice, self._rate, options)

    def _stream_at(self, sounddevice: Any, rate: int, options: dict[str, Any]) -> Any:
        return sounddevice.RawInputStream(
            samplerate=rate,
            blocksize=rate // 50,
            callback=self._record,
            finished_callback=self._finish,
            **options,
        )

    def stop(self) -> None:
        """Close the device for good; what was recorded can still be read, then the source ends."""
        self._stopped = True
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __enter__(self) -> Microphone:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _record(self, data: Any, frames: int, when: Any, status: Any) -> None:
        """Called by PortAudio on its own thread: must not block."""
        try:
            self._blocks.put_nowait(bytes(data))
        except queue.Full:
            self._overflowed = True

    def _finish(self) -> None:
        """Called by PortAudio once the device is closed, or gone."""
        self._lost = not self._stopped

    def __iter__(self) -> Iterator[bytes]:
        if self._stopped and self._was_read:
            raise SourceError("the microphone was stopped, which is for good: take a new one")
        self._was_read = True
        self.start()
        wire = PcmConverter(self._rate)
        while True:
            if self._overflowed:
                raise SourceError("the microphone recorded faster than its audio was taken away")
            # Asked first: then all that was recorded is queued.
            is_closed, is_lost = self._stream is None, self._lost
            try:
                yield wire.pcm(self._blocks.get(timeout=0.0 if is_closed else 0.1))
            except queue.Empty:
                if is_lost:
                    raise SourceError("the microphone was unplugged or taken away") from None
                if is_closed:
                    yield wire.pcm(b"", last=True)
                    return


def input_devices() -> list[tuple[int, str, bool]]:
    """Number and name of everything that records, and whether it is the default. SourceError."""
    sounddevice = _sounddevice()
    default = sounddevice.default.device[0]
    return [
        (number, str(device["name"]), number == default)
        for number, device in enumerate(sounddevice.query_devices())
        if device["max_input_channels"] > 0
    ]


def require_microphone(device: str | int | None = None) -> None:
    """SourceError or NotInstalled, in words that help, if there is nothing to record with."""
    sounddevice = _sounddevice()
    try:
        sounddevice.query_devices(device, "input")
    except (sounddevice.PortAudioError, ValueError) as error:
        if device is not None and (found := input_devices()):
            names = ", ".join(f"{number} ({name})" for number, name, _ in found)
            raise SourceError(f"no microphone {device!r}; there are {names}") from error
        raise SourceError(
            "no microphone found: plug one in, or pipe sound in, as "
            "`ffmpeg -i SOURCE -f wav - | lookhear listen -`"
        ) from error


def _sounddevice() -> Any:
    try:
        import sounddevice  # optional, and it loads PortAudio: only when asked for
    except ImportError as error:
        raise NotInstalled('the microphone needs `pip install "lookhear[microphone]"`') from error
    except OSError as error:
        raise NotInstalled(
            "the microphone needs PortAudio (Debian, Ubuntu: `apt install libportaudio2`)"
        ) from error
    return sounddevice
