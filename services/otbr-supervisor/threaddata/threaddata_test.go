package threaddata

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// golden is a file as otbr-agent of this byte order writes it: an active
// dataset, a network record of Thread 1.4, a child.
func golden(order binary.ByteOrder) []byte {
	record := func(key uint16, value string) string {
		var head [4]byte
		order.PutUint16(head[:], key)
		order.PutUint16(head[2:], uint16(len(value)))
		return string(head[:]) + value
	}
	return []byte(record(1, "\x00\x03\x00\x00\x0f\x03\x04home\x05\x100123456789abcdef") +
		record(3, "\x04\x0f\x00\x58\x02\x00\x00\x00\xe8\x03\x00\x00\xd0\x07\x00\x00\x0d\x0c\x0b\x0a\x01\x02\x03\x04\x05\x06\x07\x08iidiidii\x05\x00") +
		record(5, "childchild"))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, order := range []binary.ByteOrder{binary.BigEndian, binary.LittleEndian} {
		b := golden(order)
		s, err := Parse(b, order)
		if err != nil || len(s) != 3 || s[2].Key != KeyChildInfo || string(s[2].Value) != "childchild" {
			t.Fatalf("%v: %+v, %v", order, s, err)
		}
		i, ok, err := s.Info()
		want := Info{KeySequence: 2, MLE: 1000, MAC: 2000, ExtAddress: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Version: 5}
		if err != nil || !ok || i != want || i.Newer() {
			t.Errorf("%v: %+v, %v, %v", order, i, ok, err)
		}
		if string(s.networkKey()) != "0123456789abcdef" || string(TLV(s.Get(KeyActiveDataset), TLVNetworkName)) != "home" {
			t.Errorf("%v: the dataset is not read: %q", order, s.Get(KeyActiveDataset))
		}
		if got := s.Append(nil, order); !bytes.Equal(got, b) {
			t.Errorf("%v: written as %x", order, got)
		}
		// Bytes of the other order are no file of this CPU, and are not taken for one.
		for n := 1; n < len(b); n++ {
			cut, err := Parse(b[:n], order)
			whole := n == 4+29 || n == 4+29+4+38
			if (err == nil) != whole || !whole && !errors.Is(err, ErrDamaged) {
				t.Errorf("%v: the first %d bytes: %+v, %v", order, n, cut, err)
			}
		}
	}
	if _, err := Parse(make([]byte, MaxFile+1), Native); !errors.Is(err, ErrDamaged) {
		t.Errorf("too large: %v", err)
	}
	if s, err := Parse(nil, Native); err != nil || len(s) != 0 {
		t.Errorf("nothing: %v, %v", s, err)
	}
}

// What OpenThread's own SettingsFile (src/posix/platform, 2026-08) wrote on a
// little-endian computer: a dataset, NetworkInfo of its settings.hpp, and what was
// left of two children after one was deleted and the record before changed.
func TestRealFile(t *testing.T) {
	t.Parallel()
	const real = "01002700" + "000300000f02080102030405060708" + "03047265616c" + "05100102030405060708090a0b0c0d0e0f10" +
		"05000200" + "0102" + "03002600" + "040f00580700000040e20100d9ff090063000000" + "a5a5a5a5a5a5a5a5" + "0000000000000000" + "0500"
	b, err := hex.DecodeString(real)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(b, binary.LittleEndian)
	if err != nil || len(s) != 3 || string(TLV(s.Get(KeyActiveDataset), TLVNetworkName)) != "real" {
		t.Fatalf("%+v, %v", s, err)
	}
	a5 := [8]byte(bytes.Repeat([]byte{0xa5}, 8))
	if i, ok, err := s.Info(); !ok || err != nil || i != (Info{KeySequence: 7, MLE: 123456, MAC: 655321, ExtAddress: a5, Version: 5}) {
		t.Errorf("%+v, %v, %v", i, ok, err)
	}
}

func TestInfoVersions(t *testing.T) {
	t.Parallel()
	base := bytes.Clone(golden(Native)[4+29+4:][:38])
	for _, tt := range []struct {
		name    string
		value   []byte
		version uint16
		ok      bool
		err     error
		newer   bool
	}{
		{"Thread 1.1, which has no version", base[:36], 2, true, nil, false},
		{"half a version", base[:37], 2, true, nil, false},
		{"Thread 1.4", base, 5, true, nil, false},
		{"fields behind those that are known", append(bytes.Clone(base), 1, 2, 3), 5, true, nil, false},
		{"a version to come", append(bytes.Clone(base[:36]), 9, 0), 9, true, nil, true},
		{"no version", append(bytes.Clone(base[:36]), 0, 0), 0, false, ErrVersion, false},
		{"too short", base[:35], 0, false, ErrVersion, false},
		{"empty", []byte{}, 0, false, ErrVersion, false},
	} {
		i, ok, err := Settings{{KeyNetworkInfo, tt.value}}.Info()
		if ok != tt.ok || !errors.Is(err, tt.err) || ok && (i.Version != tt.version || i.Newer() != tt.newer) {
			t.Errorf("%s: %+v, %v, %v", tt.name, i, ok, err)
		}
	}
	if _, ok, err := (Settings{{KeyChildInfo, nil}}).Info(); ok || err != nil {
		t.Errorf("without a record: %v, %v", ok, err)
	}
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, by, want uint32 }{
		{0, Margin, Margin},
		{1000, 0, 1000},
		{ceiling - 1, Margin, ceiling},
		{ceiling, Margin, ceiling},
		{ceiling + 5, Margin, ceiling + 5}, // never back
		{math.MaxUint32, Margin, math.MaxUint32},
	} {
		if got := advance(tt.in, tt.by); got != tt.want {
			t.Errorf("%d by %d: %d, want %d", tt.in, tt.by, got, tt.want)
		}
	}
	before := golden(Native)
	s, err := Set{{"0_a.data", before}}.Advance(Margin)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(before)
	binary.LittleEndian.PutUint32(want[4+29+4+8:], 1000+Margin)
	binary.LittleEndian.PutUint32(want[4+29+4+12:], 2000+Margin)
	if !bytes.Equal(s[0].Data, want) || !bytes.Equal(before, golden(Native)) {
		t.Errorf("got  %x\nwant %x", s[0].Data, want)
	}
	odd := Settings{{KeyNetworkInfo, []byte("odd")}}.Append(nil, Native)
	s, err = Set{{"0_a.data", odd}, {"0_b.data", before}}.Advance(Margin)
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "0_a.data") || !bytes.Equal(s[0].Data, odd) || !bytes.Equal(s[1].Data, want) {
		t.Errorf("with an unknown record: %v", err)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	base, err := Parse(golden(Native), Native)
	if err != nil {
		t.Fatal(err)
	}
	info := func(change func(*Info)) Settings {
		i, _, _ := base.Info()
		change(&i)
		return base.withInfo(i)
	}
	value := func(key uint16, v string) Settings {
		s := slices.Clone(base)
		for n := range s {
			if s[n].Key == key {
				s[n].Value = []byte(v)
			}
		}
		return s
	}
	role := bytes.Clone(base.Get(KeyNetworkInfo))
	role[0] = 2
	address := bytes.Clone(base.Get(KeyNetworkInfo))
	address[offExtAddress] ^= 1
	saved, err := Set{{"f", golden(Native)}}.Advance(Margin)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		now  Settings
		want Change
	}{
		{"nothing", base, Same},
		{"another order", Settings{base[2], base[1], base[0]}, Same},
		{"counters within the margin", info(func(i *Info) { i.MLE += Margin / 2; i.MAC += Margin / 2 }), Same},
		{"the MAC counter beyond half of it", info(func(i *Info) { i.MAC += Margin/2 + 1 }), Urgent},
		{"the MLE counter beyond half of it", info(func(i *Info) { i.MLE += Margin/2 + 1 }), Urgent},
		{"another key sequence", info(func(i *Info) { i.KeySequence++; i.MLE, i.MAC = 1000, 1000 }), Urgent},
		{"another address", value(KeyNetworkInfo, string(address)), Urgent},
		{"another role", value(KeyNetworkInfo, string(role)), Minor},
		{"another child", value(KeyChildInfo, "kid"), Minor},
		{"one child less", base[:2], Minor},
		{"another dataset", value(KeyActiveDataset, "\x03\x05house"), Urgent},
		{"no dataset", base[1:], Urgent},
		{"a record more", append(slices.Clone(base), Record{0x0b, []byte("key")}), Urgent},
		{"no network record", Settings{base[0], base[2]}, Urgent},
		{"one of an unknown kind", value(KeyNetworkInfo, "odd"), Urgent},
		{"wiped", nil, Urgent},
	} {
		if got := Compare(saved, Set{{"f", tt.now.Append(nil, Native)}}); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	for name, now := range map[string]Set{"another file": {{"g", golden(Native)}}, "a file more": {{"f", golden(Native)}, {"g", nil}}, "a file less": {}} {
		if got := Compare(saved, now); got != Urgent {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// files is what stands in a folder, but for what a cut may leave.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func node(t *testing.T, key string, i Info) []byte {
	t.Helper()
	s := Settings{{KeyActiveDataset, append([]byte{TLVNetworkKey, 16}, key...)}, {KeyNetworkInfo, append(make([]byte, 36), 5, 0)}}
	return s.withInfo(i).Append(nil, Native)
}

func infoOf(t *testing.T, data []byte) Info {
	t.Helper()
	s, err := Parse(data, Native)
	if err != nil {
		t.Fatal(err)
	}
	i, ok, err := s.Info()
	if err != nil || !ok {
		t.Fatalf("no network record: %v", err)
	}
	return i
}

const (
	keyA = "AAAAAAAAAAAAAAAA"
	keyB = "BBBBBBBBBBBBBBBB"
)

func TestStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "thread")
	s := NewStore(dir)
	if err := s.Save(nil); err == nil {
		t.Error("Save before Load did something")
	}
	if l, err := s.Load(); err != nil || l.Source != Nothing || len(l.Set) != 0 {
		t.Fatalf("an empty store: %+v, %v", l, err)
	}
	one := Set{{"0_1.data", node(t, keyA, Info{MAC: 1})}, {"0_2.data", []byte{}}}
	two := Set{{"0_1.data", node(t, keyA, Info{MAC: 2})}}
	for _, set := range []Set{one, two} {
		if err := s.Save(set); err != nil {
			t.Fatal(err)
		}
	}
	got := files(t, dir)
	if len(got) != 3 || got["0_1.data"] != string(two[0].Data) {
		t.Errorf("in flash: %q", got)
	}
	fresh := func() Loaded {
		t.Helper()
		l, err := NewStore(dir).Load()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := fresh(); l.Source != Generation || !l.Set.equal(two) {
		t.Errorf("the newest: %+v", l)
	}
	// A cut before the single file was replaced.
	put(t, dir, "0_1.data", one[0].Data)
	if l := fresh(); l.Source != Generation || !l.Set.equal(two) {
		t.Errorf("after a cut: %+v", l)
	}
	// Somebody else's file, behind and ahead, of this network and another.
	for _, tt := range []struct {
		name   string
		data   []byte
		want   Info
		lifted bool
	}{
		{"an old backup", node(t, keyA, Info{MAC: 1, MLE: 7}), Info{MAC: 2, MLE: 7, Version: 5}, true},
		{"the firmware of before", node(t, keyA, Info{MAC: 9}), Info{MAC: 9, Version: 5}, false},
		{"a later key", node(t, keyA, Info{KeySequence: 1}), Info{KeySequence: 1, Version: 5}, false},
		{"another network", node(t, keyB, Info{MLE: 1}), Info{MLE: 1, Version: 5}, false},
	} {
		put(t, dir, "0_1.data", tt.data)
		if l := fresh(); l.Source != Files || len(l.Set) != 1 || infoOf(t, l.Set[0].Data) != tt.want || l.Lifted != tt.lifted {
			t.Errorf("%s: %+v", tt.name, l)
		}
	}
	// Torn by who does not replace, but truncates.
	put(t, dir, "0_1.data", two[0].Data[:9])
	if l := fresh(); l.Source != Generation || !l.Set.equal(two) || !slices.Equal(l.Damaged, []string{"0_1.data"}) {
		t.Errorf("torn: %+v", l)
	}
	// A generation whose flash has changed.
	put(t, dir, "0_1.data", two[0].Data)
	b := []byte(got[slots[0]]) // the second one saved
	b[len(b)/2] ^= 1
	put(t, dir, slots[0], b)
	if l := fresh(); l.Source != Files || !l.Set.equal(two) || !slices.Equal(l.Damaged, []string{slots[0]}) {
		t.Errorf("a damaged generation: %+v", l)
	}
	// Without single files: somebody took them away, and the network stays.
	put(t, dir, slots[0], []byte(got[slots[0]]))
	if err := os.Remove(filepath.Join(dir, "0_1.data")); err != nil {
		t.Fatal(err)
	}
	if l := fresh(); l.Source != Generation || !l.Set.equal(two) {
		t.Errorf("without files: %+v", l)
	}
}

func TestKeeper(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ram, dir := filepath.Join(base, "ram"), filepath.Join(base, "flash")
	put(t, dir, "0_1.data", node(t, keyA, Info{MAC: 1000, MLE: 50})) // as the firmware of before leaves it
	put(t, ram, "0_1.data.Swap", []byte("x"))
	k := NewKeeper(ram, NewStore(dir))
	if err := k.End(0); err == nil {
		t.Error("End before Begin did something")
	}
	b, err := k.Begin(0)
	if err != nil || b.Kept || len(b.Words) != 1 {
		t.Fatalf("begin: %+v, %v", b, err)
	}
	flash := func() Info { return infoOf(t, []byte(files(t, dir)["0_1.data"])) }
	if got := infoOf(t, []byte(files(t, ram)["0_1.data"])); got.MAC != 1000 || got.MLE != 50 {
		t.Errorf("the agent gets %+v", got)
	}
	if got := flash(); got.MAC != 1000+Margin || got.MLE != 50+Margin {
		t.Errorf("flash has %+v", got)
	}
	look := func(at time.Duration, found Change, saved bool) {
		t.Helper()
		f, s, err := k.Look(at)
		if err != nil || f != found || s != saved {
			t.Errorf("at %v: %v, %v, %v; want %v, %v", at, f, s, err, found, saved)
		}
	}
	look(time.Second, Same, false)
	put(t, ram, "0_1.data", node(t, keyA, Info{MAC: 1000 + Margin/2, MLE: 50}))
	look(2*time.Second, Same, false)
	put(t, ram, "0_1.data", node(t, keyA, Info{MAC: 1001 + Margin/2, MLE: 50}))
	look(3*time.Second, Urgent, true)
	if got := flash(); got.MAC != 1001+Margin/2+Margin {
		t.Errorf("flash has %+v", got)
	}
	// A child: not at once.
	child := append(node(t, keyA, Info{MAC: 1001 + Margin/2, MLE: 50}), Settings{{KeyChildInfo, []byte("kid")}}.Append(nil, Native)...)
	put(t, ram, "0_1.data", child)
	look(4*time.Second, Minor, false)
	look(3*time.Second+minorEvery-1, Minor, false)
	look(3*time.Second+minorEvery, Minor, true)
	look(4*time.Second+minorEvery, Same, false)
	// Torn in memory, or taken away: what is saved stays.
	before := files(t, dir)
	put(t, ram, "0_1.data", child[:7])
	if _, saved, err := k.Look(5 * minorEvery); saved || !errors.Is(err, ErrDamaged) {
		t.Errorf("torn: %v, %v", saved, err)
	}
	if err := k.End(5 * minorEvery); !errors.Is(err, ErrDamaged) {
		t.Errorf("torn at the end: %v", err)
	}
	if err := os.Remove(filepath.Join(ram, "0_1.data")); err != nil {
		t.Fatal(err)
	}
	look(6*minorEvery, Same, false)
	if err := k.End(6 * minorEvery); err != nil {
		t.Error(err)
	}
	if got := files(t, dir); len(got) != len(before) || got["0_1.data"] != before["0_1.data"] {
		t.Errorf("flash has changed: %q", got)
	}
	// A new process finds newer files in memory, and takes them.
	put(t, ram, "0_1.data", node(t, keyA, Info{MAC: 2 * Margin, MLE: 60}))
	k = NewKeeper(ram, NewStore(dir))
	if b, err = k.Begin(0); err != nil || !b.Kept || infoOf(t, b.Set[0].Data).MLE != 60 {
		t.Fatalf("again: %+v, %v", b, err)
	}
	if got := flash(); got.MAC != 3*Margin {
		t.Errorf("flash has %+v", got)
	}
	// An orderly end needs no margin, and a start from there has one again.
	put(t, ram, "0_1.data", node(t, keyA, Info{MAC: 2*Margin + 1, MLE: 61}))
	if err := k.End(0); err != nil {
		t.Fatal(err)
	}
	if got := flash(); got.MAC != 2*Margin+1 || got.MLE != 61 {
		t.Errorf("at the end flash has %+v", got)
	}
	// Damaged in memory: an agent would empty it.
	put(t, ram, "0_1.data", []byte("torn!"))
	if b, err = NewKeeper(ram, NewStore(dir)).Begin(0); err != nil || b.Kept || len(b.Words) != 1 || infoOf(t, []byte(files(t, ram)["0_1.data"])).MLE != 61 {
		t.Errorf("damaged memory: %+v, %v", b, err)
	}
	if got := flash(); got.MAC != 3*Margin+1 {
		t.Errorf("flash has %+v", got)
	}
	// Starts in a row write once.
	k = NewKeeper(ram, NewStore(dir))
	before = files(t, dir)
	for range 3 {
		if _, err := k.Begin(0); err != nil {
			t.Fatal(err)
		}
	}
	if after := files(t, dir); after[slots[0]] != before[slots[0]] || after[slots[1]] != before[slots[1]] {
		t.Error("starts without a change write flash")
	}
}

// fakeFlash fails from a step on, as after a power cut, or each step while
// broken.
type fakeFlash struct {
	left   int
	broken bool
	steps  int
}

var errCut = errors.New("cut")

func (f *fakeFlash) step() error {
	f.steps++
	if f.broken || f.left == 0 {
		return errCut
	}
	f.left--
	return nil
}

func (f *fakeFlash) Write(path string, data []byte) error {
	if err := f.step(); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func (f *fakeFlash) Remove(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return os.Remove(path)
}

// TestCuts cuts the power of a node at random moments, within saves too, and
// has backups put back and datasets changed. It never uses a counter twice, and
// never comes up without its network.
func TestCuts(t *testing.T) {
	t.Parallel()
	const cuts = 200
	rnd := rand.New(rand.NewPCG(1, 2))
	base := t.TempDir()
	ram, dir := filepath.Join(base, "ram"), filepath.Join(base, "flash")
	const ahead = 1000 // OpenThread's OPENTHREAD_CONFIG_STORE_FRAME_COUNTER_AHEAD
	put(t, dir, "0_1.data", node(t, keyA, Info{}))
	used := map[uint32]int64{} // the last counter used with a key sequence
	var backup []byte
	saves, inside := 0, 0
	for cut := range cuts {
		if err := os.RemoveAll(ram); err != nil {
			t.Fatal(err)
		}
		if backup != nil && rnd.IntN(20) == 0 {
			put(t, dir, "0_1.data", backup)
		}
		f := &fakeFlash{left: rnd.IntN(20)}
		store := NewStore(dir)
		store.sys = f
		k := NewKeeper(ram, store)
		b, err := k.Begin(0)
		if errors.Is(err, errCut) {
			inside++
			continue
		}
		if err != nil || len(b.Set) != 1 {
			t.Fatalf("cut %d: begin: %+v, %v", cut, b, err)
		}
		stored := infoOf(t, b.Set[0].Data)
		live := stored
		at := time.Duration(0)
		for step := 0; step < 60; step++ {
			// Between two looks far more frames than a radio sends, so that
			// a margin is used up within a test.
			n := uint32(rnd.IntN(20_000))
			for _, c := range []*uint32{&live.MAC, &live.MLE} {
				first := *c
				*c += n
				if c == &live.MAC {
					if last, ok := used[live.KeySequence]; ok && int64(first) < last {
						t.Fatalf("cut %d: with key %d the counter %d is used after %d", cut, live.KeySequence, first, last)
					}
					used[live.KeySequence] = int64(*c)
				}
			}
			if live.MAC > stored.MAC || live.MLE > stored.MLE {
				stored.MAC, stored.MLE = live.MAC+ahead, live.MLE+ahead
			}
			rotated := rnd.IntN(60) == 0
			if rotated {
				// The new key is used when it is stored, and saved a poll later:
				// a cut in between comes before the first frame only here.
				live.KeySequence++
				live.MAC, live.MLE = 0, 0
				stored = live
				stored.MAC, stored.MLE = ahead, ahead
			}
			put(t, ram, "0_1.data", node(t, keyA, stored))
			at += 5 * time.Second
			_, saved, err := k.Look(at)
			if saved && err == nil {
				saves++
				if rnd.IntN(10) == 0 {
					backup, _ = os.ReadFile(filepath.Join(dir, "0_1.data"))
				}
			}
			if errors.Is(err, errCut) {
				inside++
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if rnd.IntN(100) == 0 {
				break
			}
		}
		if f.left > 2 && rnd.IntN(4) == 0 {
			if err := k.End(at); err != nil && !errors.Is(err, errCut) {
				t.Fatal(err)
			}
		}
	}
	if saves < cuts/4 || inside < cuts/20 {
		t.Errorf("%d saves and %d cuts within one: the test says little", saves, inside)
	}
	t.Logf("%d cuts, %d of them within a save; %d saves", cuts, inside, saves)
}

// Flash that cannot be written is told, and tried again.
func TestBrokenFlash(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ram, dir := filepath.Join(base, "ram"), filepath.Join(base, "flash")
	put(t, dir, "0_1.data", node(t, keyA, Info{MAC: 5}))
	f := &fakeFlash{left: math.MaxInt, broken: true}
	store := NewStore(dir)
	store.sys = f
	k := NewKeeper(ram, store)
	b, err := k.Begin(0)
	if !errors.Is(err, errCut) || len(b.Set) != 1 || infoOf(t, []byte(files(t, ram)["0_1.data"])).MAC != 5 {
		t.Fatalf("begin: %+v, %v", b, err)
	}
	if _, _, err := k.Look(1); !errors.Is(err, errCut) {
		t.Errorf("look: %v", err)
	}
	f.broken = false
	if found, saved, err := k.Look(2); err != nil || !saved || found != Urgent {
		t.Errorf("later: %v, %v, %v", found, saved, err)
	}
	if got := infoOf(t, []byte(files(t, dir)["0_1.data"])); got.MAC != 5+Margin {
		t.Errorf("flash has %+v", got)
	}
}

// What cannot be read is nothing to start with, and never replaced.
func TestUnread(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ram, dir := filepath.Join(base, "ram"), filepath.Join(base, "flash")
	put(t, base, "flash", []byte("a file"))
	k := NewKeeper(ram, NewStore(dir))
	if _, err := k.Begin(0); !errors.Is(err, ErrUnread) {
		t.Fatalf("begin: %v", err)
	}
	put(t, ram, "0_1.data", node(t, keyA, Info{}))
	if _, saved, err := k.Look(time.Hour); saved || err == nil {
		t.Errorf("look: %v, %v", saved, err)
	}
	if err := k.End(time.Hour); err == nil {
		t.Error("end: saved over it")
	}
	// Memory that takes nothing.
	base = t.TempDir()
	put(t, base, "ram", []byte("a file"))
	if _, err := NewKeeper(filepath.Join(base, "ram"), NewStore(filepath.Join(base, "flash"))).Begin(0); !errors.Is(err, ErrUnread) {
		t.Errorf("begin: %v", err)
	}
}

// A generation that has a file of an agent's temporary storage is read without it.
func TestGenerationWithTemporaryStorage(t *testing.T) {
	t.Parallel()
	s, err := Import(Set{{"0_1-tmp.data", []byte{}}, {"0_1.data", golden(Native)}}.Export())
	if err != nil || len(s) != 1 || s[0].Name != "0_1.data" || !bytes.Equal(s[0].Data, golden(Native)) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestReadDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "0_1.data", golden(Native))
	put(t, dir, "0_2.Swap", golden(Native))
	put(t, dir, ".hidden", golden(Native))
	// What an otbr-agent of 2026 has beside it: records of its own under key 1, which
	// are no dataset.
	put(t, dir, "0_1-tmp.data", Settings{{KeyActiveDataset, []byte{0x9e, 0xa6, 0x0e, 0x6b, 0, 0, 0, 0}}}.Append(nil, Native))
	put(t, dir, "torn", []byte{1})
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, damaged, err := ReadDir(dir)
	if err != nil || len(s) != 1 || s[0].Name != "0_1.data" || !slices.Equal(damaged, []string{"torn"}) {
		t.Errorf("%+v, %v, %v", s, damaged, err)
	}
	for n := range maxFiles + 1 {
		put(t, dir, "many"+string(rune('a'+n)), nil)
	}
	if _, _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), "more than 8 files") {
		t.Errorf("too many: %v", err)
	}
	if s, _, err := ReadDir(filepath.Join(dir, "none")); err != nil || len(s) != 0 {
		t.Errorf("no folder: %+v, %v", s, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(golden(binary.BigEndian))
	f.Add(golden(binary.LittleEndian))
	f.Add([]byte{0, 3, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, order := range []binary.ByteOrder{binary.BigEndian, binary.LittleEndian} {
			s, err := Parse(b, order)
			if err != nil {
				continue
			}
			if got := s.Append(nil, order); !bytes.Equal(got, b) {
				t.Fatalf("%x is written as %x", b, got)
			}
			TLV(s.Get(KeyActiveDataset), TLVNetworkKey)
		}
		set := Set{{"f", b}}
		if _, err := Parse(b, Native); err != nil {
			return
		}
		out, err := set.Advance(Margin)
		if len(out[0].Data) != len(b) {
			t.Fatalf("advancing changes the size: %x", b)
		}
		if err == nil {
			if got := Compare(out, set); got > Minor {
				// Only a counter that cannot be advanced any more.
				s, _ := Parse(b, Native)
				i, ok, _ := s.Info()
				if !ok || i.MAC <= ceiling-Margin && i.MLE <= ceiling-Margin {
					t.Fatalf("what was just saved is urgent: %x", b)
				}
			}
		}
		if got := Compare(set, set); got == Minor {
			t.Fatalf("a set differs from itself: %x", b)
		}
	})
}

func TestExport(t *testing.T) {
	t.Parallel()
	set := Set{{"0_1.data", golden(Native)}, {"0_2.data", nil}}
	got, err := Import(set.Export())
	if err != nil || !got.equal(set) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"cut": set.Export()[:50], "empty": nil,
		"another byte order": Set{{"f", []byte{0, 1, 0, 1, 7, 7}}}.Export(),
	} {
		if got, err := Import(b); (name != "another byte order" || !bytes.Equal(Settings{{1, []byte{7}}}.Append(nil, Native), []byte{0, 1, 0, 1, 7})) && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzParseGeneration(f *testing.F) {
	f.Add(generation{7, Set{{"0_1.data", golden(Native)}, {"0_2.data", nil}}}.append(nil))
	f.Add(generation{8, Set{{"0_1-tmp.data", []byte{1}}, {"0_1.data", golden(Native)}}}.append(nil))
	f.Add([]byte(generationHead + "\ngeneration 1\n\n\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseGeneration(b)
		if err != nil {
			return
		}
		// Without what is left out it is what it was.
		got := g.append(nil)
		if again, err := parseGeneration(got); err != nil || again.n != g.n || !again.set.equal(g.set) {
			t.Fatalf("%q is written as %q: %+v, %v", b, got, again, err)
		}
		if !bytes.Equal(got, b) && !bytes.Contains(b, []byte(tmpSuffix)) {
			t.Fatalf("%q is written as %q", b, got)
		}
	})
}
