package ddi

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/bundle"
)

// maxAnswer bounds an answer's JSON, in bytes.
const maxAnswer = 1 << 20

// maxFile bounds an update's file, in bytes: the binary, and what is in front of it.
const maxFile = bundle.MaxSize + 64<<10

// Bounds of what a server may ask for between two polls.
const (
	leastSleep = 5 * time.Second
	mostSleep  = 24 * time.Hour
	// plainSleep is for a server that does not say: hawkBit's own default.
	plainSleep = 5 * time.Minute
)

// ErrAnswer: the server said something that the API does not have.
var ErrAnswer = errors.New("the server's answer is not understood")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrAnswer, fmt.Sprintf(format, args...))
}

// base is the answer to a poll.
type base struct {
	sleep                                  time.Duration
	configData, deploymentBase, cancelBase string // links, "" if there is none
}

// parseBase reads a poll's answer.
func parseBase(text []byte) (b base, err error) {
	var doc struct {
		Config struct {
			Polling struct {
				Sleep string `json:"sleep"`
			} `json:"polling"`
		} `json:"config"`
		Links map[string]link `json:"_links"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return b, bad("%v", err)
	}
	if b.sleep, err = parseSleep(doc.Config.Polling.Sleep); err != nil {
		return b, err
	}
	b.configData, b.deploymentBase, b.cancelBase = doc.Links["configData"].Href, doc.Links["deploymentBase"].Href, doc.Links["cancelAction"].Href
	return b, nil
}

type link struct {
	Href string `json:"href"`
}

// parseSleep reads HH:MM:SS.
func parseSleep(text string) (time.Duration, error) {
	if text == "" {
		return plainSleep, nil
	}
	var d time.Duration
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0, bad("sleep %q", text)
	}
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil || i > 0 && n > 59 {
			return 0, bad("sleep %q", text)
		}
		d += time.Duration(n) * unit
	}
	return min(max(d, leastSleep), mostSleep), nil
}

// deployment is an action that the server has for a gateway.
type deployment struct {
	action   string
	download bool // now
	install  bool // now
	file     artifact
	// wrong is why it cannot be carried out, "" if it can.
	wrong string
}

// artifact is a file to be downloaded.
type artifact struct {
	name              string
	size              int64
	sha256, sha1, md5 string // in hexadecimal, "" if the server does not say
	href              string
}

// key is the file's name in the cache.
func (a artifact) key() string {
	if a.sha256 != "" {
		return "sha256-" + a.sha256
	}
	return "sha1-" + a.sha1
}

// parseDeployment reads a deploymentBase.
func parseDeployment(text []byte) (d deployment, err error) {
	var doc struct {
		ID         string `json:"id"`
		Deployment *struct {
			Download          string `json:"download"`
			Update            string `json:"update"`
			MaintenanceWindow string `json:"maintenanceWindow"`
			Chunks            []struct {
				Artifacts []struct {
					Filename string `json:"filename"`
					Size     int64  `json:"size"`
					Hashes   struct {
						SHA256 string `json:"sha256"`
						SHA1   string `json:"sha1"`
						MD5    string `json:"md5"`
					} `json:"hashes"`
					Links map[string]link `json:"_links"`
				} `json:"artifacts"`
			} `json:"chunks"`
		} `json:"deployment"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return d, bad("%v", err)
	}
	if !plainID(doc.ID) || doc.Deployment == nil {
		return d, bad("a deployment without id or content")
	}
	in := doc.Deployment
	for name, value := range map[string]string{"download": in.Download, "update": in.Update} {
		switch value {
		case "", "skip", "attempt", "forced":
		default:
			return d, bad("%s is %q", name, value)
		}
	}
	d.action = doc.ID
	d.download = in.Download != "skip"
	d.install = in.Update != "skip" && in.MaintenanceWindow != "unavailable"
	// An update is one file. There may be others, that are not for a gateway.
	var all, named []artifact
	for _, c := range in.Chunks {
		for _, a := range c.Artifacts {
			f := artifact{
				name: a.Filename, size: a.Size,
				sha256: strings.ToLower(a.Hashes.SHA256), sha1: strings.ToLower(a.Hashes.SHA1), md5: strings.ToLower(a.Hashes.MD5),
				href: cmp.Or(a.Links["download"].Href, a.Links["download-http"].Href),
			}
			all = append(all, f)
			if path.Ext(f.name) == ".update" {
				named = append(named, f)
			}
		}
	}
	if len(all) != 1 {
		all = named
	}
	if len(all) != 1 {
		d.wrong = fmt.Sprintf("a gateway takes one file that ends with .update, and the deployment has %d", len(named))
		return d, nil
	}
	d.file = all[0]
	d.wrong = d.file.problem()
	return d, nil
}

// problem is why a file cannot be fetched, or "".
func (a artifact) problem() string {
	switch {
	case a.href == "":
		return "the server has no link to " + strconv.Quote(a.name)
	case a.size <= 0 || a.size > maxFile:
		return fmt.Sprintf("%q has %d bytes, and no update has", a.name, a.size)
	case a.sha256 == "" && a.sha1 == "":
		return fmt.Sprintf("%q has neither sha256 nor sha1", a.name)
	}
	for _, h := range []struct {
		text  string
		bytes int
	}{{a.sha256, 32}, {a.sha1, 20}, {a.md5, 16}} {
		if b, err := hex.DecodeString(h.text); h.text != "" && (err != nil || len(b) != h.bytes) {
			return fmt.Sprintf("%q is no hash", h.text)
		}
	}
	return ""
}

// parseCancel reads a cancelAction and returns the action that is to end.
func parseCancel(text []byte) (id, stop string, err error) {
	var doc struct {
		ID           string `json:"id"`
		CancelAction struct {
			StopID string `json:"stopId"`
		} `json:"cancelAction"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", "", bad("%v", err)
	}
	if !plainID(doc.ID) || !plainID(doc.CancelAction.StopID) {
		return "", "", bad("a cancelAction without id or stopId")
	}
	return doc.ID, doc.CancelAction.StopID, nil
}

// plainID tells whether an ID can be in a path. Today's are numbers.
func plainID(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	})
}

// Executions and results of a feedback (DdiStatus, DdiResult).
const (
	proceeding = "proceeding"
	resumed    = "resumed"
	download   = "download"
	downloaded = "downloaded"
	rejected   = "rejected"
	closed     = "closed"

	none    = "none"
	success = "success"
	failure = "failure"
)

// maxDetail bounds a detail in characters; the server cuts or refuses more.
const maxDetail = 500

// feedback is what the server is told of an action.
type feedback struct {
	Execution string `json:"execution"`
	Finished  string `json:"finished"`
	Detail    string `json:"detail"`
}

// text is the feedback as the API has it.
func (f feedback) text(id string, now time.Time) ([]byte, error) {
	type result struct {
		Finished string `json:"finished"`
	}
	type status struct {
		Execution string   `json:"execution"`
		Result    result   `json:"result"`
		Details   []string `json:"details,omitempty"`
	}
	s := status{f.Execution, result{f.Finished}, nil}
	if detail := []rune(f.Detail); len(detail) > 0 {
		s.Details = []string{string(detail[:min(len(detail), maxDetail)])}
	}
	return json.Marshal(struct {
		ID        string `json:"id"` // for servers up to 0.3
		Timestamp int64  `json:"timestamp"`
		Status    status `json:"status"`
	}{id, now.UnixMilli(), s})
}

// configData is what the server is told of a gateway.
func configData(data map[string]string) ([]byte, error) {
	return json.Marshal(struct {
		Mode string            `json:"mode"`
		Data map[string]string `json:"data"`
	}{"merge", data})
}
