//go:build !no_wireguard && !no_sshd && !no_gwctl

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"gwinit/internal/addon"
	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/gwctl"
	"gwinit/internal/supervisor"
)

// wireguardAddon is cmd/gw-wireguard: it does not fit the rootfs.
const wireguardAddon = "gw-wireguard"

const wireguardService = "wireguard"

func wireguardApplets() applet.Table {
	return applet.Table{{
		Name: wireguardService, Group: applet.Service, Summary: "a WireGuard tunnel, by the add-on " + wireguardAddon,
		Usage: "wireguard\nBecomes " + addon.Dir + "/" + wireguardAddon + ", if it is there and whole.\ngwinit starts it; it takes no options. gwctl wg up is what people type.",
		Run: func(_ context.Context, std applet.IO, args []string) error {
			if len(args) > 0 {
				return applet.Usagef("wireguard takes no arguments")
			}
			err := addon.Exec(wireguardAddon, "service")
			fmt.Fprintf(std.Err, "wireguard: %v\n", err)
			if errors.Is(err, addon.ErrAbsent) || errors.Is(err, addon.ErrRefused) {
				return applet.Exit(supervisor.ExitPointless)
			}
			return applet.Exit(1)
		},
	}}
}

func wireguardCommands() []gwctl.Local {
	wg := gwctl.Boxed("wg")
	wg.Usage = `usage: gwctl wg VERB
  show    the tunnel and its peers
  up      bring it up, now and at each boot; if it is up, read its files again
  down    end it, and leave it off
  genkey  make a private key and print it
  pubkey  print the public key of this gateway; with "-", that of the private
          key on standard input

It needs the add-on ` + wireguardAddon + ` (docs/wireguard.md).
`
	wg.Steer = wireguard
	return []gwctl.Local{wg}
}

// wireguard is gwctl wg.
func wireguard(ctx context.Context, std applet.IO, args []string, asJSON bool, ask gwctl.Asker) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	if len(args) > 0 && (verb != "pubkey" || len(args) > 1 || args[0] != "-") {
		return applet.Usagef("wg %s takes no argument %q", verb, args[0])
	}
	switch verb {
	case "show":
		return wireguardShow(ctx, std, asJSON, ask)
	case "up", "down":
		return wireguardSwitch(ctx, std, verb == "up", asJSON, ask)
	case "genkey", "pubkey":
		path, err := addon.Check("", wireguardAddon)
		if err != nil {
			return err
		}
		args = append([]string{verb}, args...)
		if asJSON {
			args = append(args, "-json")
		}
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = std.In, std.Out, std.Err
		var failed *exec.ExitError
		if err := cmd.Run(); errors.As(err, &failed) {
			return applet.Exit(1)
		} else if err != nil {
			return err
		}
		return nil
	}
	return applet.Usagef("wg shows and steers the tunnel: show, up, down, genkey or pubkey?")
}

func wireguardShow(ctx context.Context, std applet.IO, asJSON bool, ask gwctl.Asker) error {
	if asJSON {
		data, err := ask(ctx, api.OpCall, api.CallArgs{Service: wireguardService, Method: "show"})
		if err == nil {
			_, err = std.Out.Write(append(data, '\n'))
		}
		return err
	}
	// The add-on knows the words: they need no room in the rootfs.
	data, err := ask(ctx, api.OpCall, api.CallArgs{Service: wireguardService, Method: "text"})
	if err != nil {
		return err
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	_, err = io.WriteString(std.Out, text)
	return err
}

// wireguardSwitch sets ENABLED and has the service follow at once.
func wireguardSwitch(ctx context.Context, std applet.IO, up, asJSON bool, ask gwctl.Asker) error {
	value, action := "0", "stop"
	if up {
		value, action = "1", "start"
		if _, err := addon.Check("", wireguardAddon); err != nil {
			return err
		}
	}
	quiet := applet.IO{In: std.In, Out: io.Discard, Err: std.Err}
	set := func(string, bool) (string, error) { return "", nil }
	if err := config.Run("", quiet, []string{"set", "wireguard.ENABLED=" + value}, false, set); err != nil {
		return err
	}
	// The firewall, if there is one, lets the tunnel in or does not any more.
	_, _ = ask(ctx, api.OpCall, api.CallArgs{Service: "core", Method: "reload"})
	if up {
		// A tunnel that is up takes its files over; one that is not has no such method.
		if _, err := ask(ctx, api.OpCall, api.CallArgs{Service: wireguardService, Method: "reload"}); err == nil {
			return wireguardShow(ctx, std, asJSON, ask)
		}
	}
	data, err := ask(ctx, api.OpService, api.ServiceArgs{Name: wireguardService, Action: action})
	if err != nil {
		return err
	}
	if up {
		return wireguardShow(ctx, std, asJSON, ask)
	}
	if asJSON {
		_, err = std.Out.Write(append(data, '\n'))
		return err
	}
	_, err = fmt.Fprintln(std.Out, "the tunnel is down, and stays so: gwctl wg up")
	return err
}
