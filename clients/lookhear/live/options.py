"""What a live transcription is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from lookhear.live.turns import ServerVad
from lookhear.sources.files import require_list
from lookhear.sources.pcm import RATE
from lookhear.transport.realtime import without_none


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the session asks for, and the client's own bounds (seconds)."""

    model: str | None = None  # None: the server's first that transcribes
    language: str | None = None  # a code such as "en"; None: found by the model
    prompt: str | None = None  # what the speech is about
    keywords: Sequence[str] = ()  # names and terms that are heard more readily
    delay: str | None = None  # how long text waits to be surer, "minimal" to "xhigh"
    near_field: bool = False  # who is much further from the microphone begins no turn
    turn_detection: ServerVad | None = ServerVad()  # None: the whole source is one turn
    provisional: bool = False  # ask for text that may still change, too
    words: bool = False  # ask for the times of words, too
    speakers: bool = False  # ask for who says them, too, and what of each turn
    pace: float | None = None  # 1.0: as fast as it would be spoken; None: as the server takes it
    rate: int | None = None  # samples per second of a source that does not say it
    replay_seconds: float = 300.0  # of audio kept for a reconnect; a longer turn loses its start
    # Of audio read from the source and not yet sent; while the server is away, `replay_seconds`.
    ahead_seconds: float = 30.0
    answer_seconds: float = 60.0  # the server may be silent this long after the source has ended
    steady_seconds: float = 10.0  # a connection that lived so long resets the count of tries

    def __post_init__(self) -> None:
        require_list("keywords", self.keywords)

    def session_update(self) -> dict[str, Any]:
        """The client event that asks for this session."""
        transcription = without_none(
            model=self.model,
            language=self.language,
            prompt=self.prompt,
            keywords=list(self.keywords) or None,
            delay=self.delay,
        )
        audio: dict[str, Any] = {
            "format": {"type": "audio/pcm", "rate": RATE},
            "transcription": transcription,
            "turn_detection": self.turn_detection and self.turn_detection.payload(),
        }
        if self.near_field:
            audio["noise_reduction"] = {"type": "near_field"}
        session: dict[str, Any] = {"type": "transcription", "audio": {"input": audio}}
        extensions = {name: getattr(self, name) for name in ("provisional", "words")}
        if self.speakers:  # a server of before knows nothing of it
            extensions["speakers"] = True
        if any(extensions.values()):
            session["lookhear"] = extensions
        return {"type": "session.update", "session": session}


class TranscribeOptions(TypedDict, total=False):
    """Those of `StreamOptions` that are `AsyncClient.transcribe`'s."""

    rate: int | None
    model: str | None
    language: str | None
    prompt: str | None
    keywords: Sequence[str]
    delay: str | None
    near_field: bool
    turn_detection: ServerVad | None
    provisional: bool
    words: bool
    speakers: bool
    pace: float | None
    replay_seconds: float
