// Command wireguard measures the tunnel of the add-on on the emulated board, beside
// the kernel's own WireGuard and beside no tunnel: in instructions of the guest
// for each MiB, which are its CPU time, and in MiB a second of its clock, which counts
// 8 ns for an instruction. The other end is the module's stock device in
// this process. `make bench-wireguard` runs it; it needs root and makes a network
// namespace of its own.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gwinit/services/wireguard"
	"gwinit/test/bench"
	"gwinit/test/board"
	"gwinit/test/stockwg"
)

const (
	inside     = "GWINIT_BENCH_NAMESPACE"
	lanHost    = "192.0.2.1"
	lanGateway = "192.0.2.50"
	tunHost    = "10.9.0.1"
	tunGateway = "10.9.0.2"
	port       = 51820
	mib        = 2 // that a transfer moves
	bootTime   = 10 * time.Minute
	transfer   = 10 * time.Minute
)

func main() {
	images := flag.String("images", "build", "`folder` with rootfs.bin and addons")
	out := flag.String("out", "build/bench/wireguard.json", "`file` for the result")
	n := flag.Int("n", 3, "transfers each way; the median counts")
	flag.Parse()
	if err := run(*images, *out, *n); err != nil {
		fmt.Fprintln(os.Stderr, "bench-wireguard:", err)
		os.Exit(1)
	}
}

func run(images, out string, n int) error {
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("in a network namespace (needs root): %w", err)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	for _, args := range []string{"link set lo up", "tuntap add tap0 mode tap", "addr add " + lanHost + "/24 dev tap0", "link set tap0 up"} {
		if text, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, text)
		}
	}
	ours, err := engine(ctx, images, board.KernelIncumbent, wireguard.EngineUser, n)
	if err != nil {
		return err
	}
	theirs, err := engine(ctx, images, board.KernelFull, wireguard.EngineKernel, n)
	if err != nil {
		return err
	}
	var rows []bench.Row
	for i, o := range ours {
		k := theirs[i]
		rows = append(rows,
			bench.Compare("wireguard/"+o.way+"/instructions", "instructions/MiB", o.tunnel.instructions, "kernel WireGuard", k.tunnel.instructions, n),
			bench.Compare("wireguard/"+o.way+"/throughput", "MiB/s", o.tunnel.rate, "kernel WireGuard", k.tunnel.rate, n),
			bench.Compare("wireguard/"+o.way+"/instructions-beside-none", "instructions/MiB", o.tunnel.instructions, "no tunnel", o.plain.instructions, n))
	}
	return bench.Write(out, rows)
}

// figure is what a transfer costs, and how fast it is.
type figure struct{ instructions, rate float64 }

// result is one direction, through the tunnel and past it.
type result struct {
	way           string
	tunnel, plain figure
}

// engine boots a board whose tunnel is carried as it is called, and measures.
func engine(ctx context.Context, images, kernel, name string, n int) (results []result, err error) {
	dir, err := os.MkdirTemp("", "bench-wireguard")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, err := board.Kernel(ctx, kernel)
	if err != nil {
		return nil, err
	}
	peer, err := stockwg.New("wgh", tunHost+"/24", port)
	if err != nil {
		return nil, err
	}
	defer peer.Close()
	private := wireguard.NewKey()
	if err := peer.Tell("public_key=%s\nallowed_ip=%s/32\n", stockwg.Hex(wireguard.PublicKey(private)), tunGateway); err != nil {
		return nil, err
	}
	stage := filepath.Join(dir, "userdata")
	if err := os.CopyFS(stage, os.DirFS("rootfs/skeleton/userdata")); err != nil {
		return nil, err
	}
	addons := filepath.Join(stage, "system/addons")
	if err := os.MkdirAll(addons, 0o755); err != nil {
		return nil, err
	}
	for _, file := range []string{"gw-wireguard", "gw-wireguard.sha256"} {
		b, err := os.ReadFile(filepath.Join(images, "addons", file))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(addons, file), b, 0o755); err != nil {
			return nil, err
		}
	}
	for file, text := range map[string]string{
		"eth0.conf":      "IPADDR=" + lanGateway + "\nNETMASK=255.255.255.0\nGATEWAY=" + lanHost + "\n",
		"wireguard.conf": "ENABLED=1\nADDRESS=" + tunGateway + "/24\n",
		"wireguard/wg0.conf": fmt.Sprintf("[Interface]\nPrivateKey = %s\nListenPort = %d\n[Peer]\nPublicKey = %s\nEndpoint = %s:%d\nAllowedIPs = %s/32\nPersistentKeepalive = 5\n",
			private, port, peer.Public, lanHost, port, tunHost),
	} {
		at := filepath.Join(stage, "etc", file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	userdata, err := bench.Userdata(ctx, dir, stage)
	if err != nil {
		return nil, err
	}
	m, counter, err := board.StartCounted(ctx, board.Config{
		Kernel: path, Rootfs: filepath.Join(images, "rootfs.bin"), Userdata: userdata, Dir: dir, Netdev: "tap,ifname=tap0,script=no,downscript=no",
	}, board.BridgePort)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			said := m.Transcript()
			err = fmt.Errorf("%s: %w; the console's end:\n%s", name, err, said[max(0, len(said)-2000):])
		}
		// It may be idle and deaf to an orderly end: its clock stands still.
		cut := m.PowerCut()
		if m.PID() == 0 {
			cut = nil
		}
		err = errors.Join(err, cut, m.Close(), counter.Close())
	}()
	if err := m.Console().WaitShell(bootTime); err != nil {
		return nil, err
	}
	for end := time.Now().Add(bootTime); ; time.Sleep(time.Second) {
		out, _, err := m.Console().RunCommand("gwctl -json wg show", time.Minute)
		if err != nil {
			return nil, err
		}
		if strings.Contains(out, `"engine":"`+name+`"`) && strings.Contains(out, `"connected":true`) {
			break
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no tunnel by %s: %s", name, out)
		}
	}
	for _, way := range []string{"send", "receive"} {
		r := result{way: way}
		for at, to := range map[string]*figure{tunHost: &r.tunnel, lanHost: &r.plain} {
			var all []figure
			for range n {
				f, err := move(m, counter, at, way == "send")
				if err != nil {
					return nil, err
				}
				fmt.Printf("%-6s %-7s by %-9s %6.1f M instructions a MiB, %.2f MiB/s\n", name, way, at, f.instructions/1e6, f.rate)
				all = append(all, f)
			}
			slices.SortFunc(all, func(a, b figure) int { return int(a.instructions - b.instructions) })
			*to = all[len(all)/2]
		}
		results = append(results, r)
	}
	return results, nil
}

// move sends so many MiB from the board to an address of ours, or from there.
func move(m *board.Machine, counter *board.Counter, at string, send bool) (figure, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		return figure{}, err
	}
	defer l.Close()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(transfer)) // of a socket that is open
	const size = mib << 20
	moved := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			moved <- err
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(transfer)) // of a socket that is open
		if send {
			n, err := io.Copy(io.Discard, c)
			if err == nil && n != size {
				err = fmt.Errorf("%d bytes came, want %d", n, size)
			}
			moved <- err
			return
		}
		w := bufio.NewWriterSize(c, 64<<10)
		_, err = io.CopyN(w, zeroes{}, size)
		moved <- errors.Join(err, w.Flush())
	}()
	_, number, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return figure{}, err
	}
	command := fmt.Sprintf("nc %s %s </dev/null >/dev/null", at, number)
	if send {
		command = fmt.Sprintf("head -c %d /dev/zero | nc %s %s >/dev/null", size, at, number)
	}
	uptime := func() (s float64, err error) {
		out, _, err := m.Console().RunCommand("cat /proc/uptime", time.Minute)
		if err == nil {
			_, err = fmt.Sscan(out, &s)
		}
		return s, err
	}
	begin, err := uptime()
	if err != nil {
		return figure{}, err
	}
	before := counter.Read()
	out, status, err := m.Console().RunCommand(command, transfer)
	if err != nil || status != 0 {
		return figure{}, fmt.Errorf("on the board: %s: exit status %d, %w: %s", command, status, err, out)
	}
	if err := <-moved; err != nil {
		return figure{}, err
	}
	after := counter.Read()
	end, err := uptime()
	if err != nil {
		return figure{}, err
	}
	return figure{float64(after.Total()-before.Total()) / mib, mib / (end - begin)}, nil
}

// zeroes never ends.
type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { clear(b); return len(b), nil }
