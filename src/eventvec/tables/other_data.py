"""Whether a model reads other data than it learned from, by the facts of both that `tables.facts` returns.

The thresholds are for mistakes, such as a file with the last month only or amounts in cents, not for drift:
`eventvec.drift` tests whether two periods differ at all. They were chosen on nine tables of real events, where a model
of the events before a day reads those of the next 30 days too: docs/how-to/drift.md has the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eventvec.dataset import Dataset
from eventvec.errors import shown, warn
from eventvec.schema import Numeric, Schema
from eventvec.tables.summary import facts

FEWEST = 20
"""The number of histories below which nothing is said: a few entities may honestly be short-lived or unusual."""
SHORTER = 1 / 3
"""The share of the time of long histories in training below which those of other data are far shorter."""
FEWER = 1 / 4
"""The share of the median number of events in training below which that of other data is far smaller."""
SHIFTED, WIDER, MORE_UNKNOWN = 1.0, 1.5, 0.15
"""How far the mean of numbers may lie from that of training, in its standard deviations; by which factor they may
spread farther; by how much the share of unknown values or entities may be larger. Each holds for very many entities."""
OF_ENTITIES = "% of the entities have unknown values only"


def check_data(data: Dataset, learned: Mapping[str, Any]) -> None:
    """Warn of data that are unlike those that a model learned from, by one `EventvecWarning`.

    Args:
        data: What the model reads, by its schema.
        learned: The `facts` of its training data.
    """
    if learned and (differences := unlike(data, learned)):
        warn(f"the model reads other data than it learned from: {'; '.join(differences)}")


def unlike(data: Dataset, learned: Mapping[str, Any]) -> list[str]:
    """Return how data are unlike those that a model learned from, one sentence for each difference.

    Numbers and shares of few entities vary more, so their thresholds grow by one or three over the square root of the
    number of entities, of which those with many events count as more than others.

    Args:
        data: What the model reads, by its schema.
        learned: The `facts` of its training data.
    """
    lengths = data.sequences.lengths.double()
    if int((lengths > 0).sum()) < FEWEST:
        return []
    here = facts(data)
    slack = float(lengths.square().sum().sqrt() / lengths.sum())  # 1/√n for n entities with as many events each
    is_cut = data.moments is not None or data.origin.until is not None  # as histories may have been in training
    differences = [] if is_cut else list(_shorter(here, learned, data.schema))
    for name, before in learned.get("columns", {}).items():
        now = here["columns"].get(name, {})
        if before.get("std") and "std" in now:
            differences += _scale(data.schema, name, now, before, slack)
        for share, of in (("unknown", "% of the values are unknown"), ("unknown_entities", OF_ENTITIES)):
            share_now, trained = now.get(share, 0), before.get(share, 0)
            if share_now - trained > MORE_UNKNOWN + slack:
                differences.append(
                    f"column {shown(name)}: {100 * share_now:.3g} {of} ({100 * trained:.3g} % in training)"
                )
    return differences


def _shorter(here: Mapping[str, Any], learned: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    """Yield a sentence if histories are far shorter than in training, in time or in events."""
    advice = "give all events of each entity, not those of the last period only"
    now, before = (each.get("spans", {"median": 0.0, "long": 0.0}) for each in (here, learned))
    if now["median"] <= before["median"] / 2 and now["long"] < SHORTER * before["long"]:
        lasts = f"last {_time(now['long'], schema)}"
        yield f"long histories {lasts} ({_time(before['long'], schema)} in training); {advice}"
        return
    n_events, n_before = (each.get("lengths", {}).get("median", 0) for each in (here, learned))
    if n_events < FEWER * n_before:
        yield f"histories have {n_events:,.3g} events, the median ({n_before:,.3g} in training); {advice}"


def _scale(
    schema: Schema, name: str, now: Mapping[str, float], before: Mapping[str, float], slack: float
) -> Iterator[str]:
    """Yield a sentence if the numbers of a column have another scale than in training."""
    (field,) = (each for each in schema.numeric if each.name == name)
    shift, spread = (now["mean"] - before["mean"]) / before["std"], now["std"] / before["std"]
    widest = WIDER + 3 * slack
    if abs(shift) > SHIFTED + 3 * slack:
        typical, trained = (_raw(field, each["mean"]) for each in (now, before))
        yield f"column {shown(name)}: a typical number is {typical:.3g} ({trained:.3g} in training)"
    elif spread > widest or 0 < spread < 1 / (2 * widest):
        yield f"column {shown(name)}: numbers spread {spread:.2g} times as far as in training"


def _raw(field: Numeric, scaled: float) -> float:
    import torch

    return float(field.unscale(torch.tensor(scaled, dtype=torch.float64)))


def _time(seconds: float, schema: Schema) -> str:
    """Return a length of time in words, in days for calendar times."""
    return f"{seconds / 86_400:.3g} days" if schema.clock else f"{seconds:.3g}"
