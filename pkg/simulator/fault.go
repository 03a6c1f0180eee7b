// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"sync"
	"time"
)

// FaultKind says how a call goes wrong.
type FaultKind int

// Kinds of faults.
const (
	// FaultErrorBefore answers an HTTP error; the command has no effect.
	FaultErrorBefore FaultKind = iota + 1
	// FaultLostAnswer lets the command take effect and cuts the connection instead of answering.
	FaultLostAnswer
	// FaultCutBefore cuts the connection before the command has any effect.
	FaultCutBefore
	// FaultJobFails answers normally; the job then ends with errorcode 530.
	FaultJobFails
	// FaultDelay holds the call for Delay before it is looked at.
	FaultDelay
)

// Fault makes calls of one command fail.
type Fault struct {
	Command string // exact name; empty: every command
	Nth     int    // the n-th such call after the injection, from 1; 0: every one
	Kind    FaultKind
	Delay   time.Duration // FaultDelay
	// HTTPStatus and Text are those of FaultErrorBefore (default 530 and the
	// server's generic text); Text is also that of FaultJobFails (default: what
	// the server says when the router refuses).
	HTTPStatus int
	Text       string
}

// jobText is the text of a failed job: the fault's own, else what the server says when the router refuses this job.
func (f *Fault) jobText(refused string) string {
	if f.Text != "" {
		return f.Text
	}
	if refused != "" {
		return refused
	}
	return "Failed by an injected fault"
}

func (f *Fault) apiError() *apiError {
	e := &apiError{status: f.HTTPStatus, cs: csGeneric, text: f.Text}
	if e.status == 0 {
		e.status = codeInternal
	}
	if e.text == "" {
		e.text = internalErrorText
	}
	return e
}

type armedFault struct {
	Fault
	seen int
}

// faultSet holds the armed faults.
type faultSet struct {
	mu    sync.Mutex
	armed []*armedFault
}

// inject arms a fault; remove disarms it.
func (s *faultSet) inject(f Fault) (remove func()) {
	a := &armedFault{Fault: f}
	s.mu.Lock()
	s.armed = append(s.armed, a)
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.armed = slices.DeleteFunc(s.armed, func(o *armedFault) bool { return o == a })
	}
}

// match counts the call for every fault of its command and returns those that strike.
func (s *faultSet) match(command string) []*Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit []*Fault
	for _, a := range s.armed {
		if a.Command != "" && a.Command != command {
			continue
		}
		a.seen++
		if a.Nth == 0 || a.Nth == a.seen {
			f := a.Fault
			hit = append(hit, &f)
		}
	}
	return hit
}

func pick(faults []*Fault, kind FaultKind) *Fault {
	for _, f := range faults {
		if f.Kind == kind {
			return f
		}
	}
	return nil
}
