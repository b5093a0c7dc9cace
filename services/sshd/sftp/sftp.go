//go:build linux

// Package sftp serves files to one client by SFTP, version 3
// (draft-ietf-secsh-filexfer-02), which is what OpenSSH, PuTTY, WinSCP and
// FileZilla speak, with the extensions that OpenSSH's sftp and scp use.
//
// It is for root: paths are taken as they are. What it bounds is memory: its
// own (a packet, a few open files), and that of the box, whose /tmp, /run and
// /var are RAM without a limit of the kernel's.
package sftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits, in bytes but for the last two.
const (
	maxData   = 32 << 10        // of a read or a write
	maxPacket = maxData + 1<<10 // with a path or a handle
	maxOpen   = 16              // files and folders
	maxNames  = 32              // of an answer to READDIR
)

// MinAvailableKiB is how much memory a write into RAM leaves to the gateway.
const MinAvailableKiB = 4 << 10

// probeEvery is after how many bytes written into RAM the memory is looked at.
const probeEvery = 128 << 10

// Types of packets.
const (
	typeInit     = 1
	typeVersion  = 2
	typeOpen     = 3
	typeClose    = 4
	typeRead     = 5
	typeWrite    = 6
	typeLstat    = 7
	typeFstat    = 8
	typeSetstat  = 9
	typeFsetstat = 10
	typeOpendir  = 11
	typeReaddir  = 12
	typeRemove   = 13
	typeMkdir    = 14
	typeRmdir    = 15
	typeRealpath = 16
	typeStat     = 17
	typeRename   = 18
	typeReadlink = 19
	typeSymlink  = 20
	typeStatus   = 101
	typeHandle   = 102
	typeData     = 103
	typeName     = 104
	typeAttrs    = 105
	typeExtended = 200
	typeReply    = 201
)

// Codes of a status.
const (
	statusOK          = 0
	statusEOF         = 1
	statusNoFile      = 2
	statusDenied      = 3
	statusFailure     = 4
	statusBadMessage  = 5
	statusUnsupported = 8
)

// Flags of an open.
const (
	openRead   = 1
	openWrite  = 2
	openAppend = 4
	openCreate = 8
	openTrunc  = 16
	openExcl   = 32
)

// Flags of attributes.
const (
	attrSize     = 1
	attrOwner    = 2
	attrMode     = 4
	attrTimes    = 8
	attrExtended = 1 << 31
)

// version is the protocol's, and extensions those beside it, with their
// versions.
const version = 3

var extensions = [...]string{
	"posix-rename@openssh.com", "1", "fsync@openssh.com", "1", "hardlink@openssh.com", "1",
	"statvfs@openssh.com", "2", "limits@openssh.com", "1",
}

// Options are what a server works with.
type Options struct {
	Home string // where relative paths begin
	// AvailableKiB returns how much memory the box can still give; nil: the
	// kernel's own estimate.
	AvailableKiB func() (int, error)
}

// ErrProtocol is a client that speaks something else.
var ErrProtocol = errors.New("sftp: the client does not keep to the protocol")

// errRAM is a write that is refused for want of memory.
var errRAM = errors.New("no space left: this folder is in the gateway's memory")

// Serve serves the client at the other end of c until that ends, which is no
// error, or ctx does; c's Close must end a Read.
func Serve(ctx context.Context, c io.ReadWriteCloser, o Options) error {
	if o.AvailableKiB == nil {
		o.AvailableKiB = AvailableKiB
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	s := &server{o: o, in: make([]byte, maxPacket), open: map[uint32]*handle{}}
	defer func() {
		for _, h := range s.open {
			h.f.Close()
		}
	}()
	for {
		p, err := s.receive(c)
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		s.out = append(s.out[:0], 0, 0, 0, 0)
		if err := s.answer(p); err != nil {
			return err
		}
		binary.BigEndian.PutUint32(s.out, uint32(len(s.out)-4))
		if _, err := c.Write(s.out); err != nil {
			return nil // the client is gone
		}
	}
}

// server is the state of one client.
type server struct {
	o       Options
	in, out []byte
	greeted bool
	open    map[uint32]*handle
	last    uint32
}

// handle is one open file or folder.
type handle struct {
	f       *os.File
	folder  bool
	append  bool
	written bool
	bound   *BoundedFile // of what is written
}

// receive reads one packet.
func (s *server) receive(r io.Reader) (*packet, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxPacket {
		return nil, fmt.Errorf("%w: a packet of %d bytes, %d are the most", ErrProtocol, n, maxPacket)
	}
	if _, err := io.ReadFull(r, s.in[:n]); err != nil {
		return nil, fmt.Errorf("%w: a packet ends too soon", ErrProtocol)
	}
	return &packet{b: s.in[:n]}, nil
}

// answer carries a request out and puts the answer into s.out.
func (s *server) answer(p *packet) error {
	kind := p.byte()
	if kind == typeInit {
		s.greeted = true
		s.out = append(s.out, typeVersion)
		s.out = binary.BigEndian.AppendUint32(s.out, version)
		for _, e := range extensions {
			s.out = appendString(s.out, e)
		}
		return nil
	}
	id := p.uint32()
	if p.bad || !s.greeted {
		return fmt.Errorf("%w: it does not begin with INIT", ErrProtocol)
	}
	err := s.carryOut(kind, id, p)
	if err == nil {
		return nil
	}
	s.out = s.out[:4]
	s.status(id, code(err), words(err))
	return nil
}

var (
	errBad         = errors.New("bad message")
	errUnsupported = errors.New("not supported by this gateway")
	errHandle      = errors.New("no such handle")
	errDone        = errors.New("done") // answered with a status of success
)

func code(err error) uint32 {
	switch {
	case errors.Is(err, errDone):
		return statusOK
	case errors.Is(err, io.EOF):
		return statusEOF
	case errors.Is(err, fs.ErrNotExist):
		return statusNoFile
	case errors.Is(err, fs.ErrPermission):
		return statusDenied
	case errors.Is(err, errBad):
		return statusBadMessage
	case errors.Is(err, errUnsupported):
		return statusUnsupported
	}
	return statusFailure
}

// words are the reason, without the path, which the client knows.
func words(err error) string {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.Is(err, errDone):
		return ""
	case errors.As(err, &path):
		return path.Err.Error()
	case errors.As(err, &link):
		return link.Err.Error()
	}
	return err.Error()
}

func (s *server) status(id, code uint32, text string) {
	s.out = append(s.out, typeStatus)
	s.out = binary.BigEndian.AppendUint32(s.out, id)
	s.out = binary.BigEndian.AppendUint32(s.out, code)
	s.out = appendString(s.out, text)
	s.out = appendString(s.out, "en")
}

func (s *server) begin(kind byte, id uint32) {
	s.out = append(s.out, kind)
	s.out = binary.BigEndian.AppendUint32(s.out, id)
}

// done is errDone, or err.
func done(err error) error {
	if err == nil {
		return errDone
	}
	return err
}

// path is a path of a packet, from Home on if it is relative.
func (s *server) path(p *packet) string {
	name := p.string()
	switch {
	case strings.IndexByte(name, 0) >= 0:
		p.bad = true
		return ""
	case !filepath.IsAbs(name):
		return filepath.Join(s.o.Home, name)
	}
	return name
}

// carryOut puts an answer into s.out and returns nil, or returns what the
// status says.
func (s *server) carryOut(kind byte, id uint32, p *packet) error {
	switch kind {
	case typeOpen:
		name, flags, a := s.path(p), p.uint32(), p.attrs()
		if p.bad {
			return errBad
		}
		return s.openFile(id, name, flags, a)
	case typeOpendir:
		name := s.path(p)
		if p.bad {
			return errBad
		}
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		return s.keep(id, &handle{f: f, folder: true})
	case typeClose:
		n, h := s.handle(p)
		if h == nil {
			return errHandle
		}
		delete(s.open, n)
		var err error
		if h.written && !h.bound.InRAM() {
			err = h.f.Sync() // who was told that it is there finds it after a power cut
		}
		return done(errors.Join(err, h.f.Close()))
	case typeRead:
		_, h := s.handle(p)
		offset, n := p.uint64(), p.uint32()
		if p.bad || h == nil || h.folder || offset > 1<<63-1 {
			return errHandle
		}
		return s.read(id, h, int64(offset), int(min(n, maxData)))
	case typeWrite:
		_, h := s.handle(p)
		offset, data := p.uint64(), p.bytes()
		if p.bad || h == nil || h.folder || offset > 1<<63-1-maxPacket {
			return errHandle
		}
		return done(s.write(h, int64(offset), data))
	case typeLstat, typeStat:
		name := s.path(p)
		if p.bad {
			return errBad
		}
		stat := os.Stat
		if kind == typeLstat {
			stat = os.Lstat
		}
		info, err := stat(name)
		if err != nil {
			return err
		}
		s.begin(typeAttrs, id)
		s.out = appendAttrs(s.out, info)
		return nil
	case typeFstat:
		_, h := s.handle(p)
		if h == nil {
			return errHandle
		}
		info, err := h.f.Stat()
		if err != nil {
			return err
		}
		s.begin(typeAttrs, id)
		s.out = appendAttrs(s.out, info)
		return nil
	case typeSetstat:
		name, a := s.path(p), p.attrs()
		if p.bad {
			return errBad
		}
		return done(a.apply(name))
	case typeFsetstat:
		_, h := s.handle(p)
		a := p.attrs()
		if p.bad || h == nil {
			return errHandle
		}
		return done(a.apply("/proc/self/fd/" + strconv.Itoa(int(h.f.Fd()))))
	case typeReaddir:
		_, h := s.handle(p)
		if h == nil || !h.folder {
			return errHandle
		}
		return s.readDir(id, h)
	case typeRemove:
		name := s.path(p)
		if p.bad {
			return errBad
		}
		return done(os.NewSyscallError("", unix.Unlink(name)))
	case typeMkdir:
		name, a := s.path(p), p.attrs()
		if p.bad {
			return errBad
		}
		mode := uint32(0o755)
		if a.flags&attrMode != 0 {
			mode = a.mode & 0o7777
		}
		return done(os.NewSyscallError("", unix.Mkdir(name, mode)))
	case typeRmdir:
		name := s.path(p)
		if p.bad {
			return errBad
		}
		return done(os.NewSyscallError("", unix.Rmdir(name)))
	case typeRealpath:
		name := filepath.Clean(s.path(p))
		if p.bad {
			return errBad
		}
		if full, err := filepath.EvalSymlinks(name); err == nil {
			name = full // one that is not there yet is its own
		}
		s.name(id, name)
		return nil
	case typeReadlink:
		name := s.path(p)
		if p.bad {
			return errBad
		}
		to, err := os.Readlink(name)
		if err != nil {
			return err
		}
		s.name(id, to)
		return nil
	case typeRename:
		from, to := s.path(p), s.path(p)
		if p.bad {
			return errBad
		}
		if _, err := os.Lstat(to); err == nil {
			return fs.ErrExist // version 3 replaces nothing
		}
		return done(os.Rename(from, to))
	case typeSymlink:
		// OpenSSH has the two the other way round than the draft.
		to, name := p.string(), s.path(p)
		if p.bad {
			return errBad
		}
		return done(os.Symlink(to, name))
	case typeExtended:
		return s.extended(id, p)
	}
	return errUnsupported
}

func (s *server) extended(id uint32, p *packet) error {
	switch p.string() {
	case "posix-rename@openssh.com":
		from, to := s.path(p), s.path(p)
		if p.bad {
			return errBad
		}
		return done(os.Rename(from, to))
	case "hardlink@openssh.com":
		from, to := s.path(p), s.path(p)
		if p.bad {
			return errBad
		}
		return done(os.Link(from, to))
	case "fsync@openssh.com":
		_, h := s.handle(p)
		if h == nil {
			return errHandle
		}
		return done(h.f.Sync())
	case "statvfs@openssh.com":
		name := s.path(p)
		var st unix.Statfs_t
		if p.bad {
			return errBad
		}
		if err := unix.Statfs(name, &st); err != nil {
			return os.NewSyscallError("", err)
		}
		s.begin(typeReply, id)
		for _, n := range []uint64{
			uint64(st.Bsize), uint64(st.Frsize), st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree, st.Ffree, 0, 0, uint64(st.Namelen),
		} {
			s.out = binary.BigEndian.AppendUint64(s.out, n)
		}
		return nil
	case "limits@openssh.com":
		s.begin(typeReply, id)
		for _, n := range []uint64{maxPacket, maxData, maxData, maxOpen} {
			s.out = binary.BigEndian.AppendUint64(s.out, n)
		}
		return nil
	}
	return errUnsupported
}

func (s *server) openFile(id uint32, name string, flags uint32, a attrs) error {
	// Not to wait for the other end of a FIFO.
	how := unix.O_NONBLOCK | unix.O_NOCTTY
	switch flags & (openRead | openWrite) {
	case openRead | openWrite:
		how |= os.O_RDWR
	case openWrite:
		how |= os.O_WRONLY
	}
	for _, f := range [...]struct {
		theirs uint32
		ours   int
	}{{openAppend, os.O_APPEND}, {openCreate, os.O_CREATE}, {openTrunc, os.O_TRUNC}, {openExcl, os.O_EXCL}} {
		if flags&f.theirs != 0 {
			how |= f.ours
		}
	}
	mode := fs.FileMode(0o644)
	if a.flags&attrMode != 0 {
		mode = fs.FileMode(a.mode & 0o777)
	}
	f, err := os.OpenFile(name, how, mode)
	if err != nil {
		return err
	}
	h := &handle{f: f, append: flags&openAppend != 0}
	h.bound = Bounded(f)
	h.bound.available = s.o.AvailableKiB
	return s.keep(id, h)
}

// keep answers with a handle.
func (s *server) keep(id uint32, h *handle) error {
	if len(s.open) >= maxOpen {
		h.f.Close()
		return errors.New("too many files are open: close some")
	}
	s.last++
	s.open[s.last] = h
	s.begin(typeHandle, id)
	s.out = appendString(s.out, string(binary.BigEndian.AppendUint32(nil, s.last)))
	return nil
}

// handle finds what a packet's handle stands for; nil: nothing.
func (s *server) handle(p *packet) (uint32, *handle) {
	b := p.bytes()
	if len(b) != 4 {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(b)
	return n, s.open[n]
}

func (s *server) read(id uint32, h *handle, offset int64, n int) error {
	s.begin(typeData, id)
	head := len(s.out)
	s.out = append(s.out, make([]byte, 4+n)...)
	got, err := h.f.ReadAt(s.out[head+4:], offset)
	if got == 0 && err != nil {
		return err
	}
	binary.BigEndian.PutUint32(s.out[head:], uint32(got))
	s.out = s.out[:head+4+got]
	return nil
}

func (s *server) write(h *handle, offset int64, data []byte) error {
	if err := h.bound.room(len(data)); err != nil {
		return err
	}
	h.written = true
	if h.append { // pwrite(2) appends whatever the offset, but os.File refuses
		_, err := h.f.Write(data)
		return err
	}
	_, err := h.f.WriteAt(data, offset)
	return err
}

func (s *server) readDir(id uint32, h *handle) error {
	entries, err := h.f.ReadDir(maxNames)
	if len(entries) == 0 {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	s.begin(typeName, id)
	at := len(s.out)
	s.out = append(s.out, 0, 0, 0, 0)
	n := uint32(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		s.out = appendString(s.out, e.Name())
		s.out = appendString(s.out, longName(info))
		s.out = appendAttrs(s.out, info)
		n++
	}
	binary.BigEndian.PutUint32(s.out[at:], n)
	return nil
}

// name answers with one name.
func (s *server) name(id uint32, name string) {
	s.begin(typeName, id)
	s.out = binary.BigEndian.AppendUint32(s.out, 1)
	s.out = appendString(s.out, name)
	s.out = appendString(s.out, name)
	s.out = binary.BigEndian.AppendUint32(s.out, 0)
}

// BoundedFile is a file that is written only while the box has memory, if that
// is where it is.
type BoundedFile struct {
	f         *os.File
	available func() (int, error)
	inRAM     bool
	left      int // bytes until the memory is looked at again
}

// Bounded returns f bounded so.
func Bounded(f *os.File) *BoundedFile {
	b := &BoundedFile{f: f, available: AvailableKiB, inRAM: true}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err == nil {
		kind := uint32(st.Type) // it is signed on the gateway, where ramfs' is negative
		b.inRAM = kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC
	}
	return b
}

// InRAM tells whether what is written takes memory.
func (b *BoundedFile) InRAM() bool { return b.inRAM }

// Write implements io.Writer.
func (b *BoundedFile) Write(p []byte) (int, error) {
	if err := b.room(len(p)); err != nil {
		return 0, err
	}
	return b.f.Write(p)
}

// room tells whether n bytes may be written. A hole costs nothing, and what
// fills it later is counted then.
func (b *BoundedFile) room(n int) error {
	if !b.inRAM {
		return nil
	}
	if b.left -= n; b.left >= 0 {
		return nil
	}
	b.left = 0
	kib, err := b.available()
	if err != nil {
		return err
	}
	if kib < MinAvailableKiB {
		return errRAM
	}
	b.left = probeEvery
	return nil
}

// AvailableKiB is MemAvailable of /proc/meminfo.
func AvailableKiB() (int, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}

// longName is the line of `ls -l`, which clients show as it is.
func longName(info fs.FileInfo) string {
	links, uid, gid := uint64(1), uint32(0), uint32(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		links, uid, gid = uint64(st.Nlink), st.Uid, st.Gid
	}
	kind := byte('-')
	switch m := info.Mode(); {
	case m.IsDir():
		kind = 'd'
	case m&fs.ModeSymlink != 0:
		kind = 'l'
	case m&fs.ModeCharDevice != 0:
		kind = 'c'
	case m&fs.ModeDevice != 0:
		kind = 'b'
	case m&fs.ModeNamedPipe != 0:
		kind = 'p'
	case m&fs.ModeSocket != 0:
		kind = 's'
	}
	b := append([]byte{kind}, info.Mode().Perm().String()[1:]...)
	b = pad(append(b, ' '), strconv.FormatUint(links, 10), 4)
	b = pad(append(b, ' '), strconv.FormatUint(uint64(uid), 10), 8)
	b = pad(append(b, ' '), strconv.FormatUint(uint64(gid), 10), 8)
	b = pad(append(b, ' '), strconv.FormatInt(info.Size(), 10), 8)
	b = append(b, ' ')
	b = info.ModTime().AppendFormat(b, "Jan _2  2006")
	b = append(b, ' ')
	return string(append(b, info.Name()...))
}

// pad appends s with spaces in front, so that it takes n characters.
func pad(b []byte, s string, n int) []byte {
	for range n - len(s) {
		b = append(b, ' ')
	}
	return append(b, s...)
}

// attrs are the attributes that a packet sets.
type attrs struct {
	flags        uint32
	size         uint64
	uid, gid     uint32
	mode         uint32
	atime, mtime uint32
}

// apply sets them at path.
func (a attrs) apply(path string) error {
	if a.flags&attrSize != 0 {
		if a.size > 1<<63-1 {
			return errBad
		}
		if err := os.Truncate(path, int64(a.size)); err != nil {
			return err
		}
	}
	if a.flags&attrOwner != 0 {
		if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
			return err
		}
	}
	if a.flags&attrMode != 0 {
		if err := unix.Chmod(path, a.mode&0o7777); err != nil {
			return os.NewSyscallError("", err)
		}
	}
	if a.flags&attrTimes != 0 {
		return os.Chtimes(path, time.Unix(int64(a.atime), 0), time.Unix(int64(a.mtime), 0))
	}
	return nil
}

func appendAttrs(b []byte, info fs.FileInfo) []byte {
	b = binary.BigEndian.AppendUint32(b, attrSize|attrOwner|attrMode|attrTimes)
	b = binary.BigEndian.AppendUint64(b, uint64(info.Size()))
	var uid, gid, mode uint32
	atime := info.ModTime().Unix()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		uid, gid, mode = st.Uid, st.Gid, st.Mode
		atime = int64(st.Atim.Sec)
	}
	b = binary.BigEndian.AppendUint32(b, uid)
	b = binary.BigEndian.AppendUint32(b, gid)
	b = binary.BigEndian.AppendUint32(b, mode)
	b = binary.BigEndian.AppendUint32(b, uint32(atime))
	return binary.BigEndian.AppendUint32(b, uint32(info.ModTime().Unix()))
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// packet reads what a packet holds. After a fault it returns zeros, and bad is
// set.
type packet struct {
	b   []byte
	bad bool
}

func (p *packet) take(n int) []byte {
	if n > len(p.b) {
		p.bad, p.b = true, nil
		return nil
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

func (p *packet) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *packet) uint32() uint32 {
	if b := p.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (p *packet) uint64() uint64 {
	if b := p.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (p *packet) bytes() []byte {
	n := p.uint32()
	if n > maxPacket {
		p.bad, p.b = true, nil
		return nil
	}
	return p.take(int(n))
}

func (p *packet) string() string { return string(p.bytes()) }

func (p *packet) attrs() attrs {
	var a attrs
	a.flags = p.uint32()
	if a.flags&attrSize != 0 {
		a.size = p.uint64()
	}
	if a.flags&attrOwner != 0 {
		a.uid, a.gid = p.uint32(), p.uint32()
	}
	if a.flags&attrMode != 0 {
		a.mode = p.uint32()
	}
	if a.flags&attrTimes != 0 {
		a.atime, a.mtime = p.uint32(), p.uint32()
	}
	if a.flags&attrExtended != 0 {
		for n := p.uint32(); n > 0 && !p.bad; n-- {
			_, _ = p.bytes(), p.bytes()
		}
	}
	return a
}
