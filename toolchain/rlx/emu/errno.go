package emu

import "syscall"

// eBlock is a call's answer that its thread waits.
const eBlock = syscall.Errno(1 << 20)

// mipsErrno translates a host error number: up to ERANGE they agree
// (arch/mips/include/uapi/asm/errno.h).
func mipsErrno(e syscall.Errno) uint32 {
	if e <= syscall.ERANGE {
		return uint32(e)
	}
	switch e {
	case syscall.EDEADLK:
		return 45
	case syscall.ENAMETOOLONG:
		return 78
	case syscall.ENOLCK:
		return 46
	case syscall.ENOSYS:
		return 89
	case syscall.ENOTEMPTY:
		return 93
	case syscall.ELOOP:
		return 90
	case syscall.ENODATA:
		return 61
	case syscall.ETIME:
		return 62
	case syscall.EPROTO:
		return 71
	case syscall.EBADMSG:
		return 77
	case syscall.EOVERFLOW:
		return 79
	case syscall.EILSEQ:
		return 88
	case syscall.EUSERS:
		return 94
	case syscall.ENOTSOCK:
		return 95
	case syscall.EDESTADDRREQ:
		return 96
	case syscall.EMSGSIZE:
		return 97
	case syscall.EPROTOTYPE:
		return 98
	case syscall.ENOPROTOOPT:
		return 99
	case syscall.EPROTONOSUPPORT:
		return 120
	case syscall.ESOCKTNOSUPPORT:
		return 121
	case syscall.EOPNOTSUPP:
		return 122
	case syscall.EPFNOSUPPORT:
		return 123
	case syscall.EAFNOSUPPORT:
		return 124
	case syscall.EADDRINUSE:
		return 125
	case syscall.EADDRNOTAVAIL:
		return 126
	case syscall.ENETDOWN:
		return 127
	case syscall.ENETUNREACH:
		return 128
	case syscall.ENETRESET:
		return 129
	case syscall.ECONNABORTED:
		return 130
	case syscall.ECONNRESET:
		return 131
	case syscall.ENOBUFS:
		return 132
	case syscall.EISCONN:
		return 133
	case syscall.ENOTCONN:
		return 134
	case syscall.ESHUTDOWN:
		return 143
	case syscall.ETOOMANYREFS:
		return 144
	case syscall.ETIMEDOUT:
		return 145
	case syscall.ECONNREFUSED:
		return 146
	case syscall.EHOSTDOWN:
		return 147
	case syscall.EHOSTUNREACH:
		return 148
	case syscall.EALREADY:
		return 149
	case syscall.EINPROGRESS:
		return 150
	case syscall.ESTALE:
		return 151
	case syscall.ECANCELED:
		return 158
	case syscall.EDQUOT:
		return 1133
	}
	return uint32(syscall.EINVAL)
}
