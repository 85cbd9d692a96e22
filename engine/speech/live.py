"""The live policy: one turn of speech, re-heard on each tick, committed by agreement.

Data flow: samples -> open segment -> tick (a request over the whole open segment, committed tokens
as forced prefix, the last hypothesis as draft) -> `Result` -> agreed words are committed ->
`TextCommitted`. A pause, or the cap on its length, closes the segment; then the next begins. What
was said before it stands in front of its audio (`EarlierSpeech`), or its text is the prompt. Pure:
no clock (time is counted in samples), no sockets, no tensors.

                 segment_start        tick_end       voiced_until      received
    |--- closed -----|------ heard -------|---- new speech ---|-- silence --|

Positions are absolute: samples since the turn began.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    SaidSegment,
    TextCommitted,
    TranscriptionSettings,
    TurnFailed,
    TurnSettled,
    TurnState,
)
from lookhear.engine.speech.audio_buffer import AudioBuffer
from lookhear.engine.speech.earlier import (
    NOTHING,
    Earlier,
    EarlierSegment,
    EarlierSpeech,
    SharedBeginning,
    said_place,
)
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Recognizer, Stretch, Tick
from lookhear.engine.speech.segment_text import SegmentText
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.text.evidence import Looks, num_heard, num_least, num_sure
from lookhear.engine.speech.text.hypothesis import Hypothesis, is_loop
from lookhear.engine.speech.text.sentences import without_signs
from lookhear.engine.speech.turn import Turn
from lookhear.engine.speech.turn_language import TurnLanguage
from lookhear.engine.speech.turn_text import TurnText


class LiveTurn(Turn):
    """One turn of one session. segment_start: position where the open segment begins."""

    def __init__(
        self,
        session: str,
        turn: str,
        settings: TranscriptionSettings,
        recognizer: Recognizer,
        config: LiveConfig,
        language: SessionLanguage | None = None,
        earlier: EarlierSpeech | None = None,
        *,
        resume: TurnState | None = None,
        tells_state: bool = False,
    ) -> None:
        """language, earlier: of the session. resume, tells_state: as in `StartTurn`."""
        self._session, self._turn = session, turn
        self._settings, self._config = settings, config
        self._recognizer, self._earlier = recognizer, earlier or EarlierSpeech()
        resume = resume or TurnState()
        self._language = TurnLanguage(
            language or SessionLanguage(), resume.heard, resume.language_checks
        )
        self._tells_state = tells_state
        # As the last state has it, and not told yet.
        self._told_start, self._said = resume.start, list[SaidSegment]()
        self._due = 0  # leading tokens that are said once the language was heard again
        self._shared = SharedBeginning()
        self._prompt = settings.prompt if config.echoes else ""
        self._text = TurnText(session, turn, settings, recognizer, resume)
        # From segment_start on, behind some silence: speech in the very first frame is misheard.
        self._audio = AudioBuffer(config.lead_in)
        self.segment_start = self.num_samples = resume.start
        self.voiced_until = resume.voiced_until
        self.has_ended = self.is_done = False
        self._in_flight: Tick | None = None
        self._tick_end = resume.start  # where the last tick's audio ended
        self._commit_end = resume.commit_end  # where the audio of the last committing tick ended
        self._hypothesis, self._looks = Hypothesis(), Looks()  # beyond the committed tokens
        num_lost = config.most_lost if resume.is_alone else 0
        self._segment = SegmentText(recognizer, resume.committed, resume.improbable, num_lost)
        self._closed = list(resume.closed)  # latest tokens of closed segments, for the prompt

    # --- input -----------------------------------------------------------------------------------

    def append(self, samples: NDArray[np.float32], voiced_until: int) -> None:
        """Add samples (mono, 16 kHz). voiced_until: as in `AppendAudio`."""
        assert not self.has_ended and not self.is_done
        was_silent, before = not self._has_voice(), self.num_samples
        self._audio.append(samples)
        self.num_samples += len(samples)
        self.voiced_until = max(self.voiced_until, min(voiced_until, self.num_samples))
        if was_silent and self._in_flight is None:
            # Silence in front only makes windows longer. Some is kept: the detector may be late.
            begin = min(before, voiced_until) - self._config.lead
            self._start_segment(begin if self._has_voice() else self.num_samples - self._config.cap)

    # --- requests --------------------------------------------------------------------------------

    def wants_request(self) -> bool:
        """Whether there is enough new audio for a tick, or a silence or the end to be heard."""
        if self.is_done or self._in_flight is not None:
            return False
        if self._is_heard():
            return self._text.language is not None and self._wants_language()
        if self.has_ended:
            return True
        is_due = self.num_samples - self._tick_end >= self._config.tick
        return self._has_voice() and (is_due or self._is_quiet() or self._due > 0)

    def _has_voice(self) -> bool:
        return self.voiced_until > self.segment_start

    def _is_quiet(self) -> bool:
        return self.num_samples >= self.voiced_until + self._config.tail

    def _is_heard(self) -> bool:
        """Whether the last tick heard all the speech so far, and the silence after it."""
        if self.has_ended and not self._has_voice():
            return True  # the detector heard nobody in what is left
        at_end = self.has_ended and self._tick_end >= self.num_samples
        return at_end or self._tick_end >= self.voiced_until + self._config.tail

    @property
    def is_urgent(self) -> bool:
        """Whether somebody has finished speaking."""
        return self.has_ended or self._is_quiet()

    def cost(self) -> Cost:
        """Of the next tick."""
        start, before = self.segment_start - self._config.lead_in, self._before()
        new, heard = self._shared.known(start, before)
        length = self._plan_end() - start
        if self.is_urgent or self._wants_language() or heard > length:  # more, before a cut
            heard = 0
        return self._recognizer.cost(start, length, len(self._segment.tokens), new, heard)

    def _before(self) -> Earlier:
        """What the next tick hears in front of the segment: before it is known to be in the same
        language, nothing, or what it is heard with for its language alone."""
        if self._segment.is_alone or self._wants_language():
            return self._joined()
        return self._earlier.before(self._known_language(), self._settings.task)

    def _known_language(self) -> str | None:
        """ISO code; None too where a checkpoint has just one."""
        return self._text.language or self._language.known()

    def _wants_language(self) -> bool:
        """Whether it is time to hear a turn for its language alone: by itself, since behind others
        it would sound like them, or, too short for that, together with them."""
        if self._settings.language or self._segment.is_alone:
            return False
        if self._text.language is not None:  # that stays so; but what follows should know
            heard, in_pause = self.voiced_until - self.segment_start, not self.has_ended
            return in_pause and self._is_heard() and self._language.is_doubted(heard)
        if self._joined().segments:
            return True
        known, heard = self._language.known(), self._plan_end() - self.segment_start
        if known is None or not self._earlier.before(known, self._settings.task).segments:
            return False
        checks, is_due = self._config.language_checks, self._due > 0
        return self._language.wants_check(heard, checks, is_urgent=self.is_urgent, is_due=is_due)

    def _joined(self) -> Earlier:
        """What a turn that is too short to tell its language is heard behind, for that alone."""
        earlier, heard = self._earlier.latest(), self.num_samples - self.segment_start
        is_over = self.is_urgent and not (self._is_heard() or self._segment.is_alone)
        is_wanted = is_over and self._language.wants_joined(earlier.num_samples, heard)
        return earlier if is_wanted else NOTHING

    def _plan_end(self) -> int:
        """Where the next tick's audio ends: all there is, or a quiet place if that is too much.
        Behind _commit_end a cut cannot repeat or lose committed words."""
        settled = self._commit_end - self.segment_start
        return self.segment_start + self._audio.cut(settled, self._config)

    def make_request(self) -> Any:
        """The next tick: the open segment up to now."""
        assert self._in_flight is None and not self.is_done
        end, start = self._plan_end(), self.segment_start - self._config.lead_in
        before, asks_language = self._before(), self._wants_language()
        tried = self._language.asked(self.is_urgent)
        language = self._known_language() if before.segments else tried or self._text.language
        is_whole = self.is_urgent or asks_language  # heard anew
        beginning = None if is_whole else self._shared.of(start, before, end - start)
        stretch = Stretch(
            key=f"{self._session}/{self._turn}",
            priority=Priority.LIVE,
            start=start,
            # Not copied: segments begin, and drop what was before them, only while no request runs.
            samples=self._audio.led(end - start),
            language=None if asks_language else language,
            committed=tuple(self._segment.tokens),
            draft=None if asks_language or tried or not self._config.draft else self._hypothesis,
            carried=() if self._segment.is_alone else tuple(self._closed),
            languages=self._language.prior(),
            before=before,
            beginning=beginning,
            voiced_from=self._config.lead_in,
            voiced_until=min(self.voiced_until, end) - start,
            asks_language=asks_language,
            is_open=not self.is_urgent,
            is_late=end - self._tick_end >= self._config.late * self._config.tick,
            at_least=0 if tried else self._num_least(end),
            prompt="" if asks_language or self._segment.is_alone else self._prompt,
            barred=self._segment.barred if self.is_urgent and not asks_language else None,
        )
        self._in_flight = Tick(stretch, end, is_cut=end < self.num_samples)
        return self._recognizer.request(stretch)

    def _num_least(self, end: int) -> int:
        spell, text, start = self._recognizer.token_bytes, self._segment.spelt, self.segment_start
        times = {"told": self._commit_end, "voiced": min(self.voiced_until, end)}
        times["long"], is_cut = self._config.stray, end < self.num_samples
        return num_least(self._looks, self._hypothesis, spell, text, start, **times, is_cut=is_cut)

    # --- results ---------------------------------------------------------------------------------

    def absorb(self, result: Result) -> list[Event]:
        """A tick has heard something: commit what will not change."""
        tick, self._in_flight = self._in_flight, None
        assert tick is not None
        result = self._segment.better(result, tick.stretch)
        new = self._recognizer.hypothesis(result, tick.stretch)
        if tick.stretch.asks_language:
            return [*self._check_language(new, tick), *self.settle(), *self._provisional()]
        if self._is_lost(new, tick.stretch, is_loop(result)):
            self._segment.lose(new, tick.stretch)
            return []  # the same is heard by itself
        if self._segment.hears_again(result, new, self._hypothesis, tick.stretch):
            return []  # the same, in another way
        self._segment.is_alone = self._segment.num_lost >= self._config.most_lost
        is_over = not (tick.stretch.is_open or tick.is_cut or self._text.language)
        best = self._language.hear(new, tick.end - self.segment_start, is_over=is_over)
        if best is None:
            return []  # the same is heard in another language
        self._tick_end, self._hypothesis, new = tick.end, best, best
        if tick.is_cut:
            spell, least = self._recognizer.token_bytes, self._config.improbable
            count = num_heard(new, self._looks, spell, tick.end, least=least)
            self._hypothesis = new.split(count)[0]
            return [*self._close(), *self.settle()]
        is_long = self.num_samples - self.segment_start > self._config.cap
        # What agrees with the look before because it was made to says nothing.
        is_held = (tick.stretch.is_open and new.is_endless) or tick.stretch.barred is not None
        num_final = 0 if is_long or is_held else self._num_final(new, tick)
        self._looks.add(tick.end, new, tick.end - self._config.oldest_look)
        self._due = num_final
        if not self._wants_language():  # that comes first, and then they are said
            self._due = 0
        return [*self._commit(num_final - self._due), *self.settle(), *self._provisional()]

    def _is_lost(self, new: Hypothesis, stretch: Stretch, repeats: bool) -> bool:
        """Whether what was said before did harm: the text was over with it, says it again, repeats
        itself, or is more than can be said. Of a few syllables that means nothing, while they
        become more."""
        if self.voiced_until - self.segment_start < self._config.stray and not self.is_urgent:
            return False
        unheard = self.voiced_until - max(self._commit_end, self.segment_start)
        return self._segment.is_lost(new, stretch, unheard, self._config, repeats=repeats)

    def _check_language(self, new: Hypothesis, tick: Tick) -> list[Event]:
        """A turn was heard for its language alone, by itself or with what was said before it."""
        before, due, self._due = self._known_language(), self._due, 0
        self._language.check(new, tick.end - self.segment_start, tick.stretch.before.num_samples)
        if self._known_language() != before:
            self._hypothesis = Hypothesis()
            self._looks.clear()
            return []
        return self._commit(due)

    def _num_final(self, new: Hypothesis, tick: Tick) -> int:
        """Leading tokens of the new hypothesis that will not change any more."""
        config = self._config
        # From a few syllables a model makes up whole sentences, and may do so twice alike.
        is_own = self._text.language is not None or self._language.is_of(new, tick.stretch)
        if tick.end - self.segment_start < config.warm_up or not is_own:
            return 0
        is_quiet = tick.end >= self.voiced_until + config.tail
        spell, stretch, latest = self._recognizer.token_bytes, tick.stretch, self._earlier.latest()
        most = self._segment.num_told(new.tokens, stretch, latest, is_over=is_quiet)
        return num_sure(new, self._looks, config, spell, end=tick.end, is_quiet=is_quiet, most=most)

    def settle(self) -> list[Event]:
        """Close what is complete: the turn at its end, the segment at a pause."""
        if self.is_done or self._in_flight is not None or not self._is_heard():
            return []
        if self.has_ended:
            events = [*self._close(), *self._provisional()]
            self.is_done = True
            self._language.conclude()
            if rest := self._text.flush():
                events += self._told(rest)
            state = self._state() if self._tells_state else None
            return [*events, self._text.completed(self.num_samples, state)]
        silence = self.num_samples - self.voiced_until
        length = self.voiced_until - self.segment_start
        if self._has_voice():
            ends = self._text.end_probability(self._hypothesis)
            if self._config.is_complete(length, silence, ends):
                return [*self._close(), *self._provisional()]
            words = without_signs(self._hypothesis.tokens, self._recognizer.token_bytes)
            if words and silence >= self._config.pause:
                return [*self._commit(words), *self._provisional()]
        is_far = self.segment_start - self._told_start >= SAMPLE_RATE
        return self._told([]) if is_far else []  # so much silence is not needed any more

    def fail(self, code: str, message: str) -> list[Event]:
        """The turn is over."""
        self.is_done = True
        return [TurnFailed(self._session, self._turn, code, message)]

    def _close(self) -> list[Event]:
        """Commit all that the last tick heard, and begin the next segment where its audio ended."""
        events = self._commit(len(self._hypothesis.tokens))
        self._leave()
        carried = self._recognizer.max_carried
        self._closed = (self._closed + self._segment.tokens)[-carried:] if carried else []
        self._segment, self._hypothesis = SegmentText(self._recognizer), Hypothesis()
        self._looks.clear()
        self._text.end_segment()
        self._start_segment(self._tick_end)
        return [*events, *self._told([])]

    def _leave(self) -> None:
        """The segment, said for good, to those that follow."""
        if not self._earlier.is_kept:
            return
        language, task = self._text.language, self._settings.task
        where = said_place(self.segment_start, self._tick_end, self.voiced_until, self._config)
        said = SaidSegment(*where, self._segment.probable(language), language, task)
        if self._earlier.add(EarlierSegment.of(said, self._audio.samples[: said.end - said.begin])):
            self._said.append(said)

    def _start_segment(self, position: int) -> None:
        position = min(max(position, self.segment_start), self.num_samples)
        self._audio.drop(position - self.segment_start)
        self.segment_start = position
        self._tick_end = max(self._tick_end, position)

    def _commit(self, count: int) -> list[Event]:
        """Say the first count tokens of the hypothesis for good."""
        said, self._hypothesis = self._hypothesis.split(count)
        if not said.tokens:
            return []
        self._looks.commit(said.tokens, self._recognizer.token_bytes)
        self._language.say(said.logprobs)
        self._commit_end = self._tick_end
        self._segment.add(said, self._config.improbable)
        end = max(0, self.voiced_until + self._config.tail - self.segment_start)
        return self._told(self._text.commit(said, self._audio.samples[:end], self.segment_start))

    def _told(self, said: list[TextCommitted]) -> list[Event]:
        """With what is settled now, for an engine that would have to go on."""
        if not self._tells_state:
            return [*said]
        state = self._state()
        self._told_start, self._said = self.segment_start, []
        if not said:
            return [TurnSettled(self._session, self._turn, state)]
        return [*said[:-1], replace(said[-1], state=state)]

    def _state(self) -> TurnState:
        session = self._language.session
        return replace(
            self._text.state(),
            start=self.segment_start,
            voiced_until=min(self.voiced_until, self.segment_start),
            commit_end=self._commit_end,
            committed=list(self._segment.tokens),
            improbable=list(self._segment.improbable),
            closed=list(self._closed),
            heard=dict(self._language.heard),
            language_checks=self._language.checks,
            is_alone=self._segment.num_lost >= self._config.most_lost,
            said=self._said,
            num_earlier=self._earlier.num_segments,
            belief=dict(session.belief) if self.is_done else None,
            spoken=dict(session.spoken) if self.is_done else None,
            is_solid=session.is_solid,
        )

    def _provisional(self) -> list[Event]:
        return [] if self.is_done else self._text.provisional(self._hypothesis, self._tick_end)
