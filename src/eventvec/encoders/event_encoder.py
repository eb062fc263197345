"""The event encoder, which turns raw columns into one vector per event, without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.normalisation import BatchNorm1d
from eventvec.encoders.sentences import SentenceEncoder
from eventvec.errors import ConfigError, nearest
from eventvec.schema import FIRST, Categorical, Schema, check_schema
from eventvec.sequences import Sequences

DAY = 86_400_000_000  # microseconds
PERIODS = {"hour": DAY, "weekday": 7 * DAY, "yearday": round(365.2425 * DAY)}
THURSDAY = 3 * DAY  # time 0, 1970-01-01, counted from a Monday
WIDTH = 32
"""The maximum size of a categorical column's embedding."""
BIN_WIDTH = 8
"""The size of the embedding of a number's bin."""


class EventEncoder(nn.Module):
    """One vector per event: embeddings of codes, scaled and batch-normalised numbers, and features of the time.

    Babaev et al. 2022, Section 3.5. The statistics of batch normalisation are those of the events without padding
    (those of the public code include padding in all scenarios but one). A missing number is replaced by 0 after scaling
    and sets an indicator. The embeddings of missing and unknown codes are initialised to zero. A list column gives the
    sum of the embeddings of its elements, zero for an empty list.

    Args:
        schema: The columns and their scales.
        time: Any of `gap` (log interval since the previous event of the history), `hour`, `weekday` and `yearday` (sine
            and cosine of the position in the day, week and year, in UTC). No feature grows with the date.
        width: Maximum size of a categorical column's embedding; a column of c codes gets ``min(width, ⌈1.6·c^0.56⌉)``.
        widths: The sizes of the embeddings of some categorical or list columns, by name, in place of this rule.
        texts: The backbone that reads the schema's columns of texts, as `SentenceEncoder` takes it. Its weights are
            neither trained nor saved; a linear layer gives `width` numbers for each column.
        batch_norm: Whether numbers are batch-normalised.
        bins: Whether each number also has an embedding of its quantile bin, by the edges in the schema.
        mixing: Size of the vectors of a network that mixes the columns of an event, which a number needs that means
            something else for each category; 0 for no such network.

    Raises:
        ConfigError: If an option does not fit the schema, is unknown or out of range.

    Example:
        >>> events = EventEncoder(Schema("id", "t", "integer"))
        >>> x = Sequences({"gap": torch.tensor([float("nan"), 1.0, 2.0])}, torch.tensor([0]), torch.tensor([3]))
        >>> events(x).shape == (3, events.dim)
        True
    """

    means: Tensor
    deviations: Tensor
    logs: Tensor

    def __init__(
        self,
        schema: Schema,
        time: Sequence[str] = ("gap",),
        width: int = WIDTH,
        batch_norm: bool = True,
        texts: str | None = None,
        bins: bool = False,
        mixing: int = 0,
        widths: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        check_schema(schema)
        _check_widths(schema, widths or {})
        if width < 1 or mixing < 0:
            raise ConfigError(f"width must be at least 1 and mixing at least 0, got width {width}, mixing {mixing}")
        for part in time:
            if part != "gap" and part not in PERIODS:
                raise ConfigError(f"time feature {part!r} is not known; {nearest(part, ['gap', *PERIODS])}")
            if part != "gap" and not schema.clock:
                raise ConfigError(
                    f"time feature {part!r} needs dates or timestamps, got times of kind {schema.time_kind}"
                )
        self.schema, self.time, self.width, self.batch_norm = schema, tuple(time), width, batch_norm
        self.widths = None if widths is None else dict(widths)
        self.categorical = tuple(column.name for column in schema.categorical)
        self.numeric = (*((schema.gap,) if "gap" in time else ()), *schema.numeric)
        self.columns = (*self.categorical, *(column.name for column in self.numeric))
        self.periods = tuple(PERIODS[part] for part in time if part != "gap")
        self.embeddings, self.elements = (
            nn.ModuleList(code_embedding(column, width, (widths or {}).get(column.name)) for column in columns)
            for columns in (schema.categorical, schema.bags)
        )
        self.bags = tuple(column.name for column in schema.bags)
        self.frozen = _frozen(schema, texts)
        self.texts = None if self.frozen is None else self.frozen.backbone
        size = 0 if self.frozen is None else self.frozen.dim
        self.readers = nn.ModuleList(nn.Linear(size, width) for _ in schema.texts)
        scales = [(column.mean, column.std, column.log) for column in self.numeric]
        for name, numbers in zip(("means", "deviations", "logs"), zip(*scales, strict=True), strict=False):
            self.register_buffer(name, torch.tensor(numbers), persistent=False)
        self.norm = BatchNorm1d(len(self.numeric)) if batch_norm and self.numeric else None
        self.bins, self.mixing = bins, mixing
        n_bins = [len(column.edges) + 2 for column in self.numeric] if bins else []
        self.binned = nn.ModuleList(nn.Embedding(count, min(width, BIN_WIDTH)) for count in n_bins)
        tables = (*self.embeddings, *self.elements, *self.binned)
        sizes = [int(table.weight.shape[1]) for table in tables if isinstance(table, nn.Embedding)]
        self.dim = sum(sizes) + width * len(schema.texts) + 2 * len(self.numeric) + 2 * len(self.periods)
        if self.dim == 0:
            raise ConfigError(
                "events have no features; name a categorical or numeric column, or a time feature in `time`"
            )
        self.mix = Mixing(self.dim, mixing) if mixing else nn.Identity()
        self.dim = mixing or self.dim

    def forward(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, float32, in row order."""
        index = x.flat()
        columns = x.select(self.columns)
        parts = [_embedded(code, table) for code, table in zip(columns, self.embeddings, strict=False)]
        raw = columns[len(parts) :]
        for name, table in zip(self.bags, self.elements, strict=True):
            bags = x.columns[name][index]
            assert isinstance(bags, Sequences)
            assert isinstance(table, nn.Embedding)
            first = bags.lengths.cumsum(0) - bags.lengths
            parts.append(F.embedding_bag(bags.values("code").long(), table.weight, first, mode="sum"))
        for column, reader in zip(self.schema.texts, self.readers, strict=True):
            texts = x.columns[column.name][index]
            assert self.frozen is not None
            parts.append(reader(self.frozen(texts)))
        if self.numeric:
            numbers = self._scaled(torch.stack([values.float() for values in raw], 1))
            missing = numbers.isnan()
            numbers = numbers.masked_fill(missing, 0)
            parts += [numbers if self.norm is None else self.norm(numbers), missing.float()]
            parts += [table(column.bins(v)) for table, column, v in zip(self.binned, self.numeric, raw, strict=False)]
        for period in self.periods:
            phase = (x.select(["time"])[0] + THURSDAY) % period
            angle = (phase.double() * (2 * torch.pi / period)).float().unsqueeze(1)
            parts += [angle.sin(), angle.cos()]
        mixed: Tensor = self.mix(torch.cat(parts, 1))
        return mixed

    def _scaled(self, numbers: Tensor) -> Tensor:
        """Return `(total, numeric)` what `Numeric.scale` returns, of all columns at once."""
        if any(logs := [column.log for column in self.numeric]):
            signed = numbers.sign() * numbers.abs().log1p()
            numbers = signed if all(logs) else torch.where(self.logs, signed, numbers)
        return (numbers - self.means) / self.deviations


class Mixing(nn.Module):
    """A residual network across the columns of an event: `h = W x`, then `h + W2 relu(W1 norm(h))`."""

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, dim)
        self.block = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(inplace=True), nn.Linear(dim, dim))

    def forward(self, values: Tensor) -> Tensor:
        """Return `(total, dim)`."""
        h: Tensor = self.first(values)
        out: Tensor = h + self.block(h)
        return out


def _check_widths(schema: Schema, widths: Mapping[str, int]) -> None:
    """Refuse sizes of embeddings that no column has."""
    columns = [column.name for column in (*schema.categorical, *schema.bags)]
    for name, size in widths.items():
        if name not in columns:
            raise ConfigError(f"widths names {name!r}, which is no categorical column; {nearest(name, columns)}")
        if size < 1:
            raise ConfigError(f"widths must be at least 1, got {size} for {name!r}")


def _frozen(schema: Schema, backbone: str | None) -> SentenceEncoder | None:
    """Return the text encoder, or None for a schema without columns of texts."""
    if schema.texts and backbone is None:
        raise ConfigError(
            f"column {schema.texts[0].name!r} of the events holds texts; name the frozen text encoder that reads them: "
            "texts = in [encoder.events] (--set encoder.events.texts=NAME)"
        )
    if backbone is not None and not schema.texts:
        raise ConfigError(
            f"texts is {backbone!r}, but the events have no columns of texts; read some with texts= (--texts)"
        )
    return None if backbone is None else SentenceEncoder(backbone, pooling="mean", prompt="")


def code_embedding(column: Categorical, width: int = WIDTH, exactly: int | None = None) -> nn.Embedding:
    """Return an embedding of a column's codes, zero for missing and unknown ones.

    Args:
        column: The column.
        width: The maximum size, which few codes do not reach.
        exactly: The size, whatever the number of codes.
    """
    table = nn.Embedding(column.size, exactly or min(width, int(-(-1.6 * column.size**0.56 // 1))))
    nn.init.zeros_(table.weight[:FIRST].detach())
    return table


def _embedded(codes: Tensor, table: nn.Module) -> Tensor:
    """Return `(total, size)` the embedding of each code."""
    assert isinstance(table, nn.Embedding)
    return torch.embedding(table.weight, codes if codes.dtype == torch.int32 else codes.long())
