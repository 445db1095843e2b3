# Talon. `make help` lists the targets.

TAGS    := libsecp256k1
GO      ?= go
MODULES := $(notdir $(wildcard plugins/*))
RELEASE ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LISTEN  ?= 127.0.0.1:7334
DATA    ?= ./data

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

export GOFLAGS := $(GOFLAGS) -tags=$(TAGS)

.DEFAULT_GOAL := help
.PHONY: help tools wasm build run test race lint check e2e fuzz bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

tools:
	@scripts/tools

wasm: tools $(MODULES:%=wasm-%) ## build the bundled modules to bin/plugins

wasm-%:
	@mkdir -p bin/plugins
	@GOOS=wasip1 GOARCH=wasm $(GO) build -buildmode=c-shared -trimpath -ldflags='-s -w' -o bin/plugins/$*.wasm ./plugins/$*

build: tools wasm ## build bin/talon and the bundled modules
	$(GO) build -trimpath -ldflags='-s -w -X main.release=$(RELEASE)' -o bin/talon ./cmd/talon

run: build ## serve on 127.0.0.1:7334 with data in ./data
	bin/talon serve --listen $(LISTEN) --data $(DATA)

test: tools ## every test, and every fuzz target for a few seconds
	$(GO) test ./...
	@scripts/fuzz 3s

race: tools ## every test under the race detector
	$(GO) test -race ./...

lint: tools ## format, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "not formatted: $$(gofmt -l . | tr '\n' ' ')"; echo "run: gofmt -w ."; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

check: lint test race ## what must pass before a change lands, and a clean tree after
	@test -z "$$(git status --porcelain)" || { git status --short; echo "the tree is not clean"; exit 1; }

e2e: build ## the real binary with clients that are not ours (go-nostr, nostr-tools)
	scripts/e2e

fuzz: tools ## every fuzz target for a minute
	@scripts/fuzz 60s

bench: build ## the benchmarks, the whole server included
	scripts/bench

clean: ## remove what was built; data stays
	rm -rf bin
