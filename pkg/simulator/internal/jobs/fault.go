// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// never is the run time, in years, of a job that never ends.
const never = 100

// applyFaults applies the faults of the call to the job that it created.
func applyFaults(c *wire.Call, spec *wire.JobSpec, j *store.Job) {
	if f := fault.Pick(c.Faults, fault.JobFails); f != nil {
		code := f.HTTPStatus
		if code == 0 {
			code = wire.CodeInternal
		}
		fails(spec, j, &wire.Error{Status: code, CS: wire.CSGeneric, Text: wire.JobText(f, spec.Refused)})
	}
	if fault.Pick(c.Faults, fault.RouterRefuses) != nil {
		routerRefuses(c, spec, j)
	}
	if fault.Pick(c.Faults, fault.RouterLoses) != nil {
		work := j.Run
		j.Run = func(now time.Time) (any, error) {
			result, err := work(now)
			if err == nil {
				c.St.Lose(cmp.Or(spec.ObjectID, c.Str("id")))
			}
			return result, err
		}
	}
	if fault.Pick(c.Faults, fault.JobNeverEnds) != nil {
		j.Steps, j.Last = nil, c.Now.AddDate(never, 0, 0).Sub(c.Now)
	}
}

// fails makes the job end with an error instead of doing its work.
func fails(spec *wire.JobSpec, j *store.Job, err *wire.Error) {
	if len(spec.Steps) > 0 {
		j.Last, j.Steps = j.Remaining(), nil
	}
	j.Run = func(time.Time) (any, error) { return nil, err }
}

// withoutRouter are commands whose job does not involve the router, or does not report a failure of the router.
var withoutRouter = map[string]bool{
	"createTags": true, "deleteTags": true, "createNetworkACL": true,
	"createKubernetesCluster": true, // its step that creates the rules fails instead
}

func routerRefuses(c *wire.Call, spec *wire.JobSpec, j *store.Job) {
	name := c.API.Name
	switch {
	case withoutRouter[name]:
		return
	case name == "createLoadBalancerRule" && c.Has("openfirewall") && !c.Boolean("openfirewall"):
		return // a rule without members is not sent to the router
	case name == "disassociateIpAddress":
		if ip := wire.Arg[*store.PublicIP](c, "id"); ip != nil {
			refuseRelease(c, j, ip)
			return
		}
	}
	text := "Unable to apply the change on the virtual router"
	if spec.Refused != "" {
		text = spec.Refused
	}
	fails(spec, j, wire.Errf(wire.CodeInternal, wire.CSRuntime, "%s", text))
}

// refuseRelease makes a release fail on the router.
func refuseRelease(c *wire.Call, j *store.Job, ip *store.PublicIP) {
	work := j.Run
	j.Run = func(now time.Time) (any, error) {
		if ip.State != store.IPAllocated && ip.State != store.IPReleasing || ip.SourceNAT || !c.Access(ip.Owner) {
			return work(now) // refused for a reason other than the fault
		}
		ip.ReleaseRefused()
		return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to disassociate ip address")
	}
}
