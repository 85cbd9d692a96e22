"""Windows whose log-mel the device computes are those that the host reads, however audio grows and
is cut; and whole sessions hear the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear import kernels
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.models.audio_chunks import host_log_mel, loudest
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.models.audio_graphs import AudioGraphs
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.qwen3_asr.windows import DeviceWindows, HostWindows
from tests.engine import playing
from tests.engine.qwen3_asr.test_features import clip
from tests.engine.recording import RecordedMemory, Recorder, make_opaque
from tests.engine.runners import MODELS, quiet
from tools.random_checkpoints.qwen3 import build_served_qwen3_asr

MELS, WINDOW = 20, 40
DIMS = AudioDims(
    num_mels=MELS, width=8, layers=1, heads=1, ffn=8, channels=4, out_width=8, chunk_frames=20,
    window_frames=WINDOW,
)  # fmt: skip


def test_a_frame_that_saw_what_was_cut_off_is_computed_again() -> None:
    """Though there are no fewer frames than were final: the last one ends behind the cut."""
    samples, windows = clip(0, 4040), HostWindows(DIMS)
    windows.hear(samples, is_whole=False)
    (mine,) = windows.hear(samples[:4000], is_whole=False)
    (whole,) = HostWindows(DIMS).hear(samples[:4000], is_whole=False)
    np.testing.assert_allclose(mine.features, whole.features, atol=2e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), st.booleans(), st.data())
def test_windows_of_samples_are_those_of_log_mel(
    seed: int, is_whole: bool, data: st.DataObject
) -> None:
    samples, end = clip(seed, 60_000), 0
    host, device = HostWindows(DIMS), DeviceWindows(DIMS)
    for _ in range(data.draw(st.integers(1, 6))):
        if end and data.draw(st.booleans()):
            end = data.draw(st.integers(max(201, end // 2), end))  # cut at a quiet place
        else:
            end = min(len(samples), end + data.draw(st.integers(201, 15_000)))
        expected = host.hear(samples[:end], is_whole=is_whole)
        media = device.hear(samples[:end], is_whole=is_whole)
        assert [m.num_tokens for m in media] == [m.num_tokens for m in expected]
        assert host.num_closed <= device.num_closed + 1
        for medium, theirs in zip(media[: host.num_closed], expected, strict=False):
            assert medium.is_final and theirs.is_final
        for medium, theirs in zip(media, expected, strict=True):
            assert medium.sound is not None
            mine = host_log_mel(medium.sound, MELS).numpy()
            np.testing.assert_allclose(mine, theirs.features, atol=2e-5)


def test_closed_windows_stay_the_same_and_have_names_of_their_own() -> None:
    samples = clip(3, 30_000)
    windows, other = DeviceWindows(DIMS), DeviceWindows(DIMS)
    first = windows.hear(samples[:15_000], is_whole=False)
    second = windows.hear(samples, is_whole=False)
    assert 0 < len(first) - 1 == sum(a is b for a, b in zip(first, second, strict=False))
    names = [m.digest for m in (*second, *other.hear(samples, is_whole=False))]
    assert len(set(names)) == len(names)


def test_equal_files_have_equal_names_and_others_have_not() -> None:
    samples = clip(3, 30_000)
    changed = samples.copy()
    changed[7_000] += 0.01  # in the second window
    names, same, others = (
        [m.digest for m in DeviceWindows(DIMS).hear(audio, is_whole=True)]
        for audio in (samples, samples.copy(), changed)
    )
    assert names == same
    assert names[0] == others[0]
    # All behind it are normalised by what may be another value.
    assert not set(names[1:]) & set(others[1:])


def test_how_loud_it_was_is_read_back_or_found_out(
    served_asr: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_opaque(monkeypatch, *MODELS)
    model = Qwen3AsrModel.from_folder(served_asr)
    dims = model.encoder.dims
    samples = clip(5, dims.window_frames * 160 * 5 // 2)
    encoder = AudioGraphs(model, Acceleration(False, RecordedMemory(), Recorder()))
    alone, together = (DeviceWindows(dims).hear(samples, is_whole=True) for _ in range(2))
    with torch.inference_mode():
        encoder.graphs.capture(quiet)
        rows = [encoder.encode([medium])[0].clone() for medium in alone]  # nothing was read back
        for mine, row in zip(encoder.encode(together), rows, strict=True):
            torch.testing.assert_close(mine, row, rtol=1e-4, atol=1e-5)
    for read in encoder.unread():
        read()
    assert not encoder.unread()
    whole = kernels.log_mel(torch.from_numpy(samples[None]), kernels.mel_filters(dims.num_mels))
    peak = float(whole.max()) * 4 - 4
    for media in (alone, together):
        sounds = [medium.sound for medium in media if medium.sound is not None]
        heard = [sound.loudest for sound in sounds if sound.loudest is not None]
        assert len(heard) == len(media)
        assert heard == sorted(heard) and heard[-1] == pytest.approx(peak, abs=1e-4)
    fresh = DeviceWindows(dims).hear(samples, is_whole=True)[-1].sound
    assert fresh is not None and loudest(fresh, dims.num_mels) == pytest.approx(peak, abs=1e-4)


def test_sessions_hear_the_same_whoever_computes_log_mel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long turns, whose windows close, a short one, and a file, twice."""
    build_served_qwen3_asr(tmp_path, seed=5)
    scripts = [playing.turn("a", 1, 9.0), playing.turn("b", 2, 5.3, 0.7), playing.turn("c", 3, 0.4)]
    scripts += [playing.file(name, 4, 8.0) for name in ("f", "g")]
    names = ("a", "b", "c", "f", "g")

    def heard(core: Any) -> dict[str, tuple[str, ...]]:
        events = playing.play(core, *scripts)
        return {name: playing.outcome(events, name) for name in names}

    expected = heard(playing.make_core(tmp_path))
    make_opaque(monkeypatch, *MODELS)
    for overlap in (0, 1):
        acceleration = Acceleration(bool(overlap), RecordedMemory(), Recorder())
        with monkeypatch.context() as changes:
            changes.setattr(Acceleration, "on", Mock(return_value=acceleration))
            core = playing.make_core(tmp_path, overlap=overlap)
        runner: Any = core._runner
        runner.capture(quiet)
        assert heard(core) == expected
        assert runner._encoder.graphs.num_runs["encode graph"] > 10
        assert playing.all_free(core)
