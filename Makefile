# Shortcuts over CMake's presets (CMakePresets.json), for those who want one command.

JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)

# $(call step,what is done,command): runs it and, if it fails, says plainly which step that was.
step = @$(2) || { status=$$?; echo "make $@: this step failed: $(1) (exit $$status)" >&2; exit $$status; }

setup     = $(call step,installing what is needed (tools/setup.sh),tools/setup.sh)
configure = $(call step,configuring (cmake --preset $(1)),cmake --preset $(1))
build     = $(call step,building (cmake --build --preset $(1)),cmake --build --preset $(1) --parallel $(JOBS) $(2))
run_tests = $(call step,running the tests,tools/run_tests.sh build/$(1))

.PHONY: help demo test build asan tsan fuzz format check-format clean

help:
	@echo "make demo          train LeNet-5 on Fashion-MNIST; leaves the result in runs/demo"
	@echo "make test          build everything and run all tests"
	@echo "make build         build everything (build/release)"
	@echo "make asan          run the tests under the address and undefined-behaviour sanitizers"
	@echo "make tsan          run the loader's and executor's tests under the thread sanitizer"
	@echo "make fuzz          run each parser's fuzz target for a minute (needs clang)"
	@echo "make format        give all C++ files the project's style"
	@echo "make check-format  say which C++ files differ from it"
	@echo "make clean         remove build/"
	@echo "JOBS=N limits how many files are compiled at once (now $(JOBS))."

demo:
	$(setup)
	$(call configure,release)
	$(call build,release,--target mnist)
	$(call step,training,build/release/examples/mnist --out runs/demo --epochs 3)

build:
	$(setup)
	$(call configure,release)
	$(call build,release)

test: build
	$(call run_tests,release)

# SANITIZED: a regular expression of test folders, instead of the preset's
asan tsan:
	$(setup)
	$(call configure,$@ $(if $(SANITIZED),-DPIPPIN_TEST_AREAS='$(SANITIZED)'))
	$(call build,$@)
	$(call run_tests,$@)

fuzz:
	@tools/run_fuzz.sh 60

format:
	@tools/check_format.sh --fix

check-format:
	@tools/check_format.sh

clean:
	rm -rf build
