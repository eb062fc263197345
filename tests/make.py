"""Builders of small schemas, rows, data sets and encoders for tests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from eventvec.dataset import Dataset
from eventvec.encoders import (
    GRU,
    LSTM,
    EventEncoder,
    PaperTransformer,
    ResidualNetwork,
    SetEncoder,
    TemporalConvolution,
    Transformer,
)
from eventvec.schema import Categorical, Numeric, Schema, Vector
from eventvec.sequences import Sequences

ALL_TIMES = ("gap", "hour", "weekday", "yearday")
ENCODERS = ("gru", "lstm", "resnet", "set", "tcn", "transformer", "transformer_paper")


def schema(codes: int = 4, kind: str = "timestamp") -> Schema:
    """Return a schema with one column of each kind."""
    values = tuple(f"v{i}" for i in range(codes))
    return Schema(
        key="id",
        time="at",
        time_kind=kind,
        time_zone=None,
        categorical=(Categorical("code", values),),
        numeric=(Numeric("amount", log=True, mean=0.5, std=2.0),),
        gap=Numeric("gap", log=True, mean=1.0, std=1.5),
        static=(
            Categorical("kind", ("k0", "k1", "k2")),
            Numeric("level", log=False, mean=1.0, std=2.0),
            Vector("profile", (0.0, 1.0), (1.0, 0.5)),
        ),
    )


def sequences(lengths: list[int], seed: int = 0, spare: int = 2) -> Sequences:
    """Return rows of these lengths, in random order in the columns, with `spare` unused events before each row."""
    rng = np.random.default_rng(seed)
    sizes = torch.tensor(lengths, dtype=torch.int64)
    total = int(sizes.sum()) + spare * (len(lengths) + 1)
    starts = torch.zeros(len(lengths), dtype=torch.int64)
    order = torch.from_numpy(rng.permutation(len(lengths))).long()
    starts[order] = (sizes[order] + spare).cumsum(0) - sizes[order]
    amount = rng.normal(0, 20, total).astype(np.float32)
    amount[rng.random(total) < 0.2] = np.nan
    gap = rng.exponential(3600, total).astype(np.float32)
    gap[starts[sizes > 0].numpy()] = np.nan
    columns = {
        "time": torch.from_numpy(rng.integers(0, 10**9, total).cumsum()) * 10**6,
        "gap": torch.from_numpy(gap),
        "code": torch.from_numpy(rng.integers(0, 6, total).astype(np.int32)),
        "amount": torch.from_numpy(amount),
    }
    return Sequences(columns, starts, sizes, {"row": torch.arange(len(lengths)), **static(len(lengths), rng)})


def static(n: int, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """Return values of the schema's static columns; some are missing, and some of `kind` are unknown."""
    level, profile = rng.normal(1, 2, n).astype(np.float32), rng.normal(0, 1, (n, 2)).astype(np.float32)
    level[rng.random(n) < 0.2] = np.nan
    profile[rng.random(n) < 0.2] = np.nan
    kind = rng.integers(0, 5, n).astype(np.int32)
    return {"kind": torch.from_numpy(kind), "level": torch.from_numpy(level), "profile": torch.from_numpy(profile)}


def dataset(lengths: list[int], seed: int = 0) -> Dataset:
    """Return the rows of `sequences` with integer keys that differ from the row numbers."""
    keys = pa.array([1000 + 7 * i for i in range(len(lengths))], pa.int64())
    return Dataset(keys, sequences(lengths, seed), schema())


def encoder(
    name: str, dim: int = 8, layers: int = 1, seed: int = 0, read_out: tuple[str, ...] = (), **events: object
) -> torch.nn.Module:
    """Return a small encoder in evaluation mode, with random weights, running statistics and start state."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoded = EventEncoder(schema(), **{"time": ALL_TIMES, **events})
        kinds = {"gru": GRU, "lstm": LSTM, "set": SetEncoder, "tcn": TemporalConvolution, "transformer": Transformer}
        kinds |= {"resnet": ResidualNetwork}
        kinds["transformer_paper"] = PaperTransformer
        sizes = {
            "transformer": {"heads": 2, "longest": 6},
            "set": {"heads": 2},
            "tcn": {"width": 8},
            "resnet": {"width": 4},
        }
        small = {**sizes.get(name, {}), **({} if name == "resnet" else {"layers": layers})}
        small |= {"read_out": read_out} if read_out else {}
        module = kinds[name](encoded, dim=dim, **small)
        for weight in module.parameters():
            torch.nn.init.normal_(weight, std=0.4)
        if encoded.norm is not None:
            torch.nn.init.uniform_(encoded.norm.running_var, 0.5, 2.0)
            torch.nn.init.normal_(encoded.norm.running_mean)
    return module.eval()


def elsewhere(x: Sequences, seed: int = 1) -> Sequences:
    """Return the same rows, with every event outside the rows replaced by another one."""
    inside = torch.zeros(len(x.columns["time"]), dtype=torch.bool)
    inside[x.flat()] = True
    rng = torch.Generator().manual_seed(seed)
    columns = {}
    for name, values in x.columns.items():
        order = torch.randperm(len(values), generator=rng)
        if isinstance(values, Sequences):
            columns[name] = values[torch.where(inside, torch.arange(len(values)), order)]
            continue
        other = values[order] * 3 + 1
        if name == "code":
            other = (values + 1 + torch.randint(0, 4, values.shape, generator=rng)) % 6
        if name in ("gap", "amount"):
            other = torch.full_like(values, 1e6)
        mask = inside.view(-1, *[1] * (values.dim() - 1))
        columns[name] = torch.where(mask, values, other.to(values.dtype))
    return Sequences(columns, x.starts, x.lengths, x.static)
