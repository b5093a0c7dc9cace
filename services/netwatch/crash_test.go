package netwatch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
)

// As the kernel's log of the boot after has it, twice with another uptime.
const (
	panicRecord = "4,310,1310000,-;rtl819x-wdt 1800311c.watchdog: previous panic: uptime=%s epc=80123456 ra=80123400 cause=00800010 status=1000fc03 softirq=0 wdt=0 flags=1 reason=\"Fatal exception\"\n"
	pstoreLog   = "Oops#1 Part1\n<4>[ 12.1] something before\n<0>[   12.3] Kernel panic - not syncing: sysrq triggered crash\n<0>[   12.4] Rebooting in 1 seconds..\n"
)

// What is kept of a panic is kept once, however often it happens.
func TestCrashes(t *testing.T) {
	root := t.TempDir()
	wall := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	var log []string
	boot := func() *Service {
		s := New(Options{
			Root: root, Wall: func() time.Time { return wall }, Writable: func() error { return nil },
			Log: func(line string) { log = append(log, line) },
		})
		s.budget.boot = "this-boot"
		s.keepCrashes()
		return s
	}
	record := func(uptime string) string { return strings.Replace(panicRecord, "%s", uptime, 1) }
	kept := func(s *Service) []api.Incident {
		t.Helper()
		all, err := s.Incidents(api.IncidentParams{})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if s := boot(); len(kept(s)) != 0 || len(log) != 0 {
		t.Errorf("of nothing: %v, %v", kept(s), log)
	}
	put(t, filepath.Join(root, "dev/kmsg"), "6,1,2,-;Linux version\n"+record("4711s")+"6,400,5,-;the rest\n")
	s := boot()
	const summary = "the kernel panicked before this boot: epc=80123456 ra=80123400 cause=00800010 status=1000fc03 softirq=0 wdt=0 flags=1 reason=\"Fatal exception\""
	if all := kept(s); len(all) != 1 || all[0].Summary != summary {
		t.Errorf("kept %+v", all)
	}
	one, err := s.Incidents(api.IncidentParams{Number: 1})
	if err != nil || one[0].Text != summary+"\nseen 2026-12-01 03:00:00 UTC, in boot this-boot\n" {
		t.Errorf("%+v, %v", one, err)
	}
	put(t, filepath.Join(root, "dev/kmsg"), record("12s"))
	if all := kept(boot()); len(all) != 1 || len(log) != 2 {
		t.Errorf("the same again: %+v, %v", all, log)
	}
	// Another one, by pstore, before the clock is known.
	if err := os.Remove(filepath.Join(root, "dev/kmsg")); err != nil {
		t.Fatal(err)
	}
	wall = time.Unix(10, 0)
	for range 2 {
		put(t, filepath.Join(root, "sys/fs/pstore/dmesg-ramoops-0"), pstoreLog)
		put(t, filepath.Join(root, "sys/fs/pstore/dmesg-ramoops-1"), "an oops that ended nothing\n")
		s = boot()
	}
	if told := len(log); told != 4 {
		t.Errorf("the log: %q", log)
	}
	boot()
	if told := len(log); told != 4 {
		t.Errorf("the boot after says it again: %q", log)
	}
	if all := kept(s); len(all) != 2 || all[0].Summary != "the kernel panicked before this boot: Kernel panic - not syncing: sysrq triggered crash" {
		t.Errorf("kept %+v", all)
	}
	one, err = s.Incidents(api.IncidentParams{Number: 2})
	if err != nil || !strings.Contains(one[0].Text, "seen before the clock was set") || !strings.Contains(one[0].Text, "something before") {
		t.Errorf("%+v, %v", one, err)
	}
}

// What memory kept of a boot that had no end is an incident, once; of one that
// ended it is none, and of one that panicked it is the panic's.
func TestPreviousBoot(t *testing.T) {
	for _, tt := range []struct {
		name, previous, kmsg string
		summary, text        string // "": no incident
	}{
		{"ended", "reboot\n1s core: last\n", "", "", ""},
		{"not kept", "", "", "", ""},
		{"reset", "running\n1s core: last\n", "", wasReset, "\n== the end of its log\n1s core: last\n"},
		{"panicked", "running\n1s core: last\n", strings.Replace(panicRecord, "%s", "12s", 1), panicked + "epc=80123456", "\n== the end of its log\n1s core: last\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if tt.previous != "" {
				put(t, filepath.Join(root, api.PreviousPath), tt.previous)
			}
			put(t, filepath.Join(root, "dev/kmsg"), tt.kmsg)
			var all []api.Incident
			for range 2 {
				s := New(Options{Root: root, Writable: func() error { return nil }, Log: func(string) {}})
				s.keepCrashes()
				var err error
				if all, err = s.Incidents(api.IncidentParams{Number: min(1, len(s.numbers()))}); err != nil {
					t.Fatal(err)
				}
			}
			if tt.summary == "" {
				if len(all) != 0 {
					t.Errorf("kept %+v", all)
				}
				return
			}
			if len(all) != 1 || !strings.HasPrefix(all[0].Summary, tt.summary) || !strings.Contains(all[0].Text, tt.text) {
				t.Errorf("kept %+v", all)
			}
		})
	}
}
