//go:build linux

package completion

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/applet"
)

func script(t *testing.T, shell string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Command().Run(applet.IO{Out: &out}, []string{shell}, false, nil); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// bash completes commands, options and the names in the hosts file.
func TestBash(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "gwctl"), 0o700); err != nil {
		t.Fatal(err)
	}
	hosts := "# attics\nattic 192.168.1.5 home\nannex root@annex:22\ncellar x\n"
	if err := os.WriteFile(filepath.Join(dir, "gwctl", "hosts"), []byte(hosts), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"gwctl sta":           "status start",
		"gwctl -a":            "-accept-new",
		"gwctl -H a":          "attic annex",
		"gwctl -H attic relo": "reload",
		"gwctl conf":          "config",
	} {
		f := strings.Fields(words)
		run := script(t, "bash") + `
COMP_WORDS=(` + words + `); COMP_CWORD=` + string(rune('0'+len(f)-1)) + `
_gwctl; echo "${COMPREPLY[*]}"`
		cmd := exec.Command("bash", "-c", run)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", words, got, err, want)
		}
	}
}

func TestOthers(t *testing.T) {
	for shell, want := range map[string]string{"zsh": "compdef _gwctl gwctl", "fish": "complete -c gwctl -f -a \"status "} {
		if s := script(t, shell); !strings.Contains(s, want) {
			t.Errorf("%s: %s", shell, s)
		}
	}
	if err := Command().Run(applet.IO{Out: &bytes.Buffer{}}, []string{"csh"}, false, nil); err == nil || !strings.Contains(err.Error(), "bash, zsh and fish") {
		t.Errorf("csh: %v", err)
	}
}
