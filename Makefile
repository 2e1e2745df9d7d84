# Holdfast. make help lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test e2e e2e-full lint generate build image bench-add bench-agent bench-node bench-watcher fuzz kind-up kind-load kind-down clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## run the main job on a real API server, and show each step
	@hack/assets.sh > /dev/null
	go run ./e2e/demo

test: ## run every check and test; NOSKIP=1 fails where one was skipped
	@hack/test.sh

# A KUBECONFIG of the environment is not meant: only one that is given to make is used.
e2e_kubeconfig = $(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))

e2e: ## run the specs on kind clusters; FOCUS=text for some, KUBECONFIG=file for a cluster of yours
	@E2E_KUBECONFIG='$(e2e_kubeconfig)' hack/e2e.sh

e2e-full: ## the same with all campaigns and every network; takes an hour or more
	@LABELS='smoke || ci || full' hack/e2e.sh

kind-up: bin/kind ## make a kind cluster with NET=cilium (or another: see kind/README.md); NAME=, NODES=2, FLAGS=
	@bin/kind up $(kind_name) $(if $(NODES),-nodes $(NODES)) $(FLAGS) $(or $(NET),cilium)

kind-load: bin/kind ## bring IMAGE onto every node of it
	@bin/kind load $(kind_name) $(or $(IMAGE),$(error IMAGE= is missing: make kind-load IMAGE=name:tag))

kind-down: bin/kind ## remove it, and everything it made on this machine
	@bin/kind down $(kind_name)

kind_name = $(if $(NAME),-name $(NAME))

.PHONY: bin/kind
bin/kind:
	@CGO_ENABLED=0 go build -trimpath -o bin/kind ./kind

image: build ## build the product's image from the Dockerfile, as holdfast:dev, with no registry
	@docker version > /dev/null 2>&1 || { echo 'image: no Docker answers; start it, or make kind-up and then eval "$$(bin/kind env)"' >&2; exit 1; }
	DOCKER_BUILDKIT=0 docker build --tag holdfast:dev .

lint: ## vet, staticcheck and shellcheck
	@hack/lint.sh

generate: ## rewrite golden files and generated documents
	go test ./chaining ./configmap ./helm ./lock ./watcher/node ./cmd/holdfast -update

build: ## build the binaries into bin/
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/...

bench-add: ## measure what holdfast-cni costs at ADD, as root; exits 1 on a missed goal
	go run ./e2e/bench/add -portmap "$$(hack/parts.sh portmap)"

bench-agent: ## measure the node agent and a locked pod's traffic, as root; exits 1 on a missed goal
	@hack/assets.sh > /dev/null
	go run ./e2e/bench/agent

bench-node: ## measure install-cni on a node, as root; QUIET=5m for a longer look at a quiet one; exits 1 on a missed goal
	@hack/assets.sh > /dev/null
	go run ./e2e/bench/node $(if $(QUIET),-quiet $(QUIET))

bench-watcher: ## measure the watcher; exits 1 on a missed goal
	@hack/assets.sh > /dev/null
	go run ./e2e/bench/watcher

fuzz: ## run every fuzz target for FUZZTIME (60s)
	@hack/fuzz.sh

clean: ## remove what was built here; the cache folder stays
	rm -rf bin
