package isa

// Fields that some encodings want to be zero.
const (
	zRS = 31 << 21
	zRT = 31 << 16
	zRD = 31 << 11
	zSA = 31 << 6
)

// Shorthands for the rows below.
const (
	rrr    = ReadRS | ReadRT | WriteRD
	rri    = ReadRS | WriteRT
	shift  = ReadRT | WriteRD
	load   = Load | ReadRS | WriteRT
	store  = Store | ReadRS | ReadRT
	hilo   = WriteHI | WriteLO
	muldiv = MulDiv | ReadRS | ReadRT | hilo
	accum  = muldiv | ReadHI | ReadLO
	trap   = Trap | ReadRS | ReadRT
	trapi  = Trap | ReadRS
)

const (
	whyRI     = "not in this core: reserved instruction"
	whyLikely = "no branch-likely in this core: reserved instruction"
	why64     = "64-bit instruction"
	whyFPU    = "no FPU and no emulator: coprocessor unusable"
	whyCop    = "no such coprocessor"
	whyMAC    = "the assembler takes it, its result was never checked on the core"
	whyRegimm = "this core does not trap on unknown REGIMM words: may do nothing, or branch"
	whyEmul   = "about 1 us of trap each"
)

// special: major opcode 0, by bits 5-0.
var special = [64]Def{
	0x00: {"sll", "d,t,a", shift, OK, "", zRS},
	0x01: {"movci", "", ReadRS | ReadRD | WriteRD, Traps, "needs FPU condition bits", 0},
	0x02: {"srl", "d,t,a", shift, OK, "", zRS},
	0x03: {"sra", "d,t,a", shift, OK, "", zRS},
	0x04: {"sllv", "d,t,s", rrr, OK, "", zSA},
	0x05: {"special.05", "", 0, Unproven, "no such instruction", 0},
	0x06: {"srlv", "d,t,s", rrr, OK, "", zSA},
	0x07: {"srav", "d,t,s", rrr, OK, "", zSA},
	0x08: {"jr", "s", Jump | Indirect | ReadRS, OK, "", zRT | zRD | zSA},
	0x09: {"jalr", "d,s", Jump | Indirect | Link | ReadRS | WriteRD, OK, "", zRT | zSA},
	0x0a: {"movz", "d,s,t", rrr | ReadRD, OK, "", zSA},
	0x0b: {"movn", "d,s,t", rrr | ReadRD, OK, "", zSA},
	0x0c: {"syscall", "", Syscall, OK, "", 0},
	0x0d: {"break", "c", Break, OK, "", 0},
	0x0e: {"special.0e", "", 0, Unproven, "no such instruction", 0},
	0x0f: {"sync", "", 0, Emulated, whyEmul, 0},
	0x10: {"mfhi", "d", FromHILO | ReadHI | WriteRD, OK, "", zRS | zRT | zSA},
	0x11: {"mthi", "s", ToHILO | ReadRS | WriteHI, OK, "", zRT | zRD | zSA},
	0x12: {"mflo", "d", FromHILO | ReadLO | WriteRD, OK, "", zRS | zRT | zSA},
	0x13: {"mtlo", "s", ToHILO | ReadRS | WriteLO, OK, "", zRT | zRD | zSA},
	0x14: {"dsllv", "d,t,s", rrr, Traps, why64, 0},
	0x15: {"special.15", "", 0, Unproven, "no such instruction", 0},
	0x16: {"dsrlv", "d,t,s", rrr, Traps, why64, 0},
	0x17: {"dsrav", "d,t,s", rrr, Traps, why64, 0},
	0x18: {"mult", "s,t", muldiv, OK, "", zRD | zSA},
	0x19: {"multu", "s,t", muldiv, OK, "", zRD | zSA},
	0x1a: {"div", "s,t", muldiv, OK, "", zRD | zSA},
	0x1b: {"divu", "s,t", muldiv, OK, "", zRD | zSA},
	0x1c: {"dmult", "s,t", muldiv, Traps, why64, 0},
	0x1d: {"dmultu", "s,t", muldiv, Traps, why64, 0},
	0x1e: {"ddiv", "s,t", muldiv, Traps, why64, 0},
	0x1f: {"ddivu", "s,t", muldiv, Traps, why64, 0},
	0x20: {"add", "d,s,t", rrr, OK, "", zSA},
	0x21: {"addu", "d,s,t", rrr, OK, "", zSA},
	0x22: {"sub", "d,s,t", rrr, OK, "", zSA},
	0x23: {"subu", "d,s,t", rrr, OK, "", zSA},
	0x24: {"and", "d,s,t", rrr, OK, "", zSA},
	0x25: {"or", "d,s,t", rrr, OK, "", zSA},
	0x26: {"xor", "d,s,t", rrr, OK, "", zSA},
	0x27: {"nor", "d,s,t", rrr, OK, "", zSA},
	0x28: {"special.28", "", 0, Unproven, "no such instruction", 0},
	0x29: {"special.29", "", 0, Unproven, "no such instruction", 0},
	0x2a: {"slt", "d,s,t", rrr, OK, "", zSA},
	0x2b: {"sltu", "d,s,t", rrr, OK, "", zSA},
	0x2c: {"dadd", "d,s,t", rrr, Traps, why64, 0},
	0x2d: {"daddu", "d,s,t", rrr, Traps, why64, 0},
	0x2e: {"dsub", "d,s,t", rrr, Traps, why64, 0},
	0x2f: {"dsubu", "d,s,t", rrr, Traps, why64, 0},
	0x30: {"tge", "s,t", trap, Traps, whyRI, 0},
	0x31: {"tgeu", "s,t", trap, Traps, whyRI, 0},
	0x32: {"tlt", "s,t", trap, Traps, whyRI, 0},
	0x33: {"tltu", "s,t", trap, Traps, whyRI, 0},
	0x34: {"teq", "s,t", trap, Traps, whyRI, 0},
	0x35: {"special.35", "", 0, Unproven, "no such instruction", 0},
	0x36: {"tne", "s,t", trap, Traps, whyRI, 0},
	0x37: {"special.37", "", 0, Unproven, "no such instruction", 0},
	0x38: {"dsll", "d,t,a", shift, Traps, why64, 0},
	0x39: {"special.39", "", 0, Unproven, "no such instruction", 0},
	0x3a: {"dsrl", "d,t,a", shift, Traps, why64, 0},
	0x3b: {"dsra", "d,t,a", shift, Traps, why64, 0},
	0x3c: {"dsll32", "d,t,a", shift, Traps, why64, 0},
	0x3d: {"special.3d", "", 0, Unproven, "no such instruction", 0},
	0x3e: {"dsrl32", "d,t,a", shift, Traps, why64, 0},
	0x3f: {"dsra32", "d,t,a", shift, Traps, why64, 0},
}

// Words of SPECIAL that differ in a field only. The core ignores the field that
// makes a shift a rotation.
var (
	rotr     = Def{"rotr", "d,t,a", shift, Wrong, "this core shifts instead (srl)", 0}
	rotrv    = Def{"rotrv", "d,t,s", rrr, Wrong, "this core shifts instead (srlv)", 0}
	jalrSame = Def{"jalr", "d,s", Jump | Indirect | Link | ReadRS | WriteRD, Unproven, "one register as target and link cannot be restarted after an exception", zRT | zSA}
	reserved = Def{"reserved", "", 0, Unproven, "bits that must be zero are set", 0}
)

// regimm: major opcode 1, by rt.
var regimm = [32]Def{
	0x00: {"bltz", "s,p", Branch | ReadRS, OK, "", 0},
	0x01: {"bgez", "s,p", Branch | ReadRS, OK, "", 0},
	0x02: {"bltzl", "s,p", Branch | Likely | ReadRS, Unproven, whyLikely, 0},
	0x03: {"bgezl", "s,p", Branch | Likely | ReadRS, Unproven, whyLikely, 0},
	0x04: {"regimm.04", "", 0, Unproven, whyRegimm, 0},
	0x05: {"regimm.05", "", 0, Unproven, whyRegimm, 0},
	0x06: {"regimm.06", "", 0, Unproven, whyRegimm, 0},
	0x07: {"regimm.07", "", 0, Unproven, whyRegimm, 0},
	0x08: {"tgei", "s,i", trapi, Unproven, whyRegimm, 0},
	0x09: {"tgeiu", "s,i", trapi, Unproven, whyRegimm, 0},
	0x0a: {"tlti", "s,i", trapi, Unproven, whyRegimm, 0},
	0x0b: {"tltiu", "s,i", trapi, Unproven, whyRegimm, 0},
	0x0c: {"teqi", "s,i", trapi, Unproven, whyRegimm, 0},
	0x0d: {"regimm.0d", "", 0, Unproven, whyRegimm, 0},
	0x0e: {"tnei", "s,i", trapi, Unproven, whyRegimm, 0},
	0x0f: {"regimm.0f", "", 0, Unproven, whyRegimm, 0},
	0x10: {"bltzal", "s,p", Branch | Link | ReadRS | WriteRA, OK, "", 0},
	0x11: {"bgezal", "s,p", Branch | Link | ReadRS | WriteRA, OK, "", 0},
	0x12: {"bltzall", "s,p", Branch | Link | Likely | ReadRS | WriteRA, Unproven, whyLikely, 0},
	0x13: {"bgezall", "s,p", Branch | Link | Likely | ReadRS | WriteRA, Unproven, whyLikely, 0},
	0x14: {"regimm.14", "", 0, Unproven, whyRegimm, 0},
	0x15: {"regimm.15", "", 0, Unproven, whyRegimm, 0},
	0x16: {"regimm.16", "", 0, Unproven, whyRegimm, 0},
	0x17: {"regimm.17", "", 0, Unproven, whyRegimm, 0},
	0x18: {"regimm.18", "", 0, Unproven, whyRegimm, 0},
	0x19: {"regimm.19", "", 0, Unproven, whyRegimm, 0},
	0x1a: {"regimm.1a", "", 0, Unproven, whyRegimm, 0},
	0x1b: {"regimm.1b", "", 0, Unproven, whyRegimm, 0},
	0x1c: {"bposge32", "p", 0, Unproven, whyRegimm, 0},
	0x1d: {"regimm.1d", "", 0, Unproven, whyRegimm, 0},
	0x1e: {"regimm.1e", "", 0, Unproven, whyRegimm, 0},
	0x1f: {"synci", "o", ReadRS, Wrong, "this core does nothing; cacheflush(2) does the work", 0},
}

// major: everything by bits 31-26. The rows of SPECIAL, REGIMM, COP0, SPECIAL2
// and SPECIAL3 are never used, they have tables of their own.
var major = [64]Def{
	0x02: {"j", "j", Jump, OK, "", 0},
	0x03: {"jal", "j", Jump | Link | WriteRA, OK, "", 0},
	0x04: {"beq", "s,t,p", Branch | ReadRS | ReadRT, OK, "", 0},
	0x05: {"bne", "s,t,p", Branch | ReadRS | ReadRT, OK, "", 0},
	0x06: {"blez", "s,p", Branch | ReadRS, OK, "", zRT},
	0x07: {"bgtz", "s,p", Branch | ReadRS, OK, "", zRT},
	0x08: {"addi", "t,s,i", rri, OK, "", 0},
	0x09: {"addiu", "t,s,i", rri, OK, "", 0},
	0x0a: {"slti", "t,s,i", rri, OK, "", 0},
	0x0b: {"sltiu", "t,s,i", rri, OK, "", 0},
	0x0c: {"andi", "t,s,u", rri, OK, "", 0},
	0x0d: {"ori", "t,s,u", rri, OK, "", 0},
	0x0e: {"xori", "t,s,u", rri, OK, "", 0},
	0x0f: {"lui", "t,u", WriteRT, OK, "", zRS},
	0x11: {"cop1", "", 0, Traps, whyFPU, 0},
	0x12: {"cop2", "", 0, Traps, whyCop, 0},
	0x13: {"cop3", "", 0, Traps, whyCop, 0},
	0x14: {"beql", "s,t,p", Branch | Likely | ReadRS | ReadRT, Traps, whyLikely, 0},
	0x15: {"bnel", "s,t,p", Branch | Likely | ReadRS | ReadRT, Traps, whyLikely, 0},
	0x16: {"blezl", "s,p", Branch | Likely | ReadRS, Traps, whyLikely, 0},
	0x17: {"bgtzl", "s,p", Branch | Likely | ReadRS, Traps, whyLikely, 0},
	0x18: {"daddi", "t,s,i", rri, Traps, why64, 0},
	0x19: {"daddiu", "t,s,i", rri, Traps, why64, 0},
	0x1a: {"ldl", "t,o", load | Merge | ReadRT, Traps, why64, 0},
	0x1b: {"ldr", "t,o", load | Merge | ReadRT, Traps, why64, 0},
	0x1d: {"jalx", "j", Jump | Link | WriteRA, Unproven, "leads to MIPS16 code, which is not judged", 0},
	0x1e: {"major.1e", "", 0, Traps, whyRI, 0},
	0x20: {"lb", "t,o", load, OK, "", 0},
	0x21: {"lh", "t,o", load, OK, "", 0},
	0x22: {"lwl", "t,o", load | Merge | ReadRT, OK, "", 0},
	0x23: {"lw", "t,o", load, OK, "", 0},
	0x24: {"lbu", "t,o", load, OK, "", 0},
	0x25: {"lhu", "t,o", load, OK, "", 0},
	0x26: {"lwr", "t,o", load | Merge | ReadRT, OK, "", 0},
	0x27: {"lwu", "t,o", load, Traps, why64, 0},
	0x28: {"sb", "t,o", store, OK, "", 0},
	0x29: {"sh", "t,o", store, OK, "", 0},
	0x2a: {"swl", "t,o", store, OK, "", 0},
	0x2b: {"sw", "t,o", store, OK, "", 0},
	0x2c: {"sdl", "t,o", store, Traps, why64, 0},
	0x2d: {"sdr", "t,o", store, Traps, why64, 0},
	0x2e: {"swr", "t,o", store, OK, "", 0},
	0x2f: {"cache", "n,o", ReadRS, Privileged, "use cacheflush(2)", 0},
	0x30: {"ll", "t,o", load | LinkedLoad, OK, "", 0},
	0x31: {"lwc1", "n,o", ReadRS, Traps, whyFPU, 0},
	0x32: {"lwc2", "n,o", ReadRS, Traps, whyCop, 0},
	0x33: {"pref", "n,o", ReadRS, Traps, "decoded as a load of coprocessor 3: unusable", 0},
	0x34: {"lld", "t,o", load | LinkedLoad, Traps, why64, 0},
	0x35: {"ldc1", "n,o", ReadRS, Traps, whyFPU, 0},
	0x36: {"ldc2", "n,o", ReadRS, Traps, whyCop, 0},
	0x37: {"ld", "t,o", load, Traps, why64, 0},
	0x38: {"sc", "t,o", store | StoreCond | WriteRT, OK, "", 0},
	0x39: {"swc1", "n,o", ReadRS, Traps, whyFPU, 0},
	0x3a: {"swc2", "n,o", ReadRS, Traps, whyCop, 0},
	0x3b: {"swc3", "n,o", ReadRS, Traps, whyCop, 0},
	0x3c: {"scd", "t,o", store | StoreCond | WriteRT, Traps, why64, 0},
	0x3d: {"sdc1", "n,o", ReadRS, Traps, whyFPU, 0},
	0x3e: {"sdc2", "n,o", ReadRS, Traps, whyCop, 0},
	0x3f: {"sd", "t,o", store, Traps, why64, 0},
}

// Coprocessor words by their rs field.
var (
	mfc0    = Def{"mfc0", "t,n", Load | WriteRT, Privileged, "", 0}
	mtc0    = Def{"mtc0", "t,n", ReadRT, Privileged, "", 0}
	cop0    = Def{"cop0", "", 0, Privileged, "", 0}
	copFrom = [3]Def{
		{"mfc1", "t,n", WriteRT, Traps, whyFPU, 0},
		{"mfc2", "t,n", WriteRT, Traps, whyCop, 0},
		{"mfc3", "t,n", WriteRT, Traps, whyCop, 0},
	}
)

// special2: major opcode 0x1c, by bits 5-0. Rows that are not here are filled
// by others: user-defined instructions, which this core has none of.
var special2 = others("special2", [64]Def{
	0x00: {"madd", "s,t", accum, OK, "", zRD | zSA},
	0x01: {"maddu", "s,t", accum, Unproven, whyMAC, 0},
	0x02: {"mul", "d,s,t", rrr | hilo, Traps, whyRI, 0},
	0x04: {"msub", "s,t", accum, Unproven, whyMAC, 0},
	0x05: {"msubu", "s,t", accum, Unproven, whyMAC, 0},
	0x20: {"clz", "d,s", ReadRS | WriteRD, Traps, whyRI, 0},
	0x21: {"clo", "d,s", ReadRS | WriteRD, Traps, whyRI, 0},
	0x24: {"dclz", "d,s", ReadRS | WriteRD, Traps, why64, 0},
	0x25: {"dclo", "d,s", ReadRS | WriteRD, Traps, why64, 0},
	0x3f: {"sdbbp", "", Break, Traps, "debug breakpoint", 0},
})

// special3: major opcode 0x1f, by bits 5-0.
var special3 = others("special3", [64]Def{
	0x00: {"ext", "t,s", ReadRS | WriteRT, Traps, whyRI, 0},
	0x01: {"dextm", "t,s", ReadRS | WriteRT, Traps, why64, 0},
	0x02: {"dextu", "t,s", ReadRS | WriteRT, Traps, why64, 0},
	0x03: {"dext", "t,s", ReadRS | WriteRT, Traps, why64, 0},
	0x04: {"ins", "t,s", ReadRS | ReadRT | WriteRT, Traps, whyRI, 0},
	0x05: {"dinsm", "t,s", ReadRS | ReadRT | WriteRT, Traps, why64, 0},
	0x06: {"dinsu", "t,s", ReadRS | ReadRT | WriteRT, Traps, why64, 0},
	0x07: {"dins", "t,s", ReadRS | ReadRT | WriteRT, Traps, why64, 0},
	0x20: {"bshfl", "d,t", shift, Traps, whyRI, 0},
	0x24: {"dbshfl", "d,t", shift, Traps, why64, 0},
	0x3b: {"rdhwr", "t,n", WriteRT, Traps, "the kernel's fast path knows rdhwr $3,$29 only", 0},
})

// Words of SPECIAL3 that differ in a field only.
var (
	rdhwrTLS = Def{"rdhwr", "t,n", WriteRT, Emulated, "thread pointer; " + whyEmul, 0}
	wsbh     = Def{"wsbh", "d,t", shift, Traps, whyRI, 0}
	seb      = Def{"seb", "d,t", shift, Traps, whyRI, 0}
	seh      = Def{"seh", "d,t", shift, Traps, whyRI, 0}
)

// others names the rows of a table that are empty.
func others(name string, t [64]Def) [64]Def {
	const hex = "0123456789abcdef"
	for i := range t {
		if t[i].Name == "" {
			t[i] = Def{Name: name + "." + string(hex[i>>4]) + string(hex[i&15]), Verdict: Traps, Why: whyRI}
		}
	}
	return t
}
