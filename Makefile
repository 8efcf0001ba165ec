# Every target that a person calls has a "## " comment, which make help prints.
# What takes more than three lines stands in hack/.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CODER_K8S_CACHE ?= $(HOME)/.cache/coder-k8s
export TOOLS_DIR ?= $(CODER_K8S_CACHE)/tools
export VERSION ?= v0.1.0-dev
BINARY ?= bin/coder-k8s
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# When the commit was made, and not when it was built: the same commit is built to the same bytes.
DATE ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
PKG := github.com/coder-k8s/coder-k8s
LDFLAGS := -s -w -X $(PKG)/internal/version.version=$(VERSION) -X $(PKG)/internal/version.commit=$(COMMIT) \
	-X $(PKG)/internal/version.date=$(DATE)

.PHONY: help generate verify lint deadcode test conformance test-e2e test-nightly test-licensed bench build plugin manifests image images image-push docs release demo coder demo-down demo-env

help: ## Show this list.
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

generate: ## Generate deepcopy, CRDs, RBAC, OpenAPI and the API reference.
	@hack/generate.sh

verify: ## Fail if generated files, formatting or go.mod differ from their sources.
	@hack/verify.sh

lint: ## Run the linters: of code, import rules and prose.
	@hack/tools.sh golangci-lint actionlint vale
	@. hack/cluster/settings.sh; $(TOOLS_DIR)/golangci-lint run
	@$(TOOLS_DIR)/actionlint
	@git ls-files '*.go' '*.md' ':!*/testdata/*' | xargs $(TOOLS_DIR)/vale --output=line

deadcode: ## Fail on functions that no program reaches (7 GiB). Not part of CI; the release checklist demands it.
	@hack/deadcode.sh

test: ## Run unit and integration tests with the race detector (README command two).
	@test/run.sh

conformance: ## Run the official MCP conformance suite and MCP clients of other people against the MCP server.
	@test/conformance/run.sh

test-e2e: ## Run main job and operation on real clusters, with the real Coder (root).
	@test/e2e/run.sh

test-licensed: ## Run the tests of licensed features against a real Coder with test licenses (root).
	@test/licensed/run.sh

bench: ## Run the benchmarks, and on a real cluster a fleet of control planes and 10,000 workspaces (root).
	go test -run '^$$' -bench . -benchmem ./...
	@test/bench/aggregated.sh
	@test/bench/fleet.sh

# Omitted parts of libraries: Coder's exporter to Datadog, Tailscale's state in AWS, and HTML pages of gRPC.
# hack/cluster/settings.sh uses the same tags. A build without them works, and is larger.
TAGS := slim,ts_omit_aws,grpcnotrace

# Without -buildvcs=false the bytes would depend on tags, and on files that are not part of the commit.
build: plugin ## Build bin/coder-k8s and bin/kubectl-coder.
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/coder-k8s
	@[ $$(wc -c <$(BINARY)) -lt 125000000 ] || { echo "error: $(BINARY) has more than 125 MB" >&2; exit 1; }

plugin: ## Build bin/kubectl-coder alone.
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(dir $(BINARY))kubectl-coder$(shell go env GOEXE) ./cmd/kubectl-coder
	@install -m 755 cmd/kubectl-coder/kubectl_complete-coder $(dir $(BINARY))kubectl_complete-coder

manifests: ## Write dist/install.yaml and its variants (split, namespaced, ha and others), which kubectl applies.
	@hack/manifests.sh --all

image: build ## Assemble the container image as bin/coder-k8s.tar.
	@hack/image/build.sh bin/coder-k8s bin/coder-k8s.tar

images: ## Assemble the images for linux/amd64 and linux/arm64 under one name, as the OCI layout dist/image.
	@hack/image/build-all.sh

image-push: ## Build the images, push them to REGISTRY/coder-k8s (REGISTRY=registry.example.com/team), and print how to install them.
	@hack/image/push.sh "$(REGISTRY)"

docs: ## Build the site of docs/ as dist/site; fails on dead links and on pictures that differ from their sources.
	@hack/docs/build.sh

release: ## Make everything of the release VERSION into dist/release; publishes nothing.
	@hack/release/release.sh $(VERSION)

test-nightly: ## Run the other end-to-end tests: upgrades, migration, tutorials, and clusters with IPv6 only, both IP families and three nodes (root). The release checklist demands it.
	@for v in 2.29.1 2.30.0; do $(MAKE) --no-print-directory coder CODER_VERSION=$$v || exit 1; done
	@failed=; for t in TestInstallation TestCoderLifecycle TestIPv6Only TestDualStack TestNodeFaults; do \
		test/e2e/run.sh -run "^$$t\$$" || failed="$$failed $$t"; done; [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

demo: ## Start a real cluster with a real Coder and install the operator (README command one, root). NODES=3: with three nodes.
	@$(if $(NODES),CLUSTER_NODES=$(NODES)) hack/demo/up.sh

coder: ## Build the images of another Coder, for the test of its upgrade: make coder CODER_VERSION=2.30.0
	@hack/cluster/packages.sh && hack/cluster/build.sh && hack/cluster/images.sh

demo-down: ## Stop the demo and remove everything that it made.
	@hack/demo/down.sh

demo-env: ## Print the export lines for kubectl, PostgreSQL and the images of the demo: eval "$$(make -s demo-env)"
	@hack/demo/env.sh
