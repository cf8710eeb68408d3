"""Workers are found in the order of their start."""

import os
from multiprocessing import get_context
from time import sleep

from eval.bench.soak.workers import workers_of
from tests.eval.bench.soak.needs import needs_proc


@needs_proc
def test_the_oldest_is_first() -> None:
    processes = [get_context("spawn").Process(target=sleep, args=(60,)) for _ in range(2)]
    for process in processes:
        process.start()
        sleep(0.05)  # starts are recorded in hundredths of a second
    assert workers_of(os.getpid()) == [process.pid for process in processes]
    for process in processes:
        process.kill()
        process.join()
    assert workers_of(os.getpid()) == []


def test_a_server_that_has_ended() -> None:
    assert workers_of(-1) == []
