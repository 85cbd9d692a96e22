"""Triton's interpreter for the kernels, unless a GPU's suite says otherwise (TRITON_INTERPRET=0).

Here and not beside the kernels' tests: Triton reads the variable when it is first imported, and
some libraries import it.
"""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
