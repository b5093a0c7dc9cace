// Package dditest is an update server that speaks hawkBit's Direct Device
// Integration API, for tests. It was made from the API's published description
// (https://eclipse.dev/hawkbit/apis/ddi_api and its OpenAPI document): resources,
// what they hold and when they are there, what is refused and how. It does not
// take what the description does not allow, and keeps all that it was told.
package dditest

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Status of an action on the server, as its management API has them.
const (
	Running   = "running"
	Canceling = "canceling"
	Canceled  = "canceled"
	Finished  = "finished"
	Error     = "error"
	// Downloaded is the end of an action that is for the download only.
	Downloaded = "downloaded"
)

// File is an artifact.
type File struct {
	Name string
	Body []byte
	// Lie is announced in place of what hashes would be of Body.
	Lie bool
	// NoSHA256 leaves that hash out, as servers before 0.3 do.
	NoSHA256 bool
}

// Action is one that was assigned to a target.
type Action struct {
	ID       int
	Download string // forced, attempt, skip
	Update   string
	Window   string // "", available, unavailable
	Files    []File
	Status   string
	Told     []Told
	CancelBy []Told // feedback on the cancelation
}

// Told is a feedback.
type Told struct {
	Execution, Finished string
	Details             []string
}

// Target is a device.
type Target struct {
	ID      string
	Token   string
	Config  map[string]string // as it was told
	wants   bool              // that it tells
	actions []*Action         // the last is the active one
	Polls   int
}

// Server is an http.Handler.
type Server struct {
	Tenant, GatewayToken, Sleep string
	// Base is what links begin with.
	Base string
	// CDN is what links to files begin with, if it is another host. Requests to it
	// are handled here, too.
	CDN string
	// Trouble may answer a request in the server's place.
	Trouble func(w http.ResponseWriter, r *http.Request) bool
	// CutAfter ends each download after so many bytes of it; 0 does not.
	CutAfter int

	mu        sync.Mutex // guards the rest
	targets   map[string]*Target
	last      int
	Downloads []string // the header Range of each
	wrong     []string // what a client did that the API does not have
}

// New returns a server that knows nobody yet.
func New(base string) *Server {
	return &Server{Tenant: "DEFAULT", GatewayToken: "gateway-secret", Sleep: "00:05:00", Base: base, targets: map[string]*Target{}}
}

// Do has change work on a target, which is made if it is not there.
func (s *Server) Do(id string, change func(t *Target)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.target(id))
}

func (s *Server) target(id string) *Target {
	t := s.targets[id]
	if t == nil {
		t = &Target{ID: id, wants: true}
		s.targets[id] = t
	}
	return t
}

// Assign gives a target an action, in the place of the one before.
func (s *Server) Assign(id string, a Action) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	a.ID, a.Status = s.last, Running
	t := s.target(id)
	t.actions = append(t.actions, &a)
	return a.ID
}

// Change works on an action.
func (s *Server) Change(id string, action int, change func(a *Action)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.target(id).actions {
		if a.ID == action {
			change(a)
		}
	}
}

// Action returns a copy of one.
func (s *Server) Action(id string, action int) (copied Action) {
	s.Change(id, action, func(a *Action) {
		copied = *a
		copied.Told, copied.CancelBy = slices.Clone(a.Told), slices.Clone(a.CancelBy)
	})
	return copied
}

// Wrong is what clients did that the API does not have.
func (s *Server) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// Ranges returns the header Range of each download.
func (s *Server) Ranges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.Downloads)
}

// active is the action that a target is to work on.
func (t *Target) active() *Action {
	for _, a := range slices.Backward(t.actions) {
		if a.Status == Running || a.Status == Canceling {
			return a
		}
	}
	return nil
}

func (s *Server) refuse(w http.ResponseWriter, code int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if code == http.StatusBadRequest {
		s.wrong = append(s.wrong, text)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"errorCode": "hawkbit.server.error", "message": text}) // who asked is gone
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Trouble != nil && s.Trouble(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok {
		if r.Header.Get("Authorization") != "" && s.CDN != "" {
			s.wrong = append(s.wrong, "a token was sent to another host")
		}
		s.file(w, r, strings.Split(rest, "/"))
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if len(parts) < 4 || parts[0] != s.Tenant || parts[1] != "controller" || parts[2] != "v1" {
		s.refuse(w, http.StatusNotFound, "no resource %s", r.URL.Path)
		return
	}
	known := s.targets[parts[3]]
	auth := r.Header.Get("Authorization")
	switch {
	case auth == "GatewayToken "+s.GatewayToken:
	case known != nil && known.Token != "" && auth == "TargetToken "+known.Token:
	default:
		s.refuse(w, http.StatusUnauthorized, "not authenticated")
		return
	}
	t := s.target(parts[3])
	switch rest := parts[4:]; {
	case len(rest) == 0 && r.Method == http.MethodGet:
		s.base(w, r, t)
	case len(rest) == 1 && rest[0] == "configData" && r.Method == http.MethodPut:
		s.configData(w, r, t)
	case len(rest) == 2 && rest[0] == "deploymentBase" && r.Method == http.MethodGet:
		s.deployment(w, t, rest[1])
	case len(rest) == 3 && rest[0] == "deploymentBase" && rest[2] == "feedback" && r.Method == http.MethodPost:
		s.feedback(w, r, t, rest[1])
	case len(rest) == 2 && rest[0] == "cancelAction" && r.Method == http.MethodGet:
		s.cancel(w, t, rest[1])
	case len(rest) == 3 && rest[0] == "cancelAction" && rest[2] == "feedback" && r.Method == http.MethodPost:
		s.cancelFeedback(w, r, t, rest[1])
	case len(rest) <= 3:
		s.refuse(w, http.StatusMethodNotAllowed, "%s %s", r.Method, r.URL.Path)
		s.wrong = append(s.wrong, r.Method+" "+r.URL.Path)
	default:
		s.refuse(w, http.StatusNotFound, "no resource %s", r.URL.Path)
	}
}

type m map[string]any

func (s *Server) answer(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/hal+json;charset=utf-8")
	_ = json.NewEncoder(w).Encode(doc) // who asked is gone
}

// href is a link to a resource of a target.
func (s *Server) href(t *Target, path string) m {
	return m{"href": s.Base + "/" + s.Tenant + "/controller/v1/" + t.ID + "/" + path}
}

func (s *Server) base(w http.ResponseWriter, r *http.Request, t *Target) {
	t.Polls++
	links := m{}
	if t.wants {
		links["configData"] = s.href(t, "configData")
	}
	if a := t.active(); a != nil {
		id := strconv.Itoa(a.ID)
		if a.Status == Canceling {
			links["cancelAction"] = s.href(t, "cancelAction/"+id)
		} else {
			// c changes with what the action asks for, and the ETag with it.
			links["deploymentBase"] = s.href(t, fmt.Sprintf("deploymentBase/%s?c=%d", id, len(a.Update+a.Window)))
		}
	}
	doc := m{"config": m{"polling": m{"sleep": s.Sleep}}, "_links": links}
	text, _ := json.Marshal(doc) // of strings
	etag := fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(text)))
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.answer(w, doc)
}

func (s *Server) configData(w http.ResponseWriter, r *http.Request, t *Target) {
	var doc struct {
		Mode string            `json:"mode"`
		Data map[string]string `json:"data"`
	}
	if !s.read(w, r, &doc) {
		return
	}
	if doc.Data == nil || !slices.Contains([]string{"", "merge", "replace", "remove"}, doc.Mode) {
		s.refuse(w, http.StatusBadRequest, "configData %+v", doc)
		return
	}
	for name, value := range doc.Data {
		if name == "" || len(name) > 128 || len(value) > 128 {
			s.refuse(w, http.StatusBadRequest, "attribute %q=%q", name, value)
			return
		}
	}
	t.Config, t.wants = doc.Data, false
}

func (s *Server) read(w http.ResponseWriter, r *http.Request, to any) bool {
	if ct, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); ct != "application/json" && ct != "application/hal+json" {
		s.refuse(w, http.StatusUnsupportedMediaType, "Content-Type %q", ct)
		s.wrong = append(s.wrong, "Content-Type "+ct)
		return false
	}
	if err := json.NewDecoder(r.Body).Decode(to); err != nil {
		s.refuse(w, http.StatusBadRequest, "%v", err)
		return false
	}
	return true
}

// find is a target's action of that ID, or nil.
func (s *Server) find(w http.ResponseWriter, t *Target, id string) *Action {
	for _, a := range t.actions {
		if strconv.Itoa(a.ID) == id {
			return a
		}
	}
	s.refuse(w, http.StatusNotFound, "action %s is not assigned to %s", id, t.ID)
	return nil
}

func (s *Server) deployment(w http.ResponseWriter, t *Target, id string) {
	a := s.find(w, t, id)
	if a == nil {
		return
	}
	if a.Status != Running {
		s.refuse(w, http.StatusNotFound, "action %s is %s", id, a.Status)
		return
	}
	var artifacts []m
	for i, f := range a.Files {
		said := f.Body
		if f.Lie {
			said = append([]byte("other"), f.Body[5:]...)
		}
		hashes := m{"sha1": fmt.Sprintf("%x", sha1.Sum(said)), "md5": fmt.Sprintf("%x", md5.Sum(said))}
		if !f.NoSHA256 {
			hashes["sha256"] = fmt.Sprintf("%x", sha256.Sum256(said))
		}
		at := s.CDN
		if at == "" {
			at = s.Base
		}
		artifacts = append(artifacts, m{
			"filename": f.Name, "size": len(f.Body), "hashes": hashes,
			"_links": m{
				"download": m{"href": fmt.Sprintf("%s/files/%s/%d/%d", at, t.ID, a.ID, i)},
				"md5sum":   m{"href": fmt.Sprintf("%s/files/%s/%d/%d.MD5SUM", at, t.ID, a.ID, i)},
			},
		})
	}
	d := m{"download": a.Download, "update": a.Update, "chunks": []m{{"part": "os", "version": "1", "name": "gateway", "artifacts": artifacts}}}
	if a.Window != "" {
		d["maintenanceWindow"] = a.Window
	}
	s.answer(w, m{"id": id, "deployment": d, "actionHistory": m{"status": "RUNNING", "messages": []string{}}})
}

// heard reads a feedback.
func (s *Server) heard(w http.ResponseWriter, r *http.Request) (told Told, ok bool) {
	var doc struct {
		Status *struct {
			Execution string `json:"execution"`
			Result    *struct {
				Finished string `json:"finished"`
			} `json:"result"`
			Details []string `json:"details"`
		} `json:"status"`
	}
	if !s.read(w, r, &doc) {
		return told, false
	}
	if doc.Status == nil || doc.Status.Result == nil ||
		!slices.Contains([]string{"closed", "proceeding", "canceled", "scheduled", "rejected", "resumed", "downloaded", "download"}, doc.Status.Execution) ||
		!slices.Contains([]string{"success", "failure", "none"}, doc.Status.Result.Finished) {
		s.refuse(w, http.StatusBadRequest, "feedback %+v", doc.Status)
		return told, false
	}
	for _, text := range doc.Status.Details {
		if len([]rune(text)) > 512 {
			s.refuse(w, http.StatusBadRequest, "a detail of %d characters", len(text))
			return told, false
		}
	}
	return Told{doc.Status.Execution, doc.Status.Result.Finished, doc.Status.Details}, true
}

func (s *Server) feedback(w http.ResponseWriter, r *http.Request, t *Target, id string) {
	told, ok := s.heard(w, r)
	if !ok {
		return
	}
	a := s.find(w, t, id)
	if a == nil {
		return
	}
	if a.Status != Running && a.Status != Canceling {
		s.refuse(w, http.StatusGone, "action %s is %s", id, a.Status)
		return
	}
	a.Told = append(a.Told, told)
	switch {
	case told.Execution == "closed" && told.Finished == "failure":
		a.Status = Error
	case told.Execution == "closed":
		a.Status, t.wants = Finished, true
	case told.Execution == "canceled":
		a.Status = Canceled
	case told.Execution == "downloaded" && a.Update == "skip" && a.Window == "":
		a.Status = Downloaded
	}
}

func (s *Server) cancel(w http.ResponseWriter, t *Target, id string) {
	a := s.find(w, t, id)
	if a == nil {
		return
	}
	if a.Status != Canceling && a.Status != Canceled {
		s.refuse(w, http.StatusNotFound, "action %s is %s", id, a.Status)
		return
	}
	s.answer(w, m{"id": id, "cancelAction": m{"stopId": id}})
}

func (s *Server) cancelFeedback(w http.ResponseWriter, r *http.Request, t *Target, id string) {
	told, ok := s.heard(w, r)
	if !ok {
		return
	}
	a := s.find(w, t, id)
	if a == nil {
		return
	}
	if a.Status != Canceling {
		s.refuse(w, http.StatusGone, "action %s is %s", id, a.Status)
		return
	}
	a.CancelBy = append(a.CancelBy, told)
	switch {
	case told.Execution == "rejected":
		a.Status = Running
	case told.Execution == "closed" && told.Finished == "failure":
		a.Status = Error
	case told.Execution == "closed":
		a.Status = Canceled
	case told.Execution == "canceled":
		s.wrong = append(s.wrong, "canceled is no answer to a cancelation")
	}
}

// errCut ends a download.
var errCut = errors.New("cut")

// cut is a ResponseWriter that ends early.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; err == nil && n < len(p) {
		err = errCut
	}
	return n, err
}

func (s *Server) file(w http.ResponseWriter, r *http.Request, parts []string) {
	if len(parts) != 3 {
		s.refuse(w, http.StatusNotFound, "no file")
		return
	}
	t := s.targets[parts[0]]
	i, err := strconv.Atoi(parts[2])
	if t == nil || err != nil {
		s.refuse(w, http.StatusNotFound, "no file")
		return
	}
	a := s.find(w, t, parts[1])
	if a == nil || i >= len(a.Files) {
		return
	}
	s.Downloads = append(s.Downloads, r.Header.Get("Range"))
	if s.CutAfter > 0 {
		w = &cut{w, s.CutAfter}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.Files[i].Body))
	if c, ok := w.(*cut); ok && c.left == 0 {
		panic(http.ErrAbortHandler)
	}
}
