"""When the tokens of complete texts were said: launched with a step like a decoder pass, and read
when the step is waited for.

    texts -> one teacher-forced pass, in a cache of its own -> where chosen heads look in the audio
          -> host: the cheapest path through it -> seconds
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookhear.engine.core.request import Phase
from lookhear.engine.device.staging import Integers, Readback, Staging
from lookhear.engine.models.caches import CrossCache
from lookhear.engine.whisper.model import Head, WhisperModel
from lookhear.engine.whisper.request import WhisperSequence
from lookhear.engine.whisper.token_times import token_times

ALIGNED_ROWS = 8  # texts of one pass: where they look is some megabytes for each
SAMPLES_PER_POSITION = 320  # of the encoder's output: 50 positions a second at 16 kHz


class WhisperAlignment:
    """One launched pass over texts whose audio is still in its slots."""

    def __init__(
        self,
        model: WhisperModel,
        cross_cache: CrossCache,
        heads: Sequence[Head],
        staging: Staging,
        group: Sequence[WhisperSequence],
    ) -> None:
        """Nothing is read back. group: sequences in the phase ALIGN."""
        self._group = list(group)
        self._texts = [sequence.aligned() for sequence in group]
        # As far as there is audio: the window's padding means nothing.
        self._positions = [-(-len(s.request.samples) // SAMPLES_PER_POSITION) for s in group]
        lengths = [len(text.tokens) for text in self._texts]
        tokens: Integers = np.zeros((len(group), max(lengths)), np.int64)
        for row, text in zip(tokens, self._texts, strict=True):
            row[: len(text.tokens)] = text.tokens
        fields = staging.put(
            {
                "tokens": tokens,
                "new": np.array(lengths, np.int64),
                "slots": np.array([sequence.slot for sequence in group], np.int64),
                "audio": np.array(self._positions, np.int64),
            }
        )
        weights = model.align(
            fields["tokens"],
            fields["new"],
            fields["slots"],
            cross_cache,
            heads=heads,
            audio_lengths=fields["audio"],
            positions=max(self._positions),
        )
        for sequence in group:
            sequence.launch()
        self._weights = Readback(weights.float())

    def finish(self) -> None:
        """Wait for it, and move the sequences on."""
        weights = self._weights.array()  # [texts, heads, tokens, positions]
        for looks, text, positions, sequence in zip(
            weights, self._texts, self._positions, self._group, strict=True
        ):
            if sequence.phase is Phase.DONE:
                continue  # dropped while this was on its way
            seen = looks[:, : len(text.tokens), :positions]
            starts, ends = token_times(seen, text.num_start, text.num_text)
            sequence.absorb_times(tuple(zip(starts.tolist(), ends.tolist(), strict=True)))
