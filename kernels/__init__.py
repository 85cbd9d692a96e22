"""Tensor operations of the engine, and the one place that chooses their implementation.

Every operation has a torch version in a file here, the CPU path and the oracle of the tests; its
Triton version, if there is one, lies in the file of the same name in `triton/`.
Shapes are written `[batch, queries, heads, dim]`; lengths and indices are int64 tensors.
"""

from lookhear.kernels.activations import gelu_, swiglu
from lookhear.kernels.attention import attention, biased_attention, windowed_attention
from lookhear.kernels.attention_inputs import norm_rope_write
from lookhear.kernels.cached_attention import (
    biased_cross_attention,
    cross_attention_cached,
    cross_attention_weights,
    self_attention_cached,
)
from lookhear.kernels.embedding import embed_tokens, pack_table
from lookhear.kernels.experts import ExpertWeights, mixed_experts, pack_experts, route
from lookhear.kernels.fp8 import fits_fp8, fp8_refusal, int8_refusal, round_int8, round_rows
from lookhear.kernels.grammar_mask import allow_bits_
from lookhear.kernels.int4.weights import (
    INT4,
    Int4Weights,
    int4_group,
    join_int4,
    pack_int4,
    round_int4,
)
from lookhear.kernels.linear import (
    LinearWeights,
    default_cpu_dtype,
    in_int4,
    pack_conv,
    pack_linear,
    supports_half_weights,
    supports_int8_weights,
)
from lookhear.kernels.log_mel import log_mel, log_mel_chunks, mel_filters
from lookhear.kernels.low_rank import (
    AdaptedWeights,
    RowAdapters,
    Segment,
    UpPart,
    linear,
    norm_linear,
)
from lookhear.kernels.norms import add_layer_norm_, add_rms_norm, layer_norm, rms_norm
from lookhear.kernels.paged_attention import Span, paged_attention, paged_write, spans
from lookhear.kernels.rope import rope, rope_angles, rope_factors, rope_frequencies
from lookhear.kernels.sampling import greedy, sample, token_logprobs, top_logprobs
from lookhear.kernels.self_attention_paged import self_attention_paged

__all__ = [
    "INT4",
    "AdaptedWeights",
    "ExpertWeights",
    "Int4Weights",
    "LinearWeights",
    "RowAdapters",
    "Segment",
    "Span",
    "UpPart",
    "add_layer_norm_",
    "add_rms_norm",
    "allow_bits_",
    "attention",
    "biased_attention",
    "biased_cross_attention",
    "cross_attention_cached",
    "cross_attention_weights",
    "default_cpu_dtype",
    "embed_tokens",
    "fits_fp8",
    "fp8_refusal",
    "gelu_",
    "greedy",
    "in_int4",
    "int4_group",
    "int8_refusal",
    "join_int4",
    "layer_norm",
    "linear",
    "log_mel",
    "log_mel_chunks",
    "mel_filters",
    "mixed_experts",
    "norm_linear",
    "norm_rope_write",
    "pack_conv",
    "pack_experts",
    "pack_int4",
    "pack_linear",
    "pack_table",
    "paged_attention",
    "paged_write",
    "rms_norm",
    "rope",
    "rope_angles",
    "rope_factors",
    "rope_frequencies",
    "round_int4",
    "round_int8",
    "round_rows",
    "route",
    "sample",
    "self_attention_cached",
    "self_attention_paged",
    "spans",
    "supports_half_weights",
    "supports_int8_weights",
    "swiglu",
    "token_logprobs",
    "top_logprobs",
    "windowed_attention",
]
