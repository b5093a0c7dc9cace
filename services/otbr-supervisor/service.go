//go:build linux

package otbr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/incident"
	"gwinit/internal/radiolock"
	"gwinit/internal/radioreset"
	"gwinit/internal/radiouart"
	"gwinit/internal/wait"
	"gwinit/services/otbr-supervisor/otctl"
	"gwinit/services/otbr-supervisor/rest"
	"gwinit/services/otbr-supervisor/threaddata"
)

// Owner is who has the radio then.
const Owner = "otbr"

// Where things are, below the file-system root.
const (
	// Memory is where the agent has its settings.
	Memory = "/tmp/thread"
	// Flash is where they are saved, and where the firmware of before has them.
	Flash = "/userdata/thread"
	// kickedPath is there when the children of this boot have been asked to
	// register again.
	kickedPath = "/run/thread-srp-kicked"
)

// Times are the tuned numbers, which tests shorten.
type Times struct {
	Poll     time.Duration // between two looks at a ready agent, and at its settings
	Rising   time.Duration // between two looks at one that is not ready yet
	Ready    time.Duration // in which it has to become ready
	Silent   time.Duration // after which an agent whose REST does not answer is given up
	Ask      time.Duration // for one answer
	Stop     time.Duration // from SIGTERM to SIGKILL
	Cold     time.Duration // for which a cold reset holds the radio
	Settle   time.Duration // from a reset to the next use of the radio
	UARTTry  time.Duration // between two tries to get the UART
	Kick     time.Duration // from attaching to asking the children to register again
	KickHold time.Duration // for which the SRP server is off then
	Delays   int           // divides the delays between starts
}

// DefaultTimes are those of the box.
func DefaultTimes() Times {
	return Times{
		Poll: 5 * time.Second, Rising: 2 * time.Second, Ready: time.Minute, Silent: time.Minute, Ask: 5 * time.Second,
		Stop: 5 * time.Second, Cold: 5 * time.Second, Settle: time.Second, UARTTry: time.Second,
		// The firmware of before: two minutes until the children are there, and
		// half a minute in which their leases are forgotten.
		Kick: 2 * time.Minute, KickHold: 30 * time.Second, Delays: 1,
	}
}

// Options are what a Service works with.
type Options struct {
	Root  string // file-system root, "" on the box
	Board rtl8196e.Board
	Times Times
	// Reset pulses the radio's reset line for that long.
	Reset func(ctx context.Context, hold time.Duration) error
	// Probe asks the radio for its version by Spinel, or says why there is none.
	// The UART is owned and not open.
	Probe func(ctx context.Context, device string, baud int, flow string) (version string, err error)
	// Unsuitable says what of the agent's file is not for this CPU, or "".
	Unsuitable func(path string) string
	// Sockets are where the agent's control socket may be.
	Sockets []string
	// RESTPort is where it has its REST; 0: rest.Port.
	RESTPort uint16
	// Writable tells why nothing can be saved, or nil.
	Writable func() error
	Ready    func(text string)
	Status   func(text string)
	// Alive is called again and again while the service does its work.
	Alive func()
	Log   func(string)
}

// Service runs the agent. Its exported methods may be called by several
// goroutines.
type Service struct {
	o     Options
	began time.Time
	tail  tail

	// Of Run's goroutine.
	machine machine
	keeper  *threaddata.Keeper
	undo    []setting
	reset   func(ctx context.Context, hold time.Duration) error

	mu       sync.Mutex // guards the following
	radio    config.Radio
	st       State
	warnings map[string]string // by where they come from
	save     chan chan error   // asks who watches the agent to save
	gone     chan struct{}     // closed when nobody watches one any more; nil: nobody has
}

// State is how the border router is, for programs.
type State struct {
	State      string  `json:"state"` // waiting, starting, ready, resetting, stopped
	Since      float64 `json:"sinceSeconds"`
	Role       string  `json:"role,omitempty"` // disabled, detached, child, router, leader
	AgentPID   int     `json:"agentPid,omitempty"`
	RCPVersion string  `json:"rcpVersion,omitempty"`
	Network    string  `json:"network,omitempty"` // its name
	Channel    int     `json:"channel,omitempty"`
	PANID      string  `json:"panId,omitempty"`
	ExtPANID   string  `json:"extPanId,omitempty"`
	ExtAddress string  `json:"extAddress,omitempty"`
	REST       string  `json:"rest"`
	RESTOpen   bool    `json:"restOpen"` // others than this box can reach it
	Starts     int     `json:"starts"`
	Ends       int     `json:"endsInARow"`
	LastEnd    string  `json:"lastEnd,omitempty"`
	Saved      string  `json:"saved,omitempty"` // what of the settings is in flash

	since time.Duration
	_     [0]func() // never compared: what would do it takes room in flash
}

// The states.
const (
	stWaiting   = "waiting"
	stStarting  = "starting"
	stReady     = "ready"
	stResetting = "resetting"
	stStopped   = "stopped"
)

// New returns the service; Run does everything.
func New(o Options) *Service {
	s := &Service{
		o: o, began: time.Now(), warnings: map[string]string{},
		keeper: threaddata.NewKeeper(pathIn(o.Root, Memory), threaddata.NewStore(pathIn(o.Root, Flash))),
		st:     State{State: stWaiting},
	}
	return s
}

// now is a monotonic clock (INV 13).
func (s *Service) now() time.Duration { return time.Since(s.began) }

func (s *Service) log(format string, a ...any) { s.o.Log("otbr: " + fmt.Sprintf(format, a...)) }

// ErrFailed is the end of a service whose budget is spent.
var ErrFailed = errors.New("the Thread border router has failed, and is not started again by itself: gwctl incidents tells, gwctl start otbr tries again")

// Run keeps the agent running until ctx ends, and then ends it and saves. An
// error that wraps errPointless or ErrFailed is one that another start does not
// mend. uart is who the radio's UART is got from.
func (s *Service) Run(ctx context.Context, uart *radiouart.UART) error {
	s.load()
	held, err := s.take(ctx, uart)
	if err != nil || held == nil {
		return err
	}
	defer held.Release()
	s.reset = s.o.Reset
	if s.reset == nil {
		s.reset = (radioreset.Line{Root: s.o.Root, Board: s.o.Board, Driver: held.Driver}).Pulse
	}
	logging, stop := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	others.Add(1)
	s.listenLog(logging, others.Done)
	defer others.Wait()
	defer stop()
	defer s.leave()
	for {
		ready, err := s.attempt(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errPointless) {
			return err
		}
		v := s.machine.ended(ready)
		s.change(func(st *State) { st.LastEnd, st.Ends, st.AgentPID, st.Role = err.Error(), s.machine.ends, 0, "" })
		s.role("")
		if v.failed {
			s.incident("the Thread border router has failed: " + err.Error())
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
		s.recover(ctx, v, err)
	}
}

// recover resets the radio and waits for the next start.
func (s *Service) recover(ctx context.Context, v verdict, why error) {
	hold := radioreset.Hold
	if v.reset == resetCold {
		// Written before it is done (INV 8).
		s.incident("the Thread border router ended again and again; the radio gets a cold reset: " + why.Error())
		hold = s.o.Times.Cold
	}
	s.o.Alive()
	s.set(stResetting)
	delay := v.delay / time.Duration(max(1, s.o.Times.Delays))
	s.log("%v; the radio is reset, next start in %v", why, delay)
	s.o.Status("restarting: " + why.Error())
	if err := s.reset(ctx, hold); err != nil {
		s.log("%v", err)
		s.warn("reset", err.Error())
	} else {
		s.warn("reset", "")
	}
	wait.For(ctx, max(delay, s.o.Times.Settle))
}

// take gets the UART. The bridge lets go of it when it has seen the mode.
func (s *Service) take(ctx context.Context, uart *radiouart.UART) (*radiouart.Held, error) {
	last := ""
	for {
		s.o.Alive()
		held, err := uart.Take(ctx, Owner)
		if err == nil {
			return held, nil
		}
		if text := err.Error(); text != last {
			s.log("%s", text)
			s.o.Status("waits for the radio: " + text)
			last = text
		}
		if !errors.Is(err, radiolock.ErrHeld) && ctx.Err() == nil {
			return nil, err
		}
		if !wait.For(ctx, s.o.Times.UARTTry) {
			return nil, nil
		}
	}
}

// load reads radio.conf.
func (s *Service) load() config.Radio {
	r, warnings := config.LoadRadio(s.o.Root, s.o.Board)
	for _, w := range warnings {
		s.log("%s", w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.radio = r
	s.st.REST, s.st.RESTOpen = s.restAddr(r), r.OTBR.Open()
	return r
}

// restAddr is where REST listens, for people.
func (s *Service) restAddr(r config.Radio) string {
	bind := r.OTBR.RESTBind
	if bind == "" {
		bind = "*"
	} else if strings.Contains(bind, ":") {
		bind = "[" + bind + "]"
	}
	return bind + ":" + strconv.Itoa(int(s.restPort()))
}

func (s *Service) restPort() uint16 {
	if s.o.RESTPort != 0 {
		return s.o.RESTPort
	}
	return rest.Port
}

// attempt runs one agent to its end, and returns for how long it was ready and
// why it ended.
func (s *Service) attempt(ctx context.Context) (ready time.Duration, err error) {
	s.o.Alive()
	s.set(stStarting)
	s.tail.reset()
	r := s.load()
	if err := s.check(); err != nil {
		return 0, err
	}
	if s.o.Unsuitable != nil {
		s.warn("cpu", s.o.Unsuitable(s.path(agentPath)))
	}
	problems, undo := s.route()
	if s.undo == nil {
		s.undo = undo // what was before the first start
	}
	s.warn("sysctl", strings.Join(problems, "; "))
	b, err := s.keeper.Begin(s.now())
	for _, w := range b.Words {
		s.log("%s", w)
	}
	if errors.Is(err, threaddata.ErrUnread) {
		return 0, err
	}
	s.saved(err)
	probed := s.probe(ctx, r)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	_ = os.Remove(s.path(api.RolePath))
	for _, p := range s.o.Sockets {
		_ = os.Remove(p) // of an agent that was killed: it would answer nobody
	}
	args := arguments(r, s.o.Board, s.path(Memory))
	if s.o.RESTPort != 0 {
		args[slices.Index(args, "--rest-listen-port")+1] = strconv.Itoa(int(s.o.RESTPort))
	}
	p, err := start(s.path(agentPath), args, &lines{say: s.said})
	if err != nil {
		return 0, fmt.Errorf("start the agent: %w", err)
	}
	s.change(func(st *State) { st.AgentPID, st.Starts = p.cmd.Process.Pid, st.Starts+1 })
	w := &watch{s: s, p: p, at: s.now(), heard: s.now()}
	why := w.run(ctx)
	p.stop(s.o.Times.Stop)
	if eerr := s.keeper.End(s.now()); eerr != nil {
		s.saved(eerr)
	}
	if w.ready != 0 {
		ready = s.now() - w.ready
	}
	if why == "" {
		why = "the agent ended: " + p.how()
	}
	last, rcp := s.tail.last()
	for _, more := range []string{last, rcp} {
		if more != "" && !strings.Contains(why, more) {
			why += "; " + more
		}
	}
	if probed != nil {
		why += "; before its start: " + probed.Error()
	}
	return ready, errors.New(why)
}

// probe asks the radio before the agent does. It only warns: the agent is the
// one that has to get on with it.
func (s *Service) probe(ctx context.Context, r config.Radio) error {
	if s.o.Probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.o.Times.Ask)
	defer cancel()
	version, err := s.o.Probe(ctx, s.o.Board.Radio.Device, r.Baud, flow(r, s.o.Board))
	if err != nil {
		err = fmt.Errorf("the radio gives no answer by Spinel at %d baud, flow control %s (%w): is its firmware an OpenThread RCP (gwctl radio probe), and are radio.FIRMWARE_BAUD and FIRMWARE_FLOW_CTRL right?", r.Baud, or(flow(r, s.o.Board), config.FlowNone), err)
		s.warn("radio", err.Error())
		s.log("%v", err)
		return err
	}
	s.warn("radio", "")
	s.change(func(st *State) { st.RCPVersion = version })
	return nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// leave is the end of a service: nothing that others look at stays.
func (s *Service) leave() {
	s.role("")
	s.set(stStopped)
	if r, _ := config.LoadRadio(s.o.Root, s.o.Board); r.Mode != config.ModeOTBR {
		s.unroute(s.undo)
	}
}

// role tells the LED.
func (s *Service) role(role string) {
	path := s.path(api.RolePath)
	if role == "" {
		_ = os.Remove(path)
		return
	}
	// In memory; replaced, so that a reader sees a whole one.
	if err := os.WriteFile(path+".new", []byte(role+"\n"), 0o644); err == nil {
		_ = os.Rename(path+".new", path)
	}
}

// incident writes down how things are, in flash.
func (s *Service) incident(summary string) {
	err := s.o.Writable()
	if err == nil {
		text := summary + "\n\nup " + s.now().Round(time.Second).String() + " (this service)\n\nthe agent's last lines:\n" + strings.Join(s.tail.all(), "\n") + "\n"
		err = incident.Keep(s.o.Root, []byte(text))
	}
	if err != nil {
		s.log("the incident is not kept: %v", err)
	}
}

// saved takes what came of a save.
func (s *Service) saved(err error) {
	text := ""
	if err != nil {
		text = "the Thread network cannot be saved, a power cut takes back what has changed since: " + err.Error()
	}
	if s.warn("flash", text) && text != "" {
		s.log("%s", text)
	}
}

// warn sets or clears a warning, and tells whether that is news.
func (s *Service) warn(from, text string) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = s.warnings[from] != text
	if s.warnings[from] = text; text == "" {
		delete(s.warnings, from)
	}
	return news
}

// Warnings are what people should know, in order.
func (s *Service) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []string{}
	for _, from := range [...]string{"cpu", "sysctl", "radio", "reset", "flash", "power"} {
		if text := s.warnings[from]; text != "" {
			out = append(out, "Thread: "+text)
		}
	}
	return out
}

func (s *Service) change(f func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.st)
}

func (s *Service) set(state string) {
	s.change(func(st *State) { st.State, st.since = state, s.now() })
}

// State returns how it is.
func (s *Service) State() State {
	s.mu.Lock()
	st := s.st
	s.mu.Unlock()
	st.Since = (s.now() - st.since).Seconds()
	set, _, err := threaddata.ReadDir(s.path(Memory))
	if err != nil {
		return st
	}
	if dataset, info, ok := set.Network(); ok {
		st.network(dataset, info)
	}
	return st
}

// network fills in what of the dataset is no secret.
func (st *State) network(dataset []byte, info threaddata.Info) {
	st.Network = clean(string(threaddata.TLV(dataset, threaddata.TLVNetworkName)))
	if c := threaddata.TLV(dataset, threaddata.TLVChannel); len(c) == 3 {
		st.Channel = int(c[1])<<8 | int(c[2]) // behind the page
	}
	if p := threaddata.TLV(dataset, threaddata.TLVPANID); len(p) == 2 {
		st.PANID = fmt.Sprintf("0x%02x%02x", p[0], p[1])
	}
	st.ExtPANID = fmt.Sprintf("%x", threaddata.TLV(dataset, threaddata.TLVExtPANID))
	st.ExtAddress = fmt.Sprintf("%x", info.ExtAddress)
}

// Save saves at once, for who is about to read the copy in flash.
func (s *Service) Save(ctx context.Context) error {
	s.mu.Lock()
	save, gone := s.save, s.gone
	s.mu.Unlock()
	if gone == nil {
		return nil // what is in flash is all there is
	}
	done := make(chan error, 1)
	select {
	case save <- done:
		return <-done
	case <-gone:
		return nil // it is saved at the end of the agent
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cli is the agent's control socket.
func (s *Service) cli() otctl.Client {
	return otctl.Client{Paths: s.o.Sockets, Timeout: s.o.Times.Ask}
}

// http is the agent's REST.
func (s *Service) http() rest.Client {
	s.mu.Lock()
	r := s.radio
	s.mu.Unlock()
	a := restAddr(r)
	if s.o.RESTPort != 0 {
		a = addrPort(a, s.o.RESTPort)
	}
	return rest.Client{Addr: a, Timeout: s.o.Times.Ask}
}

// there tells whether a file is there.
func (s *Service) there(name string) bool {
	_, err := os.Stat(s.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}
