"""From an encoder and data to one vector per row, in the order of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from eventvec import torchrun
from eventvec.dataset import Dataset, check_dataset, last_time, last_times
from eventvec.encoders.handcrafted import MOMENT
from eventvec.encoders.interface import Encoder, capabilities, check_encoder, evaluating, lineage_of, rows_read
from eventvec.encoders.joined import Joined
from eventvec.errors import ConfigError, DataError, refuse_masked, shown
from eventvec.precision import Precision, exact_cudnn, matmul_precision
from eventvec.sequences import Array, Sequences
from eventvec.tables.embeddings import Embeddings
from eventvec.tables.other_data import check_data
from eventvec.tables.times import Instant, instant
from eventvec.threads import as_many_threads_as_pay

Progress = Callable[[int, int], None]
EVENTS_PER_BATCH = 131_072
LONG = 4096
"""Rows of more events are read in stretches of this many, beside each other."""
OVERFLOWING = 1e18
"""The size from which on a value is named where embeddings are not finite: its square is beyond float32's range."""


def embed(
    encoder: Encoder,
    data: Dataset,
    *,
    normalize: bool = False,
    events_per_batch: int = EVENTS_PER_BATCH,
    precision: Precision = "float32",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Embeddings:
    """Return the embedding of each entity of a data set, with its key and with what the encoder was trained on.

    An `EventvecWarning` says where the data are unlike those that the encoder learned from.

    Relations: `encode` gives the vectors alone, for rows without keys.

    Args:
        encoder: Any encoder, `encoder(x) -> (n, dim)`.
        data: The entities.
        normalize: Whether each embedding is scaled to length 1.
        events_per_batch: As for `encode`.
        precision: As for `encode`.
        threads: As for `encode`.
        progress: As for `encode`.

    Raises:
        ConfigError: If `events_per_batch` or `threads` is below 1, the precision is not known, or the data are not a
            `Dataset`.
        DataError: If an embedding is not finite.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2], "t": [1, 2, 1], "v": [0.5, 1.0, 2.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> z = ev.embed(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4), data)
        >>> z.keys.to_pylist(), z.values.shape, z.events.tolist()
        ([1, 2], (2, 4), [2, 1])
    """
    check_encoder(encoder)
    check_dataset(data)
    record = lineage_of(encoder)
    if record:
        check_data(data, record.data)
    x = (with_moment(data) if capabilities(encoder).reads_moment else data).sequences
    vectors = encode(
        encoder, x, events_per_batch=events_per_batch, precision=precision, threads=threads, progress=progress
    )
    if normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=1)
    return Embeddings.of(data, vectors, {**(record.to_dict() if record else {}), **described_parts(encoder)})


def described_parts(encoder: Encoder) -> dict[str, Any]:
    """Return entries of the metadata of embeddings: the place of each part of an encoder in `parts`, and `names`.

    Args:
        encoder: Any encoder; the result is empty for one that is not `Joined`.

    Example:
        >>> import eventvec as ev
        >>> timing = ev.encoders.RunningHandcrafted(ev.Schema("id", "t", "date"))
        >>> described_parts(ev.encoders.Joined({"timing": timing}))
        {'parts': {'timing': [0, 7]}}
    """
    if not isinstance(encoder, Joined):
        return {}
    parts = {"parts": {name: list(place) for name, place in encoder.parts.items()}}
    return {**parts, "names": list(encoder.names)} if encoder.names else parts


def encode(
    encoder: Encoder,
    x: Sequences,
    *,
    events_per_batch: int = EVENTS_PER_BATCH,
    precision: Precision = "float32",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Return `(n, dim)` float32 vectors on the CPU, one per row, in the order of the rows.

    Rows are sorted by length and cut into batches of about as many events, so memory is bounded by choice and
    little is spent on padding. The encoder runs in evaluation mode, without gradients, on the device of its weights.

    Of an encoder without a state, each row is its latest events, as many as the encoder's `latest` says, if it has one.

    Rows that begin at the same event are one history at several times. An encoder that continues from a state reads
    such a history once, from each of the times to the next. It reads rows of more than 4,096 events in stretches of as
    many, side by side, because a step takes about as long for many rows as for one.

    Relations: `embed` keeps the keys and the origin beside the vectors.

    Args:
        encoder: Any encoder, `encoder(x) -> (n, dim)`.
        x: The rows.
        events_per_batch: A batch has fewer events before its last row is added. A longer row is a batch of its own,
            unless it is read in stretches.
        precision: The precision of matrix products; bfloat16 is faster and differs by about 0.3 %. The states of a
            recurrent encoder stay float32, and so do products that are too small to gain from bfloat16. A CPU without
            instructions for bfloat16 refuses it.
        threads: The number of threads of the CPU, by default as for `fit`: one for small models.
        progress: Called with the number of rows done and of all rows after each batch.

    Raises:
        ConfigError: If `events_per_batch` or `threads` is below 1, or the precision is not known or not that of this
            CPU.
        DataError: If a vector is not finite, or the encoder does not return one for each row.

    Example:
        >>> import eventvec as ev
        >>> x = Sequences({"gap": torch.arange(3.0)}, torch.tensor([0, 2]), torch.tensor([2, 1]))
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=4)
        >>> encode(encoder, x).shape
        torch.Size([2, 4])
    """
    check_encoder(encoder)
    if not isinstance(x, Sequences):
        raise ConfigError(f"x must be Sequences, got {type(x).__name__}; take data.sequences, or embed(encoder, data)")
    if events_per_batch < 1:
        raise ConfigError(f"events_per_batch must be at least 1, got {events_per_batch}")
    device = next((weight.device for weight in encoder.parameters()), x.device)
    x = rows_read(encoder, x).to(device)  # once: windows onto it cost nothing
    vectors = torch.empty(len(x), int(encoder.dim))
    done = 0
    continues = capabilities(encoder).continues
    in_parts = len(x) > 1 and continues and _share_starts(x)
    parts = (_continued if in_parts else _in_stretches if continues else _whole)(encoder, x, events_per_batch)
    with (
        evaluating(encoder),
        torch.inference_mode(),
        exact_cudnn(),
        matmul_precision(precision, device),
        as_many_threads_as_pay(encoder, threads),
    ):
        for rows, z in parts:
            if len(z) != len(rows):
                raise DataError(
                    f"the encoder returned {len(z):,} vectors for {len(rows):,} rows, but each needs one; a row "
                    "with several targets is predicted by predict(run, events, at=...)"
                )
            vectors[rows.cpu()] = z.float().cpu()
            done += len(rows)
            if progress:
                progress(done, len(x))
    check_finite(vectors, x)
    return vectors


def read_states(encoder: Encoder, x: Sequences, state: Tensor) -> Tensor:
    """Return `(n, dim)` float32 what `encode` does of whole histories, from the states after them.

    Args:
        encoder: An encoder that has a state, in evaluation mode.
        x: The latest events of each history.
        state: The states.
    """
    device = next((weight.device for weight in encoder.parameters()), x.device)
    with torch.inference_mode():
        latest_events = (x.to(device),) if getattr(encoder, "latest", None) is not None else ()
        vectors: Tensor = cast(Any, encoder).read(state.to(device), *latest_events).float().cpu()
    check_finite(vectors, x)
    return vectors


def check_finite(vectors: Tensor, x: Sequences) -> None:
    """Refuse vectors of rows that are not finite, and name the column that is the reason.

    Raises:
        DataError: If a vector is not finite.
    """
    if len(wrong := (~vectors.isfinite().all(1)).nonzero()[:, 0]):
        raise DataError(f"{len(wrong):,} of {len(x):,} embeddings are not finite{_reason(x, wrong.to(x.device))}")


def _reason(x: Sequences, wrong: Tensor) -> str:
    """Return the end of a sentence about embeddings that are not finite: the column of the largest value, or the row.

    Args:
        x: All rows.
        wrong: The rows of these embeddings.
    """
    rows, sizes = x[wrong], dict[str, float]()
    for name, values in rows.columns.items():
        if isinstance(values, Tensor) and values.is_floating_point() and rows.total:
            sizes[name] = float(rows.values(name).nan_to_num(0, torch.inf, torch.inf).abs().max())
    column = max(sizes, key=sizes.__getitem__, default="")
    if column and sizes[column] > OVERFLOWING:
        return (
            f": column {shown(column)} has values of up to {sizes[column]:.3g} there, for which the encoder's numbers "
            "overflow; leave these events out or make the values missing, and the other rows can be embedded"
        )
    return (
        f" (first at row {int(wrong[0])}): a value that the encoder reads is missing or infinite there, or the "
        "encoder's weights are not finite; fill in or leave out these rows"
    )


def batches(lengths: Tensor, events_per_batch: int) -> Iterator[Tensor]:
    """Yield the positions of lengths, in descending order, in batches of about as many events."""
    order = lengths.argsort(descending=True, stable=True)
    events = lengths[order]
    batch = (events.cumsum(0) - events) // events_per_batch  # by the event at which a row begins
    yield from order.split(batch.unique_consecutive(return_counts=True)[1].tolist())


def _whole(encoder: Encoder, x: Sequences, events_per_batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield rows and their vectors, each from all of its events."""
    for rows in batches(x.lengths, events_per_batch):
        yield rows, encoder(x[rows])


def _in_stretches(encoder: Any, x: Sequences, events_per_batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield rows and their vectors; rows of more than `LONG` events are read side by side, in stretches."""
    order = x.lengths.argsort(descending=True, stable=True)
    count = int((x.lengths > LONG).sum())
    for rows in order[:count].split(max(events_per_batch // LONG, 1)) if count else ():
        lengths, state = x.lengths[rows], None
        for at in range(0, int(lengths[0]), LONG):
            n = int((lengths > at).sum())
            part = x.slice(rows[:n], torch.full_like(rows[:n], at), (lengths[:n] - at).clamp(max=LONG))
            if state is None:
                state = encoder.state(part)
            else:
                state = torch.cat([encoder.state(part, state[:n]), state[n:]])
        yield rows, encoder.read(state)
    short = order[count:]
    for rows, vectors in _whole(encoder, x[short], events_per_batch):
        yield short[rows], vectors


def _share_starts(x: Sequences) -> bool:
    """Return whether two rows with events begin at the same event."""
    starts = x.starts[x.lengths > 0]
    return len(starts.unique()) < len(starts)


def _continued(encoder: Any, x: Sequences, events_per_batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield rows and their vectors, each from the state of the next shorter row that begins at the same event."""
    histories = x.starts.unique(return_inverse=True)[1]
    order = (x.lengths.argsort(stable=True))[histories[x.lengths.argsort(stable=True)].argsort(stable=True)]
    counts = histories.bincount()
    firsts = counts.cumsum(0) - counts  # places in `order`
    longest = x.lengths[order[firsts + counts - 1]]
    for batch in batches(longest, events_per_batch):
        batch = batch[counts[batch].argsort(descending=True, stable=True)]
        state, ends = None, torch.zeros_like(batch)
        for k in range(int(counts[batch[0]])):
            n = int((counts[batch] > k).sum())  # histories with a row of this rank
            rows = order[firsts[batch[:n]] + k]
            ends = ends[:n]
            part = x.slice(rows, ends, x.lengths[rows] - ends)
            state = encoder.state(part, None if state is None else state[:n])
            ends = x.lengths[rows]
            yield rows, encoder.read(state)


def with_moment(data: Dataset, moment: Instant | Tensor | Array | None = None) -> Dataset:
    """Return the data with each entity's moment of prediction as a static value, from which hand-crafted features read.

    The moment is one time for all entities, or `(n,)` numbers in the unit of the column `time`. By default, it is the
    time at which the events were cut: `until`, each entity's cutoff, or the earlier of the two. Without a cut, it is
    the last event of the data, which must then be a whole table.
    """
    check_dataset(data)
    x = data.sequences
    if moment is None:
        moments = _recorded(data)
    elif isinstance(moment, Tensor | np.ndarray):
        moments = _listed(data, moment)
    else:
        moments = _one(data, instant(data.schema, moment))
    moments = moments.to(x.device)
    if later := int(((last_times(x) > moments) & (x.lengths > 0)).sum()):
        raise DataError(
            f"{later:,} of {len(data):,} entities have events after the moment of prediction; "
            "cut their histories there, with until= or cutoffs="
        )
    return replace(data, sequences=replace(x, static={**x.static, MOMENT: moments}))


def _recorded(data: Dataset) -> Tensor:
    """Return `(n,)` the times at which the data were cut, or the time of the last event."""
    cuts = [] if data.moments is None else [torch.from_numpy(data.moments)]
    if data.origin.until is not None:
        cuts.append(_one(data, instant(data.schema, data.origin.until)))
    if cuts:
        return torch.stack(cuts).amin(0)
    return _one(data, last_time(data.sequences) or 0)


def _one(data: Dataset, moment: float) -> Tensor:
    kind = torch.float64 if data.schema.time_kind == "float" else torch.int64
    return torch.full((len(data),), moment, dtype=kind)


def _listed(data: Dataset, moments: Tensor | Array) -> Tensor:
    """Return one moment for each entity, which a caller gave."""
    refuse_masked(moments, "the moments of prediction")
    listed = moments.cpu().numpy() if isinstance(moments, Tensor) else moments
    if listed.shape != (len(data),) or listed.dtype.kind not in "iuf":
        raise ConfigError(
            f"the moments of prediction must be {len(data)} numbers in the unit of the times, one for each entity, "
            f"got {listed.dtype} of shape {listed.shape}"
        )
    if not np.isfinite(listed).all():
        raise ConfigError(f"the moments of prediction must be finite, got {listed[~np.isfinite(listed)][0]}")
    integers = listed.dtype.kind != "f" and data.schema.time_kind != "float"
    return torch.from_numpy(listed.astype(np.int64 if integers else np.float64))


def choose_device(name: torch.device | str) -> torch.device:
    """Return the device of a name; `auto` is a GPU if there is one.

    For each of several processes on a machine, `auto` and `cuda` are another GPU.
    """
    if str(name) in ("auto", "cuda") and torchrun.launched() and (count := torch.cuda.device_count()):
        return torch.device("cuda", torchrun.local_rank() % count)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with warnings.catch_warnings(action="ignore"):
            one = torch.ones((), device=name)
            one.item()  # fails on devices that torch knows but that hold no numbers, such as meta
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        raise ConfigError(f"device {str(name)!r} cannot be used here{_no_gpu(name)}; see: eventvec doctor") from error
    return one.device


def _no_gpu(name: torch.device | str) -> str:
    """Return why a GPU of Nvidia or AMD cannot be used, after a colon; nothing for other devices."""
    if not str(name).startswith("cuda"):
        return ""
    if not torch.backends.cuda.is_built():
        return f": torch {torch.__version__} is built for CPUs only; install one for GPUs, or choose cpu or auto"
    if not torch.cuda.is_available():
        return ": torch sees no GPU, or no driver of one; choose cpu or auto"
    return f": torch sees {torch.cuda.device_count():,} GPUs, of which cuda:0 is the first; choose another, cpu or auto"
