"""What is compared: each arm is one way to train an encoder, as the tables of a configuration.

A data set's file in `configs/` says what all arms share (`[encoder]`, `[slices]`, `[altered]`, `[negatives]`, `[fit]`)
and, in `[arms.NAME]`, where an arm's own settings are others. `[supervised]` and `[fine_tuning]` bound what is trained
on labels.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from eventvec.config import Table, arguments
from eventvec.views import VIEWS

CONFIGS = Path(__file__).parent / "configs"

ARMS: Mapping[str, Table] = {
    "coles": {},
    "random_samples": {"views": "random_samples"},
    "disjoint_samples": {"views": "disjoint_samples"},
    "disjoint_segments": {"views": "disjoint_segments"},
    "random_negatives": {"negatives": "balanced_negatives"},
    "distance_weighted": {"negatives": "distance_weighted_negatives"},
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
    "gru": {"encoder": {"name": "gru"}},
    "lstm": {"encoder": {"name": "lstm"}},
    "transformer": {"encoder": {"name": "transformer", "dim": 64}},
    "transformer_paper": {"encoder": {"name": "transformer_paper", "dim": 64}},
}
"""How each arm differs from `coles`: random slices, hard negatives, contrastive loss, the data set's encoder."""

WHOLE = ("rtd", "cpc")
"""Methods that look at whole histories instead of views."""

PLAIN = ("nsp", "sop")
"""Methods whose slices stay as they are: they are cut in two, and their order is what counts."""


def names() -> list[str]:
    """Return the data sets that have a configuration."""
    return sorted(path.stem for path in CONFIGS.glob("*.toml"))


def read(name: str) -> Table:
    """Return a data set's configuration."""
    return tomllib.loads((CONFIGS / f"{name}.toml").read_text())


def tables(config: Table, arm: str) -> Table:
    """Return the `[encoder]`, `[method]` and `[fit]` tables of an arm; `dim=128` is CoLES at that embedding size."""
    size = {"encoder": {"dim": int(arm.removeprefix("dim="))}} if arm.startswith("dim=") else {}
    said, own = {**ARMS.get(arm, {}), **size}, config.get("arms", {}).get(arm, {})
    encoder = {**config["encoder"], **said.get("encoder", {}), **own.get("encoder", {})}
    name = said.get("method", "siamese" if "objective" in said else "coles")
    method: Table = {"name": name}
    if name not in WHOLE:
        method["views"] = _views(config, said.get("views", "random_slices"), own, name in PLAIN)
    if name == "coles" and "negatives" in said:
        method["negatives"] = {"name": said["negatives"]}
    elif name == "coles":
        method["negatives"] = {"name": "hard_negatives", **config.get("negatives", {})}
    method |= {option: said[option] for option in ("objective", "projection") if option in said}
    method |= own.get("method", {})
    return {"encoder": encoder, "method": method, "fit": {**config["fit"], **said.get("fit", {}), **own.get("fit", {})}}


def _views(config: Table, name: str, own: Table, plain: bool) -> Table:
    options = {**config["slices"], **own.get("slices", {})}
    views = {"name": name, **{k: v for k, v in options.items() if k in arguments(VIEWS[name])}}
    return {"name": "altered", "views": views, **config["altered"]} if "altered" in config and not plain else views
