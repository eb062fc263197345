"""From trained encoder and data to one vector per row, in the order of the rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from eventvec.dataset import Dataset
from eventvec.errors import ConfigError, DataError
from eventvec.precision import Precision, products

Progress = Callable[[int, int], None]


def embed(
    encoder: nn.Module,
    data: Dataset,
    *,
    events_per_batch: int = 131_072,
    precision: Precision = "float32",
    progress: Progress | None = None,
) -> Tensor:
    """Return `(n, dim)` float32 embeddings on the CPU, row i for entity i of the data.

    Rows are sorted by length and cut into batches of about so many events, so that memory is bounded by choice and
    little is spent on padding. The encoder runs in evaluation mode, without gradients, where its weights lie.

    Args:
        encoder: `encoder(x) -> (n, dim)`.
        data: the rows.
        events_per_batch: a batch has fewer before its last row is added; a row of as many is a batch of its own.
        precision: of products; bfloat16 is faster and differs by about 0.3 %. A recurrent encoder's states are float32
            in either, and so are its products where they are too small to gain from bfloat16.
        progress: called with rows done and rows in all after each batch.

    Raises:
        ConfigError: `events_per_batch` is below 1, or the precision is not known.
        DataError: an embedding is not finite.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2], "t": [1, 2, 1], "v": [0.5, 1.0, 2.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> ev.embed(ev.GRU(ev.EventEncoder(data.schema), dim=4), data).shape
        torch.Size([2, 4])
    """
    if events_per_batch < 1:
        raise ConfigError(f"events_per_batch is {events_per_batch}; at least 1 is needed")
    device = next((p.device for p in encoder.parameters()), data.sequences.device)
    x = data.sequences.to(device)  # once: windows onto it cost nothing
    order = x.lengths.argsort(descending=True, stable=True)
    lengths = x.lengths[order]
    batch = (lengths.cumsum(0) - lengths) // events_per_batch  # by where a row begins
    sizes = batch.unique_consecutive(return_counts=True)[1].tolist()
    out = torch.empty(len(x), int(encoder.dim))  # type: ignore[arg-type]
    training, done = encoder.training, 0
    encoder.eval()
    try:
        with torch.inference_mode(), products(precision, device):
            for rows in order.split(sizes):
                out[rows.cpu()] = encoder(x[rows]).float().cpu()
                done += len(rows)
                if progress:
                    progress(done, len(x))
    finally:
        encoder.train(training)
    if len(wrong := (~out.isfinite().all(1)).nonzero()):
        raise DataError(
            f"{len(wrong):,} of {len(x):,} embeddings are not finite (first at row {int(wrong[0])}): a value that the "
            "encoder reads is missing or infinite there, or its weights are no numbers; fill in or leave out such rows"
        )
    return out
