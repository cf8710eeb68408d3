"""A torch module as a network of OpenVINO; the only part of this folder that needs torch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from sparta.inference.runtime import openvino


def convert(module: nn.Module, inputs: Sequence[Tensor], path: Path, batches: bool = False) -> None:
    """Write a module as OpenVINO's files, weights in float32.

    Args:
        module: in eval mode, on the CPU; its graph may depend on the inputs' shapes alone.
        inputs: examples; the network takes only arguments of these shapes and types.
        path: of the `.xml`; the `.bin` with the weights goes beside it.
        batches: whether the first dimension of all arguments may have any length.

    Raises:
        Exception: what torch's tracing or OpenVINO raises where it does not know a module.
    """
    ov = openvino()
    with torch.inference_mode(), warnings.catch_warnings(), _logging_unchanged():
        warnings.simplefilter("ignore")  # the tracer's, of shapes that it takes as constants
        shapes = [[-1 if batches else len(value), *value.shape[1:]] for value in inputs]
        model = ov.convert_model(module, example_input=tuple(inputs), input=shapes)
    ov.save_model(model, path, compress_to_fp16=False)


@contextmanager
def _logging_unchanged() -> Iterator[None]:
    """Undo what OpenVINO's converter does to the root logger, which silences all warnings."""
    root = logging.getLogger()
    level, handlers, filters = root.level, root.handlers[:], root.filters[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:], root.filters[:] = handlers, filters
