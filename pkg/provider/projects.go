// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// projectRefusal turns the failure to use the project that a Service names into a refusal that names the annotation. The
// names of other projects are the operator's business. Other errors it returns unchanged.
func projectRefusal(project string, err error) error {
	if project == "" || !unknownProject(err) {
		return err
	}
	return &plan.RefusalError{
		Reason:  plan.ReasonNoSuchProject,
		Message: fmt.Sprintf("annotation %s names project %q, which does not exist or does not have the controller's user as a member", annotation.Project, project),
		Remedy:  "correct the annotation, or have the user added to the project in CloudStack; the Service is tried again",
	}
}

// unknownProject reports whether CloudStack does not know a project, or does not let its caller in.
func unknownProject(err error) bool {
	if p, ok := errors.AsType[*inventory.ProjectError](err); ok {
		return p.Err == nil
	}
	e, ok := errors.AsType[*cloudstack.Error](err)
	if !ok {
		return false
	}
	switch e.Kind {
	case cloudstack.KindNotFound:
		return strings.Contains(e.Text, "parameter projectid") || strings.Contains(e.Text, "find project by id")
	case cloudstack.KindNotPermitted:
		return strings.Contains(e.Text, "in project [")
	default:
		return false
	}
}
