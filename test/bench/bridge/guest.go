package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"gwinit/test/bench"
	"gwinit/test/board"
	"gwinit/test/radio/ash"
)

const (
	// Blocks of frames are echoed in a round, of a size, by one bridge. A
	// block is twice the period in which the bridge does what it puts off.
	guestBlocks = 10
	blockFrames = 34
	guestRounds = 5
	bootTime    = 5 * time.Minute
	commandTime = 2 * time.Minute
	// loopPort is where the C loop listens; the bridge keeps its own.
	loopPort = 8890
)

// onGuest counts the guest's instructions for each echoed frame: ours, and the
// C loop's on the same machine, in turns.
func onGuest(ctx context.Context, dir, images string) (rows []bench.Row, err error) {
	userdata, err := withLoop(ctx, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	m, counter, err := board.StartCounted(ctx, boardConfig(dir, images, userdata), board.BridgePort)
	if err != nil {
		return nil, err
	}
	g := &guest{m: m, counter: counter}
	defer func() { err = errors.Join(g.end(err), counter.Close()) }()
	if err := g.ready("loop"); err != nil {
		return nil, err
	}
	return g.count(ctx)
}

func boardConfig(dir, images, userdata string) board.Config {
	return board.Config{
		Rootfs: filepath.Join(images, "rootfs.bin"), Userdata: userdata, Dir: dir,
		Forward: map[int]int{board.BridgePort: 0, loopPort: 0},
	}
}

// startGuest boots a board that runs by the host's clock and makes it ready. The
// caller must end it.
func startGuest(ctx context.Context, config board.Config, program string) (*guest, error) {
	m, err := board.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	g := &guest{m: m}
	if err := g.ready(program); err != nil {
		return nil, g.end(err)
	}
	return g, nil
}

// ready takes the radio's end and makes a file of the writable partition a
// program of the board.
func (g *guest) ready(program string) error {
	radio, err := net.Dial("unix", g.m.RadioPath())
	if err != nil {
		return err
	}
	g.radio = radio
	if err := g.m.Console().WaitShell(bootTime); err != nil {
		return err
	}
	return g.run("cp /userdata/"+program+" /tmp/"+program, "chmod 755 /tmp/"+program)
}

// end switches the board off; an error gets what the console said last.
func (g *guest) end(err error) error {
	if err != nil {
		err = fmt.Errorf("%w; the console's end:\n%s", err, tail(g.m.Transcript()))
	}
	if g.radio != nil {
		g.radio.Close()
	}
	// It may be idle and deaf to an orderly end: its clock stands still.
	cut := g.m.PowerCut()
	if g.m.PID() == 0 {
		cut = nil
	}
	return errors.Join(err, cut, g.m.Close())
}

// withLoop makes a writable partition that has the C loop in it.
func withLoop(ctx context.Context, dir string) (image string, err error) {
	stage := filepath.Join(dir, "userdata")
	if err := os.CopyFS(stage, os.DirFS("rootfs/skeleton/userdata")); err != nil {
		return "", err
	}
	// A libc for this target is Debian's for MIPS32r2 with an FPU, which the
	// board has not; the loop needs none.
	cmd := exec.CommandContext(ctx, "mips-linux-gnu-gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-march=mips1", "-msoft-float",
		"-mno-abicalls", "-fno-pic", "-ffreestanding", "-nostdlib", "-static", "-s", "-o", filepath.Join(stage, "loop"), filepath.Join(source, "loop.c"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mips-linux-gnu-gcc loop.c: %w\n%s", err, out)
	}
	return bench.Userdata(ctx, dir, stage)
}

// guest is the board with both ends of a bridge in this process: frames go in
// at one end and are waited for at the other.
type guest struct {
	m       *board.Machine
	counter *board.Counter // nil: the board runs by the host's clock
	radio   net.Conn
	client  net.Conn
}

func (g *guest) run(commands ...string) error {
	for _, c := range commands {
		out, status, err := g.m.Console().RunCommand(c, commandTime)
		if err != nil {
			return err
		}
		if status != 0 {
			return fmt.Errorf("on the board: %s: exit status %d: %s", c, status, out)
		}
	}
	return nil
}

// program is one of the two bridges.
type program struct {
	name        string
	port        int
	start, stop []string
}

var programs = []program{
	{ours, board.BridgePort, []string{"gwctl start bridge"}, []string{"gwctl stop bridge"}},
	{cLoop, loopPort, []string{fmt.Sprintf("/tmp/loop /dev/ttyS1 %d & true", loopPort)}, []string{"killall loop"}},
}

// sample is what an echoed frame costs.
type sample struct{ all, user float64 }

func (g *guest) count(ctx context.Context) ([]bench.Row, error) {
	if err := g.run(programs[0].stop...); err != nil {
		return nil, err
	}
	samples := map[string]map[int][]sample{ours: {}, cLoop: {}}
	for round := range guestRounds {
		for i := range programs {
			p := programs[(i+round)%len(programs)]
			if err := g.run(p.start...); err != nil {
				return nil, err
			}
			if err := g.connect(ctx, p.port); err != nil {
				return nil, err
			}
			for _, size := range sizes {
				s, err := g.echo(size)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", p.name, err)
				}
				samples[p.name][size] = append(samples[p.name][size], s)
				fmt.Printf("guest: %-6s %3d bytes: %.0f instructions a frame, %.0f in user mode\n", p.name, size, s.all, s.user)
			}
			g.client.Close()
			if err := g.run(p.stop...); err != nil {
				return nil, err
			}
		}
	}
	var rows []bench.Row
	for _, f := range []struct {
		name string
		of   func(sample) float64
	}{{"instructions", func(s sample) float64 { return s.all }}, {"user-instructions", func(s sample) float64 { return s.user }}} {
		for _, size := range sizes {
			pick := func(name string) (v []float64) {
				for _, s := range samples[name][size] {
					v = append(v, f.of(s))
				}
				return v
			}
			rows = append(rows, paired(fmt.Sprintf("guest/%s/%dB", f.name, size), "instructions/frame", pick(ours), cLoop, pick(cLoop)))
		}
	}
	return rows, nil
}

// connect dials and waits for the first byte at the radio.
func (g *guest) connect(ctx context.Context, port int) error {
	if err := g.m.WaitPort(ctx, port); err != nil {
		return err
	}
	client, err := net.Dial("tcp", g.m.Addr(port))
	if err != nil {
		return err
	}
	g.client = client
	buf := make([]byte, 256)
	for range 100 {
		if _, err := client.Write(buf[:8]); err != nil {
			return err
		}
		if err := g.radio.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if n, err := g.radio.Read(buf); n > 0 && err == nil {
			break
		}
	}
	// What was sent in vain may still come.
	for {
		if err := g.radio.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			return err
		}
		if _, err := g.radio.Read(buf); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			return err
		}
	}
	return g.radio.SetReadDeadline(time.Time{})
}

// echo counts frames there and back.
func (g *guest) echo(size int) (sample, error) {
	frame, err := ashFrame(size)
	if err != nil {
		return sample{}, err
	}
	if err := g.patience(5 * time.Minute); err != nil {
		return sample{}, err
	}
	var all, user []float64
	before := g.counter.Read()
	for i := range guestBlocks * blockFrames {
		if err := g.trip(frame); err != nil {
			return sample{}, fmt.Errorf("frame %d: %w", i, err)
		}
		if (i+1)%blockFrames != 0 {
			continue
		}
		now := g.counter.Read()
		all = append(all, float64(now.Total()-before.Total())/blockFrames)
		user = append(user, float64(now.User-before.User)/blockFrames)
		before = now
	}
	return sample{all: quartile(all), user: quartile(user)}, g.radio.SetDeadline(time.Time{})
}

func (g *guest) patience(d time.Duration) error {
	deadline := time.Now().Add(d)
	return errors.Join(g.client.SetDeadline(deadline), g.radio.SetDeadline(deadline))
}

// trip is a frame to the radio and back.
func (g *guest) trip(frame []byte) error {
	got := make([]byte, len(frame))
	for _, way := range [2][2]net.Conn{{g.client, g.radio}, {g.radio, g.client}} {
		if _, err := way[0].Write(frame); err != nil {
			return err
		}
		if _, err := io.ReadFull(way[1], got); err != nil {
			return err
		}
		if string(got) != string(frame) {
			return errors.New("the bytes differ")
		}
	}
	return nil
}

// ashFrame is a DATA frame of so many bytes on the line: what passes most, and
// what the bridge looks into.
func ashFrame(size int) ([]byte, error) {
	for data := range ash.MaxData + 1 {
		p := make([]byte, data)
		for i := range p {
			p[i] = byte(i)
		}
		if frame := (ash.Frame{Kind: ash.Data, Payload: p}).Append(nil); len(frame) == size {
			return frame, nil
		}
	}
	return nil, fmt.Errorf("no ASH frame of this data has %d bytes", size)
}

// quartile is the lower one. A guest that waits for a busy host goes on
// counting time and whatever else it has to do, and gets a frame in more
// pieces: what counts is what a quiet host would give.
func quartile(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/4] }

// tail is the end of what a console said.
func tail(s string) string { return s[max(0, len(s)-2000):] }
