"""`lookhear check MODEL`: load it, try it, say what it costs, and compare it with transformers.

One command to run where a hub or a card is at hand.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.check.omni import compare_omni
from lookhear.engine.check.parakeet import compare_parakeet
from lookhear.engine.check.parity import NotCompared, Parity, compare, compare_aligner
from lookhear.engine.check.speakers import compare_diariser, diarise
from lookhear.engine.check.transducers import compare_transducer
from lookhear.engine.check.trial import (
    CROWD,
    UPDATE_SECONDS,
    TrialFailed,
    ask,
    capacity,
    hear,
    live,
    read,
)
from lookhear.engine.check.voxtral import compare_voxtral
from lookhear.engine.check.voxtral_chat import compare_voxtral_chat
from lookhear.engine.checkpoints.choice import choose_checkpoint
from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import AUTO_MODEL, DTYPES, ConfigError, EngineConfig
from lookhear.engine.families import nemotron3_diarisation, parakeet, qwen3_omni, voxtral
from lookhear.engine.families.build import Built, build_core
from lookhear.engine.families.streaming import transducer, voxtral_realtime
from lookhear.engine.messages import SAMPLE_RATE

AGREED, DISAGREED, CANNOT, NOT_COMPARED = 0, 1, 2, 3  # exit status
LIVE_SECONDS = 8.0  # of audio in the live trial
ASKED_SECONDS = 10  # of audio that a model that chats is asked about
NAME_COLUMNS = 14
SHOWN_WORDS = 12
PERSON = "kennedy.opus"
SYNTHESISED = "hello.opus"  # what a toy understands: it cannot hear people


def check(argv: list[str]) -> int:
    """Exit status: 0 it agrees with transformers, 1 it does not, 2 it cannot be loaded or fails,
    3 it works, but was not compared."""
    options = _parser().parse_args(argv)
    try:
        given = None if options.audio is None else _recording(options.audio)
        return _check(options, given)
    except BrokenPipeError:
        raise  # whoever read what is said has read enough, as `head` does
    except (CheckpointError, TrialFailed, OSError, ValueError, RuntimeError) as error:
        print(f"lookhear check: {error}", file=sys.stderr)
        return CANNOT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lookhear check",
        description="Load a model, try it on a recording or a picture, print memory, real-time "
        "factor, what a live update costs and how many live sessions that means, and compare its "
        "logits and tokens with those of transformers (float32, on the CPU).",
        epilog="Exit status: 0 it agrees with transformers, 1 it does not, 2 it cannot be loaded "
        "or fails, 3 it works but was not compared.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="as lookhear serve --model takes it")
    add("--aligner", default="", metavar="MODEL", help="as lookhear serve --aligner takes it: the "
        "words are timed, too, and it is compared as well")  # fmt: skip
    add("--audio", type=Path, metavar="FILE", help="a recording (default: a packaged one)")
    add("--device", default="auto", help="cpu, cuda, cuda:1, auto (default: %(default)s)")
    add("--dtype", default="auto", choices=DTYPES)
    add("--threads", type=int, default=0, help="0: as when it is served")
    add("--no-compare", action="store_true", help="leave transformers out, which takes memory for "
        "the weights in float32")  # fmt: skip
    return parser


def _check(options: argparse.Namespace, given: NDArray[np.float32] | None) -> int:
    """given: the user's recording."""
    model, told = options.model, set[str]()

    def progress(stage: str, share: float) -> None:
        if stage not in told:
            told.add(stage)
            print(f"{stage} ...", file=sys.stderr)

    if model == AUTO_MODEL:
        model = choose_checkpoint(progress).name
    folder = resolve_checkpoint(model, progress)
    samples = given
    if samples is None:
        samples = _recording(_packaged(SYNTHESISED if Traits.from_folder(folder).toy else PERSON))
    config = EngineConfig(
        model=str(folder), served_name=model, device=options.device, dtype=options.dtype,
        threads=options.threads, aligner=options.aligner,
    )  # fmt: skip
    began = time.perf_counter()
    built = build_core(config, progress)
    _say("model", f"{model}: {built.card.architecture}, {built.card.parameters / 1e6:.1f} million "
         f"parameters{', a toy' if built.card.toy else ''}")  # fmt: skip
    _say("loaded", f"in {time.perf_counter() - began:.1f} s on {built.device} in {built.dtype}, "
         f"{torch.get_num_threads()} threads")  # fmt: skip
    if options.aligner and not built.card.timed_languages:
        raise ConfigError(f"aligner: expected a Qwen3-ASR beside it, got {model}")
    _try(built, samples, times_words=bool(options.aligner))
    _say("memory", _memory(built.device))
    architecture, aligner = built.card.architecture, built.config.aligner
    del built  # room for two in float32, one after the other
    if options.no_compare:
        return NOT_COMPARED
    tells_speakers = architecture in nemotron3_diarisation.FAMILY.architectures

    def beside() -> Parity:
        if tells_speakers:
            return compare_diariser(folder, samples)
        if architecture in transducer.FAMILY.architectures:
            return compare_transducer(folder, architecture, samples)
        if architecture in parakeet.FAMILY.architectures:
            return compare_parakeet(folder, architecture, samples)
        if architecture in voxtral_realtime.FAMILY.architectures:
            return compare_voxtral(folder, architecture, samples)
        if architecture in qwen3_omni.FAMILY.architectures:
            return compare_omni(folder, samples)
        if architecture in voxtral.FAMILY.architectures:
            return compare_voxtral_chat(folder, architecture, samples)
        return compare(folder, architecture, samples)

    found = [_compared("transformers", beside)]
    if aligner:
        found.append(_compared("its aligner", lambda: compare_aligner(Path(aligner), samples)))
    if None in found:
        return NOT_COMPARED
    return AGREED if all(parity.agrees for parity in found if parity) else DISAGREED


def _compared(name: str, compared: Callable[[], Parity]) -> Parity | None:
    """None if it cannot be; either way it is told."""
    try:
        parity = compared()
    except (NotCompared, ImportError) as error:  # of packages for weights in fewer bits
        _say(name, f"not compared: {str(error).splitlines()[0]}")
        return None
    _say(name, _about(parity))
    return parity


def _try(built: Built, samples: NDArray[np.float32], *, times_words: bool) -> None:
    card, core = built.card, built.core
    if card.can("transcribe"):
        heard = hear(core, card.id, samples, words=times_words)
        if times_words:
            shown = " ".join(f"{word.start:.2f} {word.word}" for word in heard.words[:SHOWN_WORDS])
            _say("words", shown or "none: in this language it has no times")
        seconds = len(samples) / SAMPLE_RATE
        _say("hears", f"({heard.language or 'one language'}) {heard.text.strip()}")
        _say("file", f"{seconds:.1f} s of audio in {heard.took:.2f} s: "
             f"{heard.took / seconds:.3f} of real time")  # fmt: skip
        some = samples[: int(LIVE_SECONDS * SAMPLE_RATE)]
        alone, crowd = (live(core, card.id, some, count) for count in (1, CROWD))
        for lived in (alone, crowd):
            who = "one session" if lived.sessions == 1 else f"{lived.sessions} sessions"
            _say("live", f"{who}: an update takes {1000 * lived.median:.0f} ms, "
                 f"{1000 * lived.slowest:.0f} at most")  # fmt: skip
        _say("sessions", f"about {capacity(alone, crowd)} with an update each second")
    if card.can("diarise"):
        turns, took = diarise(core, card.id, samples)
        seconds = len(samples) / SAMPLE_RATE
        speakers = len({turn.speaker for turn in turns})
        _say("speakers", f"{speakers} in {len(turns)} turns")
        _say("file", f"{seconds:.1f} s of audio in {took:.2f} s: {took / seconds:.3f} of real time")
    if card.can("embed") and not card.can("chat"):
        made = read(core, card.id, scores=False)
        _say("vectors", f"of {made.width} numbers, {made.per_second:.0f} tokens a second")
    if card.can("score") and not card.can("chat"):
        scores = read(core, card.id, scores=True).scores
        shown = ", ".join(f"{score:.3f}" for score in scores)
        _say("scores", f"{shown} of three sentences, of which the first answers the question")
    if card.can("chat"):
        sees, hears = card.can("image"), card.can("audio")
        question = "What do you see?" if sees else "What is the capital of France?"
        if hears:
            question = "What do you see and hear?" if sees else "What do you hear?"
        heard_too = samples[: ASKED_SECONDS * SAMPLE_RATE] if hears else None
        answer = ask(core, card.id, question, sees=sees, samples=heard_too)
        shown = " (a red circle beside a blue square)" if sees else ""
        shown += f" ({len(heard_too) / SAMPLE_RATE:.1f} s)" if heard_too is not None else ""
        _say("asked", f"{question}{shown}")
        _say("answers", answer.text)
        _say(
            "speed",
            f"first token after {answer.first:.2f} s, then {answer.per_second:.1f} a second",
        )


def _about(parity: Parity) -> str:
    verdict = "agrees" if parity.agrees else "DOES NOT AGREE"
    gap = "not a number" if math.isnan(parity.gap) else f"at most {parity.gap:.1e} apart"
    return f"{verdict}: {parity.same} of {parity.tokens} {parity.what} the same, logits {gap}"


def _memory(device: str) -> str:
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    text = f"{most / 1e9:.2f} GB of the machine's at most"
    if device.startswith("cuda"):
        text += f", {torch.cuda.max_memory_reserved() / 1e9:.2f} GB of the card's"
    return text


def _packaged(name: str) -> Path:
    """One of the recordings of lookhear-demo. CheckpointError."""
    spec = importlib.util.find_spec("lookhear_demo")
    if spec is None or spec.origin is None:
        raise CheckpointError("expected a recording: --audio FILE, or pip install lookhear-demo")
    return Path(spec.origin).parent / "recordings" / name


def _recording(path: Path) -> NDArray[np.float32]:
    """[n] mono samples at 16 kHz. Raises CheckpointError, as for anything that is missing."""
    import soundfile  # these two come with the client, which a bare GPU box may lack
    import soxr

    if not path.is_file():
        raise CheckpointError(f"--audio: expected a recording, got {path}, which is no file")
    try:
        with path.open("rb") as file:  # whose name need not be text
            sound, rate = soundfile.read(file, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        reason = getattr(error, "error_string", error)
        expected = "expected a recording as wav, flac, mp3 or ogg"
        raise CheckpointError(f"{path}: {expected}, which can be read: {reason}") from error
    samples = np.ascontiguousarray(soxr.resample(sound.mean(axis=1), rate, SAMPLE_RATE), np.float32)
    if len(samples) < UPDATE_SECONDS * SAMPLE_RATE:
        raise CheckpointError(f"{path}: expected at least {UPDATE_SECONDS:g} s of sound")
    return samples


def _say(name: str, text: str) -> None:
    print(f"{name:<{NAME_COLUMNS}}{text}", flush=True)
