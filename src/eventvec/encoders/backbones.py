"""Pre-trained language models, loaded from a local folder or an installed package, and from safetensors only."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eventvec.errors import ConfigError, need
from eventvec.sequences import Sequences

BLOCK = 16_384
"""The largest number of tokens, including padding, that a backbone reads at once where no gradients are computed."""


def backbone_folder(backbone: str) -> Path:
    """Return the folder of a backbone.

    Args:
        backbone: a folder, a name in the folder that the variable EVENTVEC_MODELS names, or an installed package.

    Raises:
        ConfigError: If there is no such backbone.
    """
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


def pretrained(folder: Path) -> tuple[Any, Any]:
    """Return the model, in float32, and the tokenizer of a folder; nothing is read from the network.

    Raises:
        ConfigError: If the files cannot be read or lack weights.
    """
    transformers = need("transformers", "text")
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        with _quietly(transformers.utils.logging):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options).backend_tokenizer
            model, info = transformers.AutoModel.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **options
            )
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"backbone {str(folder)!r} cannot be read: {str(error).splitlines()[0]}") from error
    missing = sorted(name for name in info["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise ConfigError(f"backbone {str(folder)!r} lacks {len(missing)} weights, such as {missing[0]}")
    if hasattr(model, "pooler"):
        model.pooler = None  # BERT's head on the first token, which is not used
    model.config.use_cache = False
    return model, tokenizer


def stored_tokenizer(text: str) -> Any:
    """Return the tokenizer that a run folder holds as JSON.

    Raises:
        ValueError: If the text is not a tokenizer.
    """
    kind = need("tokenizers", "text").Tokenizer
    try:
        return kind.from_str(text)
    except Exception as error:  # tokenizers raises no narrower one
        raise ValueError("the tokenizer in model.safetensors cannot be read") from error


def blocks(tokens: Sequences) -> Iterator[Tensor]:
    """Yield rows of similar length, longest first, in blocks of at most `BLOCK` tokens, or of a single row.

    Example:
        >>> tokens = Sequences({}, torch.tensor([0, 1, 8_001]), torch.tensor([1, 8_000, 9_000]))
        >>> [rows.tolist() for rows in blocks(tokens)]
        [[2], [1], [0]]
    """
    order = tokens.lengths.argsort(descending=True, stable=True)
    yield from order.split(max(BLOCK // max(tokens.longest, 1), 1))


def freeze(model: nn.Module) -> str:
    """Turn the weights that are not trained into buffers that are not saved, and return a hash of them.

    The optimiser then ignores them, and a run contains only trained weights.

    Example:
        >>> layer = nn.Linear(2, 1).requires_grad_(False)
        >>> digest, weights = freeze(layer), list(layer.parameters())
        >>> len(digest), weights
        (32, [])
    """
    digest = hashlib.blake2b(digest_size=16)
    for module in model.modules():
        for name, values in list(module.named_parameters(recurse=False)):
            if not values.requires_grad:
                delattr(module, name)
                module.register_buffer(name, values.detach(), persistent=False)
                digest.update(values.detach().flatten().numpy().data)
    return digest.hexdigest()


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
