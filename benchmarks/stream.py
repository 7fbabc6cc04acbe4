"""Inputs by the hundred thousand in flat memory: a Zarr store into another, killed in the middle; a cluster of Dask's.

    python benchmarks/stream.py                   # measure (about four minutes), render
    python benchmarks/stream.py --render          # tables/stream.md from what is stored

The operator is Burgers' with random weights, as large as that of a recipe: what its predictions are does not matter to
their cost. Stored are the peaks of memory of a tenth of the functions and of all, which would differ by the size of
what is predicted if that were held; and how far the results are from those of `predict` on loaded arrays.
"""

import argparse
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from results import RESULTS, machine, store

from seponet._files import read_record

TABLE = Path(__file__).parent / "tables" / "stream.md"
FUNCTIONS, POINTS, GRID, CHUNK = 200_000, 64, {"t": 11, "x": 64}, 10_000


def make_operator(folder: Path) -> Any:
    import jax

    from seponet import Operator, nn
    from seponet.problems import Burgers
    from seponet.runs.recipes import load_recipe

    operator = Operator(nn.build(Burgers(), load_recipe("paper", "burgers").model, key=jax.random.key(0)))
    operator.save(folder)
    return operator


def make_inputs(path: Path, count: int) -> None:
    """Random sums of two waves, in chunks of functions."""
    da: Any = importlib.import_module("dask.array")
    x = np.arange(POINTS) / POINTS
    random = da.random.default_rng(0).standard_normal((count, 2), chunks=(CHUNK, 2)).astype("float32")
    values = random @ np.stack([np.sin(2 * np.pi * x), np.cos(4 * np.pi * x)]).astype("float32")
    xr.Dataset({"u": (("function", "x"), values)}, {"x": x}).to_zarr(path, consolidated=False)


def predict(run: Path, source: Path, target: Path, kill_after: int | None = None) -> dict[str, Any]:
    """One `seponet predict`, its peak of memory and processor time; killed when so many chunks are done."""
    grid = ",".join(f"{axis}={n}" for axis, n in GRID.items())
    words = [sys.executable, "-m", "seponet", "predict", str(run), "--input", str(source), "--output", str(target)]
    began = time.monotonic()
    process = subprocess.Popen([*words, "--grid", grid], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if kill_after is not None:
        notes = target.with_name(f"{target.name}.part") / "done.json"
        while process.poll() is None and (not notes.exists() or len(read_record(notes)["done"]) < kill_after):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    said = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "said": said.strip().rpartition(": ")[2],
        "seconds": time.monotonic() - began,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def points_of() -> dict[str, np.ndarray]:
    return {"t": np.linspace(0, 1, GRID["t"]), "x": np.arange(GRID["x"]) / GRID["x"]}


def difference(operator: Any, source: Path, predicted: xr.DataArray) -> float:
    """The largest difference to `predict` of loaded arrays, over chunks at the beginning, in the middle, at the end."""
    u = xr.open_zarr(source, consolidated=False)["u"]
    found = []
    for first in (0, FUNCTIONS // 2 - 300, FUNCTIONS - 600):
        part = slice(first, first + 600)
        axes = {axis: predicted[axis].to_numpy() for axis in GRID}
        plain = operator.predict(u.isel(function=part).compute(), **axes)
        found.append(float(np.max(np.abs(plain.to_numpy() - predicted.isel(function=part).to_numpy()))))
    return max(found)


def with_dask(operator: Any, source: Path, target: Path) -> dict[str, Any]:
    """All functions on two workers, into a store; their peaks after a tenth and after all."""
    distributed: Any = importlib.import_module("distributed")
    u = xr.open_zarr(source, consolidated=False)["u"]
    lazy = operator.predict(u, **points_of())
    began = time.monotonic()
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        few = lazy.isel(function=slice(0, FUNCTIONS // 10))
        few.drop_encoding().to_zarr(f"{target}-tenth", consolidated=False)
        tenth = max(client.run(_peak).values())
        lazy.to_zarr(target, consolidated=False)
        whole = max(client.run(_peak).values())
    written = xr.open_zarr(target, consolidated=False)["s"]
    return {
        "tenth_peak_bytes": tenth,
        "peak_bytes": whole,
        "seconds": time.monotonic() - began,
        "difference": difference(operator, source, written),
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def render(content: dict[str, Any]) -> str:
    made, mib = content["machine"], 2**20
    command, cluster = content["command"], content["cluster"]
    parts = {"tenth": "a tenth", "half": "a half", "whole": "all"}
    rows = [
        *(
            (f"`seponet predict`, {word}", command[part]["peak_bytes"], command[part]["processor_seconds"])
            for part, word in parts.items()
            if part in command
        ),
        ("two workers of Dask's, a tenth", cluster["tenth_peak_bytes"], None),
        ("two workers of Dask's, all", cluster["peak_bytes"], None),
    ]
    lines = [
        "# Predictions by the hundred thousand",
        "",
        f"`seponet bench stream`: {made['time']}, {made['processor']}, {made['cores']} cores, load {made['load']:.0f}.",
        f"{content['functions']:,} inputs of Burgers' equation on {POINTS} points, predicted on "
        + " x ".join(map(str, GRID.values()))
        + f" points: {content['predicted_bytes'] / mib:.0f} MiB in all.",
        "",
        "| | peak of memory (of a process) | processor time |",
        "|---|---|---|",
        *(f"| {n} | {peak / mib:.0f} MiB | {'' if s is None else f'{s:.0f} s'} |" for n, peak, s in rows),
        "",
        f"{_resumed(command['resumed']['said'])} The largest",
        f"differences to `predict` of loaded arrays are {command['difference']:.1e} (command) and",
        f"{cluster['difference']:.1e} (Dask).",
        "",
    ]
    return "\n".join(lines)


def _resumed(said: str) -> str:
    if "had been done before" not in said:
        return "Killed before its first chunk was whole, and given again, the command began anew, and gave the same."
    return f"Killed in the middle and given again, the command said: {said}."


def measure() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        operator = make_operator(folder / "run")
        make_inputs(folder / "few.zarr", FUNCTIONS // 10)
        make_inputs(folder / "half.zarr", FUNCTIONS // 2)
        make_inputs(folder / "all.zarr", FUNCTIONS)
        tenth = predict(folder / "run", folder / "few.zarr", folder / "few_out.zarr")
        half = predict(folder / "run", folder / "half.zarr", folder / "half_out.zarr")
        whole = predict(folder / "run", folder / "all.zarr", folder / "out.zarr")
        killed = predict(folder / "run", folder / "all.zarr", folder / "again.zarr", kill_after=5)
        resumed = predict(folder / "run", folder / "all.zarr", folder / "again.zarr")
        again, once = (xr.open_zarr(folder / f"{n}.zarr")["s"] for n in ("again", "out"))
        command = {
            "tenth": tenth,
            "half": half,
            "whole": whole,
            "killed": killed,
            "resumed": resumed,
            "resumed_is_equal": bool((again == once).all()),
            "difference": difference(operator, folder / "all.zarr", once),
        }
        content = {
            "functions": FUNCTIONS,
            "predicted_bytes": once.nbytes,
            "command": command,
            "cluster": with_dask(operator, folder / "all.zarr", folder / "dask.zarr"),
            "machine": machine(),
        }
    print(json.dumps(content, indent=1))
    print(store("stream", content))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the table from what is stored")
    arguments = parser.parse_args()
    if not arguments.render:
        measure()
    TABLE.write_text(render(json.loads((RESULTS / "stream.json").read_text())))
    print(TABLE)


if __name__ == "__main__":
    main()
