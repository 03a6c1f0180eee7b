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

// Codes of CloudStack's exceptions (cserrorcode).
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
	codeUnavailable   = 534 // a resource that cannot be reached, such as a router
	codeAlloc         = 535
	codeConflict      = 537
	codeMalformed     = 430
	internalErrorText = "Internal error executing command, please contact your system administrator"
	noAccessText      = "Caller does not have permission to operate with provided resource."
	authText          = "unable to verify user credentials and/or request signature"
	sessionText       = "unable to verify user credentials"
)

// apiError is an error as a client sees it.
type apiError struct {
	status int // HTTP status = errorcode
	cs     int // cserrorcode; 0 leaves the member out
	text   string
	key    string // envelope key, if it is not that of the command
	noText bool   // errortext left out
	csZero bool   // cserrorcode is 0, and sent: an exception that wraps another one
	job    int    // errorcode inside a job, if it differs from status
	plain  bool   // the body is the text alone (login by GET)
}

func (e *apiError) Error() string { return fmt.Sprintf("%d/%d %s", e.status, e.cs, e.text) }

// inJob is the errorcode of the error when a job ends with it.
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

// invalid is an InvalidParameterValueException.
func invalid(format string, v ...any) *apiError { return errf(codeParam, csInvalidValue, format, v...) }

// paramError is an error of the parameter phase, or one that the command re-throws as API error.
func paramError(format string, v ...any) *apiError { return errf(codeParam, csGeneric, format, v...) }

// denied is a PermissionDeniedException.
func denied() *apiError { return errf(codeAccount, csPermission, "%s", noAccessText) }

// internal is an exception that normal users see only as the generic text.
func (c *call) internal(cs int, format string, v ...any) *apiError {
	if c.caller.rootAdmin() {
		return errf(codeInternal, cs, format, v...)
	}
	return errf(codeInternal, cs, "%s", internalErrorText)
}

func unauthorized() *apiError {
	return &apiError{status: http.StatusUnauthorized, text: authText}
}

// asAPIError turns any error into one for the wire; an unknown one is a 530.
func asAPIError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	return errf(codeInternal, csRuntime, "%s", err.Error())
}

// errorBody is the JSON of an error; the order of its members is the server's.
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

// errorXML renders an error for clients that did not ask for JSON.
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

// timestamp renders a time as CloudStack does: 2025-01-31T12:34:56+0000.
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
