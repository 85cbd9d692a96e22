"""Takes the messages of a model that transcribes: turns of live speakers, and files. Pure."""

from __future__ import annotations

from lookhear.engine.admission.admission import Admission
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.desks import refused
from lookhear.engine.core.request import Priority
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelFile,
    CancelTurn,
    EndTurn,
    Event,
    ExpectSpeech,
    FileFailed,
    Message,
    RecallLanguage,
    RecallSegment,
    StartTurn,
    TranscribeFile,
    TurnFailed,
)
from lookhear.engine.speech.earlier import EarlierSegment
from lookhear.engine.speech.sections import SIDE_BY_SIDE, LongFile, sections_of
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.speaker import Speaker
from lookhear.engine.speech.transcriber import Transcriber, settings_error, too_long
from lookhear.engine.speech.turn import Turn

# What it takes, of a model that does more.
SPEECH_MESSAGES: tuple[type, ...] = (
    AppendAudio,
    CancelFile,
    CancelTurn,
    EndTurn,
    ExpectSpeech,
    RecallLanguage,
    RecallSegment,
    StartTurn,
    TranscribeFile,
)


class SpeechDesk:
    """name: the model's on the wire. max_live_turns: open turns over all sessions. admission: who
    may begin to speak; None: everybody."""

    def __init__(
        self,
        name: str,
        family: Transcriber,
        max_live_turns: int,
        admission: Admission | None = None,
    ) -> None:
        self._name = name
        self._admission = admission
        self._family = family
        self._max_samples = family.max_samples
        self._max_live_turns = max_live_turns
        self._speakers: dict[str, Speaker] = {}
        self._files: dict[str, LongFile] = {}  # those in sections, each of which is an owner

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        match message:
            case StartTurn():
                return self._start_turn(message, core)
            case AppendAudio():
                return self._append(message, core)
            case EndTurn(session, turn):
                key = _key(session, turn)
                if (live := self._turn(session, key)) is None:
                    return []
                live.end()
                return self._settled(key, live, core)
            case CancelTurn(session, turn):
                key = _key(session, turn)
                if core.owner(key) is not None:
                    self._speaker(session).earlier.take_back()
                self._drop(session, key, core)
            case TranscribeFile():
                return self._start_file(message, core)
            case CancelFile(request):
                self._cancel_file(request, core)
            case ExpectSpeech(session) if self._admission is not None:
                self._admission.enter(session)
            case RecallLanguage(session, candidates, belief, spoken, is_solid):
                known = SessionLanguage(candidates, belief, spoken, is_solid=is_solid)
                self._speaker(session).recall(known)
            case RecallSegment(session, said, samples):
                self._speaker(session).earlier.add(EarlierSegment.of(said, samples))
            case _:
                return refused(message, f"{self._name} transcribes")
        return []

    def close(self, session: str) -> None:
        """See `Desk`."""
        self._speakers.pop(session, None)
        if self._admission is not None:
            self._admission.leave(session)

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """See `Desk`: the session's next turn is heard; or more of a file, as if it were one."""
        if (file := self._files.get(session)) is not None:
            return self._go_on(session, file, core)
        speaker = self._speakers.get(session)
        if speaker is None or speaker.turn(key) is None:
            return []
        speaker.remove(key)
        return self._listen(session, speaker, core)

    def stats(self, core: EngineCore) -> dict[str, int]:
        """Turns that are open."""
        return {"live_turns": core.count(Turn)}

    def _start_turn(self, message: StartTurn, core: EngineCore) -> list[Event]:
        session, turn = message.session, message.turn
        key = _key(session, turn)
        speaker = self._speaker(session)
        if speaker.turn(key) is not None:
            text = f"turn: expected a new name, {turn!r} is open already"
            return [TurnFailed(session, turn, "duplicate_turn", text)]
        error = settings_error(self._family, self._name, message.settings)
        is_one_more = speaker.head is None
        # Who was let in once goes on, however many are here.
        if message.resume is None and error is None:
            if is_one_more and core.count(Turn) >= self._max_live_turns:
                error = (
                    "too_many_turns",
                    f"this engine listens to {self._max_live_turns} speakers at once;"
                    " all are taken",
                )
            error = error or self._let_in(session)
        if error is not None:
            return [TurnFailed(session, turn, *error)]
        language = speaker.language(message.settings.languages)
        live = self._family.start_turn(message, language, speaker.earlier)
        speaker.add(key, live)
        self._make_room(core)
        num_own = message.resume.num_own if message.resume else 0
        return self._listen(session, speaker, core, num_own) if is_one_more else []

    def _speaker(self, session: str) -> Speaker:
        speaker = self._speakers.get(session)
        if speaker is None:
            speaker = self._speakers[session] = Speaker(self._family.earlier.begin())
        return speaker

    def _let_in(self, session: str) -> tuple[str, str] | None:
        """Give the session a place, if it has none; or (code, message) why it cannot be."""
        admission = self._admission
        if admission is None or admission.has(session):
            return None
        if (refusal := admission.refusal()) is not None:
            return "too_many_speakers", refusal
        admission.enter(session)
        return None

    def _listen(
        self, session: str, speaker: Speaker, core: EngineCore, num_own: int = 0
    ) -> list[Event]:
        """To the turn that is next, with all that came of it while it waited. num_own: as in
        `TurnState`."""
        if speaker.head is None:
            return []
        key, live = speaker.head
        speaker.earlier.begin_turn(num_own)
        core.add(key, Priority.LIVE, live, session)
        return self._settled(key, live, core)

    def _settled(self, key: str, live: Turn, core: EngineCore) -> list[Event]:
        """What needs no request, once the turn's time has come."""
        if core.owner(key) is None:
            return []
        events = live.settle()
        core.drop_if_done(key)
        return events

    def _append(self, message: AppendAudio, core: EngineCore) -> list[Event]:
        key = _key(message.session, message.turn)
        live = self._turn(message.session, key)
        if live is None or live.has_ended:
            return []  # failed, cancelled or over; the gateway may not have heard of it yet
        limit = self._max_samples
        if live.num_samples + len(message.samples) > limit:
            seconds = limit // SAMPLE_RATE
            text = f"the turn is longer than {seconds} s; commit it in shorter pieces"
            events = live.fail("audio_too_long", text)
            self._drop(message.session, key, core)
            return events
        before = live.voiced_until
        live.append(message.samples, message.voiced_until)
        if self._admission is not None:
            self._admission.heard(message.session, live.voiced_until - before)
        return self._settled(key, live, core)

    def _drop(self, session: str, key: str, core: EngineCore) -> None:
        """A turn that is heard, or waits."""
        if core.owner(key) is not None:
            core.drop(key)
        elif session in self._speakers:
            self._speakers[session].remove(key)

    def _turn(self, session: str, key: str) -> Turn | None:
        speaker = self._speakers.get(session)
        return None if speaker is None else speaker.turn(key)

    def _start_file(self, message: TranscribeFile, core: EngineCore) -> list[Event]:
        error = settings_error(self._family, self._name, message.settings)
        is_known = message.request in self._files or core.owner(message.request) is not None
        if error is None and is_known:
            error = ("duplicate_request", f"request: {message.request!r} is running already")
        error = error or too_long(len(message.samples), self._family.max_samples)
        if error is not None:
            return [FileFailed(message.request, *error)]
        job = self._family.start_file(message)
        sections = sections_of(job)
        if len(sections) > 1:
            detects = bool(self._family.languages) and message.settings.language is None
            file = LongFile(message, sections, self._family.start_file, detects=detects)
            self._files[message.request] = file
            return self._go_on(message.request, file, core)
        core.add(message.request, Priority.BATCH, job)
        events = job.settle()
        core.drop_if_done(message.request)
        return events

    def _go_on(self, request: str, file: LongFile, core: EngineCore) -> list[Event]:
        """Sections that are heard next. While there is anybody who speaks it is one at a time: each
        has the encoder read a window, which ticks wait for."""
        if file.is_done:
            self._cancel_file(request, core)
            return []
        for owner in file.begin(1 if self._speakers else SIDE_BY_SIDE):
            core.add(owner.key, Priority.BATCH, owner, request)
        for owner in file.next():
            core.changed(owner.key)
        return []

    def _make_room(self, core: EngineCore) -> None:
        """Somebody speaks."""
        for file in self._files.values():
            for owner in file.narrow():
                core.changed(owner.key)

    def _cancel_file(self, request: str, core: EngineCore) -> None:
        """With all its sections, or the one owner that it is."""
        if self._files.pop(request, None) is None:
            core.drop(request)
        else:
            core.drop_session(request)


def _key(session: str, turn: str) -> str:
    return f"{session}/{turn}"
