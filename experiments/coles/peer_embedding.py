"""Embeddings of pytorch-lifestream's CoLES, from the events of a data set of eventvec."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import eventvec as ev
from eventvec.errors import ConfigError
from eventvec.sequences import Array

LIFESTREAM = Path(__file__).parents[2] / ".venv-peer/bin/python"
"""The interpreter of pytorch-lifestream's environment."""


def peer_embedding(
    data: ev.Dataset, trained_on: Array, settings: Mapping[str, Any], folder: Path, **events: Any
) -> Array:
    """Return `(n, dim)` the embeddings of all entities; from the folder, if they are there already.

    The peer gets the columns in the form in which eventvec's event encoder sees them: codes, scaled numbers with 0
    where missing, and the scaled logarithm of the gap.

    Args:
        data: The entities.
        trained_on: The positions of the entities to train on.
        settings: `count`, `shortest` and `longest` of the slices, and `dim`, `epochs`, `batch_size`, `lr` and `seed`.
        folder: Where the arrays for the peer and its embeddings are written.
        events: The options of the event encoder, of which the peer gets the sizes of its embeddings.

    Raises:
        ConfigError: If pytorch-lifestream is not installed.
    """
    if (folder / "z.npy").exists():
        return np.asarray(np.load(folder / "z.npy"))
    if not LIFESTREAM.exists():
        raise ConfigError("pytorch-lifestream is not installed; make its environment: make peer")
    x = data.sequences
    encoded = ev.encoders.EventEncoder(data.schema, **events)
    fields = {name: table.weight.shape[1] for name, table in zip(encoded.categorical, encoded.embeddings, strict=True)}
    whole = x.take(x.flat(), x.lengths)
    columns = {name: whole.values(name).numpy() for name in fields}
    numbers = {f.name: f.scale(whole.values(f.name).float()) for f in data.schema.numeric}
    numbers["gap"] = data.schema.gap.scale(whole.values("gap").float())
    columns |= {name: values.nan_to_num(0).numpy() for name, values in numbers.items()}
    (folder / "columns").mkdir(parents=True, exist_ok=True)
    for name, values in {**columns, "event_time": np.arange(whole.total)}.items():
        np.save(folder / "columns" / f"{name}.npy", values)
    np.save(folder / "starts.npy", (whole.lengths.cumsum(0) - whole.lengths).numpy())
    np.save(folder / "lengths.npy", whole.lengths.numpy())
    np.save(folder / "seen.npy", np.isin(np.arange(len(whole)), trained_on))
    sizes = {name: {"in": int(columns[name].max()) + 1, "out": dim} for name, dim in fields.items()}
    content = {**settings, "embeddings": sizes, "numeric": list(numbers)}
    (folder / "settings.json").write_text(json.dumps(content))
    subprocess.run([LIFESTREAM, Path(__file__).with_name("lifestream.py"), folder], check=True)
    return np.asarray(np.load(folder / "z.npy"))
