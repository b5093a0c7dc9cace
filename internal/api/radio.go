package api

import "strconv"

// RadioAnswer is what answered on the radio.
type RadioAnswer struct {
	Kind     string  `json:"kind"`               // bootloader, ezsp, cpc, spinel, router
	Firmware string  `json:"firmware,omitempty"` // as in radio.conf: ncp, rcp, otrcp, router
	Version  string  `json:"version,omitempty"`
	Protocol int     `json:"protocol,omitempty"` // version of EZSP
	Baud     int     `json:"baud"`
	Flow     string  `json:"flow"` // none, sw, hw: what the firmware answers with
	Age      float64 `json:"ageSeconds"`
}

// String is for people.
func (a RadioAnswer) String() string {
	what := a.Kind
	switch a.Kind {
	case "bootloader":
		what = "the Gecko bootloader"
	case "ezsp":
		what = "a Zigbee co-processor (EZSP)"
	case "cpc":
		what = "a co-processor (CPC)"
	case "spinel":
		what = "a Thread co-processor (Spinel)"
	case "router":
		what = "a Zigbee router"
	}
	if a.Version != "" {
		what += ", " + a.Version
	}
	if a.Protocol > 0 {
		what += ", protocol " + strconv.Itoa(a.Protocol)
	}
	return what + ", at " + strconv.Itoa(a.Baud) + " baud, flow control " + a.Flow
}
