"""What a chip could do, and the clock and memory of what it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from eval.bench.peak_memory import watch

# Products of bfloat16 matrices without sparsity, TFLOP/s, as the makers give them.
PEAKS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}
TERA = 1e12


def name_of(device: torch.device) -> str:
    """A GPU's name, or "cpu"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def peak_of(device: torch.device) -> float | None:
    """The chip's TFLOP/s in bfloat16, None where it is not known."""
    return next((peak for chip, peak in PEAKS.items() if chip in name_of(device)), None)


def clock(device: torch.device) -> float:
    """Seconds: of this process's processor time on a CPU, which other work changes little."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def seconds_of(work: Callable[[], object], times: int, device: torch.device) -> float:
    """Mean time of one call, after one that is not counted."""
    work()
    start = clock(device)
    for _ in range(times):
        work()
    return (clock(device) - start) / times


@dataclass
class Memory:
    """The largest so far, in bytes; None where it cannot be read."""

    bytes: int | None = None


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Memory]:
    """A GPU's allocated memory, or the resident memory of this process, at its largest."""
    found = Memory()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield found
        found.bytes = torch.cuda.max_memory_allocated(device)
    else:
        with watch() as peak:
            yield found
        found.bytes = peak.bytes


def flops_of(work: Callable[[], object]) -> int:
    """Additions and multiplications of the matrix products of one call, which is not compiled."""
    # As plain products: the counter does not know every kernel of fused attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def product_rate(precision: torch.dtype, side: int, device: torch.device) -> float:
    """TFLOP/s of one product of two square matrices: what this chip attains at its best."""
    a, b = (torch.rand(side, side, device=device).to(precision) for _ in range(2))
    with torch.inference_mode():
        return 2 * side**3 / seconds_of(lambda: a @ b, 5, device) / TERA
