"""The commands, each of which calls the Python function of the same name.

Exit codes are 0 (done), 1 (failed), 2 (wrong usage), 130 (ended by Ctrl-C) and 143 (ended by SIGTERM).
Tables and `--json` go to standard output; progress bars and notes go to standard error.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tomli_w
import typer

from eventvec import evaluation, models, part_names, predicting, reporting, searching, tables, training
from eventvec.cli import terminal
from eventvec.cli.application import Output, Overwrite, RunFolder, command
from eventvec.cli.doctor import show_machine
from eventvec.cli.event_inputs import counts, on_device, read_events, to_learn, to_score
from eventvec.cli.parameters import (
    FILES,
    PANELS,
    WRITTEN,
    Device,
    EventsArgument,
    FeatureTables,
    Full,
    Json,
    event_tables,
    events_option,
    given,
    named_tables,
    table_output,
    takes,
    text_argument,
    text_option,
)
from eventvec.cli.recording import recording
from eventvec.engines.job import EngineOptions
from eventvec.errors import ConfigError
from eventvec.evaluation.evaluation_options import EvaluationOptions, LabelOptions
from eventvec.options import gather, those_of
from eventvec.tables.addresses import address_of, name_of
from eventvec.tables.read_options import GROUPS, Columns, Cuts, HoldOut, LabelTime, StaticColumns, Storage, TableFormat
from eventvec.toml_tables import Table, change, read_config
from eventvec.training.fit_options import FitOptions
from eventvec.training.head_options import HeadOptions
from eventvec.training.progress_bars import bar
from eventvec.updating.update_options import UpdateOptions

if TYPE_CHECKING:
    from eventvec.engines.shards import Shards

label_option = functools.partial(typer.Option, rich_help_panel=PANELS["LabelTime"])
label_text = functools.partial(text_option, rich_help_panel=PANELS["LabelTime"])
NOTES = 5
"""The number of notes about shards that are shown; all are in the manifest."""


@command
def demo(
    out_: Annotated[Path, typer.Option("--out", "-o", help="New folder for the results.")] = Path("demo-run"),
    full: Full = False,
    json_: Json = False,
) -> None:
    """Learn, embed, evaluate and write a page on data inside the package: all aircraft that left New York in 2013.

    Example: `eventvec demo --out demo-run`
    """
    from eventvec.cli import demo as demonstration

    result = demonstration.run(out_, console=terminal.err)
    if json_:
        typer.echo(json.dumps(result.to_dict()))
        return
    for each in result.evaluations:
        terminal.out.print(each.full if full else each.render())
    terminal.say(f"the page: {result.page}")


@command
@takes(
    Columns,
    TableFormat,
    Cuts,
    StaticColumns,
    (HoldOut, ("holdout",)),
    Storage,
    (FitOptions, ("epochs", "time_budget", "seed", "beside")),
    (LabelTime, ("label_time",)),
)
def fit(
    config_: Annotated[Path | None, typer.Argument(metavar="[CONFIG.toml]", help="Configuration of the run.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change an option: method.margin=0.3")] = None,
    events: Annotated[str | None, events_option(help=FILES)] = None,
    method: Annotated[str | None, typer.Option(help=f"One of: {', '.join(part_names.METHODS)}.")] = None,
    encoder: Annotated[str | None, typer.Option(help=f"One of: {', '.join(part_names.ENCODERS)}.")] = None,
    from_: Annotated[
        str | None,
        text_option("--from", help="Model whose encoder is trained further; with --labels, that gets a head."),
    ] = None,
    out_: Annotated[Path | None, typer.Option("--out", "-o", help="Run folder to write.")] = None,
    labels: Annotated[str | None, label_text(help="Table of labels: learn to predict one, without a network.")] = None,
    label: Annotated[
        list[str] | None, label_option(help="Column of --labels to predict; may be given several times.")
    ] = None,
    weight: Annotated[str | None, label_text(help="Column of --labels with the weight of each.")] = None,
    groups: Annotated[
        str | None,
        label_text(help="Column of --labels or --static: tell what the model is worth for each of its groups."),
    ] = None,
    earlier_labels: Annotated[
        str | None,
        label_text(help="Read an entity's labels this long after their times: 30d, or a number; none reads none."),
    ] = None,
    metric: Annotated[
        str | None, label_option(help="What predicted numbers are judged by: r2 (the default) or mae, absolute errors.")
    ] = None,
    most_values: Annotated[
        int | None, label_option(help="The largest number of rows times features on which boosted trees are trained.")
    ] = None,
    network: Annotated[bool, label_option("--network", help="Train a network on the label too.")] = False,
    features: FeatureTables = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint of the run.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the schema and the settings, or the learners and a rough cost, and stop."),
    ] = False,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder to which the training is written for TensorBoard.")
    ] = None,
    mlflow: Annotated[Path | None, typer.Option(help="Folder of a file store of MLflow for the training.")] = None,
    device: Device = "auto",
    json_: Json = False,
    **options: Any,
) -> None:
    """Train an encoder without labels, or with --labels learn to predict one, and write a folder.

    Training ends after --epochs or --time-budget; with neither, by early stopping or after 5 minutes.

    Not with --labels, which trains no encoder: CONFIG.toml, --set, --method, --encoder, --epochs, --beside, --resume,
    --tensorboard and --mlflow; and --cutoffs, because labels have times of their own.

    Example: `eventvec fit --events events.parquet --key card --time when --out run`

    The best prediction of a label: `eventvec fit --events events.parquet --key card --time when --labels labels.parquet
    --label churn --out churn-model`, then `predict`

    A further label of a model: `eventvec fit --from churn-model --events events.parquet --labels labels.parquet --label
    spend --out both`

    Train the encoder further on labels: `eventvec fit --events events.parquet --from run --static people.parquet
    --method supervised --set method.label=churn --out tuned`
    """
    of_labels = given(
        weight=weight, groups=groups, earlier_labels=earlier_labels, metric=metric, most_values=most_values,
        network=network or None, features=named_tables(features) or None,
    )  # fmt: skip
    if labels is not None or label or of_labels:
        networks = {"method": method, "encoder": encoder, "set": set_ or None, "config": config_}
        others = {"tensorboard": tensorboard, "mlflow": mlflow, "resume": resume or None}
        from eventvec.cli.predictors import fit_labels

        heads = HeadOptions(**of_labels, **those_of(options, HeadOptions))
        fit_labels(events, labels, label or [], from_, out_, {**options, **networks, **others}, heads, dry_run, json_)
        return
    changes: Table = {
        "method": {"name": method, "label_time": options.get("label_time")},
        "fit": those_of(options, FitOptions),
        "data": {"path": events, **those_of(options, *GROUPS)},
        "encoder": {"name": encoder, "from": from_},
    }
    tables_ = read_config(config_, set_ or ()) if config_ else change({}, set_ or ())
    for name, table in changes.items():
        if present := {option: value for option, value in table.items() if value is not None}:
            tables_[name] = {**tables_.get(name, {}), **present}
    if "path" not in tables_.get("data", {}):
        raise ConfigError("name the events to learn from: --events FILE --key COLUMN --time COLUMN, or a CONFIG.toml")
    if out_ is None and not dry_run:
        raise ConfigError("name the model folder to write: --out FOLDER")
    from eventvec import distributed
    from eventvec.embedding import choose_device
    from eventvec.methods.declarations import static_notes, static_roles
    from eventvec.models.model_files import check_folder
    from eventvec.parts import load_installed
    from eventvec.training.setup import parent_run, set_up, settings

    place = choose_device(device)
    load_installed()
    if out_ is not None and not dry_run:
        check_folder(out_, resume=resume)
    training_options = gather(tables_.get("fit", {}), FitOptions)
    parent = parent_run(tables_)
    if not distributed.is_first():
        tensorboard = mlflow = None
    with bar("reading"):
        data = to_learn(tables_.pop("data"), training_options.seed, parent.schema if parent else None)
    if dry_run:
        described = {"data": dict(data.origin.options), **settings(data.sequences, tables_, parent)}
        roles = list[str]()
        if data.schema.static:
            method_, _ = set_up(data, tables_, parent)
            roles = [*static_notes(method_, data.schema)] or [static_roles(method_, data.schema)]
        facts = {"notes": (*data.notes, *roles), "config": described}
        terminal.plan(data, facts, tomli_w.dumps(described), json_)
        return
    terminal.notes(data.notes)
    described = {"data": dict(data.origin.options), **settings(data.sequences, tables_, parent)} if mlflow else {}
    with bar("training") as tick, recording(tick, tensorboard, mlflow, out_, described) as progress:
        run = training.fit(data, method=tables_, out=out_, resume=resume, device=place, progress=progress)
    terminal.notes(run.notes)
    empty = {"epoch": None, "loss": None, "validation": None}  # the time was up already
    epoch = run.history[(run.kept_epoch or 0) - 1] if run.history else empty  # the best, or else the last
    summary = {
        "run": str(out_), "entities": len(data), "usable": run.usable, "steps": run.steps, "seconds": run.seconds,
        "stopped": run.stopped, "epoch": epoch["epoch"], "loss": epoch["loss"], "validation": epoch["validation"],
    }  # fmt: skip
    if score := run.declared.score_entry:
        summary[score] = epoch.get(score)
    terminal.show(summary, json_)


@command
@takes(Cuts, TableFormat, Storage, EngineOptions)
def embed(
    run: RunFolder,
    events: EventsArgument,
    output: Output,
    wide: Annotated[bool, typer.Option("--wide", help="One column per dimension: emb_000, emb_001, …")] = False,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale each embedding to length 1.")] = False,
    precision: Annotated[str, typer.Option(help="float32, or bfloat16: faster on CPUs that have it.")] = "float32",
    device: Device = "auto",
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write one embedding per entity, or one for each of its times in --cutoffs.

    Example: `eventvec embed run events.parquet -o embeddings.parquet`

    On several machines, or on all cores of one: `eventvec embed run events/ -o shards --engine ray`
    """
    if _is_on_engine(options):
        if "store" in options:
            raise ConfigError(
                "--store is for events that one process reads; an engine divides them itself: leave it out"
            )
        from eventvec.engines.shards import embed_shards

        chosen: dict[str, Any] = {"wide": wide, "normalize": normalize, "precision": precision, **options}
        with bar("embedding") as tick:
            shards = embed_shards(run, events, output, device=device, overwrite=overwrite, progress=tick, **chosen)
        _show_shards(shards, json_)
        return
    trained, data = to_score(run, events, output, overwrite, device, options)
    with bar("embedding") as tick:
        z = trained.embed(data, normalize=normalize, precision=precision, progress=tick)  # type: ignore[arg-type]
    tables.write(output, z, wide=wide, overwrite=overwrite)
    terminal.show({"output": name_of(output), **counts(data), "dim": z.shape[1], "run": trained.id}, json_)


@command
@takes(UpdateOptions, TableFormat, EngineOptions)
def update(
    run: RunFolder,
    state: Annotated[Path, typer.Option(help="State store of the run; created if it does not exist.")],
    events: Annotated[str | None, typer.Argument(metavar="NEW_EVENTS", callback=event_tables, help=FILES)] = None,
    output: Annotated[str | None, typer.Option("--out", "-o", callback=table_output, help=WRITTEN)] = None,
    index: Annotated[
        list[Path] | None,
        typer.Option(
            help="Index that follows: it gets the fresh vectors, or loses the entity; one of sentences marks the "
            "entities as stale. May be given several times."
        ),
    ] = None,
    forget: Annotated[str | None, typer.Option(metavar="KEY", help="Delete this entity from the store.")] = None,
    static: Annotated[str | None, text_option(help="Table of static columns that the model reads.")] = None,
    labels: Annotated[
        str | None, text_option(help="Table of labels that became known, if the model reads earlier ones.")
    ] = None,
    features: FeatureTables = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write the prediction of each entity that has new events, or its vector if the model predicts nothing.

    They follow from what is stored of the entity, and these events alone.

    A file has the rows of these entities only. A table of a database gets the vectors, and the rows of other entities
    remain.

    Example: `eventvec update run today.parquet --state state.db -o fresh.parquet`

    Rows of tables are entered with the events, or alone: `eventvec update run --state state.db --labels known.parquet`

    To delete an entity: `eventvec update run --state state.db --forget KEY`
    """
    followed = {path: searching.read_index(path) for path in index or ()}
    if forget is not None and events is None and output is None:
        for path, each in followed.items():
            if each.has(forget):
                each.forget(forget).save(path)
        from eventvec.engines.state_folder import forget_in_shards
        from eventvec.models.model_files import read_finished
        from eventvec.updating import store_file

        delete = forget_in_shards if state.is_dir() else store_file.forget
        delete(state, forget, read_finished(run)["states"])
        terminal.show({"state": str(state), "forgotten": 1}, json_)
        return
    beside: dict[str, Any] = {"static": static, "labels": labels, "features": named_tables(features) or None}
    given = {name: table for name, table in beside.items() if table is not None}
    if forget is None and events is None and output is None and given:
        from eventvec.updating import batches

        updated = batches.update(models.load(run), None, state, **given, **options)
        terminal.notes(updated.notes)
        terminal.show({"state": str(state), "applied": updated.applied}, json_)
        return
    if forget is not None or events is None or output is None:
        raise ConfigError(
            "give NEW_EVENTS and -o FILE to apply a batch, --static, --labels or --features alone to enter their rows, "
            "or --forget KEY alone to delete an entity"
        )
    if _is_on_engine(options):
        if given:
            raise ConfigError(f"--{next(iter(given))} is for one state store; leave it out, or update without --engine")
        if followed:
            raise ConfigError("--index follows one state store; update without --engine, or build the index anew")
        from eventvec.engines.shards import update_shards

        with bar("updating") as tick:
            shards = update_shards(
                run, events, state, output, device=device, overwrite=overwrite, progress=tick, **options
            )
        _show_shards(shards, json_, new=shards.new, late=shards.late)
        return
    tables.check_place(state)
    inputs = [run, events, state, *followed, options.get("history"), static, labels, *named_tables(features).values()]
    tables.check_output(output, inputs, overwrite=overwrite)
    from eventvec.updating import batches

    trained = on_device(run, device)
    merges = address_of(output) is not None
    if merges and not trained.vector:
        raise ConfigError(
            "the predictions of a batch are written to a file; a table of a database gets those of all entities: "
            "eventvec predict MODEL --state STORE -o ADDRESS"
        )
    for each in followed.values():
        if isinstance(each, searching.Index):
            each.check_model(trained.lineage.run)
    with bar("updating"):
        updated = batches.update(trained, events, state, **beside, **options)
    terminal.notes(updated.notes)
    z = updated.embeddings
    if z is not None:
        for path, each in followed.items():  # before the output, whose absence tells a job to try again
            each.update(z).save(path)
    about: dict[str, Any]
    if updated.predictions is not None and not merges:
        written: Any = updated.predictions
        about = {"columns": written.column_names}
    else:
        assert z is not None
        written, about = z, {"dim": z.shape[1]}
    tables.write(output, written, merge=merges, overwrite=overwrite)
    counts = {"entities": len(written), "new": updated.new, "late": updated.late, "applied": updated.applied}
    terminal.show({"output": name_of(output), **counts, **about, "run": trained.id}, json_)


@command
@takes(Cuts, TableFormat, Storage)
def predict(
    run: RunFolder,
    output: Output,
    events: Annotated[str | None, typer.Argument(callback=event_tables, help=FILES)] = None,
    state: Annotated[
        Path | None, typer.Option(help="State store: all its entities are predicted, without their events.")
    ] = None,
    at: Annotated[
        str | None, text_option(help="Table of places: covariates, and the key if entities differ in them.")
    ] = None,
    static: Annotated[
        str | None, text_option(help="Table of the static columns that the run reads with the events.")
    ] = None,
    labels: Annotated[
        str | None, text_option(help="Table of the labels that are known, if the run reads earlier ones.")
    ] = None,
    features: FeatureTables = None,
    coverage: Annotated[
        float | None, typer.Option(help="Share of new rows that should lie between low and high, around numbers.")
    ] = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write one prediction per entity, or one for each of its times in --cutoffs.

    The predictions of classes have the probability of each class beside them, and those of numbers with --coverage .9
    the ends of an interval, low and high, between which 90 % of new rows should lie.

    Example: `eventvec predict churn-model events.parquet -o predictions.parquet`

    All entities of a store, without reading events: `eventvec predict churn-model --state state.db -o tonight.parquet`

    A run of a targeted method, such as cresp or cnp, predicts observations at the places of a table, which has the
    columns of the covariates: `eventvec predict run events.parquet --at places.parquet -o predictions.parquet`
    """
    from eventvec.predicting.prediction import predicted, predicted_from
    from eventvec.training.kept_weights import far_from_best

    tables_of_features = named_tables(features)
    beside = [at, static, labels, *tables_of_features.values()]
    tables.check_output(output, [run, events, state, options.get("cutoffs"), *beside], overwrite=overwrite)
    trained = on_device(run, device)
    if warning := far_from_best(trained):
        terminal.notes([warning])
    asked: dict[str, Any] = {"at": at, "static": static, "labels": labels, "features": tables_of_features or None}
    asked["coverage"] = coverage
    if (events is None) == (state is None):
        raise ConfigError("give either EVENTS, or --state with the store that has them")
    if state is not None:
        with bar("predicting") as tick:
            predictions = predicted_from(trained, state, progress=tick, **asked, **options)
        tables.write(output, predictions, overwrite=overwrite)
        described = {"entities": len(predictions), "columns": predictions.column_names, "run": trained.id}
        terminal.show({"output": name_of(output), **described}, json_)
        return
    with bar("predicting") as tick:
        predictions, rows = predicted(trained, events, progress=tick, **asked, **options)
    terminal.notes(rows.data.notes)
    if count := predictions.column(predictions.num_columns - 1).null_count:
        terminal.notes(
            [f"{count:,} of {len(predictions):,} predictions are null: a value that the model needs is missing"]
        )
    tables.write(output, predictions, overwrite=overwrite)
    described = {**counts(rows.data), "rows": len(predictions), "columns": predictions.column_names, "run": trained.id}
    terminal.show({"output": name_of(output), **described}, json_)


@command
@takes(Cuts, TableFormat, Storage)
def surprise(
    run: RunFolder,
    events: EventsArgument,
    output: Output,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write how surprising each event is, given those before it, by field; the run is one of the method next_event.

    Example: `eventvec surprise run events.parquet -o surprise.parquet`
    """
    trained, data = to_score(run, events, output, overwrite, device, options)
    with bar("judging") as tick:
        table = predicting.surprise(trained, data, progress=tick)
    tables.write(output, table, overwrite=overwrite)
    described = {**counts(data), "events": len(table), "columns": table.column_names, "run": trained.id}
    terminal.show({"output": name_of(output), **described}, json_)


@command
@takes(LabelOptions, (EvaluationOptions, ("task", "folds", "fractions", "seed", "models")))
def evaluate(
    first: Annotated[
        str, text_argument(metavar="MODEL|Z.parquet", help="Model folder, or embeddings that `embed` wrote.")
    ],
    second: Annotated[str, text_argument(metavar="EVENTS|LABELS", help="Events of a model, or the labels.")],
    label: Annotated[list[str], typer.Option(help="Column to predict; several, of two values each, are averaged.")],
    third: Annotated[str | None, text_argument(metavar="[LABELS]", help="Table with the key and the label.")] = None,
    events: Annotated[str | None, events_option(help="Events that were embedded, for hand-crafted features.")] = None,
    time_format: Annotated[
        str | None, typer.Option(help="Format of times in the events: strptime's, or s, ms, us, ns.")
    ] = None,
    features: FeatureTables = None,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML page to write: results, a map and neighbours.")
    ] = None,
    overwrite: Overwrite = False,
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Measure how well embeddings predict a label, beside hand-crafted features of the same events, in the same folds.

    Example: `eventvec evaluate model events.parquet labels.parquet --label churn`, or of embeddings `eventvec evaluate
    embeddings.parquet labels.parquet --label churn --events events.parquet`

    With labels of several months, train before a date and test after it: `eventvec embed run events.parquet --cutoffs
    labels.parquet --cutoff-column month -o z.parquet`, then `eventvec evaluate z.parquet labels.parquet --label churn
    --label-time month --split-at 2025-01-01 --gap 30d`
    """
    if third is not None and events is not None:
        raise ConfigError("give EVENTS after MODEL, or --events with embeddings, not both")
    labels = second if third is None else third
    if output is not None:
        tables.check_output(output, [first, second, third, events, *(features or ())], overwrite=overwrite)
        reporting.need_packages()
    data: Any = None
    z: Any = models.load(first) if third is not None else tables.read_embeddings(first)
    if third is not None:
        data = read_events(z, event_tables(second), {} if time_format is None else {"time_format": time_format})
    elif events is not None:
        with bar("reading"):
            data = tables.read(events, schema=z.schema, time_format=time_format)
    column = label[0] if len(label) == 1 else label
    try:
        with bar("scoring") as tick:
            result = evaluation.evaluate(
                z, data, labels, column, features=named_tables(features), progress=tick, **options
            )
    except evaluation.Unfinished as stop:
        terminal.decide(stop.answer, json_, full)
        raise
    if output is not None:
        joined = {name: options[name] for name in reporting.JOINED if name in options}
        with bar("reporting") as tick:
            what: dict[str, Any] = {"embeddings": z} if third is None else {"model": z}
            page = reporting.report(data=data, labels=labels, evaluations=result, progress=tick, **what, **joined)
        page.write(output, overwrite=overwrite)
    terminal.decide(result, json_, full)


@command
def doctor(
    store: Annotated[
        Path | None, typer.Argument(metavar="STORE", help="Folder of --store, or state store, to verify.")
    ] = None,
    json_: Json = False,
) -> None:
    """Show versions, devices, threads and extras, and whether a model trains on this machine; or verify a store.

    Example: `eventvec doctor`
    """
    if store is None:
        show_machine(json_)
        return
    from eventvec.tables import mapped
    from eventvec.updating import store_file

    with bar("verifying"):
        verified = store_file.verify(store) if store.is_file() else mapped.verify(store)
    counts = ", ".join(f"{count:,} {name}" for name, count in verified.items())
    sentence = f"{store} holds what {'was written' if store.is_file() else 'its build wrote'}: {counts}"
    terminal.say(json.dumps({"store": str(store), **verified}) if json_ else sentence)


def _is_on_engine(options: Mapping[str, Any]) -> bool:
    """Return whether an engine is named."""
    if "engine" in options:
        return True
    if named := those_of(options, EngineOptions):
        raise ConfigError(f"--{next(iter(named))} applies to an engine; name one: --engine local, ray or spark")
    return False


def _show_shards(shards: Shards, json_: bool, **counts: int) -> None:
    """Print what was written into a folder of shards, with further counts of a batch."""
    notes = shards.notes
    more = [f"{len(notes) - NOTES:,} more notes are in the manifest"] if len(notes) > NOTES else []
    terminal.notes([*notes[:NOTES], *more])
    written = {"output": str(shards.folder), "entities": shards.entities, **counts, "rows": shards.rows}
    terminal.show({**written, "shards": len(shards.shards), "skipped": shards.skipped}, json_)
