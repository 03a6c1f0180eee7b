// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	// eventPause is the time during which the same Event on a Node is not repeated: the framework asks every 5 s, and
	// each repetition would be a write to the API server.
	eventPause = 10 * time.Minute
	// stateAge is how long a reported state is remembered after it was last seen: the framework asks for the addresses
	// of every initialised Node every 5 minutes.
	stateAge = 30 * time.Minute
)

// events writes Events on Nodes without repeating them. It writes none before it has a recorder.
type events struct {
	recorder record.EventRecorder

	mu   sync.Mutex
	sent *utilcache.Expiring // keys are nodeEvent
}

// nodeEvent identifies an Event that was sent; the message is empty for an Event that reports a state.
type nodeEvent struct {
	uid     types.UID
	reason  plan.Reason
	message string
}

func newEvents(c clock.Clock) *events { return &events{sent: utilcache.NewExpiringWithClock(c)} }

// normal writes a Normal Event.
func (e *events) normal(n *corev1.Node, reason plan.Reason, message string) {
	if e.recorder != nil {
		e.recorder.Event(n, corev1.EventTypeNormal, string(reason), message)
	}
}

// warn writes a Warning, unless the same one was written within eventPause.
func (e *events) warn(n *corev1.Node, reason plan.Reason, message string) {
	e.warning(n, nodeEvent{n.UID, reason, message}, message)
}

// warnOnce writes a Warning about a state. It is not repeated until ended is called, even if the message changes.
func (e *events) warnOnce(n *corev1.Node, reason plan.Reason, message string) {
	e.warning(n, nodeEvent{uid: n.UID, reason: reason}, message)
}

func (e *events) warning(n *corev1.Node, key nodeEvent, message string) {
	if e.recorder == nil {
		return
	}
	e.mu.Lock()
	_, again := e.sent.Get(key)
	switch {
	case key.message == "":
		e.sent.Set(key, nil, stateAge)
	case !again:
		e.sent.Set(key, nil, eventPause)
	}
	e.mu.Unlock()
	if !again {
		e.recorder.Event(n, corev1.EventTypeWarning, string(key.reason), message)
	}
}

// ended is called when a state that warnOnce reports no longer holds.
func (e *events) ended(uid types.UID, reason plan.Reason) {
	e.sent.Delete(nodeEvent{uid: uid, reason: reason})
}

// eventError is an error about a Node that an Event reports.
type eventError struct {
	reason plan.Reason
	error
}

// ReasonOf returns the reason of the Event that reports an error about a Node; empty for an error without Event, such
// as one of CloudStack.
func ReasonOf(err error) plan.Reason {
	if e, ok := errors.AsType[*eventError](err); ok {
		return e.reason
	}
	if _, ok := errors.AsType[*NotFoundError](err); ok {
		return ReasonWithoutVM
	}
	return ""
}

// Reasons of Events on Nodes, besides plan.ReasonInvalidAnnotation. ReasonWithoutVM is one of Events on Services, too.
// Package reasons documents them.
const (
	ReasonWithoutVM           plan.Reason = "NodeWithoutVM"
	ReasonAmbiguousVM         plan.Reason = "AmbiguousVM"
	ReasonVMRefused           plan.Reason = "VMRefused"
	ReasonInvalidProviderID   plan.Reason = "InvalidProviderID"
	ReasonIPNotOnVM           plan.Reason = "NodeIPNotOnVM"
	ReasonDeletionRefused     plan.Reason = "NodeDeletionRefused"
	ReasonAdopted             plan.Reason = "NodeAdopted"
	ReasonNotAdopted          plan.Reason = "NodeNotAdopted"
	ReasonOutOfService        plan.Reason = "NodeOutOfService"
	ReasonInService           plan.Reason = "NodeInService"
	ReasonOutOfServiceRefused plan.Reason = "OutOfServiceRefused"
)
