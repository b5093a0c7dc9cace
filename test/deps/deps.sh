#!/bin/sh
# Installs the Debian packages that a target of the Makefile needs.
#
#   deps.sh GROUP...      groups: image release kernel qemu test e2e bench
#
# Silent when everything is there. Otherwise installs as root or through a
# sudo that asks nothing; without either it prints the command and exits 1.
set -eu

packages() {
	case $1 in
	image) echo squashfs-tools-ng mtd-utils xz-utils ;;
	release) echo minisign ;;
	kernel) echo linux-source-6.1 gcc-mips-linux-gnu gcc libc6-dev make flex bison bc xz-utils ;;
	qemu) echo qemu-system-mips gcc libc6-dev ;;
	# The peers of the unit tests: a big-endian user mode, a DHCP server in
	# a network namespace, an mDNS host and a resolver, three SSH clients and a port
	# scanner at the bridge's door, a C compiler for the race detector.
	test)
		echo openssh-client dropbear-bin putty-tools nmap qemu-user dnsmasq-base iproute2 util-linux procps mtd-utils squashfs-tools squashfs-tools-ng gcc libc6-dev git
		echo busybox udhcpd radvd tcpdump # another DHCP server, an IPv6 router, a host that takes an address
		echo tftp-hpa atftp           # talk to the emulated loader
		echo nftables             # reads what the firewall has written
		echo minisign             # signs what updates are verified by
		echo avahi-daemon avahi-utils dbus-daemon bind9-dnsutils iperf3
		echo libcap2 libedit2 libgnutls30 libnettle8 libseccomp2 # chronyd's, see below
		;;
	# The bridge's peers in its benchmark, and what compiles the C one.
	bench) echo ser2net socat gcc libc6-dev gcc-mips-linux-gnu mtd-utils util-linux ;;
	# Any node will do that is on the path already: Debian's is older
	# than the one many people install from elsewhere.
	e2e)
		command -v node >/dev/null || echo nodejs
		command -v npm >/dev/null || echo npm
		;;
	*)
		echo "deps.sh: no group $1; groups: image release kernel qemu test e2e bench" >&2
		return 2
		;;
	esac
}

[ $# -gt 0 ] || {
	echo "usage: deps.sh GROUP...   groups: image release kernel qemu test e2e bench" >&2
	exit 2
}

# Servers for the unit tests: a time server, a syslog server, and what checks
# Prometheus text. They are unpacked and not installed: they would
# take the place of the machine's own services, and set the clock.
unpack() { # NAME PROGRAM PACKAGE...
	at=${XDG_CACHE_HOME:-$HOME/.cache}/gwinit/$1
	[ ! -x "$at/$2" ] || return 0
	shift 2
	command -v dpkg-deb >/dev/null && command -v apt-get >/dev/null || {
		echo "deps.sh: no Debian system; unpack its packages $* into $at" >&2
		return 1
	}
	dir=$(mktemp -d)
	if ! { (cd "$dir" && apt-get download "$@") && find "$dir" -name "*.deb" -exec dpkg-deb -x {} "$dir/x" \; &&
		mkdir -p "$at" && cp -R "$dir/x/." "$at/"; } >"$dir/log" 2>&1; then
		tail -5 "$dir/log" >&2
		echo "deps.sh: that failed: apt-get download $*, and unpack it into $at; apt-get update first?" >&2
		rm -rf "$dir"
		return 1
	fi
	rm -rf "$dir"
}

wanted=
for group in "$@"; do
	if [ "$group" = test ]; then
		unpack chrony usr/sbin/chronyd chrony
		unpack rsyslog usr/sbin/rsyslogd rsyslog libestr0 libfastjson4 liblognorm5
		unpack prometheus usr/bin/promtool prometheus
	fi
	list=$(packages "$group")
	wanted="$wanted $list"
done
wanted=$(printf '%s\n' $wanted | sort -u)
[ -n "$wanted" ] || exit 0

if ! command -v dpkg-query >/dev/null; then
	echo "deps.sh: no Debian system; this must be there:" $wanted >&2
	exit 1
fi
have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort -u)
missing=$(printf '%s\n%s\n' "$wanted" "$have" | sort | uniq -u | tr '\n' ' ')
missing=${missing% }
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends $missing"
if [ "$(id -u)" = 0 ]; then
	as=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	as="sudo -n"
else
	echo "deps.sh: packages are missing; as root:" >&2
	echo "  apt-get update && $install" >&2
	exit 1
fi

echo "deps.sh: installing $missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The lists are fetched only when the packages cannot be had from those that
# are there: on a machine in use that is the rare case.
if ! $as $install >"$log" 2>&1; then
	echo "deps.sh: apt-get update" >&2
	if ! { $as apt-get update && $as $install; } >"$log" 2>&1; then
		tail -20 "$log" >&2
		echo "deps.sh: that failed: $install" >&2
		exit 1
	fi
fi
