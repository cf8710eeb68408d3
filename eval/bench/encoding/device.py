"""A device's peak rate, and the time, memory and FLOPs of work on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from eval.bench.peak_memory import watch

# Products of bfloat16 matrices without sparsity, TFLOP/s, from the manufacturers.
PEAKS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}
TERA = 1e12


def name_of(device: torch.device) -> str:
    """A GPU's name, or "cpu"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def peak_of(device: torch.device) -> float | None:
    """The device's peak TFLOP/s in bfloat16, None if unknown."""
    return next((peak for chip, peak in PEAKS.items() if chip in name_of(device)), None)


def clock(device: torch.device) -> float:
    """Seconds: wall time on a GPU, processor time on a CPU, which other processes affect little."""
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
    """The peak so far, in bytes; None where it cannot be read."""

    bytes: int | None = None


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Memory]:
    """Peak of a GPU's allocated memory, or of the resident memory of this process."""
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
    """Additions and multiplications of the matrix products of one call, not compiled."""
    # Plain products, because the counter does not know every fused attention kernel.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def product_rate(precision: torch.dtype, side: int, device: torch.device) -> float:
    """TFLOP/s of one product of two square matrices: the rate that the device attains."""
    a, b = (torch.rand(side, side, device=device).to(precision) for _ in range(2))
    with torch.inference_mode():
        return 2 * side**3 / seconds_of(lambda: a @ b, 5, device) / TERA
