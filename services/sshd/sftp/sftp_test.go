//go:build linux

package sftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const patience = 10 * time.Second

// peer is a client that says what it is told.
type peer struct {
	t     testing.TB
	c     net.Conn
	id    uint32
	ended chan error
}

func serve(t testing.TB, o Options) *peer {
	t.Helper()
	near, far := net.Pipe()
	p := &peer{t: t, c: near, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { p.ended <- Serve(ctx, far, o); far.Close() }()
	t.Cleanup(func() {
		cancel()
		near.Close()
		<-p.ended
	})
	near.SetDeadline(time.Now().Add(patience))
	p.send([]byte{typeInit, 0, 0, 0, 3})
	r := p.receive()
	if r.byte() != typeVersion || r.uint32() != 3 || r.string() != "posix-rename@openssh.com" {
		t.Fatalf("no version 3: % x", r.b)
	}
	return p
}

func (p *peer) send(packet []byte) {
	p.t.Helper()
	if _, err := p.c.Write(appendString(nil, string(packet))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() *packet {
	p.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(p.c, head[:]); err != nil {
		p.t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p.c, b); err != nil {
		p.t.Fatal(err)
	}
	return &packet{b: b}
}

// ask sends a request, whose fields are strings, uint32 and uint64, and returns
// the answer's kind and what is behind its id.
func (p *peer) ask(kind byte, fields ...any) (byte, *packet) {
	p.t.Helper()
	p.id++
	b := binary.BigEndian.AppendUint32([]byte{kind}, p.id)
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			b = appendString(b, f)
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(f))
		case uint64:
			b = binary.BigEndian.AppendUint64(b, f)
		}
	}
	p.send(b)
	r := p.receive()
	k := r.byte()
	if id := r.uint32(); id != p.id {
		p.t.Fatalf("the answer is to %d, not %d", id, p.id)
	}
	return k, r
}

// status asks for what is answered with a status.
func (p *peer) status(kind byte, fields ...any) (code uint32, text string) {
	p.t.Helper()
	k, r := p.ask(kind, fields...)
	if k != typeStatus {
		p.t.Fatalf("request %d: answer %d: % x", kind, k, r.b)
	}
	return r.uint32(), r.string()
}

// want is a status that must come.
func (p *peer) want(code uint32, kind byte, fields ...any) string {
	p.t.Helper()
	got, text := p.status(kind, fields...)
	if got != code {
		p.t.Errorf("request %d %q: status %d %q, want %d", kind, fields, got, text, code)
	}
	return text
}

func (p *peer) handle(kind byte, fields ...any) string {
	p.t.Helper()
	k, r := p.ask(kind, fields...)
	if k != typeHandle {
		p.t.Fatalf("request %d %q: answer %d: %q", kind, fields, k, r.b)
	}
	return r.string()
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	p := serve(t, Options{Home: dir})
	h := p.handle(typeOpen, "f", openWrite|openRead|openCreate|openExcl, attrMode, 0o600)
	p.want(statusOK, typeWrite, h, uint64(6), "world")
	p.want(statusOK, typeWrite, h, uint64(0), "hello ")
	k, r := p.ask(typeRead, h, uint64(3), 4)
	if got := r.string(); k != typeData || got != "lo w" {
		t.Errorf("%d, %q", k, got)
	}
	k, r = p.ask(typeRead, h, uint64(6), 1<<30)
	if got := r.string(); k != typeData || got != "world" {
		t.Errorf("%d, %q", k, got)
	}
	p.want(statusEOF, typeRead, h, uint64(11), 10)
	k, r = p.ask(typeFstat, h)
	if a := r.attrs(); k != typeAttrs || a.size != 11 || a.mode != unix.S_IFREG|0o600 || a.uid != 0 {
		t.Errorf("%d, %+v", k, a)
	}
	p.want(statusOK, typeExtended, "fsync@openssh.com", h)
	p.want(statusOK, typeFsetstat, h, attrSize|attrMode|attrTimes, uint64(5), 0o644, 1000, 2000)
	p.want(statusOK, typeClose, h)
	p.want(statusFailure, typeClose, h)
	p.want(statusFailure, typeRead, h, uint64(0), 1)
	p.want(statusFailure, typeOpen, dir+"/f", openWrite|openCreate|openExcl, 0)
	b, err := os.ReadFile(dir + "/f")
	info, _ := os.Stat(dir + "/f")
	if string(b) != "hello" || err != nil || info.Mode().Perm() != 0o644 || info.ModTime().Unix() != 2000 {
		t.Errorf("%q, %v, %v, %v", b, err, info.Mode(), info.ModTime())
	}
	h = p.handle(typeOpen, "f", openWrite|openAppend, 0)
	p.want(statusOK, typeWrite, h, uint64(0), " again")
	p.want(statusOK, typeClose, h)
	h = p.handle(typeOpen, "g", openWrite|openCreate|openTrunc, 0)
	p.want(statusOK, typeClose, h)
	if b, _ := os.ReadFile(dir + "/f"); string(b) != "hello again" {
		t.Errorf("%q", b)
	}
	if info, err := os.Stat(dir + "/g"); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTree(t *testing.T) {
	dir := t.TempDir()
	p := serve(t, Options{Home: dir})
	p.want(statusOK, typeMkdir, "d", attrMode, 0o700)
	p.want(statusFailure, typeMkdir, "d", 0)
	p.want(statusOK, typeSymlink, "d", "link")
	k, r := p.ask(typeReadlink, dir+"/link")
	if k != typeName || r.uint32() != 1 || r.string() != "d" {
		t.Errorf("readlink: %d", k)
	}
	for path, want := range map[string]string{".": dir, "": dir, "link": dir + "/d", "no/../d": dir + "/d", "/..": "/", "new": dir + "/new"} {
		k, r := p.ask(typeRealpath, path)
		if n, got := r.uint32(), r.string(); k != typeName || n != 1 || got != want {
			t.Errorf("realpath %q: %q", path, got)
		}
	}
	if k, r := p.ask(typeLstat, "link"); k != typeAttrs || r.attrs().mode&unix.S_IFMT != unix.S_IFLNK {
		t.Error("lstat follows")
	}
	if k, r := p.ask(typeStat, "link"); k != typeAttrs || r.attrs().mode != unix.S_IFDIR|0o700 {
		t.Error("stat does not follow")
	}
	for i := range 3 * maxNames {
		if err := os.WriteFile(filepath.Join(dir, "d", "file"+strings.Repeat("x", i)), nil, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	h := p.handle(typeOpendir, "d")
	seen := map[string]bool{}
	for {
		k, r := p.ask(typeReaddir, h)
		if k == typeStatus {
			if code := r.uint32(); code != statusEOF {
				t.Errorf("status %d", code)
			}
			break
		}
		for range r.uint32() {
			name, long, a := r.string(), r.string(), r.attrs()
			seen[name] = true
			if !strings.HasPrefix(long, "-rw-r-----    1        0        0        0 ") || !strings.HasSuffix(long, " "+name) || a.mode != unix.S_IFREG|0o640 {
				t.Errorf("%q: %q, %o", name, long, a.mode)
			}
		}
		if r.bad {
			t.Fatal("an answer is cut off")
		}
	}
	if len(seen) != 3*maxNames {
		t.Errorf("%d names", len(seen))
	}
	p.want(statusFailure, typeRead, h, uint64(0), 10)
	p.want(statusOK, typeClose, h)
	p.want(statusFailure, typeRename, "d/file", "d/filex") // replaces nothing
	p.want(statusOK, typeRename, "d/file", "d/moved")
	p.want(statusOK, typeExtended, "posix-rename@openssh.com", "d/moved", "d/filex")
	p.want(statusOK, typeExtended, "hardlink@openssh.com", "d/filex", "hard")
	p.want(statusNoFile, typeRename, "none", "nowhere")
	p.want(statusNoFile, typeStat, "none")
	p.want(statusNoFile, typeOpen, "none", openRead, 0)
	p.want(statusNoFile, typeOpendir, "none")
	p.want(statusNoFile, typeRemove, "none")
	p.want(statusFailure, typeRmdir, "d") // is not empty
	p.want(statusFailure, typeRemove, "d")
	p.want(statusOK, typeRemove, "link")
	p.want(statusOK, typeSetstat, "hard", attrMode, 0o400)
	if err := os.RemoveAll(dir + "/d"); err != nil {
		t.Fatal(err)
	}
	if k, r := p.ask(typeExtended, "statvfs@openssh.com", dir); k != typeReply || len(r.b) != 11*8 {
		t.Errorf("statvfs: %d, %d bytes", k, len(r.b))
	}
	if k, r := p.ask(typeExtended, "limits@openssh.com"); k != typeReply || r.uint64() != maxPacket || r.uint64() != maxData {
		t.Errorf("limits: %d", k)
	}
	p.want(statusUnsupported, typeExtended, "copy-data")
	p.want(statusUnsupported, 99)
	p.want(statusBadMessage, typeStat, "a\x00b")
	p.want(statusBadMessage, typeOpen, "f")
	p.want(statusFailure, typeFstat, "no handle")
}

// A FIFO does not hold anybody up.
func TestFIFO(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, Options{Home: dir})
	h := p.handle(typeOpen, "fifo", openRead, 0)
	p.want(statusFailure, typeRead, h, uint64(0), 10)
	p.want(statusOK, typeClose, h)
	p.want(statusFailure, typeOpen, "fifo", openWrite, 0) // nobody reads
}

func TestOpenFilesAreBounded(t *testing.T) {
	p := serve(t, Options{Home: t.TempDir()})
	var first string
	for i := range maxOpen {
		h := p.handle(typeOpendir, ".")
		if i == 0 {
			first = h
		}
	}
	if text := p.want(statusFailure, typeOpendir, "."); !strings.Contains(text, "too many files") {
		t.Error(text)
	}
	p.want(statusOK, typeClose, first)
	p.want(statusOK, typeClose, p.handle(typeOpendir, "."))
}

// What is written into memory leaves some of it.
func TestMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "sftp") // a tmpfs
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	left := MinAvailableKiB + 256
	p := serve(t, Options{Home: dir, AvailableKiB: func() (int, error) { return left, nil }})
	h := p.handle(typeOpen, "f", openWrite|openCreate, 0)
	data := strings.Repeat("x", maxData)
	written := 0
	for ; written < 100; written++ {
		code, text := p.status(typeWrite, h, uint64(written*maxData), data)
		if code != statusOK {
			if !strings.Contains(text, "in the gateway's memory") {
				t.Error(text)
			}
			break
		}
		left -= maxData >> 10
	}
	if got := written * maxData >> 10; got < 256 || got > 256+2*probeEvery>>10 {
		t.Errorf("%d KiB were written where 256 were to be had", got)
	}
	left = MinAvailableKiB
	p.want(statusOK, typeWrite, h, uint64(0), "y")
	// A file of its own is looked at anew.
	left = MinAvailableKiB - 1
	p.want(statusFailure, typeWrite, p.handle(typeOpen, "g", openWrite|openCreate, 0), uint64(0), "z")
	p = serve(t, Options{Home: dir, AvailableKiB: func() (int, error) { return 0, errors.New("not known") }})
	h = p.handle(typeOpen, "f", openWrite|openTrunc, 0)
	p.want(statusFailure, typeWrite, h, uint64(0), "x")
}

func TestAvailable(t *testing.T) {
	if n, err := AvailableKiB(); err != nil || n < 1000 {
		t.Errorf("%d KiB, %v", n, err)
	}
}

// A client that does not keep to the protocol is ended.
func TestProtocol(t *testing.T) {
	for name, says := range map[string]string{
		"no INIT":   "\x00\x00\x00\x05\x11\x00\x00\x00\x01",
		"too long":  "\xff\xff\xff\xff",
		"empty":     "\x00\x00\x00\x00",
		"cut off":   "\x00\x00\x00\x09\x01",
		"no number": "\x00\x00\x00\x05\x01\x00\x00\x00\x03\x00\x00\x00\x02\x11\x00",
	} {
		c := &canned{r: strings.NewReader(says)}
		if err := Serve(t.Context(), c, Options{}); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Serve(t.Context(), &canned{r: strings.NewReader("")}, Options{}); err != nil {
		t.Errorf("an end: %v", err)
	}
}

// canned is a client whose requests do not depend on the answers.
type canned struct {
	r io.Reader
	w bytes.Buffer
}

func (c *canned) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c *canned) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c *canned) Close() error                { return nil }

// FuzzServe keeps what is asked away from the file system: paths lead into a
// folder that is not there.
func FuzzServe(f *testing.F) {
	add := func(kind byte, rest string) {
		packet := append([]byte{kind, 0, 0, 0, 1}, rest...)
		f.Add(appendString([]byte("\x00\x00\x00\x05\x01\x00\x00\x00\x03"), string(packet)))
	}
	for kind := byte(typeOpen); kind <= typeSymlink; kind++ {
		add(kind, "\x00\x00\x00\x01a\x00\x00\x00\x01")
	}
	add(typeExtended, "\x00\x00\x00\x13statvfs@openssh.com\x00\x00\x00\x01a")
	home := filepath.Join(f.TempDir(), "none")
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.IndexByte(in, '/') >= 0 {
			return
		}
		c := &canned{r: bytes.NewReader(in)}
		_ = Serve(context.Background(), c, Options{Home: home}) // any end will do
		// Every answer is a whole packet of no more than a packet may have.
		out := c.w.Bytes()
		for len(out) > 0 {
			if len(out) < 5 {
				t.Fatalf("a rest of %d bytes", len(out))
			}
			n := binary.BigEndian.Uint32(out)
			if n == 0 || uint64(n) > uint64(len(out)-4) || n > maxPacket {
				t.Fatalf("a packet of %d bytes, %d are left", n, len(out)-4)
			}
			out = out[4+n:]
		}
	})
}
