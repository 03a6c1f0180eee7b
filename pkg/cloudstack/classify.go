// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// codeInternal is CloudStack's code for all errors that have no code of their own.
const codeInternal = 530

// errorBody is the inner object of a failed answer.
type errorBody struct {
	ErrorCode int    `json:"errorcode"`
	CSCode    int    `json:"cserrorcode"`
	Text      string `json:"errortext"`
}

// Texts that classify errors for which CloudStack has no codes.
const (
	textNoEntity    = "entity does not exist"
	textNoProject   = "Unable to find project by id"
	textProjectRole = "either does not exist, is not available for user"
)

// TextTwoFactor is the error of a login with a password if the user has two-factor authentication.
const TextTwoFactor = "two-factor authentication is on for this user, which csccm does not support: use API keys " +
	"(calls with keys do not need it)"

// errorFromAnswer returns the *Error for an HTTP answer that is not a success. body is the whole answer. The caller
// must sanitize the text.
func errorFromAnswer(command string, status int, body []byte) *Error {
	e := &Error{Command: command, HTTPCode: status}
	wrap, inner := unwrap(body)
	var eb errorBody
	if inner == nil || json.Unmarshal(inner, &eb, decoding) != nil {
		e.Kind, e.Text = classifyForeign(status, body)
		return e
	}

	e.CSCode, e.Text = eb.CSCode, eb.Text
	e.Kind = classify(command, status, eb.Text)
	switch {
	case status == http.StatusUnauthorized && wrap == "errorresponse":
		// A server answers 401 to signed calls of a command that it does not know. Only the wrapper differs from the
		// answer to wrong keys.
		e.Kind, e.Text = KindNotPermitted, "the server does not know this command"
	case status == http.StatusNetworkAuthenticationRequired:
		e.Text = TextTwoFactor
	}

	return e
}

// unwrap returns the only member of a JSON object, if that is an object itself, and its name; nil for anything else.
// The name cannot be derived from the command, because some commands have irregular ones.
func unwrap(body []byte) (string, jsontext.Value) {
	var m map[string]jsontext.Value
	if json.Unmarshal(body, &m, decoding) != nil || len(m) != 1 {
		return "", nil
	}
	for name, inner := range m {
		if len(inner) > 0 && inner[0] == '{' {
			return name, inner
		}
	}
	return "", nil
}

// wraps reports whether the beginning of an answer looks like an object that unwrap accepts.
func wraps(begin []byte) bool {
	open := bytes.IndexByte(begin, ':')
	return open >= 0 &&
		bytes.HasPrefix(bytes.TrimLeft(begin, " \r\n\t"), []byte("{")) &&
		bytes.HasPrefix(bytes.TrimLeft(begin[open+1:], " \r\n\t"), []byte("{"))
}

// classify maps a CloudStack error code to what a caller can do about it.
func classify(command string, code int, text string) Kind {
	switch code {
	case http.StatusUnauthorized:
		if strings.Contains(text, textProjectRole) {
			return KindNotPermitted
		}
		return KindAuth

	case http.StatusNetworkAuthenticationRequired: // 511
		return KindAuth
	case http.StatusBadRequest, http.StatusMethodNotAllowed, 430:
		return KindInvalid
	case http.StatusTooManyRequests:
		return KindThrottled
	case 431:
		if strings.Contains(text, textNoEntity) || strings.Contains(text, textNoProject) {
			return KindNotFound
		}
		return KindInvalid

	case 432:
		return KindNotPermitted
	case 531:
		if command == commandLogin {
			return KindAuth
		}
		return KindNotPermitted

	case 532, 535:
		return KindLimit
	case 533:
		return KindCapacity
	case 537:
		return KindConflict
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, 534:
		return KindTransient
	}

	return KindUnknown // 530, for example, which the server uses for transient and permanent failures
}

// classifyForeign returns kind and text of an answer that is not CloudStack's JSON: a web page, a proxy's error, an
// empty body.
func classifyForeign(status int, body []byte) (Kind, string) {
	trimmed := bytes.TrimSpace(body)
	what := "an answer that is not JSON"
	switch {
	case len(trimmed) == 0:
		what = "an empty answer"
	case bytes.HasPrefix(trimmed, []byte("<?xml")):
		what = "XML"
	case trimmed[0] == '<':
		what = "a web page (HTML)"
	}

	if status >= 500 {
		return KindTransient,
			fmt.Sprintf("got %s with HTTP status %d: the management server or a proxy in front of it is not ready",
				what, status)
	}

	if status >= 300 && status < 400 {
		return KindInvalid,
			fmt.Sprintf("got a redirect (HTTP status %d) in place of the API: is api-url right? It usually ends in %s",
				status, apiPath)
	}

	return KindInvalid, fmt.Sprintf("got %s in place of the API: is api-url right? It usually ends in %s", what,
		apiPath)
}

var throttleDelay = regexp.MustCompile(`retry after \[(\d+)\] ?ms`)

// delayFromText returns the time to wait from the text of a 429; there is no header for it.
func delayFromText(text string) time.Duration {
	m := throttleDelay.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	ms, _ := strconv.ParseInt(m[1], 10, 32)
	return time.Duration(ms) * time.Millisecond
}
