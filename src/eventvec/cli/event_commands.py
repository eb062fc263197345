"""The commands that read events without a model of their own: `describe`, `features` and `labels`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import describing, models, searching, tables
from eventvec.cli import terminal
from eventvec.cli.application import Output, Overwrite, command
from eventvec.cli.event_inputs import counts
from eventvec.cli.parameters import EventsArgument, Json, given, split_names, table_output, takes, text_option
from eventvec.errors import ConfigError, DataError, listed
from eventvec.labels.future_options import FutureOptions
from eventvec.options import option_types
from eventvec.tables.addresses import name_of
from eventvec.tables.read_options import Columns, Cuts, Storage, TableFormat
from eventvec.training.progress_bars import bar

SHOWN = 3
"""The number of histories whose sentences are printed."""


@command
@takes(Columns, TableFormat)
def describe(
    events: EventsArgument,
    names: Annotated[
        str | None, text_option(help="Table of your words: columns `code` (or a column's name) and `name`.")
    ] = None,
    numbered: Annotated[bool, typer.Option("--numbered", help="Number the codes, so none is written out.")] = False,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", callback=table_output, help="Parquet file for the sentences.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write an index to this file, for `search --text`.")] = None,
    most: Annotated[int | None, typer.Option(help="The largest number of sentences of a history. Default: 30.")] = None,
    backbone: Annotated[
        str | None,
        text_option(
            help="The language model that compares words in a search; auto takes all-MiniLM-L6-v2 if it is installed, "
            "and matches the words themselves if not. Default: auto."
        ),
    ] = None,
    refresh: Annotated[
        Path | None, typer.Option(help="Index in which these entities get sentences about these, all of their events.")
    ] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write down what is true of each history, in sentences, without training.

    Example: `eventvec describe events.parquet --key card --time when -o sentences.parquet`

    To find histories by words: `eventvec describe events.parquet --key card --time when --save cards.sentences`, then
    `eventvec search cards.sentences --text "a long silence, then many purchases at night"`
    """
    import polars as pl

    from eventvec.answers import Answer

    for place in (output, save):
        if place is not None:
            tables.check_output(place, [events, names, refresh], overwrite=overwrite)
    if refresh is not None:
        if any((names, numbered, output, save, most is not None, backbone, options)):
            raise ConfigError("--refresh takes columns and words from the index; give the events and --refresh alone")
        _refresh(refresh, events, json_)
        return
    of_index, of_table = given(backbone=backbone), given(most=most)
    if of_index and save is None:
        raise ConfigError("--backbone compares words in a search; give --save FILE for an index")
    if numbered and names is not None:
        raise ConfigError("--numbered writes no words for codes, and --names gives some; give one of them")
    words = None if numbered else _words(names)
    with bar("reading"):
        data = tables.read(events, **options)
    terminal.notes(data.notes)
    facts = dict[str, Any]()
    if save is not None:
        with bar("describing"):
            index = searching.SentenceIndex.of(data, names=words, **of_index)
        index.save(save, overwrite=overwrite)
        facts |= {"entities": len(index), "index": str(save)}
    if save is None or output is not None:
        with bar("describing"):
            table = describing.describe(data, names=words, **of_table)
        key = table.columns[0]
        facts |= {"entities": table[key].n_unique(), "sentences": table.height}
    if output is not None:
        tables.outputs.write_frame(output, table)
        facts["output"] = str(output)
    if output is not None or save is not None:
        terminal.show(facts, json_)
        return
    first = table.filter(pl.col(key).is_in(table[key].unique(maintain_order=True).head(SHOWN).implode()))
    line = f"What is true of {SHOWN} of {facts['entities']:,} histories, the rarest facts first."
    terminal.decide(Answer((line,), {"histories": first.to_dicts()}, facts=facts, lists=True), json_, False)


def _refresh(path: Path, events: str, json_: bool) -> None:
    """Write an index again in which the entities of some events have sentences about these."""
    index = searching.read_index(path)
    if not isinstance(index, searching.SentenceIndex):
        raise ConfigError(f"{path} is an index of vectors; `update --index` brings it up to date")
    with bar("describing"):
        fresh = index.refresh(events)
    fresh.save(path)
    terminal.show({"index": str(path), "entities": len(fresh), "stale": int(fresh.stale.sum())}, json_)


def _words(names: str | None) -> dict[str, str]:
    """Return the words of a table for codes and names of columns."""
    if names is None:
        return {}
    import polars as pl

    from eventvec.tables.sources import columns_of, open_source

    if not {"code", "name"} <= set(columns_of(names)):
        raise DataError(f"--names has the columns {listed(columns_of(names))}; it needs code and name")
    table = pl.DataFrame(open_source(names).load(["code", "name"])).cast(pl.String).drop_nulls()
    return dict(table.select("code", "name").iter_rows())


@command
@takes(Columns, TableFormat, Cuts, Storage)
def features(
    events: EventsArgument,
    output: Output,
    parts: Annotated[
        str | None,
        text_option(
            help="The features: handcrafted, lists, timing, aggregates, codes, convolutions or responses, one or "
            "several of them; learned of a trained model. Separated by commas, like a,b,c."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model of an earlier table (--save) or another, whose features the table gets.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Model folder to write, for later tables.")] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write hand-crafted features of each entity as named columns, without training.

    Example: `eventvec features events.parquet --key card --time when -o features.parquet`

    As of the times of a table, with the columns of every later table fixed: `eventvec features events.parquet --key
    card --time when --cutoffs labels.parquet --cutoff-column month --save features-model -o features.parquet`

    Tomorrow: `eventvec features events.parquet --model features-model -o features.parquet`
    """
    chosen = given(parts=None if parts is None else split_names(parts))
    tables.check_output(output, [events, model, options.get("cutoffs")], overwrite=overwrite)
    with bar("computing") as tick:
        z = models.features(events, model=model, save=save, progress=tick, **chosen, **options)
    terminal.notes(z.metadata["notes"])
    tables.write(output, z, overwrite=overwrite)
    folder = {} if save is None else {"model": str(save)}
    terminal.show({"output": name_of(output), **counts(z), "features": z.shape[1], **folder}, json_)


@command
@takes(
    (Columns, ("key", "time")),
    (TableFormat, ("time_format", "explode", "key_as")),
    Storage,
    (FutureOptions, ("gap", "label", "observed_until", "zone", "name")),
)
def labels(
    events: EventsArgument,
    output: Output,
    every: Annotated[str, text_option(help="The distance of the times of the labels: 1mo, 1w, 1d, or a number.")],
    horizon: Annotated[str, text_option(help="The length of time that a label describes, such as 90d or 1mo.")],
    where: Annotated[
        list[str] | None,
        typer.Option(help="Which events count: shop=tea or 'paid>100'; may be given several times. All by default."),
    ] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Write labels that say what follows times of the calendar, for the entities that were observed until then.

    Example: `eventvec labels events.parquet --key card --time when --every 1mo --horizon 90d -o labels.parquet`

    What each card spends on tea in a month: `eventvec labels events.parquet --key card --time when --every 1mo
    --horizon 1mo --label sum:paid --where shop=tea -o labels.parquet`
    """
    from eventvec.labels.conditions import split_conditions
    from eventvec.labels.horizons import future_labels
    from eventvec.tables.outputs import MARK

    tables.check_output(output, [events], overwrite=overwrite)
    conditions = split_conditions(where or ())
    compared = [name for name, values in conditions.items() if any(value[0] in "<>" for value in values)]
    numeric = {*compared, options.get("label", "").partition(":")[2]} - {""}
    chosen = {name: options.pop(name) for name in list(options) if name in option_types(FutureOptions)}
    with bar("reading"):
        data = tables.read(
            events,
            categorical=[name for name in conditions if name not in numeric],
            numeric=sorted(numeric),
            fitting=tables.Fitting(min_count=1, max_values=2**31),
            **options,
        )
    terminal.notes(data.notes)
    table = future_labels(data, every=every, horizon=horizon, where=conditions, **chosen)
    described = json.loads(table.schema.metadata[MARK])
    terminal.notes(described["notes"])
    tables.write(output, table, overwrite=overwrite)
    counted = {"rows": len(table), "censored": described["censored"], "columns": table.column_names}
    terminal.show({"output": name_of(output), **counted}, json_)
