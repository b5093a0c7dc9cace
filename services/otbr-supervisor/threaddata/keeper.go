package threaddata

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// minorEvery is the least time between two saves of what a node finds out again:
// a child that comes and goes shall not wear the flash out.
const minorEvery = 30 * time.Minute

// Keeper carries a set between an agent's folder in memory and the store. It is
// for one goroutine at a time; times are of any monotonic clock (INV 13).
type Keeper struct {
	ram   string
	store *Store
	saved Set           // as it is in flash; nil: nothing that is known
	at    time.Duration // of the last save
	begun bool
}

// NewKeeper returns one for the agent's folder.
func NewKeeper(ram string, store *Store) *Keeper { return &Keeper{ram: ram, store: store} }

// Begun is what an agent starts with.
type Begun struct {
	Set Set
	// Kept: the files were in memory already, from an agent of this boot.
	Kept bool
	// Words are for the log, a line each.
	Words []string
}

// ErrUnread: it is not known what network there is. An agent must not start: it
// would begin without one.
var ErrUnread = errors.New("the Thread network cannot be read")

// Begin puts the set in place for an agent that is about to start, and saves it
// with its margin. An error that does not wrap ErrUnread is for people to hear: the
// agent may start, but a power cut takes back what it does until a save succeeds.
func (k *Keeper) Begin(now time.Duration) (b Begun, err error) {
	say := func(format string, a ...any) { b.Words = append(b.Words, fmt.Sprintf(format, a...)) }
	k.begun = false
	l, err := k.store.Load()
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	if len(l.Damaged) > 0 {
		say("damaged, and left aside: %s", strings.Join(l.Damaged, ", "))
	}
	memory, damaged, err := ReadDir(k.ram)
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrUnread, err)
	}
	switch {
	case len(damaged) > 0:
		say("damaged in memory, so the saved Thread network is taken: %s", strings.Join(damaged, ", "))
		fallthrough
	case memory.Empty():
		b.Set = l.Set
		if err := b.Set.WriteDir(k.ram); err != nil {
			return b, fmt.Errorf("%w, as memory takes it not: %w", ErrUnread, err)
		}
		switch {
		case l.Source == Files && l.Lifted:
			say("the Thread network is that of files put into its folder; their frame counters were behind those in use, and are lifted")
		case l.Source == Files:
			say("the Thread network is that of files put into its folder")
		}
	default: // INV 6: never restored over something newer
		b.Set, b.Kept = memory, true
	}
	k.begun, k.saved = true, nil
	if l.Source == Generation {
		k.saved = l.Set
	}
	// What is far enough ahead already needs no write: an agent that ends again
	// and again shall not wear the flash out.
	if len(b.Set) == 0 || Compare(k.saved, b.Set) < Urgent {
		return b, nil
	}
	return b, k.save(b.Set, Margin, now)
}

// Look saves what has changed in memory, if it is worth it, and tells what it
// found and whether it saved.
func (k *Keeper) Look(now time.Duration) (found Change, saved bool, err error) {
	set, err := k.memory()
	if err != nil || len(set) == 0 {
		return Same, false, err
	}
	found = Compare(k.saved, set)
	if found == Same || found == Minor && now-k.at < minorEvery {
		return found, false, nil
	}
	return found, true, k.save(set, Margin, now)
}

// End saves the set of an agent that has ended, without a margin: nobody uses up
// its counters any more.
func (k *Keeper) End(now time.Duration) error {
	set, err := k.memory()
	if err != nil || len(set) == 0 || set.equal(k.saved) {
		return err
	}
	return k.save(set, 0, now)
}

// memory is the set to save. Of one that is not whole, or whose files somebody
// has taken away, nothing is saved.
func (k *Keeper) memory() (Set, error) {
	if !k.begun {
		return nil, errors.New("threaddata: not begun")
	}
	set, damaged, err := ReadDir(k.ram)
	if err != nil {
		return nil, fmt.Errorf("read the Thread network in memory: %w", err)
	}
	if len(damaged) > 0 {
		return nil, fmt.Errorf("%w in memory, and not saved: %s", ErrDamaged, strings.Join(damaged, ", "))
	}
	return set, nil
}

func (k *Keeper) save(set Set, margin uint32, now time.Duration) error {
	ahead, err := set.Advance(margin)
	if serr := k.store.Save(ahead); serr != nil {
		return serr
	}
	k.saved, k.at = ahead, now
	return err
}
