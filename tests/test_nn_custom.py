"""A user's own trunk, decoder, branch and coefficient map; and nobody asks a part of a model for its class."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import Wave, quick_jit, random_grid, small

import seponet
from seponet import Points, nn
from seponet.bases.base import Basis
from seponet.calculus.basis_values import JointValues, SeparableValues
from seponet.calculus.evaluate import evaluate, residuals
from seponet.calculus.model import FixedCoefficients, Model
from seponet.calculus.potentials import PotentialValues
from seponet.equations.symbols import Symbol
from seponet.nn.repeated_deeponet import RepeatedValues

PACKAGE = Path(seponet.__file__).parent


class Powers(nn.AbstractTrunk):
    """Learned multiples of 1, y, y^2, ... of one axis."""

    scales: jax.Array

    @property
    def classical_bases(self) -> None:
        return None

    def __call__(self, points, order):
        rows = []
        for m in range(order + 1):
            factors = [np.prod(np.arange(k, k - m, -1.0)) for k in range(self.scales.shape[1])]
            values = [f * points ** max(k - m, 0) for k, f in enumerate(factors)]
            rows.append(self.scales[:, :, None] * jnp.stack(values)[None])
        return jnp.stack(rows)


@dataclass(frozen=True)
class Blocks(nn.AbstractDecoder):
    """sum_b sum_jk C_bjk f_bj(t) g_bk(x): a block term decomposition of functions of two variables."""

    blocks: int
    size: int

    @property
    def has_core(self):
        return False

    @property
    def materialised_rank(self):
        return 0

    def ranks(self, axes):
        return (self.blocks * self.size,) * axes

    def shape(self, axes):
        return (self.blocks, *(self.size,) * axes)

    def contract(self, coefficients, tables, terms, grid):
        letters = "mbjk,bjx,bky->mxy" if grid else "mbjk,bjx,bkx->mx"
        first, second = (table.reshape(table.shape[0], self.blocks, self.size, -1) for table in tables)
        parts = [w * jnp.einsum(letters, coefficients, first[i], second[j]) for w, (i, j) in terms]
        return sum(parts[1:], parts[0])

    def flops(self, shape, terms):
        return 2 * self.blocks * self.size**2 * int(np.prod(shape)) * len(terms)


class Means(nn.AbstractBranch):
    """Coefficients that are multiples of the mean of each input."""

    weights: jax.Array

    def __call__(self, sensor_values):
        means = [jnp.mean(values.reshape(values.shape[0], -1), axis=1) for values in sensor_values.values()]
        return sum(means[1:], means[0])[:, None] * self.weights[None]


class Halves(nn.AbstractCoefficientMap):
    def __call__(self, outputs):
        return outputs / 2


def custom(problem) -> nn.SepONet:
    """A model of the zoo in which everything that can be replaced is replaced."""
    decoder, model = Blocks(2, 3), small(problem, exact="none")
    keys = jax.random.split(jax.random.key(1), 3)
    trunks = tuple(Powers(jax.random.normal(key, (1, 6))) for key in keys[:2])
    return nn.SepONet(
        problem=problem,
        exact=(),
        sensors=model.sensors,
        branch=Means(jax.random.normal(keys[2], (2 * 3 * 3,))),
        trunks=trunks,
        decoder=decoder,
        whitening=Halves(),
    )


def test_own_parts_make_a_model_and_a_grid_equals_points():
    problem = Wave()
    model, inputs, grid = custom(problem), problem.sample(jax.random.key(0), 2), random_grid(problem)
    assert isinstance(model, Model)
    assert model.coefficient_shape() == (1, 2, 3, 3)
    assert not model.has_fixed_basis
    mesh = grid.mesh()
    assert isinstance(mesh, Points)

    @quick_jit
    def run(model):
        return residuals(model, inputs, grid), residuals(model, inputs, mesh)

    on_grid, at_points = run(model)
    for name, values in on_grid.items():
        if values[0].size == at_points[name][0].size:  # faces have fewer points on a grid
            np.testing.assert_allclose(values.reshape(2, -1), at_points[name], rtol=1e-10, atol=1e-10, err_msg=name)
    assert any(values[0].size == mesh.shape[0] for values in on_grid.values())


def test_own_parts_are_their_formula():
    """The decoder's sum, term by term, with derivatives of powers; half of what the branch says."""
    problem = Wave()
    model, inputs, grid = custom(problem), problem.sample(jax.random.key(0), 2), random_grid(problem)
    symbol = problem.vocabulary.parse("s_tx")
    found = quick_jit(lambda m: evaluate(m, inputs, grid, [symbol])[symbol])(model)
    core = np.asarray(model.coefficients(model.encode(inputs)))[:, 0]
    np.testing.assert_allclose(core.reshape(2, -1), np.asarray(model.branch(model.encode(inputs))) / 2, rtol=1e-14)
    scales = [np.asarray(jax.tree.leaves(trunk)[0]) for trunk in model.trunks]
    expected = np.zeros(found.shape)
    for b in range(2):
        for j in range(3):
            for k in range(3):
                p, q = 3 * b + j, 3 * b + k
                t = scales[0][0, p] * p * np.asarray(grid["t"]) ** max(p - 1, 0)
                x = scales[1][0, q] * q * np.asarray(grid["x"]) ** max(q - 1, 0)
                expected += core[:, b, j, k][:, None, None] * np.outer(t, x)[None]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", ["seponet", "deeponet", "deeponet_repeated"])
def test_fixed_coefficients_answer_as_the_model_does(kind):
    problem = Wave()
    model, inputs = small(problem, kind=kind, exact="none"), problem.sample(jax.random.key(0), 2)
    fixed = FixedCoefficients(model, 2 * model.coefficients(model.encode(inputs)))
    assert isinstance(model, Model)
    assert isinstance(fixed, Model)
    names = ("problem", "exact", "sensors", "separable", "has_fixed_basis", "whitening", "size", "materialised_rank")
    assert all(getattr(fixed, name) is getattr(model, name) for name in names if name != "size")
    assert fixed.size == model.size
    assert fixed.coefficient_shape() == model.coefficient_shape()
    assert fixed.encode(inputs) == {}
    s, grid = Symbol("field", "s"), random_grid(problem)
    once, twice = quick_jit(lambda *models: [evaluate(m, inputs, grid, [s])[s] for m in models])(model, fixed)
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-12)
    expected = "need exactly periodic axes" if kind == "seponet" else "are for SepONets; got a .*DeepONet"
    with pytest.raises(ValueError, match=f"spectral residuals {expected}"):
        fixed.fourier_grid()


def subclasses(kind: type) -> Iterator[type]:
    yield kind
    for sub in kind.__subclasses__():
        yield from subclasses(sub)


FAMILIES = (
    nn.OperatorNetwork,
    nn.AbstractTrunk,
    nn.AbstractDecoder,
    nn.AbstractBranch,
    nn.AbstractCoefficientMap,
    Basis,
    SeparableValues,
    JointValues,
    PotentialValues,
    RepeatedValues,
)
CLASSES = {kind.__name__ for family in FAMILIES for kind in subclasses(family)} | {"Model", "FixedCoefficients"}
ATTRIBUTES = {"trunk", "trunks", "decoder", "branch", "bases", "sizes", "whitening", "potentials", "translation"}
MAY_ASK = ("calculus/", "nn/build")
FILES = "operator/saving.py"
"""A file may hold anything: whether it held a model is asked once, where it is read."""


def questions(path: Path) -> Iterator[str]:
    """The lines of a module that ask a part of a model for its class, or for an attribute by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1):
            continue
        asked = list(ast.walk(node.args[1]))
        names = {n.id for n in asked if isinstance(n, ast.Name)}
        names |= {n.attr for n in asked if isinstance(n, ast.Attribute)}
        strings = {n.value for n in asked if isinstance(n, ast.Constant)}
        if node.func.id in ("isinstance", "issubclass") and names & CLASSES:
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if node.func.id in ("getattr", "hasattr") and strings & ATTRIBUTES:
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_nobody_asks_a_part_of_a_model_for_its_class(path: Path):
    name = path.relative_to(PACKAGE).as_posix()
    if name.startswith(MAY_ASK):
        return
    found = list(questions(path))
    assert len(found) == (name == FILES), f"{name} asks for a class: {found}; give the abstract class a property"


def test_the_search_for_questions_finds_them(tmp_path: Path):
    text = "isinstance(t, nn.NetworkTrunk)\nissubclass(d, (int, CP))\ngetattr(m, 'trunks', ())\nisinstance(x, str)\n"
    (tmp_path / "a.py").write_text(text)
    assert [q.split(":")[0] for q in questions(tmp_path / "a.py")] == ["line 1", "line 2", "line 3"]
