// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api calls CloudStack as an operator does: any command by its name, with keys or in the session of a login.
// The suite makes and removes its own objects with it; the product never uses it.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Params are the parameters of a call.
type Params map[string]string

// Object is a JSON object of an answer.
type Object map[string]any

// Text returns a string member, or "".
func (o Object) Text(key string) string {
	s, _ := o[key].(string)
	return s
}

// Flag reports whether a member is true.
func (o Object) Flag(key string) bool {
	b, _ := o[key].(bool)
	return b
}

// Objects returns the objects of an array.
func (o Object) Objects(key string) []Object {
	list, _ := o[key].([]any)
	var all []Object
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// Error is an answer that refuses a call, or the failure of its job.
type Error struct {
	Command string
	Code    int
	Text    string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Command, e.Text, e.Code) }

// Code returns the error code of an answer, or 0.
func Code(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Credentials are keys, or a login.
type Credentials struct {
	APIKey, SecretKey      string
	User, Password, Domain string
}

// String says nothing that is secret.
func (c Credentials) String() string {
	if c.APIKey != "" {
		return "API keys"
	}
	return "user " + c.User
}

// Format is String for every verb: %+v would print the secrets.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// Client calls as one user.
type Client struct {
	url  string
	who  Credentials
	http *http.Client

	mu      sync.Mutex
	session string // its key
}

const (
	pollPeriod  = 200 * time.Millisecond
	callTimeout = 2 * time.Minute
	pageSize    = 500
)

// New returns a client; a login is made by the first call.
func New(url string, who Credentials) *Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // it never fails without options
	}
	return &Client{url: url, who: who, http: &http.Client{Timeout: callTimeout, Jar: jar}}
}

// Call makes a call and returns the content of its answer.
func (c *Client) Call(ctx context.Context, command string, params Params) (Object, error) {
	if c.who.APIKey != "" {
		return c.call(ctx, command, params)
	}
	for again := true; ; again = false {
		session, err := c.login(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := c.call(ctx, command, params)
		// A session ends when it is not used for half an hour, which is less than a run may take.
		if Code(err) != http.StatusUnauthorized || !again {
			return answer, err
		}
		c.forget(session)
	}
}

// forget ends the use of a session, so that the next call logs in.
func (c *Client) forget(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == session {
		c.session = ""
	}
}

// Do makes a call and waits for its job. The result has the id that the first answer named under "id", and the members
// of the object that was made.
func (c *Client) Do(ctx context.Context, command string, params Params) (Object, error) {
	first, err := c.Call(ctx, command, params)
	if err != nil {
		return nil, err
	}
	job := first.Text("jobid")
	if job == "" {
		return inner(first), nil
	}
	result, err := c.Wait(ctx, command, job)
	if err != nil {
		return first, err
	}
	result = inner(result)
	if id := first.Text("id"); id != "" {
		result["id"] = id
	}
	return result, nil
}

// inner returns the one object of an answer such as {"network": {...}}, or the answer itself.
func inner(o Object) Object {
	if len(o) == 1 {
		for _, v := range o {
			if m, ok := v.(map[string]any); ok {
				return m
			}
		}
	}
	return o
}

// Wait waits for a job and returns its result.
func (c *Client) Wait(ctx context.Context, command, job string) (Object, error) {
	for {
		answer, err := c.Call(ctx, "queryAsyncJobResult", Params{"jobid": job})
		if err != nil {
			return nil, err
		}
		status, _ := answer["jobstatus"].(float64)
		result, _ := answer["jobresult"].(map[string]any)
		switch status {
		case 0:
		case 1:
			return Object(result), nil
		default:
			code, _ := answer["jobresultcode"].(float64)
			text := Object(result).Text("errortext")
			return nil, &Error{command, int(code), "the job failed: " + text}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the job of %s: %w", command, context.Cause(ctx))
		case <-time.After(pollPeriod):
		}
	}
}

// List returns all objects of a list command; name is the array's.
func (c *Client) List(ctx context.Context, command, name string, params Params) ([]Object, error) {
	var all []Object
	for page := 1; ; page++ {
		p := Params{"page": fmt.Sprint(page), "pagesize": fmt.Sprint(pageSize)}
		maps.Copy(p, params)
		answer, err := c.Call(ctx, command, p)
		if err != nil {
			return nil, err
		}
		items := answer.Objects(name)
		all = append(all, items...)
		if len(items) < pageSize {
			return all, nil
		}
	}
}

// Logout ends the session of a login.
func (c *Client) Logout(ctx context.Context) error {
	c.mu.Lock()
	open := c.session != ""
	c.mu.Unlock()
	if !open {
		return nil
	}
	_, err := c.call(ctx, "logout", nil)
	return err
}

// login returns the key of the session, which it makes where there is none.
func (c *Client) login(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" {
		return c.session, nil
	}
	form := url.Values{"command": {"login"}, "response": {"json"}, "username": {c.who.User}, "password": {c.who.Password}}
	if path := loginPath(c.who.Domain); path != "" {
		form.Set("domain", path)
	}
	answer, err := c.send(ctx, "login", form)
	if err != nil {
		return "", err
	}
	if c.session = answer.Text("sessionkey"); c.session == "" {
		return "", &Error{"login", http.StatusOK, "the answer has no session key"}
	}
	return c.session, nil
}

// loginPath is the path below ROOT, as login takes it.
func loginPath(domain string) string {
	path := strings.Trim(domain, "/")
	first, rest, _ := strings.Cut(path, "/")
	if strings.EqualFold(first, "ROOT") {
		path = rest
	}
	if path == "" {
		return ""
	}
	return "/" + path
}

func (c *Client) call(ctx context.Context, command string, params Params) (Object, error) {
	form := url.Values{"command": {command}, "response": {"json"}}
	for k, v := range params {
		form.Set(k, v)
	}
	if c.who.APIKey != "" {
		form.Set("apikey", c.who.APIKey)
		form.Set("signature", sign(form, c.who.SecretKey))
	} else {
		c.mu.Lock()
		form.Set("sessionkey", c.session)
		c.mu.Unlock()
	}
	return c.send(ctx, command, form)
}

func (c *Client) send(ctx context.Context, command string, form url.Values) (Object, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	var envelope map[string]any
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, &Error{command, resp.StatusCode, "the answer is not JSON: " + resp.Status}
	}
	for _, v := range envelope {
		content, _ := v.(map[string]any)
		o := Object(content)
		if resp.StatusCode != http.StatusOK || o.Text("errortext") != "" {
			return nil, &Error{command, resp.StatusCode, o.Text("errortext")}
		}
		return o, nil
	}
	return nil, &Error{command, resp.StatusCode, "the answer is empty"}
}
