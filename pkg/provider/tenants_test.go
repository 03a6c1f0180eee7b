// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/tenancy"
)

var (
	tenantSteps = flag.Int("tenants.steps", 0, "steps of TestTenants (default 5000, 500 with -short)")
	tenantSeed  = flag.Uint64("tenants.seed", 1, "seed of TestTenants; 0 is a new one")
)

// episodeSteps is the number of steps in one environment. Short episodes make failures quick to reproduce.
const episodeSteps = 200

// episodeResult is how an episode ended.
type episodeResult struct {
	actions    []string // in order; violations are those of the last action
	violations []violation
	syncs      int // of the attacker's Services, without an error
}

// episode runs steps until a violation. With every third seed, the role may not set tags. The controller runs without
// the check that guard names.
func episode(t *testing.T, seed uint64, steps int, guard missingGuard) (out episodeResult) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // in a bubble, jobs take no time
		r := newTenantRun(t, guard, seed%3 == 0)
		random := rand.New(rand.NewPCG(seed, 0))
		for range steps {
			a := r.next(random)
			out.actions = append(out.actions, fmt.Sprintf("%4d  %s", len(out.actions)+1, a.text))
			if out.violations = r.step(a); len(out.violations) > 0 {
				break
			}
		}
		out.syncs = r.syncs
	})
	return out
}

// An attacker who may write Services in one namespace, except their status, harms no other namespace.
func TestTenants(t *testing.T) {
	t.Parallel()
	steps, seed := *tenantSteps, *tenantSeed
	if steps == 0 {
		if steps = 5000; testing.Short() {
			steps = 500
		}
	}

	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}

	t.Logf("seed %d, %d steps", seed, steps)
	syncs := 0
	for done := 0; done < steps; seed++ {
		one := episode(t, seed, min(episodeSteps, steps-done), missingGuard{})
		done += len(one.actions)
		syncs += one.syncs
		if len(one.violations) > 0 {
			last := one.actions[max(0, len(one.actions)-20):]
			t.Fatalf("step %d, %d in all: %v\nagain with -tenants.seed=%d -tenants.steps=%d\nthe last %d actions:\n%s",
				len(one.actions), done, one.violations, seed, len(one.actions), len(last), strings.Join(last, "\n"))
		}
	}

	if *tenantSteps == 0 && syncs < steps/50 {
		t.Errorf("the tenant was served %d times in %d steps, which shows little", syncs, steps)
	}
}

// missingGuard disables one of the checks that separate tenants, or what the check relies on. The product has no switch
// for that, so the controller gets another policy, other answers of CloudStack, or other Services.
type missingGuard struct {
	name   string
	policy func(*tenancy.Policy)
	api    func(observe.Reader) observe.Reader
	// service changes the copy of a Service that the controller sees.
	service func(*corev1.Service)
	seed    uint64 // finds a violation; if it no longer does, the test tries all seeds from 1
}

var missingGuards = []missingGuard{
	{name: "tenancy", policy: func(p *tenancy.Policy) { *p = tenancy.Policy{} }, seed: 2},
	{name: "source-nat", policy: func(p *tenancy.Policy) { p.SourceNATAddress = tenancy.Rule{} }, seed: 2},
	{name: "foreign-address", policy: func(p *tenancy.Policy) { p.ForeignAddress = tenancy.Rule{} }, seed: 2},
	{name: "keep-limit", policy: func(p *tenancy.Policy) { p.Limits.KeepIP.MaxPerNamespace = nil }, seed: 7},
	{name: "forwards", api: func(r observe.Reader) observe.Reader { return noForwards{r} }, seed: 6},
	{name: "tags", api: func(r observe.Reader) observe.Reader { return noAddressTags{r} }, seed: 55},
	{
		name: "first-owner",
		api:  func(r observe.Reader) observe.Reader { return noTagsByHand{r} },
		service: func(s *corev1.Service) {
			if text := s.Annotations[annotation.Addresses]; text != "" {
				annotate(annotation.Addresses, strings.ReplaceAll(text, `"guestOf":"victim"`, `"guestOf":""`))(s)
			}
		},
	},
	{name: "sharing", service: func(s *corev1.Service) {
		if s.Annotations[annotation.ShareWith] == "" {
			annotate(annotation.ShareWith, "*")(s)
		}
	}},
}

// noForwards hides port forwardings; noAddressTags hides the tags of addresses.
type noForwards struct{ observe.Reader }

func (noForwards) ListPortForwardings(
	context.Context, cloudstack.PortForwardingQuery,
) ([]cloudstack.PortForwarding, error) {
	return nil, nil
}

type noAddressTags struct{ observe.Reader }

func (n noAddressTags) ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error) {
	list, err := n.Reader.ListPublicIPs(ctx, q)
	for i := range list {
		list[i].Tags = nil
	}
	return list, err
}

// noTagsByHand hides the tags of byHandIP.
type noTagsByHand struct{ observe.Reader }

func (n noTagsByHand) ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error) {
	list, err := n.Reader.ListPublicIPs(ctx, q)
	for i := range list {
		if list[i].Address == byHandIP {
			list[i].Tags = nil
		}
	}
	return list, err
}

// apply disables the guard.
func (g missingGuard) apply(env *serviceEnv, d *service.Deps) {
	if g.policy != nil {
		g.policy(&d.Tenancy)
	}
	if g.api != nil {
		d.API.Reader = g.api(d.API.Reader)
	}
	env.lies = g.service
}

// Each guard is necessary: without it, a run finds a violation. The seeds are fixed, so the number of steps is always
// the same.
func TestTenantsFindsAMissingGuard(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes many steps")
	}

	const most = 60_000
	for _, guard := range missingGuards {
		parallel(t, guard.name, func(t *testing.T) {
			for next, done := uint64(0), 0; done < most; next++ {
				seed := next
				if next == 0 {
					seed = cmp.Or(guard.seed, 1)
				}
				one := episode(t, seed, episodeSteps, guard)
				done += len(one.actions)
				if len(one.violations) > 0 {
					t.Logf("guard removed -> steps until found: %-24s %6d  (%s, seed %d)", guard.name, done,
						one.violations[0].kind, seed)
					return
				}
			}
			t.Errorf("without the guard %s nothing is found in %d steps", guard.name, most)
		})
	}
}
