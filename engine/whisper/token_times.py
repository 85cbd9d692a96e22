"""When each token and word was said, from the attention of a checkpoint's alignment heads.

Method and constants of openai/whisper `timing.py`: normalise each head over the tokens, smooth over
time, average the heads, and walk the cheapest monotonic path (dynamic time warping).
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

SECONDS_PER_POSITION = 0.02  # of audio per encoder position
MEDIAN_WIDTH = 7  # positions

Floats = NDArray[np.float32]


def token_times(
    weights: Floats, num_prompt: int, num_text: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Start and end seconds of text tokens from `WhisperModel.align`.

    weights: [heads, tokens, positions], softmaxed over the positions with real audio, for the
    tokens [prompt.., text.., end]; num_prompt of the first, num_text of the second, and at least
    the end token (or any one token) after them.
    Returns two arrays [num_text]; a token ends where the next begins.
    """
    heads, tokens, positions = weights.shape
    assert tokens > num_prompt + num_text, (weights.shape, num_prompt, num_text)
    if num_text == 0:
        return np.zeros(0), np.zeros(0)
    spread = weights.std(axis=1, keepdims=True)
    # One prompt token stays in front and the end token is left out, as in the source: the token at
    # row i attends to what it will say next, so text token j is read at row num_prompt - 1 + j.
    rows = weights[:, num_prompt - 1 : num_prompt + num_text]
    normal = (rows - weights.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-10)
    matrix = median_filter(normal.astype(np.float32), MEDIAN_WIDTH).mean(axis=0)
    token_path, time_path = warp(-matrix)
    begins = np.flatnonzero(np.diff(token_path, prepend=-1))
    jumps = time_path[begins].astype(np.float64) * SECONDS_PER_POSITION  # [num_text + 1]
    return jumps[:-1], jumps[1:]


def median_filter(x: Floats, width: int) -> Floats:
    """Running median over the last axis, reflected at the edges; width is odd. Same shape."""
    assert width % 2 == 1, width
    pad = width // 2
    if x.shape[-1] <= pad:
        return x
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(pad, pad)], mode="reflect")
    count = x.shape[-1]
    held = [padded[..., place : place + count].copy() for place in range(width)]
    # The largest of those left goes to the end, again and again: half of a sort, in few operations
    # on whole arrays, is twenty times as fast as a median of each seven.
    spare = np.empty_like(x)
    for last in range(width - 1, pad, -1):
        for place in range(last):
            low, high = held[place], held[place + 1]
            held[place] = np.minimum(low, high, out=spare)
            np.maximum(low, high, out=high)
            spare = low
    return reduce(partial(np.maximum, out=spare), held[1 : pad + 1], held[0])


def warp(cost: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cheapest path from the first to the last corner of [rows, columns] by steps down, right
    or both. Returns the row and column of each cell on it.

    Cells of one anti-diagonal depend on the two before only, so each is one vector operation, and
    they are laid out by diagonal: [row + column, row].
    """
    rows, columns = cost.shape
    by_diagonal = _skewed(cost)
    total = np.full((rows + columns + 1, rows + 1), np.inf, np.float32)  # as in the source
    total[0, 0] = 0.0
    least = np.empty(rows, np.float32)
    for diagonal in range(2, rows + columns + 1):
        first, end = max(1, diagonal - columns), min(rows, diagonal - 1) + 1
        both, down, right = _before(total, diagonal, first, end)
        # As in the source: a diagonal step must be strictly cheapest, then a step down.
        found = np.minimum(both, down, out=least[: end - first])
        found[both == down] = np.inf
        np.minimum(found, right, out=found)
        np.add(
            by_diagonal[diagonal - 2, first - 1 : end - 1], found, out=total[diagonal, first:end]
        )
    return _walked(total, rows, columns)


def _skewed(cost: NDArray[np.floating]) -> NDArray[np.floating]:
    """[rows, columns] as [rows + columns - 1, rows]: by diagonal, then row."""
    rows, columns = cost.shape
    padded = np.pad(cost, [(0, 0), (0, rows)])  # each row begins one place behind the one above
    shifted = padded.reshape(-1)[:-rows].reshape(rows, rows + columns - 1)
    return np.ascontiguousarray(shifted.T)


def _before(total: Floats, diagonal: int, first: int, end: int) -> tuple[Floats, Floats, Floats]:
    """Of the cells of a diagonal in rows from first to end: what both steps, a step down and one to
    the right come from."""
    above = slice(first - 1, end - 1)
    return total[diagonal - 2, above], total[diagonal - 1, above], total[diagonal - 1, first:end]


def _walked(total: Floats, rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The path, from its end. total: of the cheapest path to each cell, by diagonal."""
    both, down, right = total[:-2, :-1], total[1:-1, :-1], total[1:-1, 1:]
    is_both, is_down = (both < down) & (both < right), (down < both) & (down < right)
    step = np.where(is_both, 0, np.where(is_down, 1, 2)).astype(np.int8).tobytes()
    i, j = rows, columns
    path = [(i - 1, j - 1)]
    while i > 1 or j > 1:
        # Along an edge there is one way.
        move = 2 if i == 1 else 1 if j == 1 else step[(i + j - 2) * rows + i - 1]
        i -= move != 2
        j -= move != 1
        path.append((i - 1, j - 1))
    path.reverse()
    cells = np.array(path, dtype=np.int64)
    return cells[:, 0], cells[:, 1]
