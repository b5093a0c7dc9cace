package shell

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBackground(t *testing.T) {
	tests := []struct {
		name, script, out string
	}{
		{"a block sees the value of its time", "x=1; { sleep 0.05; echo $x; } & x=2; wait; echo $x", "1\n2\n"},
		{"and does not change the shell's", "x=1; { x=2; echo $x; } & wait; echo $x", "2\n1\n"},
		{"a command too", "x=1; echo $x & x=2; wait", "1\n"},
		{"exported", "export E='a  b'; E=c; { E=\"$E d\"; sh -c 'echo $E'; } & wait", "c d\n"},
		{"not exported stays so", "V=1; sh -c 'echo [$V]' & wait", "[]\n"},
		{"odd values", "v='it'\"'\"'s $x\n\"two\"'; echo \"$v\" & wait", "it's $x\n\"two\"\n"},
		{"echo as it is", "echo; echo 'a\\nb %s' \"\" c; echo -n d; echo \"\"; echo() { printf mine; }; echo x", "\na\\nb %s  c\nd\nmine"},
		{"odd texts", "echo 'it'\\''s' \"$(echo '$x')\" `echo b` & wait", "it's $x b\n"},
		{"here-document", "x=5\ncat <<EOF &\nx is $x, it's\nEOF\nwait", "x is 5, it's\n"},
		{"here-string", "x=5; cat <<<\"x $x\" & wait", "x 5\n"},
		{"process substitution", "cat <(echo a) & wait", "a\n"},
		{"array", "a=(1 '2 3' 4); { echo \"${a[1]}\" ${#a[@]}; } & wait", "2 3 3\n"},
		{"map", "declare -A m=([\"k l\"]='v w'); { echo \"${m[\"k l\"]}\"; } & wait", "v w\n"},
		{"read-only", "readonly r=1; { r=2; echo $r; } 2>/dev/null & wait; echo $r", "1\n1\n"},
		{"function", "f() { echo f $1; }; f 'a b' & wait", "f a b\n"},
		{"function with a job", "f() { echo in $1 & wait; }; f x; f y & wait", "in x\nin y\n"},
		{"function of a function", "f() { g() { echo g; }; }; f; g & wait", "g\n"},
		{"function named like no variable", "a-b() { echo ab; }; a-b & wait", "ab\n"},
		{"function unset", "lines() { echo mine; }; unset -f lines; echo x | lines & wait", "1 lines\n"},
		{"function unset by its bare name", "lines() { echo mine; }; unset lines; echo x | lines & wait", "1 lines\n"},
		{"local in a function", "f() { local x=1; { local y=2; echo $x $y $1; } & wait; }; f p", "1 2 p\n"},
		{"parameters", "set -- a 'b c'; echo $# \"$2\" & wait", "2 b c\n"},
		{"no parameters", "echo $# & wait", "0\n"},
		{"options", "set -e; { fail; echo no; } & wait; set +e; { fail; echo yes; } & wait", "yes\n"},
		{"pipefail", "set -o pipefail; { fail | true; echo $?; } & wait", "7\n"},
		{"glob option", "touch a; set -f; echo * & wait", "*\n"},
		{"alias", "shopt -s expand_aliases; alias hi='echo hello'\neval 'hi you & wait'", "hello you\n"},
		{"$? before and after", "(exit 3); echo $? & echo $?; wait", "0\n3\n"},
		{"$$ is the shell's", "x=$$; { [ $x = $$ ] && echo same$$; } & wait; echo same$$", "="},
		{"$! is known to the job", "true & x=$!; { [ $x = $! ] && echo same; } & wait", "same\n"},
		{"no $! yet", "echo [$!]", "[]\n"},
		{"kill $!", "hang >/dev/null & kill $!; wait $!; echo $?", "143\n"},
		{"the process of $!", "sh -c 'echo $$' >f & wait; read p <f; [ $p = $! ] && echo same", "same\n"},
		{"status of a job", "(exit 5) & wait $!; echo $?; fail & wait $!; echo $?", "5\n7\n"},
		{"status asked for once", "fail & p=$!; wait $p; wait $p; echo $?", "127\n"},
		{"wait of several", "fail & a=$!; (exit 2) & wait $a $!; echo $?", "2\n"},
		{"in a substitution", "echo got $(echo a & wait)", "got a\n"},
		{"in a subshell", "(echo a & wait); echo b", "a\nb\n"},
		{"in a pipeline", "{ echo a & echo b & wait; } | lines", "2 lines\n"},
		{"redirected", "{ echo a; echo b; } >f & wait; lines <f", "2 lines\n"},
		{"one command redirected", "cat nofile >f 2>&1 & wait; lines <f", "1 lines\n"},
		{"crossing redirections", "cat nofile 2>&1 >/dev/null | lines & wait", "1 lines\n"},
		{"and-or list", "fail || echo or & wait", "or\n"},
		{"nested", "x=1; { { echo $x & x=2; wait; echo $x; } & wait; } & wait", "1\n2\n"},
		{"eval", "for i in 1 2; do eval 'echo $i & wait'; done", "1\n2\n"},
		{"eval in the background", "eval 'echo a; echo b' & wait", "a\nb\n"},
		{"source", "echo 'v=1; echo $v $1 & v=2; wait; f() { return 4; }; return 6' >s; . ./s p; echo $? $v; f; echo $?", "1 p\n6 2\n4\n"},
		{"trap", "trap 'x=1; echo $x & x=2; wait' EXIT", "1\n"},
		{"own process group", "null & wait", "read 0, leader=true\n"},
		{"its directory", "cd /proc/sys; sh -c pwd & wait; (cd /proc; pwd) & wait", "/proc/sys\n/proc\n"},
		{"not found", "nonesuch & wait $!; echo $?", "sh: nonesuch: not found\n127\n"},
		{"assignment for one command", "V=2 sh -c 'echo $V' & wait; echo [$V]", "2\n[]\n"},
		{"trace", "set -x; true & wait", "*+ true\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, status := sh(t, "", "-c", tt.script)
			if status != 0 {
				t.Errorf("exit status %d", status)
			}
			switch {
			case tt.out == "=":
				if a, b, _ := strings.Cut(strings.TrimSuffix(out, "\n"), "\n"); a != b || a == "" {
					t.Errorf("output %q, want a line twice", out)
				}
			case tt.out[0] == '*':
				if !strings.Contains(out, tt.out[1:]) || strings.Contains(out, "set -o") || strings.Contains(out, "shopt") {
					t.Errorf("output %q, want only %q and its like", out, tt.out[1:])
				}
			case out != tt.out:
				t.Errorf("output %q, want %q", out, tt.out)
			}
		})
	}
}

// TestBackgroundLoop: v3.11 printed 4 4 4 4, or ended with "concurrent map
// read and map write".
func TestBackgroundLoop(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		count      int
	}{
		{"four commands", "echo $i &", 4},
		{"four blocks", "{ x=$i; echo $x; } &", 4},
		{"two hundred", "{ x=$i; i=0; y=1; echo $x; } & z=$i", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, status := sh(t, "", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); ", tt.count)+tt.body+"\ndone; wait")
			var got []int
			for _, f := range strings.Fields(out) {
				n, err := strconv.Atoi(f)
				if err != nil {
					t.Fatalf("output %q", out)
				}
				got = append(got, n)
			}
			slices.Sort(got)
			var want []int
			for i := range tt.count {
				want = append(want, i+1)
			}
			if status != 0 || !slices.Equal(got, want) {
				t.Errorf("status %d, %d values: %v", status, len(got), got)
			}
		})
	}
}

// TestBackgroundInput: a job must not read what the shell reads next.
func TestBackgroundInput(t *testing.T) {
	if out, _ := sh(t, "null & wait\necho next\n"); out != "read 0, leader=true\nnext\n" {
		t.Errorf("%q", out)
	}
}

// TestBackgroundLoopIsAProcess: an endless loop ends by kill, and the login
// shell stays idle beside it.
func TestBackgroundLoopIsAProcess(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	c.expect(prompt)
	c.run("(while true; do hang; done) >/dev/null &")
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(c.run("echo $!"), "\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	if pgid, err := unix.Getpgid(pid); err != nil || pgid != pid {
		t.Errorf("group %d of process %d, %v", pgid, pid, err)
	}
	exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	if self, _ := os.Executable(); err != nil || exe != self {
		t.Errorf("runs %q, %v", exe, err)
	}
	if got := c.run(fmt.Sprintf("/bin/sh -c 'kill -9 -%d'; wait %d; echo $?", pid, pid)); !strings.HasPrefix(got, "137\n") {
		t.Errorf("after kill: %q", got)
	}
	// ctrl-C ends the wait, not the job.
	c.send("hang >/dev/null &\rwait\r")
	c.expect("wait\r\n")
	c.awaitCooked()
	c.send("\x03")
	c.expect(prompt)
	if got := c.run("kill -0 $! && echo alive; kill $!"); !strings.HasPrefix(got, "alive\n") {
		t.Errorf("after ctrl-C: %q", got)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("set -o errexit\nalias a='b 'c''\nexpand_aliases\ton\n")
	f.Fuzz(func(t *testing.T, state string) {
		if got := settings(state); !strings.HasSuffix(got, "\n") || strings.Count(got, "{\n") < 1 {
			t.Errorf("%q gives %q", state, got)
		}
	})
}

func TestSourceTextIsReadOnly(t *testing.T) {
	if _, err := (sourceText{strings.NewReader("")}).Write([]byte("x")); err == nil {
		t.Error("written to")
	}
	if b, err := io.ReadAll(sourceText{strings.NewReader("x")}); string(b) != "x" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestPipelineSides: v3.11 ran the right side on the variables that the left
// one read meanwhile.
func TestPipelineSides(t *testing.T) {
	tests := []struct {
		name, script, out string
		status            int
	}{
		{"each side its own variables", "n=0; i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; done | while read l; do n=$l; m=$n; done; echo $n $i", "0 0\n", 0},
		{"of three", "x=1; { x=2; echo a; } | { x=3; cat; } | { x=4; cat; }; echo $x", "a\n1\n", 0},
		{"status", "true | (exit 3); echo $?; fail | true; echo $?", "3\n0\n", 0},
		{"exit ends its side", "true | exit 3; echo $?", "3\n", 0},
		{"-e", "set -e; true | fail; echo no", "", 7},
		{"-e with a block", "set -e; true | { true; fail; }; echo no", "", 7},
		{"-e and not", "set -e; ! true | false; echo yes; if true | fail; then :; fi; true | fail || echo or", "yes\nor\n", 0},
		{"pipefail", "set -o pipefail; fail | true; echo $?; set -e; fail | true; echo no", "7\n", 7},
		{"negated", "! true | false; echo $?; ! true | true; echo $?", "0\n1\n", 0},
		{"trace", "set -x; true | true", "+ true\n+ true\n", 0},
		{"in eval", "x=1; eval 'true | x=2'; echo $x", "1\n", 0},
		{"in a substitution", "echo $(echo a | cat)", "a\n", 0},
		{"both outputs", "cat nofile |& lines", "1 lines\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if out, status := sh(t, "", "-c", tt.script); out != tt.out || status != tt.status {
				t.Errorf("%q, status %d; want %q, %d", out, status, tt.out, tt.status)
			}
		})
	}
}
