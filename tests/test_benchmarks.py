"""The machinery of the benchmarks: cells, resuming, budgets, predictions, exponents, rendering."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"

SCRIPT = """
import subprocess, sys
from dataclasses import dataclass
sys.path.insert(0, {folder!r})
import results
from pathlib import Path
results.RESULTS = Path({results!r})
import study
study.RESULTS = results.RESULTS

@dataclass(frozen=True)
class Square(study.Cell):
    kind: str
    n: int

def measure(cell):
    if cell.kind == "crash":
        raise ValueError("no square")
    if cell.kind == "slow":
        subprocess.run(["sleep", {nap!r}])
    return {{"square": cell.n**2}}

def predict(cell, finished):
    if cell.n < 100:
        return None
    known = max(o.cell["n"] for o in finished.values() if o.measured)
    return {{"square": cell.n**2, "from": known}}

CELLS = [Square("fine", 2), Square("fine", 3), Square("crash", 1), Square("fine", 100), Square("slow", 1)]
STUDY = study.Study("squares", CELLS, measure, __file__, predict)
if __name__ == "__main__":
    sys.exit(STUDY.main())
"""

NAP = f"61.{os.getpid()}"
"""Seconds of a sleep that no other suite on this machine sleeps: it is looked for among all processes."""


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture
def squares(tmp_path, monkeypatch):
    """A study whose cells run in milliseconds, and its results in a folder of the test's."""
    import importlib.util

    script = tmp_path / "squares.py"
    script.write_text(SCRIPT.format(folder=str(FOLDER), results=str(tmp_path / "results"), nap=NAP))
    import results
    import study

    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results")
    specification = importlib.util.spec_from_file_location("squares", script)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "squares", module)
    specification.loader.exec_module(module)
    return module.STUDY


def test_ids_are_stable_and_name_files():
    from study import Cell

    @dataclass(frozen=True)
    class Step(Cell):
        problem: str
        what: str

    assert Step("burgers", "CP 50").id == "burgers-CP_50"
    assert Step("burgers", "a/b").id == "burgers-a_b"


def test_a_study_measures_predicts_fails_and_goes_on(squares, capsys):
    assert squares.run([cell for cell in squares.choose([]) if cell.kind != "slow"]) == 4
    assert replace(squares, limit=0.5).run(squares.choose(["slow"])) == 1
    outcomes = squares.finished()
    assert [o.status for o in outcomes.values()] == ["measured", "measured", "failed", "predicted", "failed"]
    assert outcomes["fine-3"].result == {"square": 9}
    assert outcomes["fine-100"].result == {"square": 10000, "from": 3}
    assert outcomes["crash-1"].result["reason"] == "ValueError: no square"
    assert outcomes["slow-1"].result["reason"] == "took longer than 0.5 s"
    assert squares.choose([]) == []
    assert [cell.id for cell in squares.choose([], retry=True)] == ["crash-1", "slow-1"]
    assert [cell.id for cell in squares.choose(["fine", "3"], again=True)] == ["fine-3"]
    cheapest = replace(squares, price=lambda cells: [-cell.n for cell in cells])
    assert [cell.n for cell in cheapest.choose(["fine"], again=True)] == [100, 3, 2]
    assert "fine-2: measured, square 4" in capsys.readouterr().out
    stored = json.loads((Path(squares.script).parent / "results" / "squares" / "fine-2.json").read_text())
    assert stored["cell"] == {"kind": "fine", "n": 2}
    assert {"processor", "versions", "commit", "time"} <= set(stored["machine"])


def someone_sleeps() -> bool:
    return any(process.info["cmdline"] == ["sleep", NAP] for process in psutil.process_iter(["cmdline"]))


def test_a_cell_that_takes_too_long_ends_with_all_that_it_has_started(squares):
    assert replace(squares, limit=3.0).run(squares.choose(["slow"])) == 1
    wait_until(lambda: not someone_sleeps())
    assert not someone_sleeps()


def test_a_study_that_is_asked_to_end_ends_its_cell(squares):
    study = subprocess.Popen([sys.executable, squares.script, "--only", "slow"], stdout=subprocess.DEVNULL)
    wait_until(someone_sleeps)
    assert someone_sleeps()
    study.terminate()
    assert study.wait(timeout=20) == 128 + signal.SIGTERM
    wait_until(lambda: not someone_sleeps())
    assert not someone_sleeps()
    assert squares.finished() == {}


def wait_until(condition) -> None:
    """A kill is sent, not waited for; a sleep itself would take three times as long."""
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_outcomes_with_other_settings_do_not_count(squares):
    assert squares.run(squares.choose(["fine", "2"])) == 1
    assert "fine-2" in squares.finished()
    changed = replace(squares, settings=lambda cell: {"seconds": 60, "sizes": (1, 2)})
    assert "fine-2" not in changed.finished()
    assert changed.run(changed.choose(["fine", "2"])) == 1
    assert "fine-2" in changed.finished()


def test_a_budget_ends_a_study_between_cells_and_records_nothing_half_done(squares, monkeypatch):
    import study

    assert squares.run(squares.choose([]), budget=0) == 0
    monkeypatch.setattr(study, "GRACE", 0.0)
    assert squares.run(squares.choose(["slow"]), budget=0.5) == 0
    assert squares.finished() == {}
    with pytest.raises(SystemExit, match="no cell of squares has cube; settings are 1, 100"):
        squares.choose(["cube"])


def test_what_does_not_fit_is_predicted_in_proportion_to_the_largest_measured_step():
    from scaling import MATMUL_MULTIPLE, extrapolate

    small = {"flops": 1e9, "seconds": 0.1, "temporary_bytes": 1e6, "bytes": 2e6}
    large = {"flops": 4e9, "seconds": 0.2, "temporary_bytes": 4e6, "bytes": 4e6}
    found = extrapolate(4e10, 4e8, [small, large], rate=1e11)
    assert found["seconds"] == pytest.approx(2.0)
    assert found["bytes"] == pytest.approx(4e8)
    assert extrapolate(1e11, 5.0, [], rate=1e11)["seconds"] == pytest.approx(MATMUL_MULTIPLE)


def test_the_papers_deeponet_at_full_size_does_not_fit_here():
    from scaling import Size, prepare

    theirs, _ = prepare(Size("burgers", "deeponet_repeated", 128, 100))
    ours, _ = prepare(Size("burgers", "seponet_cp", 128, 100))
    # The paper's ran out of 80 GB; ours is flat.
    assert theirs.memory() > 40e9
    assert ours.memory() < 1e8


def test_exponents_are_recovered():
    from complexity import BASE, exponent, formula

    rows = [{**BASE, "N": n} for n in (64, 128, 256)]
    assert exponent("N", rows, [3.0 * row["N"] ** 1.5 for row in rows]) == pytest.approx(1.5)
    rows = [{**BASE, "N": 16, "d": d} for d in (2, 3, 4)]
    assert exponent("d", rows, [formula("deeponet", "seconds", row) for row in rows]) == pytest.approx(1.0)
    big = [{**BASE, "N": n} for n in (10**5, 10**6)]
    assert exponent("N", big, [formula("seponet_cp", "seconds", row) for row in big]) == pytest.approx(2.0, abs=0.01)


def test_an_exponent_that_rounds_to_zero_has_no_sign(monkeypatch):
    """Whether a slope is -1e-17 or 1e-17 hangs on the processor."""
    import complexity
    from study import Outcome

    cell = complexity.Sweep("seponet_cp", "L")
    outcome = Outcome({}, "measured", {"rows": [{**size, "seconds": 1.0} for size in complexity.sizes("L")]}, 2)
    for tiny in (-1e-17, 1e-17):
        monkeypatch.setattr(complexity, "exponent", lambda *_, slope=tiny: slope)
        assert complexity._entry({cell.id: outcome}, cell.model, "L", "seconds") == "**0.00** (0.00)"
    monkeypatch.setattr(complexity, "exponent", lambda *_: -0.25)
    assert complexity._entry({cell.id: outcome}, cell.model, "L", "seconds") == "**-0.25** (-0.25)"


def test_the_papers_tables_are_read_in_our_units():
    import published

    assert published.error("burgers", "SepONet", 128, 100) == pytest.approx(0.0751)
    assert published.memory("nonlinear_diffusion", "SepONet", 128, 100) == pytest.approx(13.139e9)
    assert published.step_seconds("burgers", "SepONet", 512, 800) == pytest.approx(0.478 * 3600 / 80000)
    assert published.memory("burgers", "PI-DeepONet", 128, 100) is None


def test_a_compressed_schedule_ends_where_the_whole_one_does():
    from training import compressed

    from seponet.runs.recipes import load_recipe

    paper = load_recipe("paper", "burgers")
    short = compressed(paper, 2000)
    decays = [recipe.train.steps / recipe.train.optimizer.schedule_options["every"] for recipe in (paper, short)]
    assert decays[0] == pytest.approx(decays[1])


def test_fit_stops_the_clock_for_errors_and_says_when_the_target_was_reached(monkeypatch):
    import peer

    clock = [0.0]
    monkeypatch.setattr(peer.time, "perf_counter", lambda: clock[0])
    steps = [0]

    def advance(count: int) -> None:
        steps[0] += count
        clock[0] += 0.1 * count

    def error() -> float:
        clock[0] += 100.0
        return math.exp(-steps[0] / 10)

    found = peer.fit(advance, error, {"seconds": 0.1, "steps": 0}, 5.0, target=0.1)
    assert found["trained_seconds"] == pytest.approx(5.0, abs=0.11)
    assert found["steps"] == steps[0]
    assert 2.3 <= found["reached_seconds"] <= 1.2 * 2.4 + 0.1
    assert peer.fit(advance, lambda: 1.0, {"seconds": 0.1, "steps": 0}, 1.0, target=0.1)["reached_seconds"] is None


def test_marks_of_entries():
    import tables
    from study import Outcome

    cell = {"problem": "burgers"}
    assert tables.show(Outcome(cell, "measured", {"seconds": 0.0123}, 2), "seconds", tables.seconds) == "12.3 ms"
    assert tables.show(Outcome(cell, "predicted", {"seconds": 35.0}, 2), "seconds", tables.seconds) == "*≈ 35 s*"
    assert tables.show(Outcome(cell, "failed", {"reason": "out"}, 2), "seconds", tables.seconds) == "failed (out)"
    assert tables.show(None, "seconds", tables.seconds) == "–"
    assert tables.theirs(None, tables.size) == "out of memory"


@pytest.mark.parametrize("name", ["scaling", "peers", "ablations", "complexity", "inference", "trust", "laws", "paper"])
def test_tables_say_what_the_results_say(name, tmp_path, monkeypatch):
    import importlib

    import tables

    written = FOLDER / "tables" / f"{name}.md"
    before = written.read_text()
    monkeypatch.setattr(tables, "TABLES", tmp_path)
    said = ""
    if name == "scaling":
        import scaling_figures

        monkeypatch.setattr(scaling_figures, "FIGURES", tmp_path)
    if name in ("laws", "paper"):
        report = importlib.import_module(f"{name}_report")
        monkeypatch.setattr(report, "FIGURE", tmp_path / f"{name}.png")
    if name == "trust":
        import trust
        import trust_tables

        said = trust_tables.PAGE.read_text()
        (tmp_path / "page.md").write_text(said)
        monkeypatch.setattr(trust, "FIGURE", tmp_path / "trust.png")
        monkeypatch.setattr(trust_tables, "PAGE", tmp_path / "page.md")
    importlib.import_module(name).render()
    assert (tmp_path / f"{name}.md").read_text() == before
    if name == "trust":
        assert (tmp_path / "page.md").read_text() == said


def test_figures_are_small():
    sizes = {path.name: path.stat().st_size for path in (FOLDER / "figures").glob("*.png")}
    assert {"scaling_points.png", "scaling_functions.png"} <= set(sizes)
    assert max(sizes.values()) < 300_000
    assert np.all([size > 10_000 for size in sizes.values()])


@pytest.mark.parametrize("path", sorted((FOLDER / "results").glob("accuracy_*.json")), ids=lambda path: path.stem)
def test_stored_errors_are_of_the_recipes_that_are_shipped(path):
    """Settings that have come since must have their defaults, as a recipe has that doesn't name them."""
    from seponet.runs.recipes import load_recipe
    from seponet.training.recipe import Recipe

    stored = json.loads(path.read_text())
    assert Recipe.from_dict(stored["settings"]) == load_recipe(stored["recipe"], stored["problem"])


def test_errors_of_the_trust_benchmark_are_integrals():
    import trust

    from seponet.problems import Burgers

    points, weights = trust.quadrature(Burgers())
    t, x = np.meshgrid(points["t"], points["x"], indexing="ij")
    share = weights / weights.sum()
    # t^4 integrates to 1/5, sin^2 to 1/2; a sum over a uniform grid of 101 points gives the first to one per cent only.
    np.testing.assert_allclose((t**4 * np.sin(2 * np.pi * x) ** 2).ravel() @ share, 0.1, rtol=1e-12)
    exact = {"s": np.ones((1, *t.shape))}
    found = trust._errors(trust._labelled({"s": 1 + t[None] ** 2}), exact, weights)
    np.testing.assert_allclose(found, np.sqrt(1 / 5), rtol=1e-12)


def test_a_law_is_fitted_with_its_floor_and_its_interval():
    from laws_report import fit, visible

    noise = np.random.default_rng(0)
    x = np.geomspace(10, 1e4, 6)
    falling = {float(v): list((0.01 + 3 * v**-0.8) * np.exp(0.05 * noise.standard_normal(3))) for v in x}
    law = fit(falling)
    assert law is not None
    assert 0.75 < law.exponent < 0.85
    assert law.low <= law.exponent <= law.high
    assert 0.008 < law.floor < 0.012
    assert visible(falling, law)
    # Nothing falls, so there is no exponent, whatever fits best.
    level = {float(v): list(0.01 * np.exp(0.05 * noise.standard_normal(3))) for v in x}
    flat = fit(level)
    assert flat is not None
    assert not visible(level, flat)
    assert fit(dict(list(falling.items())[:3])) is None


def test_curves_keep_their_ends_and_each_validation_once():
    import paper

    curve = [(step, 1.0 / (1 + step // 10)) for step in range(1, 20_001)]
    kept = paper.thinned(curve)
    assert len(kept) <= paper.SHOWN
    assert kept[0] == (1, 1.0)
    assert kept[-1] == (20_000, 1.0 / 2001)
    assert [error for _, error in kept] == sorted((error for _, error in kept), reverse=True)
