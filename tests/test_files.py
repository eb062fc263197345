"""Files that appear whole or not at all, precision that is given back, and errors that point the way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from eventvec import errors, precision
from eventvec.errors import CheckpointError, ConfigError, DataError, EventvecError, nearest, need
from eventvec.files import whole
from eventvec.precision import products

CPU = torch.device("cpu")


# Files


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_a_file_appears_at_the_end_and_for_its_owner_only(tmp_path):
    path, umask = tmp_path / "a.json", os.umask(0)
    try:
        with whole(path) as draft:
            draft.write_text("half")
            assert not path.exists()
            assert (draft.parent, mode(draft)) == (tmp_path, "0o600")
            draft.write_text("whole")
    finally:
        os.umask(umask)
    assert path.read_text() == "whole"
    assert mode(path) == "0o600"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_name_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with whole("b.txt") as draft:
        draft.write_text("here")
    assert (tmp_path / "b.txt").read_text() == "here"


def test_a_draft_that_its_writer_replaced_or_opened_up_is_closed_again(tmp_path):
    path = tmp_path / "a.bin"
    with whole(path) as draft:
        other = tmp_path / "other"
        other.write_bytes(b"new")
        other.chmod(0o666)
        other.replace(draft)  # as writers do that bring their own temporary file
    assert path.read_bytes() == b"new"
    assert mode(path) == "0o600"


@pytest.mark.parametrize("before", [None, "old"])
def test_an_error_leaves_what_was_there(tmp_path, before):
    path = tmp_path / "a.txt"
    if before:
        path.write_text(before)

    def broken() -> None:
        with whole(path) as draft:
            draft.write_text("half")
            raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        broken()
    assert [each.read_text() for each in tmp_path.iterdir()] == ([before] if before else [])


def test_a_draft_that_was_never_written_or_vanished_is_told(tmp_path):
    def vanish() -> None:
        with whole(tmp_path / "a.txt") as draft:
            draft.unlink()

    with pytest.raises(FileNotFoundError):
        vanish()
    with whole(tmp_path / "empty") as _:
        pass
    assert (tmp_path / "empty").read_bytes() == b""
    assert os.listdir(tmp_path) == ["empty"]


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import sys, time; from eventvec.files import whole\n"
        "with whole(sys.argv[1]) as draft:\n"
        "    draft.write_text('half'); time.sleep(60)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        limit = time.monotonic() + 120
        while not any(each.read_text() == "half" for each in tmp_path.iterdir()):
            assert time.monotonic() < limit
            assert writer.poll() is None
            time.sleep(0.02)
    finally:
        writer.kill()
        writer.wait()
    assert path.read_text() == "old"


# Precision


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_precision_is_given_back(kind, before):
    kept = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(before)
        with products(kind, CPU):
            assert torch.is_autocast_enabled("cpu") == (kind == "bfloat16")
        assert torch.get_float32_matmul_precision() == before
        with pytest.raises(RuntimeError, match="inside"), products(kind, CPU):
            raise RuntimeError("inside")
        assert torch.get_float32_matmul_precision() == before
        assert not torch.is_autocast_enabled("cpu")
    finally:
        torch.set_float32_matmul_precision(kept)


def test_float32_products_are_float32_products():
    rng = torch.Generator().manual_seed(1)
    a, b = torch.randn(300, 200, generator=rng), torch.randn(200, 100, generator=rng)
    exact = a.double() @ b.double()
    with products("float32", CPU):
        found = a @ b
    assert found.dtype == torch.float32
    assert float((found - exact).abs().max() / exact.abs().max()) < 1e-5
    with products("bfloat16", CPU):
        assert (a @ b).dtype == torch.bfloat16
        with products("float32", CPU):
            assert (a @ b).dtype == torch.float32


@pytest.mark.parametrize(("agrees", "inside"), [(True, "medium"), (False, "highest")])
def test_the_fast_path_is_taken_only_where_it_agrees(monkeypatch, agrees, inside):
    monkeypatch.setattr(precision, "onednn_agrees", lambda: agrees)
    kept = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        with products("float32", CPU):
            assert torch.get_float32_matmul_precision() == inside
    finally:
        torch.set_float32_matmul_precision(kept)


def test_what_was_set_device_by_device_is_left_alone():
    """torch itself refuses to say one precision then."""
    code = """
import torch
from eventvec.scan import products, pack
from eventvec.precision import products as precise
torch.backends.cuda.matmul.fp32_precision = "tf32"
with precise("float32", torch.device("cpu")), products.quickest(pack.Pack.of(torch.tensor([3])), 8):
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"
assert torch.backends.cuda.matmul.fp32_precision == "tf32"
"""
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("torch before 2.9 has one setting for all devices")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_asking_whether_it_agrees_changes_nothing():
    before = torch.get_float32_matmul_precision(), torch.get_rng_state()
    assert precision.onednn_agrees.__wrapped__() in (True, False)
    assert torch.get_float32_matmul_precision() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_an_unknown_precision_is_refused():
    with pytest.raises(ConfigError, match="precision 'float16' is not known; accepted: float32, bfloat16"):
        products("float16", CPU).__enter__()


# Errors


def test_every_error_is_an_eventvec_error_and_in_the_tree():
    made = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)}
    assert made == {EventvecError, DataError, ConfigError, CheckpointError}
    assert all(issubclass(each, EventvecError) for each in made)
    assert set(re.findall(r"\w+Error\b", errors.__doc__)) == {each.__name__ for each in made}


@pytest.mark.parametrize(
    ("name", "accepted", "message"),
    [
        ("colse", ["ocp", "coles"], "did you mean 'coles'? accepted: coles, ocp"),
        ("amont", {"amount", "amounts", "time"}, "did you mean 'amount' or 'amounts'? accepted: amount, amounts, time"),
        ("zzz", ["b", "a"], "accepted: a, b"),
        ("zzz", [], "accepted: none"),
        ("x", map(str, range(10, 35)), f"accepted: {', '.join(map(str, range(10, 30)))}, … (25 in all)"),
    ],
)
def test_nearest_names(name, accepted, message):
    assert nearest(name, accepted) == message


def test_a_module_that_is_there_is_given_and_one_that_is_not_is_named():
    assert need("json.decoder", "eval") is sys.modules["json.decoder"]
    with pytest.raises(ConfigError, match=r"needs nowhere_at_all: pip install 'eventvec\[viz\]'"):
        need("nowhere_at_all.inside", "viz")
