package ddi

import (
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gwinit/internal/wait"
)

// ErrHash: what was downloaded is not what the server announced.
var ErrHash = errors.New("the download is not the file that the server announced")

const (
	// fetchTries is how often a download that breaks off goes on; fetchPause is
	// between two.
	fetchTries = 5
	fetchPause = 5 * time.Second
	partSuffix = ".part"
)

// cache is downloaded files in a folder, each once, by their hash.
type cache struct {
	dir  string
	most int64 // bytes of all files

	mu    sync.Mutex           // guards the rest
	turns map[string]*turn     // of files that somebody wants now
	used  map[string]time.Time // of whole files, when last
}

// turn is one file's.
type turn struct {
	mine  chan struct{} // holds a token of who fetches or verifies it
	size  int64
	users int  // guarded by the cache
	good  bool // it is there and was verified; for who has the token
}

// openCache makes the folder, which nothing else may use.
func openCache(dir string, most int64) (*cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &cache{dir: dir, most: most, turns: map[string]*turn{}, used: map[string]time.Time{}}, nil
}

// get returns the path of a file, which is there until done is called. It is
// fetched if it is not there; who asks for the same one meanwhile waits.
func (c *cache) get(ctx context.Context, a artifact, fetch func(ctx context.Context, href string, at int64) (io.ReadCloser, int64, error)) (path string, done func(), err error) {
	key := a.key()
	c.mu.Lock()
	t := c.turns[key]
	if t == nil {
		t = &turn{mine: make(chan struct{}, 1), size: a.size}
		c.turns[key] = t
	}
	t.users++
	c.mu.Unlock()
	done = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(c.turns, key)
		}
		c.used[key] = time.Now()
	})
	path = filepath.Join(c.dir, key)
	select {
	case t.mine <- struct{}{}:
		defer func() { <-t.mine }()
	case <-ctx.Done():
		done()
		return "", nil, ctx.Err()
	}
	if !t.good {
		if err = c.fill(ctx, path, a, fetch); err != nil {
			done()
			return "", nil, err
		}
		t.good = true
	}
	return path, done, nil
}

// fill has the file there, verified.
func (c *cache) fill(ctx context.Context, path string, a artifact, fetch func(context.Context, string, int64) (io.ReadCloser, int64, error)) error {
	if verify(path, a) == nil {
		return nil
	}
	if err := c.room(a); err != nil {
		return err
	}
	part := path + partSuffix
	var err error
	for try := range fetchTries {
		if try > 0 && !wait.For(ctx, fetchPause) {
			return ctx.Err()
		}
		if err = load(ctx, part, a, fetch); err == nil || ctx.Err() != nil || errors.As(err, new(Status)) || errors.Is(err, ErrAnswer) {
			break
		}
	}
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if err := verify(part, a); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, path)
}

// load goes on with a download.
func load(ctx context.Context, part string, a artifact, fetch func(context.Context, string, int64) (io.ReadCloser, int64, error)) error {
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if at >= a.size {
		return nil // verified next, and taken away if it is none
	}
	body, begin, err := fetch(ctx, a.href, at)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := f.Truncate(begin); err != nil {
		return err
	}
	if _, err := f.Seek(begin, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(body, a.size-begin+1))
	switch {
	case err != nil:
	case begin+n < a.size:
		err = fmt.Errorf("the download ended after %d of %d bytes", begin+n, a.size)
	default:
		err = f.Sync()
	}
	return err
}

// verify tells whether a file is the announced one, by each hash that there is.
func verify(path string, a artifact) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var all []io.Writer
	wants := map[string]hash.Hash{}
	for text, h := range map[string]hash.Hash{a.sha256: sha256.New(), a.sha1: sha1.New(), a.md5: md5.New()} {
		if text != "" {
			wants[text] = h
			all = append(all, h)
		}
	}
	n, err := io.Copy(io.MultiWriter(all...), f)
	if err != nil {
		return err
	}
	if n != a.size {
		return fmt.Errorf("%w: %d bytes and not %d", ErrHash, n, a.size)
	}
	for want, h := range wants {
		if got := hex.EncodeToString(h.Sum(nil)); got != want {
			return fmt.Errorf("%w: its hash is %s and not %s", ErrHash, got, want)
		}
	}
	return nil
}

// room makes place for a file: those go that nobody has used for longest.
func (c *cache) room(a artifact) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	type file struct {
		name string
		size int64
		used time.Time
	}
	var all []file
	var sum int64
	for _, t := range c.turns {
		sum += t.size // as it will be; a's is one of them
	}
	for _, e := range entries {
		key := strings.TrimSuffix(e.Name(), partSuffix)
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if c.turns[key] != nil {
			continue
		}
		sum += info.Size()
		used := c.used[key]
		if used.IsZero() {
			used = info.ModTime()
		}
		all = append(all, file{e.Name(), info.Size(), used})
	}
	slices.SortFunc(all, func(a, b file) int { return a.used.Compare(b.used) })
	for _, f := range all {
		if sum <= c.most {
			break
		}
		if err := os.Remove(filepath.Join(c.dir, f.name)); err != nil {
			return err
		}
		delete(c.used, f.name)
		sum -= f.size
	}
	if sum > c.most {
		return fmt.Errorf("the cache is full of files that are being sent: -cache-mib makes it larger than %d MiB", c.most>>20)
	}
	return nil
}
