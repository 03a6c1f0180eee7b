// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// Reasons of Events on Nodes.
const (
	ReasonNodeWithoutVM       = "NodeWithoutVM"       // no VM bears the Node's provider ID or name
	ReasonAmbiguousVM         = "AmbiguousVM"         // several VMs bear the Node's name
	ReasonInvalidProviderID   = "InvalidProviderID"   // the provider ID cannot be read
	ReasonNodeDeletionRefused = "NodeDeletionRefused" // the VM is missing, but that is no proof
	ReasonNodeIPNotOnVM       = "NodeIPNotOnVM"       // the kubelet's --node-ip is on no NIC of the VM
	// ReasonInvalidNodeAnnotation: an annotation of the Node cannot be read.
	ReasonInvalidNodeAnnotation = "InvalidAnnotation"
)

// nodeEventPause is how long the same Event is not repeated: the framework asks again every 5 s, and each
// repetition would be a write to the API server.
const nodeEventPause = 10 * time.Minute

// standingAge is how long a state is remembered that nobody asks about any more: the framework asks for the addresses of
// every initialised Node each 5 minutes.
const standingAge = 30 * time.Minute

// nodeEvents writes Events on Nodes, the same one not too often.
type nodeEvents struct {
	recorder record.EventRecorder
	clock    clock.PassiveClock

	mu       sync.Mutex
	sent     map[nodeEvent]time.Time
	standing map[nodeEvent]time.Time // states that are told once, and when they were last found
}

type nodeEvent struct {
	uid             types.UID
	reason, message string
}

func newNodeEvents(r record.EventRecorder, c clock.PassiveClock) *nodeEvents {
	return &nodeEvents{recorder: r, clock: c, sent: map[nodeEvent]time.Time{}, standing: map[nodeEvent]time.Time{}}
}

// warn writes a Warning and tells whether it did; a repetition within nodeEventPause is dropped.
func (e *nodeEvents) warn(n *corev1.Node, reason, message string) bool {
	now, key := e.clock.Now(), nodeEvent{n.UID, reason, message}
	e.mu.Lock()
	for k, at := range e.sent {
		if now.Sub(at) >= nodeEventPause {
			delete(e.sent, k)
		}
	}
	_, again := e.sent[key]
	if !again {
		e.sent[key] = now
	}
	e.mu.Unlock()
	if again {
		return false
	}
	e.recorder.Event(n, corev1.EventTypeWarning, reason, message)
	return true
}

// warnOnce writes a Warning that is not repeated while the state lasts: until ended is called for the Node.
func (e *nodeEvents) warnOnce(n *corev1.Node, reason, message string) {
	now, key := e.clock.Now(), nodeEvent{n.UID, reason, ""} // the message may change while the state does not
	e.mu.Lock()
	for k, at := range e.standing {
		if now.Sub(at) >= standingAge {
			delete(e.standing, k)
		}
	}
	_, again := e.standing[key]
	e.standing[key] = now
	e.mu.Unlock()
	if !again {
		e.recorder.Event(n, corev1.EventTypeWarning, reason, message)
	}
}

// ended forgets the states of a Node that warnOnce was told of.
func (e *nodeEvents) ended(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.standing {
		if k.uid == uid {
			delete(e.standing, k)
		}
	}
}
