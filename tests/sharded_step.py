"""Run by test_sharding in processes of their own: loss and gradient of a training step, written to a file."""

import socket
import sys
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import zoo
from jax.sharding import AxisType

from seponet.training.config import SamplingConfig, TrainConfig
from seponet.training.step import TrainStep


def meet(file: Path, process: int) -> str:
    """An address for both processes. The first takes a free port just before it is used, when hardly anyone else can
    take it, and the other waits to read which."""
    if process == 0:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            address = f"localhost:{free.getsockname()[1]}"
        half = file.with_suffix(".half")
        half.write_text(address)
        half.replace(file)
    while not file.exists():
        time.sleep(0.02)
    return file.read_text()


def main(output: str, devices: str, process: str, meeting: str) -> None:
    """Use a mesh of so many devices, some of them in the other of two processes if a file to meet by is given."""
    jax.config.update("jax_enable_x64", True)
    if meeting:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        address = meet(Path(meeting), int(process))
        jax.distributed.initialize(address, num_processes=2, process_id=int(process))
    stepper = TrainStep(
        zoo.small(zoo.KdV()),
        TrainConfig(functions=8, sampling=SamplingConfig(points=6, method="stratified", resample=2)),
        3,
        jax.random.key(0),
    )

    @eqx.filter_jit
    def differentiate(state):
        arguments = state.parameters, state.balance, stepper.batch(state), state.step
        return jax.value_and_grad(stepper.loss, has_aux=True)(*arguments)

    with jax.set_mesh(jax.make_mesh((int(devices),), ("functions",), axis_types=(AxisType.Auto,))):
        (loss, (losses, _)), gradient = differentiate(stepper.start())
    (share,) = {shard.data.shape for shard in losses.table.addressable_shards}
    arrays: Any = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(gradient))}
    np.savez(output, share=np.array(share), loss=np.asarray(loss), **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
