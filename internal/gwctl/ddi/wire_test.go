package ddi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestParseSleep(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": plainSleep, "00:05:00": 5 * time.Minute, "12:00:01": 12*time.Hour + time.Second, "00:00:00": leastSleep, "99:00:00": mostSleep,
		"5": 0, "00:60:00": 0, "-1:00:00": 0, "00:00:0x": 0, "1:2:3:4": 0,
	} {
		got, err := parseSleep(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "30": 30 * time.Second, "999999": mostAfter, "-5": 0, "soon": 0,
		"Tue, 01 Dec 2026 12:02:00 GMT": 2 * time.Minute, "Tue, 01 Dec 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Links lead to the server, by TLS, or for files to others.
func TestLinks(t *testing.T) {
	u, err := url.Parse("https://a.example/hawkbit")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{server: u}
	for href, want := range map[string]struct{ link, own bool }{
		"https://a.example/T/controller/v1/x": {true, true},
		"/T/controller/v1/x":                  {true, true},
		"https://b.example/file":              {true, false},
		"http://a.example/T":                  {false, false},
		"https://a.example:8443/T":            {true, false},
		"file:///etc/passwd":                  {false, false},
		"https://a.example/%zz":               {false, false},
	} {
		if _, err := c.link(href); (err == nil) != want.link || err != nil && !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v", href, err)
		}
		if _, err := c.own(href); (err == nil) != want.own {
			t.Errorf("%s: %v", href, err)
		}
	}
	c.plain = true
	if _, err := c.link("http://b.example/file"); err != nil {
		t.Error(err)
	}
	if err := gone(Status{Code: http.StatusGone}); !errors.Is(err, errGone) {
		t.Error(err)
	}
}

func TestState(t *testing.T) {
	st := store{t.TempDir()}
	const id = "../a/b c" // a controllerId may be anything
	if s, err := st.load(id); err != nil || s != (state{}) {
		t.Errorf("none: %+v, %v", s, err)
	}
	want := state{Action: "7", Phase: phaseClosed, Version: "2.0", Last: &feedback{closed, failure, "x"}}
	if err := st.save(id, want); err != nil {
		t.Fatal(err)
	}
	got, err := st.load(id)
	if err != nil || got.Action != "7" || *got.Last != *want.Last {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "{}", `{"action":"1"}`, `{"action":"1","phase":"closed"}`, `{"action":"/","phase":"sent"}`} {
		if s, err := parseState([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, s)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, text := range []string{
		`{"config":{"polling":{"sleep":"00:05:00"}},"_links":{"deploymentBase":{"href":"https://x/1"},"cancelAction":{"href":"y"},"configData":{"href":"z"}}}`,
		`{"id":"1","deployment":{"download":"forced","update":"skip","maintenanceWindow":"available","chunks":[{"part":"os","artifacts":[{"filename":"a.update","size":3,"hashes":{"sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709"},"_links":{"download-http":{"href":"http://x"}}}]}]}}`,
		`{"id":"1","cancelAction":{"stopId":"1"}}`,
		`{"action":"1","phase":"closed","last":{"execution":"closed","finished":"success","detail":""}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if b, err := parseBase(text); err == nil && (b.sleep < leastSleep || b.sleep > mostSleep) {
			t.Errorf("%+v", b)
		} else if err != nil && !errors.Is(err, ErrAnswer) {
			t.Error(err)
		}
		if d, err := parseDeployment(text); err == nil && (!plainID(d.action) || d.wrong == "" && (d.file.href == "" || d.file.size <= 0 || strings.ContainsAny(d.file.key(), "/\\.") || len(d.file.key()) < 40)) {
			t.Errorf("%+v", d)
		}
		if id, stop, err := parseCancel(text); err == nil && (!plainID(id) || !plainID(stop)) {
			t.Errorf("%q, %q", id, stop)
		}
		if s, err := parseState(text); err == nil && s.Phase == phaseClosed && s.Last == nil {
			t.Errorf("%+v", s)
		}
	})
}
