"""What a client of Deepgram's API asks for in the query of its URL.

What cannot be had here and would change the answer is refused by name; what only touches up its
text (smart_format, numerals, profanity_filter, ...) is the model's own business, and is taken
without an effect: a header names it, as it does what nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from starlette.datastructures import QueryParams

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, shown, wrong
from lookhear.gateway.checks.languages import language_code
from lookhear.gateway.checks.models import check_language, find_model, speech_models
from lookhear.gateway.checks.unread import MOST, NAME
from lookhear.media.audio.pcm import AudioFormat, AudioFormatError, Packing

MAX_KEYTERMS, MAX_KEYTERM = 100, 100  # of them, and characters of one
MAX_CHANNELS = 16  # of raw audio, and of a recording that are heard one by one
MAX_DIGITS = 9  # of a whole number
SPLIT = 0.8  # seconds of a pause that parts utterances
MULTI = "multi"  # the language of who changes it
ENCODINGS = {"linear16": "audio/pcm", "mulaw": "audio/pcmu", "alaw": "audio/pcma"}
CONTAINERS = ("flac", "ogg-opus")  # that have a name among encodings; the others have none
# Asks for something else than what comes; what is expected instead.
REFUSED = {
    "callback": "none, answers come on the connection that asks",
    "detect_entities": "false, no served model finds entities",
    "diarize": "false, speakers are not told apart here",
    "diarize_model": "none, there is no choice of them",
    "dictation": "false, what is said is written as it is said",
    "multichannel": "false, or raw audio of 1 to 16 channels",
    "intents": "false, no served model finds intents",
    "redact": "none, nothing that is said is left out",
    "replace": "none, what is said is written as it is said",
    "search": "none, there is no search in what is said",
    "sentiment": "false, no served model finds sentiments",
    "summarize": "false, transcripts are not summarized",
    "topics": "false, no served model finds topics",
}
# Is no matter of the text, or as it is asked for.
HARMLESS = ("tag", "extra", "mip_opt_out", "version", "callback_method", "no_delay", "punctuate")
_FALSE, _TRUE = ("", "false", "0"), ("true", "1")
_BOOST = re.compile(r":(-?\d+(?:\.\d+)?)$")  # behind one of `keywords`


@dataclass(frozen=True, slots=True)
class Options:
    """model: as the client calls it. language: ISO code; None: it is detected. hints: of the only
    languages that may be; hinted: the parameter that says them. tells_language: it wants to know
    which it was."""

    model: str | None
    language: str | None
    hints: tuple[str, ...]
    hinted: str
    tells_language: bool
    keyterms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveOptions(Options):
    """audio: how it comes. endpointing: milliseconds of silence that end what is said, None: as
    many as usual. ends_speech: the client wants to know of these ends. utterance_end: milliseconds
    of silence after which it is told of it, None: it is not. diarise: who says each word is wanted,
    too. ignored: names of what is asked for besides, without an effect."""

    audio: AudioFormat | Packing
    interim: bool
    endpointing: int | None
    ends_speech: bool
    utterance_end: int | None
    vad_events: bool
    diarise: bool
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileOptions(Options):
    """format: of samples that come without a header, or what is wrong with it, which is nothing to
    a file that says itself; None: only such a file can be read. utterances: parts between pauses of
    `split` seconds are wanted, too. diarise: so is who speaks. paragraphs: so are these.
    multichannel: each channel is heard by itself. ignored: as in `LiveOptions`."""

    format: AudioFormat | ProtocolError | None
    utterances: bool
    split: float
    diarise: bool
    paragraphs: bool
    multichannel: bool
    ignored: tuple[str, ...]


class Query:
    """The parameters of one request. Each method raises ProtocolError, naming the parameter."""

    def __init__(self, params: QueryParams) -> None:
        self._params = params
        self._read = set(HARMLESS)

    def text(self, name: str) -> str | None:
        """The last one of the name; None if it is missing or empty."""
        self._read.add(name)
        return self._params.get(name) or None

    def flag(self, name: str) -> bool:
        """False if it is missing."""
        given = (self.text(name) or "").lower()
        if given not in (*_TRUE, *_FALSE):
            raise wrong(name, "true or false", shown(given))
        return given in _TRUE

    def whole(self, name: str, low: int, high: int) -> int | None:
        """None if it is missing."""
        given = self.text(name)
        if given is None:
            return None
        is_number = given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS
        if not is_number or not low <= int(given) <= high:
            raise wrong(name, f"a whole number from {low} to {high}", shown(given))
        return int(given)

    def seconds(self, name: str, default: float) -> float:
        """From 0 to 60."""
        given = self.text(name)
        try:
            seconds = default if given is None else float(given)
        except ValueError:
            seconds = -1.0
        if not 0.0 <= seconds <= 60.0:
            raise wrong(name, "seconds from 0 to 60", shown(given))
        return seconds

    def all(self, name: str) -> list[str]:
        """Every one of the name, without the empty ones."""
        self._read.add(name)
        return [value for value in self._params.getlist(name) if value]

    def ignored(self, *read: str) -> tuple[str, ...]:
        """Names of what is asked for and was not read. read: what somebody else does."""
        given = self._params.multi_items()
        asked = dict.fromkeys(name for name, value in given if value.lower() not in _FALSE)
        names = (name for name in asked if NAME.fullmatch(name))
        return tuple(islice((n for n in names if n not in self._read and n not in read), MOST))

    def check_refused(self, *taken: str) -> None:
        """Nothing is asked for that cannot be had. taken: what can be had, after all."""
        for name, expected in REFUSED.items():
            if name in taken:
                continue
            for value in self.all(name):
                if value.lower() not in _FALSE:
                    raise wrong(name, expected, shown(value), "unsupported_parameter")
        most = self.whole("alternatives", 0, 1000)
        if most is not None and most > 1:
            raise wrong("alternatives", "1", str(most), "unsupported_parameter")

    def options(self, *taken: str) -> Options:
        """What live speech and recordings have in common. taken: see `check_refused`."""
        self.check_refused(*taken)
        language, detects = self.text("language"), self.all("detect_language")
        among = [each for each in detects if each.lower() not in (*_TRUE, *_FALSE)]
        is_open = bool(among) or self.flag("detect_language") or language == MULTI
        hinted, hints = "language_hint", self.all("language_hint")
        if among:
            hinted, hints = "detect_language", among
        elif language != MULTI:
            hints = []
        return Options(
            model=self.text("model"),
            language=None if is_open else language_code(language),
            hints=tuple(dict.fromkeys(filter(None, map(language_code, hints)))),
            hinted=hinted,
            tells_language=is_open,
            keyterms=checked_keyterms([*self.all("keyterm"), *map(_keyword, self.all("keywords"))]),
        )


def listener(options: Options, models: Sequence[ModelCard]) -> ModelCard:
    """The model that is to hear it, in the language that is asked for. Raises ProtocolError."""
    speech = speech_models(models)
    if not speech:
        what = "model: expected a server that transcribes, no model of this one does"
        raise ProtocolError(what, code="unsupported_parameter", param="model")
    card = speech[0]
    if options.model is not None:
        card = find_model(options.model, models, "model", "transcribe")
    if options.language is not None:
        check_language(options.language, card, "language")
    for hint in options.hints:
        check_language(hint, card, options.hinted)
    return card


def live_options(params: QueryParams, *, diarises: bool = False) -> LiveOptions:
    """What a live connection asks for. diarises: as in `file_options`. Raises ProtocolError."""
    query = Query(params)
    asked = query.options(*(("diarize",) if diarises else ()))
    ends_speech = (query.text("endpointing") or "").lower() != "false"
    return LiveOptions(
        model=asked.model,
        language=asked.language,
        hints=asked.hints,
        hinted=asked.hinted,
        tells_language=asked.tells_language,
        keyterms=asked.keyterms,
        audio=live_audio(query),
        interim=query.flag("interim_results"),
        endpointing=_endpointing(query) if ends_speech else None,
        ends_speech=ends_speech,
        utterance_end=query.whole("utterance_end_ms", 1, 60_000),
        vad_events=query.flag("vad_events"),
        diarise=query.flag("diarize"),
        ignored=query.ignored(),  # of what has been read until here
    )


def file_options(params: QueryParams, *, diarises: bool) -> FileOptions:
    """What a request with a recording asks for. diarises: somebody here tells speakers apart.
    Raises ProtocolError."""
    query = Query(params)
    asked = query.options("multichannel", *(("diarize",) if diarises else ()))
    is_smart = query.flag("smart_format")  # of what it does, this is had
    return FileOptions(
        model=asked.model,
        language=asked.language,
        hints=asked.hints,
        hinted=asked.hinted,
        tells_language=asked.tells_language,
        keyterms=asked.keyterms,
        format=_file_format(query),
        utterances=query.flag("utterances"),
        split=query.seconds("utt_split", SPLIT),
        diarise=query.flag("diarize"),
        paragraphs=query.flag("paragraphs") or is_smart,
        multichannel=query.flag("multichannel"),
        ignored=query.ignored(),  # of what has been read until here
    )


def checked_keyterms(
    terms: list[str], name: str = "keyterm", code: str = "invalid_value"
) -> tuple[str, ...]:
    """Without repetitions, if they are not too many or too long. Raises ProtocolError."""
    unique = tuple(dict.fromkeys(term.strip() for term in terms if term.strip()))
    if len(unique) > MAX_KEYTERMS:
        raise wrong(name, f"at most {MAX_KEYTERMS} of them", str(len(unique)), code)
    for term in unique:
        if len(term) > MAX_KEYTERM:
            raise wrong(name, f"at most {MAX_KEYTERM} characters", shown(term), code)
    return unique


def _keyword(given: str) -> str:
    """A word without how much it is wanted, which no model here knows."""
    boost = _BOOST.search(given)
    if boost is None:
        return given
    if boost[1].startswith("-"):
        raise wrong("keywords", "words that are wanted", shown(given), "unsupported_parameter")
    return given[: boost.start()]


def _endpointing(query: Query) -> int | None:
    if (query.text("endpointing") or "").lower() == "true":
        return None
    try:
        return query.whole("endpointing", 0, 60_000)
    except ProtocolError:
        expected = "false, or milliseconds from 0 to 60000"
        raise wrong("endpointing", expected, shown(query.text("endpointing"))) from None


def live_audio(query: Query) -> AudioFormat | Packing:
    """How it comes. Raises ProtocolError."""
    return "opus" if query.text("encoding") == "opus" else raw_format(query) or "container"


def _file_format(query: Query) -> AudioFormat | ProtocolError | None:
    try:
        return raw_format(query)
    except ProtocolError as problem:
        return problem


def raw_format(query: Query) -> AudioFormat | None:
    """Of samples without a header; None: a container says itself. Raises ProtocolError."""
    name, channels = query.text("encoding"), query.whole("channels", 1, MAX_CHANNELS)
    if name is None or name in CONTAINERS:
        return None
    kind = ENCODINGS.get(name)
    if kind is None:
        known = ", ".join((*ENCODINGS, *CONTAINERS))
        expected = f"one of {known}, or none for a container such as WebM or Ogg"
        raise wrong("encoding", expected, shown(name), "unsupported_parameter")
    if query.text("sample_rate") is None:
        raise wrong("sample_rate", "samples per second with an encoding", "nothing")
    try:
        format = AudioFormat.parse(kind, query.whole("sample_rate", 0, 1_000_000))
    except AudioFormatError as error:
        raise wrong("sample_rate", error.expected, shown(error.got)) from None
    return replace(format, channels=channels or 1)
