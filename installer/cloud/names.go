// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// ZoneNames returns the names of the zones.
func ZoneNames(ctx context.Context, client *cloudstack.Client) ([]string, error) {
	zones, err := client.ListZones(ctx)
	var names []string
	for i := range zones {
		names = append(names, zones[i].Name)
	}
	return names, err
}

// ProjectNames returns the names of the projects.
func ProjectNames(ctx context.Context, client *cloudstack.Client) ([]string, error) {
	projects, err := client.ListProjects(ctx)
	var names []string
	for i := range projects {
		names = append(names, projects[i].Name)
	}
	return names, err
}
