package supervisor

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// usage is what a process has used.
type usage struct {
	cpu       float64 // seconds, user and system
	rss, anon uint64  // KiB
}

// userHz is the unit of the times in /proc/PID/stat on every Linux port here.
const userHz = 100

// readUsage reads /proc/PID/stat and statm (proc(5)) below root; what cannot be
// read is 0. The same is in status, which takes the kernel several times as long.
func readUsage(root string, pid int) usage {
	dir := root + "/" + strconv.Itoa(pid)
	var buf [2048]byte
	u := usage{cpu: parseStat(readFile(dir+"/stat", buf[:]))}
	u.rss, u.anon = parseStatm(readFile(dir+"/statm", buf[:]), uint64(os.Getpagesize()))
	return u
}

// parseStat returns the seconds of fields 14 and 15.
func parseStat(stat []byte) float64 {
	// Field 2 is the name in parentheses, and may hold some itself.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte{' '})
	fields := bytes.Fields(rest) // from field 3
	if !ok || len(fields) < 13 {
		return 0
	}
	return float64(number(fields[11])+number(fields[12])) / userHz
}

// parseStatm returns what status calls VmRSS and RssAnon: fields 2, and less field
// 3, which is what is of files or shared. They are in pages.
func parseStatm(statm []byte, page uint64) (rss, anon uint64) {
	fields := bytes.Fields(statm)
	if len(fields) < 3 {
		return 0, 0
	}
	resident, shared := number(fields[1]), number(fields[2])
	if shared > resident { // they are counted one after the other
		shared = resident
	}
	return resident * page / 1024, (resident - shared) * page / 1024
}

// number is 0 for what is none.
func number(b []byte) uint64 {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readFile reads a small file of /proc. os.ReadFile would start the runtime's
// poller in PID 1.
func readFile(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			break
		}
		n += m
	}
	return buf[:n]
}
