"""The works of pytorch-lifestream, through its public classes. Runs in its own environment, which `make peer` makes.

Version 0.7.0 cannot import its preprocessing: the package's `__init__` loads a Dask and a Spark preprocessor, of which
the first is absent from the release and the second needs Spark. The pandas preprocessor, which is what its README and
notebooks use on one machine, needs neither: here its folder is entered without that `__init__`. Nothing of what is
measured is changed.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from benchmarks.peer import data
from benchmarks.peer.worker import Work, repeated, serve

_found = importlib.util.find_spec("ptls")
assert _found is not None
assert _found.origin is not None
_package = types.ModuleType("ptls.preprocessing")
_package.__path__ = [str(Path(_found.origin).parent / "preprocessing")]
sys.modules["ptls.preprocessing"] = _package

from ptls.data_load.datasets import MemoryMapDataset, inference_data_loader  # noqa: E402
from ptls.frames import PtlsDataModule  # noqa: E402
from ptls.frames.coles import ColesDataset, CoLESModule  # noqa: E402
from ptls.frames.coles.losses import ContrastiveLoss  # noqa: E402
from ptls.frames.coles.sampling_strategies import HardNegativePairSelector  # noqa: E402
from ptls.frames.coles.split_strategy import SampleSlices  # noqa: E402
from ptls.nn import RnnSeqEncoder, TrxEncoder  # noqa: E402
from ptls.preprocessing.pandas.pandas_preprocessor import PandasDataPreprocessor  # noqa: E402


def preprocessing(path: str) -> Work:
    """Read a table from the file to the records that training takes, codes fitted on the way."""
    categorical, numeric = data.kinds(path)

    def run() -> None:
        preprocessor = PandasDataPreprocessor(
            col_id="card", col_event_time="time", event_time_transformation="none", cols_category=categorical,
            cols_numerical=numeric, return_records=True,
        )  # fmt: skip
        preprocessor.fit_transform(pd.read_parquet(path))

    return repeated(run)


def sampling(path: str, entities: int) -> Work:
    """Draw entities and five slices of each through the data loader, without worker processes, padded."""
    splitter = SampleSlices(split_count=data.SLICES, cnt_min=data.SHORTEST, cnt_max=data.LONGEST)
    dataset = ColesDataset(MemoryMapDataset(records(path)), splitter)
    loader = PtlsDataModule(train_data=dataset, train_batch_size=entities, train_drop_last=True).train_dataloader()

    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    endless = batches()
    return repeated(lambda: next(endless))


def loss(rows: int, dim: int) -> Work:
    """Mine hard negatives, and take the contrastive loss forward and backward."""
    z, source = torch.from_numpy(data.vectors(rows, dim)).requires_grad_(), torch.arange(rows) // data.SLICES
    contrastive = ContrastiveLoss(margin=0.5, sampling_strategy=HardNegativePairSelector(neg_count=5))

    def run() -> None:
        z.grad = None
        contrastive(z, source).backward()

    return repeated(run)


def training(path: str, entities: int, hidden: int, how: str) -> Work:
    """Take optimiser steps of the CoLES module, on the same windows each time.

    `mended` is the module with one line more, the float32 precision that lets products go through oneDNN.
    """
    module = _module(hidden)
    batch, source = ColesDataset.collate_fn(_slices(records(path)[:entities]))
    optimizer = module._optimizer_partial(module.parameters())

    def run() -> None:
        torch.set_float32_matmul_precision("medium" if how == "mended" else "highest")
        optimizer.zero_grad()
        value = module._loss(*module.shared_step(batch, source))
        value.backward()
        optimizer.step()

    return repeated(run)


def embedding(path: str, entities: int, hidden: int, how: str, batch: int | None = None) -> Work:
    """Embed whole histories through its inference loader, at its default batch size if none is given."""
    encoder, given = _module(hidden).seq_encoder.eval(), records(path)[:entities]
    loader = inference_data_loader(given, **({} if batch is None else {"batch_size": batch}))

    @torch.no_grad()
    def run() -> None:
        torch.set_float32_matmul_precision("medium" if how == "mended" else "highest")
        torch.cat([encoder(part) for part in loader])

    return repeated(run)


def with_weights(path: str, entities: int, weights: dict[str, Any]) -> dict[str, Any]:
    """Return what this side's encoder and loss make of the windows with the other side's weights."""
    hidden = len(weights["cell"]["weight_hh_l0"][0])
    module = _module(hidden).eval()
    cell, table = module.seq_encoder.seq_encoder.rnn, module.seq_encoder.trx_encoder.embeddings["code"].weight
    with torch.no_grad():
        for name, value in weights["cell"].items():
            getattr(cell, name).copy_(torch.tensor(value))
        # Here: the code, one number that is made 0, the amount. There: the code, the amount, whether it is missing.
        cell.weight_ih_l0.copy_(cell.weight_ih_l0[:, [*range(data.CODE), data.CODE + 1, data.CODE]])
        table.zero_()
        table[torch.tensor(weights["values"]), : data.CODE] = torch.tensor(weights["table"])
        module.seq_encoder.seq_encoder.starter_h.zero_()
        batch, source = ColesDataset.collate_fn(_slices(records(path)[:entities]))
        z = module(batch)
        value = module._loss(module._head(z), source)
    return {"z": z.tolist(), "loss": float(value)}


def gradient(rows: int, dim: int) -> dict[str, Any]:
    """Return the loss of the shared vectors and its gradient."""
    z = torch.from_numpy(data.vectors(rows, dim)).requires_grad_()
    contrastive = ContrastiveLoss(margin=0.5, sampling_strategy=HardNegativePairSelector(neg_count=5))
    value = contrastive(z, torch.arange(rows) // data.SLICES)
    value.backward()
    return {"loss": float(value), "gradient": z.grad.tolist()}


def records(path: str) -> list[dict[str, torch.Tensor]]:
    """Return a sorted table as the preprocessor would, but quickly; codes are their own numbers, from 1."""
    table = pd.read_parquet(path)
    columns = {"event_time": "time", "code": "code", "amount": "amount"}
    tensors = {name: torch.from_numpy(table[column].to_numpy(copy=True)) for name, column in columns.items()}
    lengths = table.groupby("card").size().tolist()
    split = {name: values.split(lengths) for name, values in tensors.items()}
    return [dict(zip(split, row, strict=True)) for row in zip(*split.values(), strict=True)]


def _slices(rows: list[dict[str, torch.Tensor]]) -> list[list[dict[str, torch.Tensor]]]:
    cut, parts = data.windows(len(rows), len(rows[0]["code"])), [list[Any]() for _ in rows]
    for source, offset, length in zip(*cut, strict=True):
        parts[source].append({name: values[offset : offset + length] for name, values in rows[source].items()})
    return parts


def _module(hidden: int) -> CoLESModule:
    torch.manual_seed(0)
    events = TrxEncoder(
        embeddings={"code": {"in": data.CODES + 2, "out": data.WIDTH - 1}}, numeric_values={"amount": "log"}
    )
    encoder = RnnSeqEncoder(trx_encoder=events, hidden_size=hidden, type="gru")
    return CoLESModule(
        encoder,
        optimizer_partial=partial(torch.optim.Adam, lr=1e-3),
        lr_scheduler_partial=partial(torch.optim.lr_scheduler.StepLR, step_size=30, gamma=0.9),
    )


WORKS = {
    "preprocessing": preprocessing, "sampling": sampling, "loss": loss, "training": training, "embedding": embedding,
}  # fmt: skip
ANSWERS = {"with_weights": with_weights, "gradient": gradient}

if __name__ == "__main__":
    serve(WORKS, ANSWERS)
