# make run    regenerates the bindings and shows locks at work, in about ten seconds
# make test   runs every test, against real servers that the tests start themselves
# make lint   formatting, vet, staticcheck, tidiness
# make check  generated code is what the scripts say
# make chaos  histories of locks under faults, DURATION=30m long, drawn from SEED=1 (see rlock_test/chaos/doc.go)
# make bench  beside other lock libraries, or bench-quick: less, in two minutes
# make interop  rlock's keys against those of other lock libraries, of Go and of npm
# make vuln   known vulnerabilities in what is required
# make fuzz   looks for input that breaks the generator or a lock, FUZZTIME=10m long each

GO ?= go
FUZZTIME ?= 10s
DURATION ?= 60s
SEED ?= 0
ROUND ?= 0

# Modules of their own, whose requirements are not those of rlock.
MODULES = rlock_test/fencing rlock_test/chaos rlock_test/interop rlock_test/peers

# The servers to test with: Redis 7.0, Redis 8 and Valkey 8, or what the machine has.
SERVERS = servers=$$(sh rlock_test/engines.sh) && RLOCK_SERVERS=$$servers

.PHONY: run test chaos fuzz lint check generate bench bench-quick interop vuln needs

run:
	@echo "== bindings from scripts/*.lua"
	@$(GO) run ./generator
	@$(GO) run ./generator -audit
	@echo
	@echo "== demonstration"
	@$(GO) run ./rlock_test/demo

test: needs
	$(SERVERS) $(GO) test -race -count=1 -parallel=8 -timeout=15m ./...
	$(SERVERS) $(GO) test -count=1 -run='Budget|Schedules|TestLoad$$' ./rlock/ ./rlock_test/
	$(GO) test -C rlock_test/fencing -count=1 ./...
	$(SERVERS) $(GO) test -C rlock_test/peers -count=1
	@$(MAKE) --no-print-directory chaos DURATION=60s ROUND=0
	@$(MAKE) --no-print-directory fuzz

# A seed of 0 is drawn from the clock, and printed. With a round, only that is run.
chaos: needs
	$(SERVERS) $(GO) test -C rlock_test/chaos -race -count=1 -timeout=0 $(if $(filter-out 0,$(ROUND)),-run=TestHistories) \
		-args -duration=$(DURATION) -seed=$(SEED) -round=$(ROUND)

# Each fuzzer looks for new cases for as long as FUZZTIME says.
fuzz:
	$(SERVERS) $(GO) test -run='^$$' -fuzz=FuzzParse -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./generator/internal/script
	$(SERVERS) $(GO) test -run='^$$' -fuzz=FuzzDecode -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./generator/internal/emit/runtime
	$(SERVERS) $(GO) test -run='^$$' -fuzz=FuzzGenerator -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./generator
	$(SERVERS) $(GO) test -run='^$$' -fuzz=FuzzSlot -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./rlock_test
	$(SERVERS) $(GO) test -run='^$$' -fuzz=FuzzReply -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./rlock_test
	$(SERVERS) $(GO) test -run='^$$' -fuzz=FuzzOptions -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./rlock_test
	$(SERVERS) $(GO) test -run='^$$' -fuzz=FuzzOperations -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./rlock_test

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) build -C rlock_test/tools -o $(CURDIR)/.bin/ honnef.co/go/tools/cmd/staticcheck
	.bin/staticcheck ./...
	$(GO) mod tidy -diff
	$(GO) mod verify
	@for module in $(MODULES); do \
		(cd $$module && $(GO) vet ./... && $(CURDIR)/.bin/staticcheck ./... && $(GO) mod tidy -diff) || exit 1; \
	done
	cd rlock_test/tools && $(GO) mod tidy -diff

check:
	$(GO) run ./generator -check
	$(GO) run ./generator -check -scripts rlock_test/corpus/lua -out rlock_test/corpus/bindings

generate:
	$(GO) generate ./...

# Beside what Go programs use for locks on Redis today, on the same server. The results go
# into rlock_test/peers/RESULTS.md and the README.
bench: needs
	$(SERVERS) $(GO) test -C rlock_test/peers -count=1 -timeout=0 -args -full -write

bench-quick: needs
	$(SERVERS) $(GO) test -C rlock_test/peers -count=1 -timeout=0 -args -quick

# The npm libraries are installed beside the tests, in rlock_test/interop/node_modules.
interop: needs
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 18 or later; without it, test the other libraries:" \
		"go test -C rlock_test/interop -skip '//npm|TestTable/npm'"; exit 1; }
	cd rlock_test/interop && npm ci
	$(SERVERS) $(GO) test -C rlock_test/interop -count=1

# VULNDB=file:///… is a copy of the database, where its site cannot be reached.
vuln:
	$(GO) build -C rlock_test/tools -o $(CURDIR)/.bin/ golang.org/x/vuln/cmd/govulncheck
	@for module in . $(MODULES); do (cd $$module && $(CURDIR)/.bin/govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...) || exit 1; done

# A server to test against, and the C compiler that the race detector needs.
needs:
	@$(SERVERS) sh rlock_test/needs.sh
