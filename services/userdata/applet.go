package userdata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/notify"
	"gwinit/internal/savedtime"
	"gwinit/internal/seed"
	"gwinit/internal/time64"
)

// verbMount is the argument of the process that may be left behind.
const verbMount = "mount"

// Applet is `userdata`, a oneshot that PID 1 runs before the services.
func Applet() applet.Applet {
	return applet.Applet{
		Name:    "userdata",
		Group:   applet.Service,
		Summary: "mount the writable partition and say what became of it",
		Usage: `userdata        mount it, with a deadline; the verdict is in ` + VerdictPath + `
userdata mount  the same without a deadline
userdata skip   do without it in this boot, and say so

Status 0, whatever the partition is like: the box runs on its defaults then.
Nothing is ever erased or formatted.`,
		Run: func(_ context.Context, std applet.IO, args []string) error {
			return command("", std, args)
		},
	}
}

func command(root string, std applet.IO, args []string) error {
	switch {
	case len(args) == 0:
		conn, err := notify.FromEnv()
		if err != nil {
			return err
		}
		return errors.Join(report(root, conn, std.Err), conn.Close())
	case len(args) == 1 && args[0] == verbMount:
		signal.Ignore(unix.SIGPIPE) // after the deadline nobody reads, and there is more to do
		u, err := work(root, kernel{}, std.Out, std.Err)
		if u.State == Mounted {
			// Nobody waits for this any more: the line above ended the step.
			err = errors.Join(err, recall(root, seed.System{}, time64.SetRealtime, std.Err))
		}
		return err
	case len(args) == 1 && args[0] == "skip":
		return replaceVerdict(root, api.Userdata{State: Skipped, Reason: "this boot was asked to do without"})
	}
	return applet.Usagef("mount, skip or nothing")
}

// recall gives the kernel what the last boot left for this one: entropy and the
// time.
func recall(root string, pool seed.Kernel, set func(time.Time) error, log io.Writer) error {
	var errs []error
	for _, text := range []string{seed.Load(root, pool), savedtime.Restore(root, time.Now(), set)} {
		if text != "" {
			_, err := fmt.Fprintln(log, text)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// report has the work done by a process of its own and passes its verdict on.
func report(root string, conn *notify.Conn, log io.Writer) error {
	text, err := supervise(root, startSelf, waitForPartition+deadline)
	fmt.Fprintln(log, text)
	return errors.Join(err, conn.Ready(text))
}

// startSelf starts `userdata mount`. It is in a group of its own, since what is
// left of ours is killed when we end.
func startSelf(out *os.File) error {
	p, err := os.StartProcess("/proc/self/exe", []string{"gw", "userdata", verbMount}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, out, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return err
	}
	// Not waited for here: PID 1 reaps it, also when it ends after us.
	return p.Release()
}
