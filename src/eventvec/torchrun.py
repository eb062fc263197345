"""What torchrun tells a process that it starts, from the variables that it sets; training is in `distributed`."""

from __future__ import annotations

import os


def launched() -> bool:
    """Return whether torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "MASTER_ADDR" in os.environ


def local_rank() -> int:
    """Return the number of this process on its machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))
