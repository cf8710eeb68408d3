"""`torchrun` on two nodes, which are two processes here, trains what one process does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import yaml
from safetensors.torch import load_file
from torch.testing import assert_close

from tests.training.corpus import write_corpus
from training.fit import train

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start_nodes(config: Path, out: Path) -> list[subprocess.Popen[str]]:
    """Run the command of docs/own-model.md on each of two nodes."""
    meeting = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = ["-m", "sparta", "train", str(config), "--out", str(out)]
    return [
        subprocess.Popen(
            [*TORCHRUN, "--node-rank", str(rank), *meeting, *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]


def test_two_nodes_train_what_one_process_does(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path)
    # Dropout is drawn for a process's part of a batch; without it the parts make up the whole.
    encoder = corpus.config().model.encoder | dict.fromkeys(DROPOUT, 0.0)
    model = {"encoder": encoder, "options": {"region_dropout": 0.0}}
    config = corpus.config(epochs=2, model=model)
    settings = tmp_path / "config.yaml"
    settings.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    nodes = start_nodes(settings, tmp_path / "two")
    train(config, tmp_path / "one")
    outputs = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    one, two = (load_file(tmp_path / run / "model/model.safetensors") for run in ("one", "two"))
    assert one.keys() == two.keys()
    for name, weights in one.items():
        assert_close(two[name], weights, rtol=1e-3, atol=1e-4, msg=name)
