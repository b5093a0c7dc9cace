#!/usr/bin/env bash
# Runs every fuzz function of the module, one after the other, for $1 each.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
git grep -lE '^func Fuzz' -- '*_test.go' | while read -r file; do
	sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$file" | while read -r name; do
		printf '== %s %s\n' "$(dirname "$file")" "$name"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$(dirname "$file")"
	done
done
