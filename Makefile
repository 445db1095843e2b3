# Talon. `make help` lists the targets.

TAGS    := libsecp256k1
GO      ?= go
MODULES := $(notdir $(wildcard plugins/*))
DEFAULT := rate limits lists open grasp polite mirror
RELEASE ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LISTEN  ?= 127.0.0.1:7334
DATA    ?= ./data

comma   := ,
space   := $(subst ,, )

# The SDK is a module of its own.
PACKAGES := ./... talon/sdk/...

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

# With -trimpath everywhere, tests and programs share what the compilers made.
export GOFLAGS := $(GOFLAGS) -tags=$(TAGS) -trimpath

.DEFAULT_GOAL := help
.PHONY: help tools wasm bundle build run test race race-all lint check check-quick e2e devnet cluster lab scale pages test-gitworkshop seeds guides fuzz nightly attack bench bench-set packages test-packages clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

tools:
	@scripts/tools

wasm: tools $(MODULES:%=wasm-%) ## build the bundled modules to build/wasm

wasm-%:
	@GOOS=wasip1 GOARCH=wasm $(GO) build -buildmode=c-shared -buildvcs=false -trimpath -ldflags='-s -w' -o build/wasm/$*.wasm ./plugins/$*

bundle: wasm ## put the modules and their compiled code where a build with the tag bundled finds them
	@$(GO) run ./internal/bundler -default $(subst $(space),$(comma),$(DEFAULT)) host/bundle $(MODULES:%=build/wasm/%.wasm)

build: bundle ## build bin/talon with the bundled modules inside
	$(GO) build -tags=$(TAGS),bundled -ldflags='-s -w -X main.release=$(RELEASE)' -o bin/talon ./cmd/talon

run: build ## serve on 127.0.0.1:7334 with data in ./data
	bin/talon serve --listen $(LISTEN) --data $(DATA)

# Test programs have no symbols for debuggers: linking them takes half of the time then. Stacks keep their names and lines.
TEST := $(GO) test -ldflags=-s

# Modules in Rust are compiled quickly for tests; make guides compiles them as authors do.
QUICK_RUST := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16

# make lint has all of go vet, of which go test would do a part again. Tests wait for
# servers and for git: three packages at a time keep two processors busy.
test: tools ## every test, and the seeds of every fuzz target
	$(QUICK_RUST) scripts/in-memory $(TEST) -vet=off -p 3 -timeout 25m $(PACKAGES)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		echo 'skipped: what needs PostgreSQL, which is not installed (Debian: apt install postgresql)'

# Which packages, and why not the others: scripts/race-packages -v.
race: tools ## the packages with goroutines or locks of their own, under the race detector
	scripts/in-memory $(TEST) -vet=off -race -p 3 -timeout 45m $$(scripts/race-packages)

race-all: tools ## every test of every package under the race detector, an hour
	TALON_TEST_RACE=all $(TEST) -vet=off -race -count=1 -timeout 90m $(PACKAGES)

lint: tools ## format, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "not formatted: $$(gofmt -l . | tr '\n' ' ')"; echo "run: gofmt -w ."; exit 1; }
	$(GO) vet $(PACKAGES)
	$(GO) run $(STATICCHECK) $(PACKAGES)

check: lint test race ## what must pass before a change lands, and a clean tree after
	@test -z "$$(git status --porcelain)" || { git status --short; echo "the tree is not clean"; exit 1; }

# The revision that check-quick compares with.
BASE ?= main

check-quick: tools ## format, vet, staticcheck and tests of the packages that differ from BASE, in 3 minutes
	@STATICCHECK=$(STATICCHECK) scripts/check-quick $(BASE)

e2e: build ## the real binary with clients that are not ours (nostr-tools, ngit, those of git)
	scripts/e2e
	@$(MAKE) --no-print-directory test-gitworkshop

test-gitworkshop: tools ## a GRASP server used by gitworkshop in Chromium; DIR is a checkout of gitworkshop that is built
ifeq ($(DIR),)
	@echo 'skipped: gitworkshop, for DIR does not name a checkout of it that is built (npm ci, npm run build)'
else
	npm ci --prefix testdata/chromium --no-audit --no-fund --loglevel=error
	TALON_GITWORKSHOP=$(abspath $(DIR)) $(TEST) -vet=off -count=1 -v -run 'TestGitworkshop$$' ./cmd/talon
endif

scale: tools ## tests that cost more than make test has time for: large inputs, many rounds, a release used from outside
	TALON_TEST_SCALE=1 $(TEST) -vet=off -count=1 $(PACKAGES)

pages: tools ## every page in Chromium, in two sizes and two themes, with axe-core, and every link of them
	npm ci --prefix testdata/chromium --no-audit --no-fund --loglevel=error
	TALON_TEST_SCALE=1 $(TEST) -vet=off -count=1 ./host/web ./cmd/talon -run TestChromium

devnet: tools ## sync and the hunt in larger networks than make test has, and strategies beside relays as they are, minutes
	TALON_TEST_DEVNET=1 $(TEST) -count=1 -run Devnet ./cmd/talon ./cmd/internal/devnet
	TALON_TEST_DEVNET=1 $(TEST) -count=1 -run 'TestInvariants|TestAsksForNothing' -timeout 2h ./cmd/internal/lab/engine
	@mkdir -p bin
	@TALON_TEST_DEVNET=1 $(TEST) -count=1 -run TestMatrix -v -timeout 30m ./host/relaysync >bin/matrix.txt || { cat bin/matrix.txt; exit 1; }
	@sed -n '/^ *strategy  *relay/,/^--- /p' bin/matrix.txt
	TALON_TEST_DEVNET=1 $(TEST) -count=1 -run TestKhatru -v ./host/relaysync

cluster: build ## three Talons as one relay on PostgreSQL, behind a proxy, on loopback, until ^C
	@scripts/cluster

lab: build ## compare the bundled strategies in simulated networks, minutes, and write docs/which-strategy.md
	@scripts/lab

seeds: tools ## the invariants of sync in the networks of make test, with 2,000 seeds (TALON_TEST_SEEDS), an hour
	TALON_TEST_SEEDS=$${TALON_TEST_SEEDS:-2000} $(TEST) -vet=off -count=1 -run TestInvariants -timeout 6h ./cmd/internal/lab/engine

guides: tools ## every page for authors of modules, followed literally up to a running relay
	TALON_TEST_GUIDES=1 $(TEST) -count=1 -timeout 30m -run 'TestTutorials|TestGuides|TestNew(Strategies|Modules)$$' ./cmd/talon ./cmd/labtest ./cmd/internal/author ./examples

fuzz: tools ## every fuzz target for a minute
	@scripts/fuzz 60s

nightly: scale pages devnet seeds race-all fuzz attack ## what takes hours: large networks and inputs, races everywhere, fuzzing, attacks

attack: build ## attack bin/talon on loopback in every known way, and report what honest people notice, 12 minutes
	@scripts/attack

bench: build ## the benchmarks, the whole server included
	scripts/bench
	scripts/light

bench-set: build ## the benchmarks that two revisions are compared by, in a form for benchstat
	@scripts/bench-set

packages: tools ## what a release ships, in dist: .deb, static tarballs, images, bills of materials, checksums, minutes
	@scripts/packages

test-packages: ## install, upgrade, remove and purge the .deb in a chroot, serve from each image, check the unit, as root
	@scripts/test-package $$(ls dist/talon_*_$$(dpkg --print-architecture).deb)
	@for image in dist/*.oci.tar; do scripts/test-image $$image build/package-$$(dpkg --print-architecture)/talon || exit 1; done
	@systemd-analyze security --offline=yes --threshold=20 packaging/talon.service | tail -1

clean: ## remove what was built; data stays
	rm -rf bin build dist host/bundle/*.pack
