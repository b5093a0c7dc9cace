//go:build linux

package bridge

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// TestFullRate moves bytes both ways at the highest rate that the radios use,
// paced as the line would, and loses none. The soak (GW_SOAK=1, run by
// `make soak`) does it for ten minutes.
func TestFullRate(t *testing.T) {
	const bytesPerSecond = 892857 / 10 // 8N1
	d := 3 * time.Second
	if os.Getenv("GW_SOAK") == "1" {
		d = 10 * time.Minute
	}
	g := start(t, nil)
	g.open()
	c := g.client()
	total := int(d.Seconds() * bytesPerSecond)
	if err := c.SetDeadline(time.Now().Add(2*d + patience)); err != nil {
		t.Fatal(err)
	}

	ends := make(chan error, 4)
	send := func(to io.Writer, seed uint64) {
		source := stream(seed)
		chunk := make([]byte, 512)
		began := time.Now()
		for sent := 0; sent < total; {
			n := min(len(chunk), total-sent)
			source.fill(chunk[:n])
			if sent == 0 {
				chunk[0] = 0x1a // nothing that could be an SSH greeting
			}
			if _, err := to.Write(chunk[:n]); err != nil {
				ends <- err
				return
			}
			sent += n
			// The line is never faster than its rate; a pause that was
			// too long is made up for, as a FIFO and a tty buffer would.
			ahead := time.Duration(sent)*time.Second/bytesPerSecond - time.Since(began)
			if ahead > time.Millisecond {
				time.Sleep(ahead)
			}
		}
		ends <- nil
	}
	receive := func(from io.Reader, seed uint64) {
		source := stream(seed)
		got, want := make([]byte, 4096), make([]byte, 4096)
		for at := 0; at < total; {
			n, err := from.Read(got[:min(len(got), total-at)])
			if err != nil {
				ends <- err
				return
			}
			source.fill(want[:n])
			if at == 0 {
				want[0] = 0x1a
			}
			if !bytes.Equal(got[:n], want[:n]) {
				ends <- errors.New("the bytes differ from what was sent")
				return
			}
			at += n
		}
		ends <- nil
	}
	go receive(g.radio, 1)
	go receive(c, 2)
	go send(c, 1)
	go send(g.radio, 2)
	for range 4 {
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
	}
	s := g.status()
	if s.TxBytes != uint64(total) || s.RxBytes != uint64(total) || s.QueueDropped != 0 {
		t.Errorf("the bridge counts %d and %d bytes and %d dropped, want %d each way", s.TxBytes, s.RxBytes, s.QueueDropped, total)
	}
	t.Logf("%d bytes each way in %v", total, d)
}

// byteStream is a repeatable stream of bytes.
type byteStream struct{ r *rand.ChaCha8 }

func stream(seed uint64) byteStream {
	return byteStream{rand.NewChaCha8([32]byte{byte(seed)})}
}

func (n byteStream) fill(p []byte) { _, _ = n.r.Read(p) }
