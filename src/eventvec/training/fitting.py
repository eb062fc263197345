"""`fit`: a model of a method, which learns an encoder, or of labels, which get heads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from eventvec.config import Table
from eventvec.dataset import Dataset, check_dataset
from eventvec.errors import ConfigError
from eventvec.methods.declarations import Method
from eventvec.models import Model
from eventvec.options import accepts, gather, option_types
from eventvec.training.fit_options import FitOptions
from eventvec.training.flat_settings import tables_of, with_settings
from eventvec.training.loop import Progress, train
from eventvec.training.setup import parent_run, set_up


@accepts(FitOptions)
def fit(
    data: Dataset,
    *,
    method: Method | Mapping[str, Any] | str | None = None,
    encoder: str | Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Model:
    """Train a method's encoder, in place, and return the model.

    The optimizer is Adam. The batches of entities are drawn anew in each epoch, and the last partial batch is dropped.
    Training ends after `epochs`, after `time_budget` seconds or when the validation has not improved for `patience`
    epochs, whichever comes first. With neither `epochs` nor `time_budget`, it ends after 5 minutes or 5
    epochs without improvement. With `patience`, the run has the weights of the best epoch, else those of the last. The
    validation loss is the loss of the method on entities that are held out of training, in the same batches and with
    the same random numbers each time. A method may declare a score by which the best epoch is chosen instead.

    For a method that learns labels, `validation` is 15 % of the labelled entities by default, at least 50 of them (but
    at most a quarter) and at most 5,000, by class; with fewer than 40 there is none. The weights of the best epoch are
    kept, after a given number of `epochs` too. Under a `time_budget` alone, training stops after 5 epochs without
    improvement. `notes` names the epoch. `keep="last"` and `validation=0` turn this off. For `tpp_embedding`, the same
    share of the described entities is held out, and the best epoch is that with the best mean reciprocal rank of their
    descriptions.

    Where torchrun has started several processes, they train together: each encodes its share of every batch, and all
    compute the loss of the whole batch, so the run does not depend on their number, but for rounding and dropout.
    The first one writes the run folder, on a disk that all share, and calls `progress`.

    A run that is bounded by epochs and resumed ends with the weights of one that was never interrupted (same device,
    threads and versions). A run that is bounded by time continues with the seconds that are left.

    Args:
        method: A method, the name of one, its table such as ``{"name": "coles", "margin": 0.3}``, or the tables
            `method`, `encoder` and `fit` of a configuration. The entry `encoder.from` may name a run folder, whose
            encoder is trained further. For a name or tables, sizes that are not given follow from the data, and the
            initial weights are drawn with `seed`. `coles` gets views, batches, a read-out and parts `beside` that are
            not the paper's; `coles_paper` has the paper's.
        data: The entities; those that the method or its encoder cannot use are left out and counted.
        encoder: The name of an encoder, or its table, for a method that is given by its name or table.
        out: The run folder to write; it must be new, unless `resume`.
        resume: Continue from the checkpoint in `out`, or from the start if there is none; a finished run is loaded.
        device: Where training happens: `auto` takes a GPU if there is one; by default, where the method's weights are.
        progress: Called with a record after each step and each epoch, see `Model.history`; its time does not count as
            time of the training. `to_tensorboard` and `to_mlflow` return such functions.
        options: The fields of `FitOptions`; with a method that is given by its name or tables, also settings of the
            method, its encoder and their parts, such as `dim=64` and `margin=0.3`.

    Raises:
        ConfigError: If an option is out of range or contradicts another, or its name fits none or several of the parts,
            or the data are not a `Dataset`.
        DataError: If fewer than two entities are usable, or the loss is not finite.
        CheckpointError: If `out` holds a run already, or one that cannot be resumed with these options and data.

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
    if method is None:
        raise ConfigError('fit needs a method, such as method="coles"')
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
