package gwctl

import (
	"encoding/json"
	"strings"
	"testing"

	"gwinit/internal/api"
)

func TestFacts(t *testing.T) {
	st := settled()
	show := func(command string, v any) string {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Facts(command, b)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, f := range all {
			lines = append(lines, f.Name+": "+f.Value)
		}
		return strings.Join(lines, "\n")
	}
	const well = `gwinit: 0.1.0
board: lidl
up: 3d4h
memory: 11 MiB available
userdata: 9.8 MiB free
network: bound 192.168.1.50/24
radio: zigbee 115200 hw
client: 192.168.1.10:51234
connected: 2h3m
from radio: 1.2 MiB
to radio: 300 KiB
services: well
restarts: 0
warnings: 0`
	if got := show("status", st); got != well {
		t.Errorf("got\n%s\nwant\n%s", got, well)
	}
	if got := show("version", st); got != "gwinit: 0.1.0\nboard: lidl" {
		t.Errorf("version: %s", got)
	}
	st.BootMode, st.Network.Carrier, st.Userdata.State = "safe", false, "corrupt"
	st.Clock = &api.Clock{State: "near"}
	st.Services[3].State, st.Services[1].Restarts = "failed", 3
	st.Bridge.Client, st.Bridge.Refused, st.Bridge.Takeovers, st.Bridge.Overruns, st.Bridge.QueueDropped = nil, 2, 1, 4, 2048
	st.Warnings = []string{"\x1b[2J"}
	const ill = `gwinit: 0.1.0
board: lidl
boot: !! safe
up: 3d4h
clock: near
memory: 11 MiB available
userdata: !! corrupt
network: !! no link
radio: zigbee 115200 hw
client: none
from radio: 1.2 MiB
to radio: 300 KiB
takeovers: 1
refused: 2
line errors: !! 4
dropped: !! 2.0 KiB
services: !! console failed
restarts: 3
warnings: 1`
	if got := show("status", st); got != ill {
		t.Errorf("got\n%s\nwant\n%s", got, ill)
	}
	report := json.RawMessage(`{"findings":[{"check":"kernel","severity":"warning","text":"no \u001b[2Jtmpfs"},{"check":"flash","severity":"ok","text":"fine"},
		{"check":"ports","severity":"ok","text":"x"},{"check":"ports","severity":"fault","text":"open"},{"check":"ports","severity":"note","text":"and more"}],"faults":1,"warnings":1,"notes":1}`)
	if got, want := show("doctor", report), "faults: 1\nwarnings: 1\nkernel: !! no \\x1b[2Jtmpfs\nflash: ok\nports: !! open; and more"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, command := range []string{"status", "doctor"} {
		if _, err := Facts(command, []byte("oops")); err == nil {
			t.Errorf("%s of no JSON", command)
		}
	}
}
