"""Training: one loop over plain torch for every method, which resumes where it was killed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eventvec import distributed, runs
from eventvec.config import Table, complete, describe
from eventvec.dataset import Dataset, check_dataset, check_entities, period
from eventvec.embedding import choose_device
from eventvec.encoders.beside import fitted_beside, sizes_beside
from eventvec.encoders.interface import attach_lineage, lineage_of
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.files import path_only, write_text
from eventvec.methods.declarations import Method, declared, static_notes
from eventvec.methods.revealed_order import order_notes
from eventvec.options import accepts, as_table, gather, option_types
from eventvec.runs import Record, Run, run_files
from eventvec.scan.buffers import buffer_pool
from eventvec.sequences import Array, Sequences
from eventvec.tables.keys import entity_codes
from eventvec.tables.label_times import fitted_later
from eventvec.threads import as_many_threads_as_pay
from eventvec.training.calibration import temperatures
from eventvec.training.fit_options import FitOptions
from eventvec.training.flat_settings import tables_of, with_settings
from eventvec.training.kept_weights import best_epoch, kept_note
from eventvec.training.label_rows import as_of_static_labels
from eventvec.training.optimizer import head_weights, optimizer
from eventvec.training.settings_tried import best_trial, check_trials
from eventvec.training.setup import options_of, parent_run, set_up, with_precision
from eventvec.training.state import Training
from eventvec.training.validation import generator, rows_per_step, size_note, split, validation_batches

Progress = Callable[[Record], None]
CHECKPOINT = "checkpoint.safetensors"


@accepts(FitOptions)
def fit(
    method: Method | Mapping[str, Any] | str,
    data: Dataset,
    *,
    encoder: str | Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Run:
    """Train a method's encoder, in place, and return the run.

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
        progress: Called with a record after each step and each epoch, see `Run.history`; its time does not count as
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
        >>> run = ev.fit(method, data, epochs=3)
        >>> run.steps, run.stopped
        (3, 'epochs')
    """
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
            'fit("coles", data)'
        )
    gather(options, FitOptions)
    check_dataset(data)
    return train(method, data, options, tables, out=out, resume=resume, device=device, progress=progress)


def train(
    method: Method,
    data: Dataset,
    given: Mapping[str, Any],
    tables: Table | None,
    *,
    out: Path | str | None,
    resume: bool,
    device: torch.device | str | None,
    progress: Progress | None,
) -> Run:
    """Train a method that has been built, as `fit` describes, and return the run.

    Args:
        given: Options of training; those that the method declares hold where one is not given.
        tables: The tables from which the method was built; without them, they are read from its parts.
    """
    if declared(method).label_fields:
        read, (data, time_notes) = data, as_of_static_labels(data, declared(method))
        time_notes += _fitted_later(method, read, data.moments)
    else:
        check_entities(data)
        time_notes = ()
    defaults = declared(method).fit_defaults
    options = gather({**(defaults(data.sequences) if defaults else {}), **given}, FitOptions).bounded
    path = None if out is None else path_only(out)
    _check_freeze(method, options)
    if device is not None:
        method.to(choose_device(device))
    place = next(method.parameters()).device
    options, precision_notes = with_precision(options, method, place, path if resume else None)
    x = data.sequences.to(place)
    if options.beside and "time" not in x.columns:
        raise DataError("beside needs events with times, and the data have none; leave it out")
    sizes_beside(data.schema, options.beside, options.components)  # refuses a part without its columns before training
    codes = entity_codes(data.keys)
    entity = None if codes is None else torch.from_numpy(codes).to(x.device)
    training, held_out, notes = split(method, x, options, entity)
    check_trials(declared(method).trials, held_out)
    notes = (*time_notes, *notes, *precision_notes, *order_notes(method, data.schema, x[training]))
    notes += size_note(method, training, held_out, rows_per_step(options, training, entity))
    notes += static_notes(method, data.schema)
    config = _recorded(method, data, options, tables, required=path is not None)
    threads = as_many_threads_as_pay(method, options.threads)
    with distributed.joined(place), threads, ExitStack() as stack:
        kind = torch.cuda.get_device_name(place) if place.type == "cuda" else place.type  # views depend on it
        distributed.check_alike(versions=runs.versions(), device=kind, data=data.fingerprint, options=str(config))
        distributed.broadcast_result(lambda: stack.enter_context(run_files.writer(path)))
        run = replace(_start(method, data, config, options, path, resume), notes=notes)
        try:
            trained = _train(run, x, training, held_out, entity, options, progress)
        except DataError:  # the loss is not finite
            if distributed.is_first() and path is not None and not resume and not list(path.glob("checkpoint*")):
                run_files.discard(path)
            raise
        distributed.wait_for_all()  # so that the folder is complete for all
    unseen = len(held_out) >= options.batch_size
    where = "held out" if unseen else "trained on, as fewer than a batch are held out"
    return _with_remark(trained, x[held_out if unseen else training], where, generator(place, options.seed + 1))


def _fitted_later(method: Method, data: Dataset, moments: Array | None) -> tuple[str, ...]:
    """Return a note where the encoder, or the schema of the data that were read, has seen events after labels."""
    if lineage := lineage_of(method.encoder):
        return fitted_later(data.schema, lineage.holdouts, moments)
    last = {"last_event": (period(data.sequences) or (None, None))[1]}
    return fitted_later(data.schema, [last], moments, "The vocabularies and scales of the schema")


def _with_remark(run: Run, x: Sequences, where: str, rng: torch.Generator) -> Run:
    """Return a run that is saved already, with what its method has to say about rows in the notes.

    Args:
        where: What the rows were in the training.
    """
    remark = declared(run.method).remark
    if remark is None:
        return run
    try:
        sentence = f"{remark(x, rng)} (rows {where})"
    except DataError as error:  # too few rows, or rows that are all alike
        sentence = f"what the method does on rows was not measured: {error}"
    return replace(run, notes=(*run.notes, sentence))


def _train(
    run: Run,
    x: Sequences,
    training: Tensor,
    held_out: Tensor,
    entity: Tensor | None,
    options: FitOptions,
    progress: Progress | None,
) -> Run:
    """Return a run that has been started, after its training.

    Args:
        run: The run before its first step, or a run that was killed.
        entity: `(n,)` the entity of each row, if entities have several.
    """
    method, place = run.method, x.device
    if run.info["finished"] and run.path is not None:
        finished = runs.load(run.path)
        method.load_state_dict(finished.method.state_dict())
        attach_lineage(method.encoder, finished.lineage)
        notes = (*run.notes, "the run had finished; nothing was trained")
        return replace(run, info=finished.info, notes=notes, beside=finished.beside)
    if prepare := declared(method).prepare:
        prepare(x[training])
    once = partial(_train_once, run, x, training, held_out, entity)
    path, progress = (run.path, progress) if distributed.is_first() else (None, None)
    results: dict[str, Any] = {}
    forked = torch.random.fork_rng(device_type=place.type, devices=[place] if place.type != "cpu" else [])
    with forked, buffer_pool(), distributed.spread(method):
        if trials := declared(method).trials:
            state, results, note = best_trial(method, trials, once, options, progress)
            run = replace(run, notes=(*run.notes, note))
        else:
            state = once(options, progress, CHECKPOINT)
    if path is not None:
        write_text(path / "metrics.jsonl", "".join(map(_line, state.history)))
    if state.best_weights and (epoch := best_epoch(state.history, state.score)):
        method.load_state_dict(state.best_weights)
        note, results = kept_note(state.history, epoch, state.score), {**results, "kept_epoch": epoch}
        run = replace(run, notes=(*run.notes, note))
    calibrated, sentences = temperatures(method, x, held_out)
    run = replace(run, notes=(*run.notes, *sentences))
    results |= {"temperatures": calibrated} if calibrated else {}
    results = {
        "history": state.history, "steps": state.steps, "seconds": round(state.seconds, 3), "stopped": state.stopped,
        "usable": len(training) + len(held_out), **results,
    }  # fmt: skip
    sizes = sizes_beside(run.schema, options.beside, options.components)
    seen = x.lengths > 0  # also rows that the method cannot use: they get vectors too
    seen[held_out] = False
    beside = fitted_beside(run.schema, sizes, x[seen])
    results |= {"beside": sizes} if sizes else {}
    done = replace(run, info={**run.info, **results}, beside=beside)
    return replace(runs.finish(replace(done, path=path)), path=run.path)


def _train_once(
    run: Run,
    x: Sequences,
    training: Tensor,
    held_out: Tensor,
    entity: Tensor | None,
    options: FitOptions,
    progress: Progress | None,
    checkpoint: str,
) -> Training:
    """Train a run's method until a bound is reached, from a checkpoint if there is one, and return the state."""
    method, place = run.method, x.device
    weights = optimizer(method, options.lr, options.encoder_lr, options.optimizer, options.weight_decay)
    state = Training(method, weights, generator(place, options.seed), options)
    torch.manual_seed(int(torch.randint(2**62, (), generator=state.rng, device=place)))  # dropout reads only this
    has_checkpoint = distributed.broadcast_result(lambda: run.path is not None and (run.path / checkpoint).exists())
    if has_checkpoint and run.path is not None:
        state.restore(run.path / checkpoint)
    distributed.broadcast_weights(method)
    file = run.path / checkpoint if run.path is not None and distributed.is_first() else None
    if file is not None:
        write_text(file.with_name("metrics.jsonl"), "".join(map(_line, state.history)))
    size = rows_per_step(options, training, entity)
    state.begin(training, validation_batches(held_out, size), size, entity)
    try:
        _train_epochs(state, x, file, progress)
    finally:
        if state.steps:  # an interrupted training has changed the weights too
            attach_lineage(method.encoder, run.lineage)
    if file is not None and checkpoint != CHECKPOINT:  # others follow
        state.save(file)
    return state


def _train_epochs(state: Training, x: Sequences, checkpoint: Path | None, progress: Progress | None) -> None:
    """Train until a bound is reached."""
    options = state.options
    while not state.stopped:
        for rows in state.batches():
            loss = state.step(x[rows])
            if progress:
                state.tell(progress, state.record(loss))
            if checkpoint is not None and state.steps % options.checkpoint_every == 0:
                state.save(checkpoint)
        state.end_epoch(*state.validation(x))
        if progress:
            state.tell(progress, state.history[-1])
        if checkpoint is not None:
            with checkpoint.with_name("metrics.jsonl").open("a") as file:
                file.write(_line(state.history[-1]))


def _start(method: Method, data: Dataset, config: Table, options: FitOptions, path: Path | None, resume: bool) -> Run:
    """Return the run before its first step: a new one, or the one in the folder if it is resumed."""
    info, config = distributed.broadcast_result(lambda: _begin(method, data, config, options, path, resume))
    if path is not None and not (path / "run.json").exists():
        raise CheckpointError(
            f"{path} is not there for process {os.environ.get('RANK')} on {platform.node()}; all need the run "
            "folder on a disk that their machines share"
        )
    return Run(method, runs.schema_of(method, data), config, info, path)


def _begin(
    method: Method, data: Dataset, config: Table, options: FitOptions, path: Path | None, resume: bool
) -> tuple[dict[str, Any], Table]:
    """Return the `run.json` and the configuration of a run, and write its first files, if it is new."""
    if path is None or not (path / "run.json").exists():
        return runs.start(method, data, config, options.seed, path), config
    if not resume:
        raise CheckpointError(f"{path} holds a run already; choose a new folder, or resume it: resume=True (--resume)")
    info = run_files.read_info(path)
    if info["fingerprint"] != data.fingerprint:
        raise CheckpointError(f"{path} was begun on other data; resume with the same events and options")
    before = run_files.read_config(path)
    trained = lineage_of(method.encoder)
    if trained is not None and trained.run == info["id"]:  # it names this run in place of the one that it began from
        began_from = {name: value for name, value in before.get("encoder", {}).items() if name == "from"}
        config["encoder"] = {**{k: v for k, v in config["encoder"].items() if k != "from"}, **began_from}
    # Data are compared by their fingerprint, and options of training by their values, defaults included.
    old, new = ({**complete(tables), "data": {}, "fit": {}} for tables in (before, config))
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if options_of(path, before) != options:
        changed.append("fit")
    if changed:
        raise CheckpointError(f"{path} was begun with other settings in [{'], ['.join(changed)}]; resume with the same")
    return info, config


def _recorded(method: Method, data: Dataset, options: FitOptions, tables: Table | None, required: bool) -> Table:
    """Return the configuration of a run; if `required` is false, an empty one for a method that has none."""
    try:
        tables = describe(method) if tables is None else tables
    except ConfigError:
        if required:
            raise
        return {}
    encoder = {option: value for option, value in tables["encoder"].items() if option != "from"}
    parent = lineage_of(method.encoder)
    if parent and parent.path:
        encoder["from"] = parent.path
    recorded = {"method": tables["method"], "encoder": encoder}
    return {**recorded, "data": dict(data.origin.options), "fit": as_table(options)}


def _check_freeze(method: Method, options: FitOptions) -> None:
    if options.freeze and not head_weights(method):
        raise ConfigError(
            f"freeze must be 0 for {type(method).__name__}, got {options.freeze}: it has no weights besides its "
            "encoder's, so nothing would be trained"
        )


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"
