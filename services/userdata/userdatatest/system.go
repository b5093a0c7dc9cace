// Package userdatatest has a kernel for tests of package userdata that mounts
// nothing.
package userdatatest

import "time"

// System is a userdata.System that writes down what it was asked.
type System struct {
	MountErr error // what Mount answers
	Magic    int64 // file system type of the target before the mount
	Total    uint64
	Free     uint64
	OnSleep  func(slept time.Duration) // called with the sum of all sleeps

	Source, Target, FSType string // of the mount
	Flags                  uintptr
	Mounts                 int
	Slept                  time.Duration
}

// Mount implements userdata.System.
func (s *System) Mount(source, target, fstype string, flags uintptr) error {
	s.Source, s.Target, s.FSType, s.Flags = source, target, fstype, flags
	s.Mounts++
	return s.MountErr
}

// Statfs implements userdata.System.
func (s *System) Statfs(string) (magic int64, totalKiB, freeKiB uint64, err error) {
	return s.Magic, s.Total, s.Free, nil
}

// Sleep implements userdata.System without waiting.
func (s *System) Sleep(d time.Duration) {
	s.Slept += d
	if s.OnSleep != nil {
		s.OnSleep(s.Slept)
	}
}
