"""Which labels train the models and which test them, with sentences about what that measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eventvec.learners.folds import Split, apart, cross_validation, date_splits, holdout_splits
from eventvec.learners.task import Target
from eventvec.sequences import Array


@dataclass(frozen=True, eq=False)
class Protocol:
    """The labels of an evaluation that a protocol uses, and the positions of the training and test part of each fold.

    `name` is `cross-validation`, `holdout` or `date`; `groups` has `(n,)` codes of what is resampled together.
    """

    name: str
    target: Target
    groups: Array | None
    splits: Sequence[Split]
    notes: tuple[str, ...]


def choose_protocol(
    target: Target,
    groups: Array | None,
    held_out: Array | None,
    later: Array | None,
    *,
    both_sides: bool,
    folds: int,
    seed: int,
    learned_from: Sequence[str] | None,
) -> Protocol:
    """Return the protocol that follows from what is known about the labels.

    Held-out entities that are tested after a date are predicted by models that were trained on the other entities
    before it.
    """
    notes: list[str] = []
    if held_out is not None and groups is not None and not (rest := apart(held_out, groups)).all():
        notes.append(
            f"{int((~rest).sum()):,} labels of seen entities that share a group with held-out ones were not used for "
            "training."
        )
        target = target.part(rest)
        held_out, groups, later = held_out[rest], groups[rest], None if later is None else later[rest]
    if held_out is not None and later is not None:
        rest = held_out == later
        notes.append(f"{int((~rest).sum()):,} labels are on the other side of the date and were left out.")
        target, held_out, groups = target.part(rest), held_out[rest], None if groups is None else groups[rest]
    if held_out is not None:
        splits = holdout_splits(target, held_out, folds, groups, seed)
        sentence = (
            f"Tested on {int(held_out.sum()):,} labels of entities that the encoder never saw; each score is over all "
            f"of them, from a model trained without one fold of the {int((~held_out).sum()):,} others."
        )
        return Protocol("holdout", target, groups, splits, (*notes, sentence))
    seen = _what_was_seen(learned_from)
    if later is not None:
        splits = date_splits(target, later, folds, groups, seed, both_sides)
        return Protocol("date", target, groups, splits, (_sides(later, groups, both_sides), seen))
    splits = cross_validation(target, folds, groups, seed)
    return Protocol("cross-validation", target, groups, splits, (seen,))


def _sides(later: Array, groups: Array | None, both_sides: bool) -> str:
    """Return a sentence about the two sides of a date."""
    n = int(later.sum())
    sentence = f"Trained on {len(later) - n:,} labels before the date, tested on {n:,} at or after it"
    if not both_sides:
        return f"{sentence}; no model was trained on an entity that it tests."
    codes = np.arange(len(later)) if groups is None else groups
    tested = np.unique(codes[later])
    shared = int(np.isin(tested, codes[~later]).sum())
    return f"{sentence}; {shared:,} of {len(tested):,} test entities were trained on before it."


def _what_was_seen(learned_from: Sequence[str] | None) -> str:
    """Return a sentence about what the encoder has seen of test entities that it was not kept from."""
    if learned_from:
        columns = f"column{'' if len(learned_from) == 1 else 's'} {', '.join(map(repr, learned_from))}"
        return (
            f"The encoder saw the test entities' events and was trained on the static {columns} too; only a hold-out "
            "test scores entities that it never saw."
        )
    training = "without labels" if learned_from is not None else "and whether it was trained on labels is not known"
    rest = "only a hold-out test scores entities that it never saw"
    return f"The encoder saw the test entities' events, {training}; {rest}."
