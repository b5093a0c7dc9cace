#!/bin/sh
# Builds the emulated gateway's kernel from Debian's linux-source-6.1 and
# prints the path of vmlinux on stdout; what it does goes to stderr.
#
#   build.sh        build it, or find it in the cache
#   build.sh -n     print where it is or will be, and build nothing
#
# The cache is ${GW_CACHE:-$HOME/.cache/gwinit}/kernel/KEY; KEY covers what
# goes into a kernel: fragment, board.dtsi, this script, source and compiler.
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

version=$(dpkg-query -W -f '${Version}' linux-source-6.1 2>/dev/null) && [ -r $tarball ] &&
	compiler=$(${cross}gcc --version 2>/dev/null | head -n 1) ||
	die "linux-source-6.1 or the cross compiler is missing: test/deps/deps.sh kernel"
key=$({
	cat "$here/fragment" "$here/board.dtsi" "$here/lost-timer.c" "$here/build.sh"
	echo "$version $compiler"
} | sha256sum | cut -c 1-16)
out=$cache/$key/vmlinux

if [ "${1-}" = -n ] || [ -e "$out" ]; then
	echo "$out"
	exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || {
	say "another build is running, waiting for it"
	flock 9
}
if [ -e "$out" ]; then
	echo "$out"
	exit 0
fi

# What an interrupted build left behind goes first: we hold the lock.
rm -rf "$cache"/build.*
work=$(mktemp -d "$cache/build.XXXXXX")
# A shell acts on a signal once its command is done, so the long ones are
# waited for in the background.
job=
trap '[ -z "$job" ] || kill $job 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
began=$(date +%s)
took() { echo "$(($(date +%s) - began)) s"; }

say "building $key once: about 5 minutes on 2 cores"
say "unpacking what is needed of $tarball"
# Kconfig and Makefiles are read all over the tree, sources only where
# something is switched on.
cat >"$work/exclude" <<EOF
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
EOF
mkdir "$work/src" "$work/out"
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

# Time, user and host are pinned: nothing of this machine is in the kernel.
build() {
	exec make -C "$work/src" O="$work/out" ARCH=mips CROSS_COMPILE=$cross \
		KCONFIG_ALLCONFIG="$here/fragment" KBUILD_BUILD_TIMESTAMP=2024-01-01 \
		KBUILD_BUILD_USER=gwinit KBUILD_BUILD_HOST=gwinit "$@"
}
failed() {
	job=
	wait
	tail -n 30 "$work/log" >&2
	die "$1 (after $(took))"
}
(build allnoconfig) >"$work/log" 2>&1 || failed "configuring failed"
# An option that allnoconfig dropped for a missing dependency is a mistake
# in the fragment, and would be found much later otherwise.
lost=$(grep -E '^CONFIG_[A-Z0-9_]+=(y|[0-9]+)$' "$here/fragment" | grep -vxFf "$work/out/.config" || true)
[ -z "$lost" ] || die "the configuration does not take" $lost

say "compiling ($(took))"
fifo=$work/fifo
mkfifo "$fifo"
awk -v log_="$work/log" '{ print >log_ } /^  (CC|AS)  / && ++n % 200 == 0 {
	printf "kernel: %d of about 880 files\n", n >"/dev/stderr" }' <"$fifo" &
build -j"$(nproc)" vmlinux >"$fifo" 2>&1 &
job=$!
wait $job || failed "compiling failed"
job=
wait

mkdir "$work/$key"
mv "$work/out/vmlinux" "$work/out/.config" "$work/$key/"
mv "$work/$key/.config" "$work/$key/config"
rm -rf "${out%/*}"
mv "$work/$key" "$cache/"
say "done in $(took)"
echo "$out"
