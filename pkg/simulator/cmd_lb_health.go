// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

var healthCheckRefs = map[string]refKind{"lbruleid": refRule}

// healthCheckView is the object healthcheckpolicies: a rule with its policies, of which there are none.
type healthCheckView struct {
	lbOwnerView
	Policies []struct{} `json:"healthcheckpolicy"`
}

func createLBHealthCheckPolicy(c *call) (*jobSpec, error) {
	malformed := func(format string, v ...any) error { return errf(codeMalformed, csGeneric, format, v...) }
	if c.has("responsetimeout") && c.has("intervaltime") && c.integer("responsetimeout") > c.integer("intervaltime") {
		return nil, malformed("Failed to create HealthCheck policy : Monitor interval must be greater than response timeout")
	}
	r := arg[*lbRule](c, "lbruleid")
	switch {
	case r == nil:
		return nil, malformed("Failed: LB rule id: %d not present ", c.refs["lbruleid"].id)
	case !c.access(r.owner()):
		return nil, denied()
	case r.state == ruleRevoke:
		return nil, malformed("Failed: LB rule: %s is in deleting state: ", r.text())
	}
	return nil, malformed("Failed to create HealthCheck policy: Validation Failed (HealthCheck Policy is not supported by LB Provider for the LB rule:%s)", r.text())
}

// updateLBHealthCheckPolicy gets here only with an internal number: no UUID resolves.
func updateLBHealthCheckPolicy(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		return nil, invalid("Fail to find stickiness policy with %d", c.refs["id"].id)
	}}, nil
}

func deleteLBHealthCheckPolicy(c *call) (*jobSpec, error) {
	return &jobSpec{run: func(time.Time) (any, error) {
		return nil, invalid("Invalid HealthCheck policy id value: %d", c.refs["id"].id)
	}}, nil
}

func listLBHealthCheckPolicies(c *call) (any, error) {
	if !c.given("lbruleid") && !c.given("id") {
		return nil, invalid("Either load balancer rule ID or health check policy ID should be specified")
	}
	r := arg[*lbRule](c, "lbruleid")
	if r == nil {
		return listAnswer{}, nil
	}
	if !c.access(r.owner()) {
		return nil, denied()
	}
	return whole("healthcheckpolicies", []*lbRule{r}, func(r *lbRule) healthCheckView {
		return healthCheckView{lbOwnerView: viewLBOwner(r), Policies: []struct{}{}}
	}), nil
}

// listAutoScaleVMGroups: groups of VMs that scale are not simulated, so there is none.
func listAutoScaleVMGroups(c *call) (any, error) {
	if _, err := c.ownerScope(c.byID()); err != nil {
		return nil, err
	}
	if _, err := c.readPaging(); err != nil {
		return nil, err
	}
	return listAnswer{}, nil
}
