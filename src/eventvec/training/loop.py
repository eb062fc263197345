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

from eventvec import distributed, models
from eventvec.blocks.untrained import EventBlock, sizes_beside
from eventvec.config import Table, complete, describe
from eventvec.dataset import Dataset, check_entities, period
from eventvec.embedding import choose_device
from eventvec.encoders.interface import attach_lineage, bound_reading, lineage_of
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.files import path_only, write_text
from eventvec.methods.declarations import Method, declared, static_notes
from eventvec.methods.revealed_order import order_notes
from eventvec.models import Model, Record, model_files
from eventvec.models.learned import LEARNED, Learned
from eventvec.options import as_table, gather
from eventvec.scan.buffers import buffer_pool
from eventvec.sequences import Array, Sequences
from eventvec.tables.keys import entity_codes
from eventvec.tables.label_times import fitted_later
from eventvec.threads import as_many_threads_as_pay
from eventvec.training.calibration import temperatures
from eventvec.training.fit_options import FitOptions
from eventvec.training.kept_weights import best_epoch, kept_note
from eventvec.training.label_rows import as_of_static_labels
from eventvec.training.optimizer import head_weights, optimizer
from eventvec.training.settings_tried import best_trial, check_trials
from eventvec.training.setup import options_of, with_precision
from eventvec.training.state import Training
from eventvec.training.validation import Split, generator, rows_per_step, size_note, split

Progress = Callable[[Record], None]
CHECKPOINT = "checkpoint.safetensors"


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
) -> Model:
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
    bound_reading(method.encoder, options.latest)
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
    rows, notes = split(method, x, options, entity)
    check_trials(declared(method).trials, rows.held_out)
    notes = (*time_notes, *notes, *precision_notes, *order_notes(method, data.schema, x[rows.training]))
    notes += size_note(method, rows.training, rows.held_out, rows_per_step(options, rows.training, entity))
    notes += static_notes(method, data.schema)
    config = _recorded(method, data, options, tables, required=path is not None)
    threads = as_many_threads_as_pay(method, options.threads)
    with distributed.joined(place), threads, ExitStack() as stack:
        kind = torch.cuda.get_device_name(place) if place.type == "cuda" else place.type  # views depend on it
        distributed.check_alike(versions=models.versions(), device=kind, data=data.fingerprint, options=str(config))
        distributed.broadcast_result(lambda: stack.enter_context(model_files.writer(path)))
        run = replace(_start(method, data, config, options, path, resume), notes=notes)
        try:
            trained = _train(run, x, rows, options, progress)
        except DataError:  # the loss is not finite
            if distributed.is_first() and path is not None and not resume and not list(path.glob("checkpoint*")):
                model_files.discard(path)
            raise
        distributed.wait_for_all()  # so that the folder is complete for all
    unseen = len(rows.held_out) >= options.batch_size
    where = "held out" if unseen else "trained on, as fewer than a batch are held out"
    remarked = x[rows.held_out if unseen else rows.training]
    return _with_remark(trained, remarked, where, generator(place, options.seed + 1))


def _fitted_later(method: Method, data: Dataset, moments: Array | None) -> tuple[str, ...]:
    """Return a note where the encoder, or the schema of the data that were read, has seen events after labels."""
    if lineage := lineage_of(method.encoder):
        return fitted_later(data.schema, lineage.holdouts, moments)
    last = {"last_event": (period(data.sequences) or (None, None))[1]}
    return fitted_later(data.schema, [last], moments, "The vocabularies and scales of the schema")


def _with_remark(run: Model, x: Sequences, where: str, rng: torch.Generator) -> Model:
    """Return a run that is saved already, with what its method has to say about rows in the notes."""
    remark = declared(run.method).remark
    if remark is None:
        return run
    try:
        sentence = f"{remark(x, rng)} (rows {where})"
    except DataError as error:  # too few rows, or rows that are all alike
        sentence = f"what the method does on rows was not measured: {error}"
    return replace(run, notes=(*run.notes, sentence))


def _train(run: Model, x: Sequences, rows: Split, options: FitOptions, progress: Progress | None) -> Model:
    """Return a run that has been started, after its training."""
    method, place = run.method, x.device
    if run.info["finished"] and run.path is not None:
        finished = models.load(run.path)
        method.load_state_dict(finished.method.state_dict())
        attach_lineage(method.encoder, finished.lineage)
        notes = (*run.notes, "the run had finished; nothing was trained")
        return replace(finished, blocks={**finished.blocks, LEARNED: run.learned}, path=run.path, notes=notes)
    if prepare := declared(method).prepare:
        prepare(x[rows.training])
    once = partial(_train_once, run, x, rows)
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
    calibrated, sentences = temperatures(method, x, rows.held_out)
    run = replace(run, notes=(*run.notes, *sentences))
    results |= {"temperatures": calibrated} if calibrated else {}
    results = {
        "history": state.history, "steps": state.steps, "seconds": round(state.seconds, 3), "stopped": state.stopped,
        "usable": len(rows.training) + len(rows.held_out), **results,
    }  # fmt: skip
    sizes = sizes_beside(run.schema, options.beside, options.components)
    seen = x.lengths > 0  # also rows that the method cannot use: they get vectors too
    seen[rows.held_out] = False
    beside = {name: EventBlock.of(name, run.schema, each, x[seen]) for name, each in sizes.items()}
    blocks, vector = {**run.blocks, **beside}, (LEARNED, *beside)
    done = replace(run, info={**run.info, **results}, blocks=blocks, vector=vector)
    return replace(models.finish(replace(done, path=path)), path=run.path)


def _train_once(
    run: Model, x: Sequences, rows: Split, options: FitOptions, progress: Progress | None, checkpoint: str
) -> Training:
    """Train a run's method until a bound is reached, from a checkpoint if there is one, and return the state."""
    method, place = run.method, x.device
    weights = optimizer(method, options.lr, options.encoder_lr, options.optimizer, options.weight_decay)
    state = Training(method, weights, generator(place, options.seed), options, rows)
    torch.manual_seed(int(torch.randint(2**62, (), generator=state.rng, device=place)))  # dropout reads only this
    has_checkpoint = distributed.broadcast_result(lambda: run.path is not None and (run.path / checkpoint).exists())
    if has_checkpoint and run.path is not None:
        state.restore(run.path / checkpoint)
    distributed.broadcast_weights(method)
    file = run.path / checkpoint if run.path is not None and distributed.is_first() else None
    if file is not None:
        write_text(file.with_name("metrics.jsonl"), "".join(map(_line, state.history)))
    state.begin()
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


def _start(method: Method, data: Dataset, config: Table, options: FitOptions, path: Path | None, resume: bool) -> Model:
    """Return the run before its first step: a new one, or the one in the folder if it is resumed."""
    info, config = distributed.broadcast_result(lambda: _begin(method, data, config, options, path, resume))
    if path is not None and not (path / "model.json").exists():
        raise CheckpointError(
            f"{path} is not there for process {os.environ.get('RANK')} on {platform.node()}; all need the run "
            "folder on a disk that their machines share"
        )
    return Model(models.schema_of(method, data), {LEARNED: Learned(method, config)}, info, path=path)


def _begin(
    method: Method, data: Dataset, config: Table, options: FitOptions, path: Path | None, resume: bool
) -> tuple[dict[str, Any], Table]:
    """Return the `model.json` and the configuration of a run, and write its first files, if it is new."""
    if path is None or not (path / "model.json").exists():
        return models.start(method, data, config, options.seed, path), config
    if not resume:
        advice = "choose a new folder, or resume it: resume=True (--resume)"
        raise CheckpointError(f"{path} holds a model already; {advice}")
    info = model_files.read_info(path)
    if info["fingerprint"] != data.fingerprint:
        raise CheckpointError(f"{path} was begun on other data; resume with the same events and options")
    before = model_files.read_config(path)
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
    trained_on = dict(data.origin.options)
    return {"method": tables["method"], "encoder": encoder, "data": trained_on, "fit": as_table(options)}


def _check_freeze(method: Method, options: FitOptions) -> None:
    if options.freeze and not head_weights(method):
        raise ConfigError(
            f"freeze must be 0 for {type(method).__name__}, got {options.freeze}: it has no weights besides its "
            "encoder's, so nothing would be trained"
        )


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"
