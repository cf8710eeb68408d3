"""Compact models: half precision, and only the weights that encoding images needs."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from sparta.errors import first_line

QUERY = "query_embedding.weight"
LABELS = "encoder.embeddings."  # used for label tokens alone
FREQUENCIES = "term_frequencies"


def compact_state(state: dict[str, Tensor], use_labels: bool) -> dict[str, Tensor]:
    """A model's weights as a compact model stores them.

    Args:
        state: all weights and buffers.
        use_labels: whether the model reads labels.

    Returns:
        The state with these changes: floats are float16; `query_embedding.weight` is [T, h], one
        row for each trained term, rising; the embedding of labels is left out of a model without
        labels; term frequencies are int32.
    """
    small = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
        if use_labels or not name.startswith(LABELS)
    }
    small[QUERY] = small[QUERY][state["trained_terms"]]
    small[FREQUENCIES] = small[FREQUENCIES].int()
    return {name: tensor.contiguous() for name, tensor in small.items()}


def read_compact(folder: Path, state: dict[str, Tensor], use_labels: bool) -> dict[str, Tensor]:
    """The weights in a compact model's folder, in full size; what is absent is 0.

    Args:
        folder: of the model.
        state: of a model with the same configuration, for the shapes.
        use_labels: whether the model reads labels.

    Raises:
        OSError: if there is no `model.safetensors`.
        ValueError: if it is damaged, or of another configuration.
    """
    path = folder / "model.safetensors"
    absent = [name for name in state if not use_labels and name.startswith(LABELS)]
    try:
        stored = load_file(path)
        query = torch.zeros_like(state[QUERY])
        query[stored["trained_terms"]] = stored[QUERY].float()
    except (SafetensorError, RuntimeError, KeyError, IndexError) as error:
        raise ValueError(f"{path} is not a compact model: {first_line(error)}") from error
    full = stored | {QUERY: query} | {name: torch.zeros_like(state[name]) for name in absent}
    for weight, tensor in state.items():
        if weight not in full or full[weight].shape != tensor.shape:
            raise ValueError(f"{path} does not fit its config.json: see {weight}")
    return full
