"""When each token and word was said, from the attention of a checkpoint's alignment heads.

Method and constants of openai/whisper `timing.py`: normalise each head over the tokens, smooth over
time, average the heads, and walk the cheapest monotonic path (dynamic time warping).
"""

from __future__ import annotations

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
    normal = (weights - weights.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-10)
    smooth = median_filter(normal.astype(np.float32), MEDIAN_WIDTH)
    # One prompt token stays in front and the end token is left out, as in the source: the token at
    # row i attends to what it will say next, so text token j is read at row num_prompt - 1 + j.
    matrix = smooth.mean(axis=0)[num_prompt - 1 : num_prompt + num_text]
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
    windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    middle: Floats = np.median(windows, axis=-1).astype(np.float32)
    return middle


def warp(cost: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cheapest path from the first to the last corner of [rows, columns] by steps down, right
    or both. Returns the row and column of each cell on it.

    Cells of one anti-diagonal depend on the two before only, so each is one vector operation.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf, dtype=np.float32)  # as in the source
    step = np.zeros((rows + 1, columns + 1), dtype=np.int8)  # 0 both, 1 down, 2 right
    total[0, 0] = 0.0
    step[0, :], step[:, 0] = 2, 1
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        before = np.stack([total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]])
        # As in the source: a diagonal step must be strictly cheapest, then a step down.
        best = np.where(
            (before[0] < before[1]) & (before[0] < before[2]),
            0,
            np.where((before[1] < before[0]) & (before[1] < before[2]), 1, 2),
        )
        step[i, j] = best
        total[i, j] = cost[i - 1, j - 1] + before[best, np.arange(len(i))]
    i_at, j_at = rows, columns
    path = []
    while i_at > 0 or j_at > 0:
        path.append((i_at - 1, j_at - 1))
        move = step[i_at, j_at]
        i_at -= move != 2
        j_at -= move != 1
    path.reverse()
    cells = np.array(path, dtype=np.int64)
    return cells[:, 0], cells[:, 1]
