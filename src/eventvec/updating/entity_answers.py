"""What a push or an update returns of each entity: its vector, and what each head predicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from eventvec.blocks.rows import Features, Rows
from eventvec.dataset import Dataset
from eventvec.encoders.interface import Encoder, capabilities, readable_rows
from eventvec.errors import ConfigError, DataError
from eventvec.methods.supervised import Predictor
from eventvec.models import Model
from eventvec.models.head import predictions_of
from eventvec.models.label_columns import class_names, network_values, predicted_columns, prefixed
from eventvec.models.learned import LEARNED
from eventvec.sequences import Array, Sequences
from eventvec.updating.entity_state import each_row
from eventvec.updating.store import Store
from eventvec.updating.tables_beside import TableRow, TablesBeside


class Answer(NamedTuple):
    """What is returned of `n` entities.

    Args:
        vectors: `(n, dim)` float32, 0 columns if the model has no vectors.
        values: `(n, k)` float64, the predictions of all labels side by side.
        labels: The classes of each label by its name, none for a number.
        model: The id of the model.
        within: The labels whose numbers have the ends of an interval beside them.
    """

    vectors: Array
    values: Array
    labels: dict[str, list[str]]
    model: str
    within: tuple[str, ...] = ()

    def __getitem__(self, rows: slice | Array) -> Answer:  # type: ignore[override]
        return self._replace(vectors=self.vectors[rows], values=self.values[rows])

    @property
    def columns(self) -> dict[str, pa.Array]:
        """The columns of `ev.predict`, without the key."""
        columns, at = dict[str, pa.Array](), 0
        for label, names in self.labels.items():
            width = _width(names, label in self.within)
            values = self.values[:, at : at + width] if width > 1 else self.values[:, at]
            columns |= prefixed(label, predicted_columns(names, values), len(self.labels) > 1, columns)
            at += width
        return columns

    @property
    def predictions(self) -> list[dict[str, Any]]:
        """The columns of `ev.predict` of each entity; empty dictionaries if the model predicts no label."""
        return pa.table(self.columns).to_pylist() if self.labels else [{} for _ in self.values]


class Answers:
    """What a model answers about rows, and the bytes of that.

    Args:
        model: The model.
        coverage: The share of new rows that should lie in the intervals around numbers; None for no intervals.
    """

    def __init__(self, model: Model, coverage: float | None = None) -> None:
        self.coverage, heads = coverage, {} if coverage is None else model.heads
        self.within = tuple(name for name, head in heads.items() if head.intervals is not None)
        self.model, predictor = model, model.declared.predictor
        self._network = predictor.eval() if isinstance(predictor, Predictor) else None
        self._network_dim = 0 if self._network is None else int(self._network.encoder.dim)
        self.tables = TablesBeside(model)
        self._may_be_unreadable = LEARNED in model.vector and not capabilities(model.method.encoder).has_state
        targets = () if self._network is None else model.declared.label_fields
        of_networks = {each.name: class_names(each) for each in targets}
        self.labels = {**of_networks, **{name: head.class_names for name, head in model.heads.items()}}
        self.dim = int(model.encoder.dim) if model.vector else 0
        self.width = sum(_width(names, name in self.within) for name, names in self.labels.items())
        nothing = Answer(np.empty((0, self.dim)), np.empty((0, self.width)), self.labels, model.id, self.within)
        if (key := model.schema.key_out) in nothing.columns:
            raise ConfigError(
                f"the key is called {key!r}, like a column of the predictions; give it another name: key_as= (--key-as)"
            )
        self.outputs = json.dumps({"model": model.id, "dim": self.dim, "labels": self.labels})

    def vectors(self, x: Sequences, names: Sequence[str]) -> Array:
        """Return `(n, dim)` float32 the vectors of entities, without predictions, see `of`."""
        rows = Rows(Dataset(pa.array(names, pa.string()), x, self.model.schema))
        return self._vectors(x, predictions_of(self.model.blocks, {}, rows, self.model.vector)[1])

    def _vectors(self, x: Sequences, features: Mapping[str, Features]) -> Array:
        model = self.model
        if not model.vector:
            return np.empty((len(x), 0), np.float32)
        if self._may_be_unreadable:
            _check_readable(model.method.encoder, x)
        return np.concatenate([features[name][0] for name in model.vector], 1).astype(np.float32, copy=False)

    def of(
        self, x: Sequences, names: Sequence[str], moments: Array, store: Store
    ) -> tuple[Answer, dict[str, Features]]:
        """Return the answers about entities, and the features of the model's blocks that were read.

        Args:
            x: What blocks read of their events, see `States.rows`.
            names: The canonical texts of their keys.
            moments: `(n,)` the moments of prediction.
            store: What has their rows of tables beside events.

        Raises:
            DataError: If the trained encoder, whose vector is returned, cannot read an entity.
        """
        model, n, rows = self.model, len(x), self.rows(x, names, moments, store)
        predicted, features = predictions_of(model.blocks, model.heads, rows, model.vector, self.coverage)
        vectors = self._vectors(x, features)
        values = [each.reshape(n, -1) for each in predicted.values()]
        if self._network is not None:
            with torch.inference_mode():
                device = next(self._network.parameters()).device
                learned = vectors[:, : self._network_dim]  # the parts beside it come after
                read = rows.data.sequences.to(device)
                outputs = self._network.of_vectors(torch.from_numpy(learned).to(device), read).float().cpu()
            values = [*(each.reshape(n, -1) for each in network_values(model, outputs)), *values]
        together = np.concatenate([*values, np.empty((n, 0))], 1)
        return Answer(vectors, together, self.labels, model.id, self.within), features

    def rows(self, x: Sequences, names: Sequence[str], moments: Array, store: Store) -> Rows:
        """Return what blocks read of entities, from the same arguments as `of`."""
        data = Dataset(pa.array(names, pa.string()), x, self.model.schema, moments=moments)
        stored = [TableRow(*row) for row in store.beside(names)] if self.tables else []
        return self.tables.beside(data, names, moments, stored)

    def written(self, answer: Answer) -> list[bytes]:
        """Return the bytes of answers."""
        n = len(answer.vectors)
        vectors = each_row(answer.vectors.astype("<f4")) if self.dim else [b""] * n
        values = each_row(answer.values.astype("<f8")) if self.width else [b""] * n
        return [a + b for a, b in zip(vectors, values, strict=True)]


def _width(names: Sequence[str], within: bool) -> int:
    """Return the number of columns of a label with these classes, or of a number, with the ends of its interval."""
    return len(names) or (3 if within else 1)


def _check_readable(encoder: Encoder, x: Sequences) -> None:
    """Refuse entities that the trained encoder cannot read, of which a vector would say nothing."""
    if unread := int((~readable_rows(encoder, x)).sum()):
        raise DataError(
            f"the encoder cannot read {unread:,} of {len(x):,} entities: a value that it needs is missing; fill in the "
            "values, or leave out the events that lack them"
        )


def read_answers(outputs: str, answers: Sequence[bytes]) -> Answer:
    """Return answers from their bytes.

    Args:
        outputs: What the bytes mean, `Answers.outputs`.
        answers: The bytes.
    """
    described = json.loads(outputs)
    labels, dim = described["labels"], described["dim"]
    width, n, joined = sum(_width(names, False) for names in labels.values()), len(answers), b"".join(answers)
    rows = np.frombuffer(joined, np.uint8).reshape(n, 4 * dim + 8 * width)
    vectors = np.ascontiguousarray(rows[:, : 4 * dim]).view("<f4").astype(np.float32).reshape(n, dim)
    values = np.ascontiguousarray(rows[:, 4 * dim :]).view("<f8").astype(np.float64).reshape(n, width)
    return Answer(vectors, values, labels, described["model"])
