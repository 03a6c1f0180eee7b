# csccm - run `make` for what can be done. Everything needs Go and make, nothing else.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A version that Go and Helm understand, also before the first tag.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || echo v0.0.0-dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The commit's time, not the clock: two builds of one commit are the same bytes.
DATE    ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)

# Go keeps its caches below HOME; without one they go to the folder for temporary files.
ifeq ($(HOME),)
export HOME := $(or $(TMPDIR),/tmp)/csccm-home-$(shell id -u)
endif
# Where programs are built: bin/, unless the checkout cannot be written to.
BIN := $(shell if mkdir -p bin 2>/dev/null && [ -w bin ]; then echo bin; else echo "$(HOME)/.cache/csccm/bin"; fi)
export BIN

VERSION_PKG := github.com/csccm/csccm/pkg/version
LDFLAGS := -s -w -X $(VERSION_PKG).Version=$(VERSION) -X $(VERSION_PKG).Commit=$(COMMIT) -X $(VERSION_PKG).Date=$(DATE)
# One set of flags for the products, the demo and all tests: with any other, Go compiles Kubernetes' libraries again. The linker
# leaves out DWARF (-s -w), so the compiler need not write it, which saves an eighth of its time. Debuggers build for themselves.
FLAGS := -trimpath -gcflags=all=-dwarf=false
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out $(FLAGS),$(shell go env GOFLAGS)) $(FLAGS)
GOBUILD := go build -buildvcs=false -ldflags '$(LDFLAGS)'

# The compiler collects garbage as rarely as this machine's memory allows, which saves more than a tenth of its time.
COMPILE := . test/compiler-env.sh;

# The program that runs tests. CI sets one that runs failed tests a second time and reports them.
GOTEST ?= go test
# The race detector needs cgo, and so a C compiler.
RACE := CGO_ENABLED=1 $(GOTEST) -race

# The packages that run goroutines. The others link the libraries of Helm and kubectl, which take longer to compile for the
# race detector than to test: "make test-all".
CONCURRENT := ./pkg/... ./installer/check/inspect ./installer/cloud/cloudapi ./installer/prompt
CONCURRENT_HELPERS := ./traffic ./cloud/proxy

BINARIES := cloudstack-ccm csccm cloudstack-sim
GOLANGCI := go tool -modfile=$(CURDIR)/.ci/tools/go.mod golangci-lint
ACTIONLINT := go tool -modfile=$(CURDIR)/.ci/tools/go.mod actionlint
TESTFLAGS ?=
BENCHFLAGS ?=
NODEFLAGS ?=
SOAKFLAGS ?=
CLOUDFLAGS ?=
LESSONFLAGS ?=
MINORS ?= all
IMAGE ?= ghcr.io/csccm/cloudstack-ccm:$(subst +,-,$(VERSION))

.PHONY: help
help: ## show this help
	@awk 'BEGIN {FS = ":.*## "; print "usage: make TARGET"} /^##@/ {print "\n" substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-17s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
.PHONY: build
build: ## build the three binaries into bin/
	@mkdir -p "$(BIN)"
	@for b in $(BINARIES); do echo "build $(BIN)/$$b"; $(GOBUILD) -o "$(BIN)/$$b" ./cmd/$$b; done

.PHONY: demo
demo: ## simulated CloudStack + real Kubernetes: install, nodes, a Service, doctor, migrate-rules (RECORD=docs/demo.svg records it)
	@CSCCM_LDFLAGS="$(LDFLAGS)" test/demo/run $(if $(RECORD),--record "$(RECORD)")

.PHONY: lesson
lesson: ## what a cloud controller manager does: two clusters side by side, one without and one with it (2 minutes; LESSONFLAGS=--auto, or --ui for a page, too)
	@test/build.sh lesson
	@CSCCM_LDFLAGS="$(LDFLAGS)" "$(BIN)/lesson" $(LESSONFLAGS)

##@ Change
# The control plane (etcd, kube-apiserver ...) is built once, and cached outside the repository.
.PHONY: test
test: ## run the unit, contract, controller and system tests (10 minutes on 2 cores; make lint has go vet's checks)
	$(COMPILE) cd test && go run ./cmd/plane-build
	$(COMPILE) $(GOTEST) -vet=off -timeout=15m $(TESTFLAGS) ./...
	$(COMPILE) cd test && $(GOTEST) -vet=off -timeout=30m $(TESTFLAGS) ./...

.PHONY: race
race: ## run the tests of concurrent packages with the race detector (6 minutes; needs a C compiler)
	$(RACE) -short -timeout=20m $(TESTFLAGS) $(CONCURRENT)
	cd test && $(RACE) -short -timeout=20m $(TESTFLAGS) $(CONCURRENT_HELPERS)

.PHONY: lint
lint: ## golangci-lint, which has go vet's checks, on the product and its tests, and actionlint
	$(ACTIONLINT) -shellcheck= -pyflakes= # whether the machine has these two makes no difference
	$(GOLANGCI) run ./...
	cd test && $(GOLANGCI) run --config ../.golangci.yml ./...

.PHONY: sizes
sizes: ## print the size of each part, in tokens of Go, beside its ceiling
	@cd test && go run ./cmd/sizes

.PHONY: generate
generate: ## regenerate docs, schemas and the chart's README
	go generate ./...

.PHONY: clean
clean: ## remove bin/ and dist/ (caches of the control plane: see test/README.md)
	rm -rf bin dist

##@ Try everything
.PHONY: test-all
test-all: test ## make test, all packages with the race detector, all Kubernetes minors, a soak of 2 minutes (2 hours)
	$(RACE) -timeout=60m $(TESTFLAGS) ./...
	cd test && $(RACE) -timeout=20m $(TESTFLAGS) $(CONCURRENT_HELPERS)
	$(MAKE) minors
	$(MAKE) soak SOAKFLAGS='-duration 2m'

.PHONY: minors
minors: ## install on the API server of every Kubernetes minor (each is built once, in 6 to 12 minutes; MINORS=built: only those that are)
	cd test && CSCCM_MINORS=$(MINORS) go test ./e2e -run TestMinors -v -count=1 -timeout 120m $(TESTFLAGS)

.PHONY: real-nodes
real-nodes: ## kubelets, containerd and real traffic: writes docs/real-nodes.md (root on Linux; INSTALL_PACKAGES=1; NODEFLAGS="--minor 1.36")
	@test/build.sh real-nodes
	@"$(BIN)/real-nodes" --out docs/real-nodes.md $(NODEFLAGS)

# FORMS are forms of test/conformance/tests.yaml, or all; ROLLING=1 adds the rolling updates, which take a quarter of an hour.
conformance: FORMS = isolated
conformance: MINORS =
.PHONY: conformance
conformance: ## Kubernetes' own tests of load balancers on real nodes (root; FORMS="direct vpc", FORMS=all: docs/conformance.md; MINORS="1.37 1.36")
	@test/build.sh real-nodes
	@"$(BIN)/real-nodes" --conformance "$(FORMS)" $(if $(MINORS),--minor "$(MINORS)") $(if $(ROLLING),--rolling) \
		$(if $(filter all,$(FORMS)),--out docs/conformance.md) $(NODEFLAGS)

.PHONY: cloud
cloud: ## scenarios on a CloudStack, or on the simulator (CLOUD_URL=... ONLY=part,part CLOUDFLAGS=--clean): docs/contributing/cloud.md
	@test/build.sh cloud # not go run, which hides the exit code
	@CSCCM_LDFLAGS="$(LDFLAGS)" "$(BIN)/cloud" $(CLOUDFLAGS)

# Variables given to make on its command line reach the program.
export CLOUD_URL CLOUD_ADMIN_USER CLOUD_ADMIN_DOMAIN CLOUD_ADMIN_PASSWORD_FILE CLOUD_API_KEY_FILE CLOUD_SECRET_KEY_FILE CLOUD_CA_FILE
export CLOUD_ZONE CLOUD_RECORD CLOUD_OUT CLOUD_RUN ONLY

.PHONY: bench
bench: ## how fast the controller is and what it costs: tables (some minutes; BENCHFLAGS="-bench Ports")
	cd test && go test ./bench -run XXX -bench . -benchtime 1x -timeout 0 $(BENCHFLAGS)

# Variables given to make on its command line reach the test.
export SEEDS MINUTES HISTORY SHRINK

.PHONY: explore
explore: ## random histories of the whole controller (SEEDS=1-100 MINUTES=10; HISTORY=file SHRINK=KIND): docs/contributing/testing.md
	$(GOTEST) -run 'TestExplore$$' -count=1 -timeout=0 -v $(TESTFLAGS) ./pkg/provider

.PHONY: soak
soak: ## ten minutes of random changes and faults, watched all the time (SOAKFLAGS="-duration 2m -seed 1")
	cd test && go run ./cmd/plane-build && go test ./soak -run TestSoak -v -count=1 -timeout=0 -args -duration 10m $(SOAKFLAGS)

.PHONY: image
image: build bin/crane ## the controller's image without docker, as bin/cloudstack-ccm.tar (IMAGE=name:tag): docker load, ctr, k3s ctr, crane push
	release/steps image "$(IMAGE)"

##@ Release
# The tools of a release, each pinned in a module of its own: a quarter of an hour of one core, once.
RELEASE_TOOLS := bin/goreleaser bin/syft bin/cosign bin/helm bin/crane

$(RELEASE_TOOLS): bin/%: release/tools/%/go.mod
	@mkdir -p bin
	cd release/tools/$* && go build -ldflags='-s -w' -o $(CURDIR)/$@ "$$(sed -n 's/^tool //p' go.mod)"

.PHONY: release
release: $(RELEASE_TOOLS) ## make and publish the release of the commit's tag: docs/contributing/release.md
	release/steps all

.PHONY: release-rehearsal
release-rehearsal: $(RELEASE_TOOLS) ## rehearse a release on loopback, from tag to helm install from both places (bin/rehearsal.txt)
	cd test && go run ./cmd/plane-build && go test ./release -run TestReleaseIntoACluster -rehearse -v -count=1 -timeout 120m $(TESTFLAGS)
