"""What the logits of a pass tell besides the next tokens: of silence, languages, ends."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.speech.text.sentences import ends_text
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.passes import Wanted
from lookhear.engine.whisper.positions import Purpose
from lookhear.engine.whisper.request import WhisperSequence


class Readings:
    """Of one checkpoint. What is returned is on its way to the host."""

    def __init__(self, tokenizer: WhisperTokenizer, device: torch.device) -> None:
        self._device = device
        self._no_speech = tokenizer.no_speech
        self._languages = self._ids(list(tokenizer.languages.values()))
        signs = [t for t in tokenizer.signs() if ends_text(tokenizer.token_bytes(t))]
        stamps = range(tokenizer.timestamp_begin, tokenizer.vocab_size)
        self._closing = self._ids([*signs, tokenizer.eot, *stamps])

    def _ids(self, tokens: list[int]) -> Tensor:
        return torch.tensor(tokens, dtype=torch.int64, device=self._device)

    def starts(self, wanted: Wanted, values: Tensor) -> Readback | None:
        """[starts, 1 + languages] log probabilities behind start tokens: of no speech among all
        tokens, of each language among languages. None if nobody starts. values: [wanted, vocab]
        logits."""
        rows = [n for n, (_, row) in enumerate(wanted) if row.purpose is Purpose.START]
        if not rows:
            return None
        values = values[to_device(rows, torch.int64, self._device)]
        silence = values.log_softmax(-1)[:, self._no_speech, None]
        languages = values[:, self._languages].log_softmax(-1)
        return Readback(torch.cat([silence, languages], dim=1))

    def closings(self, group: Sequence[WhisperSequence], values: Tensor) -> Readback | None:
        """[wanted] log probabilities of all behind which no sentence goes on: signs that end one,
        times, and the end. None if nobody asks. values: [wanted, vocab] logits."""
        if not any(sequence.request.closes for sequence in group):
            return None
        return Readback(values[:, self._closing].logsumexp(-1) - values.logsumexp(-1))
