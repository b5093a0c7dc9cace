//go:build linux

package onbox

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/restore"
	"gwinit/internal/tarfile"
)

// ReportUsage is the help of Report.
const ReportUsage = `usage: gwctl report [FILE]
write what helps to find a fault into an archive that can be shown to others

FILE is a .tar.gz; - or nothing is standard output. Passwords, keys and what looks
like one are taken out; names and addresses of the network stay in.
`

const readMe = `What gwctl report found on a gateway. Each file is what the command or the file of
its name said.

Taken out: passwords and their stored forms, private and public keys, the Thread
network's keys, long numbers that look like one. Still in: host names, IP and MAC
addresses, settings, names of programs and what the services logged. Of other files
in /userdata only names and sizes are in files.txt.
`

// maxPart is how much of one part is kept, in bytes; maxTime is for one command,
// which runs with that niceness: no report disturbs the radio.
const (
	maxPart = 256 << 10
	maxTime = 45 * time.Second
	nice    = 10
)

// reportCommands are what is run, by the box's own binary, and the file it goes
// to. What fails says so there.
var reportCommands = [...]struct{ file, command string }{
	{"status.json", "gwctl -json status"},
	{"status.txt", "gwctl status"},
	{"doctor.txt", "gwctl doctor"},
	{"log.txt", "gwctl logs"},
	{"bridge.json", "gwctl -json bridge"},
	{"eth.json", "gwctl -json eth"},
	{"netwatch.json", "gwctl -json netwatch"},
	{"firewall.json", "gwctl -json firewall"},
	{"settings.txt", "gwctl config export"},
	{"settings-check.txt", "gwctl config check"},
	{"dmesg.txt", "dmesg"},
	{"ps.txt", "ps"},
	{"mount.txt", "mount"},
	{"df.txt", "df"},
	{"addresses.txt", "ip addr"},
	{"routes.txt", "ip route"},
	{"routes6.txt", "ip -6 route"},
	{"neighbours.txt", "ip neigh"},
	{"sockets.txt", "netstat -anp"},
}

// reportFiles are copied.
var reportFiles = [...]string{
	"/proc/version", "/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/vmstat", "/proc/interrupts", "/proc/softirqs", "/proc/stat",
	"/proc/uptime", "/proc/loadavg", "/proc/mtd", "/proc/net/dev", "/proc/net/snmp", "/proc/net/snmp6", "/proc/net/netstat", "/proc/net/softnet_stat",
	"/proc/tty/driver/serial", "/run/userdata.json",
}

// maxIncidents is how many of them are told in full.
const maxIncidents = 3

// Program runs one of the box's commands and returns what it says, also when it
// fails. RunSelf is one.
type Program func(ctx context.Context, args []string) ([]byte, error)

// RunSelf runs a command of this binary.
func RunSelf(ctx context.Context, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = "gw"
	cmd.WaitDelay = time.Second
	var out limited
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, nice) // a matter of speed only
	err := cmd.Wait()
	return out, err
}

// limited keeps the first maxPart bytes.
type limited []byte

func (l *limited) Write(p []byte) (int, error) {
	*l = append(*l, p[:min(len(p), maxPart-len(*l))]...)
	return len(p), nil
}

// Report writes an archive of what there is to know about the gateway, without
// its secrets. It takes its time.
func Report(ctx context.Context, b Box, std applet.IO, args []string, asJSON bool, run Program) error {
	file, err := target("report", std, args)
	if err != nil {
		return err
	}
	size := 0
	err = writeTo(std, file, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		t := tarfile.NewWriter(z)
		r := newRedactor(b.Root)
		add := func(name string, text []byte) error {
			text = r.text(text)
			size += len(text)
			if err := t.WriteHeader(&tarfile.Header{Kind: tarfile.File, Name: "gateway-report/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: now()}); err != nil {
				return err
			}
			_, err := t.Write(text)
			return err
		}
		if err := b.gather(ctx, run, add); err != nil {
			return err
		}
		return errors.Join(t.Close(), z.Close())
	})
	switch {
	case err != nil:
		return err
	case file == "-":
		_, err = io.WriteString(std.Err, "Passwords and keys are taken out; names and addresses are in it: look before you show it to others.\n")
	case asJSON:
		err = printJSON(std, struct {
			File string `json:"file"`
		}{file})
	default:
		_, err = fmt.Fprintf(std.Out, "%d KiB of text in %s. Passwords and keys are taken out; names and addresses are in it: look before you show it to others.\n", size>>10, file)
	}
	return err
}

// gather has each part added.
func (b Box) gather(ctx context.Context, run Program, add func(name string, text []byte) error) error {
	if err := add("README.txt", []byte(readMe)); err != nil {
		return err
	}
	for _, c := range reportCommands {
		if err := add(c.file, b.said(ctx, run, c.command)); err != nil {
			return err
		}
	}
	for _, n := range b.incidents(ctx, run) {
		command := "gwctl incidents show " + strconv.Itoa(n)
		if err := add("incident-"+strconv.Itoa(n)+".txt", b.said(ctx, run, command)); err != nil {
			return err
		}
	}
	files := slices.Clone(reportFiles[:])
	for _, s := range config.Settings() {
		if !slices.Contains(files, s.File) {
			files = append(files, s.File)
		}
	}
	for _, name := range files {
		text, err := readPart(filepath.Join("/", b.Root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			text = append(text, "\n-- "+err.Error()+"\n"...)
		}
		if err := add(strings.TrimPrefix(name, "/"), text); err != nil {
			return err
		}
	}
	return add("files.txt", b.list())
}

// said is what a command says, and how it ended if not well.
func (b Box) said(ctx context.Context, run Program, command string) []byte {
	out, err := run(ctx, strings.Fields(command))
	if err != nil {
		out = append(out, "\n-- "+command+": "+err.Error()+"\n"...)
	}
	return out
}

// incidents are the numbers of the newest ones.
func (b Box) incidents(ctx context.Context, run Program) (numbers []int) {
	out, err := run(ctx, []string{"gwctl", "-json", "incidents"})
	var all []api.Incident
	if err != nil || json.Unmarshal(out, &all) != nil {
		return nil // netwatch.json says why, or there are none
	}
	for _, i := range all[:min(len(all), maxIncidents)] {
		numbers = append(numbers, i.Number)
	}
	return numbers
}

// readPart reads a file of proc, or a short one.
func readPart(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxPart))
}

// list names the files of settings and keys, and what else is on /userdata.
func (b Box) list() []byte {
	var out bytes.Buffer
	n := 0
	dir := filepath.Join("/", b.Root, "userdata")
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if n++; n > 4*restore.MaxFiles {
			return filepath.SkipAll
		}
		if err != nil {
			fmt.Fprintf(&out, "-- %v\n", err)
			return nil
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintf(&out, "%v %9d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), strconv.Quote(strings.TrimPrefix(path, dir)))
		}
		return nil
	})
	return out.Bytes()
}
