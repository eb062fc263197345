"""Pre-trained language models, loaded from a local folder or an installed package, and from safetensors only."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.errors import CheckpointError, ConfigError, need
from eventvec.sequences import Sequences

DType: TypeAlias = Literal["float32", "bfloat16", "4bit"]
Pooling: TypeAlias = Literal["mean", "max", "last", "first"]
POOLINGS: Mapping[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean",
    "max": "max",
    "max_tokens": "max",
    "lasttoken": "last",
    "cls": "first",
    "cls_token": "first",
}
"""The poolings of sentence-transformers, up to the length of their vectors, which a cosine does not see."""
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "query", "key", "value", "attention.output.dense")
"""Attention projections that get an adapter: their names in Llama and related models, then in BERT."""
ATTENTION_NAME = "eventvec"
"""The name under which transformers knows `_attention`."""
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integers of so many bytes."""
BLOCK = 16_384
"""The largest number of tokens, including padding, that a backbone reads at once where no gradients are computed."""


def backbone_folder(backbone: str) -> Path:
    """Return the folder of a backbone: a path, a name in the folder of EVENTVEC_MODELS, or an installed package."""
    if not isinstance(backbone, str):
        raise ConfigError(f"backbone must be text, the path of a folder or a name, got {type(backbone).__name__}")
    candidates = [Path(backbone)]
    if os.environ.get("EVENTVEC_MODELS"):
        candidates.append(Path(os.environ["EVENTVEC_MODELS"]) / backbone)
    if backbone.isidentifier() and (package := importlib.util.find_spec(backbone)):  # does not import it
        for root in package.submodule_search_locations or ():
            candidates += [Path(root), Path(root) / "model"]
    for folder in candidates:
        if (folder / "config.json").is_file():
            return folder
    raise ConfigError(
        f"backbone {backbone!r} is not a folder with a config.json, not the name of one in the folder that "
        "EVENTVEC_MODELS names, and not an installed package that contains a model"
    )


def pretrained(folder: Path, dtype: DType = "float32") -> tuple[Any, Any]:
    """Return the model and the tokenizer of a folder; nothing is read from the network.

    With `4bit`, the matrices are NF4 with double quantisation, the products are in bfloat16, and the model is on the
    GPU (Dettmers et al. 2023).
    """
    transformers = need("transformers", "text")
    options = {"local_files_only": True, "trust_remote_code": False}
    weights = {"dtype": torch.float32 if dtype == "float32" else torch.bfloat16}
    if dtype == "4bit":
        weights |= _four_bits(transformers)
    try:
        with _quietly(transformers.utils.logging):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options).backend_tokenizer
            model, info = transformers.AutoModel.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, **weights, **options
            )
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"backbone {str(folder)!r} cannot be read: {str(error).splitlines()[0]}") from error
    missing = sorted(name for name in info["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise ConfigError(f"backbone {str(folder)!r} lacks {len(missing)} weights, such as {missing[0]}")
    if "pooler" in dict(model.named_children()):
        model.pooler = None  # BERT's head on the first token, which is not used
    model.config.use_cache = False
    if model.config._attn_implementation == "sdpa":
        transformers.AttentionInterface.register(ATTENTION_NAME, _attention)
        transformers.AttentionMaskInterface.register(ATTENTION_NAME, transformers.AttentionMaskInterface()["sdpa"])
        model.set_attn_implementation(ATTENTION_NAME)
    return model, tokenizer


def position_count(model: Any) -> int:
    """Return the largest number of tokens that a model reads.

    RoBERTa and its relatives begin to count positions after that of their padding.
    """
    table = dict(model.named_modules()).get("embeddings.position_embeddings")
    padding = table.padding_idx if isinstance(table, nn.Embedding) else None
    return int(model.config.max_position_embeddings) - (0 if padding is None else padding + 1)


def folder_pooling(folder: Path) -> Pooling | None:
    """Return how a sentence-transformers folder pools, whose later modules are not read; None for another folder."""
    settings = _pooling_settings(folder)
    if settings is None:
        return None
    flags = [name.removeprefix("pooling_mode_") for name in settings if name.startswith("pooling_mode_")]
    modes = settings.get("pooling_mode") or [flag for flag in flags if settings[f"pooling_mode_{flag}"]]
    names = [modes] if isinstance(modes, str) else list(modes)
    if len(names) != 1 or names[0] not in POOLINGS:
        raise ConfigError(
            f"backbone {str(folder)!r} pools by {' and '.join(map(str, names)) or 'nothing'}, which is not known here; "
            "give pooling: first, last, max or mean"
        )
    return POOLINGS[names[0]]


def folder_prompt(folder: Path) -> str:
    """Return the prompt that a sentence-transformers folder puts before a query: that named `query`, or the default."""
    settings = _json(folder / "config_sentence_transformers.json")
    prompts = settings.get("prompts") or {}
    prompt = str(prompts.get("query") or prompts.get(settings.get("default_prompt_name")) or "")
    if prompt and (_pooling_settings(folder) or {}).get("include_prompt") is False:
        raise ConfigError(
            f"backbone {str(folder)!r} leaves its prompt out of the pooling (include_prompt), which is not done here"
        )
    return prompt


def _pooling_settings(folder: Path) -> dict[str, Any] | None:
    """Return the options of the pooling in a sentence-transformers folder, if it has one."""
    modules = _json(folder / "modules.json")
    paths = [part["path"] for part in modules or () if str(part.get("type")).endswith("Pooling")]
    return _json(folder / str(paths[0]) / "config.json") if paths else None


def _json(path: Path) -> Any:
    """Return the content of a JSON file; empty if there is none."""
    try:
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a JSON file") from error


def stored_tokenizer(text: str) -> Any:
    """Return the tokenizer that a model folder holds as JSON."""
    kind = need("tokenizers", "text").Tokenizer
    try:
        return kind.from_str(text)
    except Exception as error:  # tokenizers raises no narrower one
        raise ValueError("the tokenizer in model.safetensors cannot be read") from error


def located(backbone: str) -> tuple[Path, str]:
    """Return the folder of a backbone, and the name under which a run records it: a path is absolute there."""
    folder = backbone_folder(backbone)
    return folder, str(folder.absolute()) if folder == Path(backbone) else backbone


def encoded(tokenizer: Any, texts: Sequence[str], special: bool = True) -> tuple[Tensor, Tensor]:
    """Return the tokens of all texts, one text after the other, and `(n,)` the number of tokens of each."""
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
    ids = concatenated(encoding.ids for encoding in encodings)
    return ids, torch.tensor([len(encoding) for encoding in encodings], dtype=torch.int64)


def other_backbone(backbone: str) -> CheckpointError:
    """Return the refusal of a backbone that has changed since the training."""
    return CheckpointError(
        f"backbone {backbone!r} is not the one that this run was trained with; replace it by the original files"
    )


def blocks(tokens: Sequences) -> Iterator[Tensor]:
    """Yield rows of similar length, longest first, in blocks of at most `BLOCK` tokens, or of a single row."""
    order = tokens.lengths.argsort(descending=True, stable=True)
    yield from order.split(max(BLOCK // max(tokens.longest, 1), 1))


def in_blocks(tokens: Sequences, read: Callable[[Sequences], Tensor]) -> Tensor:
    """Return `(n, d)` what a function returns for rows of tokens, which it reads in blocks to bound memory."""
    rows = list(blocks(tokens))
    z = torch.cat([read(tokens[block]) for block in rows])
    return torch.empty_like(z).index_copy(0, torch.cat(rows).to(z.device), z)


def concatenated(lists: Iterable[Sequence[int]]) -> Tensor:
    """Return the numbers of lists, such as the tokens of texts, one list after the other."""
    return torch.from_numpy(np.fromiter(chain.from_iterable(lists), np.int64))


def freeze(model: nn.Module) -> str:
    """Turn the weights that are not trained into buffers that are not saved, and return a hash of them.

    The optimiser then ignores them, and a run contains only trained weights. The hash is that of their bytes, in the
    order of little-endian machines.
    """
    digest, all_plain = hashlib.blake2b(digest_size=16), True
    for module in model.modules():
        for name, values in list(module.named_parameters(recurse=False)):
            if not values.requires_grad:
                delattr(module, name)
                plain = type(values) is nn.Parameter  # weights of 4 bits are of a class that knows their scales
                module.register_buffer(name, values.detach() if plain else values, persistent=False)
                digest.update(_little_endian(values))
                all_plain &= plain
    if not all_plain:
        model.register_state_dict_post_hook(_trained_only)
    return digest.hexdigest()


def pool(states: Tensor, chosen: Tensor, pooling: Pooling) -> Tensor:
    """Return `(n, d)`, the mean, maximum, last or first of the chosen states `(n, longest, d)`; zeros without any."""
    inside = chosen.unsqueeze(2)
    if pooling == "mean":
        return (states * inside).sum(1) / inside.sum(1).clamp(min=1)
    if pooling == "max":
        return states.masked_fill(~inside, -torch.inf).amax(1).masked_fill(~inside.any(1), 0)
    places = torch.arange(1, chosen.shape[1] + 1, device=chosen.device)
    place = (chosen * (places if pooling == "last" else places.flip(0))).argmax(1)
    return (states * inside)[torch.arange(len(place), device=place.device), place]


def select_trained(model: Any, lora: int) -> None:
    """Insert adapters of a rank as the only trained weights, or with rank 0, train all but the token table.

    Beside adapters, the frozen backbone has no dropout of its own: that of MiniLM takes two fifths of a step on a CPU.
    """
    size = int(model.config.hidden_size)
    if not 0 <= lora <= size:
        raise ConfigError(f"lora must be from 0 to {size}, the size of this backbone's states, got {lora}")
    if lora:
        peft = need("peft", "text")
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(vars(module).get("attention_dropout"), float):
                module.attention_dropout = 0.0  # Llama and related models
        settings = peft.LoraConfig(r=lora, lora_alpha=lora, lora_dropout=0.05, target_modules=list(ATTENTION))
        try:
            peft.inject_adapter_in_model(settings, model)
        except ValueError as error:
            raise ConfigError(
                f"lora is {lora}, but this backbone has none of the layers {', '.join(ATTENTION)}; use lora = 0"
            ) from error
        for weight in model.parameters():
            if weight.requires_grad:
                weight.data = weight.data.float()  # adapters have the precision of the backbone at first
    else:
        model.get_input_embeddings().requires_grad_(False)


def file_hash(folder: Path) -> str:
    """Return a hash of the files of weights in a folder.

    It stands for weights of 4 bits, which another machine or version may round otherwise.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()


def _trained_only(model: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Remove from a state all but the weights that are trained: layers of 4 bits add the scales of their weights."""
    trained = {prefix + name for name, _ in model.named_parameters()}
    for name in [name for name in state if name.startswith(prefix) and name not in trained]:
        del state[name]


def _little_endian(values: Tensor) -> memoryview:
    integers = values.detach().cpu().flatten().view(INTEGERS[values.element_size()]).numpy()
    return integers.astype(integers.dtype.newbyteorder("<"), copy=False).data


def _four_bits(transformers: Any) -> dict[str, Any]:
    """Return the options by which transformers loads weights of 4 bits."""
    if not torch.cuda.is_available():
        raise ConfigError("dtype 4bit needs a GPU with CUDA, which this machine lacks; accepted: bfloat16, float32")
    need("bitsandbytes", "text-quant")
    settings = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {"quantization_config": settings, "device_map": {"": torch.cuda.current_device()}}


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> Any:
    """Return what transformers' attention `sdpa` returns; in training on a CPU, bfloat16 is computed in float32.

    The gradient of PyTorch's fused attention took a Xeon 1.6 to 5 times as long in bfloat16 as in float32.
    """
    plain = need("transformers", "text").AttentionInterface()["sdpa"]
    rounded = torch.bfloat16 in (query.dtype, key.dtype, value.dtype)
    if query.device.type != "cpu" or not rounded or not torch.is_grad_enabled():
        return plain(module, query, key, value, mask, **options)
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.float()
    with torch.autocast("cpu", enabled=False):
        out, weights = plain(module, query.float(), key.float(), value.float(), mask, **options)
    return out.bfloat16(), weights


@contextmanager
def _quietly(logging: Any) -> Iterator[None]:
    """Suppress the progress bar and the report of unused heads inside the block."""
    level, progress_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if progress_bar:
            logging.enable_progress_bar()
