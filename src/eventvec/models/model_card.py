"""The model card of a run: what the model was made of, its scores, its limits, and what its embedding may reveal."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import tomli_w
from pydantic import BaseModel, FiniteFloat, PositiveInt, ValidationError

from eventvec.errors import DataError, misfit, printable, shown
from eventvec.files import path_only
from eventvec.schema import FIRST, Schema
from eventvec.statistics import Estimate

if TYPE_CHECKING:
    from eventvec.answers import Answer
    from eventvec.dataset import Dataset

Source: TypeAlias = "Answer | Mapping[str, Any] | str | os.PathLike[str]"
"""An evaluation, or a file with the JSON that `eventvec evaluate --json` printed."""
LEAST = 0.0005
"""The share of missing or unknown values from which a card names a column."""
DESCRIBED, COMMON, LISTED = 1_000, 0.5, 10
"""The number of histories, drawn by lot, that are described, the least share of them of which a sentence in the card is
true, and the largest number of such sentences."""


def render_card(
    config: Mapping[str, Mapping[str, Any]],
    schema: Schema,
    info: Mapping[str, Any],
    remark: str = "",
    scores: Sequence[Mapping[str, Any]] = (),
    common: Mapping[str, float] | None = None,
) -> str:
    """Return the model card as Markdown.

    Args:
        config: The run's configuration.
        schema: What the columns of its events mean.
        info: Its finished `model.json`.
        remark: A paragraph about the method's embedding.
        scores: Evaluations of the run's embeddings, as `Answer.to_dict` returns them.
        common: Sentences about histories, with the share of which each is true.
    """
    return f"""# Model {info["id"]}

{_what(config, info)}
{remark and f"{chr(10)}{remark.strip()}{chr(10)}"}{_heads(info)}
## Data and training

{_table(_rows(config, schema, info))}

Values that occur fewer times than the minimum count are in no file.
{"" if common is None else _histories(common)}
{_settings_section(config)}## Scores

{_scores(scores)}

## Limits

{_listed(_limits(config, info, scores))}

## How to use it

{_usage(config, info)}

## Before you use it

What a model computes from histories can reveal what was never a column: where someone lives, their age, their health.
Measure it: evaluate the model with the protected attribute as the label, beside aggregates, before vectors or
predictions leave the team that may see the events. The model describes the entities and the time that it was trained
on; its scores on others have to be measured.
"""


def _what(config: Mapping[str, Mapping[str, Any]], info: Mapping[str, Any]) -> str:
    """Return what the model is, in a paragraph."""
    if not config:
        blocks = ", ".join(map(code, info.get("blocks", ())))
        return f"A model of event histories that eventvec made, with the blocks {blocks} and no trained encoder."
    labels = ", ".join(map(code, info["labels"]))
    columns = "column" if len(info["labels"]) == 1 else "columns"
    supervision = f"from the static {columns} {labels}" if labels else "without labels"
    start = f" The training started from the model {info['from']}." if "from" in info else ""
    return (
        f"An encoder of event histories that eventvec trained {supervision}, with the method "
        f"`{config['method']['name']}` and the\nencoder `{config['encoder']['name']}`.{start}"
    )


def _heads(info: Mapping[str, Any]) -> str:
    """Return the section about what the model predicts."""
    if not info.get("heads"):
        return ""
    lines = ["| label | task | score | rows | entities | learners |", "| --- | --- | --- | --- | --- | --- |"]
    for head in info["heads"]:
        scores = head["scores"] or {}
        value = scores.get("latest") or scores.get("by_entity")
        score = "none, too few rows" if value is None else f"{Estimate(*value)}"
        where = " on the latest rows" if scores.get("latest") else " by entity" if scores else ""
        cells = (code(head["label"]), head["task"], score + where, f"{head['rows']:,}", f"{head['entities']:,}")
        lines.append(f"| {' | '.join(cells)} | {len(head['models'])} |")
    remark = "Scores are of rows that chose nothing; the score is that of `EventClassifier.explain` and `fit --labels`."
    return "\n## What it predicts\n\n" + "\n".join(lines) + f"\n\n{remark}\n"


def _settings_section(config: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the section of the settings of a training."""
    if not config:
        return ""
    return f"""## Settings

```toml
{_settings(config)}
```

`config.toml` has them too, with those of the data, `metrics.jsonl` the course of training, and `schema.json` the
vocabularies.

"""


def common_sentences(data: Dataset) -> dict[str, float]:
    """Return the sentences of `describe` that are true of most histories, with the share, the largest first."""
    import numpy as np

    from eventvec.describing.descriptions import sentences
    from eventvec.describing.histories import AS_WRITTEN, Histories

    drawn = np.random.default_rng(0).permutation(np.flatnonzero(data.sequences.lengths.cpu().numpy()))[:DESCRIBED]
    table = sentences(Histories.of(data[np.sort(drawn)], AS_WRITTEN))
    counts = table.group_by("sentence").len("count").sort("count", "sentence", descending=[True, False])
    shares = {sentence: count / len(drawn) for sentence, count in counts.iter_rows()}
    return {sentence: share for sentence, share in list(shares.items())[:LISTED] if share >= COMMON}


def _histories(common: Mapping[str, float]) -> str:
    """Return the section about what most histories have in common."""
    lines = [f"{plain(sentence)} ({100 * share:.0f} %)" for sentence, share in common.items()]
    lines = lines or [f"No sentence is true of {100 * COMMON:.0f} % of them."]
    return f"\n## What most histories are like\n\n{_listed(lines)}\n"


def code(text: Any) -> str:
    """Return a name as code in Markdown, in which nothing else is markup, also in a cell of a table."""
    return f"`{_one_line(text).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def plain(text: Any) -> str:
    """Return a text in which Markdown and HTML find no markup."""
    escaped = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", escaped)


def _one_line(text: Any) -> str:
    return printable(" ".join(str(text).split()))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values, without the values that are empty."""
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows if value)])


def _listed(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _rows(
    config: Mapping[str, Mapping[str, Any]], schema: Schema, info: Mapping[str, Any]
) -> Iterable[tuple[str, str]]:
    """Yield the rows of the table of data and training."""
    counts = {name: f"{info[name]:,}" for name in ("entities", "events") if name in info}
    facts, data = info.get("data") or {}, config.get("data", {})
    yield ", ".join(counts), ", ".join(counts.values())
    if usable := info.get("usable"):
        yield "entities that the method could use", f"{usable:,}" if usable != info["entities"] else ""
    yield "period", " to ".join(map(str, facts.get("period") or ()))
    if lengths := facts.get("lengths"):
        yield "events of an entity", _lengths(lengths)
    cuts = [f"before {plain(data['until'])}"] if "until" in data else []
    cuts += [f"before the time in {code(data['cutoff_column'])} of each entity"] if "cutoff_column" in data else []
    yield "events used", ", ".join(cuts)
    if config:
        share, seed = info["holdouts"][-1]["fraction"], info["holdouts"][-1]["seed"]
        yield "entities held out of training", f"{100 * share:g} %, seed {seed}" if share else "none"
    categorical = ", ".join(
        f"{code(column.name)} ({column.size - FIRST:,} {'buckets' if column.buckets else 'values'})"
        for column in (*schema.categorical, *schema.bags)
    )
    yield "categorical columns", categorical or "none"
    yield "numeric columns", ", ".join(code(column.name) for column in schema.numeric) or "none"
    yield "columns of text", ", ".join(code(column.name) for column in schema.texts)
    yield "static columns used", ", ".join(code(column.name) for column in schema.static) or "none"
    if config:
        yield "beside the learned part", ", ".join(map(code, info["vector"][1:]))
        yield "steps, seconds", f"{info['steps']:,}, {info['seconds']:.0f}"
        yield "stopped by", info["stopped"]
        yield "epoch of the weights", str(info.get("kept_epoch", ""))
    yield "seed", str(info["seed"])
    yield "data fingerprint", code(info["fingerprint"])
    yield "libraries", ", ".join(f"{name} {number}" for name, number in info["versions"].items())


def _lengths(lengths: Mapping[str, float]) -> str:
    return f"{lengths['shortest']:,} to {lengths['longest']:,} (median {lengths['median']:,g})"


def _settings(config: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the settings of the method, the encoder and the training as TOML, without the paths of data and runs."""
    tables = {name: dict(config[name]) for name in ("method", "encoder", "fit") if name in config}
    tables.get("encoder", {}).pop("from", None)
    return tomli_w.dumps(tables).strip()


def _scores(scores: Sequence[Mapping[str, Any]]) -> str:
    """Return the scores of each evaluation at the largest share of its labels."""
    if not scores:
        return (
            "None are recorded here. `eventvec evaluate MODEL events.parquet labels.parquet --label churn "
            "--json > churn.json` measures what the model is worth on a label, and `eventvec card MODEL churn.json` "
            "adds the scores."
        )
    return "\n\n".join(map(_scored, scores))


def _scored(e: Mapping[str, Any]) -> str:
    """Return the scores of an evaluation: a heading, the verdict and a table."""
    largest = max(result["fraction"] for result in e["results"])
    rows = [
        f"| {code(r['features'])} | {code(r['model'])} | {_estimate(r['score'])} |"
        for r in e["results"]
        if r["fraction"] == largest
    ]
    head = [f"| features | model | {plain(e['metric'])} |", "| --- | --- | --- |"]
    share = "" if largest == 1 else f", {100 * largest:g} % of the labels"
    protocol = f"{e['n']:,} labels, {e['folds']} folds, {plain(e['protocol'])}{share}; ± is the 95 % interval"
    parts = [f"### {plain(e['label'])}", f"{protocol}.", plain(e["verdict"]), "\n".join([*head, *rows])]
    return "\n\n".join(part for part in parts if part)


def _estimate(score: Mapping[str, float | None]) -> Estimate:
    """Return an estimate from JSON, where an end that is not known is None."""
    ends = ("value", "low", "high")
    value, low, high = (math.nan if score[end] is None else float(score[end] or 0) for end in ends)
    return Estimate(value, low, high)


def _limits(
    config: Mapping[str, Mapping[str, Any]], info: Mapping[str, Any], scores: Sequence[Mapping[str, Any]]
) -> Iterable[str]:
    """Yield what the run was not tested on, and what its training data did not have."""
    facts = info.get("data") or {}
    if scores:
        yield f"Tested on {', '.join(plain(e['label']) for e in scores)} alone; other labels have to be measured."
        if all(e["protocol"] != "date" for e in scores):
            yield "Not tested on labels of a later time than those of its training (`--split-at`)."
        if all(e["protocol"] != "holdout" for e in scores):
            yield "Not tested on entities that the encoder never saw (`--holdout`)."
        yield (
            "An evaluation says how well labels of these entities are predicted. It does not say why, whether groups "
            "of people are treated alike, or what happens in another population or period."
        )
    else:
        yield (
            "Tested on its own labels alone."
            if info.get("heads")
            else "Not tested: no evaluation is part of this card."
        )
    if period := facts.get("period"):
        yield (
            f"The events end at {period[1]}. Whether a later period differs, `eventvec drift OLD NEW --model MODEL` "
            "measures."
        )
    if lengths := facts.get("lengths"):
        yield f"Histories had {_lengths(lengths)} events; what the model does with longer ones was not tested."
    for kind, meaning in (("unknown", "outside the vocabulary"), ("missing", "missing")):
        shares = {name: each[kind] for name, each in facts.get("columns", {}).items() if each.get(kind, 0) >= LEAST}
        if shares:
            listed = ", ".join(f"{code(name)} {100 * share:.3g} %" for name, share in shares.items())
            yield f"Values that are {meaning} in the training data: {listed}."
    if info["labels"]:
        learned = ", ".join(map(code, info["labels"]))
        yield f"The encoder learned from {learned}; scores on these labels count only for entities that were held out."
    yield "What the model reveals about protected attributes was not audited here; see the end of this card."


def _usage(config: Mapping[str, Mapping[str, Any]], info: Mapping[str, Any]) -> str:
    """Return the calls that use the model."""
    embeds = bool(config) or bool(info.get("vector"))
    predicts = bool(info.get("heads")) or (bool(config) and config["method"]["name"] == "supervised")
    lines = ["```python", "import eventvec as ev", "", 'model = ev.load("MODEL")  # this folder']
    lines += ['z = model.embed("events.parquet")  # one vector for each entity, with its key'] if embeds else []
    lines += ['predictions = ev.predict(model, "events.parquet")'] if predicts else []
    lines += ["```", "", "```bash"]
    lines += ["eventvec embed MODEL events.parquet -o embeddings.parquet"] if embeds else []
    lines += ["eventvec predict MODEL events.parquet -o predictions.parquet"] if predicts else []
    if embeds or predicts:
        lines.append("eventvec update MODEL today.parquet --state state.db -o fresh.parquet")
    return "\n".join([*lines, "```"])


class _Estimate(BaseModel):
    """A number with its interval, whose ends are missing where it has none."""

    value: FiniteFloat
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None


class _Result(BaseModel):
    """What a card shows of a result."""

    features: str
    model: str
    fraction: FiniteFloat
    score: _Estimate


class _Scores(BaseModel):
    """What a card shows of an evaluation."""

    label: str
    metric: str
    n: PositiveInt
    folds: PositiveInt
    protocol: str
    verdict: str
    run: str | None = None
    results: list[_Result]


def plain_scores(run: str, source: Source) -> dict[str, Any]:
    """Return what the card shows of an evaluation of the run's embeddings."""
    try:
        if isinstance(source, str | os.PathLike):
            name = os.fspath(source)
            evaluation = _Scores.model_validate_json(path_only(source).read_bytes())
        else:
            name = "the evaluation"
            evaluation = _Scores.model_validate(source.to_dict() if hasattr(source, "to_dict") else source)
    except ValidationError as error:
        raise DataError(f"{name} is not what `eventvec evaluate --json` printed: {misfit(error)}") from error
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from error
    if not evaluation.results:
        raise DataError(f"{name} has no results; give what `eventvec evaluate --json` printed")
    if evaluation.run != run:
        of = "names no run" if evaluation.run is None else f"is of run {shown(evaluation.run)}"
        raise DataError(f"{name} {of}, and the card is of run {run}; evaluate embeddings of this run")
    return evaluation.model_dump()
