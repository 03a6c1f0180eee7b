// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/test/cloud/outcome"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/internal/must"
)

// need is something that not every cloud, or not every user, has.
type need string

// The needs.
const (
	needAdmin       need = "a root administrator's credentials"
	needExpunge     need = "a root administrator, who may expunge VMs"
	needInternalLB  need = "a tier offering with internal load balancing (provider InternalLbVm)"
	needCertificate need = "the right to upload certificates"
)

// scenario is one thing that users do, and what must come of it.
type scenario struct {
	name string
	// at is the place; empty is one that needs no cluster.
	at    string
	needs []need
	// bare scenarios want a cluster without a controller.
	bare bool
	// trusted scenarios use annotations that tenants may not use.
	trusted bool
	run     func(*env) (seen string)
}

// scenarioLimit is for slow routers.
const scenarioLimit = 15 * time.Minute

// Names are those of all scenarios.
func Names() []string {
	var all []string
	for _, s := range scenarios() {
		all = append(all, s.name)
	}
	return all
}

// firstOf are the scenarios at which the second and the third part begin. On the simulator each part takes some three minutes.
var firstOf = []string{"isolated network: VMs stopped, destroyed and expunged", "VPC tier: install by keys"}

// third returns one of three parts of all scenarios: 1, 2 or 3.
func third(n int) []string {
	all := Names()
	at := []int{0, slices.Index(all, firstOf[0]), slices.Index(all, firstOf[1]), len(all)}
	return all[at[n-1]:at[n]]
}

// older are the scenarios, all in one network, in which an older CloudStack lacks something or behaves differently.
var older = []string{"a Service comes", "algorithm", "PROXY", "source ranges", "ports added", "stickiness", "external traffic", "what is refused",
	"address changed", "migrate-rules"}

// Select returns the names that texts ask for: whole names, parts of them, or "older"; or one of three parts of all, unless it is 0.
func Select(only []string, part int) ([]string, error) {
	switch {
	case part < 0 || part > len(firstOf)+1:
		return nil, fmt.Errorf("--third: %d is not 1, 2 or 3", part)
	case part > 0 && len(only) > 0:
		return nil, errors.New("--third and --only: give one")
	case part > 0:
		return third(part), nil
	}
	if slices.Equal(only, []string{"older"}) {
		only = nil
		for _, name := range older {
			only = append(only, "isolated network: "+name)
		}
	}
	var chosen []string
	for _, text := range only {
		found := slices.DeleteFunc(Names(), func(name string) bool { return !strings.Contains(name, text) })
		if len(found) == 0 {
			return nil, fmt.Errorf("--only: no scenario has %q in its name; --list shows them", text)
		}
		chosen = append(chosen, found...)
	}
	if len(only) == 0 {
		return Names(), nil
	}
	return chosen, nil
}

// Scenarios runs those of the names, in their order in the table.
func (r *Run) Scenarios(ctx context.Context, names []string) []outcome.Result {
	var results []outcome.Result
	for _, s := range scenarios() {
		if !slices.Contains(names, s.name) {
			continue
		}
		if ctx.Err() != nil {
			return results
		}
		r.only(s.at)
		x := r.one(ctx, &s)
		results = append(results, x)
		r.Say("%-6s %s (%s, %d calls) %s", x.Verdict, x.Name, x.Took.Round(100*time.Millisecond), x.Calls, x.Seen)
	}
	return results
}

// one runs one scenario.
func (r *Run) one(ctx context.Context, s *scenario) outcome.Result {
	x := outcome.Result{Name: s.name, Verdict: outcome.Passed}
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	begun, mark := time.Now(), r.proxy.Mark()
	var err error
	if err = r.able(s); err == nil {
		var p *place
		if p, err = r.at(ctx, s.at); err == nil {
			begun, mark = time.Now(), r.proxy.Mark()
			x.Seen, err = r.inPlace(ctx, p, s)
		}
	}
	x.Took, x.Calls = time.Since(begun), len(r.proxy.Since(mark, proxy.Product))
	if reason, skip := errors.AsType[*cannotError](err); skip {
		x.Verdict, x.Seen = outcome.Cannot, reason.Error()
	} else if err != nil {
		x.Verdict, x.Seen = outcome.Failed, err.Error()
	}
	return x
}

// inPlace runs a scenario in its cluster, and sees to it that it leaves nothing in CloudStack.
func (r *Run) inPlace(ctx context.Context, p *place, s *scenario) (seen string, err error) {
	e := &env{place: p, ctx: ctx, namespace: namespaceOf(s)}
	var before map[string]string
	if err := must.Catch(func() {
		switch {
		case s.bare && p.installed:
			e.uninstall()
		case !s.bare && !p.installed:
			e.install(byRoot)
		}
		before = e.addresses()
		e.makeNamespace()
	}); err != nil {
		return "", fmt.Errorf("before the scenario: %w", err)
	}
	errs := []error{must.Catch(func() { seen = s.run(e) })}
	e.ctx = context.WithoutCancel(ctx)
	for _, f := range slices.Backward(e.late) {
		errs = append(errs, must.Catch(f))
	}
	e.ctx = ctx
	if p.installed {
		errs = append(errs, must.Catch(e.removeAll))
	}
	if err := errors.Join(errs...); err != nil {
		return seen, err
	}
	return seen, must.Catch(func() {
		e.until("the scenario's addresses to be released", func() {
			after := e.addresses()
			maps.DeleteFunc(after, func(ip, _ string) bool { return before[ip] != "" })
			must.Be(len(after) == 0, "%v are left", after)
		})
	})
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func namespaceOf(s *scenario) string {
	if s.trusted {
		return trusted
	}
	name := "cloud-" + strings.Trim(notInNames.ReplaceAllString(strings.ToLower(s.name), "-"), "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// able returns why a scenario cannot be done on this cloud with these credentials, or nil.
func (r *Run) able(s *scenario) error {
	w := r.world
	switch {
	case !w.Can.Deploy || w.Offers.ServiceOffering == "" || w.Offers.Template == "":
		return cannot("no VM can be deployed (service offering %q, template %q)", w.Offers.ServiceName, w.Offers.TemplateName)
	case s.at == isolated && w.Offers.Isolated == "":
		return cannot("no offering of isolated networks with a virtual router as load balancer")
	case s.at == vpc && (w.Offers.VPC == "" || w.Offers.Tier == ""):
		return cannot("no VPC offering, or no offering of tiers with load balancing")
	case s.at == project && !w.Can.Projects:
		return cannot("the role may not make projects")
	}
	for _, n := range s.needs {
		has := map[need]bool{
			needAdmin: w.Can.Admin, needExpunge: w.Can.Expunge, needInternalLB: w.Offers.InternalTier != "", needCertificate: w.Can.Certificates,
		}
		if !has[n] {
			return cannot("needs %s", n)
		}
	}
	return nil
}
