// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Limits of requests.
const (
	maxHead = 8192    // Jetty: request line and headers, in bytes
	maxForm = 1 << 20 // Jetty: form body, in bytes
	MaxKeys = 5000
)

// Param is one parameter as sent, with decoded name and value.
type Param struct{ Name, Value string }

// Request is a parsed API request. It has the merged parameters twice: as sent (for the signature) and by lower-case
// name.
type Request struct {
	Raw     []Param
	Values  map[string]string
	Command string
	JSON    bool
	Post    bool
}

// ParseRequest merges the query string and the form body. A parameter in the query takes precedence over the body. Of
// duplicates, the last one in the query and the first one in the body count.
func ParseRequest(r *http.Request) (*Request, *Error) {
	if uri := len(r.Method) + len(r.RequestURI) + len(" HTTP/1.1\r\n"); uri > maxHead {
		return nil, &Error{Status: http.StatusRequestURITooLong, Text: "URI Too Long", Plain: true}
	} else if uri+headerSize(r) > maxHead {
		return nil, &Error{
			Status: http.StatusRequestHeaderFieldsTooLarge,
			Text:   "Request Header Fields Too Large",
			Plain:  true,
		}
	}

	seen := map[string]int{}
	var ps []Param
	for _, p := range splitPairs(r.URL.RawQuery) {
		if i, ok := seen[p.Name]; ok {
			ps[i].Value = p.Value
			continue
		}
		seen[p.Name] = len(ps)
		ps = append(ps, p)
	}

	if r.Method == http.MethodPost &&
		strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
		if err != nil {
			return nil, &Error{Status: http.StatusBadRequest, Text: "unable to read the request body", Plain: true}
		}
		pairs := splitPairs(string(body))
		if len(body) > maxForm || len(pairs) > MaxKeys {
			return nil, &Error{Status: http.StatusBadRequest, Text: "Unable to parse form content", Plain: true}
		}
		for _, p := range pairs {
			if _, ok := seen[p.Name]; !ok {
				seen[p.Name] = len(ps)
				ps = append(ps, p)
			}
		}
	}

	req := &Request{Raw: ps, Values: make(map[string]string, len(ps)), Post: r.Method == http.MethodPost}
	for _, p := range ps {
		switch p.Name {
		case "command": // the name is case-sensitive
			req.Command = p.Value
		case "response":
			req.JSON = strings.EqualFold(p.Value, "json")
		}
		req.Values[strings.ToLower(p.Name)] = p.Value
	}

	return req, nil
}

// AsSent returns the value of the parameter with exactly this name, including case.
func (r *Request) AsSent(name string) (string, bool) {
	for _, p := range r.Raw {
		if p.Name == name {
			return p.Value, true
		}
	}
	return "", false
}

func headerSize(r *http.Request) int {
	n := 0
	for k, vs := range r.Header {
		for _, v := range vs {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

// splitPairs decodes name=value pairs. Values that cannot be decoded are kept as they are.
func splitPairs(s string) []Param {
	if s == "" {
		return nil
	}
	parts := strings.Split(s, "&")
	ps := make([]Param, 0, len(parts))
	for _, part := range parts {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		ps = append(ps, Param{Name: unescape(name), Value: unescape(value)})
	}
	return ps
}

func unescape(s string) string {
	if v, err := url.QueryUnescape(s); err == nil {
		return v
	}
	return s
}

// SecretParams are never recorded in the ledger or logged.
var SecretParams = map[string]bool{
	"signature": true, "apikey": true, "secretkey": true, "password": true, "sessionkey": true, "userapikey": true,
	"usersecretkey": true, "currentpassword": true, "privatekey": true, "token": true, "dockerregistrypassword": true,
}
