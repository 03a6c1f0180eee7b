// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import "slices"

// States of a cluster (reference: section 13.3 of the API contract).
const (
	stateRunning = "Running"
	stateStopped = "Stopped"
	stateAlert   = "Alert" // the control plane or the number of nodes is not as it must be
	stateError   = "Error" // it could not be started
)

// inProgress reports whether an operation on the cluster runs.
func inProgress(state string) bool {
	return slices.Contains([]string{
		"Created", "Starting", "Stopping", "Scaling", "ScalingStoppedCluster", "Upgrading", "Importing", "RemovingNodes", "Recovering", "Destroying",
	}, state)
}
