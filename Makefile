# make run       regenerates the bindings and shows locks at work, in some ten seconds; with V=1, the audit too
# make setup     once, before the tests: unpacks the servers, installs a C compiler if there is none
# make quick     after each edit: the tests that tell most, in a minute or two; its end says what is left out
# make test      the tests, in eight minutes on two cores, with one server that they start themselves
# make ci        beside make test, what a change must pass: race detector, other modules, some faults
# make test-all  all of them: three servers, race detector, budgets, faults, fuzzing, other libraries
# make lint      formatting, vet, staticcheck, tidiness
# make check     generated code is what the scripts say
# make chaos     histories of locks under faults, for 60 seconds, or with DURATION=30m SEED=1 SHARING=90 TOPOLOGY=cluster (see rlock_test/chaos/doc.go)
# make oracle    what the generator proves of random scripts, against servers, or with DURATION=1h SEED=1
# make explore   the queue between processes and the lines in them, in every order of their steps, or with STATES=10000000
# make bench     beside other lock libraries, or bench-quick: less, in two minutes
# make interop   rlock's keys against those of other lock libraries, of Go and of npm
# make platforms builds and vets for Linux, macOS and Windows on each processor, and runs nothing
# make vuln      known vulnerabilities in what is required
# make fuzz      looks for input that breaks the generator or a lock, ten seconds each, or with FUZZTIME=10m FUZZER=FuzzReply
# make help      this list

GO ?= go
DURATION ?= 60s
SEED ?= 0
ROUND ?= 0
SHARING ?= 30
TOPOLOGY ?=

# Modules of their own, whose requirements are not those of rlock.
MODULES = redislua/goredis rlock/rlockprom rlock/rlockotel rlock/rlockmongo \
	rlock_test/metrics rlock_test/fencing rlock_test/chaos rlock_test/interop rlock_test/goredis rlock_test/peers rlock_test/mongo \
	rlock_test/examples/gocron rlock_test/examples/certmagic

# The server of make test: redis7, redis8 or valkey8.
ENGINE ?= redis7

# The server of make ci: one of the three, by the hash of the commit.
COMMIT = $(shell git rev-parse --short=7 HEAD 2>/dev/null || echo 0)
ENGINE_OF_COMMIT = $(word $(shell echo $$((0x$(COMMIT) % 3 + 1))),redis7 redis8 valkey8)

# A step of make ci or test-all, such as race or budgets; all of them without it.
STEP ?=

# Runs a command with one server, or with Redis 7.0, Redis 8 and Valkey 8. They are unpacked
# into the user's cache when they are not there yet, or are those of RLOCK_SERVERS.
ONE = servers=$$(sh rlock_test/engines.sh $(ENGINE)) && RLOCK_SERVERS=$$servers
ALL = servers=$$(sh rlock_test/engines.sh) && RLOCK_SERVERS=$$servers

.PHONY: help run setup quick test ci test-all chaos oracle explore fuzz lint check generate bench bench-quick interop platforms vuln compiler

run:
	@$(GO) run ./generator/redislua
	@$(GO) run ./rlock_test/demo $(if $(V),-v)

help:
	@sed -n 's/^# make /make /p' $(firstword $(MAKEFILE_LIST))

setup:
	@sh rlock_test/setup.sh

quick: compiler
	@$(ONE) $(GO) run ./rlock_test/suite -set=quick

test: compiler
	@$(ONE) $(GO) run ./rlock_test/suite

ci: ENGINE = $(ENGINE_OF_COMMIT)
ci: compiler
	@echo "ci: on $(ENGINE); without ENGINE, commit $(COMMIT) chooses $(ENGINE_OF_COMMIT)"
	@$(ONE) $(GO) run ./rlock_test/suite -set=ci -seed=$(SEED) -step='$(STEP)'

test-all: compiler
	@$(ALL) $(GO) run ./rlock_test/suite -set=all -duration=$(DURATION) -seed=$(SEED) -fuzztime='$(FUZZTIME)' -step='$(STEP)'

# A seed of 0 is drawn from the clock, and printed. With a round, only that is run.
chaos: compiler
	$(ALL) $(GO) test -C rlock_test/chaos -race -count=1 -timeout=0 $(if $(filter-out 0,$(ROUND)),-run=TestHistories) \
		-args -duration=$(DURATION) -seed=$(SEED) -round=$(ROUND) -sharing=$(SHARING) -topology='$(TOPOLOGY)'

# Prints how many programs reached each rule, and each hole made small (see rlock_test/oracle/doc.go).
oracle:
	$(ALL) $(GO) test -count=1 -timeout=0 -v -run=TestOracle ./rlock_test/oracle -args -length=$(DURATION) -oracle.seed=$(SEED)

# Prints how many worlds of each scenario were visited, and how deep. A million take some minutes and a gigabyte.
explore:
	@$(ONE) $(GO) test -count=1 -timeout=0 -p=1 -parallel=2 -v -run='TestExplore/$(SCENARIO)' ./rlock/internal/explorer ./rlock/internal/line -args -states=$(or $(STATES),300000)

# Each fuzzer looks for new cases for as long as FUZZTIME says, and goes on from where it was the last time.
fuzz:
	@$(ONE) $(GO) run ./rlock_test/suite -set=all -known -fuzztime=$(or $(FUZZTIME),10s) -step='$(or $(FUZZER),Fuzz)'

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags tools .
	$(GO) build -C rlock_test/tools -o $(CURDIR)/.bin/ honnef.co/go/tools/cmd/staticcheck
	.bin/staticcheck ./...
	$(GO) mod tidy -diff
	$(GO) mod verify
	@for module in $(MODULES); do \
		(cd $$module && $(GO) vet ./... && $(CURDIR)/.bin/staticcheck ./... && $(GO) mod tidy -diff) || exit 1; \
	done
	cd rlock_test/tools && $(GO) mod tidy -diff

check:
	$(GO) run ./generator/redislua -check
	$(GO) run ./generator/redislua -check -scripts rlock_test/corpus/lua -out rlock_test/corpus/bindings
	$(GO) run ./generator/redislua -check -client goredis -scripts scripts -out rlock_test/goredis/gen
	$(GO) run ./generator/redislua -check -client goredis -scripts rlock_test/corpus/lua -out rlock_test/goredis/bindings
	$(GO) run ./generator/redislua -check -client goredis -replicas -standalone -scripts rlock_test/goredis/lua -out rlock_test/goredis/reads

generate:
	$(GO) generate ./...
	$(GO) generate -C rlock_test/goredis ./...

# Beside what Go programs use for locks on Redis today, on the same server. The results go
# into rlock_test/peers/{results,goals}.csv, the charts in docs, and the README.
bench:
	$(ALL) $(GO) test -C rlock_test/peers -count=1 -timeout=0 -args -full -write

bench-quick:
	$(ALL) $(GO) test -C rlock_test/peers -count=1 -timeout=0 -args -quick

# The tests have npm install its libraries, so they need Node.js and its registry at first.
interop:
	$(ALL) $(GO) test -C rlock_test/interop -count=1

platforms:
	$(GO) test -count=1 -timeout=0 -v ./rlock_test/platforms

# VULNDB=file:///… is a copy of the database, where its site cannot be reached.
vuln:
	$(GO) build -C rlock_test/tools -o $(CURDIR)/.bin/ golang.org/x/vuln/cmd/govulncheck
	@for module in . $(MODULES); do (cd $$module && $(CURDIR)/.bin/govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...) || exit 1; done

# The race detector needs a C compiler, and so do the tests in which the server's clock jumps.
compiler:
	@command -v "$${CC:-cc}" >/dev/null || { echo "There is no C compiler: make setup installs one, or name yours in CC." >&2; exit 1; }
