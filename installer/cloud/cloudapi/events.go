// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"context"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Event is an entry of CloudStack's event log.
type Event struct {
	ID          string `json:"id"`
	Type        string `json:"type"`  // such as KUBERNETES.CLUSTER.CREATE
	Level       string `json:"level"` // INFO, WARN, ERROR
	State       string `json:"state"` // Created, Scheduled, Started, Completed
	Description string `json:"description"`
	Username    string `json:"username"`
	Created     string `json:"created"` // as the server writes it
}

// EventError is the level of an event about a failure.
const EventError = "ERROR"

// ClusterResource is the resource type of the events of a KubernetesCluster.
const ClusterResource = "KubernetesCluster"

// ListEvents lists the events of a resource, newest first. Servers before 4.17 have no such cloudstack.Params and list others too.
func (c *Client) ListEvents(ctx context.Context, resourceType, resourceID, projectID string) ([]Event, error) {
	f := cloudstack.Params{"resourcetype": resourceType, "resourceid": resourceID}.Set("projectid", projectID)
	return cloudstack.List(ctx, c.Client, "listEvents", "event", f, func(e *Event) string { return e.ID })
}
