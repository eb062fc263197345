"""A model: a schema, named blocks of features, and heads by label, in memory or as a folder of plain files.

The folder holds the schema, the tensors, the configuration of a training, the record and a model card. Nothing is
pickled: tensors are safetensors, and the rest is TOML, JSON and Markdown, so loading never executes code. Files have
mode 0600 and are written whole or not at all, and what is loaded is compared with digests.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from eventvec.blocks.rows import Block
from eventvec.blocks.static_values import STATIC, StaticValues
from eventvec.blocks.untrained import joined_features
from eventvec.config import Table
from eventvec.dataset import Dataset, text_column
from eventvec.embedding import Progress, embed, encode
from eventvec.encoders import Encoder, Joined
from eventvec.encoders.interface import Lineage, attach_lineage
from eventvec.errors import CheckpointError, ConfigError, DataError, listed, nearest, shown
from eventvec.files import path_only, write_text
from eventvec.learners.own import Own, check_kept
from eventvec.methods.declarations import Declared, Method, declared
from eventvec.models.building import build_blocks, check_known, describe_blocks, under
from eventvec.models.head import Head
from eventvec.models.head_files import describe_head, read_head
from eventvec.models.learned import LEARNED, NETWORK, Learned
from eventvec.models.model_card import render_card
from eventvec.models.model_files import (
    INFO,
    TENSORS,
    check_digests,
    check_parts,
    digests,
    is_half_saved,
    read_config,
    read_finished,
    read_schema,
    read_tensors,
    write_first,
    write_tensors,
    writer,
)
from eventvec.options import accepts, gather
from eventvec.precision import Precision
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.tables import Embeddings, attach_known, read
from eventvec.tables.read_options import Cuts, Storage, TableFormat
from eventvec.tables.sources import Tabular, events_table

Record = dict[str, float | int | None]
"""The course of training after a step or an epoch, see `Model.history`."""


@dataclass(frozen=True, eq=False)
class Model:
    """A schema, named blocks of features, and heads by label. `fit` and `load` return it.

    A model whose blocks stand in a vector embeds histories; one with heads predicts labels.

    Args:
        schema: What the columns of the events mean, with the static columns that blocks read.
        blocks: The blocks of features by name: `learned`, the trained encoder with its method; those of `BLOCKS`, which
            are computed without training; static columns; and the caller's tables.
        info: The content of `model.json`: `id`, `seed`, data `fingerprint`, library `versions`, counts, whether it has
            `finished`, and for a trained encoder the results of its training. `kept_epoch` is the epoch of the weights,
            if it was chosen, and `temperatures` has the number by which `predict` divides the logits of a label. If the
            method tries several settings, `tried` has the validation loss of each, and `chosen` is the one of this
            model. For this training and all before it of the encoder, `labels` and `holdouts`, see `lineage.Lineage`.
        vector: The blocks whose vectors `embed` puts side by side, in order.
        heads: What predicts labels from the blocks, by the name of the label.
        path: The folder; None for a model in memory.
        notes: Sentences about what was counted or left out.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> model = ev.fit(ev.read(events, key="card", time="day", numeric=["paid"]), method="ocp", epochs=1)
        >>> model.schema.key, model.stopped, model.embed(events).shape
        ('card', 'epochs', (2, 32))
    """

    schema: Schema
    blocks: Mapping[str, Block]
    info: Mapping[str, Any]
    vector: tuple[str, ...] = (LEARNED,)
    heads: Mapping[str, Head] = field(default_factory=dict)
    path: Path | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        place = f" in {self.path}" if self.path else ""
        has = [", ".join(self.blocks)] + ([f"heads: {', '.join(self.heads)}"] if self.heads else [])
        return f"Model({self.id}{place}, {'; '.join(has)})"

    @property
    def id(self) -> str:
        """The random name of the model; embeddings and entity states carry it."""
        return str(self.info["id"])

    @property
    def learned(self) -> Learned:
        """The block of the trained encoder.

        Raises:
            ConfigError: If the model has none.
        """
        block = self.blocks.get(LEARNED)
        if not isinstance(block, Learned):
            raise ConfigError(
                f"the model {self.id} has no block {LEARNED}, a trained encoder; its blocks are {listed(self.blocks)}"
            )
        return block

    @property
    def method(self) -> Method:
        """The method of the trained encoder."""
        return self.learned.method

    @property
    def config(self) -> Table:
        """The configuration of the training; empty if nothing was trained, or the method has no name."""
        return dict(self.learned.config) if LEARNED in self.blocks else {}

    @property
    def encoder(self) -> Encoder:
        """The encoder of the model's vectors: those of the blocks in `vector`, side by side.

        Raises:
            ConfigError: If no block stands in the vector.
        """
        if not self.vector:
            raise ConfigError(
                f"the model {self.id} has no block of vectors; it predicts {listed(self.heads)}: ev.predict (eventvec "
                "predict), and its features are a table: ev.features (eventvec features)"
            )
        return self._joined if self.vector != (LEARNED,) else self.method.encoder

    @property
    def representation(self) -> Encoder:
        """The encoder of what the model reads of events: its vectors, or without these the features of its blocks.

        Raises:
            ConfigError: If no block is computed from events alone.
        """
        return self.encoder if self.vector else self.of_blocks(())

    @property
    def event_encoders(self) -> dict[str, Encoder]:
        """The encoders of the blocks that are computed from events alone, by the name of the block."""
        return {name: cast(Any, block).encoder for name, block in self.blocks.items() if hasattr(block, "encoder")}

    def of_blocks(self, names: Sequence[str]) -> Joined:
        """Return the encoder of blocks side by side, with the name of each feature; by default of all of events alone.

        Raises:
            ConfigError: If there is no such block, or it reads more than events.
        """
        known = self.event_encoders
        if not known:
            raise ConfigError(f"the model {self.id} has no block that is computed from events alone")
        if unknown := next((name for name in names if name not in known), None):
            raise ConfigError(f"the model {self.id} has no block {shown(unknown)} of events; {nearest(unknown, known)}")
        joined = joined_features({name: known[name] for name in names or known})
        attach_lineage(joined, self.lineage)
        return joined

    @property
    def beside(self) -> tuple[str, ...]:
        """The blocks that stand beside the learned one in the vector."""
        return tuple(name for name in self.vector if name != LEARNED) if LEARNED in self.vector else ()

    @cached_property
    def _joined(self) -> Joined:
        parts = {name: cast(Any, self.blocks[name]).encoder for name in self.vector}
        joined = Joined(parts) if LEARNED in parts else joined_features(parts)
        attach_lineage(joined, self.lineage)
        return joined

    def to(self, device: torch.device | str) -> Model:
        """Move the tensors of all blocks to a device, and return the model."""
        for block in self.blocks.values():
            module = block.method if isinstance(block, Learned) else getattr(block, "encoder", None)
            if isinstance(module, nn.Module):
                module.to(device)
        return self

    @property
    def lineage(self) -> Lineage:
        """What the encoder was trained on, in this training and those before it."""
        path = str(self.path) if self.path else None
        info = self.info
        samples, data = info.get("label_samples", {}), info.get("data", {})
        of_vectors = str(info.get("vectors", self.id))  # a further head keeps the vectors, and what they are called
        return Lineage(of_vectors, tuple(info.get("labels", ())), tuple(info.get("holdouts", ())), path, samples, data)

    @property
    def declared(self) -> Declared:
        """What the method of the trained encoder declares; the defaults without one."""
        return declared(self.method) if LEARNED in self.blocks else Declared()

    @cached_property
    def states_of(self) -> str:
        """The digest of the blocks of events and of how these are coded, to which state stores are bound.

        A head that is trained again on the same blocks keeps it.
        """
        described, tensors = describe_blocks({name: self.blocks[name] for name in self.event_encoders})
        about = [described, dict(self.config), replace(self.schema, static=()).to_json()]
        digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
        for name in sorted(tensors):
            digest.update(name.encode())
            digest.update(tensors[name].detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()[:12]

    @property
    def history(self) -> tuple[Record, ...]:
        """One record per epoch.

        Each has `epoch`, `step`, `loss` (the mean over its steps), `validation` (or None), `lr`, `seconds` (since the
        start, earlier sessions of a resumed run included), `events_per_second`, and `share`, the share of the bound
        that is used up. If the method declares a score, each has it too: `validation_mrr` (or None) for
        `tpp_embedding`.
        """
        return tuple(self.info.get("history", ()))

    @property
    def kept_epoch(self) -> int | None:
        """The number of the epoch whose weights the run has, the best in validation; None for the last."""
        return self.info.get("kept_epoch")

    @property
    def steps(self) -> int:
        """The number of optimizer steps; 0 for a run that was put together without training."""
        return int(self.info.get("steps", 0))

    @property
    def seconds(self) -> float:
        """The time that training took, earlier sessions of a resumed run included; 0 without training."""
        return float(self.info.get("seconds", 0.0))

    @property
    def stopped(self) -> str:
        """What ended the training: `epochs`, `time` or `early stopping`; `no training` without one."""
        return str(self.info.get("stopped", "no training"))

    @property
    def usable(self) -> int:
        """The number of entities that could be used, those held out for validation included; all without training."""
        return int(self.info.get("usable", self.info["entities"]))

    @accepts(Cuts, TableFormat, Storage)
    def read(
        self,
        events: Dataset | Tabular | Sequence[Mapping[str, Any]],
        *,
        static: Tabular | None = None,
        **options: Any,
    ) -> Dataset:
        """Return events, coded by the run's schema.

        Args:
            events: A table, as `read` takes it; a list of events as dictionaries; or a data set that was read by the
                run's schema. Dictionaries without the key are the events of one entity, whose key is 0.
            static: A table with the key and the static columns from which the run predicts, if it was trained with
                `static_inputs`; its other columns are not read.
            options: The fields of `tables.read_options.Cuts` (until, cutoffs, cutoff_column) and `TableFormat`
                (time_format, order, ties, explode, key_as, decimal).

        Raises:
            ConfigError: If there is no such option, or the options contradict one another.
            DataError: If the events cannot be used, or were read by another schema.
        """
        gather(options, Cuts, TableFormat, Storage)  # `read` accepts further options, which the schema decides here
        options = {name: value for name, value in options.items() if value is not None}
        if isinstance(events, Dataset):
            if options:
                raise ConfigError(f"{next(iter(options))} applies to a table, but the events are a data set already")
            self.check_schema(events.schema)
            return events if static is None else self.with_inputs(events, static)
        if isinstance(events, list | tuple):
            events = events_table(events, self.schema.key)
        data = read(events, schema=self.schema, **options)
        return data if static is None else self.with_inputs(data, static)

    @property
    def static_inputs(self) -> tuple[str, ...]:
        """The static columns from which the model predicts."""
        static = self.blocks.get(STATIC)
        of_heads = [each.name for each in static.fields] if isinstance(static, StaticValues) else []
        return tuple(dict.fromkeys([*self.declared.static_inputs, *of_heads]))

    def with_inputs(self, data: Dataset, static: Tabular) -> Dataset:
        """Return the data with the static columns of a table from which the model predicts.

        Raises:
            ConfigError: If the model reads no static columns.
        """
        names = self.static_inputs
        if not names:
            raise ConfigError(f"the model {self.id} reads no static columns; leave out static= (--static)")
        others = [field for field in data.schema.static if field.name not in names]
        inputs = [self.schema.static_field(name) for name in names]
        coded = replace(data, schema=replace(data.schema, static=(*others, *inputs)))
        return attach_known(coded, static, names)

    def check_inputs(self, data: Dataset) -> None:
        """Raise an error for data without the static columns from which the run predicts, coded by its schema.

        Raises:
            DataError: If a column is absent or was coded by another schema.
        """
        names = self.static_inputs
        if absent := [name for name in names if name not in data.sequences.static]:
            raise DataError(
                f"the run predicts from the events and the static columns {', '.join(map(shown, names))}, and the data "
                f"have no {shown(absent[0])}; give a table with these columns: static= (--static)"
            )
        for name in names:
            if data.schema.static_field(name) != self.schema.static_field(name):
                raise DataError(
                    f"the static column {shown(name)} was coded by another schema than the run's; read the events and "
                    "the column by the run's: run.read(..., static=...)"
                )

    @accepts(Cuts, TableFormat, Storage)
    def embed(
        self,
        events: Dataset | Tabular | Sequence[Mapping[str, Any]],
        *,
        normalize: bool = False,
        precision: Precision = "float32",
        threads: int | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Embeddings:
        """Return the embedding of each entity.

        Args:
            events: The events, as for `Model.read`.
            normalize: Whether each embedding is scaled to length 1.
            precision: The precision of matrix products, see `embedding.encode`.
            threads: The number of threads of the CPU, by default one for small models.
            progress: Called with the number of entities done and of all entities.
            options: As for `Model.read`.

        Raises:
            ConfigError: If there is no such option, or the options contradict one another.
            DataError: If the events cannot be used, or an embedding is not finite.
        """
        data = self.read(events, **options)
        return embed(self.encoder, data, normalize=normalize, precision=precision, threads=threads, progress=progress)

    def embed_texts(self, texts: Sequence[str], *, normalize: bool = False) -> np.ndarray:
        """Return `(n, dim)` float32, the embedding of each text, in the space of the histories' embeddings.

        Args:
            texts: Sentences, such as the query of a search by description.
            normalize: Whether each embedding is scaled to length 1.

        Raises:
            ConfigError: If the method embeds no descriptions, `beside` gives the histories another space, or the texts
                are not a list of texts.
            DataError: If a text has no words.
        """
        tower = self.declared.text
        if tower is None:
            raise ConfigError(f"the model {self.id} embeds no texts; one of the method tpp_embedding does")
        if self.beside:
            raise ConfigError(
                f"the vectors of the model {self.id} have parts beside the learned one, {', '.join(self.beside)}, and "
                "texts compare with the learned part only; train it without beside"
            )
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"texts must be a list of texts, got {shown(texts)}")
        if empty := [place for place, text in enumerate(texts) if not text.strip()]:
            raise DataError(f"text {empty[0]} (from 0) has no words; a text must have at least one")
        none = torch.zeros(len(texts), dtype=torch.int64)
        column = text_column(pa.array(texts, pa.string()))
        z = encode(tower, Sequences({}, none, none, {tower.column: column}))
        return (nn.functional.normalize(z, dim=1) if normalize else z).cpu().numpy()

    def save(self, path: Path | str) -> Model:
        """Write a model that is in memory to a folder, as `fit` with `out` writes it, and return it with its path.

        Args:
            path: The folder; it must be new or empty, or hold what a call that was killed has left.

        Raises:
            ConfigError: If the method has no name in configurations, so the folder could not be loaded.
            CheckpointError: If the folder holds files already, or another process writes it.
        """
        folder = path_only(path)
        if LEARNED in self.blocks and not self.config:
            raise ConfigError(
                f"the method {type(self.method).__name__} of the model {self.id} has no name in configurations, so its "
                "folder could not be loaded; put the method together from the parts of eventvec"
            )
        for head in self.heads.values():
            learners = head.stack.models.items()
            check_kept({learner: model.estimator for (_, learner), model in learners if isinstance(model, Own)})
        with writer(folder):
            if (folder / INFO).exists() and not is_half_saved(folder):
                raise CheckpointError(f"{folder} holds a model already; choose a new folder")
            return _written(self, folder)

    def check_schema(self, schema: Schema) -> None:
        """Raise an error for events that were not coded by the run's schema.

        Raises:
            DataError: If the schema codes events differently from the run's.
        """
        if different := schema.difference(self.schema):
            raise DataError(
                f"the events were read by another schema than the model's; the two differ in {different}; read them "
                "by the model's: model.read(...), or read(..., schema=model.schema)"
            )


def check_model(model: Any) -> None:
    """Raise an error for the path of a model, or an encoder, where a model is needed.

    Raises:
        ConfigError: If it is not a `Model`.
    """
    if not isinstance(model, Model):
        raise ConfigError(f"the model must be a Model, got {type(model).__name__}; load it first: ev.load(path)")


def _written(model: Model, folder: Path) -> Model:
    """Write all files of a model that is in memory, and return it with its path."""
    write_first(folder, model.config, model.schema, {**model.info, "finished": False, "saving": True})
    if model.history:
        write_text(folder / "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in model.history))
    return finish(replace(model, path=folder))


def finish(model: Model) -> Model:
    """Return a model, marked as finished; write its tensors, its card and digests if it has a folder."""
    done = replace(model, info={**model.info, "finished": True})
    if LEARNED in done.blocks and "vectors" not in done.info:
        attach_lineage(done.method.encoder, done.lineage)
    if (path := done.path) is not None:
        described, tensors = describe_blocks(done.blocks)
        heads = [describe_head(head) for head in done.heads.values()]
        for place, (_, of_head, networks) in enumerate(heads):
            tensors |= {f"head.{place}.{name}": tensor for name, tensor in of_head.items()}
            for network in networks:
                _written(network, path / f"{NETWORK}-{place}")
        write_tensors(path / TENSORS, tensors, {"format": "eventvec"})  # a file without tensors has a header too
        content = {
            **done.info,
            "blocks": described,
            "vector": list(done.vector),
            "states": done.states_of,
            "heads": [each for each, _, _ in heads],
            "files": digests(path),
        }
        write_text(path / "README.md", render_card(done.config, done.schema, content, done.declared.card))
        write_text(path / INFO, json.dumps(content, indent=1))
        for checkpoint in path.glob("checkpoint*.safetensors"):
            checkpoint.unlink(missing_ok=True)
    return done


def load(path: Path | str) -> Model:
    """Return a finished model from its folder: blocks and heads are built as described, and get their tensors.

    Raises:
        CheckpointError: If the folder holds no finished model, a file is damaged, a newer eventvec wrote it, or
            something that the model needs is absent, such as the backbone of a language model, or an extra.
        ConfigError: If it is not a path.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ev.fit(data, method="ocp", epochs=1, out=folder)
        ...     model = ev.load(folder)
        >>> model.encoder.dim, model.info["entities"]
        (32, 2)
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"load takes the path of a model folder, got {type(path).__name__}")
    path = path_only(path)
    info = read_finished(path)
    check_parts(path, info.get("parts", {}))
    content = {name: info.pop(name) for name in ("blocks", "vector", "states", "heads", "files")}
    check_digests(path, content["files"])
    schema = read_schema(path)
    tensors, _ = read_tensors(path / TENSORS)
    config = read_config(path) if LEARNED in content["blocks"] else {}
    check_known(path, tensors, [*content["blocks"], *(f"head.{place}" for place in range(len(content["heads"])))])
    blocks = build_blocks(path, content["blocks"], config, schema, tensors)
    heads = dict[str, Head]()
    for place, each in enumerate(content["heads"]):
        network = load(path / f"{NETWORK}-{place}") if NETWORK in each["blocks"] else None
        heads[each["label"]] = read_head(path, each, blocks, schema, under(tensors, f"head.{place}."), network)
    model = Model(schema, blocks, info, tuple(content["vector"]), heads, path)
    if LEARNED in blocks:
        attach_lineage(model.method.encoder, model.lineage)
    return model
