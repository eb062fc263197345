"""Language models that are small enough for quick tests, with random weights and a tokenizer of single characters."""

from __future__ import annotations

import atexit
import copy
import string
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import nn

from eventvec.dataset import text_column
from eventvec.encoders import LanguageEncoder, TextEncoder
from eventvec.schema import Schema
from eventvec.sequences import Sequences

WIDTH = 16


@cache
def folder(kind: str = "llama", seed: int = 0) -> str:
    """Return a folder with a small backbone, written once; `kind` is `llama` (causal) or `bert` (bidirectional)."""
    import transformers

    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    path = Path(directory.name) / kind
    tokenizer = characters(kind)
    tokenizer.save_pretrained(path)
    size = {"hidden_size": WIDTH, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    size |= {"vocab_size": len(tokenizer), "max_position_embeddings": 96, "initializer_range": 0.3}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if kind == "llama":
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=1, **size))
        else:
            model = transformers.BertModel(transformers.BertConfig(**size))
    model.half().save_pretrained(path)
    return str(path)


def characters(kind: str):
    """Return a tokenizer of single characters that adds a start token to texts and, for BERT, an end token."""
    import tokenizers
    import transformers

    vocabulary = ["<s>", "</s>", "<unk>", *string.ascii_lowercase, *string.digits, " ", "<mask>"]
    model = tokenizers.models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<unk>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    template = "<s> $A" if kind == "llama" else "<s> $A </s>"
    pair = None if kind == "llama" else "<s> $A </s> $B:1 </s>:1"
    special = [("<s>", 0), ("</s>", 1)]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(template, pair, special_tokens=special)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def encoder(schema: Schema, kind: str = "llama", seed: int = 0, **options: object) -> LanguageEncoder:
    """Return a language encoder on a small backbone, with adapters that are not zero, in evaluation mode."""
    return _copied((schema, kind, seed, options), lambda: _encoder(schema, kind, seed, options))


FIRST: dict[str, nn.Module] = {}
"""The encoders that were read from a folder, by their arguments."""


def _copied(arguments: object, read: Callable[[], Any]) -> Any:
    """Return a copy of the encoder that was read first for equal arguments, which is faster than reading it again."""
    if (key := repr(arguments)) not in FIRST:
        FIRST[key] = read()
    return copy.deepcopy(FIRST[key])


def _encoder(schema: Schema, kind: str, seed: int, options: dict[str, object]) -> LanguageEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        language = LanguageEncoder(folder(kind), schema, text="code", **options)
        for name, values in language.named_parameters():
            if "lora" in name:
                nn.init.normal_(values, std=0.3)
    return language.eval()


def text_rows(notes: list[list[str]]) -> Sequences:
    """Return rows of events with these texts in the column `note`, and a column `time`."""
    lengths = torch.tensor([len(row) for row in notes])
    columns = {"note": text_column(pa.array([note for row in notes for note in row], pa.string()))}
    columns["time"] = torch.arange(int(lengths.sum()))
    return Sequences(columns, lengths.cumsum(0) - lengths, lengths, {"row": torch.arange(len(notes))})


def text_encoder(seed: int = 0, **options: object) -> TextEncoder:
    """Return a text encoder over the column `note` on a small BERT, in evaluation mode."""
    return _copied((seed, options), lambda: TextEncoder(folder("bert", seed), "note", **options).eval())
