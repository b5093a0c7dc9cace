package emu

// childEnded is written to the wake pipe, where signals are written otherwise,
// when a child of the guest ended.
const childEnded = 0xff

// child is a process that the guest made.
type child struct{}

func (m *Machine) reap() {}
