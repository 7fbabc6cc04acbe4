PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed
LOWEST := .venv-lowest
# A worker takes whole stretches of a file, so that what its tests share is made once.
PYTEST := $(VENV)/bin/pytest -n 2 --dist worksteal
SEED ?= $(shell date +%s)

.PHONY: demo docs docs-serve outputs notebooks fuzz gallery test test-fast test-random test-variants test-lowest lint types pytest format clean

demo: $(INSTALLED)
	$(VENV)/bin/seponet train burgers --recipe quick --out runs/demo --overwrite
	$(VENV)/bin/seponet explore runs/demo --no-open

# Explorer pages of the six problems and two mapped ones, for the docs: trained first (a few minutes each), unless `runs`
# has them.
GALLERY := heat diffusion_reaction advection burgers nonlinear_diffusion navier_stokes \
	examples/star_poisson.py:Star examples/annulus_heat.py:Ring
gallery: $(INSTALLED)
	$(VENV)/bin/seponet explore $(GALLERY) --out docs/gallery --no-open

# The site, into `site/`: works from the file system and without a network. With `docs/gallery`, if `make gallery` was run.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build

docs-serve: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs serve

# What the code of pages writes and draws, at full size (some minutes each): `make outputs PAGE=docs/tutorials/inputs.md`.
PAGE ?= $(wildcard docs/tutorials/*.md)
outputs: $(INSTALLED)
	$(VENV)/bin/python docs/_press/outputs.py $(PAGE)
	$(MAKE) notebooks

notebooks: $(INSTALLED)
	$(VENV)/bin/python docs/_press/notebooks.py

test: lint types pytest

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(INSTALLED)
	$(VENV)/bin/basedpyright

pytest: $(INSTALLED)
	$(PYTEST)

test-fast: $(INSTALLED)
	$(PYTEST) -m "not slow"

# pytest prints the seed: `make test-random SEED=7` repeats an order.
test-random: $(INSTALLED)
	$(PYTEST) -p randomly --randomly-seed=$(SEED)

# The suite as other machines run it: in another order, with another BLAS kernel, other instructions, one core. Slow.
test-variants: test-random
	OPENBLAS_CORETYPE=Prescott $(PYTEST)
	XLA_FLAGS=--xla_cpu_max_isa=AVX $(PYTEST)
	OMP_NUM_THREADS=1 taskset -c 0 $(VENV)/bin/pytest

# The lower bounds of pyproject.toml. What old releases deprecate among themselves is not ours to mend, and that an array
# has grown since a package was compiled is what NumPy ignores too.
test-lowest: $(INSTALLED)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(VENV)/bin/uv venv --quiet --clear $(LOWEST)
	$(VENV)/bin/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct -e '.[onnx,plots,references,dev,docs]'
	$(LOWEST)/bin/pytest -n 2 --dist worksteal -W ignore::DeprecationWarning -W "ignore:numpy.ndarray size changed"

# An attack of at most ten minutes: kills, flipped bits, wrong calls. `make fuzz SEED=7` repeats one; any wrong is an error.
fuzz: $(INSTALLED)
	cd tests && PYTHONPATH=.. ../$(VENV)/bin/python -W ignore -m fuzz --seed $(SEED) --seconds 600

format: $(INSTALLED)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# The stamp is written last: an install that was interrupted is done again.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev,docs]'
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) .cache .pytest_cache .ruff_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
