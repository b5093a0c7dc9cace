package otbr

import (
	"slices"
	"strings"
	"testing"

	"gwinit/board/rtl8196e"
	"gwinit/internal/config"
)

// The command line is the one of the firmware of before, word for word.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, board, conf string
		want              string
	}{
		{
			"the incumbent's", rtl8196e.Lidl, "MODE=otbr\n",
			"-d 4 -I wpan0 -B eth0 --rest-listen-address :: --rest-listen-port 8081 --vendor-name Lidl --model-name Silvercrest --data-path /tmp/thread " +
				"spinel+hdlc+uart:///dev/ttyS1?uart-baudrate=460800&uart-flow-control=true",
		},
		{
			"software flow control, loopback", rtl8196e.Lidl, "MODE=otbr\nFIRMWARE_FLOW_CTRL=sw\nFIRMWARE_BAUD=230400\nOTBR_REST_BIND=127.0.0.1\n",
			"-d 4 -I wpan0 -B eth0 --rest-listen-address 127.0.0.1 --rest-listen-port 8081 --vendor-name Lidl --model-name Silvercrest --data-path /tmp/thread " +
				"spinel+hdlc+uart:///dev/ttyS1?uart-baudrate=230400&uart-sw-flow-control=true",
		},
		{
			"none: the flag is not there, as =false would turn it on", rtl8196e.Lidl, "MODE=otbr\nFIRMWARE_FLOW_CTRL=none\n",
			"-d 4 -I wpan0 -B eth0 --rest-listen-address :: --rest-listen-port 8081 --vendor-name Lidl --model-name Silvercrest --data-path /tmp/thread " +
				"spinel+hdlc+uart:///dev/ttyS1?uart-baudrate=460800",
		},
		{
			"a board without RTS and CTS", rtl8196e.Sengled, "MODE=otbr\n",
			"-d 4 -I wpan0 -B eth0 --rest-listen-address :: --rest-listen-port 8081 --vendor-name Sengled --model-name E39-G8C --data-path /tmp/thread " +
				"spinel+hdlc+uart:///dev/ttyS1?uart-baudrate=460800&uart-sw-flow-control=true",
		},
	} {
		root := t.TempDir()
		put(t, root, "userdata/etc/radio.conf", tt.conf)
		b, _ := rtl8196e.ByID(tt.board)
		r, _ := config.LoadRadio(root, b)
		if got := arguments(r, b, Memory); !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
	for bind, want := range map[string]string{"": "127.0.0.1:8081", "::1": "[::1]:8081", "192.168.1.5": "192.168.1.5:8081"} {
		if got := restAddr(config.Radio{OTBR: config.OTBR{RESTBind: bind}}).String(); got != want {
			t.Errorf("REST at %q is asked at %s", bind, got)
		}
	}
}
