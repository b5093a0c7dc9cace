#!/usr/bin/env bash
# Runs every fuzz function of the module, one after the other, for $1 each: a
# time (10s) or a number of inputs (500x).
set -euo pipefail
cd "$(dirname "$0")/.."
budget=${1:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ran=0
while IFS=: read -r file name; do
	printf '== %s %s: ' "$(dirname "$file")" "$name"
	if go test -run '^$' -fuzz "^$name\$" -fuzztime "$budget" "./$(dirname "$file")" >"$log" 2>&1; then
		# A run that ends within its first report prints no count.
		grep -oE 'execs: [0-9]+' "$log" | tail -1 || echo 'passed'
	elif grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
		# The go command says so when the time ends in the middle of an
		# input; no input failed.
		echo 'time is over'
	else
		cat "$log"
		exit 1
	fi
	ran=$((ran + 1))
done < <(git grep -E '^func Fuzz' -- '*_test.go' | sed -nE 's/^([^:]+):func (Fuzz[A-Za-z0-9_]*)\(.*/\1:\2/p')
[ "$ran" -gt 0 ]
echo "$ran fuzz functions, none found anything"
