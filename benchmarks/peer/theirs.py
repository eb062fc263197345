"""The tasks of pytorch-lifestream, through its public classes, in the environment that `make peer` makes.

Version 0.7.0 cannot import its preprocessing: the package's `__init__` loads a Dask preprocessor, which is missing from
the release, and a Spark preprocessor, which needs Spark. The pandas preprocessor, which its README and notebooks use on
one machine, needs neither; here it is imported without that `__init__`. Nothing that is measured is changed.
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

from benchmarks.peer import shared_inputs as data
from benchmarks.peer.worker import Task, repeated, serve

_spec = importlib.util.find_spec("ptls")
assert _spec is not None
assert _spec.origin is not None
_package = types.ModuleType("ptls.preprocessing")
_package.__path__ = [str(Path(_spec.origin).parent / "preprocessing")]
sys.modules["ptls.preprocessing"] = _package

from ptls.data_load.datasets import MemoryMapDataset, inference_data_loader  # noqa: E402
from ptls.frames import PtlsDataModule  # noqa: E402
from ptls.frames.coles import ColesDataset, CoLESModule  # noqa: E402
from ptls.frames.coles.losses import ContrastiveLoss  # noqa: E402
from ptls.frames.coles.sampling_strategies import HardNegativePairSelector  # noqa: E402
from ptls.frames.coles.split_strategy import SampleSlices  # noqa: E402
from ptls.nn import RnnSeqEncoder, TrxEncoder  # noqa: E402
from ptls.preprocessing.pandas.pandas_preprocessor import PandasDataPreprocessor  # noqa: E402


def preprocessing(path: str) -> Task:
    """Return the task of reading a table from its file into records for training, including the fit of codes."""
    categorical, numeric = data.kinds(path)

    def run() -> None:
        preprocessor = PandasDataPreprocessor(
            col_id="card", col_event_time="time", event_time_transformation="none", cols_category=categorical,
            cols_numerical=numeric, return_records=True,
        )  # fmt: skip
        preprocessor.fit_transform(pd.read_parquet(path))

    return repeated(run)


def sampling(path: str, entities: int) -> Task:
    """Return the task of drawing entities and five padded slices of each by the data loader, without workers."""
    splitter = SampleSlices(split_count=data.SLICES, cnt_min=data.SHORTEST, cnt_max=data.LONGEST)
    dataset = ColesDataset(MemoryMapDataset(records(path)), splitter)
    loader = PtlsDataModule(train_data=dataset, train_batch_size=entities, train_drop_last=True).train_dataloader()

    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    endless = batches()
    return repeated(lambda: next(endless))


def loss(rows: int, dim: int) -> Task:
    """Return the task of mining hard negatives and a forward and backward pass of the contrastive loss."""
    z, source = torch.from_numpy(data.vectors(rows, dim)).requires_grad_(), torch.arange(rows) // data.SLICES
    contrastive = ContrastiveLoss(margin=0.5, sampling_strategy=HardNegativePairSelector(neg_count=5))

    def run() -> None:
        z.grad = None
        contrastive(z, source).backward()

    return repeated(run)


def training(path: str, entities: int, hidden: int, precision: str) -> Task:
    """Return the task of optimiser steps of the CoLES module on the same windows.

    Args:
        path: the table.
        entities: number of entities in the batch.
        hidden: size of the recurrent layer.
        precision: torch's float32 matmul precision: `highest`, its default, or `medium`, which uses oneDNN.
    """
    module = _module(hidden)
    batch, source = ColesDataset.collate_fn(_slices(records(path)[:entities]))
    optimizer = module._optimizer_partial(module.parameters())

    def run() -> None:
        torch.set_float32_matmul_precision(precision)
        optimizer.zero_grad()
        value = module._loss(*module.shared_step(batch, source))
        value.backward()
        optimizer.step()

    return repeated(run)


def embedding(path: str, entities: int, hidden: int, precision: str, batch: int | None = None) -> Task:
    """Return the task of embedding whole histories by the inference loader, at its default batch size if not given."""
    encoder, rows = _module(hidden).seq_encoder.eval(), records(path)[:entities]
    loader = inference_data_loader(rows, **({} if batch is None else {"batch_size": batch}))

    @torch.no_grad()
    def run() -> None:
        torch.set_float32_matmul_precision(precision)
        torch.cat([encoder(part) for part in loader])

    return repeated(run)


def with_weights(path: str, entities: int, weights: dict[str, Any]) -> dict[str, Any]:
    """Return the embeddings of the windows and their loss with the other side's weights."""
    hidden = len(weights["cell"]["weight_hh_l0"][0])
    module = _module(hidden).eval()
    cell, table = module.seq_encoder.seq_encoder.rnn, module.seq_encoder.trx_encoder.embeddings["code"].weight
    with torch.no_grad():
        for name, value in weights["cell"].items():
            getattr(cell, name).copy_(torch.tensor(value))
        # Inputs here: the code, a number that is set to 0, the amount. There: the code, the amount, its indicator.
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
    """Return the records of a sorted table as the preprocessor would, but faster; codes stay as they are, from 1."""
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


TASKS = {
    "preprocessing": preprocessing, "sampling": sampling, "loss": loss, "training": training, "embedding": embedding,
}  # fmt: skip
ANSWERS = {"with_weights": with_weights, "gradient": gradient}

if __name__ == "__main__":
    serve(TASKS, ANSWERS)
