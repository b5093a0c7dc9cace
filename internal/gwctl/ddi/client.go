package ddi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Status is an answer of the server that is none of success.
type Status struct {
	Code int
	// After is how long the server wants to be left alone, 0 if it does not say.
	After time.Duration
	what  string
}

// Error implements error.
func (s Status) Error() string {
	text := fmt.Sprintf("%s: the server says %d %s", s.what, s.Code, http.StatusText(s.Code))
	switch s.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += "; is the token right, and that kind of token allowed there?"
	case http.StatusNotFound:
		text += "; is the tenant right?"
	}
	return text
}

// errGone: the action is over, or there is no such action any more.
var errGone = errors.New("the server has ended this action")

// client speaks for one gateway.
type client struct {
	http   *http.Client
	server *url.URL
	root   string // path of this target's resources
	auth   string // of the header Authorization
	plain  bool   // http is allowed
}

// mostAfter bounds a Retry-After.
const mostAfter = time.Hour

// link resolves a link of an answer. A token goes nowhere but to the server.
func (c *client) link(href string) (*url.URL, error) {
	u, err := c.server.Parse(href)
	if err != nil {
		return nil, bad("link %q", href)
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && c.plain) {
		return nil, bad("the link %q is not https", href)
	}
	return u, nil
}

// own resolves a link to the API itself.
func (c *client) own(href string) (*url.URL, error) {
	u, err := c.link(href)
	if err == nil && (u.Host != c.server.Host || u.Scheme != c.server.Scheme) {
		err = bad("the link %q is not to %s; is it behind a proxy that does not send X-Forwarded-Host and -Proto?", href, c.server)
	}
	return u, err
}

// do sends a request and returns the answer if it is one of success. The caller
// must close its body.
func (c *client) do(ctx context.Context, what, method string, u *url.URL, body []byte, header http.Header) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		q.Header[name] = values
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if u.Host == c.server.Host && u.Scheme == c.server.Scheme {
		q.Header.Set("Authorization", c.auth)
	}
	q.Header.Set("User-Agent", "gwctl-agent")
	a, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	if a.StatusCode/100 == 2 || a.StatusCode == http.StatusNotModified {
		return a, nil
	}
	a.Body.Close()
	return nil, Status{a.StatusCode, retryAfter(a.Header.Get("Retry-After"), time.Now()), what}
}

// retryAfter reads that header: seconds, or a date (RFC 9110, 10.2.3).
func retryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), mostAfter)
}

// get fetches JSON.
func (c *client) get(ctx context.Context, what string, u *url.URL, header http.Header) ([]byte, http.Header, error) {
	h := http.Header{"Accept": {"application/hal+json, application/json"}}
	for name, values := range header {
		h[name] = values
	}
	a, err := c.do(ctx, what, http.MethodGet, u, nil, h)
	if err != nil {
		return nil, nil, err
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusNotModified {
		return nil, a.Header, nil
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = bad("%s has more than %d bytes", what, maxAnswer)
	}
	return b, a.Header, err
}

// poll asks what there is to do. It returns nil with the same etag if that is as
// it was.
func (c *client) poll(ctx context.Context, etag string) (*base, string, error) {
	h := http.Header{}
	if etag != "" {
		h.Set("If-None-Match", etag)
	}
	text, got, err := c.get(ctx, "poll", c.server.JoinPath(c.root), h)
	if err != nil {
		return nil, "", err
	}
	if text == nil {
		return nil, etag, nil
	}
	b, err := parseBase(text)
	return &b, got.Get("ETag"), err
}

// deployment fetches an action.
func (c *client) deployment(ctx context.Context, href string) (d deployment, err error) {
	u, err := c.own(href)
	if err != nil {
		return d, err
	}
	text, _, err := c.get(ctx, "deployment", u, nil)
	if err != nil {
		return d, gone(err)
	}
	return parseDeployment(text)
}

// cancel fetches which action is to end.
func (c *client) cancel(ctx context.Context, href string) (id, stop string, err error) {
	u, err := c.own(href)
	if err != nil {
		return "", "", err
	}
	text, _, err := c.get(ctx, "cancelAction", u, nil)
	if err != nil {
		return "", "", gone(err)
	}
	return parseCancel(text)
}

// gone turns the answers about an action that is over into errGone.
func gone(err error) error {
	var s Status
	if errors.As(err, &s) && (s.Code == http.StatusNotFound || s.Code == http.StatusGone) {
		return errGone
	}
	return err
}

// feedback tells the server about an action; kind is deploymentBase or
// cancelAction.
func (c *client) feedback(ctx context.Context, kind, action string, f feedback) error {
	text, err := f.text(action, time.Now())
	if err != nil {
		return err
	}
	a, err := c.do(ctx, "feedback", http.MethodPost, c.server.JoinPath(c.root, kind, action, "feedback"), text, nil)
	if err != nil {
		return gone(err)
	}
	return a.Body.Close()
}

// config tells the server what a gateway is.
func (c *client) config(ctx context.Context, href string, data map[string]string) error {
	u, err := c.own(href)
	if err != nil {
		return err
	}
	text, err := configData(data)
	if err != nil {
		return err
	}
	a, err := c.do(ctx, "configData", http.MethodPut, u, text, nil)
	if err != nil {
		return err
	}
	return a.Body.Close()
}

// fetch reads a file from its byte at on. begin is where the answer begins: 0 if
// the server has no ranges.
func (c *client) fetch(ctx context.Context, href string, at int64) (body io.ReadCloser, begin int64, err error) {
	u, err := c.link(href)
	if err != nil {
		return nil, 0, err
	}
	h := http.Header{}
	if at > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	a, err := c.do(ctx, "download", http.MethodGet, u, nil, h)
	if err != nil {
		return nil, 0, err
	}
	if a.StatusCode == http.StatusPartialContent {
		var first int64
		if _, err := fmt.Sscanf(a.Header.Get("Content-Range"), "bytes %d-", &first); err != nil || first != at {
			a.Body.Close()
			return nil, 0, bad("Content-Range %q for bytes from %d on", a.Header.Get("Content-Range"), at)
		}
		return a.Body, at, nil
	}
	return a.Body, 0, nil
}
