//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/test/board"
)

// eraseBlock is the emulated flash's.
const eraseBlock = 64 << 10

// film is every state of a board's writable flash that was seen, in their order:
// what a power cut at one of these moments leaves.
type film struct {
	m    *board.Machine
	mu   sync.Mutex // guards what follows
	last []byte
	// Each state is the one before it, with these blocks, by their number.
	states []map[int][]byte
}

// look takes the flash as it is now, while the gateway stands still, and returns
// the number of that state.
func (f *film) look() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.m.Monitor("stop"); err != nil {
		return 0, err
	}
	var now bytes.Buffer
	now.Grow(len(f.last))
	err := f.m.ReadUserdata(&now)
	if _, err := f.m.Monitor("cont"); err != nil {
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	b := now.Bytes()
	changed := map[int][]byte{}
	for i := 0; i < len(b); i += eraseBlock {
		if block := b[i : i+eraseBlock]; f.last == nil || !bytes.Equal(block, f.last[i:i+eraseBlock]) {
			changed[i/eraseBlock] = block
		}
	}
	if len(changed) > 0 {
		f.states = append(f.states, changed)
		f.last = b
	}
	return len(f.states) - 1, nil
}

// shoot looks all the time until the end of the test or a call of stop.
func (f *film) shoot(t *testing.T) (stop func()) {
	t.Helper()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := f.look(); err != nil {
				t.Errorf("a look at the flash: %v", err)
				return
			}
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(end); <-ended })
	t.Cleanup(stop)
	return stop
}

// state is the flash of number n.
func (f *film) state(n int) []byte {
	b := make([]byte, len(f.last))
	for _, changed := range f.states[:n+1] {
		for i, block := range changed {
			copy(b[i*eraseBlock:], block)
		}
	}
	return b
}

// torn is the flash of number n when it was being written: of what was programmed
// since the state before, in one block and behind all that was there, only the
// first part has arrived. It is nil where that is not how the two differ.
func (f *film) torn(n int, rnd *rand.Rand) []byte {
	if n == 0 || len(f.states[n]) != 1 {
		return nil
	}
	b := f.state(n - 1)
	for i, block := range f.states[n] {
		old := b[i*eraseBlock : (i+1)*eraseBlock]
		var fresh []int
		for at := range old {
			if old[at] != block[at] {
				if old[at] != 0xff {
					return nil // an erased block, or a node that became obsolete
				}
				fresh = append(fresh, at)
			}
		}
		for _, at := range fresh[:rnd.IntN(len(fresh))] {
			old[at] = block[at]
		}
	}
	return b
}

// The power is cut at moments of a restore: while it is prepared, while the
// gateway shuts down, and while the boot carries it out; also in the midst of what
// is being written. Whatever the moment, the gateway boots and has all of what was
// or all of the backup, the latter from when the restore was confirmed; and
// where it has what was, the restore made again is a whole one.
func TestPowerCutsInRestore(t *testing.T) {
	t.Parallel()
	cuts, again := 8, 1
	if soak {
		cuts, again = 200, 200
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	const restore = "gwctl restore -y /userdata/backup.tar.gz"
	// Two sets of what a backup holds: settings in three files, the password, a
	// host's key, the Thread network in sixteen files; and each has a file that the
	// other has not.
	put := func(t *testing.T, m *board.Machine, set, mode, stall, kib string) {
		t.Helper()
		run(t, m, "gwctl config set leds.MODE="+mode+" radio.BRIDGE_STALL_S="+stall+" gateway.GW_LOG_KIB="+kib)
		run(t, m, "cd /userdata && mkdir -p ssh thread etc/dropbear && rm -f etc/only-*"+
			" && for i in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do echo "+set+" >thread/$i; done"+
			" && echo "+set+" >etc/dropbear/key && echo "+set+" >etc/only-"+set+
			" && echo 'root:$1$"+set+"$x:0:0::/root:/bin/sh' >etc/passwd && cd / && sync")
	}
	const before, backup = "before 60 dim 128", "backup 90 off 200"
	set := func(t *testing.T, m *board.Machine) string {
		t.Helper()
		out := run(t, m, "cd /userdata && cat thread/* etc/dropbear/key etc/only-*; ls etc/only-*; cut -d'$' -f3 etc/passwd; cd /; gwctl config get radio.BRIDGE_STALL_S; gwctl config get leds.MODE; gwctl config get gateway.GW_LOG_KIB")
		f := strings.Fields(out)
		if want := strings.Fields(strings.Repeat(f[0]+" ", 18) + "etc/only-" + f[0] + " " + f[0]); len(f) != len(want)+3 || !slices.Equal(f[:len(want)], want) {
			return "a mix: " + strings.Join(f, " ")
		}
		return strings.Join(append(f[:1], f[len(f)-3:]...), " ")
	}
	put(t, m, "backup", "off", "90", "200")
	if now := set(t, m); now != backup {
		t.Fatalf("the settings are %q", now)
	}
	run(t, m, "gwctl backup /userdata/backup.tar.gz")
	put(t, m, "before", "dim", "60", "128")
	if now := set(t, m); now != before {
		t.Fatalf("the settings are %q", now)
	}

	f := &film{m: m}
	if _, err := f.look(); err != nil {
		t.Fatal(err)
	}
	stop := f.shoot(t)
	run(t, m, restore)
	promised, err := f.look()
	if err != nil {
		t.Fatal(err)
	}
	if now := set(t, m); now != before {
		t.Errorf("the settings are %q before the boot", now)
	}
	reboot(t, m, "gwctl reboot")
	if now := set(t, m); now != backup {
		t.Errorf("the settings are %q after the boot", now)
	}
	stop()
	states := len(f.states)
	t.Logf("%d states of the flash; from the %dth on the restore is promised", states, promised)
	if promised < 4 || states-promised < 4 { // how many are seen depends on the host
		t.Errorf("too few states were seen for moments of a restore: %d before it was promised, and %d after", promised, states-promised)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	found := map[string]int{}
	for cut := range cuts {
		// The moment of the promise, then one before and one after it by turns.
		n := promised
		switch {
		case cut == 0:
		case cut%2 == 1:
			n = rnd.IntN(promised)
		default:
			n = promised + rnd.IntN(states-promised)
		}
		flash, how := f.state(n), "whole"
		if cut%4 > 1 {
			if b := f.torn(n, rnd); b != nil {
				flash, how = b, "torn"
			}
		}
		// What is torn is not there yet.
		certain := n > promised || n == promised && how == "whole"
		t.Run(strconv.Itoa(n)+" "+how, func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "userdata")
			if err := os.WriteFile(image, flash, 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			m := start(t, func(c *board.Config) { c.Userdata = image })
			// Many boots, one after the other, each on a machine that is as busy as it is.
			if err := m.Console().WaitShell(5 * time.Minute); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			s := await(t, m, "everything running", settled)
			if s.Userdata.State != "mounted" || len(s.Warnings) != 0 {
				t.Errorf("userdata %+v, warnings %q", s.Userdata, s.Warnings)
			}
			now := set(t, m)
			found[now]++
			t.Logf("%q, and a shell after %v; userdata: %s", now, took.Round(time.Second/10), s.Userdata.Reason)
			if now != backup && (certain || now != before) {
				t.Errorf("the settings are %q; promised: %v", now, certain)
			}
			log := run(t, m, "gwctl logs userdata")
			if strings.Contains(log, "NOT DONE") {
				t.Errorf("userdata says:\n%s", log)
			}
			if left := run(t, m, "ls -A /userdata"); strings.Contains(left, ".restore") {
				t.Errorf("something is left behind: %s", left)
			}
			if now == before && again > 0 {
				again--
				run(t, m, restore)
				reboot(t, m, "gwctl reboot")
				if now := set(t, m); now != backup {
					t.Errorf("the settings are %q after the restore was made again", now)
				}
			}
		})
	}
	t.Log(fmt.Sprint("after the cuts: ", found))
	if found[before] == 0 || found[backup] == 0 {
		t.Errorf("after the cuts: %v; neither side should be missing", found)
	}
}
