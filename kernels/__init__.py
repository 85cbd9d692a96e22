"""Tensor operations of the engine, and the one place that chooses their implementation.

Every operation has a torch version (its own file here): the CPU path and the oracle of the tests.
Shapes are written `[batch, queries, heads, dim]`; lengths and indices are int64 tensors.
"""

from lookhear.kernels.attention import attention
from lookhear.kernels.attention_inputs import norm_rope_write
from lookhear.kernels.cached_attention import (
    cross_attention_cached,
    cross_attention_weights,
    self_attention_cached,
)
from lookhear.kernels.embedding import embed_tokens
from lookhear.kernels.grammar_mask import allow_bits_
from lookhear.kernels.linear import (
    LinearWeights,
    default_cpu_dtype,
    linear,
    pack_conv,
    pack_linear,
    supports_half_weights,
)
from lookhear.kernels.log_mel import log_mel, mel_filters
from lookhear.kernels.norm_linear import norm_linear
from lookhear.kernels.norms import add_layer_norm_, gelu_, layer_norm
from lookhear.kernels.paged_attention import Span, paged_attention, paged_write, spans
from lookhear.kernels.rejection_sampling import rejection_sample
from lookhear.kernels.rms_norm import add_rms_norm, rms_norm
from lookhear.kernels.rope import rope, rope_angles, rope_factors, rope_frequencies
from lookhear.kernels.sampling import (
    Verified,
    greedy,
    sample,
    token_logprobs,
    top_logprobs,
    verify_greedy,
    verify_tokens,
)
from lookhear.kernels.self_attention_paged import self_attention_paged
from lookhear.kernels.swiglu import swiglu
from lookhear.kernels.windowed_attention import windowed_attention

__all__ = [
    "LinearWeights",
    "Span",
    "Verified",
    "add_layer_norm_",
    "add_rms_norm",
    "allow_bits_",
    "attention",
    "cross_attention_cached",
    "cross_attention_weights",
    "default_cpu_dtype",
    "embed_tokens",
    "gelu_",
    "greedy",
    "layer_norm",
    "linear",
    "log_mel",
    "mel_filters",
    "norm_linear",
    "norm_rope_write",
    "pack_conv",
    "pack_linear",
    "paged_attention",
    "paged_write",
    "rejection_sample",
    "rms_norm",
    "rope",
    "rope_angles",
    "rope_factors",
    "rope_frequencies",
    "sample",
    "self_attention_cached",
    "self_attention_paged",
    "spans",
    "supports_half_weights",
    "swiglu",
    "token_logprobs",
    "top_logprobs",
    "verify_greedy",
    "verify_tokens",
    "windowed_attention",
]
