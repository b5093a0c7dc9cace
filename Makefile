# Everything is driven from here: `make help` lists the targets. Nothing below
# needs more than Go, make and (as root or with sudo) Debian's packages, which
# the targets install themselves.

SHELL     := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Debian keeps mkfs.jffs2 where an ordinary user's path does not lead.
export PATH := $(PATH):/usr/sbin:/sbin

# Long-built things (kernel, node modules) are kept here, keyed by their inputs.
export GW_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/gwinit

BOARD    ?= emulated
OUT      ?= build
COMMIT   := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)$(shell git diff --quiet HEAD 2>/dev/null || echo +)
RELEASE  := $(shell cat VERSION)
VERSION  := $(RELEASE)-$(COMMIT)

# The target: big-endian MIPS, no FPU, no cgo, by a Go of our own: stock Go's
# code computes wrong values on the RTL8196E (docs/toolchain.md).
RLX      := $(CURDIR)/build/rlx
MIPS_GO  := $(RLX) go
# How much is inlined and how registers are picked was measured, in flash and
# instructions (docs/symbols.md, docs/toolchain.md): little and the lowest ones
# for what rarely runs, the most for what carries each byte.
HOT      := runtime internal/runtime/... sync internal/sync
GCFLAGS  ?= -gcflags=all=-d=inlbudget=30,regpick=1 $(HOT:%=-gcflags=%=-d=inlbudget=80) -gcflags=gwinit/services/bridge=-d=inlbudget=30,regpick=2
# The linker lays out what the boot touches together: most of the time between
# the kernel and a listening port is spent decompressing what is touched. Files,
# lines and functions' names go to a file beside the binary, for `gwctl symbolize`. An empty
# build ID has the go command link anew each time: it does not know the list.
STRIP    := -s -w -buildid= -noinltree -nonames
LDFLAGS  := $(STRIP) -order=$(CURDIR)/toolchain/rlx/boot.order -X main.version=$(VERSION)
# TAGS=no_shell,no_mdns: without those (docs/size.md names them).
TAGS     ?=
MIPS_BUILD := -trimpath -buildvcs=false $(if $(TAGS),-tags '$(TAGS)') $(GCFLAGS)
BUILD    := go build -trimpath -buildvcs=false
FUZZTIME ?= 10s
GOTOOL   := go tool -modfile=tools/go.mod

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | LC_ALL=C sort | expand -t 17

build:
	@mkdir -p build

# --- what is built -----------------------------------------------------------

.PHONY: toolchain
toolchain: | build ## our Go for the RLX4181 (about a minute and a half, once)
	@go build -o build/rlx ./toolchain/rlx && build/rlx goroot >build/goroot

.PHONY: toolchain-test
toolchain-test: toolchain ## does it fit this Go, and is each edit needed? (about an hour)
	@test/deps/deps.sh test kernel
	GW_SOAK=1 go test -count=1 -timeout 2h ./toolchain/...

.PHONY: gw
gw: toolchain ## build the MIPS binary, build/gw, and its symbol file build/gw.sym
	$(MIPS_GO) build $(MIPS_BUILD) -ldflags='$(LDFLAGS) -symfile=$(abspath $(OUT))/gw.sym -ordermap=$(abspath $(OUT))/gw.map' -o $(OUT)/gw ./cmd/gwinit
	@ls -l $(OUT)/gw
	@build/rlx check -strict-sc $(OUT)/gw

# What does not fit the rootfs: files for /userdata/system/addons, each with the
# checksum without which it is not run.
.PHONY: addons
addons: toolchain ## build the add-ons (WireGuard), build/addons/NAME and NAME.sha256
	@mkdir -p $(OUT)/addons
	$(MIPS_GO) build $(MIPS_BUILD) -ldflags='$(STRIP) -symfile=$(abspath $(OUT))/gw-wireguard.sym' -o $(OUT)/addons/gw-wireguard ./cmd/gw-wireguard
	@build/rlx check -strict-sc $(OUT)/addons/gw-wireguard
	cd $(OUT)/addons && sha256sum gw-wireguard >gw-wireguard.sha256
	@ls -l $(OUT)/addons

.PHONY: check-isa
check-isa: gw ## look for instructions that the RLX4181 does not execute as meant
	build/rlx check -strict-sc -stats $(OUT)/gw

.PHONY: gwctl
gwctl: | build ## build the workstation's gwctl, build/gwctl
	CGO_ENABLED=0 $(BUILD) -ldflags='-s -w -buildid= -X main.version=$(VERSION)' -o build/gwctl ./cmd/gwctl
	@ls -l build/gwctl

# One image is for every board: which one it runs on is found at run time.
.PHONY: image
image: ## build/rootfs.bin and build/userdata.bin (BOARD=emulated, lidl, sengled-e39-g8c; SSH_KEY=FILE)
	@case '$(BOARD)' in emulated|lidl|sengled-e39-g8c) ;; *) echo 'make image BOARD=$(BOARD): no such board; emulated, lidl or sengled-e39-g8c (one image is for all three)' >&2; exit 2;; esac
	@test/deps/deps.sh image
	@$(MAKE) --no-print-directory gw
	go run ./rootfs/size -check $(OUT)/gw
	go run ./rootfs/mkimage -gw $(OUT)/gw -map $(OUT)/gw.map -out $(OUT) $(if $(SSH_KEY),-ssh-key '$(SSH_KEY)') -version '$(VERSION)' -applets "$$(go run $(if $(TAGS),-tags '$(TAGS)') ./cmd/gwinit -list)"

.PHONY: fullflash
fullflash: image ## build/fullflash.bin, 16 MiB: BOOT= and KERNEL= are your own, and what make image makes
	go run ./rootfs/fullflash -boot '$(BOOT)' -kernel '$(KERNEL)' -dir $(OUT)

.PHONY: release
release: ## build/gw-VERSION.update, signed (KEY=FILE, minisign's secret key, FILE without its ending and .pub beside it)
	@test -n '$(KEY)' || { echo 'make release KEY=FILE: `minisign -G -p release.pub -s release.key` makes a key' >&2; exit 2; }
	@test/deps/deps.sh image release
	@$(MAKE) --no-print-directory gw
	go run ./rootfs/mkbundle -gw $(OUT)/gw -map $(OUT)/gw.map -version '$(VERSION)' -key '$(KEY)' -out '$(OUT)/gw-$(VERSION).update'

.PHONY: size
size: image ## what each part of the binary costs in the 2 MiB rootfs
	go run ./rootfs/size -go '$(MIPS_GO)' $(OUT)/gw $(MIPS_BUILD) -ldflags='$(LDFLAGS) -symfile=$(CURDIR)/build/size.sym'

.PHONY: layout
layout: image ## record anew what the boot touches (toolchain/rlx/boot.order), about 3 minutes
	@test/deps/deps.sh image kernel qemu
	go run ./test/bench/boot -record toolchain/rlx/boot.order

# --- the emulated gateway ----------------------------------------------------

BOARD_TOOL := go run ./test/board/run

.PHONY: run
run: ## boot the emulated gateway (HEADLESS=1, KERNEL=, ROOTFS=, BRIDGE_PORT=, SSH_PORT=, BENCH_PORT=, RESET=1)
	@test/deps/deps.sh image kernel qemu
	@$(if $(ROOTFS),,$(MAKE) --no-print-directory image BOARD=emulated)
	@go build -o build/board ./test/board/run && go build -o build/radiosim ./test/radio/sim
	@exec build/board run

.PHONY: stop
stop: | build ## end the gateway that `make run HEADLESS=1` started
	@go build -o build/board ./test/board/run && build/board stop

.PHONY: status
status: | build ## type `gwctl status` on that gateway's console
	@go build -o build/board ./test/board/run && build/board status

# --- tests -------------------------------------------------------------------

.PHONY: test
test: ## everything, in its short form
	@test/deps/deps.sh image kernel qemu test e2e
	@$(MAKE) --no-print-directory lint
	@test/run.sh

.PHONY: soak
soak: image addons ## the long form: power cuts, kills with their back-off, load
	@test/deps/deps.sh image kernel qemu test e2e
	GW_SOAK=1 go test -count=1 -timeout 1h -v -run '^(TestFullRate|TestStorm)$$' ./services/bridge
	GW_SOAK=1 go test -tags e2e -count=1 -timeout 4h -v -run '$(or $(RUN),.)' ./test/e2e/...

.PHONY: bench bench-boot bench-bridge bench-manage bench-qdisc bench-toolchain
bench: bench-boot bench-bridge bench-toolchain ## every benchmark; results in build/bench
bench-toolchain: image ## instructions, code and flash beside stock Go's
	@go build -o build/rlxemu ./toolchain/rlx/emu/rlxemu
	go run ./test/bench/toolchain -- $(GCFLAGS) -ldflags='$(STRIP) -symfile=$(CURDIR)/build/bench.sym'
bench-boot: image ## instructions from init to a listening bridge
	@test/deps/deps.sh image kernel qemu
	@mkdir -p build/bench
	go run ./test/bench/boot -n 5 -out build/bench/boot.json

bench-bridge: image ## the bridge beside ser2net, socat and a C loop (RUNS=7, ONLY=host, guest, bulk)
	@test/deps/deps.sh image kernel qemu bench
	CGO_ENABLED=0 $(BUILD) -o build/gw.host ./cmd/gwinit
	go run ./test/bench/bridge -n $(or $(RUNS),7) $(if $(ONLY),-only $(ONLY))

.PHONY: bench-iperf3
bench-iperf3: | build ## iperf3's server beside the C one, on this computer (RUNS=5)
	@test/deps/deps.sh test
	CGO_ENABLED=0 $(BUILD) -o build/gw.host ./cmd/gwinit
	go run ./test/bench/iperf3 -n $(or $(RUNS),5)

bench-manage: image ## what a scrape and a login cost, and what they leave to the bridge (15 minutes)
	@test/deps/deps.sh image kernel qemu bench
	go run ./test/bench/bridge -only manage -out build/bench/manage.json

bench-qdisc: image ## the bridge beside bulk TCP, by pfifo and fq_codel (5 minutes; draws docs/qdisc.svg)
	@test/deps/deps.sh image kernel qemu bench
	go run ./test/bench/bridge -only qdisc -out build/bench/qdisc.json -svg docs/qdisc.svg

.PHONY: bench-wireguard
bench-wireguard: image addons ## the tunnel beside the kernel's own and beside none, on the emulated board (as root)
	@test/deps/deps.sh image kernel qemu bench test
	go run ./test/bench/wireguard

.PHONY: fuzz
fuzz: ## every fuzz function for FUZZTIME (10s)
	@test/fuzz.sh $(FUZZTIME)

.PHONY: lint
lint: ## formatting, vet, staticcheck, house rules
	@test/lint.sh

.PHONY: clean
clean: ## remove build/ (caches stay)
	rm -rf build
