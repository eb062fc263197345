"""Whether the vectors show that somebody was in the training data."""

from __future__ import annotations

import numpy as np
import torch

from eventvec.auditing.findings import Row, judged, unanswered
from eventvec.auditing.linkage import ENTITIES, EVENTS, FEWEST, similarities
from eventvec.dataset import Dataset
from eventvec.embedding import encode
from eventvec.encoders import Aggregates
from eventvec.errors import ConfigError, DataError
from eventvec.models import Model
from eventvec.sequences import Array
from eventvec.statistics.areas import of_groups, share_found
from eventvec.statistics.corrections import together
from eventvec.tables import Embeddings

FALSE_ALARMS = 0.05
"""The share of others that an attack may take for members, at which the share of members found is given."""
ATTACKS = 2
"""The number of attacks, whose intervals hold together."""
HOLD_OUT = "train with a share held out: read(..., holdout=0.2) (--holdout 0.2)"


def membership_findings(
    run: Model, z: Embeddings, data: Dataset, *, seed: int, level: float
) -> tuple[list[Row], list[str]]:
    """Return whether two attacks can distinguish members of the training data from held-out entities, and notes.

    The first attack needs no training: the halves of a member's history may be more alike than those of others, because
    contrastive methods make them so. The second is a logistic regression on the vectors, scored on folds that it was
    not trained on. Aggregates of the events are the control: they cannot know who was trained on, so if they tell
    the groups apart, the groups differ in themselves.
    """
    try:
        members, others = _groups(run, z, data, seed)
    except (ConfigError, DataError) as reason:
        return [unanswered("membership", "all attacks", f"Membership is unknown: {reason}.")], []
    rows = np.concatenate([members, others])
    is_member = np.arange(len(rows)) < len(members)
    x = data.sequences[torch.from_numpy(rows)]
    classified = _classified(z.values[rows], is_member, seed)
    control = _classified(encode(Aggregates(data.schema), x).numpy(), is_member, seed)
    simple = of_groups(control[is_member], control[~is_member]).widened(together(1, level))
    if simple.low > 0.5:
        sentence = (
            "Membership is unknown: members and held-out entities differ in the aggregates of their events "
            f"already (auroc {simple}); hold out at random."
        )
        return [unanswered("membership", "all attacks", sentence)], []
    long = x.lengths.numpy() >= EVENTS  # enough events for halves
    scores = {"vectors, which a classifier reads": (classified, is_member)}
    if min(is_member[long].sum(), (~is_member[long]).sum()) >= FEWEST:
        alike = np.diagonal(similarities(run.representation, x[torch.from_numpy(long)]))
        scores = {"halves of histories, which are alike": (alike, is_member[long]), **scores}
    findings = [_finding(name, each[of], each[~of], level, simple.value) for name, (each, of) in scores.items()]
    note = (
        f"Membership was judged on {len(members):,} entities that the run may have been trained on and {len(others):,} "
        "that it held out. Those that it used for validation count among the first."
    )
    return findings, [note]


def _finding(name: str, members: Array, others: Array, level: float, control: float) -> Row:
    score = of_groups(members, others).widened(together(ATTACKS, level))
    share = share_found(members, others, FALSE_ALARMS)
    rate = f"at {FALSE_ALARMS:.0%} false alarms, {share:.1%} of the members are found"
    start = "Members of the training data"
    claims = (f"{start} can be recognised by their {name}", f"{start} could not be recognised by their {name}")
    how = f"auroc {score}, where guessing has .5; {rate}"
    return judged("membership", name, claims, how, score, {"aggregates": control}, beyond=True)


def _groups(run: Model, z: Embeddings, data: Dataset, seed: int) -> tuple[Array, Array]:
    """Return the rows of members and of others; refuse where it is not known who was a member."""
    held_out = z.held_out
    if data[~held_out].fingerprint != run.info["fingerprint"]:
        raise DataError(
            "the events differ from those of the training, which leaves open who was a member; "
            "give all events of the training, held-out entities included"
        )
    rng = np.random.default_rng(seed)
    members, others = (np.sort(rng.permutation(np.flatnonzero(part))[:ENTITIES]) for part in (~held_out, held_out))
    if min(len(members), len(others)) < FEWEST:
        few = f"{len(members):,} members and {len(others):,} held-out entities are too few; {FEWEST} of each are needed"
        raise DataError(f"{few}; {HOLD_OUT}")
    return members, others


def _classified(features: Array, is_member: Array, seed: int) -> Array:
    """Return `(n,)` cross-fitted scores of a logistic regression for membership."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000, class_weight="balanced"))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return np.asarray(cross_val_predict(model, features, is_member, cv=folds, method="decision_function"))
