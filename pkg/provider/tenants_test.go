// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

var (
	tenantSteps = flag.Int("tenants.steps", 0, "steps of TestTenants (default 5000, 500 with -short)")
	tenantSeed  = flag.Uint64("tenants.seed", 1, "seed of TestTenants; 0 is a new one")
)

// episodeSteps is the number of steps in one environment. Short episodes make a failure quick to repeat.
const episodeSteps = 200

// episodeResult is how an episode ended.
type episodeResult struct {
	seed       uint64
	actions    []string // done, the last one with violations if there are any
	violations []violation
	syncs      int // of the attacker's Services, without an error
}

// episode runs until a violation. Every third seed's role may not tag. guard is taken out of the controller.
func episode(t *testing.T, seed uint64, steps int, guard plan.Guard) episodeResult {
	t.Helper()
	out := episodeResult{seed: seed}
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
		one := episode(t, seed, min(episodeSteps, steps-done), "")
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

// guards are the checks that separate tenants: those of plan.Guard and the operator's policy. Each can be
// disabled alone.
var guards = append([]plan.Guard{guardTenancy}, plan.Guards()...)

const guardTenancy plan.Guard = "tenancy"

// unguard disables a guard of the controller; none for an empty name.
func unguard(d *loadBalancerDeps, guard plan.Guard) {
	switch guard {
	case "":
	case guardTenancy:
		d.Tenancy = tenancy.Policy{}
	default:
		d.Unguarded = map[plan.Guard]bool{guard: true}
	}
}

// findingSeeds are seeds that find a violation without a guard; for the others seed 1 does. They save time alone: where one
// finds nothing any more, the test tries all from 1, and logs which to write here.
var findingSeeds = map[plan.Guard]uint64{
	guardTenancy: 2, "kept": 2, "source-nat": 2, "foreign-address": 2, "forwards": 6, "keep-limit": 7, "predecessor": 19, "tags": 55, "leaseweb": 56,
}

// Each guard is needed: without it a run finds a violation. The seeds are fixed, so the number of steps is always the same.
func TestTenantsFindsAMissingGuard(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes many steps")
	}
	const most = 60_000
	for _, guard := range guards {
		parallel(t, string(guard), func(t *testing.T) {
			for next, done := uint64(0), 0; done < most; next++ {
				seed := next
				if next == 0 {
					seed = cmp.Or(findingSeeds[guard], 1)
				}
				one := episode(t, seed, episodeSteps, guard)
				done += len(one.actions)
				if len(one.violations) > 0 {
					t.Logf("guard removed -> steps until found: %-24s %6d  (%s, seed %d)", guard, done, one.violations[0].kind, seed)
					return
				}
			}
			t.Errorf("without the guard %s nothing is found in %d steps", guard, most)
		})
	}
}
