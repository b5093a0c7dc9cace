//go:build linux

package radionote

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gwinit/internal/api"
)

func TestNote(t *testing.T) {
	root := t.TempDir()
	if a, err := Read(root); a != nil || err != nil {
		t.Errorf("none: %v, %v", a, err)
	}
	want := api.RadioAnswer{Kind: "ezsp", Firmware: "ncp", Version: "7.5.1.0", Protocol: 13, Baud: 115200, Flow: "none"}
	if err := Write(root, want); err == nil {
		t.Error("written without /run")
	}
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(root, want); err != nil {
		t.Fatal(err)
	}
	a, err := Read(root)
	if err != nil || a == nil || a.Age < 0 || a.Age > 60 {
		t.Fatalf("%+v, %v", a, err)
	}
	if a.Age = 0; *a != want {
		t.Errorf("%+v, want %+v", *a, want)
	}
}

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"at":1000000000,"answer":{"kind":"ezsp"}}`: true, `{"at":1000000000,"answer":{}}`: false,
		`{"at":-1,"answer":{"kind":"ezsp"}}`: false, `{"at":9000000000000000000,"answer":{"kind":"ezsp"}}`: false, "": false, "x": false,
	} {
		a, err := parse([]byte(text), 3*time.Second)
		if (err == nil) != ok || (a != nil) != ok || ok && a.Age != 2 {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}
