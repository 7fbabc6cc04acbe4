"""Training on several devices: each takes a share of the functions, as the mesh says that a user has set.

```python
with jax.set_mesh(jax.make_mesh((jax.device_count(),), ("functions",), axis_types=(AxisType.Auto,))):
    operator = seponet.train("burgers")
```
"""

from typing import TypeVar

import jax
from jax.sharding import PartitionSpec

FUNCTIONS = "functions"
T = TypeVar("T")


def share(functions: T) -> T:
    """Arrays with the functions first, split over the axis "functions" of the mesh in use.

    All that follows in a compiled step is then split likewise by the compiler, and gradients are summed over devices.
    Without such a mesh, or if there is no even split, they stay as they are.
    """
    devices = jax.sharding.get_abstract_mesh().shape.get(FUNCTIONS, 1)
    if devices == 1 or any(leaf.shape[0] % devices for leaf in jax.tree.leaves(functions)):
        return functions
    return jax.lax.with_sharding_constraint(functions, PartitionSpec(FUNCTIONS))
