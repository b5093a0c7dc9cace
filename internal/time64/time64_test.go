package time64

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestSetFileTimes(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	// 2^31 is past what 32 bits hold; ext4 and tmpfs keep it.
	linkTime, fileTime := time.Unix(1<<31+5, 123456789), time.Unix(1<<32-7, 987654321)
	if err := SetFileTimes(file, fileTime, fileTime); err != nil {
		t.Fatal(err)
	}
	if err := SetFileTimes(link, linkTime, linkTime); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]time.Time{file: fileTime, link: linkTime} {
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MTIME|unix.STATX_ATIME, &st); err != nil {
			t.Fatal(err)
		}
		for _, got := range []unix.StatxTimestamp{st.Mtime, st.Atime} {
			if got.Sec != want.Unix() || int(got.Nsec) != want.Nanosecond() {
				t.Errorf("%s: %d.%09d, want %d.%09d", path, got.Sec, got.Nsec, want.Unix(), want.Nanosecond())
			}
		}
	}
	if err := SetFileTimes(filepath.Join(dir, "none"), fileTime, fileTime); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := SetFileTimes("a\x00b", fileTime, fileTime); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a NUL in the name: %v", err)
	}
}

func TestOld(t *testing.T) {
	for _, at := range []timespec{{0, 0}, {1<<31 - 1, 999999999}, {-1 << 31, 1}} {
		if o, err := at.old(); err != nil || int64(o.Sec) != at.sec || int64(o.Nsec) != at.nsec {
			t.Errorf("%v became %v, %v", at, o, err)
		}
	}
	_, err := timespec{1 << 31, 0}.old()
	if unsafe.Sizeof(unix.Timespec{}.Sec) == 4 {
		if !errors.Is(err, unix.EOVERFLOW) {
			t.Errorf("2^31 seconds in 32 bits: %v", err)
		}
	} else if err != nil {
		t.Error(err)
	}
}
