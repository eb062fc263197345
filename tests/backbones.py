"""Language models small enough for quick tests: random weights, and a tokenizer of single characters."""

from __future__ import annotations

import atexit
import string
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import nn

from eventvec.encoders.language import LanguageEncoder
from eventvec.schema import Schema

WIDTH = 16


@cache
def folder(kind: str = "llama", seed: int = 0) -> str:
    """Return a folder with such a backbone, made once; `kind` is `llama` (causal) or `bert` (bidirectional)."""
    import transformers

    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    path = Path(place.name) / kind
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
    """Return a tokenizer of single characters; Llama's begins a text with a start token, BERT's ends it too."""
    import tokenizers
    import transformers

    vocabulary = ["<s>", "</s>", "<unk>", *string.ascii_lowercase, *string.digits, " ", "<mask>"]
    model = tokenizers.models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<unk>")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    template = "<s> $A" if kind == "llama" else "<s> $A </s>"
    pair = None if kind == "llama" else "<s> $A </s> $B:1 </s>:1"
    special = [("<s>", 0), ("</s>", 1)]
    made.post_processor = tokenizers.processors.TemplateProcessing(template, pair, special_tokens=special)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")


def encoder(schema: Schema, kind: str = "llama", seed: int = 0, **options: object) -> LanguageEncoder:
    """Return a language encoder on such a backbone, adapters not zero, to evaluate."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = LanguageEncoder(folder(kind), schema, text="code", **options)
        for name, values in made.named_parameters():
            if "lora" in name:
                nn.init.normal_(values, std=0.3)
    return made.eval()
