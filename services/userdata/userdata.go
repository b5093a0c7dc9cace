// Package userdata mounts the writable partition, once, before the services
// that read settings.
//
// It finds the partition by its label, looks at what is on it, mounts it as
// JFFS2 where that can lose nothing, and leaves a verdict that `gwctl status`
// shows. Whatever it finds, the box boots (INV 10): it ends with status 0 and
// the services run on their defaults. It erases and formats nothing.
//
// A mount can hang in the kernel, or take as long as it takes to read a full
// partition, and then not even SIGKILL ends the process in it. So the work is
// done by a process of its own, which is left behind when its time is up; when
// it comes to an end after all, the verdict is put right.
package userdata

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/factoryreset"
	"gwinit/internal/mtd"
	"gwinit/internal/restore"
)

// States of api.Userdata.
const (
	Mounted     = "mounted"
	Absent      = "absent"      // no partition of that label
	Unformatted = "unformatted" // erased, and could not be mounted
	Corrupt     = "corrupt"     // not JFFS2, or one that the kernel refuses
	Failed      = "failed"      // the kernel has no JFFS2, or does not come back
	Skipped     = "skipped"     // this boot was asked to do without
)

// Dir is where the partition is mounted.
const Dir = "/userdata"

// Timing. A full partition of 12 MiB takes the kernel 5 to 12 s to scan.
const (
	waitForPartition = 3 * time.Second
	pollEvery        = 100 * time.Millisecond
	deadline         = 10 * time.Second // of the mount
)

// flags: no device nodes and no setuid programs on what people copy there;
// programs run from it (the incumbent's otbr-agent does).
const flags = unix.MS_NOATIME | unix.MS_NODEV | unix.MS_NOSUID

// jffs2Magic is what statfs(2) says of a JFFS2 (include/uapi/linux/magic.h).
const jffs2Magic = 0x72b6

// System is what this package asks of the kernel beyond reading files.
type System interface {
	// Mount is mount(2) without data.
	Mount(source, target, fstype string, flags uintptr) error
	// Statfs is statfs(2): the type, and the blocks in total and free.
	Statfs(path string) (magic int64, totalKiB, freeKiB uint64, err error)
	// Sleep waits.
	Sleep(time.Duration)
}

// Mount does the work: it returns what became of the partition of the kernel
// below root ("" or "/" on the box). It may block in the kernel for ever.
func Mount(root string, sys System) api.Userdata {
	dir := filepath.Join("/", root, Dir)
	if u, ok := already(dir, sys); ok {
		if p, err := mtd.Find(root, rtl8196e.PartUserdata); err == nil {
			u.Device = p.CharDevice()
		}
		return u
	}
	p, err := find(root, sys)
	if err != nil {
		return api.Userdata{State: Absent, Reason: "no flash partition " + rtl8196e.PartUserdata}
	}
	u := api.Userdata{Device: p.CharDevice()}
	content, err := look(root, p)
	switch {
	case err != nil:
		u.State, u.Reason = Failed, err.Error()
		return u
	case !content.JFFS2():
		u.State, u.Reason = Corrupt, describe(content)
		return u
	}
	// The kernel takes its own name for an MTD device; no node is needed.
	err = sys.Mount(p.Name(), dir, "jffs2", flags)
	switch {
	case err == nil:
		u.State = Mounted
		_, u.Total, u.Free, _ = sys.Statfs(dir)
		if content.Erased() {
			u.Reason = "it was erased, and is an empty file system now"
		} else if n := content.Foreign + content.Torn; n > 0 {
			u.Reason = strconv.Itoa(n) + " of its blocks hold no JFFS2, as after a power cut"
		}
	case errors.Is(err, unix.ENODEV):
		u.State, u.Reason = Failed, "the kernel has no JFFS2"
	case content.Erased():
		u.State, u.Reason = Unformatted, "erased, and not mounted: "+err.Error()
	default:
		u.State, u.Reason = Corrupt, "the kernel does not mount it: "+err.Error()
	}
	return u
}

// already tells whether the partition is mounted, as after a restart of this
// service or of PID 1. A second mount would hide the first.
func already(dir string, sys System) (api.Userdata, bool) {
	magic, total, free, err := sys.Statfs(dir)
	if err != nil || magic != jffs2Magic {
		return api.Userdata{}, false
	}
	return api.Userdata{State: Mounted, Total: total, Free: free}, true
}

// find waits for the partition: a flash driver may come up after PID 1.
func find(root string, sys System) (mtd.Partition, error) {
	for waited := time.Duration(0); ; waited += pollEvery {
		p, err := mtd.Find(root, rtl8196e.PartUserdata)
		if err == nil || waited >= waitForPartition {
			return p, err
		}
		sys.Sleep(pollEvery)
	}
}

func look(root string, p mtd.Partition) (Content, error) {
	f, err := p.Open(root)
	if err != nil {
		return Content{}, err
	}
	defer f.Close()
	block := int64(p.EraseBytes)
	if block < headBytes+4*peekBytes {
		return Content{}, fmt.Errorf("%s has erase blocks of %d bytes", p.Name(), block)
	}
	return Look(f, int64(p.SizeBytes), block), nil
}

// describe says why a partition was not mounted.
func describe(c Content) string {
	holds := c.Holds
	if holds == "" {
		holds = "something that is not a JFFS2"
	}
	if c.Nodes == 0 && c.Foreign == 0 {
		holds = "the beginning of a JFFS2 that was never finished"
	}
	s := "it holds " + holds
	if c.Nodes > 0 {
		s += " in " + strconv.Itoa(c.Foreign) + " blocks, and JFFS2 in " + strconv.Itoa(c.Nodes)
	}
	return s + "; left as it is, so that nothing is erased"
}

// Text is a verdict in one line.
func Text(u api.Userdata) string {
	s := u.State
	if u.Device != "" {
		s += " (" + u.Device + ")"
	}
	if u.Reason != "" {
		s += ": " + u.Reason
	}
	return s
}

// kernel is the real System.
type kernel struct{}

func (kernel) Mount(source, target, fstype string, flags uintptr) error {
	return unix.Mount(source, target, fstype, flags, "")
}

func (kernel) Statfs(path string) (magic int64, totalKiB, freeKiB uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, 0, err
	}
	unit := uint64(st.Bsize)
	return int64(st.Type), st.Blocks * unit / 1024, st.Bavail * unit / 1024, nil
}

func (kernel) Sleep(d time.Duration) { time.Sleep(d) }

// work is the process that may be left behind.
func work(root string, sys System, out, log io.Writer) (api.Userdata, error) {
	u := Mount(root, sys)
	if u.State == Mounted {
		// Before anybody is told that there are settings.
		for _, text := range []string{factoryreset.Carry(root), restore.Carry(root)} {
			if text != "" {
				fmt.Fprintln(log, text)
			}
		}
	}
	if err := replaceVerdict(root, u); err != nil {
		return u, err
	}
	_, err := io.WriteString(out, Text(u)+"\n")
	return u, err
}

// supervise runs start's process and waits for it until the deadline. It
// returns the line for people.
func supervise(root string, start func(out *os.File) error, limit time.Duration) (string, error) {
	// A verdict from an earlier run is none on this one.
	if err := os.Remove(filepath.Join("/", root, VerdictPath)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	err = start(w)
	w.Close()
	if err != nil {
		u := api.Userdata{State: Failed, Reason: "cannot start: " + err.Error()}
		return Text(u), replaceVerdict(root, u)
	}
	text, done := readUntil(r, limit)
	switch {
	case text != "":
		return text, nil
	case done:
		// It ended without a word: killed, or a fault of ours.
		u := api.Userdata{State: Failed, Reason: "the mounting process died"}
		return Text(u), firstVerdict(root, u)
	}
	u := api.Userdata{State: Failed, Reason: "the mount did not end within " + limit.String() + "; the kernel is still at it"}
	return Text(u), firstVerdict(root, u)
}

// readUntil reads a line until the other side closes or the time is up; done
// tells which.
func readUntil(r *os.File, limit time.Duration) (line string, done bool) {
	var b [512]byte
	n := 0
	fd := int(r.Fd())
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 || n == len(b) {
			break
		}
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left/time.Millisecond)+1)
		if err == unix.EINTR {
			continue
		}
		if err != nil || ready == 0 {
			break
		}
		m, err := unix.Read(fd, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			done = true
			break
		}
		n += m
	}
	for i := range n {
		if b[i] == '\n' {
			return string(b[:i]), true
		}
	}
	return "", done
}
