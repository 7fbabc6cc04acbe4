"""Frozen operators: in every runtime the numbers of `predict`, for every registered problem and kind of model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from frozen_runtimes import NODE, RUNTIMES, run_numpy
from zoo import AnisotropicHeat, Brusselator, Pendulum, Plate, Reactor, small

import seponet
from seponet import frozen
from seponet.drawing.style import DIFFERENCE, DIVERGING, LINES, SEQUENTIAL
from seponet.export.html import render_page
from seponet.export.program import COMBINATIONS, MAPS, REDUCTIONS, Program
from seponet.export.trace import trace
from seponet.functions import Scalar
from seponet.operator.export import complete_points, freeze
from seponet.operator.page import freeze_page
from seponet.problems import PROBLEMS, Burgers
from seponet.runs.problems import make_problem

GOLDEN = sorted((Path(__file__).parent / "data" / "format2").iterdir())
ZOO = (Brusselator, Pendulum, Plate, Reactor)
EXAMPLES = Path(__file__).parents[1] / "examples"
OF_EXAMPLES = {
    "star_poisson.py": ("Star", "all"),
    "annulus_heat.py": ("Ring", "all"),
    "channel_flow.py": ("Channel", "all"),
    "hole.py": ("Hole", ()),
    "your_own_pde.py": ("FisherKPP", ("t",)),
}
"""The problems of the examples and their exact axes; the other examples are about operators of registered problems."""
NAMES = [path.name for path in GOLDEN] + [kind.__name__ for kind in ZOO] + list(OF_EXAMPLES)

needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node.js here; the browser tests run the same file")
RUNTIME = [pytest.param(name, marks=needs_node if name == "javascript" else ()) for name in RUNTIMES]


def operator_of(name: str) -> seponet.Operator:
    for path in GOLDEN:
        if path.name == name:
            return seponet.load(path)
    if name in OF_EXAMPLES:
        kind, exact = OF_EXAMPLES[name]
        problem = make_problem(f"{EXAMPLES / name}:{kind}")
        return seponet.Operator(small(problem, decoder="tucker", trunk="classical", exact=exact, sensors=12))
    (kind,) = (kind for kind in ZOO if kind.__name__ == name)
    return seponet.Operator(small(kind(), decoder="tucker", trunk="mlp", exact=()))


def points_of(problem: seponet.Problem) -> dict[str, Any]:
    """Few and unevenly spaced: nothing relies on a uniform grid."""
    counts = dict(zip(problem.domain, (6, 7, 5, 1), strict=False))
    return {
        name: axis.lower + axis.length * np.linspace(0, 1, counts[name]) ** 1.3 for name, axis in problem.domain.axes
    }


@pytest.fixture(scope="module")
def frozen_operators() -> dict[str, tuple[seponet.Operator, Program]]:
    return {}


@pytest.fixture
def case(request: pytest.FixtureRequest, frozen_operators: Any) -> tuple[seponet.Operator, Program]:
    if request.param not in frozen_operators:
        operator = operator_of(request.param)
        frozen_operators[request.param] = operator, freeze(operator, points_of(operator.problem))
    return frozen_operators[request.param]


def inputs_of(operator: seponet.Operator, program: Program, count: int = 3) -> dict[str, np.ndarray]:
    numbers, spaces = np.random.default_rng(0), operator.problem.inputs
    # A number has a range, outside of which a domain might not exist.
    ranges = {n: (space.low, space.high) if isinstance(space, Scalar) else (1, 2) for n, space in spaces.items()}
    return {e["name"]: numbers.uniform(*ranges[e["name"]], (count, *e["shape"])) for e in program.header["inputs"]}


def fields_of(operator: seponet.Operator, predicted: Any) -> dict[str, np.ndarray]:
    fields = operator.problem.fields
    return {f: (predicted[f] if len(fields) > 1 else predicted).to_numpy() for f in fields}


def test_every_registered_problem_and_every_example_is_among_the_cases():
    assert {type(operator_of(path.name).problem) for path in GOLDEN} == set(PROBLEMS.values())
    own = {path.name for path in EXAMPLES.glob("*.py") if "(Problem)" in path.read_text()}
    assert own == set(OF_EXAMPLES)


@pytest.mark.parametrize("runtime", RUNTIME)
@pytest.mark.parametrize("case", NAMES, indirect=True)
def test_a_frozen_operator_gives_what_predict_gives(case: tuple[seponet.Operator, Program], runtime: str):
    operator, program = case
    inputs = inputs_of(operator, program)
    predicted = operator.predict(inputs or None, **points_of(operator.problem))
    found = RUNTIMES[runtime](program, inputs)
    for name, wanted in fields_of(operator, predicted).items():
        given = found[name] if inputs else found[name].reshape(wanted.shape)
        np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-5 * np.max(np.abs(wanted)))


def mixture(values: dict[str, Any]) -> dict[str, Any]:
    """Operations that no model of the package needs, but a user's may."""
    u, a = values["u"], values["a"]
    series = jnp.fft.fftn(u)
    real = jnp.fft.rfft2(u * 2)
    kernel = jnp.asarray(np.random.default_rng(2).normal(size=(3, 2, 3, 3)))
    images = jnp.stack([u, u[::-1]])[None]
    ones = jnp.arange(5.0)
    return {
        "spectrum": jnp.real(series) + jnp.imag(jnp.conj(series)) + jnp.abs(series / (2 + 1j)),
        "filtered": jnp.fft.irfft2(real * jnp.exp(1j * ones[:, None] * jnp.ones((1, 4))), (5, 6)),
        "back": jnp.real(jnp.fft.ifft(series, axis=1)),
        "sums": jnp.cumsum(u, axis=1) + jax.lax.cumsum(u, axis=0, reverse=True),
        "convolved": jax.lax.conv_general_dilated(images, kernel, (1, 2), "SAME"),
        "moved": jnp.roll(u, 2, axis=0)[::-1, jnp.array([0, 3, 3, 5])],
        "set": u.at[1, 2:4].set(7.0).at[0].add(u[1]),
        "padded": jax.lax.pad(u, 3.0, ((1, 2, 0), (0, -1, 1))),
        "chosen": jnp.where(u > 1.5, jnp.sin(u), jnp.arctan2(u - 1.5, a - 1.5)) + (u >= a) + jnp.clip(u, 1.2, 1.8),
        "reduced": jnp.stack([u.max(1), u.min(1), u.prod(1), u.mean(1)]),
        "functions": jax.nn.sigmoid(u) + jnp.expm1(u) + jnp.log1p(u) + jnp.cbrt(u) + jax.lax.erf(u) + u**-3 + u**0.7,
        "rounded": jnp.round(2.5 * u) + jnp.floor(u * 3) + jnp.fmod(7 * u, 1.3) + (u * 4).astype(int),
        "loop": jax.lax.fori_loop(0, 4, lambda i, x: jnp.tanh(x) * i + u, u),
        "scanned": jax.lax.scan(lambda c, row: (c + row, c * row), u[0], u, reverse=True)[1],
        "branch": jax.lax.cond(True, jnp.cos, jnp.sin, u),
        "derivative": jax.grad(lambda v: jnp.sum(jnp.sin(v) * v**2))(u),
        "constant": jnp.full((2, 3), 4.0),
        "scalar": jnp.sum(u) * a,
    }


@pytest.fixture(scope="module")
def mixed() -> Program:
    return trace(mixture, {"u": (5, 6), "a": ()})


@pytest.mark.parametrize("runtime", RUNTIME)
def test_a_program_computes_what_jax_computes(mixed: Program, runtime: str):
    numbers = np.random.default_rng(1)
    inputs = {"u": numbers.uniform(1, 2, (2, 5, 6)), "a": numbers.uniform(1, 2, 2)}
    found = RUNTIMES[runtime](mixed, inputs)
    for i in range(2):
        wanted = mixture({name: jnp.asarray(v[i]) for name, v in inputs.items()})
        for name, value in wanted.items():
            largest = float(jnp.max(jnp.abs(value)))
            np.testing.assert_allclose(found[name][i], value, rtol=0, atol=3e-6 * largest, err_msg=name)


def test_what_has_no_operation_is_told_by_its_name():
    with pytest.raises(ValueError, match="uses JAX's `sort` on values that depend on the input"):
        trace(lambda values: {"s": jnp.sort(values["u"])}, {"u": (4,)})
    with pytest.raises(ValueError, match="indices that depend on the input can't be frozen"):
        trace(lambda values: {"s": values["u"][values["u"].astype(int)]}, {"u": (4,)})


def test_equal_work_and_equal_weights_are_stored_once():
    matrix = np.random.default_rng(0).normal(size=(4, 4))

    def twice(values: dict[str, Any]) -> dict[str, Any]:
        return {"s": jnp.sin(values["u"] @ matrix) * jnp.sin(values["u"] @ matrix)}

    program = trace(twice, {"u": (4,)})
    assert [entry["operation"] for entry in program.header["operations"]] == ["einsum", "map", "combine"]
    assert program.numbers.size == 16


def test_what_the_input_does_not_change_is_computed_beforehand():
    program = trace(lambda values: {"s": values["u"] + jnp.cumsum(jnp.sin(jnp.arange(9.0)))[-1]}, {"u": (4,)})
    assert len(program.header["operations"]) == 1


def test_operations_are_those_of_the_documented_format():
    text = (Path(__file__).parent.parent / "docs" / "frozen-format.md").read_text()
    missing = [name for name in (*frozen.OPERATIONS, *MAPS, *COMBINATIONS, *REDUCTIONS) if f"`{name}`" not in text]
    assert missing == []
    assert (set(frozen.MAPS), set(frozen.COMBINATIONS)) == (set(MAPS), set(COMBINATIONS))


@pytest.fixture(scope="module")
def burgers() -> seponet.Operator:
    return operator_of("tucker_translation")


def test_an_exported_file_runs_with_numpy_alone(burgers: seponet.Operator, tmp_path: Path):
    points: dict[str, Any] = {"t": 0.5, "x": np.linspace(0, 1, 7)}
    burgers.export(tmp_path / "burgers.npz", **points)
    u = np.sin(2 * np.pi * np.arange(8) / 8)
    np.save(tmp_path / "u.npy", u)
    code = (
        "import sys, numpy as np, seponet_frozen\n"
        "operator = seponet_frozen.load('burgers.npz')\n"
        "np.save('s.npy', operator(np.load('u.npy')))\n"
        "print(operator, len(operator.sensors['u']['x']), list(operator.coordinates), 'jax' in sys.modules, "
        "any(name.partition('.')[0] == 'seponet' for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "FrozenOperator(Burgers: u [8] -> s [7]) 8 ['t', 'x'] False False"
    wanted = burgers.predict(u, **points).to_numpy()
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), wanted, rtol=1e-5, atol=1e-5)


def test_frozen_operators_refuse_what_they_do_not_understand(burgers: seponet.Operator, tmp_path: Path):
    program = freeze(burgers, {"t": 0.5, "x": np.linspace(0, 1, 7)})
    operator = frozen.FrozenOperator(program.header, program.numbers)
    with pytest.raises(ValueError, match=r"input 'u' must have the shape \(8,\) or .* got \(9,\)"):
        operator(np.zeros(9))
    with pytest.raises(ValueError, match="the inputs are u; got v"):
        operator({"v": np.zeros(8)})
    with pytest.raises(ValueError, match="reads frozen operators of format 1; got format 2"):
        frozen.FrozenOperator({**program.header, "format": 2}, program.numbers)
    (tmp_path / "other.npz").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"other\.npz is no frozen operator"):
        frozen.load(tmp_path / "other.npz")


def test_export_says_what_is_wrong_before_it_computes(burgers: seponet.Operator, tmp_path: Path):
    with pytest.raises(ValueError, match=r"ends in .html, .npz, .onnx; got 'burgers.pt'"):
        burgers.export(tmp_path / "burgers.pt")
    with pytest.raises(ValueError, match="there is no folder"):
        burgers.export(tmp_path / "nowhere" / "burgers.npz")
    with pytest.raises(ValueError, match="there is no axis y; the axes are t, x"):
        burgers.export(tmp_path / "burgers.npz", y=np.zeros(3))
    (tmp_path / "seponet_frozen.py").write_text("mine")
    with pytest.raises(ValueError, match="is not the runtime that belongs there"):
        burgers.export(tmp_path / "burgers.npz", t=0.5, x=np.zeros(1))
    assert (tmp_path / "seponet_frozen.py").read_text() == "mine"
    assert not (tmp_path / "burgers.npz").exists()


def test_axes_beyond_the_third_are_held():
    points = complete_points(AnisotropicHeat.domain, {"t": [0.0, 1.0]})
    assert [np.shape(p) for p in points.values()] == [(2,), (49,), (49,), ()]


@pytest.fixture(scope="module")
def drawn() -> seponet.Operator:
    return seponet.Operator(small(Burgers(), exact="all", decoder="tucker", trunk="classical", sensors=16))


@pytest.fixture(scope="module")
def page(drawn: seponet.Operator) -> Program:
    return freeze_page(drawn, {"t": np.linspace(0, 1, 5), "x": np.linspace(0, 1, 9)})


def test_a_page_knows_usual_inputs_from_others(drawn: seponet.Operator, page: Program):
    draws = drawn.problem.sample(jax.random.key(9), 100)["u"]
    usual = np.asarray(draws(draws.space.sensors(16)))
    scores = [run_numpy(page, {"u": rows})["score"] for rows in (usual, 4 * usual, usual + 5)]
    assert np.mean(scores[0] <= 1) > 0.9
    assert np.mean(scores[1] > 1) > 0.5
    assert np.all(scores[2] > 1)
    nearest = run_numpy(page, {"u": 40 * usual})["nearest:u"]
    assert np.mean(run_numpy(page, {"u": nearest})["score"] <= 1) > 0.9


def test_a_page_shows_the_function_that_the_conditions_see(drawn: seponet.Operator, page: Program):
    draws = np.random.default_rng(0).normal(size=(2, 16))
    found = run_numpy(page, {"u": draws})
    # The model meets its initial condition exactly.
    fine = frozen.FrozenOperator(page.header, page.numbers).about["inputs"]["u"]["shown"]["x"]
    initial = drawn.predict(draws, t=0.0, x=np.array(fine)).to_numpy()
    np.testing.assert_allclose(found["input:u"], initial, atol=1e-5 * np.max(np.abs(initial)))


def test_the_page_allows_its_own_script_and_nothing_else(page: Program):
    text = render_page(page)
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "unsafe" not in text.partition("<style>")[0]
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text
    about = json.loads(text.partition('id="program">')[2].partition("</script>")[0])["about"]
    assert about["problem"] == "Burgers"


def test_a_flow_is_drawn_and_shown_by_its_vorticity():
    operator = operator_of("fields")
    grid = {"t": np.array([0.0, 0.1]), "x": np.linspace(0, 2 * np.pi, 9), "y": np.linspace(0, 2 * np.pi, 9)}
    program = freeze_page(operator, grid)
    assert program.header["about"]["quantities"] == ["vorticity", "p", "q"]
    (entry,) = program.header["inputs"]
    n = entry["shape"][0]
    x = 2 * np.pi * np.arange(n) / n
    # The stream function cos x cos y has the vorticity 2 cos x cos y and the velocity (-cos x sin y, sin x cos y).
    found = run_numpy(program, {"u": 2 * np.cos(x)[:, None] * np.cos(x)[None]})
    across, up = np.meshgrid(grid["x"], grid["y"], indexing="ij")
    np.testing.assert_allclose(found["p"][0], -np.cos(across) * np.sin(up), atol=1e-5)
    np.testing.assert_allclose(found["q"][0], np.sin(across) * np.cos(up), atol=1e-5)
    np.testing.assert_allclose(found["vorticity"][0], 2 * np.cos(across) * np.cos(up), atol=1e-5)


def test_the_colours_of_the_page_are_those_of_the_plots():
    text = (Path(seponet.__file__).parent / "export" / "page" / "colours.js").read_text()
    for name in (SEQUENTIAL, DIVERGING, DIFFERENCE):
        digits = text.partition(f'{name}: "')[2].partition('"')[0]
        stored = np.array([int(digits[i : i + 2], 16) for i in range(0, len(digits), 2)]).reshape(-1, 3)
        wanted = 255 * matplotlib.colormaps[name](np.linspace(0, 1, len(stored)))[:, :3]
        np.testing.assert_allclose(stored, wanted, atol=0.51)
    assert all(line in text for line in LINES)
