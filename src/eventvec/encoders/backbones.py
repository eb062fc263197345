"""Pre-trained language models: found in a local folder or an installed package, and loaded from safetensors only."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from eventvec.errors import ConfigError, need

BLOCK = 16_384
"""Tokens, padding included, that the backbone reads at once when no gradient is asked for."""


def backbone_folder(backbone: str) -> Path:
    """Return the folder of a backbone, wherever it is among the three places."""
    places = [Path(backbone)]
    if os.environ.get("EVENTVEC_MODELS"):
        places.append(Path(os.environ["EVENTVEC_MODELS"]) / backbone)
    if backbone.isidentifier() and (package := importlib.util.find_spec(backbone)):  # found, not imported
        for root in package.submodule_search_locations or ():
            places += [Path(root), Path(root) / "model"]
    for place in places:
        if (place / "config.json").is_file():
            return place
    raise ConfigError(
        f"backbone {backbone!r} is neither a folder with a config.json, nor one in the folder that EVENTVEC_MODELS "
        "names, nor an installed package that brings a model"
    )


def pretrained(folder: Path) -> tuple[Any, Any]:
    """Return model and tokenizer, in float32, from local files only."""
    transformers = need("transformers", "text")
    given = {"local_files_only": True, "trust_remote_code": False}
    try:
        with _quietly(transformers.utils.logging):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **given).backend_tokenizer
            model, found = transformers.AutoModel.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **given
            )
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"backbone {str(folder)!r} cannot be read: {str(error).splitlines()[0]}") from error
    absent = sorted(name for name in found["missing_keys"] if not name.startswith("pooler."))
    if absent:
        raise ConfigError(f"backbone {str(folder)!r} lacks {len(absent)} of its weights, {absent[0]} among them")
    if hasattr(model, "pooler"):
        model.pooler = None  # BERT's own head on its first token: not a hidden state that is pooled here
    model.config.use_cache = False
    return model, tokenizer


@contextmanager
def _quietly(logging: Any) -> Iterator[None]:
    """Keep the progress bar and the report of unused heads off the terminal, inside the block only."""
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
