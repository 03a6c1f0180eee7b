# csccm - run `make` for what can be done. Everything needs Go and make, nothing else.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A version that Go and Helm understand, also before the first tag.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || echo v0.0.0-dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The commit's time, not the clock: two builds of one commit are the same bytes.
DATE    ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)

VERSION_PKG := github.com/csccm/csccm/pkg/version
LDFLAGS := -s -w -X $(VERSION_PKG).Version=$(VERSION) -X $(VERSION_PKG).Commit=$(COMMIT) -X $(VERSION_PKG).Date=$(DATE)
# One set of flags for the products, the demo and all tests: with any other, Go compiles Kubernetes' libraries again.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath
GOBUILD := go build -buildvcs=false -ldflags '$(LDFLAGS)'

# The program that runs tests. CI sets one that runs failed tests a second time and reports them.
GOTEST ?= go test
# The race detector needs cgo, and so a C compiler.
RACE := CGO_ENABLED=1 $(GOTEST) -race

# The packages that run goroutines. The others link the libraries of Helm and kubectl, which take longer to compile for the
# race detector than to test: "make test-all".
CONCURRENT := ./pkg/... ./installer/check ./installer/engine/prompt
CONCURRENT_HELPERS := ./internal/child ./traffic ./cloud/proxy

BINARIES := cloudstack-ccm csccm cloudstack-sim
GOLANGCI := go tool -modfile=$(CURDIR)/.ci/tools/go.mod golangci-lint
ACTIONLINT := go tool -modfile=$(CURDIR)/.ci/tools/go.mod actionlint
TESTFLAGS ?=
BENCHFLAGS ?=
E2EFLAGS ?=
SOAKFLAGS ?=
CLOUDFLAGS ?=
LESSONFLAGS ?=
MINORS ?= all

.PHONY: help
help: ## show this help
	@awk 'BEGIN {FS = ":.*## "; print "usage: make TARGET\n"} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the three binaries into bin/
	@mkdir -p bin
	@for b in $(BINARIES); do echo "build bin/$$b"; $(GOBUILD) -o bin/$$b ./cmd/$$b; done

.PHONY: plane
plane: ## build the newest test control plane once (etcd, kube-apiserver ...; cached outside the repo)
	@cd test && go run ./cmd/plane-build

.PHONY: planes
planes: ## build the test control planes of all Kubernetes minors (6 to 12 minutes each, once)
	@cd test && go run ./cmd/plane-build all

.PHONY: gateway
gateway: ## build Traefik for the scenarios of Gateway API in make e2e (once; cached outside the repo)
	@cd test && go run ./cmd/gateway-build

.PHONY: sizes
sizes: ## print the lines of each part beside its ceiling
	@.ci/sizes

.PHONY: test
test: plane ## run the unit, contract, controller and system tests (8 minutes on 2 cores)
	$(GOTEST) -timeout=15m $(TESTFLAGS) ./...
	cd test && $(GOTEST) -timeout=30m $(TESTFLAGS) ./...

.PHONY: race
race: ## run the tests of concurrent packages with the race detector (6 minutes; needs a C compiler)
	$(RACE) -short -timeout=20m $(TESTFLAGS) $(CONCURRENT)
	cd test && $(RACE) -short -timeout=20m $(TESTFLAGS) $(CONCURRENT_HELPERS)

.PHONY: test-all
test-all: test planes ## run everything: make test, all packages with the race detector, all Kubernetes minors, a soak of 2 minutes (2 hours)
	$(RACE) -timeout=60m $(TESTFLAGS) ./...
	cd test && $(RACE) -timeout=20m $(TESTFLAGS) $(CONCURRENT_HELPERS)
	$(MAKE) minors
	$(MAKE) soak SOAKFLAGS='--duration 2m'

.PHONY: ci
ci: ## all that is run before a change is taken (.ci/run; CI_FULL=1 adds older Kubernetes minors)
	.ci/run

.PHONY: test-unit
test-unit: ## only the tests that need no control plane
	go test -timeout 20m $(TESTFLAGS) ./...

.PHONY: minors
minors: ## install on the API server of every supported Kubernetes minor (MINORS=built: only those that are built already)
	cd test && CSCCM_MINORS=$(MINORS) go test ./e2e -run TestMinors -v -count=1 -timeout 60m $(TESTFLAGS)

.PHONY: golden
golden: ## how many recorded CloudStack answers the simulator gives alike
	go test ./pkg/simulator -run 'Golden' -v | grep -E '^ *(golden|---|ok|FAIL|.*golden:)' 

.PHONY: bench
bench: ## how fast the controller is and what it costs: tables (some minutes; BENCHFLAGS="--only ports")
	@test/build.sh bench && cd test && ../bin/bench $(BENCHFLAGS)

.PHONY: soak
soak: ## ten minutes of random changes and faults, watched all the time (SOAKFLAGS="--duration 2m --seed 1")
	@test/build.sh soak && cd test && ../bin/soak $(SOAKFLAGS)

.PHONY: cloud
cloud: ## try csccm on a CloudStack (CLOUD_URL=... CLOUD_ADMIN_USER=... CLOUD_ADMIN_PASSWORD_FILE=...; without them the simulator; ONLY=part,part): docs/contributing/cloud.md
	@test/build.sh cloud # not go run, which hides the exit code
	@CSCCM_LDFLAGS="$(LDFLAGS)" bin/cloud $(CLOUDFLAGS)

# Ten scenarios, in one network: those where an older CloudStack has less, or does something else.
OLDER := a Service comes,algorithm,PROXY,source ranges,ports added,stickiness,external traffic,what is refused,address changed,migrate-rules
comma := ,

.PHONY: cloud-older
cloud-older: ## ten scenarios of make cloud on the simulator as CloudStack 4.19
	@$(MAKE) cloud CLOUDFLAGS="--simulator-version 4.19 $(CLOUDFLAGS)" ONLY="isolated network: $(subst $(comma),$(comma)isolated network: ,$(OLDER))"

.PHONY: cloud-clean
cloud-clean: ## remove what a run of make cloud has left, after a crash (CLOUD_RUN=id or all; the same CLOUD_URL and credentials)
	@test/build.sh cloud
	@bin/cloud --clean $(CLOUDFLAGS)

# Variables given to make on its command line reach the program.
export CLOUD_URL CLOUD_ADMIN_USER CLOUD_ADMIN_DOMAIN CLOUD_ADMIN_PASSWORD_FILE CLOUD_API_KEY_FILE CLOUD_SECRET_KEY_FILE CLOUD_CA_FILE
export CLOUD_ZONE CLOUD_VMS CLOUD_RECORD CLOUD_OUT CLOUD_JUNIT CLOUD_RUN ONLY

.PHONY: bench-code
bench-code: ## Go's own benchmarks of the packages
	go test -run '^$$' -bench . -benchmem ./pkg/...

.PHONY: recording
recording: ## record the demo in a terminal as docs/demo.svg, as the README shows it
	@test/build.sh demo recording
	@CSCCM_LDFLAGS="$(LDFLAGS)" bin/recording -title 'make demo' -o docs/demo.svg bin/demo --stay=no

.PHONY: lint
lint: ## golangci-lint, which has go vet's checks, on the product and its tests, and actionlint
	$(ACTIONLINT) -shellcheck= -pyflakes= # whether the machine has these two makes no difference
	$(GOLANGCI) run ./...
	cd test && $(GOLANGCI) run --config ../.golangci.yml ./...

.PHONY: generate
generate: ## regenerate docs, schemas and the chart's README
	go generate ./...

.PHONY: demo
demo: ## simulated CloudStack + real Kubernetes: install, nodes, a Service, doctor, migrate-rules
	@test/build.sh demo # not go run, which makes ^C a failure
	@CSCCM_LDFLAGS="$(LDFLAGS)" bin/demo

.PHONY: lesson
lesson: ## what a cloud controller manager does: two clusters side by side, one without and one with it (2 minutes; LESSONFLAGS=--auto)
	@test/build.sh lesson
	@CSCCM_LDFLAGS="$(LDFLAGS)" bin/lesson $(LESSONFLAGS)

.PHONY: e2e
e2e: ## real nodes (kubelet, containerd) and real traffic: writes docs/truth.md (root on Linux; E2E_INSTALL=1 installs what is missing; E2EFLAGS="--minor all")
	@test/build.sh truth
	@bin/truth --out docs/truth.md $(E2EFLAGS)

# The tools of a release, each pinned in a module of its own.
RELEASE_TOOLS := bin/goreleaser bin/syft bin/cosign bin/helm bin/crane

$(RELEASE_TOOLS): bin/%: release/tools/%/go.mod
	@mkdir -p bin
	cd release/tools/$* && go build -ldflags='-s -w' -o $(CURDIR)/$@ "$$(sed -n 's/^tool //p' go.mod)"

.PHONY: release-tools
release-tools: $(RELEASE_TOOLS) ## build goreleaser, syft, cosign, helm and crane into bin/ (once; a quarter of an hour of one core)

.PHONY: chart
chart: bin/helm ## package the Helm chart into dist/
	bin/helm package charts/cloudstack-ccm --version $(VERSION:v%=%) --app-version $(VERSION) --destination dist

.PHONY: vulnerabilities
vulnerabilities: ## search the programs for known vulnerabilities (needs https://vuln.go.dev)
	go tool -modfile=release/tools/go.mod govulncheck ./cmd/...

.PHONY: release
release: release-tools ## make and publish the release of the commit's tag: docs/contributing/release.md
	release/steps all

.PHONY: release-rehearsal
release-rehearsal: release-tools plane ## rehearse a release on loopback, from tag to helm install from both places (bin/rehearsal.txt)
	cd test && go test ./release -run TestReleaseIntoACluster -rehearse -v -count=1 -timeout 120m $(TESTFLAGS)

.PHONY: clean
clean: ## remove bin/ and dist/ (caches of the control plane: see CONTRIBUTING.md)
	rm -rf bin dist
