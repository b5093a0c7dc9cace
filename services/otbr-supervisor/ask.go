//go:build linux

package otbr

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gwinit/services/otbr-supervisor/otctl"
	"gwinit/services/otbr-supervisor/rest"
	"gwinit/services/otbr-supervisor/threaddata"
)

// tables are what Table gives: commands of the agent's, by name.
var tables = map[string][]string{
	"neighbours": {"neighbor table"},
	"children":   {"child table"},
	"routing":    {"br state", "br omrprefix", "br onlinkprefix", "br routeprf", "br prefixtable"},
}

// errNoDataset: there is no network.
var errNoDataset = errors.New("this node has no Thread network: gwctl thread join, or let Home Assistant make one")

// maxDataset is a dataset in bytes (Thread specification: 254).
const maxDataset = 254

// Dataset returns the active operational dataset, TLVs in hex: with its network
// key. The agent is asked by control socket, then by REST; what is in memory is
// the last resort.
func (s *Service) Dataset(ctx context.Context) (string, error) {
	lines, err := s.cli().Do(ctx, "dataset active -x")
	if err == nil && len(lines) == 1 {
		return parseDataset(lines[0])
	}
	var no *otctl.Refusal
	if errors.As(err, &no) {
		return "", errNoDataset
	}
	b, err := s.http().Get(ctx, "/node/dataset/active", rest.Text)
	if err == nil {
		if text := strings.TrimSpace(string(b)); text != "" {
			return parseDataset(text)
		}
		return "", errNoDataset
	}
	set, _, err := threaddata.ReadDir(s.path(Memory))
	if err != nil {
		return "", err
	}
	if dataset, _, ok := set.Network(); ok {
		return hex.EncodeToString(dataset), nil
	}
	return "", errNoDataset
}

// parseDataset checks a dataset in hex.
func parseDataset(text string) (string, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) == 0 || len(b) > maxDataset || threaddata.TLV(b, threaddata.TLVNetworkKey) == nil {
		return "", errors.New("not an active operational dataset: TLVs in hex, with a network key, as ot-ctl dataset active -x prints it")
	}
	return strings.ToLower(text), nil
}

// Table returns what the agent prints of neighbours, children or routing. Only
// the control socket has it.
func (s *Service) Table(ctx context.Context, name string) (string, error) {
	commands, ok := tables[name]
	if !ok {
		return "", fmt.Errorf("no table %q; there are neighbours, children, routing", name)
	}
	var out strings.Builder
	for _, c := range commands {
		lines, err := s.cli().Do(ctx, c)
		var no *otctl.Refusal
		switch {
		case errors.As(err, &no) && len(commands) > 1:
			lines = []string{no.Text} // an agent that was built without it
		case err != nil:
			return "", err
		}
		if len(commands) > 1 {
			out.WriteString(c + ":\n")
		}
		for _, l := range lines {
			if len(commands) > 1 {
				out.WriteString("  ")
			}
			out.WriteString(clean(l) + "\n")
		}
	}
	return out.String(), nil
}

// Join has the node take part in the network of a dataset.
func (s *Service) Join(ctx context.Context, p JoinParams) error {
	dataset, err := parseDataset(strings.TrimSpace(p.Dataset))
	if err != nil {
		return err
	}
	set, _, err := threaddata.ReadDir(s.path(Memory))
	if err != nil {
		return err
	}
	if now, _, ok := set.Network(); ok && !p.Replace {
		return fmt.Errorf("this node has the network %q, whose devices it would leave: gwctl thread backup FILE keeps it, join -replace goes on", clean(string(threaddata.TLV(now, threaddata.TLVNetworkName))))
	}
	for _, command := range []string{"dataset set active " + dataset, "ifconfig up", "thread start"} {
		if _, err := s.cli().Do(ctx, command); err != nil {
			return err
		}
	}
	return s.Save(ctx)
}

// text is what gwctl thread shows.
func (st State) text() string {
	var b strings.Builder
	row := func(name, value string) {
		if value != "" {
			b.WriteString((name + "       ")[:8] + " " + value + "\n")
		}
	}
	agent := st.State + " for " + (time.Duration(st.Since) * time.Second).String()
	if st.AgentPID != 0 {
		agent += ", pid " + strconv.Itoa(st.AgentPID)
	}
	row("agent", agent)
	row("role", st.Role)
	row("radio", st.RCPVersion)
	if st.ExtPANID == "" {
		row("network", "none: gwctl thread join, or let Home Assistant make one")
	} else {
		row("network", st.Network+", channel "+strconv.Itoa(st.Channel)+", PAN "+st.PANID+", extended "+st.ExtPANID)
		row("node", st.ExtAddress)
	}
	rest := st.REST + ", for this box only"
	if st.RESTOpen {
		rest = st.REST + ", OPEN to the network: the network's key can be read there; gwctl config set radio.OTBR_REST_BIND=127.0.0.1 closes it"
	}
	row("REST", rest)
	if st.Starts > 1 {
		row("starts", strconv.Itoa(st.Starts)+"; the last end: "+st.LastEnd)
	}
	return b.String()
}
