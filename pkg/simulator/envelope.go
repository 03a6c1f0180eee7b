// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Codes of CloudStack's exceptions: cserrorcode (cs...) and errorcode (code...).
const (
	csGeneric         = 9999
	csRuntime         = 4250
	csAccountLimit    = 4280
	csInvalidValue    = 4350
	csRuleConflict    = 4360
	csPermission      = 4365
	csResourceAlloc   = 4370
	csUnavailable     = 4380
	codeParam         = 431
	codeUnsupported   = 432
	codeInternal      = 530
	codeAccount       = 531
	codeAccountLimit  = 532
	codeCapacity      = 533
	codeUnavailable   = 534 // a resource is unreachable, such as a router
	codeAlloc         = 535
	codeConflict      = 537
	codeMalformed     = 430
	internalErrorText = "Internal error executing command, please contact your system administrator"
	noAccessText      = "Caller does not have permission to operate with provided resource."
	authText          = "unable to verify user credentials and/or request signature"
	sessionText       = "unable to verify user credentials"
)

// apiError is an error as the client receives it.
type apiError struct {
	status int // HTTP status and errorcode
	cs     int // cserrorcode; 0 omits it
	text   string
	key    string // top-level key of the answer, if not that of the command
	noText bool   // omit errortext
	csZero bool   // send a cserrorcode of 0: an exception that wraps another one
	job    int    // errorcode inside a job, if it differs from status
	plain  bool   // the body is only the text (login by GET)
}

func (e *apiError) Error() string { return fmt.Sprintf("%d/%d %s", e.status, e.cs, e.text) }

// inJob returns the errorcode of a job that fails with the error.
func (e *apiError) inJob() int {
	switch {
	case e.job != 0:
		return e.job
	case e.status == codeParam || e.cs == csGeneric:
		return e.status
	}
	return codeInternal
}

func errf(status, cs int, format string, v ...any) *apiError {
	return &apiError{status: status, cs: cs, text: fmt.Sprintf(format, v...)}
}

// invalid returns an InvalidParameterValueException.
func invalid(format string, v ...any) *apiError { return errf(codeParam, csInvalidValue, format, v...) }

// paramError returns an error of the parameter checks, or one that the command throws again as an API error.
func paramError(format string, v ...any) *apiError { return errf(codeParam, csGeneric, format, v...) }

// denied returns a PermissionDeniedException.
func denied() *apiError { return errf(codeAccount, csPermission, "%s", noAccessText) }

// internal returns an exception whose text only root admins see; other users see a generic text.
func (c *call) internal(cs int, format string, v ...any) *apiError {
	if c.caller.rootAdmin() {
		return errf(codeInternal, cs, format, v...)
	}
	return errf(codeInternal, cs, "%s", internalErrorText)
}

func unauthorized() *apiError {
	return &apiError{status: http.StatusUnauthorized, text: authText}
}

// asAPIError converts any error to an apiError. Other types become an internal error (530).
func asAPIError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	return errf(codeInternal, csRuntime, "%s", err.Error())
}

// errorBody is the JSON of an error, with CloudStack's order of members.
type errorBody struct {
	UUIDList    []struct{} `json:"uuidList"`
	ErrorCode   int        `json:"errorcode"`
	CSErrorCode *int       `json:"cserrorcode,omitempty"`
	ErrorText   string     `json:"errortext,omitempty"`
}

func (e *apiError) body() errorBody {
	b := errorBody{UUIDList: []struct{}{}, ErrorCode: e.status, ErrorText: e.text}
	if e.cs != 0 || e.csZero {
		b.CSErrorCode = ptr(e.cs)
	}
	if e.noText {
		b.ErrorText = ""
	}
	return b
}

// errorXML returns an error as XML, for clients that did not request JSON.
func errorXML(key string, e *apiError) []byte {
	type member struct {
		XMLName xml.Name
		Value   string `xml:",chardata"`
	}
	type body struct {
		XMLName xml.Name
		Members []member
	}
	b := body{XMLName: xml.Name{Local: key}}
	add := func(name, v string) {
		b.Members = append(b.Members, member{XMLName: xml.Name{Local: name}, Value: v})
	}
	add("errorcode", fmt.Sprint(e.status))
	if e.cs != 0 {
		add("cserrorcode", fmt.Sprint(e.cs))
	}
	add("errortext", e.text)
	out, err := xml.Marshal(b)
	if err != nil {
		out = []byte("<errorresponse></errorresponse>")
	}
	return append([]byte(`<?xml version="1.0" encoding="UTF-8"?>`), out...)
}

// timestamp is a time in CloudStack's format, such as 2025-01-31T12:34:56+0000.
type timestamp time.Time

// MarshalJSON implements json.Marshaler.
func (t timestamp) MarshalJSON() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, `"2006-01-02T15:04:05+0000"`), nil
}

func stamp(t time.Time) *timestamp {
	if t.IsZero() {
		return nil
	}
	v := timestamp(t)
	return &v
}

func ptr[T any](v T) *T { return &v }
