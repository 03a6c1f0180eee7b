// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// NodePause is how long the same Event on a Node is not repeated: the framework asks again every 5 s, and each repetition
// would be a write to the API server.
const NodePause = 10 * time.Minute

// stateAge is how long a state is remembered that nobody asks about any more: the framework asks for the addresses of
// every initialised Node each 5 minutes.
const stateAge = 30 * time.Minute

// Nodes writes Events on Nodes, the same one not too often.
type Nodes struct {
	recorder record.EventRecorder
	clock    clock.PassiveClock

	mu     sync.Mutex
	sent   map[nodeEvent]time.Time
	states map[nodeEvent]time.Time // states that are reported once, and when they were last found
}

type nodeEvent struct {
	uid     types.UID
	reason  plan.Reason
	message string
}

// NewNodes returns a writer of Events on Nodes.
func NewNodes(r record.EventRecorder, c clock.PassiveClock) *Nodes {
	return &Nodes{recorder: r, clock: c, sent: map[nodeEvent]time.Time{}, states: map[nodeEvent]time.Time{}}
}

// Warn writes a Warning; a repetition within NodePause is dropped.
func (e *Nodes) Warn(n *corev1.Node, reason plan.Reason, message string) {
	now, key := e.clock.Now(), nodeEvent{n.UID, reason, message}
	e.mu.Lock()
	maps.DeleteFunc(e.sent, func(_ nodeEvent, at time.Time) bool { return now.Sub(at) >= NodePause })
	_, again := e.sent[key]
	if !again {
		e.sent[key] = now
	}
	e.mu.Unlock()
	if !again {
		e.recorder.Event(n, corev1.EventTypeWarning, string(reason), message)
	}
}

// WarnOnce writes a Warning that is not repeated while the state lasts: until Ended is called for the Node.
func (e *Nodes) WarnOnce(n *corev1.Node, reason plan.Reason, message string) {
	now, key := e.clock.Now(), nodeEvent{n.UID, reason, ""} // the message may change while the state does not
	e.mu.Lock()
	maps.DeleteFunc(e.states, func(_ nodeEvent, at time.Time) bool { return now.Sub(at) >= stateAge })
	_, again := e.states[key]
	e.states[key] = now
	e.mu.Unlock()
	if !again {
		e.recorder.Event(n, corev1.EventTypeWarning, string(reason), message)
	}
}

// Ended forgets the states of a Node.
func (e *Nodes) Ended(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.states, func(k nodeEvent, _ time.Time) bool { return k.uid == uid })
}
