# make build   bin/llmgov as for a release: no C library, no debugging symbols, no paths of this machine
# make test    every package's tests within three minutes; needs only Go
# make test-race   those of packages with locks or atomics, under the race detector; needs a C compiler; CONCURRENT= has all packages
# make test-long   also the long searches, the simulations of hours, and what compares wall-clock times
# make nightly     what takes too long for each change: lint, test-long, test-nethttp, test-race of all packages, test-upgrade, fuzz, fuzz-readers
# make test-nethttp   the tests of whole gateways with lean_http: false, that is by net/http on both sides
# make test-clients   the contract with the SDKs for JavaScript and Python; installs Node.js and Python where it may
# make test-agents   the recipes for coding agents, with the agents themselves; installs them (2 GB) where it may
# make test-dashboards  each query of the dashboards and alerts, on a real Prometheus; installs it where it may
# make test-console   the console in a real browser; installs Chromium and Node.js where it may
# make test-api     the admin API and the admission API against their OpenAPI descriptions, by schemathesis; installs it where it may
# make test-envoy test-litellm    the doors for Envoy, by the real one; installs it where it may
# make test-litellm  the door for LiteLLM, by the real proxy; installs it where it may
# make test-servers  llmgov in front of llama.cpp's server and vLLM, with tiny models; builds and installs them (8 GB), takes half an hour
# make test-chart   the Helm chart, rendered and held against Kubernetes' schemas; installs what it needs where it may
# make release VERSION=v0.1.0   binaries, packages, the chart, checksums and lists of contents in dist/; publishes nothing. VERIFY=1 builds
#                               all of it twice, and compares
# make lines   lines of Go by wing: production, tests and generated code
# make weight  what the binary weighs, and by which modules
# make check   formatting, vet, staticcheck, tests, 20 s of fuzzing each parser, and fuzz-readers
# make fuzz-readers   what upstreams read of random bodies and forms, by other readers, for TIME=60s each; installs them where it may
# make notices THIRD_PARTY_NOTICES, the licences of all that is linked; check-notices compares it
# make downloads  the modules and tools that lint and tests build on, to the caches of go
# make pin     the digests of the images in Dockerfile and compose.yaml; needs Docker and the registries
# make test-upgrade   three gateways of the release before, replaced by this one's and back, under load; builds that release
# make model   every small world of the federation, of parts of limits, and of upstreams with limits of their own, to its end or to very
#              many states, and each rule broken in turn
# make chaos   all that can happen to gateways that share a limit, for an hour
# make calm    one, two, three and eight gateways with Redis and PostgreSQL whose callers ask for less than the limit: how long they wait; 20 minutes,
#              or with FOR=10s 3 minutes, for two and eight with Redis
# make reloads 200 changes of policy under 500 calls a second and 50 streams
# make soak    two gateways and Redis under 200 calls a second for FOR=30m, with all that changes and fails meanwhile
# make storm   10,000 streams of every dialect that end in every way
# make bench   CPU cost and latency of a request and a chunk, side by side with a plain reverse proxy, alone and with Redis as the
#              store of limits (needs redis-server); CHECK=1 fails if a row misses its aim
# make versus  LiteLLM, Envoy, a bare reverse proxy and llmgov side by side, for a quarter of an hour; writes docs/comparison.md;
#              ARGS='-dry -only budget' prints one case. Installs what it compares where it may

GOFUMPT     = go run mvdan.cc/gofumpt@v0.12.0
STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs a C compiler.
RACE := $(shell command -v gcc cc clang >/dev/null 2>&1 && echo -race)

.PHONY: downloads build lines weight test test-nethttp test-race test-long nightly test-clients test-agents test-console test-dashboards test-envoy test-servers test-chart test-api test-upgrade release lint check fuzz fuzz-readers notices check-notices pin model chaos calm reloads soak storm bench versus

# Git tells the version, by the tag of the commit if it has one; without a clone, say VERSION=v1.2.3.
build:
	CGO_ENABLED=0 go build -buildvcs=auto -trimpath -ldflags '-s -w$(if $(VERSION), -X main.version=$(VERSION))' -o bin/llmgov ./cmd/llmgov

lines:
	@.ci/lines

weight:
	@.ci/weight

downloads:
	go mod download
	$(GOFUMPT) -version
	$(STATICCHECK) -version

test:
	.ci/test -short -shuffle=on -timeout 10m

# Packages with locks or atomics, in their code or their tests, and those that test a whole gateway in their own process. The others
# have nothing that several goroutines use, leave that to one of these, or test commands and processes, most of which are built without the detector.
CONCURRENT = $(shell go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | \
	grep -E ' (sync|sync/atomic|[^ ]*/e2e/harness(/sockets)?|[^ ]*/testkit/admissiontest)( |$$)' | cut -d' ' -f1 | grep -vE '/(cmd/llmgov|e2e/(process|fleet|dashboards|servers))$$')

test-race:
	CGO_ENABLED=1 .ci/test -short -race -shuffle=on -timeout 20m -- $(or $(CONCURRENT),./...)

test-long:
	.ci/test -shuffle=on -timeout 40m

test-nethttp:
	LLMGOV_LEAN_HTTP=false .ci/test -short -shuffle=on -timeout 20m -- ./internal/test/e2e/...

nightly: lint
	$(MAKE) test-long
	$(MAKE) test-nethttp
	$(MAKE) test-race CONCURRENT=
	$(MAKE) test-upgrade
	$(MAKE) fuzz
	$(MAKE) fuzz-readers

test-clients:
	internal/test/testkit/clients/run.sh

test-agents:
	internal/test/testkit/clients/agents/run.sh

test-envoy:
	internal/test/e2e/doors/envoy/run.sh

test-litellm:
	internal/test/e2e/doors/litellm/run.sh

test-servers:
	internal/test/e2e/servers/run.sh

test-dashboards:
	dashboards/check.sh

test-api:
	internal/ops/admin/description/run.sh

test-chart:
	docs/deploy/helm/check.sh

test-upgrade:
	@set -e; previous=$$(mktemp -d); trap 'rm -rf "$$previous"' EXIT; .ci/previous "$$previous/llmgov"; \
		LLMGOV_PREVIOUS="$$previous/llmgov" .ci/test -run '^TestUpgrade' -count 1 -v -- ./internal/test/e2e/fleet ./internal/test/e2e/process

release:
	.ci/release '$(VERSION)' $(if $(VERIFY),--twice)

test-console:
	internal/ops/console/run.sh

lint:
	@out=$$($(GOFUMPT) -l .) && if [ -n "$$out" ]; then echo "not formatted, run: $(GOFUMPT) -w ."; echo "$$out"; exit 1; fi
	go vet ./...
	$(STATICCHECK) ./...

check: lint test test-race fuzz fuzz-readers

# Every fuzz target there is, found by name, with 100,000 inputs each: Go 1.26 fails now and then where a time is over
# (https://github.com/golang/go/issues/75804). Little is spent on making what is found smaller.
fuzz:
	@set -e; grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' $$file); do \
			echo "fuzz $$target in $$(dirname $$file)"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime 100000x -fuzzminimizetime 200x ./$$(dirname $$file); \
		done; \
	done

fuzz-readers:
	TIME=$(or $(TIME),60s) internal/lab/readers/run.sh

notices:
	.ci/notices > THIRD_PARTY_NOTICES.new
	mv THIRD_PARTY_NOTICES.new THIRD_PARTY_NOTICES

check-notices:
	.ci/notices --check

pin:
	.ci/pin

model:
	go test -run '^TestModel$$' -count 1 -timeout 60m -v ./federation -whole
	go test -run '^TestModel$$' -count 1 -timeout 60m -v ./federation/parts -whole
	go test -run '^TestMutants$$' -count 1 -timeout 60m -v ./federation -mutants
	go test -run '^TestMutants$$' -count 1 -timeout 60m -v ./federation/parts -mutants
	go test -run '^TestModel$$' -count 1 -timeout 60m -v ./escrow/placement -whole
	go test -run '^TestMutants$$' -count 1 -timeout 60m -v ./escrow/placement -mutants

chaos:
	go test -run '^TestChaos' -count 1 -timeout 90m -v ./internal/test/e2e/fleet -chaos
	go test -run '^TestRefusals_' -count 1 ./federation/runner -promise-worlds 1000

calm:
	go test -run '^TestCalm' -count 1 -timeout 60m -v ./internal/test/e2e/fleet -calm $(or $(FOR),60s)

reloads:
	go test -run TestReloadsUnderLoad -count 1 -v ./internal/test/e2e/operations -reloads 200 -call-rate 500

soak:
	go test -run '^TestSoak$$' -count 1 -timeout 0 -v ./internal/test/e2e/fleet -soak $(or $(FOR),30m)

storm:
	CGO_ENABLED=$(if $(RACE),1,0) go test $(RACE) -run TestStreamsEndEveryWay -count 1 -v ./internal/test/e2e/streams -streams 10000

bench:
	@missed=0; \
		go run ./internal/lab/bench $(if $(CHECK),-check) || missed=1; \
		go run ./internal/lab/bench $(if $(CHECK),-check) -redis || missed=1; \
		exit $$missed
	go test -run '^$$' -bench . -benchmem ./escrow/... ./governor/... ./federation/runner ./tenants ./streaming

versus:
	internal/lab/versus/run.sh $(ARGS)
