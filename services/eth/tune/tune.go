package tune

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/atomicfile"
	"gwinit/internal/config"
	"gwinit/internal/netdev"
	"gwinit/services/eth/ethtool"
	"gwinit/services/eth/qdisc"
)

// lookEvery is how often the driver's resets are looked for, and the link where
// its changes are not notified.
const lookEvery = 30 * time.Second

// Links is what is needed to know of the link; netdev.System has it.
type Links interface {
	Link(name string) (netdev.Link, error)
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Card is the driver by ethtool.
type Card interface {
	Driver() (ethtool.Driver, error)
	Stats() ([]ethtool.Stat, error)
	Flag(ethtool.Flag) (bool, error)
	SetFlag(ethtool.Flag, bool) error
}

// Queue is the kernel's queueing disciplines; qdisc.System has them.
type Queue interface {
	Root(index int) (qdisc.State, error)
	Set(index int, p qdisc.FQCodel) error
	Clear(index int) error
}

// Options is what a Tuner works on. The zero value is the box.
type Options struct {
	Root      string // file system root; "" is /
	Interface string // default eth0
	// Safe leaves driver and queue alone whatever the settings say: a box
	// that they have cut off is reached in safe mode.
	Safe  bool
	Links Links
	Card  Card
	Queue Queue
	Log   func(string) // takes a line without its end
}

// Tuner tunes one interface.
type Tuner struct {
	opt Options

	// mu guards what follows, and is held while something is set.
	mu   sync.Mutex
	link netdev.Link // last seen; Index 0: not there
	// stored is what the settings say, want what is in force.
	stored, want config.Ethernet
	found        values // what knobs held before the first setting of theirs
	why          values // why a knob is not as wanted
	queue        string // why the queue is not
	bad          string // what is wrong with want.Knobs
	resets       uint64 // of the switch, so far
	said         string // the last failures, as they were logged
}

// New returns a tuner; nothing happens before Run.
func New(opt Options) *Tuner {
	opt.Interface = cmp.Or(opt.Interface, "eth0")
	if opt.Links == nil {
		opt.Links = netdev.System{Root: opt.Root}
	}
	if opt.Card == nil {
		opt.Card = ethtool.Open(opt.Interface)
	}
	if opt.Queue == nil {
		opt.Queue = qdisc.System{}
	}
	if opt.Log == nil {
		opt.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	t := &Tuner{opt: opt}
	b, _ := os.ReadFile(t.path(record))
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if i := find(name); i >= 0 {
			t.found[i] = value
		}
	}
	t.stored = t.load()
	t.want = t.stored
	if opt.Safe {
		t.want = config.Ethernet{Profile: config.EthProfiles[0], Qdisc: config.QdiscDefault}
	}
	return t
}

// load reads the settings. core tells what is wrong with them.
func (t *Tuner) load() config.Ethernet {
	g, _ := config.LoadGateway(t.opt.Root)
	e := g.Ethernet
	e.Profile = cmp.Or(e.Profile, config.EthProfiles[0])
	e.Qdisc = cmp.Or(e.Qdisc, config.QdiscFQCodel)
	return e
}

// Run tunes the interface until ctx ends, and returns nil then. What was set
// stays as it is.
func (t *Tuner) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var changed <-chan struct{}
	for ctx.Err() == nil {
		if changed == nil {
			// Without it the link is looked at by the tick (INV 11).
			changed, _ = t.opt.Links.Watch(ctx)
		}
		t.look()
		select {
		case <-ctx.Done():
		case _, ok := <-changed:
			if !ok {
				changed = nil
			}
		case <-tick.C:
		}
	}
	if changed != nil {
		for range changed { // until its goroutine is gone
		}
	}
	return nil
}

// look sets everything if the link came up, or the driver has reset the switch.
func (t *Tuner) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, err := t.opt.Links.Link(t.opt.Interface)
	if errors.Is(err, netdev.ErrNoLink) {
		t.link = netdev.Link{}
		return
	}
	if err != nil {
		return // it is looked at again; eth tells
	}
	before, n := t.link, t.resets
	t.link, t.resets = now, t.driverResets()
	if now.Index != before.Index || now.Up && !before.Up || t.resets != n ||
		now.Carrier && (!before.Carrier || now.Changes != before.Changes) {
		t.apply()
	}
}

// driverResets counts those of the switch.
func (t *Tuner) driverResets() uint64 {
	if t.want.Profile == config.EthProfiles[0] && t.want.Knobs == "" {
		return t.resets // nothing would be set again
	}
	stats, _ := t.opt.Card.Stats()
	for _, s := range stats {
		if s.Name == counterPrefix+resets {
			return s.Value
		}
	}
	return t.resets
}

// Reload uses the settings if they have changed.
func (t *Tuner) Reload() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.load(); now != t.stored {
		if t.stored = now; !t.opt.Safe {
			t.want = now
			t.apply()
		}
	}
}

// Use sets everything once by a profile, without knobs beside it, whatever the
// settings say; the queue stays as they have it. It is for who does without Run.
// What the kernel refuses is logged.
func (t *Tuner) Use(profile string) error {
	if err := t.useProfile(profile); err != nil {
		return err
	}
	t.look()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.link.Index == 0 {
		return errors.New("there is no " + t.opt.Interface + " to set up")
	}
	return nil
}

func (t *Tuner) useProfile(profile string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(config.EthProfiles[:], profile) {
		return noProfile(profile)
	}
	t.want.Profile, t.want.Knobs = profile, ""
	return nil
}

func noProfile(name string) error {
	return errors.New("there is no profile " + strconv.Quote(name) + ": " + strings.Join(config.EthProfiles[:], ", "))
}

// Call answers core's methods eth and eth-set with an api.Ethernet. params are
// an api.EthSet: what that gets wrong changes nothing, and what the kernel
// refuses is in the answer.
func (t *Tuner) Call(method string, params []byte) (answer []byte, err error) {
	if method == "eth-set" {
		d := json.NewDecoder(bytes.NewReader(params))
		d.DisallowUnknownFields()
		var p api.EthSet
		if err = d.Decode(&p); err == nil {
			err = t.set(p)
		}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(t.Status())
}

func (t *Tuner) set(p api.EthSet) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.want
	want.Profile = cmp.Or(p.Profile, want.Profile)
	want.Qdisc = cmp.Or(p.Qdisc, want.Qdisc)
	bad := ""
	if p.Knobs != nil {
		want.Knobs = strings.Join(strings.Fields(*p.Knobs), " ")
		_, bad = parseKnobs(want.Knobs)
	}
	switch {
	case !slices.Contains(config.EthProfiles[:], want.Profile):
		bad = noProfile(want.Profile).Error()
	case want.Qdisc != config.QdiscFQCodel && want.Qdisc != config.QdiscDefault:
		bad = "there is no queue " + strconv.Quote(want.Qdisc) + ": fq_codel, default"
	}
	if bad != "" {
		return errors.New(bad)
	}
	t.want = want
	t.apply()
	if !p.Keep {
		return nil
	}
	if err := t.keep(p); err != nil {
		return fmt.Errorf("it is so until the next start: %w", err)
	}
	return nil
}

// keep makes what p gives the settings. It blocks on flash.
func (t *Tuner) keep(p api.EthSet) (err error) {
	const knobs = "gateway.ETH_KNOBS"
	var all []config.Assignment
	for _, a := range [...]config.Assignment{{Name: "gateway.ETH_PROFILE", Value: p.Profile}, {Name: "gateway.ETH_QDISC", Value: p.Qdisc}} {
		if a.Value != "" {
			all = append(all, a)
		}
	}
	if p.Knobs != nil && t.want.Knobs != "" {
		all = append(all, config.Assignment{Name: knobs, Value: t.want.Knobs})
	}
	board := rtl8196e.Detect(t.opt.Root)
	if len(all) > 0 {
		_, err = config.Set(t.opt.Root, board, all)
	}
	if err == nil && p.Knobs != nil && t.want.Knobs == "" && t.stored.Knobs != "" {
		_, err = config.Unset(t.opt.Root, board, []string{knobs})
	}
	t.stored = t.load()
	return err
}

// parseKnobs reads ETH_KNOBS. bad is what is wrong with it, in words; the rest
// of it holds.
func parseKnobs(text string) (set values, bad string) {
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		i := find(name)
		switch {
		case i < 0:
			bad = "there is no knob " + strconv.Quote(name) + "; gwctl eth names them"
		case knobs[i].path == "" && value != "on" && value != "off":
			bad = name + " is on or off, not " + strconv.Quote(value)
		case knobs[i].path != "" && !decimal(value):
			bad = name + " is a number from 0 to 4294967295, not " + strconv.Quote(value)
		default:
			set[i] = value
		}
	}
	return set, bad
}

// decimal tells whether s is a number as the kernel prints it.
func decimal(s string) bool {
	n, err := strconv.ParseUint(s, 10, 32)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// isOurs tells whether the RTL8196E's driver has the interface.
func (t *Tuner) isOurs() bool {
	_, err := os.Stat(t.path(marker))
	return err == nil
}

// wanted is what the profile and the knobs beside it set here.
func (t *Tuner) wanted() (set values) {
	driver := others
	if t.isOurs() {
		driver = ours
	}
	for i := range profiles {
		if p := &profiles[i]; p.name == t.want.Profile {
			for _, s := range p.set {
				if s.on == every || s.on == driver {
					set[find(s.knob)] = s.value
				}
			}
		}
	}
	own, bad := parseKnobs(t.want.Knobs)
	t.bad = bad
	for i, value := range own {
		set[i] = cmp.Or(value, set[i])
	}
	return set
}

// apply makes everything as it is wanted; t.mu is held.
func (t *Tuner) apply() {
	if t.link.Index == 0 {
		return
	}
	did, failed := "", ""
	for i, value := range t.wanted() {
		t.why[i] = ""
		if value == "" && t.found[i] == "" {
			continue
		}
		done, err := t.turn(i, value)
		if done != "" {
			did += ", " + knobs[i].name + " " + done
		}
		if err != nil {
			t.why[i] = reason(err)
			failed += "; " + knobs[i].name + ": " + t.why[i]
		}
	}
	done, why := t.applyQueue()
	if t.queue = why; done != "" {
		did += ", qdisc " + done
	}
	if t.bad != "" {
		failed += "; " + t.bad
	}
	prefix := t.opt.Interface + ": profile " + t.want.Profile + ": "
	if did != "" {
		t.opt.Log(prefix + did[2:])
	}
	if failed != t.said {
		if t.said = failed; failed != "" {
			t.opt.Log(prefix + failed[2:])
		}
	}
}

// turn sets a knob, to what was found if value is "", and returns what it
// wrote, or "".
func (t *Tuner) turn(i int, value string) (did string, err error) {
	k, back := &knobs[i], value == ""
	if back {
		value = t.found[i]
	}
	actual, err := t.read(k)
	switch {
	case err != nil && back: // gone, with what it held
	case err != nil:
		return "", err
	case actual != value:
		if t.found[i] == "" {
			// First noted, then changed: a restart in between must not take
			// our value for the one that was found.
			t.found[i] = actual
			if err := t.remember(); err != nil {
				return "", err
			}
		}
		if err := t.write(k, value); err != nil {
			return "", err
		}
		did = value
		if actual, err = t.read(k); err == nil && actual != value {
			return did, errors.New("the kernel made " + actual + " of it")
		}
	}
	if back {
		t.found[i] = ""
		return did, t.remember()
	}
	return did, err
}

// applyQueue sets or removes the root queueing discipline. done is what it did,
// why says why that is not what is wanted.
func (t *Tuner) applyQueue() (done, why string) {
	q, index, fq := t.opt.Queue, t.link.Index, t.want.Qdisc != config.QdiscDefault
	s, err := q.Root(index)
	mine := s.Handle == qdisc.Handle
	switch {
	case errors.Is(err, qdisc.ErrNone) && fq:
		return "", qdisc.ErrNone.Error() + ": packets wait in pfifo_fast, and BQL keeps what the driver holds short"
	case errors.Is(err, qdisc.ErrNone), err == nil && !fq && !mine, err == nil && fq && mine && fqCodel.Same(s.FQCodel):
		return "", ""
	case err == nil && !fq:
		done, err = config.QdiscDefault, q.Clear(index)
	case err == nil && s.Handle != 0 && !mine:
		return "", s.Kind + " was set by somebody and stays until the kernel's default is there again"
	case err == nil:
		if err = q.Set(index, fqCodel); err == nil {
			done = qdisc.Kind
			if s, err = q.Root(index); err == nil && !fqCodel.Same(s.FQCodel) {
				why = "the kernel made " + s.Kind + " " + parameters(s.FQCodel) + " of it"
			}
		}
	}
	if err != nil {
		return done, err.Error()
	}
	return done, why
}

// parameters are fq_codel's, in words like tc(8)'s.
func parameters(p qdisc.FQCodel) string {
	ecn := ""
	if p.ECN {
		ecn = " ecn"
	}
	return fmt.Sprintf("limit %dp flows %d quantum %d target %v interval %v memory_limit %d%s",
		p.Limit, p.Flows, p.Quantum, p.Target, p.Interval, p.Memory, ecn)
}

func (t *Tuner) path(name string) string {
	return filepath.Join("/", t.opt.Root, strings.ReplaceAll(name, "IF", t.opt.Interface))
}

// reason puts a kernel's refusal into words.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) {
		return "this kernel or driver has none"
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return "refused: " + path.Err.Error()
	}
	return err.Error()
}

// files are those of a knob: one, or one for each transmit queue.
func (t *Tuner) files(path string) []string {
	path = t.path(path)
	if !strings.Contains(path, "*") {
		return []string{path}
	}
	all, _ := filepath.Glob(path) // fails for a bad pattern only
	return all
}

// read returns what a knob holds; of several queues that differ, all.
func (t *Tuner) read(k *knob) (value string, err error) {
	if k.path == "" {
		on, err := t.opt.Card.Flag(k.flag)
		if on {
			return "on", err
		}
		return "off", err
	}
	err = fs.ErrNotExist
	same := true
	for _, f := range t.files(k.path) {
		var b []byte
		if b, err = os.ReadFile(f); err != nil {
			return "", err
		}
		one := strings.TrimSpace(string(b))
		same = same && (value == "" || strings.HasSuffix(value, " "+one))
		value += " " + one
	}
	if fields := strings.Fields(value); same && len(fields) > 0 {
		return fields[0], err
	}
	return strings.TrimSpace(value), err
}

// write sets a knob to one value, or to one for each queue.
func (t *Tuner) write(k *knob, value string) error {
	if k.path == "" {
		return t.opt.Card.SetFlag(k.flag, value == "on")
	}
	each := strings.Fields(value)
	for i, f := range t.files(k.path) {
		// In place, and without making one that is not there: it is sysfs.
		file, err := os.OpenFile(f, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteString(each[min(i, len(each)-1)])
		if errClose := file.Close(); err == nil {
			err = errClose
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// record is the file with what was found.
const record = "run/IF.tune"

// remember records what was found, for the process after this one.
func (t *Tuner) remember() error {
	text := ""
	for i, v := range t.found {
		if v != "" {
			text += knobs[i].name + "=" + v + "\n"
		}
	}
	return atomicfile.Write(t.path(record), []byte(text), 0o644)
}
