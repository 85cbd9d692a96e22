"""What the C library does with freed memory, and how many compiled products are kept.

A step's temporaries are megabytes that live for a millisecond. By default glibc gives them back to
the kernel and gets them anew, zeroed, page by page: 3,000 page faults and a tenth of the time for
one picture of 1,024 patches.

On a CPU oneDNN compiles an operation for every shape that it meets, and it and torch keep 1,024
each: a gigabyte, once several people have spoken.
"""

from __future__ import annotations

import ctypes
import os
import sys

# mallopt's parameters (man 3 mallopt) and what they are set to. The first is the greatest allowed.
M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES = -3, 32 * 2**20
M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES = -1, 256 * 2**20


# https://uxlfoundation.github.io/oneDNN/dev_guide_primitive_cache.html, and torch's own beside it.
PRODUCTS, CAPACITIES = 512, ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def keep_fewer_products() -> None:
    """To be called before torch is imported. What the environment says already is left alone."""
    for name in CAPACITIES:
        os.environ.setdefault(name, str(PRODUCTS))


def keep_freed_memory() -> bool:
    """Gives back what is free, which loading a checkpoint leaves behind, and lets this process keep
    up to 256 MiB of what is freed from now on for its next allocations. Returns whether its C
    library can do that; nothing changes if not."""
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    mallopt = getattr(library, "mallopt", None)
    if mallopt is None:  # not glibc
        return False
    library.malloc_trim(0)
    settings = (
        (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
    )
    return all(mallopt(parameter, size) == 1 for parameter, size in settings)
