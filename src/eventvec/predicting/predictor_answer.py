"""What a predictor is worth out of fold, as an `Answer`: by family and by column of the events."""

from __future__ import annotations

from typing import Any

from eventvec.answers import Answer
from eventvec.errors import shown
from eventvec.evaluation.metrics import METRIC_NAMES, METRICS
from eventvec.predicting.event_predictor import Predictor
from eventvec.tables.label_times import untimed


def explained(predictor: Predictor) -> Answer:
    """Return what a predictor is worth out of fold: its score, what each family adds, its models and its columns."""
    info, target = predictor.info, predictor.target
    metric = METRIC_NAMES[METRICS[target.task][0]]
    name, score = shown(target.name), info["score"]
    unweighed = f"{name} is predicted by one linear model, because there are too few rows to weigh several."
    verdict = [unweighed if score is None else f"{name} is predicted with {metric} {score} out of fold."]
    adds = [row for row in info["adds"] if row["adds"] is not None]
    clear = [row for row in adds if row["adds"].place == "ahead"]
    rest = [str(row["family"]) for row in adds if row["used"] and row not in clear]
    dropped = [str(row["family"]) for row in adds if not row["used"]]
    if len(adds) > 1:
        verdict += [f"{row['family']} adds {row['adds']} to the others." for row in clear[:2]]
        verdict += [f"It cannot be shown that these add anything: {', '.join(rest)}."] if rest else []
        verdict += [f"Dropped, because they add nothing: {', '.join(dropped)}."] if dropped else []
    if untimed(None) in predictor.notes:
        verdict = [*verdict[:4], untimed(None)]
    models = [
        {"features": family, "model": head, "weight": round(predictor.stack.weights[family, head], 3)}
        for family, head in predictor.stack.models
    ]
    columns = [{"column": column or "(several)", "gain": round(gain, 4)} for column, gain in info["gains"].items()]
    tables: dict[str, Any] = {"families": [_row(row) for row in info["adds"]], "models": models, "columns": columns}
    facts = {"label": target.name, "task": target.task, "metric": METRICS[target.task][0], "rows": info["rows"],
             "entities": info["entities"], "score": score}  # fmt: skip
    notes = (
        *predictor.notes,
        f"What a family adds is the {metric} with it minus that without it, with the models weighed again; intervals "
        "are by resampling entities. The number of trees, the choice of models and their weights are learned from the "
        "rows that are scored, which biases the score slightly upward; for a fair one, score held-out entities.",
        "A column's gain is its share of the gain of all splits of boosted trees.",
    )
    return Answer(tuple(verdict), tables, notes, facts=facts, title=f"What predicts {target.name}")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {"family": row["family"], "adds": row["adds"], "used": row["used"]}
