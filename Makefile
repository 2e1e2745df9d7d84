# Holdfast. make help lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test e2e lint generate build bench-watcher fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## run the main job on a real API server, and show each step
	@hack/assets.sh > /dev/null
	go run ./e2e/demo

test: ## run every check and test; NOSKIP=1 fails where one was skipped
	@hack/test.sh

e2e: ## run the whole story, from the chart to the uninstall, as one spec
	@hack/assets.sh > /dev/null
	go run ./e2e/demo

lint: ## vet, staticcheck and shellcheck
	@hack/lint.sh

generate: ## rewrite golden files and generated documents
	go test ./chaining ./configmap ./helm ./cmd/holdfast -update

build: ## build the binaries into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...

bench-watcher: ## measure the watcher; exits 1 on a missed goal
	@hack/assets.sh > /dev/null
	go run ./e2e/bench/watcher

fuzz: ## run every fuzz target for FUZZTIME (60s)
	@hack/fuzz.sh

clean: ## remove what was built here; the cache folder stays
	rm -rf bin
