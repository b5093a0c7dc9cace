#!/bin/sh
# Builds the emulated gateway's kernels from Debian's linux-source-6.1 and
# prints the path of each vmlinux on stdout; what it does goes to stderr.
#
#   build.sh [KERNEL...]      build them, or find them in the cache
#   build.sh -n [KERNEL...]   print where they are or will be, and build nothing
#   build.sh -k DIR KERNEL [FILE...]
#                             build one with the options of FILEs on top, in the
#                             folder DIR, which is kept: the next one there
#                             compiles only what is different
#
# full       what the firmware can use (board/rtl8196e/kernel.fragment), and
#            what tests need; the default
# incumbent  what the kernel of today's firmware has, and no more
#
# The cache is ${GW_CACHE:-$HOME/.cache/gwinit}/kernel/KEY; KEY covers what
# goes into a kernel: its options, board.dtsi, this script, source and compiler.
# A second caller waits for the first.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tarball=/usr/src/linux-source-6.1.tar.xz
top=linux-source-6.1
cross=mips-linux-gnu-
cache=${GW_CACHE:-$HOME/.cache/gwinit}/kernel

say() { echo "kernel: $*" >&2; }
die() {
	say "$*"
	exit 1
}

# options prints a kernel's fragments as one, and more files after them: the last
# word on each option, in an order of its own and without comments, so that neither
# makes a new kernel.
options() {
	case $1 in
	full) fragments="machine incumbent ../../../board/rtl8196e/kernel.fragment tests" ;;
	incumbent) fragments="machine incumbent" ;;
	*) die "no kernel $1; full or incumbent" ;;
	esac
	shift
	{
		(cd "$here" && cat $fragments)
		[ $# = 0 ] || cat "$@"
	} | awk '
		/^CONFIG_[A-Z0-9_]+=/ { split($0, part, "="); name = part[1] }
		/^# CONFIG_[A-Z0-9_]+ is not set$/ { name = $2 }
		name != "" { last[name] = $0; name = "" }
		END { for (name in last) print last[name] }' | LC_ALL=C sort
}

version=$(dpkg-query -W -f '${Version}' linux-source-6.1 2>/dev/null) && [ -r $tarball ] &&
	compiler=$(${cross}gcc --version 2>/dev/null | head -n 1) ||
	die "linux-source-6.1 or the cross compiler is missing: test/deps/deps.sh kernel"
# path prints where a kernel is.
path() {
	options "$1" >/dev/null
	key=$({
		options "$1"
		cat "$here/board.dtsi" "$here/lost-timer.c" "$here/build.sh"
		echo "$version $compiler"
	} | sha256sum | cut -c 1-16)
	echo "$cache/$key/vmlinux"
}

only= keep=
case ${1-} in
-n)
	only=1
	shift
	;;
-k)
	[ $# -ge 3 ] || die "usage: build.sh -k DIR KERNEL [FILE...]"
	mkdir -p "$2"
	keep=$(cd "$2" && pwd)
	shift 2
	;;
esac
[ $# -gt 0 ] || set -- full

# missing prints those of its arguments that are not in the cache.
missing() {
	for kernel; do
		out=$(path "$kernel") || exit
		[ -e "$out" ] || echo "$kernel"
	done
}
answer() {
	for kernel; do
		path "$kernel"
	done
	exit 0
}

if [ -n "$keep" ]; then
	todo=$1
	shift
	options "$todo" "$@" >"$keep/options.new"
	work=$keep
else
	todo=$(missing "$@")
	[ -z "$only" ] && [ -n "$todo" ] || answer "$@"
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock -n 9 || {
		say "another build is running, waiting for it"
		flock 9
	}
	todo=$(missing "$@")
	[ -n "$todo" ] || answer "$@"
	# What an interrupted build left behind goes first: we hold the lock.
	rm -rf "$cache"/build.*
	work=$(mktemp -d "$cache/build.XXXXXX")
	say "building" $todo "once: about 5 minutes each on 2 cores"
fi
# A shell acts on a signal once its command is done, so the long ones are
# waited for in the background.
job=
trap '[ -z "$job" ] || kill $job 2>/dev/null; wait; [ -n "$keep" ] || rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
began=$(date +%s)
took() { echo "$(($(date +%s) - began)) s"; }

unpack() {
	say "unpacking what is needed of $tarball"
	# Kconfig and Makefiles are read all over the tree, sources only where
	# something is switched on.
	cat >"$work/exclude" <<END
$top/Documentation/*/*
$top/LICENSES/*
$top/rust/*
$top/tools/[!i]*
$top/virt/*.[ch]
$top/samples/*.[chS]
$top/sound/*.[ch]
$top/arch/[!m]*/*.*
$top/arch/m68k/*
$top/arch/microblaze/*
$top/drivers/gpu/*.[chS]
$top/drivers/infiniband/*.[ch]
$top/drivers/media/*.[ch]
$top/drivers/net/wireless/*.[ch]
$top/drivers/scsi/*.[ch]
$top/drivers/staging/*.[ch]
END
	rm -rf "$work/src"
	mkdir "$work/src"
	tar x -f $tarball -I 'xz -dc -T0' --strip-components=1 -X "$work/exclude" -C "$work/src" &
	job=$!
	wait $job || die "unpacking failed"
	job=
	cp "$here/board.dtsi" "$work/src/arch/mips/boot/dts/mti/"
	echo '#include "board.dtsi"' >>"$work/src/arch/mips/boot/dts/mti/malta.dts"
	# Malta measures its clock against the RTC, whose update flag QEMU shows for
	# 244 us in a second: 2 s of every boot, and 20 on a host so busy that the guest
	# misses it. QEMU's counter takes 6 ns a step whatever the host does.
	time_c=$work/src/arch/mips/mti-malta/malta-time.c
	sed -i -e 's|^\testimate_frequencies();|\tmips_hpt_frequency = 1000000000 / 6;|' \
		-e 's|^static void __init estimate_frequencies|static void __init __maybe_unused estimate_frequencies|' \
		-e 's|^\tsetup_pit_timer();||' "$time_c"
	[ "$(grep -cE 'mips_hpt_frequency = 1000000000|setup_pit_timer' "$time_c")" = 1 ] ||
		die "malta-time.c is not what this script knows"
	cat "$here/lost-timer.c" >>"$time_c"
}

# Time, user and host are pinned: nothing of this machine is in the kernel.
build() {
	exec make -C "$work/src" O="$work/$kernel" ARCH=mips CROSS_COMPILE=$cross \
		KCONFIG_ALLCONFIG="$work/options" KBUILD_BUILD_TIMESTAMP=2024-01-01 \
		KBUILD_BUILD_USER=gwinit KBUILD_BUILD_HOST=gwinit "$@"
}
failed() {
	job=
	wait
	tail -n 30 "$work/log" >&2
	die "$kernel: $1 (after $(took))"
}

[ -n "$keep" ] && [ -e "$keep/unpacked" ] || {
	unpack
	touch "$work/unpacked"
}
[ -p "$work/fifo" ] || mkfifo "$work/fifo"
for kernel in $todo; do
	mkdir -p "$work/$kernel"
	if [ -n "$keep" ]; then
		mv "$keep/options.new" "$keep/options"
	else
		options "$kernel" >"$work/options"
	fi
	(build allnoconfig) >"$work/log" 2>&1 || failed "configuring failed"
	# An option that allnoconfig dropped for a missing dependency is a mistake
	# in a fragment, and would be found much later otherwise.
	lost=$(grep -E '^CONFIG_[A-Z0-9_]+=(y|[0-9]+)$' "$work/options" | grep -vxFf "$work/$kernel/.config" || true)
	[ -z "$lost" ] || die "$kernel: the configuration does not take" $lost

	say "$kernel: compiling ($(took))"
	awk -v log_="$work/log" -v kernel="$kernel" '{ print >log_ } /^  (CC|AS)  / && ++n % 200 == 0 {
		printf "kernel: %s: %d of about 880 files\n", kernel, n >"/dev/stderr" }' <"$work/fifo" &
	build -j"$(nproc)" vmlinux >"$work/fifo" 2>&1 &
	job=$!
	wait $job || failed "compiling failed"
	job=
	wait

	if [ -n "$keep" ]; then
		say "$kernel: done ($(took))"
		echo "$work/$kernel/vmlinux"
		exit 0
	fi
	out=$(path "$kernel")
	mkdir "$work/done"
	mv "$work/$kernel/vmlinux" "$work/done/"
	mv "$work/$kernel/.config" "$work/done/config"
	rm -rf "${out%/*}"
	mv "$work/done" "${out%/*}"
	say "$kernel: done ($(took))"
done
answer "$@"
