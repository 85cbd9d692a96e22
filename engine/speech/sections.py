"""A long recording in sections, heard side by side: their texts are put in order. Pure.

One piece of a recording after another feeds a model one row at a time, and most of a decoder's pass
is waiting for its weights. So what is longer than a few minutes is cut in pauses into sections of
some pieces each, and those are owners of their own: each piece but the first of its section has the
text before it for a prompt, and the passes are shared. The first section is a single piece, heard
alone: its text is there soon, and so is the language, in which the others are heard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    FileFailed,
    FileProgress,
    TranscribeFile,
)
from lookhear.engine.speech.file import FileTranscription, Heard, Section

LONG = 180 * SAMPLE_RATE  # samples, less long pauses, from which on a recording is cut
LEAST = 60 * SAMPLE_RATE  # of a section, but for the first
SIDE_BY_SIDE = 8  # sections of a recording at once

StartSection = Callable[[TranscribeFile, Section], FileTranscription]


def sections_of(file: FileTranscription) -> Sequence[Section]:
    """Those that a recording is to be heard in; a short one is whole."""
    [*found] = file.sections(LEAST)
    return found if found[-1].end >= LONG else [Section(found[0].audio, 0, found[-1].end)]


class SectionOwner:
    """Hears a section; satisfies `Owner`. key: of the owner."""

    is_urgent = False

    def __init__(self, file: LongFile, key: str, job: FileTranscription) -> None:
        self.key = key
        self.job = job
        self._file = file
        self.is_done = False

    def wants_request(self) -> bool:
        """Whether there is more of it to hear, nothing in flight, and it is its turn."""
        return not self.is_done and self.job.wants_request() and self in self._file.next()

    def cost(self) -> Cost:
        """Of the next piece."""
        return self.job.cost()

    def make_request(self) -> Any:
        """About the next piece."""
        return self.job.make_request()

    def absorb(self, result: Result) -> list[Event]:
        """Tells what is new of the whole recording, in order."""
        self.job.take(result)
        return self.settle()

    def settle(self) -> list[Event]:
        """The same, if a piece was heard or none is left."""
        self.is_done = self.job.is_heard
        return self._file.settle()

    def fail(self, code: str, message: str) -> list[Event]:
        """Ends the whole recording."""
        self.is_done = True
        return self._file.fail(code, message)


class LongFile:
    """Turns `TranscribeFile` into `FileProgress`* and `FileTranscribed`, as a `FileTranscription`
    does. sections: of the recording, in order. start: who hears one of them. detects: whether
    the language is to be found."""

    def __init__(
        self,
        message: TranscribeFile,
        sections: Sequence[Section],
        start: StartSection,
        *,
        detects: bool,
    ) -> None:
        self._message = message
        self._sections = sections
        self._start = start
        self._detects = detects
        self._language = message.settings.language or message.language_before
        self._begun: list[SectionOwner] = []
        self._told = 0  # sections of which all was told
        self._told_segments = 0  # of the section behind those
        self._seconds = 0.0
        self._heard = Heard()  # of those sections
        self._side_by_side = 1
        self.is_done = False

    def next(self) -> list[SectionOwner]:
        """Those that may be heard now; others wait, though they have begun."""
        return self._open()[: self._side_by_side]

    def _open(self) -> list[SectionOwner]:
        return [owner for owner in self._begun[self._told :] if not owner.is_done]

    def narrow(self) -> list[SectionOwner]:
        """From now on one at a time, when what is in flight is heard. Returns all that have begun:
        the core is to look at them again."""
        self._side_by_side = 1
        return self._open()

    def begin(self, most: int) -> list[SectionOwner]:
        """Sections to be heard from now on, for the desk to make owners of. most: at once; those
        that have begun may go on, so the core is to look at them again."""
        if not self._begun or (self._detects and self._language is None):
            most = 1  # the first one alone, and so on until somebody is heard
        self._side_by_side = most
        first = len(self._begun)
        count = 0 if self.is_done else max(0, most - len(self._open()))
        for number, section in enumerate(self._sections[first : first + count], first):
            key = f"{self._message.request}/{number}"
            section = section._replace(language=self._language)
            job = self._start(replace(self._message, request=key), section)
            self._begun.append(SectionOwner(self, key, job))
        return self._begun[first:]

    def settle(self) -> list[Event]:
        """What is new: the text as far as it was heard without a gap, and the answer behind it."""
        if self.is_done:
            return []
        new, seconds = [], self._seconds
        while self._told < len(self._begun):
            job = self._begun[self._told].job
            self._language = self._language or job.language
            new += job.heard.segments[self._told_segments :]
            self._told_segments = len(job.heard.segments)
            seconds = job.seconds
            if not job.is_heard:
                break
            self._heard.add(job.heard)
            self._told, self._told_segments = self._told + 1, 0
        events: list[Event] = []
        if self._message.tells_progress and seconds > self._seconds:
            duration = len(self._message.samples) / SAMPLE_RATE
            events.append(FileProgress(self._message.request, new, seconds, duration))
        self._seconds = seconds
        if self._told == len(self._sections):
            self.is_done = True
            events.append(self._heard.answer(self._message, self._language))
        return events

    def fail(self, code: str, message: str) -> list[Event]:
        """A section of it could not be heard."""
        self.is_done = True
        return [FileFailed(self._message.request, code, message)]
