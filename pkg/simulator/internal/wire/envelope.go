// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
)

// Codes of CloudStack's exceptions: cserrorcode (CS...) and errorcode (Code...).
const (
	CSGeneric         = 9999
	CSRuntime         = 4250
	CSAccountLimit    = 4280
	CSInvalidValue    = 4350
	CSRuleConflict    = 4360
	CSPermission      = 4365
	CSResourceAlloc   = 4370
	csUnavailable     = 4380
	CodeParam         = 431
	CodeUnsupported   = 432
	CodeInternal      = 530
	CodeAccount       = 531
	CodeAccountLimit  = 532
	CodeCapacity      = 533
	codeUnavailable   = 534 // a resource is unreachable, such as a router
	CodeAlloc         = 535
	CodeConflict      = 537
	CodeMalformed     = 430
	InternalErrorText = "Internal error executing command, please contact your system administrator"
	NoAccessText      = "Caller does not have permission to operate with provided resource."
	AuthText          = "unable to verify user credentials and/or request signature"
	SessionText       = "unable to verify user credentials"
)

// Error is an error as the client receives it.
type Error struct {
	Status int // HTTP status and errorcode
	CS     int // cserrorcode; 0 omits it
	Text   string
	Key    string // top-level key of the answer, if it is not the command's
	NoText bool   // omit errortext
	CSZero bool   // send a cserrorcode of 0: an exception that wraps another one
	Job    int    // errorcode inside a job, if it differs from Status
	Plain  bool   // the body is only the text (login by GET)
	About  []UUIDOf
}

func (e *Error) Error() string { return fmt.Sprintf("%d/%d %s", e.Status, e.CS, e.Text) }

// InJob returns the errorcode of a job that fails with the error.
func (e *Error) InJob() int {
	switch {
	case e.Job != 0:
		return e.Job
	case e.Status == CodeParam || e.CS == CSGeneric:
		return e.Status
	}
	return CodeInternal
}

// Errf returns an error with a status, a cserrorcode and a text.
func Errf(status, cs int, format string, v ...any) *Error {
	return &Error{Status: status, CS: cs, Text: fmt.Sprintf(format, v...)}
}

// Invalid returns an InvalidParameterValueException.
func Invalid(format string, v ...any) *Error { return Errf(CodeParam, CSInvalidValue, format, v...) }

// ParamError returns an error of the parameter checks, or an error that the command converts to an API error.
func ParamError(format string, v ...any) *Error { return Errf(CodeParam, CSGeneric, format, v...) }

// Denied returns a PermissionDeniedException.
func Denied() *Error { return Errf(CodeAccount, CSPermission, "%s", NoAccessText) }

// Internal returns an exception whose text only root admins see; other users see a generic text.
func (c *Call) Internal(cs int, format string, v ...any) *Error {
	if c.Caller.RootAdmin() {
		return Errf(CodeInternal, cs, format, v...)
	}
	return Errf(CodeInternal, cs, "%s", InternalErrorText)
}

// Unauthorized returns the error of a request without valid credentials.
func Unauthorized() *Error {
	return &Error{Status: http.StatusUnauthorized, Text: AuthText}
}

// AsAPIError converts any error to an Error. Errors of other types become an internal error (530).
func AsAPIError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Errf(CodeInternal, CSRuntime, "%s", err.Error())
}

// UUIDOf is an object that an error names.
type UUIDOf struct {
	UUID        string `json:"uuid"`
	Description string `json:"description"`
}

// ErrorBody is the JSON of an error, in CloudStack's order of fields.
type ErrorBody struct {
	UUIDList    []UUIDOf `json:"uuidList"`
	ErrorCode   int      `json:"errorcode"`
	CSErrorCode *int     `json:"cserrorcode,omitempty"`
	ErrorText   string   `json:"errortext,omitempty"`
}

// Body returns the object of the answer for the error.
func (e *Error) Body() ErrorBody {
	b := ErrorBody{UUIDList: append([]UUIDOf{}, e.About...), ErrorCode: e.Status, ErrorText: e.Text}
	if e.CS != 0 || e.CSZero {
		b.CSErrorCode = Ptr(e.CS)
	}
	if e.NoText {
		b.ErrorText = ""
	}
	return b
}

// ErrorXML returns an error as XML, for clients that did not request JSON.
func ErrorXML(key string, e *Error) []byte {
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
	add("errorcode", fmt.Sprint(e.Status))
	if e.CS != 0 {
		add("cserrorcode", fmt.Sprint(e.CS))
	}

	add("errortext", e.Text)
	out, err := xml.Marshal(b)
	if err != nil {
		out = []byte("<errorresponse></errorresponse>")
	}

	return append([]byte(`<?xml version="1.0" encoding="UTF-8"?>`), out...)
}

// JobText returns the error text of a failed job: that of the fault, or otherwise CloudStack's text for a change that
// the router refuses.
func JobText(f *fault.Fault, refused string) string {
	if f.Text != "" {
		return f.Text
	}
	if refused != "" {
		return refused
	}
	return "Failed by an injected fault"
}

func apiError(f *fault.Fault) *Error {
	e := &Error{Status: f.HTTPStatus, CS: f.CSErrorCode, Text: f.Text}
	if e.Status == 0 {
		e.Status = CodeInternal
	}
	if e.CS == 0 && e.Status != http.StatusUnauthorized { // a 401 has no cserrorcode
		e.CS = CSGeneric
	}
	if e.Text == "" {
		e.Text = InternalErrorText
	}
	return e
}

// Refusal returns the error of a call that fails before the server processes it, or nil.
func Refusal(faults []*fault.Fault) *Error {
	if f := fault.Pick(faults, fault.ErrorBefore); f != nil {
		return apiError(f)
	}
	if f := fault.Pick(faults, fault.Throttled); f != nil {
		wait := f.Delay
		if wait == 0 {
			wait = time.Second
		}
		return tooMany(wait)
	}
	if fault.Pick(faults, fault.Maintenance) != nil {
		return Errf(http.StatusServiceUnavailable, CSGeneric,
			"Maintenance or Shutdown has been initiated on this management server. Can not accept new jobs")
	}
	return nil
}

// Unreachable returns the error of a synchronous command that the router refuses.
func Unreachable() *Error { return Errf(codeUnavailable, csUnavailable, "%s", InternalErrorText) }
