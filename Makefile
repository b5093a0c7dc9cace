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
# Stock Go's code computes wrong values on the RTL8196E without a trap: until
# our own toolchain builds them, images say that they are for the emulated board.
VERSION  := $(RELEASE)-$(COMMIT)-emulated-board-only

# The target: big-endian MIPS, no FPU, no cgo. No inlining: a sixth of the flash.
MIPS     := GOOS=linux GOARCH=mips GOMIPS=softfloat CGO_ENABLED=0
GCFLAGS  ?= -gcflags=all=-l
# The faults of Go's 32-bit MIPS runtime that would keep the CPU busy, mended.
OVERLAY  := -overlay=build/_overlay/overlay.json
# Our linker lays out what the boot touches together: most of the time between
# the kernel and a listening port is spent decompressing what is touched.
LAYOUT   := -toolexec=$(CURDIR)/build/rlx
export RLX_ORDER := $(CURDIR)/toolchain/rlx/boot.order
LDFLAGS  := -s -w -buildid= -X main.version=$(VERSION)
BUILD    := go build -trimpath -buildvcs=false
FUZZTIME ?= 10s
GOTOOL   := go tool -modfile=tools/go.mod

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sort | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

build:
	@mkdir -p build

# --- what is built -----------------------------------------------------------

.PHONY: gw
gw: | build ## build the MIPS binary, build/gw
	@go build -o build/rlx ./toolchain/rlx && build/rlx overlay -out build/_overlay
	$(MIPS) RLX_MAP=$(CURDIR)/build/gw.map $(BUILD) $(OVERLAY) $(LAYOUT) $(GCFLAGS) -ldflags='$(LDFLAGS)' -o $(OUT)/gw ./cmd/gwinit
	@ls -l $(OUT)/gw

.PHONY: gwctl
gwctl: | build ## build the workstation's gwctl, build/gwctl
	CGO_ENABLED=0 $(BUILD) -ldflags='$(LDFLAGS)' -o build/gwctl ./cmd/gwctl
	@ls -l build/gwctl

.PHONY: image
image: ## build/rootfs.bin and build/userdata.bin (BOARD=emulated)
ifneq ($(BOARD),emulated)
	@echo 'make image BOARD=$(BOARD): refused. The Go compiler used here emits code that an RTL8196E runs wrongly without any error,' >&2
	@echo 'so an image for a real board would not work. Only BOARD=emulated can be built for now.' >&2
	@exit 2
else
	@test/deps/deps.sh image
	@$(MAKE) --no-print-directory gw
	go run ./rootfs/size -check $(OUT)/gw
	go run ./rootfs/mkimage -gw $(OUT)/gw -out $(OUT) -version '$(VERSION)' -applets "$$(go run ./cmd/gwinit -list)"
endif

.PHONY: size
size: image ## what each part of the binary costs in the 2 MiB rootfs
	go run ./rootfs/size -mips '$(MIPS)' -flags '$(OVERLAY) $(LAYOUT) $(GCFLAGS)' $(OUT)/gw

.PHONY: layout
layout: image ## record anew what the boot touches (toolchain/rlx/boot.order), about 3 minutes
	@test/deps/deps.sh image kernel qemu
	go run ./test/bench/boot -record toolchain/rlx/boot.order

# --- the emulated gateway ----------------------------------------------------

BOARD_TOOL := go run ./test/board/run

.PHONY: run
run: ## boot the emulated gateway (HEADLESS=1, KERNEL=, ROOTFS=, BRIDGE_PORT=, SSH_PORT=, RESET=1)
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
soak: image ## the long form: power cuts, kills with their back-off, load
	@test/deps/deps.sh image kernel qemu e2e
	GW_SOAK=1 go test -count=1 -timeout 1h -v -run '^TestFullRate$$' ./services/bridge
	GW_SOAK=1 go test -tags e2e -count=1 -timeout 4h -v -run '$(or $(RUN),.)' ./test/e2e

.PHONY: bench bench-boot
bench: bench-boot ## every benchmark; results in build/bench
bench-boot: image ## instructions from init to a listening bridge
	@test/deps/deps.sh image kernel qemu
	@mkdir -p build/bench
	go run ./test/bench/boot -n 5 -out build/bench/boot.json

.PHONY: fuzz
fuzz: ## every fuzz function for FUZZTIME (10s)
	@test/fuzz.sh $(FUZZTIME)

.PHONY: lint
lint: ## formatting, vet, staticcheck, house rules
	@test/lint.sh

.PHONY: clean
clean: ## remove build/ (caches stay)
	rm -rf build
