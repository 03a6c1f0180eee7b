// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"errors"
	"strconv"
)

// Kind classifies an API failure by what a caller can do about it.
type Kind int

// Kinds of failures. The zero value is the least specific one.
const (
	KindUnknown  Kind = iota
	KindNotFound      // no object has the ID (any more)
	// KindNotPermitted: the role, project role or ownership forbids it (432, 531), or the server has no such command.
	KindNotPermitted
	KindAuth      // keys wrong, expired, disabled (401); password wrong; two-factor authentication required
	KindThrottled // 429: retry later
	KindConflict  // 537: port or rule taken
	KindLimit     // 532, 535: a quota
	KindCapacity  // 533: no free address
	KindInvalid   // 431: a wrong parameter or state; retries do not help
	KindTransient // 503, 534, network errors, 5xx: retry later
	KindJobFailed // an asynchronous job ended in failure
)

var kindNames = [...]string{"Unknown", "NotFound", "NotPermitted", "Auth", "Throttled", "Conflict", "Limit", "Capacity",
	"Invalid", "Transient", "JobFailed"}

// String returns the kind's name for logs and metrics.
func (k Kind) String() string { return kindNames[k] }

// Error is a failed CloudStack call. It never carries keys, signatures or URL queries.
type Error struct {
	Kind     Kind
	Command  string // for example createLoadBalancerRule
	HTTPCode int    // 0 when no answer arrived; a failed job's result code
	CSCode   int    // cserrorcode
	Text     string // the server's errortext, sanitised
	JobID    string // set when a job failed or could not be followed
	// MayHaveHappened is true if the request may have taken effect although no answer arrived.
	MayHaveHappened bool
	Err             error // cause, if any; context errors can be found with errors.Is
}

// ErrJobTimeout is the cause of an *Error about a job that did not end within the configuration's job-timeout. The job
// may still run.
var ErrJobTimeout = errors.New("job has not ended in time")

// IsKind reports whether err is or wraps an *Error of kind k.
func IsKind(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// IsNotFound reports whether the call failed because its object does not exist.
func IsNotFound(err error) bool { return IsKind(err, KindNotFound) }

func (e *Error) Unwrap() error { return e.Err }

// Error names the command, the server's text and codes, and the job.
func (e *Error) Error() string {
	text := "cloudstack"
	if e.Command != "" {
		text += " " + e.Command
	}
	text += ": " + cmp.Or(e.Text, "failed without a reason given")

	if e.HTTPCode != 0 {
		text += " (code " + strconv.Itoa(e.HTTPCode)
		if e.CSCode != 0 {
			text += "/" + strconv.Itoa(e.CSCode)
		}
		text += ")"
	}
	if e.JobID != "" {
		text += " (job " + e.JobID + ")"
	}
	if e.MayHaveHappened {
		text += "; it may have taken effect"
	}
	return text
}
