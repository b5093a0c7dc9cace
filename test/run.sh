#!/usr/bin/env bash
# `make test` behind the lint: host tests, the race detector, the same packages
# on a big-endian MIPS, the image, and the end-to-end tests on emulated boards.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

# The kernel takes minutes once and one core at a time: build it behind the rest.
step 'kernel for the emulated board (in the background; cached)'
mkdir -p build
test/board/kernel/build.sh >build/kernel.path 2>build/kernel.log &
kernel=$!
trap 'kill $kernel 2>/dev/null || true' EXIT

# test/board boots machines on that kernel and waits for it further down.
step 'unit tests'
go test $(go list ./... | grep -v '/test/board$')

step 'race detector'
go test -race ./internal/... ./services/... ./test/radio/...

# What needs ioctls or namespaces that qemu-user lacks is tried on the board.
step 'the target: 32 bit, big-endian, under qemu-mips'
GOOS=linux GOARCH=mips GOMIPS=softfloat CGO_ENABLED=0 go test -exec "$PWD/test/qemu-mips.sh" \
	./internal/applet ./internal/atomicfile ./internal/mtdimage ./internal/config ./internal/boothold \
	./internal/notify ./internal/logring ./services/eth/dhcp

step 'every fuzz function, some hundred inputs beyond its seeds'
test/fuzz.sh 300x >build/fuzz.log 2>&1 || { tail -40 build/fuzz.log; exit 1; }
tail -1 build/fuzz.log

step 'image'
make --no-print-directory image gwctl

step 'waiting for the kernel'
wait $kernel || { tail -40 build/kernel.log; echo 'the kernel did not build; build/kernel.log is the whole log'; exit 1; }
trap - EXIT

step 'the emulated board itself'
go test -timeout 30m ./test/board

step 'end to end, on emulated boards'
go test -tags e2e -count=1 -timeout 30m ./test/e2e

step 'done'
