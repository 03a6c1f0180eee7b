// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package event

import corev1 "k8s.io/api/core/v1"

// readyConditions lists the Services with the reason of their condition.
const readyConditions = `kubectl get services -A -o custom-columns='NAMESPACE:.metadata.namespace,NAME:.metadata.name,` +
	`REASON:.status.conditions[?(@.type=="csccm.io/LoadBalancerReady")].reason'`

// OnConditions are the reasons of conditions of Services that are no reason of an Event.
var OnConditions = []Row{
	{
		Reason: Reconciled, When: "the last sync found or made the load balancer as the Service wants it",
		Means: "The address and the rules of the Service are in CloudStack. Whether a Pod answers is another question.",
		See:   []string{readyConditions, PlanService}, Remedy: noRemedy,
	},
	{
		Reason: Waiting, When: "nothing failed, but CloudStack has not finished something that the Service needs",
		Means: "The message names what is waited for. The controller looks again by itself, within seconds or minutes.",
		See:   []string{readyConditions, DescribeService}, Remedy: "none needed, unless the message stays the same for more than ten minutes: then look in CloudStack at the object that it names",
	},
	{
		Reason: CloudStackError, Warning: true, When: "a call to CloudStack failed, and the sync with it; the message has CloudStack's answer",
		Means:  "What was served before is served still. The controller tries again ([when](loadbalancers.md#when-a-failed-service-is-tried-again)); Kubernetes writes the Event `SyncLoadBalancerFailed` with the same text.",
		See:    []string{readyConditions, DescribeService, "csccm doctor --only CS,LB-001"},
		Remedy: "look up the code of the message in [CloudStack's error codes](troubleshooting.md#cloudstacks-error-codes)",
	},
	{
		Reason: corev1.LoadBalancerPortsErrorReason, Warning: true,
		When:  "the condition `LoadBalancerPortsError`: one port is used with two protocols",
		Means: "The Service is refused with [MixedProtocols](runbooks/MixedProtocols.md).", See: []string{DescribeService},
		Remedy: "use two ports, or two Services",
	},
}
