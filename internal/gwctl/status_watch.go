package gwctl

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"gwinit/internal/api"
	"gwinit/internal/control/client"
)

const statusMore = `  -w  go on until ctrl-c: redrawn on a terminal, else a screen when something
      has changed other than figures
`

// watchEvery is how often a gateway is asked.
const watchEvery = 2 * time.Second

// watch shows the gateway until ctrl-c, also while it restarts.
func (e *env) watch() error {
	redraw := !e.json && e.terminal()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var c *client.Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	last := "" // what was shown, as changed compares it
	for first := true; ; first = false {
		var st api.Status
		var err error
		if c == nil {
			c, err = e.open()
		}
		var data json.RawMessage
		if err == nil {
			if data, err = c.Do(e.ctx, api.OpStatus, nil); err == nil {
				err = decode(e.name, data, &st)
			} else {
				c.Close()
				c = nil
			}
		}
		switch {
		case e.ctx.Err() != nil:
			return nil // ctrl-c is how it ends
		case err != nil && (first || e.json):
			return err
		}
		var page bytes.Buffer
		s := screen{&page, e.colour()}
		this := ""
		if err != nil {
			this = "no answer"
			s.alarm("gateway", "no answer, it is asked again: "+err.Error())
		} else {
			s.status(st)
			this = steady(st)
		}
		switch {
		case e.json:
			err = e.print(data)
		case redraw:
			err = e.write(func(b *bytes.Buffer) { b.WriteString(onScreen(page.String(), e.height())) })
		case this != last:
			err = e.write(func(b *bytes.Buffer) {
				if last != "" {
					b.WriteByte('\n')
				}
				b.Write(page.Bytes())
			})
		default:
			err = nil
		}
		last = this
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return nil
		}
	}
}

// height is that of the terminal, in lines.
func (e *env) height() int {
	if f, ok := e.std.Out.(*os.File); ok {
		if _, lines, err := term.GetSize(int(f.Fd())); err == nil && lines > 0 {
			return lines
		}
	}
	return 24
}

// onScreen is a page over what a terminal shows: from its corner, each line
// cleared behind its text, then the rest, so that nothing flickers. Lines that
// have no room are left out, and told.
func onScreen(page string, height int) string {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if height = max(height, 2); len(lines) >= height {
		left := len(lines) - height + 2
		lines = append(lines[:height-2], "... and "+count(uint64(left), "line")+" more; gwctl status shows all")
	}
	return "\x1b[H" + strings.Join(lines, "\x1b[K\n") + "\x1b[K\n\x1b[J"
}

// steady is what a status says without what changes all the time: its text with
// every figure set to nothing.
func steady(st api.Status) string {
	st.Uptime, st.Wall = 0, 0
	st.Memory = api.Memory{}
	st.Userdata.Total, st.Userdata.Free = 0, 0
	if st.Clock != nil {
		c := *st.Clock
		c.Offset, c.Error, c.Since = 0, 0, 0
		st.Clock = &c
	}
	if st.Network != nil {
		n := *st.Network
		n.Lease = 0
		st.Network = &n
	}
	st.Radio.Since = 0
	if st.Radio.Released > 0 {
		st.Radio.Released = 1
	}
	if st.Panel != nil {
		p := *st.Panel
		p.Enrol = min(p.Enrol, 1)
		st.Panel = &p
	}
	if st.Bridge != nil {
		b := *st.Bridge
		b.RxBytes, b.TxBytes, b.Discarded = 0, 0, 0
		if b.Client != nil {
			b.Client = &api.BridgeClient{Addr: b.Client.Addr}
		}
		if b.Kernel != nil {
			b.Kernel = &api.BridgeKernel{}
		}
		st.Bridge = &b
	}
	all := make([]api.Service, len(st.Services))
	copy(all, st.Services)
	for i := range all {
		all[i].Since, all[i].CPU, all[i].RSS, all[i].Anon = 0, 0, 0, 0
	}
	st.Services = all
	var b bytes.Buffer
	screen{b: &b}.status(st)
	return b.String()
}
