#!/bin/sh
# Runs a MIPS test binary in user-mode emulation (go test -exec).
exec qemu-mips "$@"
