# lancesql: a newcomer needs Go and make, nothing else. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

GO ?= go
TAGS := gms_pure_go
export CGO_ENABLED ?= 0

TEST_PARALLEL ?= 2
TEST_TIMEOUT ?= 25m
TEST_FLAGS ?=
PACKAGES ?= ./...
E2E := ./test/e2e/...
STATICCHECK := staticcheck@v0.8.2
KILL_ROUNDS ?= 50
FUZZTIME ?= 10s
SOAK_FUZZTIME ?= 5m
BENCH_ADDR ?= 127.0.0.1:3306
BENCH_ROWS ?= 100000
BENCH_SECONDS ?= 20
SCAN_ROWS ?= 5000000
BENCH_CONNECTIONS ?= 8
BENCH_OUT ?= bench-out
ARGS ?=

.PHONY: help build run test oracle vet soak race fuzz tpcc bench bench-format bench-wal bench-scan fmt lint proto proto-check clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name what; do printf '%-12s %s\n' "$$name" "$$what"; done

build: ## build bin/lancesql, one static binary
	$(GO) build -tags $(TAGS) -trimpath -o bin/lancesql ./cmd/lancesql

run: build ## build and run the server on ./data and 127.0.0.1:3306 (ARGS="--addr ... --data-dir ...")
	@exec bin/lancesql serve $(ARGS)

test: oracle vet ## everything a change must pass: vet, lint tests, all packages
	$(GO) test -tags $(TAGS) -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $$($(GO) list -tags $(TAGS) $(PACKAGES) | grep -v /test/e2e)
	@# Whole servers under load: alone, so that other packages do not stretch their clocks.
	$(GO) test -tags $(TAGS) -v -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(E2E)

oracle: ## install the reference implementation for the oracle tests, where python3 and node exist
	@scripts/oracle-setup.sh

vet:
	$(GO) vet -tags $(TAGS) $(PACKAGES)

soak: oracle ## the long counts: 50 kill rounds, full crash enumeration, long random histories
	LANCESQL_SOAK=1 LANCESQL_KILL_ROUNDS=$(KILL_ROUNDS) $(GO) test -tags $(TAGS) -count=1 -p 1 -timeout 3h $(TEST_FLAGS) $(PACKAGES)
	$(MAKE) fuzz FUZZTIME=$(SOAK_FUZZTIME)

race: ## a short run of the concurrent packages under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -tags $(TAGS) -race -short -p 1 -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./memtable ./engine/lock ./engine/sched ./lsm ./engine

fuzz: ## every fuzz target for FUZZTIME each (scripts/fuzz.sh has more settings)
	FUZZTIME=$(FUZZTIME) TAGS=$(TAGS) scripts/fuzz.sh

tpcc: build ## TPC-C by go-tpc: prepare, run, check, kill -9, check (scripts/tpcc.sh has settings)
	scripts/tpcc.sh

bench: ## run the workloads against BENCH_ADDR (any MySQL server); JSON and text go to BENCH_OUT
	@mkdir -p $(BENCH_OUT)
	$(GO) run -tags $(TAGS) ./bench --addr $(BENCH_ADDR) --rows $(BENCH_ROWS) --seconds $(BENCH_SECONDS) \
	  --connections $(BENCH_CONNECTIONS) --json $(BENCH_OUT)/result.json $(ARGS)

bench-format: oracle ## lance/file beside pylance on the same files; JSON and text go to BENCH_OUT
	@mkdir -p $(BENCH_OUT)
	$(GO) run -tags $(TAGS) ./bench/format --json $(BENCH_OUT)/format.json $(ARGS) | tee $(BENCH_OUT)/format.txt

bench-wal: ## commits, flush, merge, recovery and point reads below SQL, beside the disk's floor; JSON and text go to BENCH_OUT
	@mkdir -p $(BENCH_OUT)
	$(GO) run -tags $(TAGS) ./bench/wal --json $(BENCH_OUT)/wal.json $(ARGS) | tee $(BENCH_OUT)/wal.txt

bench-scan: ## ranges, reclustering and look-ups on SCAN_ROWS rows; JSON and text go to BENCH_OUT
	@mkdir -p $(BENCH_OUT)
	$(GO) run -tags $(TAGS) ./bench/scan --rows $(SCAN_ROWS) --json $(BENCH_OUT)/scan.json $(ARGS) | tee $(BENCH_OUT)/scan.txt

fmt: ## gofmt the tree
	gofmt -l -w $$(git ls-files '*.go' | grep -v '\.pb\.go$$')

lint: vet ## vet, the house rules (internal/lint), and staticcheck where it can be had
	$(GO) test -tags $(TAGS) -count=1 ./internal/lint
	@mkdir -p .cache
	@if [ -x .cache/$(STATICCHECK) ] || { mkdir -p .cache/$(STATICCHECK).d && GOBIN=$$PWD/.cache/$(STATICCHECK).d $(GO) install honnef.co/go/tools/cmd/$(STATICCHECK) \
	  && mv .cache/$(STATICCHECK).d/staticcheck .cache/$(STATICCHECK) && rmdir .cache/$(STATICCHECK).d; }; \
	then .cache/$(STATICCHECK) -tags $(TAGS) ./...; else echo "lint: staticcheck cannot be installed, skipped"; fi

proto: ## regenerate lance/pb from lance/proto (needs protoc)
	@mkdir -p .cache
	$(GO) build -o .cache/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
	PROTOC_GEN_GO=$$PWD/.cache/protoc-gen-go lance/proto/generate.sh

proto-check: ## fail if lance/pb is not what lance/proto generates (needs protoc)
	scripts/proto-check.sh

clean: ## remove what the targets above made, never a data directory
	rm -rf bin .venv .oracle .cache bench-out
