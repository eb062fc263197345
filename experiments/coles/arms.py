"""The arms of the comparison: each is one way to train an encoder, given as the tables of a configuration.

A data set's file in `configs/` holds what all arms share (`[encoder]`, `[slices]`, `[altered]`, `[negatives]`, `[fit]`)
and, in `[arms.NAME]`, the settings that differ for one arm. `[supervised]` and `[fine_tuning]` hold the settings of
training on labels.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from eventvec.config import Table, arguments
from eventvec.losses.negatives import DistanceWeightedNegatives, HardNegatives
from eventvec.views import VIEWS

CONFIGS = Path(__file__).parent / "configs"

ARMS: Mapping[str, Table] = {
    "coles": {},
    "random_samples": {"views": "random_samples"},
    "capped_samples": {"views": "capped_samples"},
    "rejection_slices": {"views": "rejection_slices"},
    "disjoint_samples": {"views": "disjoint_samples"},
    "disjoint_segments": {"views": "disjoint_segments"},
    "shuffled_samples": {"views": "random_samples", "shuffle": True},
    "shuffled_slices": {"shuffle": True},
    "random_negatives": {"negatives": {"name": "balanced_negatives"}},
    "distance_weighted": {"negatives": {"name": "distance_weighted_negatives"}},
    **{
        f"{kind} {count}": {"negatives": {"name": f"{name}_negatives", "count": count}}
        for kind, name in (("hard", "hard"), ("random", "random"), ("distance", "distance_weighted"))
        for count in (2, 5, 9)
    },
    "binomial_deviance": {"objective": {"name": "binomial_deviance"}},
    "histogram": {"objective": {"name": "histogram"}},
    "margin": {"objective": {"name": "margin"}},
    "triplet": {"objective": {"name": "triplet"}},
    "nt_xent": {"objective": {"name": "nt_xent"}},
    "vicreg": {"objective": {"name": "vicreg"}, "projection": 256},
    "barlow_twins": {"objective": {"name": "barlow_twins"}, "projection": 256},
    "bfloat16": {"fit": {"precision": "bfloat16"}},
    "nsp": {"method": "nsp"},
    "sop": {"method": "sop"},
    "rtd": {"method": "rtd"},
    "cpc": {"method": "cpc"},
    "ocp": {"method": "ocp"},
    "gru": {"encoder": {"name": "gru"}},
    "lstm": {"encoder": {"name": "lstm"}},
    "transformer": {"encoder": {"name": "transformer", "dim": 64}},
    "transformer_paper": {"encoder": {"name": "transformer_paper", "dim": 64}},
}
"""How each arm differs from `coles`: random slices, hard negatives, contrastive loss, the data set's encoder."""

WITHOUT_VIEWS = ("rtd", "cpc", "ocp")
"""Methods that train on whole histories or on pairs of windows instead of views."""

UNALTERED = ("nsp", "sop")
"""Methods whose slices are not altered, because they predict the order of the two parts of a slice."""


def names() -> list[str]:
    """Return the data sets that have a configuration."""
    return sorted(path.stem for path in CONFIGS.glob("*.toml"))


def read(name: str) -> Table:
    """Return a data set's configuration."""
    return tomllib.loads((CONFIGS / f"{name}.toml").read_text())


def with_negatives(config: Table, kind: str, count: int) -> str:
    """Return the arm with so many negatives of a kind for each row, which may be one that other tables train too."""
    hard = HardNegatives(**config.get("negatives", {})).count
    trained = {("hard", hard): "coles", ("distance", DistanceWeightedNegatives.count): "distance_weighted"}
    return trained.get((kind, count), f"{kind} {count}")


def tables(config: Table, arm: str) -> Table:
    """Return the `[encoder]`, `[method]` and `[fit]` tables of an arm; `dim=128` is CoLES at that embedding size."""
    size = {"encoder": {"dim": int(arm.removeprefix("dim="))}} if arm.startswith("dim=") else {}
    definition, overrides = {**ARMS.get(arm, {}), **size}, config.get("arms", {}).get(arm, {})
    encoder = {**config["encoder"], **definition.get("encoder", {}), **overrides.get("encoder", {})}
    name = definition.get("method", "siamese" if "objective" in definition else "coles")
    method: Table = {"name": name}
    if name == "ocp":
        method["count"] = config["slices"]["count"]
    if name not in WITHOUT_VIEWS:
        altered = config.get("altered", {}) if name not in UNALTERED else {}
        if "shuffle" in definition:
            altered = {"dropout": 0.0, **altered, "shuffle": definition["shuffle"]}
        method["views"] = _views(config, definition.get("views", "random_slices"), overrides, altered)
    if name == "coles" and "negatives" in definition:
        method["negatives"] = definition["negatives"]
    elif name == "coles":
        method["negatives"] = {"name": "hard_negatives", **config.get("negatives", {})}
    method |= {option: definition[option] for option in ("objective", "projection") if option in definition}
    method |= overrides.get("method", {})
    fit = {**config["fit"], **definition.get("fit", {}), **overrides.get("fit", {})}
    return {"encoder": encoder, "method": method, "fit": fit}


def _views(config: Table, name: str, overrides: Table, altered: Table) -> Table:
    """Return the table of a view sampler with those options of `[slices]` that it takes."""
    options = {**config["slices"], **overrides.get("slices", {})}
    options["trials"] = options["count"]  # of rejection slices
    views = {"name": name, **{k: v for k, v in options.items() if k in arguments(VIEWS[name])}}
    return {"name": "altered", "views": views, **altered} if altered else views
