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

// nodeEvents writes Events on Nodes, the same one not too often.
type nodeEvents struct {
	recorder record.EventRecorder
	clock    clock.PassiveClock

	mu   sync.Mutex
	sent map[nodeEvent]time.Time
}

type nodeEvent struct {
	uid             types.UID
	reason, message string
}

func newNodeEvents(r record.EventRecorder, c clock.PassiveClock) *nodeEvents {
	return &nodeEvents{recorder: r, clock: c, sent: map[nodeEvent]time.Time{}}
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
