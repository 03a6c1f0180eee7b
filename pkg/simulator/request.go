// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

const (
	maxHead = 8192    // in bytes; Jetty: request line and headers
	maxForm = 1 << 20 // Jetty: form body in bytes
	maxKeys = 5000
)

// param is one parameter as sent, with decoded name and value.
type param struct{ name, value string }

// request is a parsed API request. It has the merged parameters in raw form (for the signature) and by lower-case
// name.
type request struct {
	raw     []param
	values  map[string]string
	command string
	json    bool
	post    bool
}

// parseRequest merges query string and form body. A parameter in the query takes precedence over the body. Of
// duplicates, the last counts in the query, the first in the body.
func parseRequest(r *http.Request) (*request, *apiError) {
	if uri := len(r.Method) + len(r.RequestURI) + len(" HTTP/1.1\r\n"); uri > maxHead {
		return nil, &apiError{status: http.StatusRequestURITooLong, text: "URI Too Long", plain: true}
	} else if uri+headerSize(r) > maxHead {
		return nil, &apiError{status: http.StatusRequestHeaderFieldsTooLarge, text: "Request Header Fields Too Large", plain: true}
	}
	seen := map[string]int{}
	var ps []param
	for _, p := range splitPairs(r.URL.RawQuery) {
		if i, ok := seen[p.name]; ok {
			ps[i].value = p.value
			continue
		}
		seen[p.name] = len(ps)
		ps = append(ps, p)
	}
	if r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
		if err != nil {
			return nil, &apiError{status: http.StatusBadRequest, text: "unable to read the request body", plain: true}
		}
		pairs := splitPairs(string(body))
		if len(body) > maxForm || len(pairs) > maxKeys {
			return nil, &apiError{status: http.StatusBadRequest, text: "Unable to parse form content", plain: true}
		}
		for _, p := range pairs {
			if _, ok := seen[p.name]; !ok {
				seen[p.name] = len(ps)
				ps = append(ps, p)
			}
		}
	}
	req := &request{raw: ps, values: make(map[string]string, len(ps)), post: r.Method == http.MethodPost}
	for _, p := range ps {
		switch p.name {
		case "command": // the name is case-sensitive
			req.command = p.value
		case "response":
			req.json = strings.EqualFold(p.value, "json")
		}
		req.values[strings.ToLower(p.name)] = p.value
	}
	return req, nil
}

// asSent returns the value of the parameter with exactly this name, including case.
func (r *request) asSent(name string) (string, bool) {
	for _, p := range r.raw {
		if p.name == name {
			return p.value, true
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

// splitPairs decodes name=value pairs; values that cannot be decoded stay unchanged.
func splitPairs(s string) []param {
	if s == "" {
		return nil
	}
	parts := strings.Split(s, "&")
	ps := make([]param, 0, len(parts))
	for _, part := range parts {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		ps = append(ps, param{name: unescape(name), value: unescape(value)})
	}
	return ps
}

func unescape(s string) string {
	if v, err := url.QueryUnescape(s); err == nil {
		return v
	}
	return s
}

// secretParams are never recorded in the ledger or logged.
var secretParams = map[string]bool{
	"signature": true, "apikey": true, "secretkey": true, "password": true, "sessionkey": true, "userapikey": true,
	"usersecretkey": true, "currentpassword": true, "privatekey": true, "token": true, "dockerregistrypassword": true,
}
