#!/bin/sh
# Run e2e.mjs, or the script GW_SCRIPT, with a Node.js that is new enough for the client: the one on the
# path, or else one from npm (package node, which holds the binary), kept
# outside the tree. Debian 12's own is 18.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
pinned=20.20.2
new_enough='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || a === 20 && b >= 11 ? 0 : 1)'
node=$(command -v node)
if ! "$node" -e "$new_enough"; then
	dir=${GW_CACHE:-$HOME/.cache/gwinit}/node/$pinned
	if [ ! -f "$dir/.complete" ]; then
		echo "run.sh: $node is $("$node" --version), which is too old; installing $pinned" >&2
		mkdir -p "$(dirname "$dir")"
		tmp=$(mktemp -d "$dir.XXXXXX")
		trap 'rm -rf "$tmp"' EXIT
		(cd "$tmp" && npm install --no-progress --no-audit --no-fund --prefix "$tmp" "node@$pinned" >&2)
		touch "$tmp/.complete"
		mv -T "$tmp" "$dir" 2>/dev/null || [ -f "$dir/.complete" ]
		trap - EXIT
	fi
	node=$dir/node_modules/.bin/node
fi
exec "$node" "${GW_SCRIPT:-$here/e2e.mjs}" "$@"
