"""How long a change of the input takes on the explorer page: computed and drawn, in headless Chromium.

    python benchmarks/explorer.py PAGE.html [PAGE.html ...]

Writes benchmarks/results/explorer.json: milliseconds of 60 changes after 20 that warm up, median and 95% quantile.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SCRIPT = """(() => {
  const program = JSON.parse(document.getElementById("program").textContent), times = [];
  const { name } = program.inputs[0], values = explorer.values(name);
  for (let i = 0; i < 80; i++) {
    const { compute, draw } = explorer.set(name, values.map((v, k) => v * (1 + 0.01 * Math.sin(i + k))));
    if (i >= 20) times.push([compute, draw]);
  }
  const grid = program.outputs.find((o) => o.name === program.about.quantities[0]).shape;
  return { problem: program.about.problem, grid, estimate: program.outputs.some((o) => o.name === "error"), times };
})()"""


def main() -> None:
    results = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for path in sys.argv[1:]:
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.goto(Path(path).absolute().as_uri())
            page.wait_for_function("window.explorer")
            found = page.evaluate(SCRIPT)
            totals = np.sum(found.pop("times"), axis=1)
            found |= {"median_ms": float(np.median(totals)), "upper_95_ms": float(np.quantile(totals, 0.95))}
            results.append({**found, "megabytes": round(Path(path).stat().st_size / 1e6, 2)})
            print(results[-1])
        version = browser.version
        browser.close()
    out = Path(__file__).parent / "results" / "explorer.json"
    out.write_text(json.dumps({"chromium": version, "pages": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
