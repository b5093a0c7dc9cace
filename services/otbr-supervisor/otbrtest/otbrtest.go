// Package otbrtest is a fake otbr-agent: its command line, control socket, REST,
// settings file, log lines, exits and hangs, but no Thread. It takes the path of
// the fake, and runs in a test's own binary (Main) or as a program on the emulated
// gateway (otbrtest/otbr-agent).
//
// What it does is said by a file, Behaviour, which it reads at each start and
// while it runs.
package otbrtest

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/syslog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Behaviour is how the fake behaves.
type Behaviour struct {
	Socket string `json:"socket"` // its control socket; "": /tmp/openthread-wpan0.sock
	Exit   int    `json:"exit"`   // it ends at its start with this status, unless 0
	Words  string `json:"words"`  // what it says to syslog before
	Role   string `json:"role"`   // "": leader with a dataset, else disabled
	Mute   bool   `json:"mute"`   // REST gives no answer
	Deaf   bool   `json:"deaf"`   // the control socket gives no answer
	NoRCP  bool   `json:"noRCP"`  // rcp version is refused
	Term   bool   `json:"term"`   // SIGTERM does not end it
	Frames uint32 `json:"frames"` // sent in a second
	Child  bool   `json:"child"`  // there is one
	Power  int    `json:"power"`  // what the chip can, in dBm; 0: anything
}

// Ahead is how much further than needed OpenThread stores a frame counter
// (OPENTHREAD_CONFIG_STORE_FRAME_COUNTER_AHEAD).
const Ahead = 1000

// Dataset is one whose network is called "fake".
var Dataset = []byte("\x00\x03\x00\x00\x0f\x01\x02\x12\x34\x02\x08ABCDEFGH\x03\x04fake\x05\x100123456789abcdef")

// Name of the settings file, of a radio with the address 1.
const Name = "0_1.data"

// RCP is the version of the fake's radio.
const RCP = "OPENTHREAD/fake; EFR32; Jan  1 2026"

type agent struct {
	behaviour func() Behaviour
	path      string // of the settings

	mu       sync.Mutex // guards the following
	records  map[uint16][]byte
	stored   uint32
	live     uint32
	power    int
	srp      bool
	commands io.Writer // every command, a line each
}

// Settings makes a settings file with a dataset, whose counters are at that
// value.
func Settings(counter uint32) []byte {
	a := agent{records: map[uint16][]byte{1: Dataset}}
	a.setCounter(counter)
	return a.file()
}

// Counter reads the MAC frame counter of a settings file; 0 without one.
func Counter(file []byte) uint32 {
	for len(file) >= 4 {
		key, n := binary.NativeEndian.Uint16(file), int(binary.NativeEndian.Uint16(file[2:]))
		if key == 3 && len(file) >= 4+16 {
			return binary.LittleEndian.Uint32(file[4+12:])
		}
		file = file[min(len(file), 4+n):]
	}
	return 0
}

func (a *agent) setCounter(to uint32) {
	v := make([]byte, 38)
	v[0], v[1] = 4, 0x0f
	binary.LittleEndian.PutUint32(v[8:], to)
	binary.LittleEndian.PutUint32(v[12:], to)
	copy(v[20:], "extadd01meshiid1")
	v[36] = 5
	a.records[3] = v
}

func (a *agent) file() (b []byte) {
	for key := range uint16(16) {
		if v, ok := a.records[key]; ok {
			b = binary.NativeEndian.AppendUint16(b, key)
			b = binary.NativeEndian.AppendUint16(b, uint16(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

// read reads the settings as OpenThread does: what it cannot read it empties.
func (a *agent) read() error {
	a.records = map[uint16][]byte{}
	b, err := os.ReadFile(a.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for rest := b; len(rest) > 0; {
		if len(rest) < 4 || 4+int(binary.NativeEndian.Uint16(rest[2:])) > len(rest) {
			a.records = map[uint16][]byte{}
			return os.Truncate(a.path, 0)
		}
		n := 4 + int(binary.NativeEndian.Uint16(rest[2:]))
		a.records[binary.NativeEndian.Uint16(rest)] = rest[4:n]
		rest = rest[n:]
	}
	a.stored = Counter(b)
	a.live = a.stored
	return nil
}

// write replaces the settings as OpenThread does.
func (a *agent) write() error {
	swap := strings.TrimSuffix(a.path, ".data") + ".Swap"
	if err := os.WriteFile(swap, a.file(), 0o600); err != nil {
		return err
	}
	return os.Rename(swap, a.path)
}

// send uses frame counters up.
func (a *agent) send(n uint32) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.records[1] == nil {
		return nil
	}
	a.live += n
	if a.live >= a.stored {
		a.stored = a.live + Ahead
		a.setCounter(a.stored)
		return a.write()
	}
	return nil
}

// Main is the fake, with the agent's command line. path is the file with the
// Behaviour, which need not be there. It returns the exit status.
func Main(path string, args []string) int {
	behaviour := func() (b Behaviour) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			fmt.Fprintln(os.Stderr, "fake otbr-agent:", err)
		}
		return b
	}
	b := behaviour()
	if b.Words != "" {
		if w, err := syslog.New(syslog.LOG_WARNING|syslog.LOG_DAEMON, "otbr-agent"); err == nil {
			_ = w.Warning(b.Words)
			_ = w.Close()
		} else {
			fmt.Println(b.Words)
		}
	}
	if b.Exit != 0 {
		return b.Exit
	}
	if err := serve(behaviour, b, args, path); err != nil {
		fmt.Fprintln(os.Stderr, "fake otbr-agent:", err)
		return 1
	}
	return 0
}

func serve(behaviour func() Behaviour, b Behaviour, args []string, path string) error {
	f := flag.NewFlagSet("otbr-agent", flag.ContinueOnError)
	for _, name := range []string{"d", "I", "B", "vendor-name", "model-name"} {
		f.String(name, "", "")
	}
	bind := f.String("rest-listen-address", "127.0.0.1", "")
	port := f.Int("rest-listen-port", 8081, "")
	data := f.String("data-path", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 || !strings.HasPrefix(f.Arg(0), "spinel+hdlc+uart://") {
		return fmt.Errorf("no radio URL in %q", args)
	}
	if err := os.WriteFile(path+".args", []byte(strings.Join(args, "\n")), 0o644); err != nil {
		return err
	}
	commands, err := os.OpenFile(path+".commands", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer commands.Close()
	a := &agent{behaviour: behaviour, path: filepath.Join(*data, Name), srp: true, commands: commands, power: -5}
	if err := os.MkdirAll(*data, 0o755); err != nil {
		return err
	}
	if err := a.read(); err != nil {
		return err
	}
	if b.Socket == "" {
		b.Socket = "/tmp/openthread-wpan0.sock"
	}
	control, err := net.Listen("unix", b.Socket)
	if err != nil {
		return err
	}
	defer control.Close()
	rest, err := net.Listen("tcp", net.JoinHostPort(*bind, strconv.Itoa(*port)))
	if err != nil {
		return err
	}
	go a.sessions(control)
	go a.serveREST(rest)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	const step = 100 * time.Millisecond
	t := time.NewTicker(step)
	defer t.Stop()
	for {
		select {
		case <-term:
			if !behaviour().Term {
				return nil
			}
		case <-t.C:
			now := behaviour()
			if now.Exit != 0 {
				os.Exit(now.Exit)
			}
			if err := a.send(now.Frames / uint32(time.Second/step)); err != nil {
				return err
			}
		}
	}
}

func (a *agent) role() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch b := a.behaviour(); {
	case a.records[1] == nil:
		return "disabled"
	case b.Role != "":
		return b.Role
	}
	return "leader"
}

// serveREST answers as the agent does, without net/http: the fake has to fit the
// emulated gateway.
func (a *agent) serveREST(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var request []byte
			for s := bufio.NewScanner(c); s.Scan() && s.Text() != ""; {
				request = append(append(request, s.Bytes()...), '\n')
			}
			if a.behaviour().Mute {
				_, _ = io.Copy(io.Discard, c) // until the client gives up
				return
			}
			_, path, _ := strings.Cut(string(request), " ")
			path, _, _ = strings.Cut(path, " ")
			status, body := a.resource(path)
			fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
		}()
	}
}

// resource is what is at a path of REST.
func (a *agent) resource(path string) (status, body string) {
	const ok = "200 OK"
	switch path {
	case "/node/state":
		return ok, strconv.Quote(a.role())
	case "/node/coprocessor/version":
		if !a.behaviour().NoRCP {
			return ok, strconv.Quote(RCP)
		}
	case "/node/dataset/active":
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.records[1] == nil {
			return "204 No Content", ""
		}
		return ok, hex.EncodeToString(a.records[1])
	}
	return "404 Not Found", ""
}

// sessions serves one at a time; a new one ends that which there is.
func (a *agent) sessions(l net.Listener) {
	var last net.Conn
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if last != nil {
			last.Close()
		}
		last = c
		go func() {
			defer c.Close()
			for s := bufio.NewScanner(c); s.Scan(); {
				if a.behaviour().Deaf {
					continue
				}
				lines, err := a.command(s.Text())
				for _, l := range lines {
					fmt.Fprintf(c, "%s\r\n", l)
				}
				end := "Done"
				if err != nil {
					end = "Error " + err.Error()
				}
				fmt.Fprintf(c, "%s\r\n> ", end)
			}
		}()
	}
}

var (
	errInvalid  = errors.New("7: InvalidArgs")
	errUnknown  = errors.New("35: InvalidCommand")
	errNotFound = errors.New("23: NotFound")
)

func (a *agent) command(line string) ([]string, error) {
	b := a.behaviour()
	role := a.role()
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintln(a.commands, line)
	word := strings.Fields(line)
	switch {
	case line == "state":
		return []string{role}, nil
	case line == "rcp version":
		if b.NoRCP {
			return nil, errUnknown
		}
		return []string{RCP}, nil
	case line == "txpower":
		return []string{strconv.Itoa(a.power) + " dBm"}, nil
	case len(word) == 2 && word[0] == "txpower":
		n, err := strconv.Atoi(word[1])
		if err != nil {
			return nil, errInvalid
		}
		a.power = n
		if b.Power != 0 {
			a.power = min(n, b.Power)
		}
		return nil, nil
	case len(word) == 3 && word[0] == "log" && word[1] == "level", line == "ifconfig up", line == "thread start":
		return nil, nil
	case line == "srp server enable", line == "srp server disable":
		a.srp = line == "srp server enable"
		return nil, nil
	case line == "child table", line == "neighbor table":
		head := []string{"| ID  | RLOC16 |", "+-----+--------+"}
		if b.Child {
			head = append(head, "|   1 | 0x5801 |")
		}
		return head, nil
	case line == "br state":
		return []string{"running"}, nil
	case line == "dataset active -x":
		if a.records[1] == nil {
			return nil, errNotFound
		}
		return []string{hex.EncodeToString(a.records[1])}, nil
	case strings.HasPrefix(line, "dataset set active ") && len(word) == 4:
		d, err := hex.DecodeString(word[3])
		if err != nil {
			return nil, errInvalid
		}
		a.records[1] = d
		if a.records[3] == nil {
			a.setCounter(Ahead)
			a.stored = Ahead
		}
		return nil, a.write()
	case line == "factoryreset":
		a.records = map[uint16][]byte{}
		return nil, os.Truncate(a.path, 0)
	}
	return nil, errUnknown
}
