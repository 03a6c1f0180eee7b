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

	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/test/internal/must"
)

// need is a feature or right that not every cloud, or not every user, has.
type need string

// The needs.
const (
	needRoot        need = "a root administrator's credentials"
	needInternalLB  need = "a tier offering with internal load balancing (provider InternalLbVm)"
	needCertificate need = "the right to upload certificates"
)

// scenario is something that users do, with the check of the result.
type scenario struct {
	name, at string // at is the kind of the place
	need     need
	// bare scenarios need a cluster without a controller.
	bare bool
	// trusted scenarios use annotations that tenants may not use.
	trusted bool
	run     func(*env) (seen string)
}

// scenarioLimit bounds a scenario. Slow routers need most of it.
const scenarioLimit = 15 * time.Minute

// Names returns the names of all scenarios.
func Names() []string {
	var all []string
	for _, s := range scenarios() {
		all = append(all, s.name)
	}
	return all
}

// firstOf are the first scenarios of the second and of the third part. On the simulator, each part takes about three
// minutes.
var firstOf = []string{"isolated network: VMs stopped, destroyed and expunged", "VPC tier: install by keys"}

// older are the scenarios, all in one network, that depend on features that an older CloudStack lacks or implements
// differently.
var older = []string{"a Service comes", "algorithm", "PROXY", "source ranges", "ports added", "stickiness",
	"external traffic", "what is refused", "address changed", "migrate-rules"}

// Select returns the names of the scenarios that match the texts: names, parts of names, or "older". If part is not 0,
// it returns one of three parts of all scenarios.
func Select(only []string, part int) ([]string, error) {
	all := Names()
	switch {
	case part < 0 || part > len(firstOf)+1:
		return nil, fmt.Errorf("--third: %d is not 1, 2 or 3", part)
	case part > 0 && len(only) > 0:
		return nil, errors.New("--third and --only: give one")
	case part > 0:
		at := []int{0, slices.Index(all, firstOf[0]), slices.Index(all, firstOf[1]), len(all)}
		return all[at[part-1]:at[part]], nil // #nosec G602 -- part is 1, 2 or 3
	case len(only) == 0:
		return all, nil
	}

	if slices.Equal(only, []string{"older"}) {
		only = nil
		for _, name := range older {
			only = append(only, "isolated network: "+name)
		}
	}

	var chosen []string
	for _, text := range only {
		found := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.Contains(name, text) })
		if len(found) == 0 {
			return nil, fmt.Errorf("--only: no scenario has %q in its name; --list shows them", text)
		}
		chosen = append(chosen, found...)
	}

	return chosen, nil
}

// Scenarios runs the scenarios with these names, in the order of scenarios().
func (r *Run) Scenarios(ctx context.Context, names []string) []Result {
	var results []Result
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

// one runs one scenario and returns its result.
func (r *Run) one(ctx context.Context, s *scenario) Result {
	x := Result{Name: s.name, Verdict: passed}
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	begun, mark := time.Now(), r.proxy.Mark()
	err := must.Catch(func() {
		r.able(s)
		p := r.at(ctx, s.at)
		begun, mark = time.Now(), r.proxy.Mark()
		x.Seen = r.inPlace(ctx, p, s)
	})
	x.Took, x.Calls = time.Since(begun), len(r.proxy.Since(mark))
	if reason, skip := errors.AsType[cannotError](err); skip {
		x.Verdict, x.Seen = unable, reason.Error()
	} else if err != nil {
		x.Verdict, x.Seen = failed, err.Error()
	}
	return x
}

// inPlace runs a scenario in its cluster and checks that it leaves nothing in CloudStack.
func (r *Run) inPlace(ctx context.Context, p *place, s *scenario) (seen string) {
	e := &env{place: p, ctx: ctx, namespace: namespaceOf(s)}
	switch {
	case s.bare && p.installed:
		e.uninstall()
	case !s.bare && !p.installed:
		e.install(byRoot)
	}

	before := e.addresses()
	e.makeNamespace()
	errs := []error{must.Catch(func() { seen = s.run(e) })}
	e.ctx = context.WithoutCancel(ctx)
	for _, f := range slices.Backward(e.late) {
		errs = append(errs, must.Catch(f))
	}

	e.ctx = ctx
	if p.installed {
		errs = append(errs, must.Catch(e.removeAll))
	}

	must.OK(errors.Join(errs...))
	e.until("the scenario's addresses to be released", func() {
		after := e.addresses()
		maps.DeleteFunc(after, func(ip, _ string) bool { return before[ip] != "" })
		must.Be(len(after) == 0, "%v are left", after)
	})

	return seen
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func namespaceOf(s *scenario) string {
	if s.trusted {
		return trusted
	}
	name := "cloud-" + strings.Trim(notInNames.ReplaceAllString(strings.ToLower(s.name), "-"), "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// able ends a scenario that this cloud or these credentials do not support.
func (r *Run) able(s *scenario) {
	w := r.world
	deploy := w.May["deployVirtualMachine"] &&
		w.May["createNetwork"] &&
		w.Offers.ServiceOffering != "" &&
		w.Offers.Template != ""

	can(deploy, "no VM can be deployed (service offering %q, template %q)", w.Offers.ServiceName, w.Offers.TemplateName)
	can(s.at != isolated || w.Offers.Isolated != "",
		"no offering of isolated networks with a virtual router as load balancer")
	can(s.at != vpc || w.Offers.VPC != "" && w.Offers.Tier != "",
		"no VPC offering, or no offering of tiers with load balancing")
	can(s.at != project || w.May["createProject"], "the role may not make projects")
	has := map[need]bool{
		"":              true,
		needRoot:        w.Root,
		needInternalLB:  w.Offers.InternalTier != "",
		needCertificate: w.May["uploadSslCert"],
	}

	can(has[s.need], "needs %s", s.need)
}

// cannotError is the reason why this cloud does not support a scenario.
type cannotError string

func (e cannotError) Error() string { return string(e) }

// can ends a scenario as not supported unless the condition holds.
func can(holds bool, format string, a ...any) {
	if !holds {
		must.OK(cannotError(fmt.Sprintf(format, a...)))
	}
}

// The images of the other providers.
const (
	apacheImage   = "apache/cloudstack-kubernetes-provider:v1.2.0"
	leasewebImage = "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1"
)

// scenarios returns all scenarios in the order in which they run. Those of one place follow each other. Their names
// start with the place.
func scenarios() []scenario {
	// Services behave the same in every kind of network.
	services := []scenario{
		played("a Service comes and goes"),
		played("algorithm and session affinity"),
		played("PROXY protocol"),
		played("source ranges"),
		played("ports added and removed"),
		played("stickiness"),
		played("hostname"),
		played("external traffic policy Local"),
		played("node selector and labels"),
		{name: "network, zone and project named", trusted: true, run: placeNamed},
		{name: "what is refused", run: refused},
		{name: "certificate", trusted: true, need: needCertificate, run: certificate},
		// Ownership and release of addresses.
		played("address of the account"),
		played("shared and kept address"),
		played("address changed live"),
		// Counts calls, and compares durations with those of calls by hand.
		{name: "calls and seconds of 10 ports", run: budgets},
	}

	// Changes by others in CloudStack.
	drifts := []scenario{{name: "drift of each kind", run: drift}}
	removals := []scenario{{name: "uninstall", run: uninstalled}}
	in := func(place string, all ...[]scenario) []scenario {
		list := slices.Concat(all...)
		for i := range list {
			list[i].at, list[i].name = place, place+": "+list[i].name
		}
		return list
	}

	// Each place is installed with another kind of credentials.
	return slices.Concat(
		in(isolated, []scenario{
			{
				name: "install by a domain administrator's login",
				need: needRoot,
				bare: true,
				run:  installBy(byDomainAdmin),
			},
			{
				name: "install by a root administrator's login, after uninstall",
				need: needRoot,
				bare: true,
				run:  installBy(byRoot),
			},
		}, services, drifts, []scenario{
			{name: "VMs stopped, destroyed and expunged", need: needRoot, run: nodeLife},
			{name: "two network interfaces", trusted: true, run: twoNICs},
			{name: "rotate-keys", need: needRoot, run: rotateKeys},
			{name: "migrate-rules and its undo", run: migrate},
			{name: "every tenth call fails, every tenth answer is lost", run: faults},
			{name: "killed with the answer of each call lost", run: crashPoints},
			// API calls recreate recorded states of the providers in use today; the providers themselves do not run.
			{
				name: "takeover from upstream v1.2.0",
				bare: true,
				run:  takeover(leftby.Apache, apacheImage, "external-cloudstack"),
			},
			{
				name: "takeover from Leaseweb v1.8.1",
				bare: true,
				run:  takeover(leftby.Leaseweb, leasewebImage, "cloudstack"),
			},
		}, removals, []scenario{
			{name: "load balancers left at uninstall, cleaned up by the next install", run: orphans},
		}),
		in(vpc, []scenario{{name: "install by keys", bare: true, run: installBy(byKeys)}}, services, []scenario{
			{name: "internal load balancer", trusted: true, need: needInternalLB, run: internal},
		}, drifts, removals),
		in(project, []scenario{
			{
				name: "install into a project, with an account made for it",
				need: needRoot,
				bare: true,
				run:  installBy(byRoot),
			},
		}, services, drifts, removals),
	)
}
