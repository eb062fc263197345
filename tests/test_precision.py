"""The precision of matrix products: results, restored settings, and when oneDNN is used."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest
import torch

import eventvec as ev
import fits
from eventvec import precision
from eventvec.errors import ConfigError
from eventvec.precision import matmul_precision

CPU = torch.device("cpu")


@pytest.mark.usefixtures("bfloat16_everywhere")
@pytest.mark.parametrize("before", ["highest", "high", "medium"])
@pytest.mark.parametrize("inside", ["float32", "bfloat16"])
def test_the_previous_precision_is_restored(inside, before):
    original = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(before)
        with matmul_precision(inside, CPU):
            assert torch.is_autocast_enabled("cpu") == (inside == "bfloat16")
        assert torch.get_float32_matmul_precision() == before
        with pytest.raises(RuntimeError, match="inside"), matmul_precision(inside, CPU):
            raise RuntimeError("inside")
        assert torch.get_float32_matmul_precision() == before
        assert not torch.is_autocast_enabled("cpu")
    finally:
        torch.set_float32_matmul_precision(original)


@pytest.mark.usefixtures("bfloat16_everywhere")
def test_products_have_the_precision_of_the_innermost_block():
    rng = torch.Generator().manual_seed(1)
    a, b = torch.randn(300, 200, generator=rng), torch.randn(200, 100, generator=rng)
    exact = a.double() @ b.double()
    with matmul_precision("float32", CPU):
        product = a @ b
    assert product.dtype == torch.float32
    assert float((product - exact).abs().max() / exact.abs().max()) < 1e-5
    with matmul_precision("bfloat16", CPU):
        assert (a @ b).dtype == torch.bfloat16
        with matmul_precision("float32", CPU):
            assert (a @ b).dtype == torch.float32


@pytest.mark.parametrize(("agrees", "inside"), [(True, "medium"), (False, "highest")])
def test_onednn_is_used_only_where_it_agrees(monkeypatch, agrees, inside):
    monkeypatch.setattr(precision, "onednn_agrees", lambda: agrees)
    original = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        with matmul_precision("float32", CPU):
            assert torch.get_float32_matmul_precision() == inside
    finally:
        torch.set_float32_matmul_precision(original)


def test_precisions_set_device_by_device_are_not_changed():
    """torch then refuses to return a single precision."""
    code = """
import torch
from eventvec.scan import matmul, pack
from eventvec.precision import matmul_precision
torch.backends.cuda.matmul.fp32_precision = "tf32"
with matmul_precision("float32", torch.device("cpu")), matmul.fastest_matmul(pack.Pack.of(torch.tensor([3])), 8):
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"
assert torch.backends.cuda.matmul.fp32_precision == "tf32"
"""
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("torch before 2.9 has one setting for all devices")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_embedding_turns_tensorfloat32_of_cudnn_off_and_gives_it_back(monkeypatch):
    encoder, seen = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=4), []
    x = ev.Sequences({"gap": torch.arange(3.0)}, torch.tensor([0]), torch.tensor([3]))
    encoder.register_forward_hook(lambda *_: seen.append(torch.backends.cudnn.allow_tf32))
    for before in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before)
        ev.encode(encoder, x)
        assert torch.backends.cudnn.allow_tf32 is before
    assert seen == [False, False]


def test_checking_onednn_changes_no_setting_and_draws_nothing():
    before = torch.get_float32_matmul_precision(), torch.get_rng_state()
    assert precision.onednn_agrees.__wrapped__() in (True, False)
    assert torch.get_float32_matmul_precision() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize(
    ("flags", "has"),
    [({"avx512_bf16": True}, True), ({"amx_bf16": True, "avx2": True}, True), ({"bf16": True}, True),
     ({"avx2": True, "avx512_bf16": False, "amx_bf16": False}, False), ({"avx512_fp16": True}, False)],
)  # fmt: skip
def test_instruction_flags_decide_whether_a_cpu_has_bfloat16(monkeypatch, tmp_path, flags, has):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags, raising=False)
    assert precision.cpu_has_bfloat16.__wrapped__() is has
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # an earlier torch
    listed = tmp_path / "cpuinfo"
    listed.write_text("flags : fpu " + " ".join(flag for flag, present in flags.items() if present) + " sse\n")
    monkeypatch.setattr(precision, "Path", lambda _: listed)
    assert precision.cpu_has_bfloat16.__wrapped__() is has
    monkeypatch.setattr(precision, "Path", lambda _: tmp_path / "absent")
    assert precision.cpu_has_bfloat16.__wrapped__() is False


def test_a_cpu_without_bfloat16_refuses_it_before_anything_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda *_: False)
    refusal = "precision bfloat16 needs a CPU that computes in it .* take precision float32, or a GPU"
    events = pl.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "v": [0.0, 1.0, 2.0, 3.0]})
    data = ev.read(events, key="id", time="t", numeric=["v"])
    with pytest.raises(ConfigError, match=refusal):
        ev.fit(data, method="ocp", epochs=1, precision="bfloat16", device="cpu", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run = ev.fit(data, method="ocp", epochs=1, device="cpu")
    with pytest.raises(ConfigError, match=refusal):
        run.embed(events, precision="bfloat16")
    precision.check_precision("bfloat16", torch.device("cuda"))


@pytest.mark.usefixtures("bfloat16_everywhere")
def test_a_run_keeps_its_precision_when_it_is_resumed(tmp_path):
    data = two_histories()
    ev.fit(data, method="ocp", epochs=1, precision="bfloat16", device="cpu", out=tmp_path / "run")
    assert ev.load(tmp_path / "run").config["fit"]["precision"] == "bfloat16"
    with pytest.raises(ev.CheckpointError, match=r"was begun with other settings in \[fit\]"):
        ev.fit(data, method="ocp", epochs=1, precision="float32", device="cpu", out=tmp_path / "run", resume=True)


@pytest.mark.usefixtures("bfloat16_everywhere")
@pytest.mark.parametrize(("dim", "chosen"), [(256, "bfloat16"), (255, "float32")])
def test_auto_is_bfloat16_for_a_large_model_and_says_so(tmp_path, dim, chosen):
    run = ev.fit(two_histories(), method=of_size(dim), epochs=1, device="cpu", out=tmp_path / "run")
    assert ev.load(tmp_path / "run").config["fit"]["precision"] == chosen
    told = [note for note in run.notes if "bfloat16, which takes less time on this CPU" in note]
    assert len(told) == (chosen == "bfloat16")


def test_auto_is_float32_without_instructions_of_x86_and_on_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": True, "amx_bf16": False}, raising=False)
    precision.cpu_has_bfloat16.cache_clear()
    assert not precision.pays(precision.WIDE, CPU)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, raising=False)
    precision.cpu_has_bfloat16.cache_clear()
    assert precision.pays(precision.WIDE, CPU)
    assert not precision.pays(precision.WIDE, torch.device("cuda"))
    precision.cpu_has_bfloat16.cache_clear()


@pytest.mark.parametrize("begun", [True, False])
def test_another_machine_keeps_the_precision_that_auto_was(monkeypatch, tmp_path, begun):
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda *_: begun)
    ev.fit(two_histories(), method=of_size(256), epochs=1, device="cpu", out=tmp_path / "run")
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda *_: not begun)
    again = {"epochs": 1, "device": "cpu", "out": tmp_path / "run", "resume": True}
    if begun:
        with pytest.raises(ev.CheckpointError, match="was begun in bfloat16, which this CPU does not compute in"):
            ev.fit(two_histories(), method=of_size(256), **again)
    else:
        run = ev.fit(two_histories(), method=of_size(256), **again)
        assert run.config["fit"]["precision"] == "float32"
        assert not [note for note in run.notes if "bfloat16" in note]


def test_a_configuration_without_a_precision_is_resumed_in_float32(tmp_path):
    ev.fit(two_histories(), method="ocp", epochs=1, device="cpu", out=tmp_path / "run")
    config = tmp_path / "run" / "config.toml"
    lines = config.read_text().splitlines()
    config.write_text("\n".join(line for line in lines if not line.startswith("precision")))
    assert len(config.read_text().splitlines()) == len(lines) - 1
    fits.sign(tmp_path / "run")
    run = ev.fit(two_histories(), method="ocp", epochs=1, device="cpu", out=tmp_path / "run", resume=True)
    assert "the run had finished; nothing was trained" in run.notes


def test_auto_is_float32_for_encoders_that_were_not_measured(monkeypatch):
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda *_: True)
    encoder = {"name": "transformer", "dim": 256, "layers": 1}
    run = ev.fit(two_histories(), method={"method": {"name": "ocp"}, "encoder": encoder}, epochs=1, device="cpu")
    assert run.config["fit"]["precision"] == "float32"


def two_histories():
    events = pl.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "v": [0.0, 1.0, 2.0, 3.0]})
    return ev.read(events, key="id", time="t", numeric=["v"])


def of_size(dim):
    return {"method": {"name": "ocp"}, "encoder": {"name": "gru", "dim": dim}}


def test_an_unknown_precision_is_refused():
    with pytest.raises(ConfigError, match=r"precision 'float16' is not known; .*accepted: bfloat16, float32"):
        matmul_precision("float16", CPU).__enter__()
