"""The event encoder of stochastic processes, which turns a point (x, y) into `[g_cov(x), g_obs(y)]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

from eventvec.encoders.event_encoder import code_embedding
from eventvec.encoders.heads import mlp
from eventvec.encoders.interface import Encoder, capabilities
from eventvec.encoders.sinusoidal import side_by_side
from eventvec.errors import ConfigError, DataError, shown
from eventvec.options import each_at_least
from eventvec.schema import Schema
from eventvec.sequences import Sequences

TIME, SECOND = "time", 1_000_000
"""The reserved column of times, and the microseconds of a second."""


@runtime_checkable
class ValueEncoding(Protocol):
    """A `torch.nn.Module` that turns the values of one column into one vector per event, such as `Numbers`."""

    dim: int
    shape: tuple[int, ...]
    """The shape of one value."""

    def __call__(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from values `(events, ...)`."""


Side: TypeAlias = tuple[ValueEncoding | None, nn.ModuleList, tuple[str, ...]]
"""The covariate or the observation: the network of its numbers, the embeddings of its codes, and its columns."""


class Numbers(nn.Module):
    """A covariate or observation network for numbers: the identity, or a network with one hidden layer.

    Args:
        size: How many numbers a value consists of, finite and of order one; `PointEncoder` scales those of a table.
        width: Size of the hidden layer and of the result; the identity if not given.

    Raises:
        ConfigError: If `size` or `width` is below 1.

    Example:
        >>> Numbers(2)(torch.tensor([[1, 2], [3, 4]])).tolist(), Numbers(2, width=16).dim
        ([[1.0, 2.0], [3.0, 4.0]], 16)
    """

    def __init__(self, size: int = 1, width: int | None = None) -> None:
        super().__init__()
        each_at_least(1, size=size, width=width)
        self.size, self.width, self.dim = size, width, width or size
        self.shape: tuple[int, ...] = (size,)
        self.net = mlp(size, width, width) if width else nn.Identity()

    def forward(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from values `(events, size)`, or `(events,)` where the size is 1."""
        out: Tensor = self.net(side_by_side(values, self.size, "values"))
        return out


class PointEncoder(nn.Module):
    """The event encoder of a stochastic process: `[g_cov(x), g_obs(y)]` (Mathieu et al. 2021, Section 3.2).

    The covariate and the observation are one or more columns each: a row of an irregular table (time, parameter, value)
    has the covariates time and parameter and the observation value. Numbers are scaled by the schema and read side by
    side by the network of their side; the embedded codes of categorical columns follow the network's result.

    The covariate `time` is the time since the earliest event of the context, which a target may precede: what a
    prediction knows of the row, and no date. It is in seconds for calendar times, otherwise in the unit of the times,
    and scaled as gaps are. A copy of the time column, named as a numeric column, is not counted from the context.

    All numbers must be finite: rows with others are not `usable`, and encoding them raises an error, except on an
    accelerator, where a check would synchronise the device; `embed` checks its result instead.

    Relations: `EventEncoder` has no covariate, and its time is the gap before the event.

    Args:
        observation: The network g_obs of the numbers; the identity if not given. A side without numbers has none.
        covariate: The network g_cov of the numbers; the identity if not given, as in all experiments of the paper's
            code. `Harmonics` suits angles.
        schema: Has the kinds and the scales of columns of a table. Without it, all columns are numbers, read as they
            are.
        scaled: Whether numbers are scaled by the schema.
        covariates: The columns of the covariate; `time` is the time column.
        observations: The columns of the observation.

    Raises:
        ConfigError: If a side has no column, a column is named twice, `time` is an observation, or a network reads
            another number of columns.

    Example:
        >>> columns = {"x": torch.tensor([0.5, 2.0]), "y": torch.tensor([3.0, 4.0])}
        >>> PointEncoder()(Sequences(columns, torch.tensor([0]), torch.tensor([2]))).tolist()
        [[0.5, 3.0], [2.0, 4.0]]
    """

    def __init__(
        self,
        observation: ValueEncoding | None = None,
        covariate: ValueEncoding | None = None,
        schema: Schema | None = None,
        scaled: bool = True,
        covariates: Sequence[str] = ("x",),
        observations: Sequence[str] = ("y",),
    ) -> None:
        super().__init__()
        _check_names(covariates, observations)
        self.covariates, self.observations = tuple(covariates), tuple(observations)
        self.schema, self.scaled = schema, scaled and schema is not None
        scales = () if schema is None or not scaled else (*schema.numeric, replace(schema.gap, name=TIME))
        self.scales = {field.name: field for field in scales}
        self.codes = {field.name: field for field in (() if schema is None else schema.categorical)}
        self.covariate = _network(covariate, self.numeric(self.covariates), "covariate")
        self.observation = _network(observation, self.numeric(self.observations), "observation")
        self.covariate_codes, self.observation_codes = (
            nn.ModuleList(code_embedding(self.codes[name]) for name in names if name in self.codes)
            for names in (self.covariates, self.observations)
        )
        self.covariate_dim = _size(self.covariate, self.covariate_codes)
        self.observation_dim = _size(self.observation, self.observation_codes)
        self.dim = self.covariate_dim + self.observation_dim

    def numeric(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of some columns that are numbers."""
        return tuple(name for name in names if name not in self.codes)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(total, dim)`, in row order."""
        _need((*self.covariates, *self.observations), x)
        return torch.cat([self.g_cov(x), self.g_obs(x)], 1)

    def g_cov(self, x: Sequences, context: Sequences | None = None, star: str = "") -> Tensor:
        """Return `(total, covariate_dim)` the encoded covariates of events.

        Args:
            x: Rows of events, or of targets.
            context: As many rows, from whose earliest event time is counted; x itself if not given.
            star: What follows the name of a column in messages.
        """
        return self._encoded((self.covariate, self.covariate_codes, self.covariates), x, context, star)

    def g_obs(self, x: Sequences, star: str = "") -> Tensor:
        """Return `(total, observation_dim)` the encoded observations of events; `star` as for `g_cov`."""
        return self._encoded((self.observation, self.observation_codes, self.observations), x, None, star)

    def _encoded(self, side: Side, x: Sequences, context: Sequences | None, star: str) -> Tensor:
        network, tables, names = side
        numbers = [] if network is None else [network(self.numbers(self.numeric(names), x, context, star))]
        codes = [values for name in names if name in self.codes for values in [self.column(name, x)]]
        return torch.cat([*numbers, *(table(code.long()) for table, code in zip(tables, codes, strict=True))], 1)

    def numbers(self, names: Sequence[str], x: Sequences, context: Sequences | None = None, star: str = "") -> Tensor:
        """Return the scaled numbers of columns, `(total, ...)` of one, and side by side `(total, k)` of several."""
        columns = []
        for name in names:
            values = self.column(name, x, context)
            if values.device.type == "cpu" and (count := int((~_finite(values)).sum())):
                raise DataError(
                    f"column {name + star!r} is missing or infinite in {count:,} of {len(values):,} events of this "
                    "batch, but points need every value; fill in the values, or leave out the rows that are not "
                    "`usable`"
                )
            columns.append(self.scales[name].scale(values) if name in self.scales else values)
        return columns[0] if len(columns) == 1 else torch.cat([c.float().reshape(len(c), -1) for c in columns], 1)

    def column(self, name: str, x: Sequences, context: Sequences | None = None) -> Tensor:
        """Return `(total, ...)` a column as it is in the table; time since the earliest event of the context."""
        _need((name,), x)
        values = x.values(name)
        if name != TIME:
            return values
        first = earliest(x if context is None else context)
        return (values - first[x.rows()]).double() / (SECOND if self.schema and self.schema.clock else 1)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows whose numbers are all finite; rows without events need no columns."""
        names = (*self.covariates, *self.observations)
        if not x.total:
            return torch.ones_like(x.lengths, dtype=torch.bool)
        _need(names, x)
        columns = [x.values(name) for name in self.numeric(names)]
        finite = torch.stack([_finite(values) for values in columns] or [torch.ones_like(x.rows()).bool()]).all(0)
        return torch.zeros_like(x.lengths).index_add(0, x.rows(), (~finite).long()) == 0


def earliest(x: Sequences) -> Tensor:
    """Return `(n,)` the time of each row's earliest event, 0 for an empty row."""
    times = x.values(TIME)
    return times.new_zeros(len(x)).scatter_reduce(0, x.rows(), times, "amin", include_self=False)


def points_of(encoder: Encoder) -> PointEncoder:
    """Return the event encoder of an encoder over points."""
    points = capabilities(encoder).events
    if not isinstance(points, PointEncoder):
        raise ConfigError(
            f"encoder must encode points for a targeted method, got {type(encoder).__name__} over "
            f"{type(points).__name__}; write name = 'set', events = {{ name = 'pairs' }}"
        )
    return points


def _check_names(covariates: Sequence[str], observations: Sequence[str]) -> None:
    """Refuse names of columns from which no point can be read."""
    for option, names in (("covariates", covariates), ("observations", observations)):
        if isinstance(names, str) or not names:
            raise ConfigError(f"{option} must be a list of at least one column, got {shown(names)}")
    names = [*covariates, *observations]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"column {shown(twice)} is named twice; a column is a covariate or an observation, once")
    if TIME in observations:
        raise ConfigError(f"{TIME!r} can be a covariate only; name another column in observations")


def _network(network: ValueEncoding | None, names: Sequence[str], side: str) -> ValueEncoding | None:
    """Return the network of one side, None if it has no numbers; `names` are its numeric columns."""
    if not names:
        return None
    if network is None:
        return Numbers(len(names))
    if len(names) > 1 and tuple(network.shape) != (len(names),):
        raise ConfigError(
            f"{side} has {len(names)} numeric columns ({', '.join(map(shown, names))}), but its network reads values "
            f"of shape {tuple(network.shape)}; set its option size = {len(names)}"
        )
    return network


def _size(network: ValueEncoding | None, tables: nn.ModuleList) -> int:
    widths = [table.embedding_dim for table in tables if isinstance(table, nn.Embedding)]
    return (0 if network is None else network.dim) + sum(widths)


def _need(names: Sequence[str], x: Sequences) -> None:
    """Refuse rows that lack a column, or have nested rows in its place."""
    missing = [name for name in names if not isinstance(x.columns.get(name), Tensor)]
    if missing:
        raise DataError(
            f"points need the columns {', '.join(names)}; missing: {', '.join(missing)}, found: "
            f"{', '.join(sorted(x.columns)) or 'none'}; read them as numeric or categorical columns, name others, such "
            f"""as --set 'encoder.events.covariates=["time"]' --set 'encoder.events.observations=["{_number(x)}"]' """
            f"({TIME!r} is the time column), or draw points with processes.draw"
        )


def _number(x: Sequences) -> str:
    """Return a column of numbers that could be an observation, or a word in its place."""
    columns = (name for name, values in x.columns.items() if isinstance(values, Tensor) and values.is_floating_point())
    return next((name for name in columns if name not in (TIME, "gap")), "COLUMN")


def _finite(values: Tensor) -> Tensor:
    """Return `(events,)` bool: the values whose numbers are all finite."""
    return values.float().isfinite().unsqueeze(1).flatten(1).all(1)
