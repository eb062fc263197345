"""`diagnose`: all checks on one data set, and what they say about methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from eventvec.config import suggest
from eventvec.dataset import Dataset
from eventvec.diagnosis.estimate import MET
from eventvec.diagnosis.lengths import PowerLaw, SliceLengths, power_law, slice_lengths, theorem1
from eventvec.diagnosis.repetition import Repeatability, repeatability
from eventvec.diagnosis.verdicts import Diagnosis, Verdict
from eventvec.diagnosis.window_order import Irreversibility, irreversibility
from eventvec.errors import DataError
from eventvec.views import at_least

T = TypeVar("T")

TIED = 0.1
"""Share of neighbouring events at one time from which a warning is given."""

EVENTS = 1 << 23
"""Events of the entities that are drawn, about, at most."""


def diagnose(
    data: Dataset,
    *,
    entities: int = 2000,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Diagnosis:
    """Return which method's assumptions a data set meets: CoLES's and the order methods'.

    `power_law`, `theorem1`, `slice_lengths`, `repeatability` and `irreversibility` say what is asked and when the
    answer is yes; all thresholds were chosen before any data set was looked at. What cannot be asked of the data, such
    as repeatability without a categorical column, has the reason in its verdict. Nothing is trained: seconds, and
    memory for the events of the entities that are looked at.

    Args:
        data: rows.
        entities: how many are drawn for repeatability and order, at most, and fewer where they have more than about
            eight million events; lengths are taken of all.
        seed: of everything random.
        progress: called with the number of checks done, the number in all and the next one's name.

    Raises:
        ConfigError: `entities` is below 1.
        DataError: no entity has two events.

    Example:
        >>> from eventvec import datasets
        >>> found = diagnose(datasets.flights()[0], entities=500)
        >>> for verdict in found.verdicts:
        ...     print(f"{verdict.method:30} {verdict.met}")
        coles                          True
        coles with rejection_slices    False
        ocp, ocp_biased, pcl           False
    """
    at_least("entities", entities, 1)
    x = data.sequences
    if x.longest < 2:
        raise DataError(
            f"none of {len(x):,} entities has two events; a history needs two at least. Is the key the entity, or "
            "the event?"
        )
    rng = torch.Generator().manual_seed(seed)
    lengths = x.lengths.cpu()
    drawn = torch.randperm(len(x), generator=rng)[:entities]
    part = data[drawn[lengths[drawn].cumsum(0) - lengths[drawn] < EVENTS].sort()[0]]
    names = [field.name for field in data.schema.categorical]
    checks = ["lengths", *names, "order"]

    def tell(done: int) -> None:
        if progress:
            progress(done, len(checks), checks[min(done, len(checks) - 1)])

    tell(0)
    law, no_law = _ask(lambda: power_law(lengths.numpy()))
    least = int(suggest(x, {})["method"]["views"]["shortest"])
    slices, _ = _ask(lambda: slice_lengths(lengths.numpy(), least))
    repeated, why = [], []
    for done, name in enumerate(names, 1):
        tell(done)
        found, sentence = _ask(lambda name=name: repeatability(part, name, rng))  # type: ignore[misc]
        repeated += [found] if found else []
        why += [sentence] if sentence else []
    tell(len(checks) - 1)
    order, no_order = _ask(lambda: irreversibility(part, rng))
    tell(len(checks))
    verdicts = (_repeats(repeated, why), _lengths(law, slices, no_law), _ordered(order, no_order))
    few = f"repeatability and order were asked of {len(part):,} of {len(data):,} entities, drawn with seed {seed}"
    notes = ([few] if len(part) < len(data) else []) + (why if repeated else []) + _warnings(repeated, order)
    bounds = theorem1(law.alpha, law.shortest) if law else None
    return Diagnosis(
        len(data), x.total, len(part), seed, law, bounds, slices, tuple(repeated), order, verdicts, tuple(notes)
    )


def _ask(check: Callable[[], T]) -> tuple[T | None, str]:
    """Return what a check finds, or the sentence that says why it cannot be asked of this data."""
    try:
        return check(), ""
    except DataError as error:
        return None, str(error)


def _repeats(found: list[Repeatability], why: list[str]) -> Verdict:
    assumption = "an entity's events repeat: two slices of its history are alike"
    telling = [r for r in found if not r.names_entities]
    if not telling:
        constant = ", ".join(repr(r.field) for r in found)
        none = f"no categorical column changes within entities; {constant} names them" if found else "; ".join(why)
        return Verdict("coles", assumption, None, none or "there is no categorical column to compare slices by")
    best = max(telling, key=lambda r: (r.met, r.nearer.low))
    within, between = best.medians
    said = (
        f"{best.field!r}: KL within {within:.2f} {'<' if within < between else '≥'} between {between:.2f}, difference "
        f"{best.difference}; the own slice is nearer in {best.nearer}"
    )
    return Verdict("coles", assumption, any(r.met for r in telling), said)


def _lengths(law: PowerLaw | None, slices: SliceLengths | None, why: str) -> Verdict:
    name, assumption = "coles with rejection_slices", "lengths follow a power law, so that slices keep it (Theorem 1)"
    if law is None:
        return Verdict(name, assumption, None, why)
    better = [n for n, other in (("log-normal", law.log_normal), ("exponential", law.exponential)) if other.better]
    against = f"{' and '.join(better)} fits better" if better else "neither log-normal nor exponential fits better"
    few = ", fewer than half" if 2 * law.tail < len(law.lengths) else ""
    kept = ""
    if slices:
        kept = (
            f"; slices from {slices.shortest} events on change the law of lengths by {slices.rejection:.2f} "
            f"(random_slices: {slices.fixed:.2f})"
        )
    share = f"from {law.shortest:,} events on, {law.tail:,} of {len(law.lengths):,} entities{few}"
    return Verdict(name, assumption, law.met, f"exponent −{-law.alpha:.2f} {share}; {against}{kept}")


def _ordered(found: Irreversibility | None, why: str) -> Verdict:
    name, assumption = "ocp, ocp_biased, pcl", "histories do not go back: the order of adjacent windows can be read"
    if found is None:
        return Verdict(name, assumption, None, why)
    said = f"AUROC {found.auroc} for windows of {_times(found.window)}, threshold {MET}"
    if found.carriers:
        said += f"; carried by {', '.join(repr(f.name) for f in found.carriers[:5])}"
    if found.clocks:
        rest = f"{found.without_clocks} without" if found.without_clocks else "no other field"
        said += f"; {', '.join(repr(f.name) for f in found.clocks)} would give the order away, leave out ({rest})"
    return Verdict(name, assumption, found.met, said)


def _times(window: int) -> str:
    return "one distinct time" if window == 1 else f"{window} distinct times"


def _warnings(repeated: list[Repeatability], order: Irreversibility | None) -> list[str]:
    said = [
        f"column {r.field!r} has one value in {100 * r.constant:.0f} % of the entities: it names them, and that it "
        "repeats says nothing about events"
        for r in repeated
        if r.names_entities
    ]
    if order is None:
        return said
    said += [f"column {f.name!r} looks like a clock: {f.clock}" for f in order.clocks]
    if order.skipped:
        asked = order.skipped + order.entities
        said.append(
            f"skipped: {order.skipped:,} of {asked:,} entities, with fewer than two windows of {_times(order.window)}"
        )
    if order.tied >= TIED:
        said.append(
            f"{100 * order.tied:.0f} % of neighbouring events have the same time; their order is the table's, and sop, "
            "which cuts between events, would learn it if the table is sorted; windows of ocp keep them together"
        )
    return said
