"""Inputs by the million: predictions in Dask's chunks, Zarr stores that are filled chunk by chunk, sweeps."""

import json
import pickle
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zoo

from seponet.cli import main
from seponet.operator.lazy import _Block, is_lazy
from seponet.operator.operator import Operator
from seponet.runs import sweep, transfer

da = pytest.importorskip("dask.array", reason="needs the extra scale")
pytest.importorskip("zarr", reason="needs the extra scale")

X = np.linspace(0, 1, 9)
GRID: dict[str, Any] = {"t": np.linspace(0, 1, 3), "x": np.linspace(0, 1, 5)}
COUNT = 11


@pytest.fixture(scope="module")
def operator() -> Operator:
    """Random weights; the inputs are a function of x, one of t and x, and a number."""
    return Operator(zoo.small(zoo.Reactor()))


@pytest.fixture(scope="module")
def inputs() -> dict[str, xr.DataArray]:
    rng = np.random.default_rng(0)
    waves, t = rng.normal(size=(COUNT, 1)), np.linspace(0, 1, 6)
    return {
        "u": xr.DataArray(waves * X**2, {"x": X}, ("case", "x")),
        "v": xr.DataArray(np.outer(t, X**3), {"t": t, "x": X}, ("t", "x")),
        "nu": xr.DataArray(rng.uniform(0.01, 0.02, COUNT), dims="number"),
    }


def chunked(inputs: dict[str, xr.DataArray], **chunks: int) -> dict[str, xr.DataArray]:
    return {**inputs, "u": inputs["u"].chunk({"case": 4, **chunks}), "nu": inputs["nu"].chunk({"number": 4})}


def test_chunks_come_back_as_chunks_and_equal(operator, inputs):
    plain = operator.predict(inputs, **GRID)
    lazy = operator.predict(chunked(inputs, x=3), **GRID)
    assert is_lazy(lazy)
    assert lazy.chunks[0] == (4, 4, 3)
    xr.testing.assert_allclose(lazy.compute(scheduler="synchronous"), plain, rtol=1e-12, atol=1e-12)
    # One chunk is computed alone.
    few = lazy.isel(function=slice(8, 11)).compute(scheduler="threads")
    np.testing.assert_allclose(few, plain[8:], rtol=1e-12, atol=1e-12)


def test_nothing_is_computed_before_it_is_asked_for(operator, inputs, monkeypatch):
    sizes: list[int] = []
    honest = Operator.predict

    def counted(self: Operator, u: Any = None, **options: Any) -> Any:
        if not is_lazy(u):
            sizes.append(u["u"].shape[0])
        return honest(self, u, **options)

    monkeypatch.setattr(Operator, "predict", counted)
    lazy = operator.predict(chunked(inputs), derivative=["s", "s_x"], **GRID)
    assert sizes == [1]
    assert set(lazy.data_vars) == {"s", "s_x"}
    lazy["s_x"].isel(function=0).compute(scheduler="synchronous")
    assert sizes == [1, 4]


def test_a_chunk_can_be_sent_to_another_process(operator, inputs):
    block = _Block(operator, {"v": inputs["v"], "nu": 0.01}, {"u": (["x"], {"x": X})}, GRID)
    sent = pickle.loads(pickle.dumps(block))
    assert sent.operator is not operator
    values = inputs["u"].to_numpy()[:2]
    np.testing.assert_allclose(sent(values), block(values), rtol=1e-12, atol=1e-12)
    # It is loaded once, however many chunks come.
    assert pickle.loads(pickle.dumps(block)).operator is sent.operator


def test_what_can_not_be_lazy_is_said(operator, inputs):
    lazy = chunked(inputs)
    with pytest.raises(ValueError, match="as long for every input"):
        operator.predict({**lazy, "u": lazy["u"].isel(case=slice(5))}, **GRID)
    with pytest.raises(ValueError, match="needs a dimension of functions"):
        operator.predict({**inputs, "u": lazy["u"].isel(case=0), "nu": 0.01}, **GRID)
    with pytest.raises(ValueError, match="the inputs are u, v, nu"):
        operator.predict(lazy["u"], **GRID)


@pytest.fixture
def stores(operator, inputs, tmp_path) -> Path:
    operator.save(tmp_path / "run")
    u, nu = inputs["u"].rename(case="function"), inputs["nu"].rename(number="function")
    xr.Dataset({"u": u, "v": inputs["v"], "nu": nu}).to_zarr(tmp_path / "in.zarr", consolidated=False)
    return tmp_path


def command(folder: Path, *more: str) -> int:
    given = [] if "--input" in more else ["--input", str(folder / "in.zarr")]
    words = [*given, "--output", str(folder / "out.zarr"), "--grid", "t=3,x=5"]
    return main(["predict", str(folder / "run"), *words, *more])


def test_a_broken_transfer_goes_on_where_it_was(stores, operator, inputs, monkeypatch, capsys):
    plain = operator.predict(inputs, **GRID)
    monkeypatch.setattr(transfer, "CHUNK", 4 * plain[0].nbytes)
    honest, calls = transfer.Operator.predict, []

    def predict(self: Operator, u: Any = None, **options: Any) -> Any:
        calls.append(u["u"].shape[0])
        if len(calls) == 3:
            raise OSError("the disk is full")
        return honest(self, u, **options)

    monkeypatch.setattr(transfer.Operator, "predict", predict)
    assert command(stores) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert not (stores / "out.zarr").exists()
    # The chunk that was whole is not done again.
    assert command(stores) == 0
    assert "11 functions, 4 of which had been done before" in capsys.readouterr().out
    assert calls == [1, 4, 4, 1, 4, 3]
    assert not (stores / "out.zarr.part").exists()
    with xr.open_zarr(stores / "out.zarr") as stored:
        np.testing.assert_allclose(stored["s"], plain, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(stored["x"], GRID["x"])


def test_transfers_are_not_mixed(stores, monkeypatch, capsys):
    monkeypatch.setattr(transfer, "CHUNK", 1)
    honest, calls = transfer.Operator.predict, []

    def broken(self: Operator, u: Any = None, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise OSError("cut")
        return honest(self, u, **options)

    with monkeypatch.context() as patch:
        patch.setattr(transfer.Operator, "predict", broken)
        assert command(stores) == 1
    capsys.readouterr()
    assert command(stores, "--grid", "t=3,x=4") == 1
    assert "is of other inputs, another operator or grid" in capsys.readouterr().err
    assert command(stores, "--grid", "t=3,x=4", "--overwrite") == 0
    assert command(stores) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["predict", str(stores / "run"), "--input", "u=1", "--output", str(stores / "o.zarr")]) == 1
    assert "from one --input that ends in .zarr" in capsys.readouterr().err
    assert main(["predict", str(stores / "run"), "--input", "no.zarr", "--output", str(stores / "o.zarr")]) == 1
    assert "there is no Zarr store" in capsys.readouterr().err


def test_stores_of_any_layout_give_the_same_and_bad_ones_are_named(stores, monkeypatch, capsys):
    import zarr

    data = xr.open_zarr(stores / "in.zarr", consolidated=False).load().drop_encoding()
    assert command(stores) == 0
    plain = xr.open_zarr(stores / "out.zarr")["s"].load()
    monkeypatch.setattr(transfer, "CHUNK", 4 * plain[0].nbytes)
    turned = data.assign(u=data["u"].transpose("x", "function"))
    layout = {"u": {"chunks": (2, COUNT)}, "nu": {"chunks": (3,)}, "v": {"chunks": (5, 2)}}
    turned.to_zarr(stores / "turned.zarr", encoding=layout, zarr_format=2, consolidated=False)
    assert command(stores, "--input", str(stores / "turned.zarr"), "--output", str(stores / "other.zarr")) == 0
    np.testing.assert_allclose(xr.open_zarr(stores / "other.zarr")["s"], plain, rtol=1e-12, atol=1e-12)
    # Memory would not be flat if this were large.
    capsys.readouterr()
    monkeypatch.setattr(transfer, "CHUNK", plain[0].nbytes)
    assert (
        command(stores, "--input", str(stores / "turned.zarr"), "--output", str(stores / "other.zarr"), "--overwrite")
        == 0
    )
    assert f"a chunk of u holds {COUNT} functions" in " ".join(capsys.readouterr().err.split())
    # A function is named by its place in the store, in whichever chunk it is.
    bad = data.copy(deep=True)
    bad["u"][9, 3] = np.nan
    bad.to_zarr(stores / "bad.zarr", consolidated=False)
    assert (
        command(stores, "--input", str(stores / "bad.zarr"), "--output", str(stores / "other.zarr"), "--overwrite") == 1
    )
    assert "of the functions from 9 on: input 'u' must be finite; got nan in function 0" in capsys.readouterr().err
    zarr.open_array(str(stores / "bare.zarr"), mode="w", shape=(3, 9), chunks=(1, 9), dtype="f4")
    assert (
        command(stores, "--input", str(stores / "bare.zarr"), "--output", str(stores / "other.zarr"), "--overwrite")
        == 1
    )
    assert "is a bare array of Zarr's" in capsys.readouterr().err


def test_two_hundred_thousand_functions_on_two_workers(operator, inputs, tmp_path):
    """Chunks of a lazy input, on processes of a cluster, which hold little at a time; equal to the plain result."""
    distributed = pytest.importorskip("distributed")
    count, rows = 200_000, 10_000
    grid: dict[str, Any] = {"t": 1.0, "x": np.linspace(0, 1, 300)}
    phases = da.linspace(0.0, 1.0, count, chunks=rows)
    u = xr.DataArray(phases[:, None] * X[None], {"x": X}, ("function", "x"))
    lazy = operator.predict({**inputs, "u": u, "nu": 0.01}, **grid)
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(lambda path: sys.path.append(path), str(Path(__file__).parent))
        client.compute((lazy.isel(function=slice(0, 4 * rows)) ** 2).sum("function")).result()
        before = max(client.run(peak_memory).values())
        squares = client.compute((lazy**2).sum("function")).result()
        after = max(client.run(peak_memory).values())
    # A worker never held more than a few chunks: a third of what half of the values take.
    assert after - before < lazy.nbytes / 6
    parts = [slice(first, first + 4 * rows) for first in range(0, count, 4 * rows)]
    whole = [operator.predict({**inputs, "u": u.isel(function=p).compute(), "nu": 0.01}, **grid) for p in parts]
    np.testing.assert_allclose(squares, sum((part**2).sum("function") for part in whole), rtol=1e-9)


def peak_memory() -> int:
    """The most bytes that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_combinations_are_read_and_named(tmp_path):
    over = sweep.read_over(["seed=0..2", "constants.nu=0.01, 0.02", "model.rank={t = 3, x = 4},5"])
    assert over == {"seed": ["0", "1", "2"], "constants.nu": ["0.01", "0.02"], "model.rank": ["{t = 3, x = 4}", "5"]}
    cases = sweep.make_cases(over, tmp_path)
    assert len(cases) == 12
    assert len({case.out for case in cases}) == 12
    assert cases[0].options()[:4] == ["--seed", "0", "--set", "constants.nu=0.01"]
    assert cases[11].out.name == "11-seed=2,nu=0.02,rank=5"


@pytest.mark.parametrize(
    "text", ["seed", "seed=", "=1", "seed=1,1", "seed=3..1", "color=1", "constants.nu=0.1,,0.2", "seed=0..99999999"]
)
def test_what_is_no_combination_is_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"--over|a sweep has 1 to"):
        sweep.make_cases(sweep.read_over([text]), tmp_path)


def test_a_sweep_trains_what_is_not_complete_and_shows_one_table(tmp_path, monkeypatch, capsys):
    """Trainings are processes of their own; here something else than training leaves their reports."""
    trained: list[list[str]] = []
    popen = subprocess.Popen

    def start(words: list[str], **_: Any) -> Any:
        out = Path(words[words.index("--out") + 1])
        seed = int(words[words.index("--seed") + 1])
        trained.append(words)
        out.mkdir(parents=True, exist_ok=True)
        report = {"interrupted": seed == 1, "steps": 10, "training_seconds": 2.0, "validation_relative_l2": 0.01 * seed}
        (out / "report.json").write_text(json.dumps(report))
        return popen([sys.executable, "-c", ""])

    monkeypatch.setattr(sweep.subprocess, "Popen", start)
    words = ["sweep", "burgers", "--over", "seed=0..2", "--out", str(tmp_path / "s"), "--set", "train.steps=10"]
    assert main(words) == 0
    assert len(trained) == 3
    assert main([*words, "--json"]) == 0
    assert len(trained) == 4
    shown = capsys.readouterr().out
    rows = json.loads(shown[shown.index("{") :])["cases"]
    assert [row["state"] for row in rows] == ["complete", "stopped", "complete"]
    assert rows[2]["validation"] == 0.02
    assert main([*words, "--only", "3"]) == 1
    assert "--only is below the number of combinations" in capsys.readouterr().err


def test_a_script_for_slurm_does_one_case_in_each_task(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["sweep", "burgers", "--over", "seed=0..7", "--budget", "5min", "--jobs", "4", "--slurm", "sweep.sh"]
    assert main(words) == 0
    text = (tmp_path / "sweep.sh").read_text()
    assert "#SBATCH --array=0-7%4" in text
    assert "#SBATCH --time=20" in text
    assert "#SBATCH --signal=B:TERM@60" in text
    last = text.splitlines()[-1]
    assert last.startswith("exec seponet sweep burgers")
    assert last.endswith('--only "$SLURM_ARRAY_TASK_ID"')
    assert main(words) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["sweep", "burgers", "--over", "seed=0..7", "--slurm", "all.sh"]) == 0
    assert "#SBATCH --array=0-7\n" in (tmp_path / "all.sh").read_text()


def test_a_sweep_that_nothing_can_come_of_is_refused_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep.subprocess, "Popen", lambda *_, **__: pytest.fail("nothing is to be trained"))
    assert main(["sweep", "burgers", "--over", "constants.mu=0.01,0.02", "--out", str(tmp_path / "s")]) == 1
    assert "'mu'" in capsys.readouterr().err
    assert main(["sweep", "burgers", "--over", "model.width=1,2", "--slurm", str(tmp_path / "s.sh")]) == 1
    assert "unknown setting 'width'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_signal_ends_the_trainings_of_a_sweep_and_no_other_begins(tmp_path):
    """As it would come from a terminal or a scheduler, while the first of three takes its steps."""
    words = ["heat", "--over", "seed=0..2", "--out", str(tmp_path / "s"), "--functions", "0"]
    steps = ["--set", "train.steps=1000000", "--set", "train.checkpoint=1"]
    command = [sys.executable, "-m", "seponet", "sweep", *words, *steps]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while not list(tmp_path.glob("s/*/checkpoints/*")):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "stopped by a signal after step" in said
    assert "give the same command again" in said
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["0-seed=0", "0-seed=0.log"]
