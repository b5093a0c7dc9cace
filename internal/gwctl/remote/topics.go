package remote

import (
	"gwinit/internal/gwctl/ddi"
	"gwinit/internal/gwctl/flash"
	"gwinit/internal/gwctl/install"
	"gwinit/internal/gwctl/rollout"
)

// topics are what gwctl help tells beside commands, on a workstation only.
var topics = map[string]string{
	exporterName: exporterUsage,
	flashName:    flash.Usage,
	installName:  install.Usage,
	updateName:   updateUsage + "\n" + rollout.Usage,
	"rollout":    rollout.Usage,
	ddi.Name:     ddi.Usage,
	"hosts": `Gateways, and how to name them

gwctl discover                      who is on this network
gwctl -H 192.168.1.5 status         by address or name, at 22 or 8888
gwctl -H me@attic.lan:8888 status   [USER@]HOST[:PORT]; the user is root else

~/.config/gwctl/hosts (Windows: %AppData%\gwctl\hosts) has names and groups:
  # NAME   [USER@]HOST[:PORT]     GROUPS
  attic    192.168.1.5            home
  cellar   192.168.1.6:8888       home spare

gwctl -H attic,cellar status        a column for each
gwctl -G home -json status          a line of {"host":...,"data":...} for each
gwctl -G all logs -f                every host of the file; lines as they come

32 are asked at a time, and each has two minutes (-timeout TIME). Who failed is
told at the end; the exit status is 1 then.

Keys are the agent's, then ~/.ssh/id_ed25519, id_ecdsa, id_rsa (-i FILE: that
one). The gateway's own key is checked with ~/.ssh/known_hosts; -accept-new
keeps a new one without a question.
`,
	"setup": `The first minute of a gateway

Nobody may log in to a new gateway until it has a key. Any of these brings one:

gwctl -H GATEWAY setup     with the code that its serial console shows for 15
                           minutes after power-on (38400 8N1, press Enter), or
                           within 3 minutes of three presses of its button
ssh setup@GATEWAY          the same without gwctl
make image SSH_KEY=FILE    an image that has it from the start

Then: gwctl -H GATEWAY doctor, and in ~/.config/gwctl/hosts a name for it.
No key of your own? ssh-keygen -t ed25519 makes one.
`,
	"radio": `The radio

A client (Zigbee2MQTT, ZHA) connects to tcp://GATEWAY:8888.

gwctl -H GATEWAY radio                  who has it, and how it is set
gwctl -H GATEWAY bridge -w              what passes: rates, faults
gwctl -H GATEWAY bridge tap -ash        a copy of it, frame by frame
gwctl -H GATEWAY radio release -for 10m the UART for another program; radio take
gwctl -H GATEWAY config set radio.FIRMWARE_BAUD=460800
gwctl -H GATEWAY radio mode otbr        for Thread; zigbee goes back
gwctl -H GATEWAY radio flash FILE.gbl   firmware for it; radio probe asks it

A client that does not get it: gwctl -H GATEWAY logs bridge says why. Hosts of
local networks may have it, and those of radio.BRIDGE_ALLOW.
`,
	"metrics": `Figures for Prometheus, and the log for a syslog server

gwctl -H GATEWAY metrics                  all figures, once
gwctl -H GATEWAY config set METRICS=on    it serves them at :9100/metrics
gwctl -G all exporter                     this computer serves those of many
gwctl -H GATEWAY config set SYSLOG=udp://HOST   or tcp://HOST[:PORT]
gwctl -G home logs -f                     the log of several, here
`,
	"json": `For programs

gwctl -json COMMAND prints JSON, one value a line, errors too:
  {"error":{"code":CODE,"message":WORDS}}
Codes are stable: bad-request, not-found, failed, busy, denied, version,
unknown-op, unreachable. With several hosts a line is {"host":NAME,"data":...}.

Exit status: 0 it worked, 1 it did not (or not on all), 2 a wrong command line.
doctor: 1 warnings, 2 faults.
`,
}

// topicOfOwn are the commands that only this package has.
var topicOfOwn = map[string]bool{exporterName: true, flashName: true, installName: true, updateName: true, ddi.Name: true}

// topic is the text that `help TOPIC`, or -h of what is only here, asks for, or "".
func topic(args []string) string {
	switch {
	case len(args) == 2 && args[0] == "help":
		return topics[args[1]]
	case topicOfOwn[firstWord(args)] && help(args):
		return topics[firstWord(args)]
	}
	return ""
}
