// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"time"
)

// jobText returns the error text of a failed job: that of the fault, or else CloudStack's text for a job that the
// router refuses.
func (f *Fault) jobText(refused string) string {
	if f.Text != "" {
		return f.Text
	}
	if refused != "" {
		return refused
	}
	return "Failed by an injected fault"
}

func (f *Fault) apiError() *apiError {
	e := &apiError{status: f.HTTPStatus, cs: f.CSErrorCode, text: f.Text}
	if e.status == 0 {
		e.status = codeInternal
	}
	if e.cs == 0 && e.status != http.StatusUnauthorized { // a 401 has no cserrorcode
		e.cs = csGeneric
	}
	if e.text == "" {
		e.text = internalErrorText
	}
	return e
}

// refusal returns the error of a call that fails before the server processes it, or nil.
func refusal(faults []*Fault) *apiError {
	if f := pick(faults, FaultErrorBefore); f != nil {
		return f.apiError()
	}
	if f := pick(faults, FaultThrottled); f != nil {
		wait := f.Delay
		if wait == 0 {
			wait = time.Second
		}
		return tooMany(wait)
	}
	if pick(faults, FaultMaintenance) != nil {
		return errf(http.StatusServiceUnavailable, csGeneric, "Maintenance or Shutdown has been initiated on this management server. Can not accept new jobs")
	}
	return nil
}

// never is the run time, in years, of a job that never ends.
const never = 100

// applyFaults applies the faults of the call to the job that it created.
func (c *call) applyFaults(spec *jobSpec, j *job) {
	if f := pick(c.faults, FaultJobFails); f != nil {
		code := f.HTTPStatus
		if code == 0 {
			code = codeInternal
		}
		j.fails(&apiError{status: code, cs: csGeneric, text: f.jobText(spec.refused)})
	}
	if pick(c.faults, FaultRouterRefuses) != nil {
		c.routerRefuses(spec, j)
	}
	if pick(c.faults, FaultJobNeverEnds) != nil {
		j.due = c.now.AddDate(never, 0, 0)
	}
}

// fails makes the job end with an error instead of doing its work.
func (j *job) fails(err *apiError) {
	j.run = func(time.Time) (any, error) { return nil, err }
}

// withoutRouter are commands whose job does not involve the router, or does not report a failure of the router.
var withoutRouter = map[string]bool{"createTags": true, "deleteTags": true, "createNetworkACL": true}

func (c *call) routerRefuses(spec *jobSpec, j *job) {
	name := c.api.Name
	switch {
	case withoutRouter[name]:
		return
	case name == "createLoadBalancerRule" && c.has("openfirewall") && !c.boolean("openfirewall"):
		return // a rule without members is not sent to the router
	case name == "disassociateIpAddress":
		if ip := arg[*publicIP](c, "id"); ip != nil {
			c.refuseRelease(j, ip)
			return
		}
	}
	text := "Unable to apply the change on the virtual router"
	if spec.refused != "" {
		text = spec.refused
	}
	j.fails(errf(codeInternal, csRuntime, "%s", text))
}

// refuseRelease makes a release fail on the router: the address stays in state Releasing and its rules in state
// Deleting until it is released again.
func (c *call) refuseRelease(j *job, ip *publicIP) {
	work := j.run
	j.run = func(now time.Time) (any, error) {
		if ip.state != ipAllocated && ip.state != ipReleasing || ip.sourceNAT || !c.access(ip.owner) {
			return work(now) // refused for a reason other than the fault
		}
		ip.state = ipReleasing
		for _, r := range ip.lbRules {
			r.state = ruleRevoke
		}
		for _, r := range ip.fwRules {
			r.state = ruleRevoke
		}
		return nil, errf(codeInternal, csRuntime, "Failed to disassociate ip address")
	}
}

// unreachable is the error of a synchronous command that the router refuses.
func unreachable() *apiError { return errf(codeUnavailable, csUnavailable, "%s", internalErrorText) }
