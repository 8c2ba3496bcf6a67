# make run    regenerates the bindings and shows locks at work, in about ten seconds
# make test   runs every test, against real servers that the tests start themselves
# make lint   formatting, vet, staticcheck, tidiness
# make check  generated code is what the scripts say
# make fuzz   looks for scripts and replies that break the generator, FUZZTIME=10m long

GO ?= go
FUZZTIME ?= 10s

# Modules of their own, whose requirements are not those of rlock.
MODULES = rlock_test/fencing

# The servers to test with: Redis 7.0, Redis 8 and Valkey 8, or what the machine has.
SERVERS = servers=$$(sh rlock_test/engines.sh) && RLOCK_SERVERS=$$servers

.PHONY: run test fuzz lint check generate bench vuln needs

run:
	@echo "== bindings from scripts/*.lua"
	@$(GO) run ./generator
	@$(GO) run ./generator -audit
	@echo
	@echo "== demonstration"
	@$(GO) run ./rlock_test/demo

test: needs
	$(SERVERS) $(GO) test -race -count=1 -parallel=8 -timeout=15m ./...
	$(SERVERS) $(GO) test -count=1 -run='Budget|Schedules' ./rlock/ ./rlock_test/
	@for module in $(MODULES); do (cd $$module && $(GO) test -count=1 ./...) || exit 1; done
	@$(MAKE) --no-print-directory fuzz

# Each fuzzer looks for new cases for as long as FUZZTIME says.
fuzz:
	$(GO) test -run='^$$' -fuzz=FuzzParse -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./generator/internal/script
	$(GO) test -run='^$$' -fuzz=FuzzDecode -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./generator/internal/emit/runtime
	$(GO) test -run='^$$' -fuzz=FuzzGenerator -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x ./generator

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) build -o .bin/ honnef.co/go/tools/cmd/staticcheck
	.bin/staticcheck ./...
	$(GO) mod tidy -diff
	$(GO) mod verify
	@for module in $(MODULES); do \
		(cd $$module && $(GO) vet ./... && $(CURDIR)/.bin/staticcheck ./... && $(GO) mod tidy -diff) || exit 1; \
	done

check:
	$(GO) run ./generator -check
	$(GO) run ./generator -check -scripts rlock_test/corpus/lua -out rlock_test/corpus/bindings

generate:
	$(GO) generate ./...

bench: needs
	$(GO) test -run='^$$' -bench=. ./rlock_test/

vuln:
	$(GO) run golang.org/x/vuln/cmd/govulncheck ./...

# A server to test against, and the C compiler that the race detector needs.
needs:
	@$(SERVERS) sh rlock_test/needs.sh
