"""A whole engine on a random transducer: turns and files, alone and side by side."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lookhear.engine.messages import (
    FileTranscribed,
    TextCommitted,
    TextProvisional,
    TurnCompleted,
)
from lookhear.engine.transducer.model import TransducerModel
from tests.engine.playing import (
    drain,
    file,
    noise,
    outcome,
    play,
    turn,
)
from tests.engine.streaming_family import StreamingFamily, make
from tests.engine.transducer.driving import a_runner, run, text, whole
from tools.random_checkpoints.transducer import build_random_transducer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transducer")
    build_random_transducer(folder, seed=0)
    return folder


class TestTransducer(StreamingFamily):
    """What every natively streaming family promises."""

    architecture = "NemotronAsrStreamingForRNNT"
    scripts: ClassVar = {
        "a": turn("a", 0, 5.0),
        "b": turn("b", 1, 9.0, piece=0.3, delay="low"),
        "c": turn("c", 2, 1.2, delay="minimal"),
        "f": file("f", 3, 40.0),
    }
    kept = ("transducer_memories",)
    seconds = 9.0
    late = 0.0
    between = (10.4, 12.4)

    def num_written(self, folder: Path, samples: NDArray[np.float32]) -> int:
        """See `StreamingFamily`."""
        model = TransducerModel.from_folder(folder)
        (results,) = run(a_runner(model), [whole("w", samples, 3)])
        return len(text(results))


def test_text_comes_with_each_chunk(folder: Path) -> None:
    """And costs no more for what was said before: no sample is encoded twice."""
    core = make(folder)
    script = turn("a", 5, 20.0, piece=0.08)
    heard: list[tuple[int, int]] = []
    for number, message in enumerate(script[:-1]):
        core.submit(message)
        for event in drain(core):
            if isinstance(event, TextCommitted):
                heard.append((number, len(event.text)))
    places = [number for number, _ in heard]
    assert len(heard) > 20 and max(b - a for a, b in pairwise(places)) < 60
    stats = core.stats()
    assert stats["transducer_passes"] == stats["requests"] <= 20.0 / 0.32 + 2
    core.submit(script[-1])
    assert any(isinstance(event, TurnCompleted) for event in drain(core))


def test_words_are_those_of_the_text(folder: Path) -> None:
    events = play(make(folder), turn("a", 8, 12.0, words=True))
    told = [event for event in events if isinstance(event, TextCommitted)]
    assert len(told) > 3 and all(event.text.startswith(" ") for event in told[1:])
    words = [word.word for event in told for word in event.words or ()]
    assert words == outcome(events, "a")[-1].split()
    events = play(make(folder), file("f", 6, 20.0, words=True))
    (done,) = [event for event in events if isinstance(event, FileTranscribed)]
    assert [word.word for word in done.words] == done.text.split()


def test_what_is_held_back_is_provisional(folder: Path) -> None:
    events = play(make(folder), turn("a", 8, 12.0, words=True, provisional=True))
    said, guesses = "", 0
    for event in events:
        if isinstance(event, TextCommitted):
            said += event.text
        if isinstance(event, TextProvisional) and event.text:
            guesses += 1
            assert outcome(events, "a")[-1].startswith((said + event.text).lstrip())
    assert guesses > 3


def test_a_file_is_heard_in_pieces(folder: Path) -> None:
    (done,) = [
        event
        for event in play(make(folder), file("f", 6, 70.0))
        if isinstance(event, FileTranscribed)
    ]
    assert done.duration == pytest.approx(70.0) and 860 < done.num_audio_tokens < 890
    starts = [segment.start for segment in done.segments]
    assert starts == sorted(starts) and done.segments[-1].end <= 70.1 and not done.words
    assert "".join(segment.text for segment in done.segments).strip() == done.text


def test_half_precision_hears_much_the_same(folder: Path) -> None:
    """Encoded in bfloat16, written in float32."""
    model = TransducerModel.from_folder(folder, dtype=torch.bfloat16)
    assert model.dtype == torch.bfloat16 and model.predictor.weights.tokens.dtype == torch.float32
    samples = noise(4, 4.0)
    (rough,) = run(a_runner(model), [whole("w", samples, 3)])
    (exact,) = run(a_runner(TransducerModel.from_folder(folder)), [whole("w", samples, 3)])
    same = sum(a == b for a, b in zip(text(rough), text(exact), strict=False))
    assert len(text(rough)) > 5 and same > 0.3 * len(text(exact))


def test_weights_in_half_hear_the_same(tmp_path: Path) -> None:
    """Those of the encoder that are large enough; logits are as far apart as float16 rounds."""
    build_random_transducer(
        tmp_path, encoder={"hidden_size": 320, "intermediate_size": 640, "num_hidden_layers": 2}
    )
    plain = TransducerModel.from_folder(tmp_path)
    half = TransducerModel.from_folder(tmp_path, half=True)
    assert half.dtype == torch.float32 and half.num_parameters == plain.num_parameters
    layer = half.encoder.weights.layers[0]
    assert layer.first.up.half is not None and layer.attention.qkv.half is not None
    assert half.predictor.weights.head.half is None
    samples = noise(4, 6.0)
    texts = [text(run(a_runner(model), [whole("w", samples, 3)])[0]) for model in (plain, half)]
    same = sum(a == b for a, b in zip(*texts, strict=False))
    assert len(texts[0]) > 5 and same > 0.8 * len(texts[0])
