package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/services/wireguard"
	"gwinit/services/wireguard/conf"
)

// asMain has this binary be the program.
const asMain = "GWINIT_WIREGUARD_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program runs it as gwctl wg does.
func program(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// The keys of RFC 7748, section 6.1.
func TestPublicKey(t *testing.T) {
	t.Parallel()
	const private, public = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
	if out, errs, code := program(t, private+"\n", "pubkey", "-"); out != public+"\n" || code != 0 {
		t.Errorf("%q, %q, status %d; want %q", out, errs, code, public)
	}
	if out, _, code := program(t, private, "pubkey", "-", "-json"); out != `{"public_key":"`+public+`"}`+"\n" || code != 0 {
		t.Errorf("%q, status %d", out, code)
	}
	if out, errs, code := program(t, "no key", "pubkey", "-"); out != "" || code != 1 || !strings.Contains(errs, "44 characters of base64") {
		t.Errorf("%q, %q, status %d", out, errs, code)
	}
}

// What is made is a key, another each time, whose public one can be told.
func TestGenkey(t *testing.T) {
	t.Parallel()
	var all []string
	for range 2 {
		out, errs, code := program(t, "", "genkey")
		k, err := conf.ParseKey(strings.TrimSuffix(out, "\n"))
		if err != nil || code != 0 || errs != "" || slices.Contains(all, out) {
			t.Fatalf("%q, %q, status %d: %v; before %q", out, errs, code, err, all)
		}
		if k[0]&7 != 0 || k[31]&0xc0 != 0x40 {
			t.Errorf("%x is not clamped as Curve25519 wants it", k)
		}
		all = append(all, out)
	}
	out, _, _ := program(t, "", "genkey", "-json")
	var v map[string]string
	if err := json.Unmarshal([]byte(out), &v); err != nil || len(v) != 1 || len(v["private_key"]) != 44 {
		t.Errorf("%q: %v", out, err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"other"}, {"genkey", "-"}, {"service", "now"}, {"pubkey", "-", "-"}} {
		if out, errs, code := program(t, "", args...); out != "" || code != 1 || !strings.Contains(errs, "gwctl wg") {
			t.Errorf("%q: %q, %q, status %d", args, out, errs, code)
		}
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	s := wireguard.New(wireguard.Options{Root: t.TempDir()})
	if _, err := call(s, "other"); err == nil || !strings.Contains(err.Error(), "show, text, warnings, reload") {
		t.Errorf("another method: %v", err)
	}
	if got, err := call(s, "warnings"); string(got) != "[]" || err != nil {
		t.Errorf("warnings %s, %v", got, err)
	}
	if _, err := call(s, "reload"); !errors.Is(err, wireguard.ErrPointless) {
		t.Errorf("a reload without a file: %v", err)
	}
}

// A line that comes again and again is told once in ten seconds, with how many
// were not; others are told at once, also more of them than are remembered.
func TestLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		log := limited(func(line string) { got = append(got, line) })
		want := func(lines ...string) {
			t.Helper()
			if !slices.Equal(got, lines) {
				t.Errorf("%q, want %q", got, lines)
			}
			got = nil
		}
		for range 5 {
			log("peer %d", 1)
			time.Sleep(time.Second)
		}
		log("peer %d", 2)
		want("peer 1", "peer 2")
		time.Sleep(logEvery)
		log("peer %d", 1)
		log("peer %d", 2)
		want("peer 1 (and 4 more like it)", "peer 2")
		var all []string
		for i := range 20 {
			log("other %d", i)
			time.Sleep(time.Millisecond)
			all = append(all, fmt.Sprintf("other %d", i))
		}
		want(all...)
		log("other %d", 19)
		log("other %d", 0) // forgotten
		want("other 0")
	})
}
