package clocktest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
)

// ntpEpoch is 1900-01-01 in Unix seconds.
const ntpEpoch = -2_208_988_800

// Serve answers NTP questions on a free port of 127.0.0.1 until the test ends,
// with the time that now returns (era included) as a server of stratum 1.
// change may edit an answer, and is given how many questions came before; what
// it returns is sent, one packet each. nil sends the answer as it is.
func Serve(t testing.TB, now func() time.Time, change func(answer []byte, before int) [][]byte) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var b [512]byte
		for n := 0; ; n++ {
			size, from, err := conn.ReadFromUDPAddrPort(b[:])
			if err != nil {
				return
			}
			if size < 48 || b[0]&7 != 3 {
				continue
			}
			a := make([]byte, 48)
			a[0], a[1] = 0x24, 1
			copy(a[12:], "GPS\x00")
			copy(a[24:32], b[40:48])
			stamp(a[16:], now())
			stamp(a[32:], now())
			stamp(a[40:], now())
			all := [][]byte{a}
			if change != nil {
				all = change(a, n)
			}
			for _, p := range all {
				_, _ = conn.WriteToUDPAddrPort(p, from) // one that is lost is what clients are for
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func stamp(b []byte, at time.Time) {
	binary.BigEndian.PutUint32(b, uint32(at.Unix()-ntpEpoch)) // the era is dropped, as NTP does
	binary.BigEndian.PutUint32(b[4:], uint32(uint64(at.Nanosecond())<<32/uint64(time.Second)))
}
