"""Order-contrastive pre-training: what it finds in bits (Figure 2), and what it is worth on real histories."""

from __future__ import annotations

import numpy as np
import torch

from eventvec.diagnosis import irreversibility
from experiments.order import embeddings, linear, real, synthetic
from experiments.order.study import FRACTIONS, Scores, compared, labelled, notes, without
from experiments.tables import Row, main

ENCODED = ("cmapss", "pbc")


def figure2(small: bool) -> list[Row]:
    """Figure 2: features of S that pairs of windows find, by number of pairs, chosen by 0-1 error (100 data sets)."""
    return synthetic.figure2(small, "error")


def figure2_loss(small: bool) -> list[Row]:
    """The same, chosen by cross-entropy, which tells more subsets apart."""
    return synthetic.figure2(small, "loss")


def population(small: bool) -> list[Row]:
    """The errors of S and of the best other subset on 600,000 pairs, beside what the paper's formulas give."""
    return synthetic.population(small)


def features(small: bool) -> list[Row]:
    """Tables 2 and 3: features that order selects, beside all, the most common and random ones, on four data sets."""
    rows = []
    for name in ("pbc",) if small else real.STUDIES:
        rows += compared(name, linear.run(name, FRACTIONS[-1:] if small else FRACTIONS), linear.OCP)
    return rows


def encoders(small: bool) -> list[Row]:
    """Tables 1 and 5: encoders by OCP, PCL and entity-contrastive beside training from scratch, on two data sets."""
    rows = []
    for name in ("pbc",) if small else ENCODED:
        if small:
            scores = embeddings.run(name, FRACTIONS[-1:], embeddings.SCHEMES, seeds=1, epochs=2)
        else:
            scores = embeddings.run(name, FRACTIONS, embeddings.SCHEMES)
        rows += compared(name, scores, "OCP")
    return rows


def diagnostic(small: bool) -> list[Row]:
    """Where order is readable by the diagnostic, and whether OCP is ahead at a sixteenth of the labels."""
    rows = []
    for name in ("pbc",) if small else real.STUDIES:
        chosen = real.STUDIES[name]()
        found = notes(chosen.data, chosen.label, chosen.length, chosen.text)
        others = np.setdiff1d(found.entity, labelled(found, chosen.entities, linear.SEED))
        data = without(chosen.data, chosen.label)[others]
        order = irreversibility(data, torch.Generator().manual_seed(linear.SEED), window=chosen.length)
        row: Row = {
            "data": name, "AUROC of order": order.auroc.value, "low": order.auroc.low, "high": order.auroc.high,
            "clocks": " ".join(field.name for field in order.clocks), "predicted": "helps" if order.met else "does not",
        }  # fmt: skip
        few = FRACTIONS[-1:]
        row |= _observed("features", linear.run(name, few, (linear.OCP, linear.ALL)), linear.OCP, linear.ALL)
        if name in ENCODED:
            sizes = {"seeds": 1, "epochs": 2} if small else {}
            row |= _observed("encoder", embeddings.run(name, few, ("OCP",), **sizes), "OCP", "from scratch")
        else:
            row |= {"encoder ahead by": "", "encoder": ""}
        rows.append(row)
    return rows


def _observed(what: str, scores: Scores, ours: str, other: str) -> Row:
    """Return by how much ours is ahead in AUC at the smallest fraction, and whether it helps: at all, on average."""
    ahead = float(scores[ours, FRACTIONS[-1]][..., 0].mean() - scores[other, FRACTIONS[-1]][..., 0].mean())
    return {f"{what} ahead by": ahead, what: "helps" if ahead > 0 else "does not"}


if __name__ == "__main__":
    main(
        "order",
        {
            "figure2": figure2, "figure2_loss": figure2_loss, "population": population, "features": features,
            "encoders": encoders, "diagnostic": diagnostic,
        },
    )  # fmt: skip
