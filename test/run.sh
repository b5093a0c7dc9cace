#!/usr/bin/env bash
# `make test` behind the lint: host tests, the race detector, the same packages
# on a big-endian MIPS, the image, and the end-to-end tests on emulated boards.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

# The kernels take minutes once and one core at a time: build them behind the rest.
step 'kernels for the emulated board (in the background; cached)'
mkdir -p build
test/board/kernel/build.sh full incumbent >build/kernel.path 2>build/kernel.log &
kernel=$!
trap 'kill $kernel 2>/dev/null || true' EXIT

# A minute and a half of two cores, once.
step 'our Go for the gateway (cached)'
make --no-print-directory toolchain

# test/board boots machines on that kernel and waits for it further down.
step 'unit tests'
go test $(go list ./... | grep -v '/test/board$')

step 'race detector'
go test -race ./internal/... ./services/... ./test/radio/...

# The core's rules are kept by whom they are written for: the interpreter stops
# at the first load that is used too early. What needs ioctls, a socket's filter or
# namespaces is tried on the board.
step 'the target: 32 bit, big-endian, the RLX4181 as an interpreter'
go build -o build/rlxemu ./toolchain/rlx/emu/rlxemu
build/rlx go test -exec "$PWD/build/rlxemu -mode strict" -skip '^TestAnswerFilter$' \
	./internal/applet ./internal/atomicfile ./internal/mtdimage ./internal/config ./internal/boothold \
	./internal/dnssd ./internal/logring ./services/eth/dhcp
# The packets of these, without the network namespaces of their other tests.
GWINIT_NETLAB=1 build/rlx go test -exec "$PWD/build/rlxemu -mode strict" -run 'Bytes|Parse|Golden' ./services/eth/arp ./internal/netdev ./services/firewall/nft
# Descriptors travel in control messages, which the interpreter does not have,
# nor the system calls with 64-bit times that set something; passwords take it
# minutes.
build/rlx go test -exec "$PWD/test/qemu-mips.sh" ./internal/notify ./internal/time64 ./internal/crypt ./internal/enrol ./services/sshd/sftp ./services/sshd/scp
# The self-test breaks the rules on purpose, in code that it writes itself.
build/rlx go test -exec "$PWD/build/rlxemu -mode rlx" ./internal/selftest

step 'every fuzz function, some hundred inputs beyond its seeds'
test/fuzz.sh 300x >build/fuzz.log 2>&1 || { tail -40 build/fuzz.log; exit 1; }
tail -1 build/fuzz.log

step 'image'
make --no-print-directory image addons gwctl

step 'waiting for the kernels'
wait $kernel || { tail -40 build/kernel.log; echo 'a kernel did not build; build/kernel.log is the whole log'; exit 1; }
trap - EXIT

step 'the emulated board itself'
go test -timeout 30m ./test/board

step 'end to end, on emulated boards'
go test -tags e2e -count=1 -timeout 50m ./test/e2e/...

step 'done'
