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
RELEASEFLAGS ?=
PUBLISHFLAGS ?=
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

# The product's go.mod knows Helm 3 alone. The overlay adds what this package needs of Helm 4, whose modules are in a go.mod of their own.
HELM4 := installer/kube/helm/helm4
HELM4TESTS := ./installer/kube/helm ./charts ./release/internal/chartpkg
HELM4FLAGS := -tags=helm4 -modfile=$(HELM4)/go.mod -overlay=$(HELM4)/overlay.json

.PHONY: helm4
helm4: ## run the tests of installer/kube/helm, the chart and its package on Helm 4, and build csccm with it
	go vet $(HELM4FLAGS) $(HELM4TESTS)
	go test $(HELM4FLAGS) $(TESTFLAGS) $(HELM4TESTS)
	go build $(HELM4FLAGS) -o /dev/null ./cmd/csccm

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
cloud: ## try csccm on a CloudStack (CLOUD_URL=... CLOUD_ADMIN_USER=... CLOUD_ADMIN_PASSWORD_FILE=...; without them the simulator; ONLY=part,part): docs/cloud.md
	@test/build.sh cloud # not go run, which hides the exit code
	@CSCCM_LDFLAGS="$(LDFLAGS)" bin/cloud $(CLOUDFLAGS)

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

.PHONY: transcript
transcript: ## rewrite docs/transcripts/loadbalancers.txt: kubectl against a real API server and the simulator
	@test/build.sh transcript && bin/transcript -o docs/transcripts/loadbalancers.txt

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

.PHONY: chart
chart: ## package the Helm chart into dist/
	go run ./release chart --version $(VERSION) --output dist

.PHONY: manifest
manifest: ## render the chart's defaults into dist/, for kubectl apply without Helm
	go run ./release manifest --version $(VERSION) --output dist

.PHONY: image
image: ## build multi-arch container images into dist/ (no engine needed)
	go run ./release image --version $(VERSION) --output dist

.PHONY: release
release: ## make a whole release into dist/ (RELEASEFLAGS='--key cosign.key'; docs/release.md)
	go run ./release make --version $(VERSION) --output dist $(RELEASEFLAGS)

.PHONY: release-test
release-test: ## run the tests of a release, and record for "make release" that they passed
	go run ./release test

.PHONY: release-rehearsal
release-rehearsal: ## rehearse a release on loopback, from key and tag to helm install from both places (writes docs/transcripts/release.txt)
	@began=$$SECONDS; (cd test && go test ./release -run TestRelease -update -v -count=1 -timeout 60m $(TESTFLAGS)); \
	echo "the rehearsal took $$((SECONDS - began)) s"

.PHONY: publish
publish: ## publish the release in dist/ (PUBLISHFLAGS='--key cosign.key --registry ghcr.io/csccm --site ../gh-pages')
	go run ./release publish --dir dist $(PUBLISHFLAGS)

.PHONY: keyless
keyless: bin/cosign ## sign what "make publish" has published without a key, too: by the identity of the job (the same PUBLISHFLAGS)
	refs=$$(go run ./release publish --dir dist --dry-run $(PUBLISHFLAGS) | sed -n 's/^would push \([^,]*\).*/\1/p'); \
	test -n "$$refs" && bin/cosign sign --yes $$refs
	bin/cosign sign-blob --yes --bundle dist/SHA256SUMS.keyless.sigstore.json dist/SHA256SUMS

bin/cosign: release/tools/cosign/go.mod
	@mkdir -p bin
	go build -modfile=release/tools/cosign/go.mod -o bin/cosign github.com/sigstore/cosign/v3/cmd/cosign

.PHONY: interop
interop: bin/cosign ## check releases with the real cosign, which is built first (5 minutes of one core)
	CSCCM_COSIGN=$(CURDIR)/bin/cosign go test ./release -run Cosign -v

.PHONY: dockerfile
dockerfile: ## compare the Dockerfile's images with ours (needs buildah and busybox-static)
	CSCCM_BUILDAH=1 go test ./release -run Dockerfile -v -count=1

.PHONY: clean
clean: ## remove bin/ and dist/ (caches of the control plane: see CONTRIBUTING.md)
	rm -rf bin dist
