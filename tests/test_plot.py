"""Pictures: made, of a sane size, and honest: one scale for what is compared, and a scale of its own for the error."""

import functools
import json
from pathlib import Path

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from seponet import plots
from seponet.drawing.style import save_figure
from seponet.equations.problem import Problem
from seponet.evaluation.errors import Errors, compare
from seponet.evaluation.testset import TestSet
from seponet.functions import Functions
from seponet.nn.build import build
from seponet.nn.config import ModelConfig
from seponet.operator.operator import load
from seponet.plots import run
from seponet.plots.basis import match
from seponet.plots.panels import arrange, close_periodic_axes, error_over
from seponet.plots.quantity import compute_quantity
from seponet.problems import PROBLEMS, Burgers, Heat, NavierStokes, NonlinearDiffusion
from seponet.problems.separated import analytic_basis
from seponet.runs.config import RunConfig
from seponet.runs.figures import plot_run
from seponet.runs.folder import RunFolder
from seponet.training.log import read_history

COUNT = 3
SIZES = {"navier_stokes": {"t": 5, "x": 16, "y": 12}, "nonlinear_diffusion": {"t": 6, "x": 13, "y": 11}}


def make_points(problem: Problem, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Circles without their end in two dimensions, with both ends for Burgers, as in the problems' own grids."""
    closed = len(problem.domain) == 2
    return {
        name: np.linspace(axis.lower, axis.upper, sizes.get(name, 17), endpoint=closed or not axis.periodic)
        for name, axis in problem.domain.axes
    }


def make_solutions(problem: Problem, points: dict[str, np.ndarray]) -> tuple[dict, dict]:
    """Smooth fields with both signs, and others that are off by 1, 2 and 3 percent of their maximum."""
    mesh = np.meshgrid(*points.values(), indexing="ij")
    wave = np.sin(sum((i + 4) * m for i, m in enumerate(mesh))) + 0.1
    reference = {f: np.stack([(k + 1) * wave for k in range(COUNT)]) for f in problem.fields}
    off = 0.01 * np.cos(3 * mesh[-1])
    predicted = {f: v + np.stack([(k + 1) ** 2 * off for k in range(COUNT)]) for f, v in reference.items()}
    return reference, predicted


@functools.cache
def make_inputs(problem: Problem) -> dict[str, Functions]:
    return problem.sample(jax.random.key(0), COUNT)


def make_case(problem: Problem, which: int | str = "median", **sizes: int) -> plots.Case:
    points = make_points(problem, sizes)
    reference, predicted = make_solutions(problem, points)
    return plots.make_case(
        problem, make_inputs(problem), points, reference, predicted, compare(predicted, reference), which
    )


def images(figure) -> dict[str, list]:
    """The maps of a figure by the kind of their panel: the title, or the label of the row."""
    found: dict[str, list] = {}
    for axes in figure.axes:
        if axes.images:
            text = f"{axes.get_title()} {axes.get_ylabel()}"
            kind = next((word for word in ("−", "input", "reference", "prediction") if word in text), "")
            found.setdefault(kind, []).extend(axes.images)
    return found


def check_png(path: Path) -> None:
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert 500 < picture.width < 2000
        assert 250 < picture.height < 2000
        # Something was drawn: blank paper has one colour.
        colors = picture.convert("RGB").resize((200, 200)).getcolors(40_000)
        assert colors is not None
        assert len(colors) > 100
    assert 5_000 < path.stat().st_size < 2_000_000


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the names of files: rendering takes most of the time, and is tested elsewhere."""
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: Path(path).touch())
    monkeypatch.setattr(run, "animate", lambda case, path, **_: path)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_has_a_comparison_and_a_sample(name: str) -> None:
    problem = PROBLEMS[name]()
    case = make_case(problem, "worst", **SIZES.get(name, {}))
    assert len(images(plots.draw_comparison([case]))["−"]) >= 1
    titles = [axes.get_title() for axes in plots.draw_sample(case, own_error=1e-5).axes]
    assert titles[0].startswith("input $u$")
    assert sum("$t$ = " in title for title in titles) == (3 if len(problem.domain) == 3 else 0)


@pytest.mark.parametrize("problem", [Burgers(), NavierStokes()])
def test_pictures_of_solutions_are_written(problem: Problem, tmp_path: Path) -> None:
    sizes = SIZES["navier_stokes"]
    points = make_points(problem, sizes)
    reference, _ = make_solutions(problem, points)
    check_png(save_figure(plots.draw_comparison([make_case(problem, "worst", **sizes)]), tmp_path / "new" / "a.png"))
    data = xr.Dataset({f: (("function", *problem.domain), v) for f, v in reference.items()}, coords=points)
    check_png(plots.plot_sample(TestSet(problem, make_inputs(problem), data), tmp_path / "b.png", which=1))


@pytest.mark.parametrize("problem", [Burgers(), NonlinearDiffusion()])
def test_reference_and_prediction_share_a_scale_and_the_error_has_its_own(problem: Problem) -> None:
    case = make_case(problem)
    found = images(plots.draw_comparison([case]))
    exact, predicted = case.show("s")
    assert predicted is not None
    if len(problem.domain) == 2:
        limits = {found[kind][0].get_clim() for kind in ("reference", "prediction")}
        wrong = found["−"][0].get_clim()
    else:
        # Rows of snapshots: only the first panel of a row carries its label, so go by position.
        maps = [axes.images[0] for axes in plots.draw_comparison([case]).axes if axes.images][1:10]
        limits, wrong = {image.get_clim() for image in maps[:6]}, maps[-1].get_clim()
        assert len({image.get_clim() for image in maps[6:]}) == 1
    assert len(limits) == 1
    (shared,) = limits
    largest = max(np.abs(exact).max(), np.abs(predicted).max())
    assert shared == pytest.approx((-largest, largest))
    largest = np.abs(predicted - exact).max()
    assert wrong == pytest.approx((-largest, largest))


def test_values_of_one_sign_get_a_sequential_scale() -> None:
    case = make_case(Burgers())
    moved = {"s": case.reference["s"] + 10}
    case = plots.Case(case.problem, case.inputs, case.points, moved, moved, 1, 0.0)
    found = images(plots.draw_comparison([case]))
    assert found["reference"][0].get_clim() == pytest.approx((moved["s"].min(), moved["s"].max()))
    assert found["reference"][0].get_cmap().name == "viridis"
    # No error at all: still a scale, around zero.
    assert found["−"][0].get_clim() == (-1.0, 1.0)


def test_axes_are_labelled_and_the_title_tells_function_and_error() -> None:
    case = make_case(Burgers(), "worst")
    figure = plots.draw_comparison([case])
    panels = {axes.get_title(): axes for axes in figure.subfigs[0].axes if axes.get_title()}
    assert list(panels) == ["input $u$", "reference $s$", "prediction $s$", "prediction − reference"]
    assert panels["reference $s$"].get_xlabel() == "$x$"
    assert panels["reference $s$"].get_ylabel() == "$t$"
    assert panels["input $u$"].get_ylabel() == "$u$($x$)"
    assert case.error is not None
    title = f"Burgers, function 2 (worst): relative $L^2$ error {100 * case.error:.3g}%"
    assert figure.subfigs[0].get_suptitle() == title
    line = panels["input $u$"].lines[0]
    assert np.allclose(line.get_xdata(), case.points["x"])
    values = np.asarray(line.get_ydata())
    assert values[0] == pytest.approx(values[-1])


def test_space_is_horizontal_and_time_vertical() -> None:
    case = make_case(Burgers(), t=7, x=17)
    view = arrange(case.problem, case.points)
    assert (view.across, view.up, view.along) == ("x", "t", None)
    assert np.array_equal(view.cut(case.reference["s"]), case.reference["s"])
    case = make_case(NonlinearDiffusion(), t=4, x=9, y=6)
    view = arrange(case.problem, case.points)
    assert (view.across, view.up, view.along) == ("x", "y", "t")
    assert np.array_equal(view.cut(case.reference["s"], 2), case.reference["s"][2].T)


def test_circles_are_closed_once() -> None:
    case = make_case(NavierStokes(), t=3, x=8, y=6)
    view = arrange(case.problem, case.points)
    across, up, values = close_periodic_axes(case, view, view.cut(case.reference["p"], 1))
    assert across[-1] == pytest.approx(2 * np.pi)
    assert up[-1] == pytest.approx(2 * np.pi)
    assert values.shape == (7, 9)
    assert np.array_equal(values[:, -1], values[:, 0])
    case = make_case(Burgers(), t=5, x=9)
    across, _, values = close_periodic_axes(case, arrange(case.problem, case.points), case.reference["s"])
    assert across.shape == (9,)
    assert values.shape == (5, 9)


@pytest.mark.parametrize("endpoint", [False, True])
def test_vorticity_is_the_exact_one(endpoint: bool) -> None:
    problem = NavierStokes()
    space = np.linspace(0, 2 * np.pi, 16 + endpoint, endpoint=endpoint)
    points = {"t": np.array([0.0, 0.1]), "x": space, "y": space}
    _, x, y = np.meshgrid(*points.values(), indexing="ij")
    flow = {"p": np.cos(2 * x) * np.cos(3 * y), "q": np.sin(2 * x) * np.sin(y)}
    exact = 2 * np.cos(2 * x) * np.sin(y) + 3 * np.cos(2 * x) * np.sin(3 * y)
    assert np.allclose(compute_quantity(problem, points, flow, "vorticity"), exact, atol=1e-12)
    assert np.allclose(compute_quantity(problem, points, flow, "speed") ** 2, flow["p"] ** 2 + flow["q"] ** 2)


def test_error_over_time_counts_all_fields() -> None:
    case = make_case(NavierStokes(), t=4, x=8, y=6)
    predicted = {f: v * np.array([1.0, 1.1, 1.2, 1.3])[:, None, None] for f, v in case.reference.items()}
    case = plots.Case(case.problem, case.inputs, case.points, case.reference, predicted)
    assert np.allclose(error_over(case, "t"), [0, 0.1, 0.2, 0.3])


def test_single_points_become_a_line_or_a_plain_map() -> None:
    line = plots.draw_comparison([make_case(Burgers(), t=1)])
    assert [axes.get_title() for axes in line.axes] == ["input $u$", "$s$", "prediction − reference"]
    plain = images(plots.draw_comparison([make_case(NonlinearDiffusion(), t=1, x=9, y=8)]))
    assert len(plain["reference"]) == 1
    with pytest.raises(ValueError, match="single point"):
        plots.draw_comparison([make_case(Heat(), t=1, x=1)])


def test_several_functions_make_rows() -> None:
    figure = plots.draw_comparison([make_case(Heat(), which) for which in ("median", "worst")])
    assert [row.get_suptitle().split(":")[0] for row in figure.subfigs] == [
        "Heat, function 1 (median)",
        "Heat, function 2 (worst)",
    ]
    with pytest.raises(ValueError, match="one picture for each"):
        plots.draw_comparison([make_case(NonlinearDiffusion())] * 2)


def test_mistakes_are_told() -> None:
    case = make_case(Heat())
    broken = case.reference["s"].copy()
    broken[2, 3] = np.nan
    with pytest.raises(ValueError, match="prediction of s for function 1 is not finite"):
        plots.Case(case.problem, case.inputs, case.points, case.reference, {"s": broken}, 1)
    with pytest.raises(ValueError, match="grid's shape"):
        plots.Case(case.problem, case.inputs, case.points, {"s": broken[:5]})
    with pytest.raises(ValueError, match="must increase"):
        plots.Case(case.problem, case.inputs, {**case.points, "x": case.points["x"][::-1]}, case.reference)
    with pytest.raises(ValueError, match='"median" or "worst"; got \'middle\''):
        make_case(Heat(), "middle")
    with pytest.raises(ValueError, match="number of functions, 3; got 5"):
        make_case(Heat(), 5)
    with pytest.raises(ValueError, match="has the quantities s; got 'vorticity'"):
        plots.draw_comparison([case], "vorticity")
    with pytest.raises(ValueError, match="three axes"):
        plots.animate(case, "a.gif")
    with pytest.raises(ValueError, match=r"end in .png"):
        plots.plot_errors(np.array([0.1]), None, "a.doc")


def make_history(validated: bool = True) -> list[dict]:
    entries = [
        {"step": s, "seconds": 2.0 * s, "loss": 1 / s, "terms": {"equation": 0.9 / s, "s(t=0)": 0.1 / s}}
        | ({"validation": [0.4, 0.4, 0.2, 0.2, 0.1][i]} if validated else {})
        for i, s in enumerate((1, 2, 4, 8, 16))
    ]
    return [*entries, {**entries[-1], "terms": {}}]


def test_history_shows_terms_and_each_validation_once(tmp_path: Path) -> None:
    figure = plots.draw_history(make_history(), paper_error=0.0751)
    losses, validation = figure.axes
    assert [line.get_label() for line in losses.lines] == ["loss", "equation", "s(t=0)"]
    assert losses.get_yscale() == validation.get_yscale() == "log"
    assert np.asarray(validation.lines[0].get_xdata()).tolist() == [2, 8, 32]
    assert np.allclose(validation.lines[0].get_ydata(), [40, 20, 10])
    assert np.allclose(validation.lines[1].get_ydata(), 7.51)
    assert len(plots.draw_history(make_history(validated=False)).axes) == 1
    small = [entry | {"validation": entry["validation"] / 200} for entry in make_history()]
    figure = plots.draw_history(small, paper_error=0.0751)
    figure.canvas.draw()
    labels = {label.get_text() for label in figure.axes[1].get_yticklabels()}
    assert {"0.1", "1", "10"} <= labels
    check_png(plots.plot_history(make_history(), tmp_path / "history.png"))
    with pytest.raises(ValueError, match="no history"):
        plots.draw_history([])


def test_cut_off_metrics_are_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3, "lo')
    assert read_history(path) == [{"step": 1}, {"step": 2}]
    assert read_history(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("errors", [np.geomspace(1e-4, 1e-1, 50), np.full(4, 0.02), np.array([0.0, 0.3]), np.ones(1)])
def test_histogram_counts_every_function(errors: np.ndarray, tmp_path: Path) -> None:
    figure = plots.draw_errors(errors, 0.0751)
    (axes,) = figure.axes
    assert sum(bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)) == errors.size
    mean, paper = (float(np.asarray(line.get_xdata())[0]) for line in axes.lines)
    assert mean == pytest.approx(100 * np.mean(errors))
    assert paper == pytest.approx(7.51)
    lower, upper = axes.get_xlim()
    assert lower <= min(mean, paper)
    assert upper >= max(mean, paper)
    if errors.size == 4:
        check_png(plots.plot_errors(Errors(errors, errors, errors), None, tmp_path / "errors.png"))


def test_basis_of_a_potential() -> None:
    """A flow without divergence has one stream function for its two fields."""
    table = xr.DataArray(np.ones((1, 2, 9)), {"potential": [0], "x": np.linspace(0, 1, 9)}, ("potential", "k", "x"))
    assert len(plots.draw_basis({"x": table}).axes[0].lines) == 2
    with pytest.raises(ValueError, match="there is no potential 'p'; the basis has 0"):
        plots.draw_basis({"x": table}, field="p")


@pytest.mark.parametrize("rank", [1, 2, 5, 10, 50])
def test_basis_next_to_the_analytic_one(rank: int, tmp_path: Path) -> None:
    """Factors that are mixtures of the analytic functions span them; with one too few, something is left over."""
    exact = analytic_basis(Heat())
    assert exact is not None
    x = np.linspace(0, 1, 101)
    mixed = np.random.default_rng(0).normal(size=(rank, rank)) @ exact["x"](x, rank)
    basis = {
        "t": xr.DataArray(exact["t"](x, rank)[None], {"field": ["s"], "t": x}, ("field", "k", "t")),
        "x": xr.DataArray(mixed[None], {"field": ["s"], "x": x}, ("field", "k", "x")),
    }
    figure = plots.draw_basis(basis, exact)
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    left_over = panels["analytic, outside the model's span, $x$"].lines[0].get_ydata()
    assert np.max(left_over) < 1e-3
    model = panels["model, $x$"]
    assert len(model.lines) == (rank if rank <= 10 else 0)
    shown = np.asarray(model.lines[0].get_ydata() if rank <= 10 else model.images[0].get_array())
    assert np.max(np.abs(shown)) == pytest.approx(1)
    if rank == 2:
        fewer = plots.draw_basis({"x": basis["x"][:, :1]}, {"x": lambda points, _: exact["x"](points, 2)})
        assert np.max(fewer.axes[2].lines[0].get_ydata()) > 10
    if rank == 50:
        check_png(plots.plot_basis(basis, tmp_path / "basis.png", exact))


def test_factors_take_the_order_of_the_analytic_functions() -> None:
    """Permuted, scaled and perturbed factors are put in order by both axes together."""
    exact = analytic_basis(Heat())
    assert exact is not None
    x, noise = np.linspace(0, 1, 101), np.random.default_rng(0)
    order = noise.permutation(5)
    tables = {
        name: xr.DataArray(
            (noise.uniform(-2, 2, (5, 1)) * f(x, 5) + 0.02 * noise.normal(size=(5, 101)))[order], {name: x}, ("k", name)
        )
        for name, f in exact.items()
    }
    matched = match(tables, exact)
    assert np.array_equal(matched["t"], tables["t"][np.argsort(order)])
    assert np.array_equal(matched["x"], tables["x"][np.argsort(order)])


def test_a_model_of_rank_one_is_drawn_with_whole_numbers() -> None:
    model = build(Heat(), ModelConfig(rank=1, decoder="cp", exact="none"), key=jax.random.key(0))
    figure = plots.draw_basis(model, analytic_basis(Heat()))
    figure.draw_without_rendering()
    last = figure.axes[-1]
    lower, upper = last.get_xlim()
    assert [tick for tick in last.get_xticks() if lower <= tick <= upper] == [1]


def test_an_exact_model_leaves_the_decay_without_its_initial_value() -> None:
    analytic = analytic_basis(Heat(), exact=("t",))
    assert analytic is not None
    assert np.allclose(analytic["t"](np.array([0.0, 0.5]), 3), np.exp(-np.array([[1], [4], [9]]) * [[0, 0.5]]) - 1)
    assert analytic_basis(Burgers()) is None


def test_animation_has_a_frame_for_each_time_and_keeps_its_limit(tmp_path: Path) -> None:
    case = make_case(NavierStokes(duration=1.0), t=5, x=8, y=6)
    path = plots.animate(case, tmp_path / "flow.gif")
    with Image.open(path) as movie:
        assert getattr(movie, "n_frames", 1) == 5
        first = np.asarray(movie.convert("RGB")).astype(int)
        movie.seek(4)
        assert np.mean(np.abs(np.asarray(movie.convert("RGB")).astype(int) - first)) > 1
    size = path.stat().st_size
    assert size < 2_000_000
    with Image.open(plots.animate(case, path, limit=int(0.7 * size))) as movie:
        assert 1 < getattr(movie, "n_frames", 1) < 5
    assert path.stat().st_size <= 0.7 * size


def test_no_global_state_changes(tmp_path: Path) -> None:
    before, open_figures = dict(matplotlib.rcParams), plt.get_fignums()
    plots.plot_errors(np.array([0.1, 0.2]), None, tmp_path / "a.png")
    plots.draw_comparison([make_case(Heat())])
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == open_figures


@pytest.mark.usefixtures("unrendered")
def test_a_run_folder_gets_all_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path / "cache"))
    small = {name: np.linspace(0, 1, 15) for name in ("t", "x")}
    monkeypatch.setattr(Heat, "grid", lambda self: small)
    specification = RunConfig.make("heat", "quick", 0, None)
    folder = RunFolder(tmp_path / "run")
    folder.create(specification.to_toml())
    model = build(Heat(), ModelConfig(), key=jax.random.key(0))
    folder.save_operator(model)
    (folder.path / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in make_history()))
    errors = {name: [0.1, 0.3, 0.2] for name in ("relative_l2", "rmse", "maximum")}
    folder.add_to_report({"reference": "converged", "per_function": errors})
    made = plot_run(folder, load(folder.path))
    assert {path.name for path in made} == {"history.png", "basis.png", "errors.png", "sample.png", "comparison.png"}
    for path in made:
        assert path.parent == folder.path / "figures"
        assert path.exists()


@pytest.mark.usefixtures("unrendered")
def test_a_model_in_two_dimensions_gets_snapshots_and_a_movie(tmp_path: Path) -> None:
    problem = NonlinearDiffusion()
    points = make_points(problem, {"t": 4, "x": 9, "y": 8})
    reference, _ = make_solutions(problem, points)
    data = xr.Dataset({"s": (("function", *problem.domain), reference["s"])}, coords=points)
    testset = TestSet(problem, make_inputs(problem), data)
    model = build(problem, ModelConfig(), key=jax.random.key(0))
    errors = Errors(*3 * [np.array([0.3, 0.1, 0.2])])
    names = [path.name for path in plots.plot_all(model, testset, errors, [], tmp_path)]
    assert names == [
        "basis.png",
        "errors.png",
        "sample.png",
        "comparison-median.png",
        "comparison-worst.png",
        "animation.gif",
    ]
