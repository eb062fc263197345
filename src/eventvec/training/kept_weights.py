"""Sentences on which epoch's weights a run has, by the losses on the entities held out for validation."""

from __future__ import annotations

from collections.abc import Sequence

from eventvec.checkpoint import Record, Run

FAR = 1.1
"""The factor by which a validation loss is far above the lowest one: a tenth is more than the noise of its estimate."""


def best_epoch(history: Sequence[Record]) -> int | None:
    """Return the number of the first epoch with the lowest validation loss; None without validation.

    Example:
        >>> best_epoch([{"epoch": 1, "validation": 0.7}, {"epoch": 2, "validation": 0.4}])
        2
    """
    losses = [(float(record["validation"] or 0), int(record["epoch"] or 0)) for record in _validated(history)]
    return min(losses)[1] if losses else None


def kept_note(history: Sequence[Record], epoch: int) -> str:
    """Return a sentence on the epoch whose weights were kept because its validation loss was the lowest.

    Example:
        >>> kept_note([{"epoch": 1, "validation": 0.25}, {"epoch": 2, "validation": 0.5}], 1)
        'the weights are those of epoch 1 of 2, whose validation loss 0.25 was the lowest; that of the last is 0.5'
    """
    best, last = history[epoch - 1], history[-1]
    of_last = "" if epoch == last["epoch"] else f"; that of the last is {last['validation']:.3g}"
    loss = f"validation loss {best['validation']:.3g}"
    return f"the weights are those of epoch {epoch} of {last['epoch']}, whose {loss} was the lowest{of_last}"


def far_from_best(run: Run) -> str | None:
    """Return a warning if the weights of a run are not those of its best epoch and were far worse on validation.

    Runs of earlier versions kept the last weights unless they had `patience`.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit("ocp", ev.read(events, key="id", time="t", numeric=["v"]), epochs=1)
        >>> far_from_best(run) is None  # nothing was held out
        True
    """
    validated, best = _validated(run.history), best_epoch(run.history)
    fit = run.config.get("fit", {})
    if best is None or "kept_epoch" in run.info or fit.get("keep", "best" if "patience" in fit else "last") == "best":
        return None
    lowest, last = (float(record["validation"] or 0) for record in (run.history[best - 1], validated[-1]))
    if last <= lowest + (FAR - 1) * abs(lowest):
        return None
    return (
        f"run {run.id} has the weights of its last epoch, {validated[-1]['epoch']}, with a validation loss of "
        f"{last:.3g}, while epoch {best} had {lowest:.3g}; for better predictions train again with fit.keep = best"
    )


def _validated(history: Sequence[Record]) -> list[Record]:
    return [record for record in history if record["validation"] is not None]
