"""`diagnose`: every check on one data set, and a verdict per method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from eventvec.dataset import Dataset, check_entities
from eventvec.diagnosis.bootstrap import MET
from eventvec.diagnosis.lengths import PowerLaw, power_law
from eventvec.diagnosis.repetition import Repeatability, repeatability
from eventvec.diagnosis.slicing import SliceLengths, slice_lengths, theorem1
from eventvec.diagnosis.verdicts import REJECTION_SLICES, Diagnosis, Verdict
from eventvec.diagnosis.window_order import Field, Irreversibility, irreversibility
from eventvec.errors import DataError
from eventvec.options import check_seed, checked
from eventvec.views.draws import at_least
from eventvec.views.sizes import slice_bounds

T = TypeVar("T")

TIED = 0.1
"""Share of consecutive events with equal times from which a note warns of them."""

EVENTS = 1 << 23
"""Approximate upper bound on the number of events of the sampled entities."""


def diagnose(
    data: Dataset,
    *,
    entities: int = 2000,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Diagnosis:
    """Return which assumptions of CoLES and of the order-contrastive methods a data set meets.

    `power_law`, `theorem1`, `slice_lengths`, `repeatability` and `irreversibility` describe the checks and their
    criteria. All thresholds were chosen before any data set was looked at. If the data do not allow a check, such as
    repeatability without a categorical column, the verdict gives the reason. Nothing is trained: a diagnosis takes
    seconds, and memory for the events of the sampled entities.

    Args:
        data: The rows to check.
        entities: Largest number of entities sampled for repeatability and order. Fewer are sampled if they have more
            than about eight million events. Lengths are taken from all entities.
        seed: Seed of everything random.
        progress: Function called with the number of checks done, the number of all checks and the next one's name.

    Raises:
        ConfigError: If `entities` is below 1, the seed is not in [0, 2^62), or the data are not a `Dataset`.
        DataError: If no entity has two events.

    Example:
        >>> from eventvec import datasets
        >>> diagnosis = diagnose(datasets.flights()[0], entities=500)
        >>> for verdict in diagnosis.verdicts:
        ...     print(f"{verdict.method:30} {verdict.met}")
        coles                          True
        coles with rejection_slices    False
        ocp, ocp_biased, pcl           False
    """
    check_entities(data)
    at_least("entities", checked("entities", entities, int), 1)
    check_seed("seed", seed)
    x = data.sequences
    if x.longest < 2:
        raise DataError(
            f"at least one entity must have two events, but none of {len(x):,} has; check that the key column names "
            "the entity and not the event"
        )
    rng = torch.Generator().manual_seed(seed)
    lengths = x.lengths.cpu()
    drawn = torch.randperm(len(x), generator=rng)[:entities]
    sample = data[drawn[lengths[drawn].cumsum(0) - lengths[drawn] < EVENTS].sort()[0]]
    columns = [field.name for field in data.schema.categorical]
    checks = ["lengths", *columns, "order"]

    def report(done: int) -> None:
        if progress:
            progress(done, len(checks), checks[min(done, len(checks) - 1)])

    report(0)
    law, no_law = _result_or_reason(lambda: power_law(lengths.numpy()))
    slices, _ = _result_or_reason(lambda: slice_lengths(lengths.numpy(), slice_bounds(x)[0]))
    repeated, not_compared = [], []
    for done, column in enumerate(columns, 1):
        report(done)
        result, reason = _result_or_reason(lambda column=column: repeatability(sample, column, rng))  # type: ignore[misc]
        repeated += [result] if result else []
        not_compared += [reason] if reason else []
    report(len(checks) - 1)
    order, no_order = _result_or_reason(lambda: irreversibility(sample, rng))
    report(len(checks))
    verdicts = (_repetition(repeated, not_compared), _lengths(law, slices, no_law), _order(order, no_order))
    notes = (not_compared if repeated else []) + _warnings(repeated, order)
    if len(sample) < len(data):
        share = f"{len(sample):,} of {len(data):,} entities"
        notes = [f"repetition and order were checked on a random sample of {share} (seed {seed})", *notes]
    bounds = theorem1(law.alpha, law.shortest) if law else None
    return Diagnosis(
        len(data), x.total, len(sample), seed, law, bounds, slices, tuple(repeated), order, verdicts, tuple(notes)
    )


def _result_or_reason(check: Callable[[], T]) -> tuple[T | None, str]:
    """Return the result of a check, or the reason why the data do not allow it."""
    try:
        return check(), ""
    except DataError as error:
        return None, str(error)


def _repetition(results: list[Repeatability], not_compared: list[str]) -> Verdict:
    assumption = "events repeat, so that two slices of one history are similar"
    informative = [r for r in results if not r.names_entities]
    if not informative:
        reason = "; ".join(not_compared) or "there is no categorical column by which slices can be compared"
        if results:
            identifying = ", ".join(repr(r.field) for r in results)
            reason = f"no categorical column changes within entities; {identifying} identifies them"
        return Verdict("coles", assumption, None, reason)
    best = max(informative, key=lambda r: (r.met, r.nearer.low))
    within, between = best.medians
    finding = (
        f"in column {best.field!r}, the median KL divergence of two slices is {within:.2f} within entities and "
        f"{between:.2f} between entities (difference {best.difference}); the slice of the same entity is more similar "
        f"with probability {best.nearer}, threshold {MET}"
    )
    return Verdict("coles", assumption, any(r.met for r in informative), finding)


def _lengths(law: PowerLaw | None, slices: SliceLengths | None, reason: str) -> Verdict:
    assumption = "sequence lengths follow a power law, so that slices keep their distribution (Theorem 1)"
    if law is None:
        return Verdict(REJECTION_SLICES, assumption, None, reason)
    comparison = {
        (False, False): "neither a log-normal nor an exponential distribution fits better",
        (True, False): "a log-normal distribution fits better",
        (False, True): "an exponential distribution fits better",
        (True, True): "both a log-normal and an exponential distribution fit better",
    }[law.log_normal.better, law.exponential.better]
    few = ", which is fewer than half" if 2 * law.tail < len(law.lengths) else ""
    finding = (
        f"the power law has exponent −{-law.alpha:.2f} and covers the {law.tail:,} of {len(law.lengths):,} entities "
        f"with at least {law.shortest:,} events{few}; {comparison}"
    )
    if slices:
        finding += (
            f"; slices of at least {slices.shortest} events change the length distribution by {slices.rejection:.2f} "
            f"(random_slices: {slices.fixed:.2f})"
        )
    return Verdict(REJECTION_SLICES, assumption, law.met, finding)


def _order(result: Irreversibility | None, reason: str) -> Verdict:
    method = "ocp, ocp_biased, pcl"
    assumption = "histories do not go back, so that the order of adjacent windows can be predicted"
    if result is None:
        return Verdict(method, assumption, None, reason)
    finding = f"the AUROC is {result.auroc} for windows of {_times(result.window)}, threshold {MET}"
    if result.carriers:
        finding += f"; columns that predict the order: {_names(result.carriers[:5])}"
    if result.clocks:
        rest = f"the AUROC is {result.without_clocks}" if result.without_clocks else "no other column is left"
        finding += f"; clocks to leave out: {_names(result.clocks)} (without them, {rest})"
    return Verdict(method, assumption, result.met, finding)


def _warnings(repeated: list[Repeatability], order: Irreversibility | None) -> list[str]:
    warnings = [
        f"column {r.field!r} has only one value in {100 * r.constant:.0f} % of the entities; it identifies entities "
        "and does not show that events repeat"
        for r in repeated
        if r.names_entities
    ]
    if order is None:
        return warnings
    warnings += [f"column {f.name!r} looks like a clock: {f.clock}" for f in order.clocks]
    if order.skipped:
        total = order.skipped + order.entities
        warnings.append(
            f"{order.skipped:,} of {total:,} entities were skipped in the check of order because they have fewer than "
            f"two windows of {_times(order.window)}"
        )
    if order.tied >= TIED:
        warnings.append(
            f"{100 * order.tied:.0f} % of consecutive events have equal times, so their order is the table's; sop cuts "
            "slices between such events and would learn this order if the table is sorted; windows of ocp keep them "
            "together"
        )
    return warnings


def _times(window: int) -> str:
    return "one distinct time" if window == 1 else f"{window} distinct times"


def _names(fields: tuple[Field, ...]) -> str:
    return ", ".join(repr(field.name) for field in fields)
