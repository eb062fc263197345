"""What an encoder has been trained on: the runs behind it, their labels and the entities that they held out.

`fit` and `load` attach it to the encoder, so that it follows the encoder into fine-tuning and into embeddings files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from eventvec.encoders.interface import Encoder


@dataclass(frozen=True)
class Lineage:
    """The runs that trained an encoder.

    Args:
        run: The id of the last run.
        labels: The static columns that any of the runs learned from.
        holdouts: For each run, the earliest first: its id (`run`), the `fraction` held out (or None), the `seed` of
            that choice and the `fingerprint` of the data.
        path: The folder of the last run, if it has one.
    """

    run: str
    labels: tuple[str, ...]
    holdouts: tuple[Mapping[str, Any], ...]
    path: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, the entries about the encoder in the metadata of a file."""
        return {"run": self.run, "labels": list(self.labels), "holdouts": [dict(holdout) for holdout in self.holdouts]}


def lineage_of(encoder: Any) -> Lineage | None:
    """Return what an encoder, or a part of it, has been trained on; None if that is not known."""
    modules = encoder.modules() if isinstance(encoder, nn.Module) else ()
    return next((vars(module)["_lineage"] for module in modules if "_lineage" in vars(module)), None)


def attach_lineage(encoder: Encoder | nn.Module, record: Lineage) -> None:
    """Record on an encoder what it has been trained on."""
    vars(encoder)["_lineage"] = record
