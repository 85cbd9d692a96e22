"""Whether expected words are heard, and no other word suffers: `python -m benchmarks.keywords`.

Rare names, each in a sentence of its own, spoken by flite and espeak-ng in voices in which tiny.en
hears at least 14 of 15 words of the same sentences about Peter, Maria, Anderson, London and Boston;
every name of the half is expected in every recording, so all but one are wrong each time. And
recordings of people that hold none of them (--human): whatever name is written there was made up.

`chosen by` is the half by which the strength was chosen, `held out` the other. --live hears the
same as turns of a session, tick by tick.

A demo checkpoint knows no word but its own: it is asked about those of its names, in its own
sentences, by voices that it has learnt. Without --noise it hears them all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import soundfile
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from lookhear.bench import machine
from lookhear.bench.numbers import Json
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    FileFailed,
    FileTranscribed,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
)
from lookhear.engine.sampling import expected as expected_words
from lookhear.media.audio.resample import resample
from lookhear.wer import WordErrors, align, normalise

Samples = NDArray[np.float32]
NAMES = {
    "chosen by": (
        "Szczepanski Wojciechowski Bhattacharya Okonkwo Tshabalala Nguyen Kowalczyk Xiaoming "
        "Saoirse Aoife Caoimhe Niamh Siobhan Eilidh Llewellyn Myfanwy Gwenllian Ystradgynlais "
        "Aberystwyth Llanelli Zbigniew Przemysl Bydgoszcz Rzeszow Hrvatin Krzysztof Dvorak "
        "Smetana Janacek Martinu Yamashita Kobayashi Takahashi Watanabe Nakagawa Shibasaki "
        "Adebayo Chukwuemeka Oluwaseun Ngozi Kgalema Mbeki Ramaphosa Quetzalcoatl Xochitl "
        "Popocatepetl Tlaxcala Zacatecas Chihuahua Guanajuato"
    ).split(),
    "held out": (
        "Mickiewicz Lewandowski Chattopadhyay Achebe Madikizela Tranh Piotrowski Zhongwei "
        "Oisin Padraig Sinead Diarmuid Ruaridh Fearghas Angharad Rhiannon Blodwen Pwllheli "
        "Caernarfon Machynlleth Kazimierz Szczecin Katowice Czestochowa Kovacevic Jaroslaw "
        "Hrabal Seifert Nezval Zelenka Hasegawa Matsumoto Fujiwara Ishikawa Murakami Akutagawa "
        "Olumide Nnamdi Babatunde Chiamaka Motlanthe Sisulu Mogoeng Huitzilopochtli Citlali "
        "Iztaccihuatl Michoacan Oaxaca Coahuila Queretaro"
    ).split(),
}
SENTENCES = {
    "en": (
        "yesterday I spoke to {} about the new contract",
        "please send the letter to {} before Friday",
        "the meeting with {} was moved to the afternoon",
        "did you know that {} is closed in winter",
        "my neighbour wants to drive to {} tomorrow morning",
    ),
    "es": (
        "ayer hablé con {} sobre el nuevo contrato",
        "por favor envía la carta a {} antes del viernes",
        "la reunión con {} se cambió para la tarde",
        "sabías que {} está cerrado en invierno",
        "mi vecino quiere viajar a {} mañana por la mañana",
    ),
}
# Program and voice.
VOICES = {
    "en": (
        ("flite", "slt"),
        ("espeak-ng", "en-us"),
        ("flite", "awb"),
        ("espeak-ng", "en-gb-x-rp"),
        ("flite", "kal16"),
    ),
    "es": (("espeak-ng", "es"), ("espeak-ng", "es-419"), ("espeak-ng", "es+f3")),
}
TOY_NAMES = {
    "people": "Alice Robert Maria David Laura Peter Anna Martin Julia Thomas".split(),
    "cities": "Madrid Berlin London Paris Vienna Lisbon Rome Hamburg".split(),
}
TOY_SENTENCES = {
    "people": (
        "Call {} on Tuesday at ten.",
        "Remind {} to close the window in five minutes.",
        "Tell {} that the meeting starts at nine.",
    ),
    "cities": (
        "Will it rain in {} this weekend?",
        "Tomorrow it will be windy in {}.",
        "The train to {} leaves at six twenty.",
    ),
}
TOY_VOICES = ("en-us", "en-gb-x-rp+f4", "en-gb+Gene", "en-029+m2", "en-gb-scotland+Steph")
WORDS_A_MINUTE = "125"  # of espeak-ng
PIECE = SAMPLE_RATE // 10


@dataclass(frozen=True, slots=True)
class Said:
    """One recording. name: the rare one in it; None: none of all."""

    text: str
    name: str | None
    language: str
    samples: Samples


@dataclass(slots=True)
class Tally:
    """names: said, of those that hold one; heard: of them. made_up: written where nobody said them.
    others: errors in all other words."""

    names: int = 0
    heard: int = 0
    made_up: int = 0
    others: WordErrors = WordErrors()

    def add(self, said: Said, text: str, expected: Sequence[str]) -> None:
        """Count one transcript. expected: all that was or might have been expected."""
        known = {name.lower() for name in expected}
        reference, written = normalise(said.text), normalise(text)
        name = said.name.lower() if said.name else None
        self.names += name is not None
        self.heard += name in written
        self.made_up += sum(word in known and word != name for word in written)
        # What stands for the name is not another word.
        pairs = [
            (None if i is None else reference[i], None if j is None else written[j])
            for i, j in align(reference, written)
            if i is None or reference[i] != name
        ]
        self.others += WordErrors(
            sum(a is not None and b is not None and a != b for a, b in pairs),
            sum(b is None for _, b in pairs),
            sum(a is None for a, _ in pairs),
            sum(a is not None for a, _ in pairs),
        )

    def result(self) -> Json:
        """For the file."""
        return {
            "names": self.names,
            "recall": round(100 * self.heard / self.names, 1) if self.names else None,
            "made_up": self.made_up,
            "other_wer": round(100 * self.others.rate, 2),
            "other_words": self.others.words,
        }


def spoken(names: Sequence[str], language: str) -> list[Said]:
    """Each name in a sentence, voices and sentences taking turns."""
    found = []
    for number, name in enumerate(names):
        sentences, voices = SENTENCES[language], VOICES[language]
        text = sentences[number % len(sentences)].format(name)
        samples = _said(text, *voices[number // len(sentences) % len(voices)])
        quiet = np.zeros(SAMPLE_RATE // 4, np.float32)
        found.append(Said(text, name, language, np.concatenate([quiet, samples, quiet])))
    return found


def spoken_for_a_toy(half: str) -> list[Said]:
    """Each name in each sentence of its half, in two voices."""
    found, voices = [], TOY_VOICES
    for number, name in enumerate(TOY_NAMES[half]):
        for turn, sentence in enumerate(TOY_SENTENCES[half]):
            text = sentence.format(name)
            for voice in (number + turn, number + turn + 2):
                samples = _said(text, "espeak-ng", voices[voice % len(voices)])
                found.append(Said(text, name, "en", samples))
    return found


def noisy(recordings: Sequence[Said], above: float) -> list[Said]:
    """With white noise, the voice so many dB above it."""
    rng = np.random.default_rng(0)
    found = []
    for said in recordings:
        level = np.sqrt(np.mean(said.samples**2)) * 10 ** (-above / 20)
        mixed = said.samples + level * rng.standard_normal(len(said.samples))
        found.append(replace(said, samples=(mixed / max(1, np.abs(mixed).max())).astype("f4")))
    return found


def _said(text: str, program: str, voice: str) -> Samples:
    with NamedTemporaryFile(suffix=".wav") as file:
        command = (
            ["flite", "-voice", voice, "-t", text, "-o", file.name]
            if program == "flite"
            else ["espeak-ng", "-v", voice, "-s", WORDS_A_MINUTE, "-w", file.name, text]
        )
        subprocess.run(command, capture_output=True, check=True)
        samples, rate = soundfile.read(file.name, dtype="float32")
    return resample(np.asarray(samples, np.float32), rate, SAMPLE_RATE).astype(np.float32)


def people(folder: Path, language: str) -> list[Said]:
    """Recordings of a folder with an items.json: file, language and text of each."""
    items = json.loads((folder / "items.json").read_text("utf-8"))
    return [
        Said(item["text"], None, language, _read(folder / item["file"]))
        for item in items
        if item["language"] == language
    ]


def _read(path: Path) -> Samples:
    samples, rate = soundfile.read(BytesIO(path.read_bytes()), dtype="float32")
    assert rate == SAMPLE_RATE, path
    return np.asarray(samples, np.float32)


def text_of(core: EngineCore, said: Said, settings: TranscriptionSettings, *, live: bool) -> str:
    """The transcript. RuntimeError if there is none."""
    samples = said.samples
    if live:
        core.submit(StartTurn("s", "t", settings))
    else:
        core.submit(TranscribeFile("f", settings, samples, speech=[(0, len(samples))]))
    parts, at = [], 0
    while True:
        if live and at < len(samples) and not core.has_work:
            piece = samples[at : at + PIECE]
            at += len(piece)
            core.submit(AppendAudio("s", "t", piece, at))
            if at == len(samples):
                core.submit(EndTurn("s", "t"))
        for event in core.step():
            if isinstance(event, TextCommitted):
                parts.append(event.text)
            elif isinstance(event, TurnCompleted):
                assert "".join(parts) == event.text
                return event.text
            elif isinstance(event, FileTranscribed):
                return event.text
            elif isinstance(event, TurnFailed | FileFailed):
                raise RuntimeError(event.message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keywords", description=__doc__)
    parser.add_argument("--model", default="openai/whisper-tiny.en")
    parser.add_argument("--language", choices=list(SENTENCES), default="en")
    parser.add_argument("--half", choices=[*NAMES, *TOY_NAMES], nargs="+")
    parser.add_argument("--noise", type=float, metavar="DB", help="how much louder speech is")
    parser.add_argument("--human", type=Path, metavar="FOLDER", help="recordings, and items.json")
    parser.add_argument("--live", action="store_true", help="as turns, not as files")
    parser.add_argument(
        "--strength", type=float, nargs=4, metavar=("BEHIND", "SURE", "GAIN", "DOUBT")
    )
    parser.add_argument("--prompt", action="store_true", help="the words are the prompt, too")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print what was written")
    add_file_arguments(parser)
    options = parser.parse_args(arguments)
    if options.strength:
        behind, sure, gain, doubt = options.strength
        expected_words.STRENGTH = replace(
            expected_words.STRENGTH, behind=behind, sure=sure, gain=gain, doubt=doubt
        )
    config = EngineConfig(model=options.model, threads=options.threads)
    core = build_core(config, lambda stage, share: None).core
    console = Console()
    table = Table("half", "speech", "expected", "recall %", "made up", "other WER %")
    results: list[Json] = []
    halves = TOY_NAMES if config.name.startswith("demo-") else NAMES
    for half in options.half or list(halves):
        names = halves[half]
        said_by = spoken_for_a_toy(half) if half in TOY_NAMES else spoken(names, options.language)
        sets = {"synthesised": said_by if options.noise is None else noisy(said_by, options.noise)}
        if options.human:
            sets["people"] = people(options.human, options.language)
        for speech, recordings in sets.items():
            for expected in ((), tuple(names)):
                settings = TranscriptionSettings(
                    model=config.name,
                    language=options.language,
                    prompt=", ".join(expected) if options.prompt else "",
                    keywords=expected,
                )
                tally = Tally()
                for said in recordings:
                    text = text_of(core, said, settings, live=options.live)
                    tally.add(said, text, names)
                    if options.verbose:
                        console.print(f"[{bool(expected):d}] {said.name} | {text}", markup=False)
                result = tally.result()
                results.append(
                    {"half": half, "speech": speech, "expected": len(expected), **result}
                )
                table.add_row(
                    half, speech, str(len(expected)),
                    str(result["recall"]), str(result["made_up"]), str(result["other_wer"]),
                )  # fmt: skip
    console.print(table)
    written = {
        "model": options.model,
        "language": options.language,
        "live": options.live,
        "noise": options.noise,
        "machine": machine.describe(sys.argv[1:]),
        "results": results,
    }
    console.print(str(write_result(options, "keywords", written)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
