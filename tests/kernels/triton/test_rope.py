from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import rope, rope_angles, rope_frequencies
from lookhear.kernels.triton import rope as triton_rope

# The interpreter cuts bfloat16 off where a GPU rounds: at every cast up to one place off.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2**-5, torch.float16: 2**-8}
DTYPES = list(TOLERANCE)


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(ours: Tensor, theirs: Tensor) -> None:
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_angles_on_one_axis_and_on_three(dtype: torch.dtype) -> None:
    frequencies = rope_frequencies(20, 1e4)
    plain = torch.tensor([0, 1, 7, 30_000, 2])
    three = torch.tensor([[3, 9, 1], [5, 1, 0], [7, 2, 100]])
    for positions, sections in ((plain, None), (three, (6, 2, 2)), (three, (4, 3, 3))):
        for ours, theirs in zip(
            triton_rope.rope_angles(positions, frequencies, dtype, sections=sections),
            rope_angles(positions, frequencies, dtype, sections=sections),
            strict=True,
        ):
            assert ours.shape == theirs.shape and ours.dtype == dtype
            close(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3, 6), (2, 16, 128), (0, 2, 4), (3, 1, 80)])
def test_rope_of_heads_within_a_fused_projection(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    tokens, heads, dim = shape
    fused = draw(0, tokens, heads + 2, dim, dtype=dtype)
    fused[:, heads:] = torch.nan
    angles = rope_angles(torch.arange(tokens) * 11, rope_frequencies(dim, 1e4), dtype)
    ours = triton_rope.rope(fused[:, :heads], *angles)
    close(ours, rope(fused[:, :heads], *angles))
