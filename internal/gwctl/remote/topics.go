package remote

// topics are what gwctl help tells beside commands, on a workstation only.
var topics = map[string]string{
	exporterName: exporterUsage,
	"hosts": `Gateways, and how to name them

gwctl discover                      who is on this network
gwctl -H 192.168.1.5 status         by address or name; ports 22 and 8888 are tried
gwctl -H me@attic.lan:8888 status   [USER@]HOST[:PORT]; the user is root without one

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
}

// topic is the text that `help TOPIC`, or -h of what is only here, asks for, or "".
func topic(args []string) string {
	switch {
	case len(args) == 2 && args[0] == "help":
		return topics[args[1]]
	case firstWord(args) == exporterName && help(args):
		return exporterUsage
	}
	return ""
}
