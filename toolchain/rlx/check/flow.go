package check

import "gwinit/toolchain/rlx/isa"

// Marks of a word.
const (
	reached uint8 = 1 << iota // control arrives here
	slotted                   // executed as a delay slot
	inline                    // data between a BAL and its target
	isData                    // unreached, and does not look like code
)

// step is the execution of one word, as it stands or as the slot of the branch
// before it.
type step struct {
	i    int
	slot bool
}

// next is what can execute directly after a step.
type next struct {
	to [2]step
	n  int
	// unknown: control may also go to where nobody knows (returns, calls
	// through a register).
	unknown bool
}

func (x *next) add(s step) {
	x.to[x.n] = s
	x.n++
}

// successors tells what can execute directly after a step. Where a call returns to
// is not: that follows the callee's last instruction.
func (c *checker) successors(s step) (x next) {
	if s.slot {
		b := isa.Decode(c.words[s.i-1])
		switch {
		case b.Is(isa.Indirect):
			x.unknown = true
			return x
		case !b.Never():
			t, _ := b.Target(c.addr(s.i - 1))
			if j, ok := c.index(t); ok {
				x.add(step{j, false})
			}
		}
		if !b.Always() {
			if j, ok := c.image.after(s.i); ok {
				x.add(step{j, false})
			}
		}
		return x
	}
	in := isa.Decode(c.words[s.i])
	j, ok := c.image.after(s.i)
	switch {
	case !ok:
	case in.HasSlot():
		x.add(step{j, true})
	case stops(in) && c.onlyNops(c.fn[s.i], j):
		// The signal's handler may go on behind it, but a BREAK at the end of
		// a function is one that nobody comes back from.
	default:
		x.add(step{j, false})
	}
	return x
}

// onlyNops reports whether from word i to the end of function f there is nothing
// but padding.
func (c *checker) onlyNops(f int32, i int) bool {
	for r := c.regionOf(i); f != none && i < r.first+r.n && c.fn[i] == f; i++ {
		if !idle(isa.Decode(c.words[i])) {
			return false
		}
	}
	return f != none
}

// idle reports whether an instruction does nothing: what it computes goes to
// register 0.
func idle(in isa.Inst) bool {
	const effects = isa.Load | isa.Store | isa.Branch | isa.Jump | isa.Trap | isa.Syscall | isa.Break
	return in.Verdict == isa.OK && in.Flags&effects == 0 && in.Writes() == 0
}

// stops reports whether an instruction ends in a signal in any case.
func stops(in isa.Inst) bool {
	return in.Is(isa.Break) || in.Name == "teq" && in.RS() == in.RT()
}

// returnsTo is the word behind a call's slot, if control comes back there: a
// call that ends its function is one that does not return.
func (c *checker) returnsTo(call int) (int, bool) {
	j, ok := c.image.after(call)
	if !ok {
		return 0, false
	}
	if j, ok = c.image.after(j); !ok {
		return 0, false
	}
	if c.onlyNops(c.fn[call], j) {
		return 0, false
	}
	return j, true
}

// follow marks what is reached from the roots.
func (c *checker) follow() {
	c.mark = make([]uint8, len(c.words))
	for _, i := range c.roots {
		c.visit(i)
	}
}

// visit marks what is reached from word i, and returns how many words that adds.
func (c *checker) visit(i int) (added int) {
	c.todo = append(c.todo[:0], i)
	for len(c.todo) > 0 {
		i := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		for c.mark[i]&reached == 0 {
			if c.mark[i] == 0 {
				added++
			}
			c.mark[i] |= reached
			in := isa.Decode(c.words[i])
			s := step{i, false}
			if in.HasSlot() {
				j, ok := c.image.after(i)
				if !ok {
					break
				}
				if c.mark[j] == 0 {
					added++
				}
				c.mark[j] |= slotted
				s = step{j, true}
				if in.Is(isa.Link) {
					if c.overData(i, in) {
						break
					}
					if k, ok := c.returnsTo(i); ok {
						c.todo = append(c.todo, k)
					}
				}
			}
			x := c.successors(s)
			if x.n == 0 {
				break
			}
			if x.n == 2 {
				c.todo = append(c.todo, x.to[0].i)
			}
			i = x.to[x.n-1].i
		}
	}
	return added
}

// overData handles start-up code's way to find its own address: a BAL over a
// few words of data, which are then read through $31. It marks the data.
func (c *checker) overData(i int, in isa.Inst) bool {
	const most = 8 // words of data
	if !in.Is(isa.Branch) || !in.Always() {
		return false
	}
	t, _ := in.Target(c.addr(i))
	j, ok := c.index(t)
	if !ok || j <= i+2 || j > i+2+most || c.regionOf(j) != c.regionOf(i) {
		return false
	}
	if d := isa.Decode(c.words[j]); !d.Is(isa.Load) || d.RS() != 31 {
		return false
	}
	for k := i + 2; k < j; k++ {
		c.mark[k] |= inline
	}
	c.todo = append(c.todo, j)
	return true
}

// sweep takes what nothing leads to for code as well, unless it is padding or
// looks like data: tables of jumps that were not understood would otherwise
// hide what they lead to.
func (c *checker) sweep() {
	end, data := 0, false // of the run of unreached words that i is in
	for i := 0; i < len(c.words); i++ {
		if c.mark[i] != 0 || idle(isa.Decode(c.words[i])) {
			continue
		}
		if i >= end {
			end, data = c.looksLikeData(i)
			data = data && !c.golang
		}
		if data {
			c.mark[i] |= isData
		} else {
			c.report.Stats.Swept += c.visit(i)
		}
	}
	for _, m := range c.mark {
		switch {
		case m&(reached|slotted) != 0:
			c.report.Stats.Words++
		case m&(inline|isData) != 0:
			c.report.Stats.Data++
		default:
			c.report.Stats.Unreached++
		}
	}
}

// looksLikeData judges the run of unreached words from i on, and returns where it
// ends: a compiler's code holds next to no encodings that do not exist, text and
// numbers hold many.
func (c *checker) looksLikeData(i int) (end int, data bool) {
	r := c.regionOf(i)
	n, odd := 0, 0
	for ; i < r.first+r.n && c.mark[i] == 0; i++ {
		if c.words[i] == isa.NOP {
			continue
		}
		n++
		if !isa.Decode(c.words[i]).Plausible() {
			odd++
		}
	}
	return i, odd*8 > n
}
