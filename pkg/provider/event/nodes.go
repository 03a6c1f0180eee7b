// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// NodePause is how long the same Event on a Node is not repeated: the framework asks again every 5 s, and each repetition
// would be a write to the API server.
const NodePause = 10 * time.Minute

// stateAge is how long a state is remembered that nobody asks about any more: the framework asks for the addresses of
// every initialised Node each 5 minutes.
const stateAge = 30 * time.Minute

// Nodes writes Events on Nodes, the same one not too often. A nil *Nodes writes none.
type Nodes struct {
	recorder Recorder

	mu   sync.Mutex
	sent *utilcache.Expiring // of nodeEvent
}

// nodeEvent is an Event that was sent; without a message it is one that reports a state.
type nodeEvent struct {
	uid     types.UID
	reason  plan.Reason
	message string
}

// NewNodes returns a writer of Events on Nodes.
func NewNodes(r Recorder, c clock.Clock) *Nodes {
	return &Nodes{recorder: r, sent: utilcache.NewExpiringWithClock(c)}
}

// Warn writes a Warning; a repetition within NodePause is dropped.
func (e *Nodes) Warn(n *corev1.Node, reason plan.Reason, message string) {
	e.warn(n, nodeEvent{n.UID, reason, message}, message)
}

// Tell writes a Normal Event.
func (e *Nodes) Tell(n *corev1.Node, reason plan.Reason, message string) {
	e.recorder.Event(n, corev1.EventTypeNormal, string(reason), message)
}

// WarnOnce writes a Warning that is not repeated while the state lasts, although the message may change: until Ended is
// called for the Node.
func (e *Nodes) WarnOnce(n *corev1.Node, reason plan.Reason, message string) {
	e.warn(n, nodeEvent{uid: n.UID, reason: reason}, message)
}

func (e *Nodes) warn(n *corev1.Node, key nodeEvent, message string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	_, again := e.sent.Get(key)
	switch {
	case key.message == "":
		e.sent.Set(key, nil, stateAge)
	case !again:
		e.sent.Set(key, nil, NodePause)
	}
	e.mu.Unlock()
	if !again {
		e.recorder.Event(n, corev1.EventTypeWarning, string(key.reason), message)
	}
}

// Ended forgets a state of a Node that WarnOnce has reported.
func (e *Nodes) Ended(uid types.UID, reason plan.Reason) {
	if e != nil {
		e.sent.Delete(nodeEvent{uid: uid, reason: reason})
	}
}
