// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package event holds the tables of the controller's Events and conditions, and writes Events on Services and Nodes.
package event

import "github.com/csccm/csccm/pkg/loadbalancer/plan"

//go:generate go test . -run Docs -update-docs

// Reasons of Events besides those of package loadbalancer.
const (
	AmbiguousNode       plan.Reason = "AmbiguousNode"
	IgnoredSetting      plan.Reason = "IgnoredSetting"
	DryRun              plan.Reason = "DryRun"
	Orphan              plan.Reason = "OrphanedInCloudStack"
	NodeWithoutVM       plan.Reason = "NodeWithoutVM"
	AmbiguousVM         plan.Reason = "AmbiguousVM"
	InvalidProviderID   plan.Reason = "InvalidProviderID"
	NodeDeletionRefused plan.Reason = "NodeDeletionRefused"
	NodeIPNotOnVM       plan.Reason = "NodeIPNotOnVM"
	InvalidAnnotation   plan.Reason = "InvalidAnnotation"
	NodeAdopted         plan.Reason = "NodeAdopted"
	NodeNotAdopted      plan.Reason = "NodeNotAdopted"
	NodeOutOfService    plan.Reason = "NodeOutOfService"
	NodeInService       plan.Reason = "NodeInService"
	OutOfServiceRefused plan.Reason = "OutOfServiceRefused"
)

// Reasons of the condition of a Service besides those of refusals.
const (
	Reconciled      plan.Reason = "Reconciled"
	Waiting         plan.Reason = "Waiting"
	CloudStackError plan.Reason = "CloudStackError"
)

// Row documents one reason. Links in its texts start at the folder docs.
type Row struct {
	Reason  plan.Reason
	Warning bool
	// Condition says that the condition of the Service has the reason, too: the Service is refused, or nobody is served.
	Condition bool
	When      string
	// Means says what follows for clients, Pods and CloudStack.
	Means string
	// See are command lines besides those that show each Event of the kind.
	See    []string
	Remedy string
}

// Command lines for many reasons.
const (
	DescribeService = "kubectl describe service -n NAMESPACE NAME"
	PlanService     = "csccm plan NAMESPACE/NAME"
)

const (
	noRemedy       = "none needed"
	nothingChanged = "Nothing was changed in CloudStack; what was served before is served still."
)
