#!/usr/bin/env bash
# Formatting, vet, staticcheck and what this project forbids itself.
set -euo pipefail
cd "$(dirname "$0")/.."
fail=0
say() { printf '%s\n' "$1" >&2; fail=1; }
tool() { go tool -modfile=tools/go.mod "$@"; }

bad=$(git ls-files -co --exclude-standard '*.go' | xargs -r -n 200 go tool -modfile=tools/go.mod gofumpt -l)
[ -z "$bad" ] || say "not formatted (gofumpt -w): $bad"

go vet ./... || say 'go vet failed'
go vet -tags e2e ./test/e2e/... || say 'go vet of the end-to-end tests failed'
# What runs on the gateway is vetted as the gateway sees it: 32 bit, big-endian.
GOOS=linux GOARCH=mips GOMIPS=softfloat CGO_ENABLED=0 go vet ./cmd/... ./internal/... ./services/... ./board/... || say 'go vet for the target failed'
for os in linux darwin windows; do
	GOOS=$os CGO_ENABLED=0 go build -o /dev/null ./cmd/gwctl || say "gwctl does not build for $os"
done
tool staticcheck ./... || say 'staticcheck failed'

# Every package-level init of every import runs in every process of the box,
# so nobody but SSH brings crypto/* in. An add-on's checksum is of what SSH has.
deps=$(GOOS=linux GOARCH=mips GOMIPS=softfloat CGO_ENABLED=0 go list -deps -tags no_sshd ./cmd/gwinit)
if grep -E '^(crypto/|net/http$|testing$)' <<<"$deps" >&2; then
	say 'the gateway binary imports the packages above: they do not fit it'
fi
users=$(GOOS=linux GOARCH=mips GOMIPS=softfloat CGO_ENABLED=0 go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' ./cmd/gwinit ./internal/... ./services/... |
	grep -E ' (crypto(/|$)|golang.org/x/crypto/)' | grep -vE '^gwinit/(services/sshd/server|internal/crypt|internal/addon|internal/minisign|internal/gwctl/(remote|image|flash|install|rollout|ddi|update|ddi/dditest|fleet/fleettest)|internal/bundle/bundletest|services/wireguard) ' || true)
[ -z "$users" ] || say "crypto outside of SSH: $users"
if git grep -nIE '\b(TODO|FIXME|XXX|HACK)\b' -- '*.go' '*.sh' '*.md' '*.mjs' Makefile ':!test/lint.sh' >&2; then
	say 'left open in the tree: do it or drop it'
fi
# io.Copy calls an embedded buffer's ReadFrom in place of the type's own Write.
if git grep -nE '^\s+\*?(bytes\.Buffer|bufio\.Writer)$' -- '*.go' ':!*_test.go' ':!toolchain/rlx/goroot' >&2; then
	say 'embedded buffers: io.Copy goes past their Write (internal/gwctl/bounded)'
fi
[ $fail = 0 ] && echo 'lint: clean'
exit $fail
