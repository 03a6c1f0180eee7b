// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Reasons of Events that the service controller of Kubernetes writes as well, and that tools look for.
const (
	EnsuringLoadBalancer   plan.Reason = "EnsuringLoadBalancer"
	EnsuredLoadBalancer    plan.Reason = "EnsuredLoadBalancer"
	UpdatedLoadBalancer    plan.Reason = "UpdatedLoadBalancer"
	DeletingLoadBalancer   plan.Reason = "DeletingLoadBalancer"
	DeletedLoadBalancer    plan.Reason = "DeletedLoadBalancer"
	SyncLoadBalancerFailed plan.Reason = "SyncLoadBalancerFailed"
)

// Reasons of Events in addition to those of package plan.
const (
	AmbiguousNode  plan.Reason = "AmbiguousNode"
	ChangesLimited plan.Reason = "ChangesLimited"
	ClassNotServed plan.Reason = "ClassNotServed"
	IgnoredSetting plan.Reason = "IgnoredSetting"
	DryRun         plan.Reason = "DryRun"
	StatusChanged  plan.Reason = "StatusChangedByOthers"
	Orphan         plan.Reason = "OrphanedInCloudStack"
)

// Reasons of the condition of a Service in addition to those of refusals.
const (
	Reconciled      plan.Reason = "Reconciled"
	Waiting         plan.Reason = "Waiting"
	CloudStackError plan.Reason = "CloudStackError"
)

// events writes Events for one Service, each only once. The zero value writes none.
type events struct {
	recorder Recorder
	object   *corev1.Service
	said     map[plan.Notice]bool
}

// notice writes a notice as an Event.
func (e events) notice(n plan.Notice) {
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	if e.recorder != nil && !e.said[n] {
		e.said[n] = true
		e.recorder.Event(e.object, kind, string(n.Reason), n.Message)
	}
}

// note writes a Normal Event.
func (e events) note(reason plan.Reason, message string) {
	e.notice(plan.Notice{Reason: reason, Message: message})
}

// warn writes a Warning Event.
func (e events) warn(reason plan.Reason, message string) {
	e.notice(*plan.Warning(reason, message))
}
