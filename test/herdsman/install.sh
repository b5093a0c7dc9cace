#!/bin/sh
# Install the pinned client outside the tree and print the folder that holds it.
# The folder is named by the lock file, so a changed lock is another folder and
# an installed one is used as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
hash=$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c1-16)
dir=${GW_CACHE:-$HOME/.cache/gwinit}/herdsman/$hash
if [ ! -f "$dir/.complete" ]; then
	mkdir -p "$(dirname "$dir")"
	# Built aside and moved, so that two installs at once do no harm.
	tmp=$(mktemp -d "$dir.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$tmp"
	(cd "$tmp" && npm ci --no-progress >&2)
	touch "$tmp/.complete"
	mv -T "$tmp" "$dir" 2>/dev/null || [ -f "$dir/.complete" ]
fi
echo "$dir"
