from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from lookhear.kernels import rope, rope_angles, rope_frequencies


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def turned(x: torch.Tensor, positions: torch.Tensor, theta: float = 100.0) -> torch.Tensor:
    frequencies = rope_frequencies(x.shape[-1], theta)
    return rope(x, *rope_angles(positions, frequencies, x.dtype))


def test_each_pair_is_a_complex_number_that_turns() -> None:
    x, positions = draw(0, 5, 2, 8), torch.tensor([0, 1, 7, 300, 2])
    z = torch.complex(x[..., :4], x[..., 4:])
    angles = positions[:, None].double() * 100.0 ** (-torch.arange(4).double() / 4)
    expected = z * torch.polar(torch.ones_like(angles), angles)[:, None].to(z.dtype)
    torch.testing.assert_close(
        turned(x, positions), torch.cat([expected.real, expected.imag], -1), atol=1e-4, rtol=1e-4
    )


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 200))
def test_products_depend_on_distance_alone(a: int, b: int, shift: int) -> None:
    q, k = draw(1, 1, 1, 6), draw(2, 1, 1, 6)
    near = (turned(q, torch.tensor([a])) * turned(k, torch.tensor([b]))).sum()
    far = (turned(q, torch.tensor([a + shift])) * turned(k, torch.tensor([b + shift]))).sum()
    torch.testing.assert_close(near, far, atol=1e-4, rtol=1e-4)


def test_three_axes_interleave_and_end_in_time() -> None:
    frequencies = rope_frequencies(20, 50.0)
    positions = torch.tensor([[3, 9], [5, 1], [7, 2]])
    cos, sin = rope_angles(positions, frequencies, torch.float32, sections=(6, 2, 2))
    axes = [0, 1, 2, 0, 1, 2, 0, 0, 0, 0]
    for token in range(2):
        for pair, axis in enumerate(axes):
            angle = positions[axis, token] * frequencies[pair]
            both = torch.stack([cos[token, 0], sin[token, 0]]).view(2, 2, 10)[:, :, pair]
            expected = torch.stack([angle.cos(), angle.cos(), -angle.sin(), angle.sin()])
            torch.testing.assert_close(both.flatten(), expected)


def test_equal_axes_are_plain_positions() -> None:
    frequencies, positions = rope_frequencies(12, 1e4), torch.arange(7)
    plain = rope_angles(positions, frequencies, torch.float32)
    three = rope_angles(positions.expand(3, 7), frequencies, torch.float32, sections=(2, 2, 2))
    assert all(torch.equal(a, b) for a, b in zip(plain, three, strict=True))
