"""Decoders whose matrices are in int8 on a CPU, as are what meets them: near what they are in
float32, and the same whoever is beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.messages import AnswerCompleted
from lookhear.engine.models.gated_ffn import DenseFeedForward
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from tests.engine.chat.asking import ask, hold, image, make_core, outcome, rest, text, user
from tests.engine.models.test_fp8 import logits
from tools.random_checkpoints.qwen3 import build_random_qwen3, build_random_qwen3_asr
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM"
)
# So wide that its matrices are rounded, as those of published models are.
WIDE: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 512,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 16,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Qwen3Model, Qwen3Model]:
    folder = tmp_path_factory.mktemp("wide")
    build_random_qwen3(folder, vocab_size=6000, **WIDE)
    whole, rounded = (Qwen3Model.from_folder(folder, linears=kind) for kind in (None, torch.qint8))
    return whole, rounded


def test_logits_are_near_those_of_whole_weights(models: tuple[Qwen3Model, Qwen3Model]) -> None:
    whole, rounded = models
    layer = rounded.weights.layers[0]
    assert isinstance(layer.ffn, DenseFeedForward)
    for weights in (layer.qkv, layer.out, layer.ffn.gate_up, layer.ffn.down, rounded.weights.head):
        assert weights.int8 is not None and weights.weight.numel() == 0
    assert rounded.dtype == torch.float32 and rounded.num_parameters == whole.num_parameters
    tokens = torch.randint(0, 6000, (24,), generator=torch.Generator().manual_seed(0))
    exact = logits(whole, tokens, (24,))
    for pieces in ((24,), (1,) * 24):
        error = (logits(rounded, tokens, pieces) - exact).pow(2).mean().sqrt() / exact.std()
        assert 1e-4 < error < 0.1, (pieces, float(error))


def test_a_token_does_not_depend_on_what_it_is_read_with(
    models: tuple[Qwen3Model, Qwen3Model],
) -> None:
    """Sums of integers are exact, and a row's scale is its own; what is left is attention's."""
    rounded = models[1]
    tokens = torch.randint(0, 6000, (24,), generator=torch.Generator().manual_seed(1))
    together, apart = (logits(rounded, tokens, pieces) for pieces in ((24,), (1,) * 24))
    assert (together - apart).abs().max() <= 0.03 * together.std()


def test_an_encoder_is_rounded_with_its_decoder(tmp_path: Path) -> None:
    audio = {"d_model": 384, "encoder_ffn_dim": 512, "encoder_attention_heads": 6}
    text = {**WIDE}
    build_random_qwen3_asr(tmp_path, audio={**audio, "output_dim": 384}, text=text)
    model = Qwen3AsrModel.from_folder(tmp_path, linears=torch.qint8)
    layer = model.encoder.weights.layers[0]
    assert layer.ffn.up.int8 is not None and layer.attention.out.int8 is not None
    assert model.decoder.weights.layers[0].qkv.int8 is not None


def test_answers_in_int8(tmp_path: Path) -> None:
    """With a picture, alone and among others: the same."""
    build_served_qwen3_vl(tmp_path, text=WIDE, out_hidden_size=384)
    asked = [
        ask(user(image("p"), "what " * (n + 1)), answer=f"a{n}", max_tokens=12, ignore_end=True)
        for n in range(3)
    ]

    def answers(*questions: Any) -> list[str]:
        core = make_core(tmp_path, dtype="int8")
        core.submit(hold("p", 3))
        for question in questions:
            core.submit(question)
        events = rest(core)
        assert all(isinstance(outcome(events, q.answer), AnswerCompleted) for q in questions)
        return [text(events, question.answer) for question in questions]

    together = answers(*asked)
    assert together == [answers(question)[0] for question in asked] and all(together)
