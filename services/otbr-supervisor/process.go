//go:build linux

package otbr

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is an agent that runs.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // how, then
}

// start starts the agent. It stays in this process's group and dies with it: an
// agent that nobody watches would use up the counters that were saved.
func start(path string, args []string, out io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = time.Second // for a child of its that keeps the pipe
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes when the thread ends that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	// When memory runs out it goes before this process, which starts it again.
	_ = os.WriteFile("/proc/"+strconv.Itoa(p.cmd.Process.Pid)+"/oom_score_adj", []byte("0"), 0)
	return p, nil
}

// stop ends it: SIGTERM, and after grace SIGKILL. It returns when it has ended.
func (p *process) stop(grace time.Duration) {
	// An error is that it has ended already.
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-t.C:
		p.kill()
	}
}

// kill ends it at once.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(unix.SIGKILL)
	<-p.ended
}

// how is the end in words.
func (p *process) how() string {
	if s := p.cmd.ProcessState; s != nil {
		return s.String() // "exit status 1", "signal: killed"
	}
	return p.err.Error()
}
