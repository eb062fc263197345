"""Order-contrastive pre-training: the synthetic study (Figure 2), and its worth on real histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import ttest_1samp, ttest_rel  # type: ignore[import-untyped]

import eventvec as ev
from experiments.command_line import Row, run
from experiments.order import assumptions as feature_signals
from experiments.order import feature_comparison, feature_weights, number_of_pairs, synthetic
from experiments.order.encoder_comparison import encoder_scores
from experiments.order.feature_comparison import ALL, OCP, feature_scores
from experiments.order.note_protocol import (
    FRACTIONS,
    Scores,
    comparison_rows,
    cut_notes,
    draw_entities,
    without_label,
)
from experiments.order.real_histories import DATA_SETS
from experiments.order.text_tables import attention, text_pairs, text_trainings, texts
from experiments.order.window_order import irreversibility

ENCODED = ("cmapss", "pbc")
SMALL_FEATURES: dict[str, Any] = {"grid": ((True, 0.1), (False, 0.1))}
SMALL_ENCODERS: dict[str, Any] = {"seeds": 1, "epochs": 1, "grid": ((False, 0.1),)}


def figure2(small: bool) -> list[Row]:
    """Figure 2: features of S selected by pairs of windows, by number of pairs and 0-1 error (100 data sets)."""
    return synthetic.figure2(small, "error")


def figure2_loss(small: bool) -> list[Row]:
    """The same, selected by cross-entropy, which separates more subsets."""
    return synthetic.figure2(small, "loss")


def population(small: bool) -> list[Row]:
    """The errors of S and of the best other subset, on 600,000 pairs and exactly, and the pairs that are enough."""
    return synthetic.population(small)


def pairs(small: bool) -> list[Row]:
    """Features selected by order from 1,000 to 16,000 pairs, on made notes that meet the paper's assumptions."""
    return number_of_pairs.pairs(small)


def features(small: bool) -> list[Row]:
    """Tables 2 and 3: features selected by order beside all, the most common and random ones, on four data sets."""
    rows, options = [], SMALL_FEATURES if small else {}
    for name in ("pbc",) if small else DATA_SETS:
        result = feature_scores(name, FRACTIONS[-1:] if small else FRACTIONS, **options)
        for row in comparison_rows(name, result.scores, OCP):
            rows.append({**row, "pairs": result.pairs, "columns": result.columns[row["features"], row["fraction"]]})
    return rows


def figure3b(small: bool) -> list[Row]:
    """Figure 3b: signs and sizes of the weights of the features selected by order, on four data sets and made notes."""
    return feature_weights.figure3b(small)


def assumptions(small: bool) -> list[Row]:
    """Whether the features that tell the order are those that tell the label, on made notes and on four data sets."""
    rows: list[Row] = [{"data": "made notes", **number_of_pairs.made_signals(small)}]
    return rows + [feature_signals.describe(name) for name in (("pbc",) if small else DATA_SETS)]


def encoders(small: bool) -> list[Row]:
    """Tables 1 and 5: encoders by OCP, PCL and entity-contrastive beside training from scratch, on two data sets."""
    rows, options = [], SMALL_ENCODERS if small else {}
    for name in ("pbc",) if small else ENCODED:
        scores = encoder_scores(name, FRACTIONS[-1:] if small else FRACTIONS, **options)
        rows += comparison_rows(name, scores, "OCP")
    return rows


def foreseen(small: bool) -> list[Row]:
    """Whether an order that can be predicted foresees that OCP helps at 1/16 of the labels, for features and encoders.

    OCP helps if it is ahead with p < .05 over the folds; on the made notes, over the draws.
    """
    rows, few = [], FRACTIONS[-1:]
    for name in ("pbc",) if small else DATA_SETS:
        histories = DATA_SETS[name]()
        notes = cut_notes(histories.data, histories.label, histories.length, histories.text)
        entities = draw_entities(notes, histories.entities, feature_comparison.SEED)
        data = without_label(histories.data, histories.label)[np.setdiff1d(notes.entity, entities)]
        order = _order(data, histories.length)
        of_features = feature_scores(name, few, (OCP, ALL), **(SMALL_FEATURES if small else {})).scores
        rows.append({"data": name, "OCP for": "features", **order, **_lead(of_features, OCP, ALL)})
        if name in ENCODED:
            of_encoders = encoder_scores(name, few, ("OCP",), **(SMALL_ENCODERS if small else {}))
            rows.append({"data": name, "OCP for": "encoders", **order, **_lead(of_encoders, "OCP", "from scratch")})
    leads = number_of_pairs.leads(small, few[0])
    histories = number_of_pairs.made_histories(50 if small else number_of_pairs.UNLABELLED)
    rows.append({
        "data": "made notes", "OCP for": "features", **_order(histories, 1),
        "ahead": leads.mean, "p": float(ttest_1samp(leads.values, 0).pvalue),
    })  # fmt: skip
    for row in rows:
        row["helps"] = row["ahead"] > 0 and row["p"] < 0.05
        row["right"] = row["met"] == row["helps"]
    return rows


def _order(data: ev.Dataset, length: int) -> Row:
    """Return how well a linear model orders neighbouring notes, and whether that meets the assumption of OCP."""
    order = irreversibility(data, torch.Generator().manual_seed(feature_comparison.SEED), window=length)
    return {
        "AUROC of order": order.auroc.value, "low": order.auroc.low, "high": order.auroc.high,
        "clocks": " ".join(order.clocks), "met": order.met,
    }  # fmt: skip


def _lead(scores: Scores, ours: str, other: str) -> Row:
    """Return the lead of ours in mean AUC at the smallest fraction, and the p-value of a paired t-test over folds."""
    a, b = (scores[name, FRACTIONS[-1]][..., 0].mean(1) for name in (ours, other))
    return {"ahead": float((a - b).mean()), "p": float(ttest_rel(a, b).pvalue)}


TABLES = {
    "figure2": figure2, "figure2_loss": figure2_loss, "population": population, "pairs": pairs,
    "features": features, "figure3b": figure3b, "assumptions": assumptions, "encoders": encoders,
    "foreseen": foreseen, "texts": texts, "text_trainings": text_trainings, "text_pairs": text_pairs,
    "attention": attention,
}  # fmt: skip


def main() -> None:
    """Run the table that the command line names."""
    folder = "the folder of language models' trainings; a killed run resumes"
    run("order", TABLES, keep={"type": Path, "default": Path("order-texts"), "help": folder})


if __name__ == "__main__":
    main()
