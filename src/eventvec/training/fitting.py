"""`fit`: a model of a method, which learns an encoder, or of labels, which get heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from eventvec.config import Table
from eventvec.dataset import Dataset, check_dataset
from eventvec.errors import ConfigError, shown
from eventvec.files import path_only
from eventvec.learners.own import check_kept
from eventvec.methods.declarations import Method
from eventvec.models import Model, check_model, model_files
from eventvec.options import accepts, gather, option_types
from eventvec.tables.read_options import LabelTime
from eventvec.tables.sources import Tabular
from eventvec.training.fit_options import FitOptions
from eventvec.training.flat_settings import tables_of, with_settings
from eventvec.training.head_options import HeadOptions
from eventvec.training.label_models import learn_labels
from eventvec.training.labelled_rows import LabelSources
from eventvec.training.loop import train
from eventvec.training.setup import parent_run, set_up


@accepts(FitOptions, HeadOptions, LabelTime)
def fit(
    data: Dataset,
    *,
    method: Method | Mapping[str, Any] | str | None = None,
    encoder: str | Mapping[str, Any] | None = None,
    labels: Tabular | None = None,
    label: str | Sequence[str] | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: Callable[..., None] | None = None,
    **options: Any,
) -> Model:
    """Return a model of events: of a `method`, which learns an encoder, or of `labels`, each of which gets a head.

    With labels, blocks of features of the histories (hand-crafted ones, codes, convolutions, static columns, your own)
    are computed once. For each label, boosted trees and linear models of fixed sets of blocks are trained, weighed by
    their predictions of entities that they were not trained on, and scored on rows that chose nothing; see
    `EventClassifier`. `fit_head` adds a head to a model.

    With a method, its encoder is trained in place. The optimizer is Adam. The batches of entities are drawn anew in
    each epoch, and the last partial batch is dropped. Training ends after `epochs`, after `time_budget` seconds or when
    the validation has not improved for `patience` epochs, whichever comes first. With neither `epochs` nor
    `time_budget`, it ends after 5 minutes or 5 epochs without improvement. With `patience`, the run has the weights of
    the best epoch, else those of the last. The validation loss is the loss of the method on entities that are held out
    of training, in the same batches and with the same random numbers each time. A method may declare a score by which
    the best epoch is chosen instead.

    For a method that learns labels, `validation` is 15 % of the labelled entities by default, at least 50 of them (but
    at most a quarter) and at most 5,000, by class; with fewer than 40 there is none. The weights of the best epoch are
    kept, after a given number of `epochs` too. Under a `time_budget` alone, training stops after 5 epochs without
    improvement. `notes` names the epoch. `keep="last"` and `validation=0` turn this off. For `tpp_embedding`, the same
    share of the described entities is held out, and the best epoch is that with the best mean reciprocal rank of their
    descriptions.

    Where torchrun has started several processes, they train together: each encodes its share of every batch, and all
    compute the loss of the whole batch, so the run does not depend on their number, but for rounding and dropout. The
    first one writes the model folder, on a disk that all share, and calls `progress`.

    A run that is bounded by epochs and resumed ends with the weights of one that was never interrupted (same device,
    threads and versions). A run that is bounded by time continues with the seconds that are left.

    Args:
        data: The entities; those that the method or its encoder cannot use are left out and counted.
        method: A method, the name of one, its table such as ``{"name": "coles", "margin": 0.3}``, or the tables
            `method`, `encoder` and `fit` of a configuration. The entry `encoder.from` may name a model folder, whose
            encoder is trained further. For a name or tables, sizes that are not given follow from the data, and the
            initial weights are drawn with `seed`. `coles` gets views, batches, a read-out and parts `beside` that are
            not the paper's; `coles_paper` has the paper's.
        encoder: The name of an encoder, or its table, for a method that is given by its name or table.
        labels: A table with the key and the labels, once or at several times for each entity; instead of a method.
        label: The column to predict, or several, each of which gets a head; or, of a method that learns labels, the
            static column.
        out: The folder to write; it must be new, unless `resume`.
        resume: Continue from the checkpoint in `out`, or from the start if there is none; a finished run is loaded.
        device: Where training happens: `auto` takes a GPU if there is one; by default, where the method's weights are.
        progress: Called with a record after each step and each epoch, see `Model.history`; its time does not count as
            time of the training. `to_tensorboard` and `to_mlflow` return such functions. With labels, it is called with
            the number of trainings that are done, of all, and the name of the next.
        options: With labels, the fields of `HeadOptions` and `LabelTime`. With a method, the fields of `FitOptions`;
            with a method that is given by its name or tables, also settings of the method, its encoder and their parts,
            such as `dim=64` and `margin=0.3`.

    Raises:
        ConfigError: If neither or both of a method and labels are given, an option is out of range or contradicts
            another, or its name fits none or several of the parts, or the data are not a `Dataset`.
        DataError: If fewer than two entities are usable, or the loss is not finite.
        CheckpointError: If `out` holds a model already, or one that cannot be resumed with these options and data.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4)
        >>> method = ev.methods.CoLES(encoder, ev.views.RandomSlices(shortest=1, longest=2))
        >>> run = ev.fit(data, method=method, epochs=3)
        >>> run.steps, run.stopped
        (3, 'epochs')
    """
    if (method is None) == (labels is None):
        raise ConfigError('fit needs a method, such as method="coles", or labels= and label=, and not both')
    if labels is not None:
        if encoder is not None or resume or device is not None:
            raise ConfigError("encoder, resume and device are of methods, and labels train none; leave them out")
        return _of_labels(None, data, labels, label, out, progress, options)
    assert method is not None
    options = options if label is None else {**options, "label": label}  # a setting of methods that learn labels
    gather({name: value for name, value in options.items() if name in option_types(FitOptions)}, FitOptions)
    tables: Table | None = None
    if isinstance(method, str | Mapping):
        check_dataset(data)
        tables = with_settings(tables_of(method, encoder), options, data.sequences)
        method, tables = set_up(data, tables, parent_run(tables))
        options = tables["fit"]
    elif encoder is not None:
        raise ConfigError("encoder goes with the name of a method; a method that is built has its encoder already")
    if isinstance(method, type) or not (callable(method) and hasattr(method, "encoder")):
        what = f"the class {method.__name__}" if isinstance(method, type) else type(method).__name__
        raise ConfigError(
            f"method must be a Method, a name such as 'coles', or a config dict, got {what}; for example "
            'fit(data, method="coles")'
        )
    gather(options, FitOptions)
    check_dataset(data)
    return train(method, data, options, tables, out=out, resume=resume, device=device, progress=progress)


@accepts(HeadOptions, LabelTime)
def fit_head(
    model: Model,
    data: Dataset,
    labels: Tabular,
    label: str | Sequence[str],
    *,
    out: Path | str | None = None,
    progress: Callable[..., None] | None = None,
    **options: Any,
) -> Model:
    """Return a new model: the blocks and heads of another, and a head for each label; the other is left as it is.

    The blocks of the other model are read as they are, its vectors among them, and blocks that it lacks are fitted. A
    state store of the other is one of the new model too.

    Args:
        model: The other model.
        data: The entities, read by the model's schema.
        labels: As for `fit`, as are the others.
        label: The column to predict, or several.
        out: The folder to write; it must be new.
        progress: Called with the number of trainings that are done, of all, and the name of the next.
        options: The fields of `HeadOptions` and `LabelTime`.

    Raises:
        ConfigError: If an option is out of range, or the model has learned the label, in its encoder or by a head.
        DataError: If the labels cannot be used, or the data were read by another schema.
        CheckpointError: If `out` holds files already.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [i % 40 for i in range(400)], "day": range(400)})
        >>> events = events.with_columns(paid=pl.col("card") / 10 + pl.col("day") % 7)
        >>> labels = pl.DataFrame({"card": range(40), "spend": [i / 2 for i in range(40)]})
        >>> data = ev.read(events, key="card", time="day")
        >>> model = ev.fit(data, method="ocp", epochs=1)
        >>> list(fit_head(model, data, labels, "spend").heads)
        ['spend']
    """
    check_model(model)
    return _of_labels(model, data, labels, label, out, progress, options)


def _of_labels(
    base: Model | None,
    data: Dataset,
    labels: Tabular,
    label: str | Sequence[str] | None,
    out: Path | str | None,
    progress: Callable[..., None] | None,
    options: Mapping[str, Any],
) -> Model:
    """Return a model with a head for each label, written to a folder if one is named."""
    check_dataset(data)
    names = (label,) if isinstance(label, str) else tuple(label or ())
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ConfigError(f"label must be the name of a column, or of several distinct ones, got {shown(label)}")
    of_heads, times = gather(options, HeadOptions, LabelTime), gather(options, LabelTime, HeadOptions)
    if out is not None:
        model_files.check_folder(path_only(out))
        check_kept(of_heads.models)
    model = learn_labels(LabelSources(labels, names, data, time=times, options=of_heads, base=base), progress)
    return model if out is None else model.save(out)
