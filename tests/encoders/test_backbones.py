"""Backbones: the hash of frozen weights, weights of 16 bits in the language encoder, and refusals of 4 bits."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import nn

import backbones
import make
from eventvec import models
from eventvec.config import build_method, describe
from eventvec.dataset import Dataset, text_column
from eventvec.embedding import encode
from eventvec.encoders.backbones import file_hash, freeze, position_count
from eventvec.encoders.language import LanguageEncoder
from eventvec.errors import CheckpointError, ConfigError
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.precision import matmul_precision
from eventvec.sequences import Sequences
from eventvec.training.fitting import fit
from fits import sign


def described(count: int = 20) -> Dataset:
    lengths = [2 + i % 5 for i in range(count)]
    data = make.dataset(lengths)
    x = data.sequences
    static = {**x.static, "note": text_column(pa.array([f"row {i}" for i in range(count)]))}
    return Dataset(data.keys, Sequences(x.columns, x.starts, x.lengths, static), data.schema)


# The hash


def test_the_hash_is_that_of_the_bytes_in_the_order_of_little_endian_machines():
    numbers = [1.0, -2.5, 0.15625]
    singles = struct.pack("<3f", *numbers)
    halves = struct.pack("<3e", *numbers)
    brains = b"".join(struct.pack("<f", number)[2:] for number in numbers)  # the upper half of each
    for dtype, content in ((torch.float32, singles), (torch.float16, halves), (torch.bfloat16, brains)):
        layer = nn.Linear(3, 1, bias=False).requires_grad_(False).to(dtype)
        layer.weight.copy_(torch.tensor([numbers]))
        assert freeze(layer) == hashlib.blake2b(content, digest_size=16).hexdigest()


def test_the_hash_of_float32_weights_is_that_of_runs_stored_earlier():
    encoder = backbones.encoder(make.schema())
    digest = hashlib.blake2b(digest_size=16)
    frozen = dict(encoder.model.named_buffers())
    for module_name, module in encoder.model.named_modules():
        for name in module._non_persistent_buffers_set:
            if "weight" in name:
                digest.update(frozen[f"{module_name}.{name}"].flatten().numpy().tobytes())
    assert encoder.origin == digest.hexdigest()


def test_the_hash_of_files_is_that_of_their_weights_alone(tmp_path: Path):
    (tmp_path / "b.safetensors").write_bytes(b"second")
    (tmp_path / "a.safetensors").write_bytes(b"first ")
    (tmp_path / "config.json").write_text("{}")
    assert file_hash(tmp_path) == hashlib.blake2b(b"first second", digest_size=16).hexdigest()


# 16 bits


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_a_backbone_in_bfloat16_has_adapters_and_states_in_float32(kind: str):
    plain, half = (
        backbones.encoder(make.schema(), kind, dtype=dtype, temporal="linear") for dtype in ("float32", "bfloat16")
    )
    half.load_state_dict({**plain.state_dict(), "_extra_state": half.get_extra_state()})
    frozen = [name for name, _ in plain.model.named_buffers() if "weight" in name]
    assert {dict(half.model.named_buffers())[name].dtype for name in frozen} == {torch.bfloat16}
    assert {values.dtype for values in half.parameters()} == {torch.float32}
    x = described().sequences
    for one, other in ((plain, half), (plain.text_tower("note"), half.text_tower("note"))):
        z = other(x)
        assert z.dtype == torch.float32
        torch.testing.assert_close(z, one(x), rtol=0.1, atol=0.1)
        assert not torch.equal(z, one(x))
    half(x).square().sum().backward()
    assert all(bool(values.grad.any()) and values.grad.dtype == torch.float32 for values in half.parameters())


def test_a_run_in_bfloat16_is_trained_stored_and_loaded(tmp_path: Path):
    data = described()
    encoder = {"name": "language", "backbone": backbones.folder(), "text": "code", "lora": 2, "dtype": "bfloat16"}
    tables = {"method": {"name": "tpp_embedding", "description": "note"}, "encoder": encoder}
    run = fit(data, method=tables, epochs=1, batch_size=4, out=tmp_path / "run", validation=0)
    loaded = models.load(tmp_path / "run")
    assert loaded.config["encoder"]["dtype"] == "bfloat16"
    assert torch.equal(encode(loaded.encoder, data.sequences), encode(run.encoder, data.sequences))
    config = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(config.replace('"bfloat16"', '"float32"'))
    sign(tmp_path / "run")
    with pytest.raises(CheckpointError, match="is not the one that this run was trained with"):
        models.load(tmp_path / "run")


@pytest.mark.parametrize("dtype", ["bfloat16", "4bit"])
def test_weights_of_fewer_bits_are_not_trained(dtype: str):
    with pytest.raises(ConfigError, match=f"lora must be at least 1 where dtype is {dtype}, got 0"):
        backbones.encoder(make.schema(), dtype=dtype, lora=0)


# 4 bits


class Quantised(nn.Parameter):
    """Weights that know their scale, as those of bitsandbytes do."""

    scale = torch.tensor(2.0)


class QuantisedLayer(nn.Linear):
    """A layer that saves the scale of its weights, as those of bitsandbytes do."""

    def __init__(self) -> None:
        super().__init__(2, 2, bias=False)
        self.weight = Quantised(torch.ones(2, 2).to(torch.uint8), requires_grad=False)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight.scale"] = self.weight.scale


def test_quantised_weights_keep_their_class_and_their_scales_are_not_saved():
    model = nn.Sequential(QuantisedLayer(), nn.Linear(2, 1))
    whole = nn.ModuleDict({"model": model})
    freeze(model)
    assert type(model[0].weight) is Quantised
    assert {*whole.state_dict()} == {name for name, _ in whole.named_parameters()} == {"model.1.weight", "model.1.bias"}
    whole.load_state_dict(whole.state_dict())


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_weights_of_4_bits_without_a_gpu_are_refused():
    with pytest.raises(ConfigError, match="dtype 4bit needs a GPU with CUDA, which this machine lacks; accepted: bf"):
        LanguageEncoder(backbones.folder(), make.schema(), text="code", dtype="4bit")


def test_weights_of_4_bits_without_bitsandbytes_are_refused(monkeypatch: pytest.MonkeyPatch):
    backbones.folder()
    real = importlib.import_module

    def absent(name: str) -> Any:
        if name == "bitsandbytes":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(ConfigError, match=r"needs bitsandbytes: pip install 'eventvec\[text-quant\]'"):
        TPPEmbedding(LanguageEncoder(backbones.folder(), make.schema(), text="code", dtype="4bit"), "note")


# Folders of sentence-transformers

FLAGS = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")


def sentence_folder(path: Path, pooling: dict[str, Any], prompts: dict[str, Any]) -> str:
    """Return a copy of a small BERT with the files that sentence-transformers writes."""
    shutil.copytree(backbones.folder("bert"), path)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for i, (place, kind) in enumerate(kinds.items())
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return str(path)


def flags(name: str) -> dict[str, Any]:
    return {"word_embedding_dimension": 16, **{f"pooling_mode_{flag}": flag == name for flag in FLAGS}}


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        (flags("mean_tokens"), "mean"),
        (flags("mean_sqrt_len_tokens"), "mean"),
        (flags("max_tokens"), "max"),
        (flags("cls_token"), "first"),
        (flags("lasttoken"), "last"),
        ({"embedding_dimension": 16, "pooling_mode": "cls"}, "first"),
        ({"embedding_dimension": 16, "pooling_mode": ["max"]}, "max"),
    ],
)
def test_the_pooling_of_a_folder_is_the_default(tmp_path: Path, settings: dict[str, Any], pooling: str):
    folder = sentence_folder(tmp_path / "model", settings, {})
    table = {"name": "language", "backbone": folder, "text": "code", "lora": 2}
    method = build_method({"method": {"name": "tpp_embedding", "description": "note"}, "encoder": table}, make.schema())
    assert method.encoder.pooling == describe(method)["encoder"]["pooling"] == pooling
    assert LanguageEncoder(folder, make.schema(), "code", pooling="max").pooling == "max"


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "lasttoken"])
def test_descriptions_get_the_vectors_of_sentence_transformers(tmp_path: Path, pooling: str):
    library = pytest.importorskip("sentence_transformers")
    prompts = {"prompts": {"query": "find ", "document": "a "}, "default_prompt_name": "document"}
    folder = sentence_folder(tmp_path / "model", {"embedding_dimension": 16, "pooling_mode": pooling}, prompts)
    texts = ["a b c", "zebra 42", "q"]
    model = library.SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": "float32"})
    model.tokenizer.pad_token = "</s>"
    expected = torch.from_numpy(model.encode_query(texts))
    x = Sequences({}, torch.zeros(3).long(), torch.zeros(3).long(), {"note": text_column(pa.array(texts))})
    z = encode(LanguageEncoder(folder, make.schema(), "code", lora=2).text_tower("note"), x)
    torch.testing.assert_close(nn.functional.normalize(z, dim=1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("prompts", "prompt"),
    [
        ({}, ""),
        ({"prompts": {"query": "q: ", "passage": "p: "}}, "q: "),
        ({"prompts": {"query": "", "passage": "p: "}, "default_prompt_name": "passage"}, "p: "),
        ({"prompts": {"passage": "p: "}, "default_prompt_name": None}, ""),
        ({"prompts": None}, ""),
    ],
)
def test_the_prompt_of_a_folder_is_put_before_descriptions_and_saved(
    tmp_path: Path, prompts: dict[str, Any], prompt: str
):
    folder = sentence_folder(tmp_path / "model", flags("mean_tokens"), prompts)
    encoder, plain = (
        LanguageEncoder(name, make.schema(), "code", lora=2) for name in (folder, backbones.folder("bert"))
    )
    assert encoder.prompt == prompt
    texts = ["a b c", "zebra", ""]
    rows = [
        Sequences({}, torch.zeros(3).long(), torch.zeros(3).long(), {"note": text_column(pa.array(notes))})
        for notes in (texts, [prompt + text if text else "" for text in texts])
    ]
    assert torch.equal(encode(encoder.text_tower("note"), rows[0]), encode(plain.text_tower("note"), rows[1]))
    plain.load_state_dict(encoder.state_dict())
    assert plain.prompt == prompt


def test_folders_that_cannot_be_followed_are_refused(tmp_path: Path):
    prompts = {"prompts": {"query": "q: "}}
    for name, settings, message in (
        ("weighted", flags("weightedmean_tokens"), "pools by weightedmean_tokens, which is not known here; give pool"),
        ("both", {"pooling_mode": ["max", "mean"]}, "pools by max and mean, which is not known here"),
        ("none", flags("no"), "pools by nothing, which is not known here"),
        ("prompt", {"pooling_mode": "mean", "include_prompt": False}, "leaves its prompt out of the pooling"),
    ):
        folder = sentence_folder(tmp_path / name, settings, prompts)
        with pytest.raises(ConfigError, match=message):
            LanguageEncoder(folder, make.schema(), "code", lora=2)
    Path(folder, "modules.json").write_text("{")
    with pytest.raises(ConfigError, match=r"modules\.json is not a JSON file"):
        LanguageEncoder(folder, make.schema(), "code", lora=2)
    other = sentence_folder(tmp_path / "given", flags("weightedmean_tokens"), {})
    assert LanguageEncoder(other, make.schema(), "code", lora=2, pooling="mean").pooling == "mean"


@pytest.mark.usefixtures("bfloat16_everywhere")
@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_attention_under_bfloat16_is_computed_in_float32_where_gradients_are(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    data = make.dataset([5, 3, 8, 1])
    encoder = backbones.encoder(data.schema, kind, lora=2, unit=1e8)
    assert encoder.model.config._attn_implementation == "eventvec"
    types: list[tuple[torch.dtype, bool]] = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def recorded(query, *rest, **options):
        types.append((query.dtype, torch.is_autocast_enabled("cpu")))
        return attend(query, *rest, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
    with matmul_precision("bfloat16", torch.device("cpu")):
        encoder(data.sequences)
        with torch.no_grad():
            encoder(data.sequences)
    assert types[:2] == [(torch.float32, False)] * 2
    assert [autocast for _, autocast in types[2:]] == [True, True]


def test_positions_of_padding_are_not_counted():
    import transformers

    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    size |= {"vocab_size": 12, "max_position_embeddings": 20}
    for config, longest in ((transformers.RobertaConfig(**size), 18), (transformers.BertConfig(**size), 20)):
        model = transformers.AutoModel.from_config(config)
        assert position_count(model) == longest
        model(input_ids=torch.full((1, longest), 5))
        with pytest.raises((RuntimeError, IndexError)):
            model(input_ids=torch.full((1, longest + 1), 5))
