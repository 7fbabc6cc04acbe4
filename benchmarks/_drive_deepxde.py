"""Drives DeepXDE's PI-DeepONet on PyTorch, in its own environment; see `peer.py`.

Two of its ways: the default (reverse mode, function by function) and zero-coordinate shift (`zcs`), its fastest one.
Periodicity holds by features of the trunk's input, all other conditions are soft. Its points stay the same: its data of
operators has no way to draw new ones.
"""

import os

os.environ["DDE_BACKEND"] = "pytorch"

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import deepxde as dde
import numpy as np
import torch
from deepxde.data.function_spaces import FunctionSpace
from peer import Task, drive, fit, time_prediction, time_steps


class Stored(FunctionSpace):
    """The functions of the task, interpolated between sensors, the same ones for everybody."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def random(self, size: int) -> np.ndarray:
        return self.task.train[:size].astype(np.float32)

    def eval_one(self, feature: np.ndarray, x: Any) -> Any:
        return np.interp(x, self.task.sensors, feature)

    def eval_batch(self, features: np.ndarray, xs: np.ndarray) -> np.ndarray:
        return np.stack([np.interp(xs[:, 0], self.task.sensors, f) for f in features]).astype(np.float32)


def residual(name: str, zcs: bool) -> Any:
    """The equation, its coordinates (x, t), as DeepXDE wants it in either of its ways."""

    def equation(x: Any, s: Any, v: Any) -> Any:
        if zcs:
            lazy = dde.zcs.LazyGrad(x, s)
            s_t, s_x = lazy.compute((0, 1)), lazy.compute((1, 0))
            s_xx = lazy.compute((2, 0)) if name != "advection" else None
        else:
            s_t, s_x = dde.grad.jacobian(s, x, j=1), dde.grad.jacobian(s, x, j=0)
            s_xx = dde.grad.hessian(s, x, i=0, j=0) if name != "advection" else None
        if name == "advection":
            return s_t + v * s_x
        if name == "burgers":
            return s_t + s * s_x - 0.01 * s_xx
        return s_t - 0.01 * s_xx - 0.01 * s**2 - v

    return equation


def circle(x: Any) -> Any:
    """Coordinates (x, t) with x mapped to the unit circle, so that the network is periodic in it."""
    angle = 2 * np.pi * x[:, :1]
    return torch.cat([torch.cos(angle), torch.sin(angle), x[:, 1:]], dim=1)


def conditions(name: str, domain: Any) -> list[Any]:
    edge, start = (lambda _, on: on), (lambda _, on: on)
    if name == "burgers":
        return [dde.icbc.IC(domain, lambda _, v: v, start)]
    if name == "advection":
        inflow = lambda x, on: on and np.isclose(x[0], 0)  # noqa: E731
        return [
            dde.icbc.IC(domain, lambda x: np.sin(np.pi * x[:, :1]), start),
            dde.icbc.DirichletBC(domain, lambda x: np.sin(np.pi / 2 * x[:, 1:]), inflow),
        ]
    return [dde.icbc.IC(domain, lambda x: 0 * x[:, :1], start), dde.icbc.DirichletBC(domain, lambda _: 0, edge)]


def tabulated(net: Any, test: np.ndarray, mesh: np.ndarray) -> Callable[[], np.ndarray]:
    """The forward pass with the trunk evaluated beforehand, as for our DeepONet; DeepXDE has no call for it."""
    functions, points = torch.as_tensor(test), torch.as_tensor(mesh)

    @torch.no_grad()
    def evaluate_trunk(places: Any) -> Any:
        moved = places if net._input_transform is None else net._input_transform(places)
        return net.activation_trunk(net.trunk(moved))

    @torch.no_grad()
    def forward(table: Any) -> np.ndarray:
        return net.merge_branch_trunk(net.branch(functions), table, 0).numpy()

    with torch.no_grad():
        whole = net((functions, points[:100])).numpy()
    if not np.allclose(forward(evaluate_trunk(points[:100])), whole, atol=1e-5):
        raise ValueError("DeepXDE's DeepONet is not the product of its branch and its trunk")
    table = evaluate_trunk(points)
    return lambda: forward(table)


def run(task: Task, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    dde.config.set_random_seed(0)
    name, axes = settings["problem"], task.solution.ndim - 1
    hidden = [settings["width"]] * settings["depth"]
    periodic = name == "burgers"
    net = dde.nn.DeepONetCartesianProd(
        [task.test.shape[1], *hidden, settings["rank"]],
        [axes + periodic, *hidden, settings["rank"]],
        {"branch": "tanh", "trunk": "sin"},
        "Glorot normal",
    )
    if periodic:
        net.apply_feature_transform(circle)
    # The solutions have t first, DeepXDE has it last.
    grids = np.meshgrid(task.t, *[task.x] * (axes - 1), indexing="ij")
    mesh = np.stack([*(g.ravel() for g in grids[1:]), grids[0].ravel()], axis=1).astype(np.float32)
    test = task.test.astype(np.float32)
    versions = {name: version(name) for name in ("deepxde", "torch")}

    @torch.no_grad()
    def forward() -> np.ndarray:
        return net((torch.as_tensor(test), torch.as_tensor(mesh))).numpy()

    if settings["what"] == "predict":
        return {**time_prediction(tabulated(net, test, mesh), len(test)), "versions": versions}

    zcs, points = settings["mode"] == "zcs", settings["points"]
    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
    imposed = conditions(name, domain)
    edges = 0 if periodic else 2 * points
    problem = dde.data.TimePDE(
        domain, residual(name, zcs), imposed, num_domain=points**2, num_boundary=edges, num_initial=points
    )
    kind = dde.zcs if zcs else dde.data
    data = kind.PDEOperatorCartesianProd(
        problem,
        Stored(task),
        task.sensors[:, None],
        len(task.train),
        function_variables=[0],
        batch_size=settings["functions"],
    )
    data.test_x = (data.train_x[0][:1], data.train_x[1])
    model = (dde.zcs.Model if zcs else dde.Model)(data, net)
    weights = [1.0, settings["weight_t"], settings["weight_x"]][: 1 + len(imposed)]
    model.compile("adam", lr=1e-3, decay=("step", 1000, 0.9), loss_weights=weights, verbose=0)

    def advance(steps: int) -> None:
        for _ in range(steps):
            model.train_state.set_data_train(*data.train_next_batch(settings["functions"]))
            state = model.train_state
            model._train_step(state.X_train, state.y_train, state.train_aux_vars)

    timed = time_steps(advance)
    result = {**timed, "versions": versions}
    if settings["seconds"]:
        error = lambda: task.error(forward())  # noqa: E731
        result |= {"training": fit(advance, error, timed, settings["seconds"], settings["target"])}
    return result


if __name__ == "__main__":
    drive(run)
