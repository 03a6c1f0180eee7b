// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
)

// JobText returns the error text of a failed job: that of the fault, or else CloudStack's text for a job that the
// router refuses.
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
		return Errf(http.StatusServiceUnavailable, CSGeneric, "Maintenance or Shutdown has been initiated on this management server. Can not accept new jobs")
	}
	return nil
}

// Unreachable is the error of a synchronous command that the router refuses.
func Unreachable() *Error { return Errf(codeUnavailable, csUnavailable, "%s", InternalErrorText) }
