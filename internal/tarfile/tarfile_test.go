package tarfile_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"gwinit/internal/tarfile"
)

var (
	when = time.Unix(1700000000, 0)
	long = strings.Repeat("folder/", 30) + strings.Repeat("n", 200)
)

// entry is one with its contents.
type entry struct {
	tarfile.Header
	contents string
}

var entries = []entry{
	{Header: tarfile.Header{Kind: tarfile.Dir, Name: "d/", Mode: fs.ModeDir | fs.ModeSticky | 0o755, UID: 1, GID: 2, ModTime: when}},
	{tarfile.Header{Kind: tarfile.File, Name: "d/f", Mode: fs.ModeSetuid | 0o711, UID: 1000, GID: 100, Size: 5, ModTime: when}, "hello"},
	{tarfile.Header{Kind: tarfile.File, Name: "block", Mode: 0o644, Size: 512, ModTime: when}, strings.Repeat("b", 512)},
	{tarfile.Header{Kind: tarfile.File, Name: "empty", Mode: 0o600, ModTime: time.Unix(0, 0)}, ""},
	{tarfile.Header{Kind: tarfile.File, Name: long, Mode: 0o600, Size: 1, ModTime: when}, "x"},
	{tarfile.Header{Kind: tarfile.File, Name: strings.Repeat("m", 100), Mode: 0o600, Size: 1, ModTime: when}, "y"},
	{Header: tarfile.Header{Kind: tarfile.Symlink, Name: "l", Link: "../" + long, Mode: fs.ModeSymlink | 0o777, ModTime: when}},
	{Header: tarfile.Header{Kind: tarfile.HardLink, Name: "h", Link: "d/f", Mode: 0o644, ModTime: when}},
	{Header: tarfile.Header{Kind: tarfile.Char, Name: "null", Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, Major: 1, Minor: 3, ModTime: when}},
	{Header: tarfile.Header{Kind: tarfile.Block, Name: "mtdblock", Mode: fs.ModeDevice | 0o600, Major: 31, Minor: 2, ModTime: when}},
	{Header: tarfile.Header{Kind: tarfile.FIFO, Name: "p", Mode: fs.ModeNamedPipe | 0o600, ModTime: when}},
	{tarfile.Header{Kind: tarfile.File, Name: "owner", Mode: 0o600, UID: 2100000000, GID: 2097152, Size: 1, ModTime: when}, "z"},
}

func read(r *tarfile.Reader) (list []entry, err error) {
	for {
		h, err := r.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return list, err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return list, err
		}
		list = append(list, entry{*h, string(b)})
	}
}

// equal compares what both have.
func equal(t *testing.T, got, want []entry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if !g.ModTime.Equal(w.ModTime) {
			t.Errorf("%s: time %v, want %v", w.Name, g.ModTime, w.ModTime)
		}
		g.ModTime = w.ModTime
		if !reflect.DeepEqual(g, w) {
			t.Errorf("entry %d:\n%+v, want\n%+v", i, g, w)
		}
	}
}

// What every format of archive/tar has is read.
func TestReader(t *testing.T) {
	t.Parallel()
	for name, format := range map[string]tar.Format{"pax": tar.FormatPAX, "GNU": tar.FormatGNU, "any": tar.FormatUnknown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, e := range entries {
				h := header(e)
				h.Format = format
				if format == tar.FormatPAX {
					h.ModTime = h.ModTime.Add(time.Millisecond)
				}
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(w, e.contents)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := read(tarfile.NewReader(&b))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, entries)
		})
	}
}

func header(e entry) *tar.Header {
	mode := int64(e.Mode.Perm())
	for bit, m := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if e.Mode&m != 0 {
			mode |= bit
		}
	}
	return &tar.Header{
		Typeflag: e.Kind, Name: e.Name, Linkname: e.Link, Mode: mode, Uid: e.UID, Gid: e.GID, Size: e.Size, ModTime: e.ModTime,
		Devmajor: int64(e.Major), Devminor: int64(e.Minor),
	}
}

// A ustar header's name goes on in a second field.
func TestUSTAR(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("p", 90) + "/" + strings.Repeat("n", 90)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Format: tar.FormatUSTAR}); err != nil {
		t.Fatal(err)
	}
	h, err := tarfile.NewReader(&b).Next()
	if err != nil || h.Name != name {
		t.Errorf("Next = %+v, %v, want the name %s", h, err, name)
	}
}

// What Writer writes is read by archive/tar, and by Reader, in pieces of any
// size.
func TestWriter(t *testing.T) {
	t.Parallel()
	archive := write(t, entries)
	r := tar.NewReader(bytes.NewReader(archive))
	for _, e := range entries {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		contents, err := io.ReadAll(r)
		if err != nil || string(contents) != e.contents {
			t.Errorf("%s has %q (%v), want %q", h.Name, contents, err, e.contents)
		}
		want := header(e)
		if h.Typeflag != want.Typeflag || h.Name != want.Name || h.Linkname != want.Linkname || h.Mode != want.Mode || h.Uid != want.Uid || h.Gid != want.Gid ||
			h.Size != want.Size || !h.ModTime.Equal(want.ModTime) || h.Devmajor != want.Devmajor || h.Devminor != want.Devminor {
			t.Errorf("archive/tar reads %+v, want %+v", h, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("behind the last entry: %v, want io.EOF", err)
	}
	for _, size := range []int{1, 7, 512, 1 << 20} {
		got, err := read(tarfile.NewReader(pieces{bytes.NewReader(archive), size}))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, entries)
	}
}

func write(t testing.TB, list []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tarfile.NewWriter(&b)
	for _, e := range list {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.contents); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pieces reads so many bytes at a time.
type pieces struct {
	r    io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }

// Next goes over contents that nobody read, and an archive may end without its
// two blocks.
func TestSkip(t *testing.T) {
	t.Parallel()
	archive := write(t, entries)
	r := tarfile.NewReader(bytes.NewReader(archive[:len(archive)-2*512]))
	for _, e := range entries {
		h, err := r.Next()
		if err != nil || h.Name != e.Name {
			t.Fatalf("Next = %v, %v, want %s", h, err, e.Name)
		}
	}
	for range 2 {
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("at the end: %v, want io.EOF", err)
		}
	}
}

// On 32 bits the highest owners are below 0 as an int.
func TestHighestOwner(t *testing.T) {
	t.Parallel()
	list, err := read(tarfile.NewReader(bytes.NewReader(write(t, []entry{{Header: tarfile.Header{Kind: tarfile.File, Name: "f", UID: -2}}}))))
	if err != nil || len(list) != 1 || uint32(list[0].UID) != 1<<32-2 {
		t.Errorf("read %+v, %v, want owner %d", list, err, uint32(1<<32-2))
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	w := tarfile.NewWriter(io.Discard)
	if err := w.WriteHeader(&tarfile.Header{Kind: tarfile.File, Name: "f", Size: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("abc")); !errors.Is(err, tarfile.ErrTooLong) {
		t.Errorf("more than the header says: %v", err)
	}
	if err := w.WriteHeader(&tarfile.Header{Kind: tarfile.File, Name: "g"}); err == nil {
		t.Error("an entry that is not complete was followed by another")
	}
	if err := tarfile.NewWriter(io.Discard).WriteHeader(&tarfile.Header{Kind: tarfile.File, Name: "a\x00b"}); err == nil {
		t.Error("a name with a zero byte was written")
	}
}

// What is damaged is an error, never another archive.
func TestDamaged(t *testing.T) {
	t.Parallel()
	whole := write(t, []entry{{tarfile.Header{Kind: tarfile.File, Name: "f", Mode: 0o600, Size: 700, ModTime: when}, strings.Repeat("c", 700)}})
	record := func(kind byte, text string) []byte {
		var b bytes.Buffer
		w := tarfile.NewWriter(&b)
		// The writer keeps contents of files alone: the kind and its sum are
		// changed afterwards.
		_ = w.WriteHeader(&tarfile.Header{Kind: tarfile.File, Name: "r", Size: int64(len(text))})
		_, _ = io.WriteString(w, text)
		out := append(b.Bytes(), make([]byte, -len(text)&511)...)
		return append(kindOf(out, kind), whole...)
	}
	for name, tt := range map[string]struct {
		archive []byte
		want    error
	}{
		"cut in a header":       {whole[:100], io.ErrUnexpectedEOF},
		"cut in the contents":   {whole[:900], io.ErrUnexpectedEOF},
		"cut before a block":    {whole[:512+700], io.ErrUnexpectedEOF},
		"another sum":           {append([]byte("g"), whole[1:]...), tarfile.ErrFormat},
		"no archive":            {bytes.Repeat([]byte("rubbish "), 200), tarfile.ErrFormat},
		"a size below 0":        {sized(whole, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), tarfile.ErrFormat},
		"a size of 95 bits":     {sized(whole, "\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), tarfile.ErrFormat},
		"a size in decimal":     {sized(whole, "00000000799\x00"), tarfile.ErrFormat},
		"record: no length":     {record('x', "path=a\n"), tarfile.ErrFormat},
		"record: too long":      {record('x', "99 path=a\n"), tarfile.ErrFormat},
		"record: too short":     {record('x', "1 path=a\n"), tarfile.ErrFormat},
		"record: no equal sign": {record('x', "7 path\n"), tarfile.ErrFormat},
		"record: a zero byte":   {record('x', "10 path=a\x00\n"), tarfile.ErrFormat},
		"record: size below 0":  {record('x', "11 size=-1\n"), tarfile.ErrFormat},
		"record: huge":          {record('x', strings.Repeat("x", 65<<10)), tarfile.ErrFormat},
		"name: huge":            {record('L', strings.Repeat("x", 65<<10)), tarfile.ErrFormat},
		"cut behind a record":   {record('x', "10 path=a\n")[:1024], io.ErrUnexpectedEOF},
		"an end behind a name":  {append(record('L', "another\x00")[:1024], make([]byte, 1024)...), io.ErrUnexpectedEOF},
		"sparse, pax":           {record('x', "22 GNU.sparse.major=1\n"), tarfile.ErrSparse},
		"sparse, GNU":           {record('S', ""), tarfile.ErrSparse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if list, err := read(tarfile.NewReader(bytes.NewReader(tt.archive))); !errors.Is(err, tt.want) {
				t.Errorf("read %d entries, %v, want %v", len(list), err, tt.want)
			}
		})
	}
	// And what is unusual is not.
	for name, tt := range map[string]struct {
		archive []byte
		want    string
	}{
		"global records":        {record('g', "22 comment=from a git\n"), "f"},
		"a name":                {record('L', "another\x00"), "another"},
		"a pax name":            {record('x', "16 path=another\n"), "another"},
		"the last one":          {record('x', "10 path=a\n10 path=b\n"), "b"},
		"a record taken back":   {record('x', "10 path=a\n8 path=\n"), "f"},
		"a record nobody reads": {record('x', "15 comment=abc\n"), "f"},
		"old tar's file":        {kindOf(append([]byte(nil), whole...), 0), "f"},
		"a contiguous file":     {kindOf(append([]byte(nil), whole...), '7'), "f"},
		"an unknown kind":       {kindOf(append([]byte(nil), whole...), 'V'), "f"},
		"a slash at the end":    {record('x', "15 path=hello/\n"), "hello/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := read(tarfile.NewReader(bytes.NewReader(tt.archive)))
			if err != nil || len(list) != 1 || list[0].Name != tt.want {
				t.Fatalf("read %+v, %v, want %s", list, err, tt.want)
			}
			if dir := strings.HasSuffix(tt.want, "/"); list[0].Mode.IsDir() != dir || list[0].Kind == tarfile.Dir != dir {
				t.Errorf("kind %c, mode %v", list[0].Kind, list[0].Mode)
			}
		})
	}
}

// kindOf changes the kind of an archive's first entry.
func kindOf(archive []byte, kind byte) []byte { return changed(archive, 156, string(kind)) }

// sized changes the size.
func sized(archive []byte, field string) []byte {
	return changed(append([]byte(nil), archive...), 124, field)
}

func changed(archive []byte, at int, text string) []byte {
	copy(archive[at:], text)
	copy(archive[148:156], "        ")
	sum := 0
	for _, c := range archive[:512] {
		sum += int(c)
	}
	for i := 153; i >= 148; i-- {
		archive[i] = '0' + byte(sum&7)
		sum >>= 3
	}
	archive[154], archive[155] = 0, ' '
	return archive
}

// Whatever it is given, Reader ends, keeps names without zero bytes, and reads
// what it read once it is written again.
func FuzzReader(f *testing.F) {
	// Small ones: what is new in a large one takes a minute to be cut down.
	for _, e := range entries[:8] {
		if len(e.Name) < 100 {
			f.Add(write(f, []entry{e})[:512+-(-e.Size&^511)])
		}
	}
	one := write(f, entries[1:2])[:1024]
	f.Add(changed(append([]byte(nil), one...), 156, "x"))
	f.Add(changed(append([]byte(nil), one...), 156, "L"))
	f.Add(changed(append([]byte(nil), one...), 124, "\xbf\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		list, err := read(tarfile.NewReader(bytes.NewReader(in)))
		var again []entry
		for _, e := range list {
			if strings.ContainsRune(e.Name+e.Link, 0) || e.Size < 0 || int64(len(e.contents)) != e.Size {
				t.Fatalf("entry %+v with %d bytes", e.Header, len(e.contents))
			}
			if strings.IndexByte("05", e.Kind) >= 0 && e.ModTime.Unix() >= 0 && e.UID >= 0 && e.GID >= 0 && e.Name != "" {
				again = append(again, entry{tarfile.Header{Kind: e.Kind, Name: e.Name, Link: e.Link, Mode: e.Mode, UID: e.UID, GID: e.GID, Size: e.Size, ModTime: e.ModTime}, e.contents})
			}
		}
		if err != nil || len(again) != len(list) {
			return
		}
		got, err := read(tarfile.NewReader(bytes.NewReader(write(t, again))))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, again)
	})
}
