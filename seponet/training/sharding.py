"""Training on several devices: each takes a share of the functions.

The command line makes the mesh of all devices itself. In Python, a mesh that is set does the same:

```python
with jax.set_mesh(jax.make_mesh((jax.device_count(),), ("functions",), axis_types=(AxisType.Auto,))):
    operator = seponet.train("burgers")
```
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._program import OwnProgram
from ..distributed.mesh import FUNCTIONS

T = TypeVar("T")


def share(functions: T) -> T:
    """Arrays with the functions first, split over the axis "functions" of the mesh in use, if there is one.

    All that follows in a compiled step is then split likewise by the compiler, and gradients are summed over devices.
    Where there is no even split the compiler fills up the last shares with zeros that count nowhere: the result is that
    of one device, to round-off, for any number of them.
    """
    return _constrain(functions, PartitionSpec(FUNCTIONS))


def whole(tree: T) -> T:
    """Arrays that every device of the mesh in use has a copy of."""
    return _constrain(tree, PartitionSpec())


def _constrain(tree: T, spec: PartitionSpec) -> T:
    if jax.sharding.get_abstract_mesh().shape.get(FUNCTIONS, 1) == 1:
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.with_sharding_constraint(arrays, spec), rest)


class MeshProgram:
    """A compiled function on the devices of a mesh, which may be those of several processes.

    Its arguments and results are arrays of one device, as everywhere else: each process gives the same ones and gets
    the same ones. Whatever of the function asks for it (`share`) is split over the devices in between.

    **Arguments:**

    - `function`: what to compile.
    - `mesh`: the devices.
    """

    def __init__(self, function: Callable[..., Any], mesh: Mesh) -> None:
        self.function, self.mesh = function, mesh
        self._program = OwnProgram(lambda *arguments: whole(function(*arguments)))

    def __call__(self, *arguments: Any) -> Any:
        with jax.set_mesh(self.mesh):
            results = self._program(*self._spread(arguments))
        return jax.tree.map(lambda leaf: leaf.addressable_data(0), results)

    def compile(self, *arguments: Any) -> Any:
        """The program for such arguments; a call that follows need not compile again."""
        with jax.set_mesh(self.mesh):
            return self._program.compile(*self._spread(arguments))

    def _spread(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        everywhere, devices = NamedSharding(self.mesh, PartitionSpec()), self.mesh.local_devices

        def spread(leaf: Any) -> Any:
            copies = [jax.device_put(leaf, device) for device in devices]
            return jax.make_array_from_single_device_arrays(leaf.shape, everywhere, copies)

        arrays, rest = eqx.partition(arguments, eqx.is_array)
        return eqx.combine(jax.tree.map(spread, arrays), rest)
