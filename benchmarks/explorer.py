"""How long a change of the input takes on the explorer page: computed and drawn, in headless Chromium.

    seponet bench explorer docs/gallery/*.html

Writes `results/explorer.json`, for 8 batches of 10 changes, one in each frame, after 20 that warm up: the processor
time of a change, that of the page's main thread with layout and painting (`Performance.getMetrics` of the DevTools
protocol), in the quietest batch, because on a crowded machine caches and cores are shared and processor time grows
too; and milliseconds of wall time of the script, median and 95% quantile of all changes. Wanted are 16 ms for one axis
and time, and 50 ms for two axes and time.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright
from results import machine, store

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WARM, BATCHES, CHANGES = 20, 8, 10
SCRIPT = """async (count) => {
  const program = JSON.parse(document.getElementById("program").textContent), times = [];
  const { name } = program.inputs[0], values = explorer.values(name);
  for (let i = 0; i < count; i++) {
    const { compute, draw } = explorer.set(name, values.map((v, k) => v * (1 + 0.01 * Math.sin(i + k))));
    times.push([compute, draw]);
    await new Promise(requestAnimationFrame);
  }
  explorer.set(name, values);
  const { problem, places, quantities } = program.about;
  const grid = program.outputs.find((o) => o.name === quantities[0]).shape;
  const estimate = program.outputs.some((o) => o.name === "error");
  return { problem, grid, estimate, mapped: Boolean(places), times };
}"""


def measure(page: Any) -> dict[str, Any]:
    """Times of one page that is open."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def processor() -> float:
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        return 1000 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    found = page.evaluate(SCRIPT, WARM)
    spent, times = list[float](), list[Any]()
    for _ in range(BATCHES):
        began = processor()
        times += page.evaluate(SCRIPT, CHANGES)["times"]
        spent.append((processor() - began) / CHANGES)
    totals, (compute, draw) = np.sum(times, axis=1), np.median(times, axis=0)
    found |= {"wanted_ms": 16 if len(found["grid"]) <= 2 else 50}
    found |= {"processor_ms": round(min(spent), 1), "processor_median_ms": round(float(np.median(spent)), 1)}
    found |= {"median_ms": round(float(np.median(totals)), 1), "compute_ms": round(float(compute), 1)}
    found |= {"draw_ms": round(float(draw), 1), "upper_95_ms": round(float(np.quantile(totals, 0.95)), 1)}
    return {name: value for name, value in found.items() if name != "times"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE", help="exported pages; an index is left out")
    pages = sorted(path for path in parser.parse_args().pages if path.name != "index.html")
    missing = [str(path) for path in pages if not path.is_file()]
    if missing:
        parser.error(f"there is no page {', '.join(missing)}; make gallery writes docs/gallery")
    results = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for path in pages:
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.goto(path.absolute().as_uri())
            page.wait_for_function("window.explorer")
            results.append({**measure(page), "megabytes": round(path.stat().st_size / 1e6, 2)})
            page.close()
            print(results[-1])
        version = browser.version
        browser.close()
    store("explorer", {"machine": machine(), "chromium": version, "pages": results})


if __name__ == "__main__":
    main()
