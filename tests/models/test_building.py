"""The shapes of a method before it is built: equal to those of the method, and refused where memory is too small."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import cases
import make
from eventvec.config import build_method, describe
from eventvec.errors import ConfigError
from eventvec.models import building as module
from eventvec.models.building import memory, outline
from eventvec.training.setup import set_up


class Operations(TorchDispatchMode):
    """Collects the names of the operations that torch executes."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def tables(encoder: str = "gru", method: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {"method": method or {"name": "coles"}, "encoder": {"name": encoder, **options}}


@pytest.mark.parametrize("name", [name for name in cases.CASES if name not in ("masked_language", "tpp_embedding")])
def test_an_outline_has_the_shapes_and_the_types_of_the_method(name: str) -> None:
    config = describe(cases.CASES[name]()[0])  # type: ignore[arg-type]
    state = torch.get_rng_state()
    with Operations() as executed:
        shapes = outline(config, make.schema())
    assert "normal_" not in executed.names  # torch would import sympy, which takes longer than all else in a load
    assert torch.equal(torch.get_rng_state(), state)
    assert shapes is not None
    built = build_method(config, make.schema()).state_dict()
    assert {name: (each.shape, each.dtype) for name, each in shapes.items()} == {
        name: (each.shape, each.dtype) for name, each in built.items()
    }
    assert {each.device.type for each in shapes.values()} == {"meta"}


def test_a_method_on_a_pre_trained_model_has_no_outline() -> None:
    assert outline(tables("language", backbone="absent"), make.schema()) is None


@pytest.mark.parametrize("encoder", make.ENCODERS)
@pytest.mark.parametrize("dim", [10**9, 10**12, 2**62])
def test_a_method_that_does_not_fit_in_memory_is_refused_before_it_is_built(encoder: str, dim: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigError, match=r"of memory, but this machine has|is too large.* 2\^63|a size is too large"):
        set_up(make.dataset([5, 7]), tables(encoder, dim=dim))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # in kilobytes, so a gigabyte


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("siamese", {"projection": 10**8}),
        ("cpc", {"horizons": 10**11}),
        ("supervised", {"label": "kind"}),
    ],
)
def test_the_weights_of_the_method_are_counted(name: str, options: dict[str, Any]) -> None:
    dim = 10**6 if name == "supervised" else 32
    with pytest.raises(
        ConfigError, match=r"of memory, but this machine has .* choose smaller sizes, such as encoder.dim"
    ):
        set_up(make.dataset([5, 7]), tables(method={"name": name, **options}, dim=dim))


def test_training_needs_the_memory_of_four_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = outline(tables(dim=64), make.schema())
    assert shapes is not None
    size = sum(each.nbytes for each in shapes.values())
    monkeypatch.setattr(module, "memory", lambda: 3 * size)
    outline(tables(dim=64), make.schema(), copies=3)
    with pytest.raises(ConfigError, match=r"^the method needs 0.0 GB of memory, but this machine has 0.0 GB; choose "):
        outline(tables(dim=64), make.schema())


def test_a_container_may_have_less_memory_than_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", tmp_path / "absent")
    whole = memory()
    for text, expected in (("max\n", whole), ("1048576\n", 1 << 20), (f"{2**62}\n", whole)):
        (tmp_path / "limit").write_text(text)
        monkeypatch.setattr(module, "LIMIT", tmp_path / "limit")
        assert memory() == expected


@pytest.mark.parametrize("encoder", [name for name in make.ENCODERS if name != "resnet"])  # it has eight blocks
def test_an_encoder_of_a_million_layers_is_refused_before_the_first_is_built(encoder: str) -> None:
    with pytest.raises(ConfigError, match=r"layers must be at most 1000, got 1000000|receptive field must be below"):
        set_up(make.dataset([5, 7]), tables(encoder, layers=10**6))


@pytest.mark.parametrize(("layers", "kernel"), [(61, 1), (60, 5), (5, 2**61 + 1)])
def test_a_convolution_over_more_events_than_64_bits_count_is_refused(layers: int, kernel: int) -> None:
    with pytest.raises(ConfigError, match=rf"below 2\^62 events, got layers {layers}, kernel {kernel}"):
        set_up(make.dataset([5, 7]), tables("tcn", layers=layers, kernel=kernel))


def test_where_the_system_does_not_tell_its_memory_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")  # as on Windows
    monkeypatch.setattr(module, "LIMIT", Path("absent"))
    assert memory() > 1 << 60
