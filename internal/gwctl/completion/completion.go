// Package completion is gwctl's subcommand completion: it prints what a shell
// needs to complete gwctl's commands, options and gateways. Only cmd/gwctl has
// it.
package completion

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
)

const usage = `usage: gwctl completion bash|zsh|fish
print what the shell needs to complete gwctl

  bash  eval "$(gwctl completion bash)" in ~/.bashrc
  zsh   eval "$(gwctl completion zsh)" in ~/.zshrc, behind compinit
  fish  gwctl completion fish >~/.config/fish/completions/gwctl.fish
`

// options are those of every command.
var options = []string{"-H", "-G", "-i", "-accept-new", "-timeout", "-json", "-h"}

// Command is the subcommand. others are the workstation's other commands.
func Command(others ...gwctl.Local) gwctl.Local {
	return gwctl.Local{
		Name: "completion", Args: "bash|zsh|fish", Summary: "what a shell needs to complete gwctl",
		Usage: usage, Workstation: true,
		Run: func(std applet.IO, args []string, _ bool, _ func(string, bool) (string, error)) error {
			if len(args) != 1 {
				return applet.Usagef("completion takes the name of a shell: bash, zsh or fish")
			}
			words := append(gwctl.Names(), "setup", "exporter", "flash", "install", "completion")
			for _, l := range append(gwctl.OnTheBox(), others...) {
				if first, _, _ := strings.Cut(l.Name, " "); !slices.Contains(words, first) {
					words = append(words, first)
				}
			}
			return write(std.Out, args[0], words)
		},
	}
}

// hostsFile prints the names of the hosts file.
const hostsFile = `sed -n 's/^\([^#[:space:]][^[:space:]]*\)[[:space:]].*/\1/p' "${XDG_CONFIG_HOME:-$HOME/.config}/gwctl/hosts" 2>/dev/null`

func write(w io.Writer, shell string, words []string) error {
	commands, flags := strings.Join(words, " "), strings.Join(options, " ")
	var err error
	switch shell {
	case "bash":
		_, err = fmt.Fprintf(w, `_gwctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	case $prev in
	-H) COMPREPLY=($(compgen -W "$(%s)" -- "$cur")); return ;;
	-i) COMPREPLY=($(compgen -f -- "$cur")); return ;;
	esac
	case $cur in
	-*) COMPREPLY=($(compgen -W "%s" -- "$cur")) ;;
	*) COMPREPLY=($(compgen -W "%s" -- "$cur")) ;;
	esac
}
complete -F _gwctl gwctl
`, hostsFile, flags, commands)
	case "zsh":
		_, err = fmt.Fprintf(w, `_gwctl() {
	case ${words[CURRENT-1]} in
	-H) compadd -- ${(f)"$(%s)"}; return ;;
	-i) _files; return ;;
	esac
	case ${words[CURRENT]} in
	-*) compadd -- %s ;;
	*) compadd -- %s ;;
	esac
}
compdef _gwctl gwctl
`, hostsFile, flags, commands)
	case "fish":
		_, err = fmt.Fprintf(w, `complete -c gwctl -f -a "%s"
complete -c gwctl -x -s H -d "gateway" -a "(%s)"
complete -c gwctl -x -s G -d "group of gateways"
complete -c gwctl -r -F -s i -d "private key"
complete -c gwctl -o accept-new -d "keep a new gateway's key"
complete -c gwctl -o json -d "answer in JSON"
`, commands, strings.ReplaceAll(hostsFile, `"${XDG_CONFIG_HOME:-$HOME/.config}/gwctl/hosts"`, "~/.config/gwctl/hosts"))
	default:
		return applet.Usagef("there is no completion for %q; there is for bash, zsh and fish", shell)
	}
	return err
}
