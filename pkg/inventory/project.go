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

// ProjectError says that the configured project cannot be used.
type ProjectError struct {
	Project string   // as in the cloud-config
	Known   []string // names of the projects that the key's user belongs to
	Err     error    // why the projects could not be listed, if so
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

// Unwrap is why the projects could not be listed, or a *cloudstack.Error of KindNotFound: they could, and it is not there.
func (e *ProjectError) Unwrap() error {
	if e.Err == nil {
		return &cloudstack.Error{Kind: cloudstack.KindNotFound, Command: "listProjects", Text: "no project " + e.Project}
	}
	return e.Err
}

// ProjectID is the id of the configured project; it is empty when none is configured. A failure is a
// *ProjectError and is tried again at the next call.
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
	i.metrics.fetched("projects", err)
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
	// The server compares names without case; so does this, when no name fits to the letter.
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

// Scope is where this inventory looks, as configured.
func (i *Inventory) Scope() Scope { return i.scope("") }
