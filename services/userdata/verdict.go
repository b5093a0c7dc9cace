package userdata

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
)

// VerdictPath is where the verdict is, as the JSON of an api.Userdata.
const VerdictPath = "/run/userdata.json"

// ErrNoVerdict is returned by ReadVerdict before there is one.
var ErrNoVerdict = errors.New("/userdata has not been looked at yet")

// ReadVerdict returns what was found at the start below root ("" or "/" on the
// box). It reads memory, asks the partition nothing and does not block; the
// space is that of the mount, see Space for what is left now.
func ReadVerdict(root string) (api.Userdata, error) {
	f, err := os.Open(filepath.Join("/", root, VerdictPath))
	if errors.Is(err, fs.ErrNotExist) {
		return api.Userdata{}, ErrNoVerdict
	}
	if err != nil {
		return api.Userdata{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return api.Userdata{}, err
	}
	var u api.Userdata
	if err := json.Unmarshal(b, &u); err != nil {
		return api.Userdata{}, err
	}
	return u, nil
}

// Writable tells why nothing that lasts can be written, or nil. As Space, it
// may hang.
func Writable(root string) error {
	_, _, readOnly, err := Space(root)
	if err == nil && readOnly {
		err = errors.New(Dir + " is read-only")
	}
	return err
}

// Space returns what the file system on Dir has, in KiB, and whether it can be
// written to. It asks the file system, which may hang. ErrNotMounted says that
// there is none.
func Space(root string) (total, free uint64, readOnly bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Join("/", root, Dir), &st); err != nil {
		return 0, 0, false, err
	}
	if int64(st.Type) != jffs2Magic {
		return 0, 0, false, ErrNotMounted
	}
	unit := uint64(st.Bsize)
	return st.Blocks * unit / 1024, st.Bavail * unit / 1024, int64(st.Flags)&unix.ST_RDONLY != 0, nil
}

// ErrNotMounted is returned by Space where no JFFS2 is mounted.
var ErrNotMounted = errors.New("no JFFS2 is mounted on " + Dir)

// replaceVerdict writes the verdict over any other.
func replaceVerdict(root string, u api.Userdata) error {
	path := filepath.Join("/", root, VerdictPath)
	next := path + ".new"
	if err := os.WriteFile(next, encode(u), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// firstVerdict writes the verdict unless there is one: the process that was
// given up may have come to its end at this very moment, and knows better.
func firstVerdict(root string, u api.Userdata) error {
	f, err := os.OpenFile(filepath.Join("/", root, VerdictPath), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(encode(u))
	return errors.Join(err, f.Close())
}

// encode is the JSON of u without encoding/json, whose tables cost more
// instructions than all of the rest of this process, at a time when the bridge
// waits for it.
func encode(u api.Userdata) []byte {
	b := []byte(`{"state":`)
	b = appendString(b, u.State)
	if u.Device != "" {
		b = appendString(append(b, `,"device":`...), u.Device)
	}
	if u.Reason != "" {
		b = appendString(append(b, `,"reason":`...), u.Reason)
	}
	if u.Total != 0 {
		b = strconv.AppendUint(append(b, `,"totalKiB":`...), u.Total, 10)
	}
	if u.Free != 0 {
		b = strconv.AppendUint(append(b, `,"freeKiB":`...), u.Free, 10)
	}
	return append(b, "}\n"...)
}

// appendString appends a JSON string; what is not printable ASCII becomes '?'.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
