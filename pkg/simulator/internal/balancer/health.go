// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

var healthCheckRefs = map[string]store.RefKind{"lbruleid": store.RefRule}

// healthCheckView is the object healthcheckpolicies: a rule with its policies, of which there are none.
type healthCheckView struct {
	lbOwnerView
	Policies []struct{} `json:"healthcheckpolicy"`
}

func createLBHealthCheckPolicy(c *wire.Call) (*wire.JobSpec, error) {
	malformed := func(format string, v ...any) error {
		return wire.Errf(wire.CodeMalformed, wire.CSGeneric, format, v...)
	}
	if c.Has("responsetimeout") && c.Has("intervaltime") && c.Integer("responsetimeout") > c.Integer("intervaltime") {
		return nil, malformed("Failed to create HealthCheck policy : Monitor interval must be greater than response timeout")
	}
	r := wire.Arg[*store.LBRule](c, "lbruleid")
	switch {
	case r == nil:
		return nil, malformed("Failed: LB rule id: %d not present ", c.Refs["lbruleid"].ID)
	case !c.Access(r.Owner()):
		return nil, wire.Denied()
	case r.State == store.RuleRevoke:
		return nil, malformed("Failed: LB rule: %s is in deleting state: ", r.Text())
	}
	return nil, malformed("Failed to create HealthCheck policy: Validation Failed (HealthCheck Policy is not supported by LB Provider for the LB rule:%s)", r.Text())
}

// updateLBHealthCheckPolicy gets here only with an internal number: no UUID resolves.
func updateLBHealthCheckPolicy(c *wire.Call) (*wire.JobSpec, error) {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		return nil, wire.Invalid("Fail to find stickiness policy with %d", c.Refs["id"].ID)
	}}, nil
}

func deleteLBHealthCheckPolicy(c *wire.Call) (*wire.JobSpec, error) {
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		return nil, wire.Invalid("Invalid HealthCheck policy id value: %d", c.Refs["id"].ID)
	}}, nil
}

func listLBHealthCheckPolicies(c *wire.Call) (any, error) {
	if !c.Given("lbruleid") && !c.Given("id") {
		return nil, wire.Invalid("Either load balancer rule ID or health check policy ID should be specified")
	}
	r := wire.Arg[*store.LBRule](c, "lbruleid")
	if r == nil {
		return wire.ListAnswer{}, nil
	}
	if !c.Access(r.Owner()) {
		return nil, wire.Denied()
	}
	return wire.Whole("healthcheckpolicies", []*store.LBRule{r}, func(r *store.LBRule) healthCheckView {
		return healthCheckView{lbOwnerView: viewLBOwner(r), Policies: []struct{}{}}
	}), nil
}

// listAutoScaleVMGroups: groups of VMs that scale are not simulated, so there is none.
func listAutoScaleVMGroups(c *wire.Call) (any, error) {
	if _, err := c.OwnerScope(c.ByID()); err != nil {
		return nil, err
	}
	if _, err := c.ReadPaging(); err != nil {
		return nil, err
	}
	return wire.ListAnswer{}, nil
}
