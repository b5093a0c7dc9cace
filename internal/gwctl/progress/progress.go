// Package progress tells how far something long has come.
package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Bar is a bar on a terminal, or a line every tenth.
type Bar struct {
	W        io.Writer
	Terminal bool   // W is one
	Total    int    // 0: nothing is told
	What     string // is done, for the lines
	Seconds  bool   // a count of seconds, on a terminal only

	tenth int
	drawn time.Time
}

// At says that so much of Total is done.
func (p *Bar) At(done int) {
	if p.Total == 0 {
		return
	}
	if p.Terminal {
		if now := time.Now(); now.Sub(p.drawn) > 100*time.Millisecond || done == p.Total {
			p.drawn = now
			if p.Seconds {
				fmt.Fprintf(p.W, "\rwriting, %d s (%d at most) ", done, p.Total)
				return
			}
			n := int(40 * int64(done) / int64(p.Total))
			fmt.Fprintf(p.W, "\r[%s%s] %3d %% ", strings.Repeat("#", n), strings.Repeat(".", 40-n), 100*int64(done)/int64(p.Total))
		}
		return
	}
	if t := int(10 * int64(done) / int64(p.Total)); t > p.tenth && !p.Seconds {
		p.tenth = t
		fmt.Fprintf(p.W, "%s: %d %%\n", p.What, 10*t)
	}
}

// End ends the line.
func (p *Bar) End() {
	if p.Terminal && !p.drawn.IsZero() {
		fmt.Fprintln(p.W)
	}
}
