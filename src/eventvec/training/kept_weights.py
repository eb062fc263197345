"""Which epoch is the best on the entities held out for validation, and sentences on which one's weights a run has."""

from __future__ import annotations

from collections.abc import Sequence

from eventvec.models import Model, Record

LOSS = "validation"
"""The entry of a record with the validation loss."""

FAR = 1.1
"""The factor by which a validation loss is far above the lowest one: a tenth is more than the noise of its estimate.

The same tenth tells a score that is far below the highest one.
"""


def best_epoch(history: Sequence[Record], score: str | None = None) -> int | None:
    """Return the number of the first epoch with the lowest validation loss; None without validation.

    Args:
        score: The entry with the score of the method, see `score_entry`. The epoch is then the one with the highest
            score, and among equal scores with the lowest loss.
    """
    entry = _compared_by(history, score)
    order = [
        (0.0 if entry == LOSS else -_number(record, entry), _number(record, LOSS), int(_number(record, "epoch")))
        for record in _validated(history)
    ]
    return min(order)[2] if order else None


def kept_note(history: Sequence[Record], epoch: int, score: str | None = None) -> str:
    """Return a sentence on the epoch whose weights were kept because its validation was the best."""
    entry = _compared_by(history, score)
    best, last = history[epoch - 1], history[-1]
    of_last = "" if epoch == last["epoch"] else f"; that of the last is {last[entry]:.3g}"
    value = f"{_name(entry)} {best[entry]:.3g} was the {'lowest' if entry == LOSS else 'highest'}"
    return f"the weights are those of epoch {epoch} of {last['epoch']}, whose {value}{of_last}"


def far_from_best(run: Model) -> str | None:
    """Return a warning if the weights of a run are not those of its best epoch and were far worse on validation."""
    score = run.declared.score_entry
    best, entry = best_epoch(run.history, score), _compared_by(run.history, score)
    if best is None or run.kept_epoch is not None:
        return None
    last_record = _validated(run.history)[-1]
    value, last = _number(run.history[best - 1], entry), _number(last_record, entry)
    if abs(last - value) <= (FAR - 1) * abs(value):
        return None
    return (
        f"run {run.id} has the weights of its last epoch, {last_record['epoch']}, with a {_name(entry)} of {last:.3g}, "
        f"while epoch {best} had {value:.3g}; for better predictions train again with fit.keep = best"
    )


def _compared_by(history: Sequence[Record], score: str | None) -> str:
    """Return the entry of the records by which epochs are compared: the score if all have it, else the loss."""
    if score is None or any(record.get(score) is None for record in _validated(history)):
        return LOSS
    return score


def _name(entry: str) -> str:
    return "validation loss" if entry == LOSS else entry.replace("_", " ")


def _number(record: Record, entry: str) -> float:
    return float(record[entry] or 0)


def _validated(history: Sequence[Record]) -> list[Record]:
    return [record for record in history if record[LOSS] is not None]
