// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// ProjectError means that the configured project was not found or could not be looked up.
type ProjectError struct {
	Project string   // as in the cloud-config
	Known   []string // names of the projects that the key's user belongs to
	Err     error    // the error of listProjects, if it failed
}

func (e *ProjectError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("project-id %q is a name, and the projects cannot be listed to find its id (give the id instead): %v", e.Project, e.Err)
	case len(e.Known) == 0:
		return fmt.Sprintf("project %q not found: the API key's user belongs to no project", e.Project)
	default:
		return fmt.Sprintf("project %q not found: the API key's user belongs to %s", e.Project, strings.Join(e.Known, ", "))
	}
}

// Unwrap returns the error of listProjects, or a *cloudstack.Error of KindNotFound if the list lacks the project.
func (e *ProjectError) Unwrap() error {
	if e.Err == nil {
		return &cloudstack.Error{Kind: cloudstack.KindNotFound, Command: "listProjects", Text: "no project " + e.Project}
	}
	return e.Err
}

// ProjectID returns the ID of the configured project, or "" if none is configured. An error is a *ProjectError and
// is not cached: the next call tries again.
func (i *Inventory) ProjectID(ctx context.Context) (string, error) {
	p := i.options.ProjectID
	if p == "" {
		return "", nil
	}
	if _, err := uuid.Parse(p); err == nil && len(p) == 36 {
		return p, nil
	}
	r, err := i.project.get(ctx, time.Duration(math.MaxInt64))
	if err != nil {
		return "", err
	}
	return r.value, nil
}

func (i *Inventory) fetchProject(ctx context.Context) (string, error) {
	projects, err := i.api.ListProjects(ctx)
	i.fetched("projects", err)
	if err != nil {
		return "", &ProjectError{Project: i.options.ProjectID, Err: err}
	}
	var known []string
	for n := range projects {
		if projects[n].Name == i.options.ProjectID {
			return projects[n].ID, nil
		}
		known = append(known, fmt.Sprintf("%q", projects[n].Name))
	}
	// Without an exact match ignore letter case, as the server does.
	at := slices.IndexFunc(projects, func(p cloudstack.Project) bool { return strings.EqualFold(p.Name, i.options.ProjectID) })
	if at >= 0 {
		return projects[at].ID, nil
	}
	slices.Sort(known)
	return "", &ProjectError{Project: i.options.ProjectID, Known: known}
}

func (i *Inventory) scope(projectID string) Scope {
	return Scope{Project: i.options.ProjectID, ProjectID: projectID, Zone: i.options.Zone}
}

// Scope returns the configured project and zone.
func (i *Inventory) Scope() Scope { return i.scope("") }
