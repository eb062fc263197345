"""Parts of other people: registered, they train, save, load, resume, fine-tune, update and are configured like ours."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eventvec as ev
import processes
from eventvec import parts
from eventvec.cli import main
from eventvec.comparing.arms import plan
from eventvec.errors import CheckpointError, ConfigError
from eventvec.losses.negatives import AllNegatives, Candidates


class Alike(nn.Module):
    """A method: views of one entity are alike."""

    def __init__(self, encoder: Any, views: Any = ev.views.RandomSlices(count=2, shortest=1), weight: float = 1.0):  # noqa: B008
        super().__init__()
        self.encoder, self.views, self.weight = encoder, views, weight

    def loss(self, batch: ev.Sequences, rng: torch.Generator) -> Tensor:
        views, source = self.views(batch, rng)
        z = F.normalize(self.encoder(views), dim=1)
        return self.weight * (z @ z.T - (source[:, None] == source).float()).square().mean()

    forward = loss


class RunningMean(nn.Module):
    """An encoder with a state: the sum of the encoded events, and their number."""

    def __init__(self, events: Any, dim: int = 4):
        super().__init__()
        self.events, self.dim, self.stored_dim = events, dim, events.dim + 1
        self.layer = nn.Linear(events.dim, dim)

    def state(self, x: ev.Sequences, initial: Tensor | None = None) -> Tensor:
        values = F.pad(self.events(x), (0, 1), value=1.0)
        start = torch.zeros(len(x), self.stored_dim) if initial is None else initial
        return start.index_add(0, x.rows(), values)

    def read(self, state: Tensor) -> Tensor:
        return self.layer(state[:, :-1] / state[:, -1:].clamp(min=1))

    def forward(self, x: ev.Sequences) -> Tensor:
        return self.read(self.state(x))


class Amounts(nn.Module):
    """An event encoder: the amount alone."""

    dim = 1

    def __init__(self, schema: ev.Schema, factor: float = 1.0):
        super().__init__()
        self.schema, self.factor = schema, factor

    def forward(self, x: ev.Sequences) -> Tensor:
        return self.factor * x.columns["amount"][x.flat()].float()[:, None]


@dataclass(frozen=True)
class Twice:
    """A view sampler: each row as it is, several times."""

    count: int = 2

    def __call__(self, batch: ev.Sequences, rng: torch.Generator) -> tuple[ev.Sequences, Tensor]:
        return ev.stack(*[batch] * self.count), torch.arange(len(batch)).repeat(self.count)

    def usable(self, x: ev.Sequences) -> Tensor:
        return x.lengths > 0


@dataclass(frozen=True)
class Halves:
    """A pair sampler: two copies of each row, with alternating labels."""

    def __call__(self, batch: ev.Sequences, rng: torch.Generator) -> tuple[ev.Sequences, Tensor]:
        return ev.stack(batch, batch), torch.arange(len(batch)).remainder(2).float()

    def usable(self, x: ev.Sequences) -> Tensor:
        return x.lengths > 0


@dataclass(frozen=True)
class Everyone:
    """A rule for negatives: all of them."""

    def __call__(self, candidates: Candidates, rng: torch.Generator | None = None) -> Tensor:
        return AllNegatives()(candidates)


class Count(nn.Module):
    """An encoder without weights: the number of events, which is its state too."""

    dim = stored_dim = 1

    def state(self, x: ev.Sequences, initial: Tensor | None = None) -> Tensor:
        return x.lengths[:, None].float() + (0 if initial is None else initial)

    def read(self, state: Tensor) -> Tensor:
        return state

    def forward(self, x: ev.Sequences) -> Tensor:
        return self.state(x)


EVERY: dict[str, tuple[Any, Any]] = {
    "alike": (Alike, None),
    "running_mean": (RunningMean, "encoder"),
    "amounts": (Amounts, "events"),
    "twice": (Twice, "views"),
    "halves": (Halves, "pairs"),
    "everyone": (Everyone, "negatives"),
    "count": (lambda schema: Count(), "block"),
}


@pytest.fixture(autouse=True)
def registered() -> None:
    """Register every part for one test; `conftest` takes back what a test registers."""
    for name, (part, kind) in EVERY.items():
        ev.register(name, part, kind)


def frame() -> pl.DataFrame:
    amounts = np.random.default_rng(0).normal(size=120)
    return pl.DataFrame({"id": np.repeat(np.arange(20), 6), "t": np.arange(120), "amount": amounts})


def read() -> ev.Dataset:
    return ev.read(frame(), key="id", time="t", numeric=["amount"])


TABLES: dict[str, dict[str, Any]] = {
    "alike": {"method": {"name": "alike", "weight": 0.5}, "encoder": {"name": "lstm", "dim": 4}},
    "running_mean": {"method": {"name": "coles"}, "encoder": {"name": "running_mean", "dim": 3}},
    "amounts": {"method": {"name": "coles"}, "encoder": {"events": {"name": "amounts", "factor": 2.0}, "dim": 4}},
    "twice": {"method": {"name": "coles", "views": {"name": "twice", "count": 3}}, "encoder": {"dim": 4}},
    "halves": {"method": {"name": "order", "pairs": {"name": "halves"}}, "encoder": {"name": "gru", "dim": 4}},
    "everyone": {"method": {"name": "coles", "negatives": {"name": "everyone"}}, "encoder": {"dim": 4}},
    "count": {"method": {"name": "coles"}, "encoder": {"dim": 4}, "fit": {"beside": ["count", "timing"]}},
}


@pytest.mark.parametrize("name", EVERY)
def test_a_run_with_a_part_of_others_is_saved_resumed_and_loaded(name: str, tmp_path: Path) -> None:
    data = read()
    run = ev.fit(data, method=TABLES[name], epochs=2, out=tmp_path / "run")
    again = ev.load(tmp_path / "run")
    assert again.info["parts"] == {name: __name__}
    assert np.array_equal(again.embed(data).values, run.embed(data).values)
    resumed = ev.fit(data, method=again.config, out=tmp_path / "run", resume=True)
    assert np.array_equal(resumed.embed(data).values, run.embed(data).values)


def test_a_method_that_was_put_together_in_python_is_saved_by_its_attributes(tmp_path: Path) -> None:
    data = read()
    method = Alike(RunningMean(Amounts(data.schema, factor=3.0), dim=2), Twice(), weight=0.25)
    ev.fit(data, method=method, epochs=1, out=tmp_path / "run")
    config = ev.load(tmp_path / "run").config
    assert config["method"] == {"name": "alike", "views": {"name": "twice", "count": 2}, "weight": 0.25}
    assert config["encoder"] == {"name": "running_mean", "events": {"name": "amounts", "factor": 3.0}, "dim": 2}


def test_an_encoder_of_others_is_fine_tuned_and_updated(tmp_path: Path) -> None:
    data, labels = read(), pl.DataFrame({"id": np.arange(20), "churn": np.arange(20) % 2 == 0})
    run = ev.fit(data, method=TABLES["running_mean"], epochs=1, beside=["count"], out=tmp_path / "run")
    tuned = ev.fine_tune(run, frame(), labels, "churn", epochs=1)
    assert len(ev.predict(tuned, tuned.read(frame()))) == 20
    late = pl.col("t") % 6 > 2
    for batch in (frame().filter(~late), frame().filter(late)):
        updated = ev.update(run, batch, tmp_path / "state.db")
    whole = run.embed(frame())
    rows = [whole.keys.to_pylist().index(key) for key in updated.embeddings.keys.to_pylist()]
    np.testing.assert_allclose(updated.embeddings.values, whole.values[rows], atol=1e-6)


def test_a_run_whose_part_is_not_registered_names_it_and_imports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile_parts.py").write_text("import pathlib; pathlib.Path('executed').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Alike, "__module__", "hostile_parts")
    ev.fit(read(), method=TABLES["alike"], epochs=1, out=tmp_path / "run")
    del parts.REGISTERED["alike"], parts.KINDS["method"]["alike"]
    with pytest.raises(CheckpointError, match=r"needs the part 'alike', .* 'hostile_parts' registered it: import"):
        ev.load(tmp_path / "run")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("name", "part", "kind", "message"),
    [
        ("coles", Alike, None, "eventvec has a part of the name 'coles'; choose another name"),
        ("gru", Count, "encoder", "eventvec has a part of the name 'gru'"),
        ("timing", Count, "block", "eventvec has a part of the name 'timing'"),
        ("alike", Count, "encoder", "Alike is registered as the name 'alike'; choose another name"),
        (
            "new",
            Count,
            None,
            "kind of 'new' must be one of method, encoder, events, views, pairs, negatives, block, got",
        ),
        ("new", Count, "encoders", "got 'encoders'"),
        ("two words", Count, "encoder", "name must be a word of letters, digits and underscores, got 'two words'"),
        ("new", 3, "encoder", "part must be a class or a function that returns a part, got int"),
    ],
)
def test_what_cannot_be_registered(name: str, part: Any, kind: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ev.register(name, part, kind)
    assert message in str(raised.value)


def test_a_class_that_is_defined_again_takes_the_place_of_the_first() -> None:
    again = type("Alike", (Alike,), {"__module__": __name__, "__qualname__": "Alike"})
    ev.register("alike", again)
    assert type(ev.build_method(TABLES["alike"], read().schema)) is again


def test_an_argument_that_is_not_kept_is_named(tmp_path: Path) -> None:
    class Forgetful(Alike):
        def __init__(self, encoder: Any, strength: float = 1.0):
            super().__init__(encoder)

    ev.register("forgetful", Forgetful)
    method = Forgetful(RunningMean(Amounts(read().schema)))
    with pytest.raises(ConfigError, match="Forgetful does not keep its argument 'strength' as an attribute"):
        ev.fit(read(), method=method, epochs=1, out=tmp_path / "run")


def test_a_method_without_a_name_is_told_how_to_get_one(tmp_path: Path) -> None:
    class Nameless(Alike):
        pass

    with pytest.raises(ConfigError, match=r'Nameless has no name .* ev\.register\("nameless", Nameless'):
        ev.fit(read(), method=Nameless(RunningMean(Amounts(read().schema))), epochs=1, out=tmp_path / "run")


MODULE = """
import torch
import eventvec as ev

class Spread(torch.nn.Module):
    def __init__(self, encoder, weight: float = 1.0):
        super().__init__()
        self.encoder, self.weight = encoder, weight
    def loss(self, batch, rng):
        return self.weight * self.encoder(batch).square().mean()
    forward = loss

ev.register("spread", Spread)
"""


def run_command(site: Path, folder: Path, words: str) -> None:
    """Run a command in a folder, in a process that has packages installed in another one."""
    sys.path.insert(0, str(site))
    os.chdir(folder)
    sys.argv = ["eventvec", *words.split()]
    main()


def check_plan(site: Path) -> None:
    """Check that a comparison knows a method of an installed package."""
    sys.path.insert(0, str(site))
    assert list(plan(["spread", "cpc"], ["gru"])) == ["spread", "cpc"]


def test_the_command_line_knows_the_parts_of_installed_packages(tmp_path: Path) -> None:
    (tmp_path / "site" / "spread-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "site" / "spread_parts.py").write_text(MODULE)
    (tmp_path / "site" / "spread-1.0.dist-info" / "METADATA").write_text("Name: spread\nVersion: 1.0\n")
    (tmp_path / "site" / "spread-1.0.dist-info" / "entry_points.txt").write_text(
        "[eventvec.parts]\nspread = spread_parts\n"
    )
    frame().write_parquet(tmp_path / "events.parquet")
    fit = "fit --events events.parquet --key id --time t --numeric amount --method spread --set method.weight=2"
    for words in (f"{fit} --epochs 1 --out run", "embed run events.parquet -o z.parquet"):
        assert processes.exit_code(run_command, tmp_path / "site", tmp_path, words) == 0
    assert len(ev.read_embeddings(tmp_path / "z.parquet")) == 20
    assert processes.exit_code(check_plan, tmp_path / "site") == 0
    with pytest.raises(CheckpointError, match="the module 'spread_parts' registered it"):
        ev.load(tmp_path / "run")
