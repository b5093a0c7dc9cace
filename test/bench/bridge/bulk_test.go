package main

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

func TestHistogramP99(t *testing.T) {
	var h histogram
	h[0][3], h[0][10] = 99, 1
	h[1][4], h[1][12] = 98, 2
	for way, want := range []float64{1 << 10, 1 << 12} {
		if below, n := h.p99(way); below != want || n != 100 {
			t.Errorf("way %d: below %v of %d, want %v of 100", way, below, n, want)
		}
	}
	if below, n := new(histogram).p99(0); below != 0 || n != 0 {
		t.Errorf("nothing counted: below %v of %d", below, n)
	}
}

// bulkPair is a sink and the board's end of it.
func bulkPair(t *testing.T) (*sink, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	to, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close(); to.Close() })
	return &sink{to.(*net.TCPConn)}, from
}

func TestSinkStopsAndGoesOn(t *testing.T) {
	s, from := bulkPair(t)
	sent := make(chan error, 1)
	var written atomic.Int64
	go func() {
		buf := make([]byte, 1<<16)
		for {
			written.Add(int64(len(buf)))
			if _, err := from.Write(buf); err != nil {
				sent <- err
				return
			}
		}
	}()
	own := errors.New("f's own")
	for _, want := range []error{nil, own, nil} {
		rate, err := s.during(func() error {
			// More than the two ends hold of unread bytes.
			for more := written.Load() + 16<<20; written.Load() < more; {
				runtime.Gosched()
			}
			return want
		})
		if !errors.Is(err, want) || (err == nil) != (want == nil) || rate <= 0 {
			t.Errorf("%v MiB/s, %v; want some, %v", rate, err, want)
		}
	}
	from.Close()
	<-sent
}

func TestSinkNoticesTheEnd(t *testing.T) {
	s, from := bulkPair(t)
	from.Close()
	called := false
	if _, err := s.during(func() error { called = true; return nil }); !errors.Is(err, io.EOF) || called {
		t.Errorf("%v, f called: %v; want EOF before", err, called)
	}
}
