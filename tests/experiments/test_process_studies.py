"""The studies of stochastic processes: their linear head, ratios of errors, pictures, and epochs in the table."""

from __future__ import annotations

import inspect
import math
import sys
from pathlib import Path
from xml.dom import minidom

import pytest
import torch
from experiments.command_line import Row
from experiments.cresp import sinusoids
from experiments.cresp.__main__ import TABLES, main
from experiments.cresp.linear_head import regression
from experiments.line_chart import Axis, Line, Panel, svg

from eventvec.errors import ConfigError


@pytest.mark.parametrize("decay", [1e-6, 1e-3, 1.0])
def test_the_linear_head_equals_ridge_regression_in_closed_form(decay: float) -> None:
    rng = torch.Generator().manual_seed(0)
    z, y = torch.randn(200, 7, generator=rng) * torch.logspace(-2, 1, 7) + 3, torch.randn(200, 2, generator=rng)
    head = regression(z, y, decay)
    x, t = z.double() - z.double().mean(0), y.double() - y.double().mean(0)
    # the gradient of mean((x w - t)²) + decay · Σw², where the mean is over 400 elements
    weights = torch.linalg.solve(x.T @ x + decay * 400 * torch.eye(7), x.T @ t)
    assert torch.allclose(head.weight.T, weights, atol=1e-4, rtol=1e-3)
    assert torch.allclose(head(z.double()).mean(0), y.double().mean(0), atol=1e-6)


def test_the_ratio_of_errors_pairs_networks_of_one_seed() -> None:
    a, b = [(0.2, 0.2), (0.4, 0.4), (0.8, 0.8)], [(0.1, 0.1), (0.2, 0.2), (0.4, 0.4)]
    ratio = sinusoids._log_ratio(a, b)
    assert math.exp(ratio.mean) == pytest.approx(2)
    assert ratio.interval == pytest.approx(0, abs=1e-9)


def test_figures_have_a_line_for_each_method() -> None:
    rows: list[Row] = [
        {"distance": noise, "views": views, "embedding": name, "phase": 0.1, "± phase": 0.05, "amplitude": 0.2,
         "± amplitude": 0.05}
        for noise, views in sinusoids.SETTINGS
        for name in sinusoids.METHODS.values()
    ]  # fmt: skip
    picture = minidom.parseString(svg(sinusoids.panels(rows)))
    assert len(picture.getElementsByTagName("polyline")) == 2 * len(sinusoids.METHODS)
    assert len(picture.getElementsByTagName("polygon")) == 2 * len(sinusoids.METHODS)


def test_the_command_line_draws_the_figures_of_a_study_and_refuses_a_table_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = Panel("errors", Axis("views", (0, 1)), Axis("", (0, 1)), [Line("a", [(0.0, 0.5), (1.0, 0.6)])])
    monkeypatch.setattr(sinusoids, "study", lambda small: ([{"views": 2}], [panel]))
    monkeypatch.setattr(sys, "argv", ["cresp", "sinusoids", "--json", "--picture", str(tmp_path / "figure.svg")])
    main()
    assert "errors" in (tmp_path / "figure.svg").read_text()
    with pytest.raises(ConfigError, match="this table has no picture"):
        TABLES["solids"](True, picture=tmp_path / "other.svg")
    assert "picture" in inspect.signature(TABLES["solids"]).parameters
