package zigbee

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReceive(t *testing.T) {
	tests := []struct {
		name      string
		profile   uint16
		cluster   uint16
		endpoint  uint8
		payload   string
		broadcast bool
		cluster2  uint16
		want      string // "" is no answer
	}{
		{"node descriptor", 0, 2, 0, "05 3412", false, 0x8002, "05 00 3412 02 40 88 4910 52 8000 002C 8000 00"},
		{"power descriptor", 0, 3, 0, "06 3412", false, 0x8003, "06 00 3412 10 C1"},
		{"active endpoints", 0, 5, 0, "07 3412", false, 0x8005, "07 00 3412 01 01"},
		{"active endpoints of another", 0, 5, 0, "07 0000", false, 0x8005, "07 81 0000"},
		{"simple descriptor", 0, 4, 0, "08 3412 01", false, 0x8004, "08 00 3412 0E 01 0401 0C00 01 02 0000 0C00 01 0300"},
		{"simple descriptor of no endpoint", 0, 4, 0, "08 3412 09", false, 0x8004, "08 82 3412 00"},
		{"IEEE address", 0, 1, 0, "09 3412 00 00", false, 0x8001, "09 00 8877665544332211 3412"},
		{"network address", 0, 0, 0, "0A 8877665544332211 00 00", true, 0x8000, "0A 00 8877665544332211 3412"},
		{"permit joining, broadcast", 0, 0x36, 0, "0B FE 01", true, 0, ""},
		{"what is not supported", 0, 0x31, 0, "0C 00", false, 0x8031, "0C 84"},
		{"empty", 0, 2, 0, "", false, 0, ""},
		{"read", 0x104, 0, 1, "00 2A 00 0500 7777", false, 0, "18 2A 01 0500 00 42 0F" + hex.EncodeToString([]byte("virtual-counter")) + "7777 86"},
		{"read with manufacturer", 0x104, 0, 1, "04 5F11 2A 00 0700", false, 0, "1C 5F11 2A 01 0700 00 30 03"},
		{"write", 0x104, 0, 1, "10 2B 02 0500 20 01", false, 0, "18 2B 04 00"},
		{"configure reporting", 0x104, 0x0C, 1, "10 2C 06 00", false, 0x0C, "18 2C 07 00"},
		{"unknown command", 0x104, 0x0C, 1, "01 2D 40", false, 0x0C, "18 2D 0B 40 81"},
		{"unknown command, no answer wanted", 0x104, 0x0C, 1, "11 2D 40", false, 0, ""},
		{"no such endpoint", 0x104, 0, 2, "00 2A 00 0500", false, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := NewSensor(0x1122334455667788, 0x1234)
			m := Message{APS{Profile: tt.profile, Cluster: tt.cluster, SourceEndpoint: 1, DestEndpoint: tt.endpoint}, unhex(t, tt.payload)}
			out := n.Receive(m, tt.broadcast)
			if tt.want == "" {
				if len(out) != 0 {
					t.Fatalf("answered %+v", out)
				}
				return
			}
			if len(out) != 1 {
				t.Fatalf("%d answers", len(out))
			}
			if want := unhex(t, tt.want); !bytes.Equal(out[0].Payload, want) {
				t.Errorf("answer % X, want % X", out[0].Payload, want)
			}
			if out[0].Cluster != tt.cluster2 {
				t.Errorf("cluster %04X, want %04X", out[0].Cluster, tt.cluster2)
			}
		})
	}
}

func TestAnnounceAndReport(t *testing.T) {
	n := NewSensor(0x1122334455667788, 0x1234)
	if got, want := n.Announce().Payload, unhex(t, "01 3412 8877665544332211 88"); !bytes.Equal(got, want) {
		t.Errorf("announce % X, want % X", got, want)
	}
	m := n.Report(1, Attr{ClusterAnalog, AttrPresent}, Single(1000))
	if want := unhex(t, "18 01 0A 5500 39 00007A44"); !bytes.Equal(m.Payload, want) {
		t.Errorf("report % X, want % X", m.Payload, want)
	}
	out := n.Receive(Message{APS{Profile: ProfileHA, Cluster: ClusterAnalog, DestEndpoint: 1}, unhex(t, "00 01 00 5500")}, false)
	if want := unhex(t, "18 01 01 5500 00 39 00007A44"); len(out) != 1 || !bytes.Equal(out[0].Payload, want) {
		t.Errorf("read after report %+v, want % X", out, want)
	}
}

func TestLeave(t *testing.T) {
	n := NewSensor(1, 2)
	out := n.Receive(Message{APS{Cluster: 0x34}, unhex(t, "01 0000000000000000 00")}, false)
	if len(out) != 1 || !n.Left {
		t.Fatalf("answer %+v, left %v", out, n.Left)
	}
	if out := n.Receive(Message{APS{Cluster: 2}, unhex(t, "01 0200")}, false); len(out) != 0 {
		t.Errorf("a node that left answered %+v", out)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(uint16(0), uint16(2), uint8(0), []byte{5, 0x34, 0x12})
	f.Add(uint16(0x104), uint16(0), uint8(1), []byte{0, 1, 0, 5, 0})
	f.Add(uint16(0x104), uint16(0), uint8(255), []byte{4, 1, 0, 5, 0})
	f.Fuzz(func(t *testing.T, profile, cluster uint16, ep uint8, p []byte) {
		n := NewSensor(1, 0x1234)
		for _, m := range n.Receive(Message{APS{Profile: profile, Cluster: cluster, DestEndpoint: ep}, p}, false) {
			if len(m.Payload) == 0 {
				t.Fatalf("empty answer to % X", p)
			}
		}
	})
}
