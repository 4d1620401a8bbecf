# SPDX-License-Identifier: Apache-2.0
# A thin front end of meson and the scripts in tools/: each target is a few commands that can also be
# typed by hand.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 1800
PYTHON := /usr/bin/python3
# make up DETACH=1: the server runs in the background. UP: more settings, as for husk up.
DETACH ?=
UP ?=

.DEFAULT_GOAL := build
.PHONY: help up build test bench lint asan fuzz soak format install clean

help: ## this list
	@echo "husk $$(cat VERSION): runs untrusted code in sandboxes. Targets (make alone builds):"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'

up: ## install what is missing, build, check this host, show a run, start the server
	@tools/install-deps build runtime
	@tools/install-deps --optional python
	@tools/account
	@$(MAKE) --no-print-directory build
	@tools/python-env $(BUILD) --run
	@echo "==> Checking this host"
	@$(BUILD)/bin/husk doctor
	@tools/demo $(BUILD)
	@tools/up $(BUILD) $(if $(DETACH),--detach) $(UP)

build: $(BUILD)/build.ninja ## compile; programs land in build/bin
	@echo "==> Building in $(BUILD)/"
	@ninja -C $(BUILD)
	@tools/stage $(BUILD)

$(BUILD)/build.ninja:
	@echo "==> Configuring $(BUILD)/"
	@meson setup $(BUILD)

test: ## install what tests need, build, run every suite
	@tools/install-deps build runtime test python lint
	@tools/install-deps --optional science
	@tools/account
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@tools/python-env $(BUILD) & fetching=$$!; $(MAKE) --no-print-directory build && wait $$fetching
	@tools/python-env $(BUILD) --fuzz
	@tools/python-env $(BUILD) --run
	@tools/science-env $(BUILD) $$(tools/science-env --list)
	@echo "==> Testing"
	@T_MUST_WORK=1 $(PYTHON) tools/test_summary.py $(BUILD)

bench: build ## measure start times and throughput
	@bench/run $(BUILD)

lint: ## every static check; the quick ones are also a suite of make test
	@tools/install-deps build lint analysis python
	@$(MAKE) --no-print-directory build
	@tools/python-env $(BUILD)
	@HUSK_BUILD=$(BUILD) tools/static-checks

asan: ## the C tests under the address, leak and undefined-behaviour sanitizers
	@tools/install-deps build runtime test sanitize
	@tools/account
	@tools/sanitized-build build-asan
	@tools/stage build-asan
	@echo "==> Testing"
	@$(PYTHON) tools/test_summary.py build-asan --c-only unit corpus box

fuzz: ## each fuzz target for FUZZ_SECONDS (60)
	@tools/install-deps build sanitize
	@tools/fuzz $(FUZZ_SECONDS)

soak: build ## the contract fuzzer against a server for SOAK_SECONDS (1800)
	@tools/python-env $(BUILD) --fuzz
	@HUSK_BUILD=$(abspath $(BUILD)) HUSK_BIN_DIR=$(abspath $(BUILD))/bin HUSK_SOAK_SECONDS=$(SOAK_SECONDS) \
		$(PYTHON) -m pytest -q -s tests/integration/server/test_contract_fuzz.py

format: ## lay out C and Python as the linter wants them
	@tools/install-deps lint python
	@mkdir -p $(BUILD) && tools/python-env $(BUILD)
	@HUSK_BUILD=$(BUILD) tools/static-checks --format

install: build ## copy to PREFIX (/usr/local), below DESTDIR; root's server gets its account
	@echo "==> Installing to $(DESTDIR)$(PREFIX)"
	@tools/stage $(BUILD) --install "$(DESTDIR)$(PREFIX)"
	@$(if $(DESTDIR),,tools/account)

clean: ## remove the build folders
	@echo "==> Removing $(BUILD)/ build-asan/ build-fuzz/ build-clang/ build-analyzer/"
	@rm -rf $(BUILD) build-asan build-fuzz build-clang build-analyzer
