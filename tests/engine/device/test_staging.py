"""Numbers on their way to a device."""

from __future__ import annotations

import numpy as np
import torch

from lookhear.engine.device.staging import to_device


def test_numbers_of_a_message_become_a_tensor_of_their_own() -> None:
    """They cannot be written, which torch warns of, and would let happen."""
    message = np.arange(3, dtype=np.float32).tobytes()
    values = np.frombuffer(message, np.float32)
    made = to_device(values, torch.float32, torch.device("cpu"))
    made += 1
    assert made.tolist() == [1, 2, 3] and values.tolist() == [0, 1, 2]
