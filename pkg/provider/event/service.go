// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Recorder is what is used of a record.EventRecorder.
type Recorder interface {
	Event(object runtime.Object, kind, reason, message string)
}

// Service writes Events on one Service. The zero value writes none.
type Service struct {
	Recorder Recorder
	Object   *corev1.Service
}

// Notice writes a notice as an Event.
func (e Service) Notice(n plan.Notice) {
	if e.Recorder == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	e.Recorder.Event(e.Object, kind, string(n.Reason), n.Message)
}

// Warn writes a Warning.
func (e Service) Warn(reason plan.Reason, message string) {
	e.Notice(plan.Notice{Warning: true, Reason: reason, Message: message})
}
