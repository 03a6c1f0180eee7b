// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

var (
	tenantSteps  = flag.Int("tenants.steps", 0, "steps of TestTenants (default 10000, 500 with -short)")
	tenantSeed   = flag.Uint64("tenants.seed", 1, "seed of TestTenants; 0 is a new one")
	tenantIgnore = flag.String("tenants.ignore", "", "kinds of violations that TestTenants goes on after, comma separated; * for all")
)

// episodeSteps is the number of steps in one environment. Short episodes make a failure quick to repeat.
const episodeSteps = 200

// episodeResult is how an episode ended.
type episodeResult struct {
	seed       uint64
	actions    []action // done, the last one with violations if there are any
	violations []violation
	syncs      int // of the attacker's Services, without an error
}

// kindsFound are the kinds of violations.
func kindsFound(v []violation) []string {
	var out []string
	for _, x := range v {
		out = append(out, x.kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// runKind says what an episode is about.
type runKind struct {
	guard  string // taken out of the controller
	honest bool   // the attacker means no harm
	noTags bool   // the role may not tag
}

// roleOf makes every third seed's role one that may not tag.
func (k runKind) roleOf(seed uint64) runKind {
	k.noTags = seed%3 == 0
	return k
}

// episode runs until a violation that stop accepts.
func episode(t *testing.T, seed uint64, steps int, kind runKind, stop func([]violation) bool) episodeResult {
	t.Helper()
	out := episodeResult{seed: seed}
	r := newTenantRun(t, kind.roleOf(seed))
	random := rand.New(rand.NewPCG(seed, 0))
	for range steps {
		a := r.next(random)
		out.actions = append(out.actions, a)
		if found := r.step(a); len(found) > 0 && stop(found) {
			out.violations = found
			break
		}
	}
	out.syncs = r.syncs
	return out
}

// replay does the actions in a new world. It returns how many were done until the same kind of violation appeared.
func replay(t *testing.T, seed uint64, actions []action, kind string) (int, bool) {
	t.Helper()
	r := newTenantRun(t, runKind{}.roleOf(seed))
	for i, a := range actions {
		for _, v := range r.step(a) {
			if v.kind == kind {
				return i + 1, true
			}
		}
	}
	return 0, false
}

// shrink leaves out actions that a violation does not need: ever smaller parts, and only as long as tries last.
func shrink(t *testing.T, seed uint64, actions []action, kind string) []action {
	t.Helper()
	tries := 60
	for size := (len(actions) + 1) / 2; size > 0 && tries > 0; size /= 2 {
		for from := 0; from+size < len(actions) && tries > 0; {
			tries--
			fewer := slices.Concat(actions[:from], actions[from+size:])
			if n, ok := replay(t, seed, fewer, kind); ok {
				actions = fewer[:n]
				continue
			}
			from += size
		}
	}
	return actions
}

func texts(actions []action) string {
	var b strings.Builder
	for i, a := range actions {
		fmt.Fprintf(&b, "\n%4d  %s", i+1, a.text)
	}
	return b.String()
}

// An attacker who may write Services in one namespace, except their status, harms no other namespace.
func TestTenants(t *testing.T) {
	t.Parallel()
	steps, seed := *tenantSteps, *tenantSeed
	if steps == 0 {
		if steps = 10_000; testing.Short() {
			steps = 500
		}
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("seed %d, %d steps", seed, steps)
	seen := map[string]int{}
	stop := func(found []violation) bool {
		for _, kind := range kindsFound(found) {
			if *tenantIgnore != "*" && !slices.Contains(strings.Split(*tenantIgnore, ","), kind) {
				return true
			}
		}
		return false
	}
	for done := 0; done < steps; {
		one := episode(t, seed, min(episodeSteps, steps-done), runKind{}, func(found []violation) bool {
			for _, kind := range kindsFound(found) {
				if _, before := seen[kind]; !before {
					seen[kind] = done
				}
			}
			return stop(found)
		})
		done += len(one.actions)
		if len(one.violations) > 0 {
			kind := one.violations[0].kind
			last := one.actions[max(0, len(one.actions)-20):]
			short := shrink(t, seed, one.actions, kind)
			t.Fatalf("seed %d, step %d of the episode, %d in all: %v\nagain with -tenants.seed=%d -tenants.steps=%d\nthe last %d actions:%s\nenough to repeat %q:%s",
				seed, len(one.actions), done, one.violations, seed, len(one.actions), len(last), texts(last), kind, texts(short))
		}
		seed++
	}
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("ignored: %s, first seen in the %d steps up to step %d", kind, episodeSteps, seen[kind]+episodeSteps)
	}
}

// The checks find no violation if the tenant is well-meaning.
func TestTenantsAcceptsHonestTenants(t *testing.T) {
	t.Parallel()
	syncs := 0
	for seed := range uint64(3) {
		one := episode(t, seed, 150, runKind{honest: true}, func([]violation) bool { return true })
		if len(one.violations) > 0 {
			t.Fatalf("seed %d: %v:%s", seed, one.violations, texts(one.actions))
		}
		syncs += one.syncs
	}
	if syncs < 50 {
		t.Errorf("the tenant was served %d times in 450 steps, which shows little", syncs)
	}
}

// guards are the checks that separate tenants: those of plan.Guard and the operator's policy. Each can be
// disabled alone.
var guards = func() []string {
	out := []string{guardTenancy}
	for _, g := range plan.Guards() {
		out = append(out, string(g))
	}
	return out
}()

const guardTenancy = "tenancy"

// unguard disables a guard of the controller; none for an empty name.
func unguard(d *loadBalancerDeps, guard string) {
	switch guard {
	case "":
	case guardTenancy:
		d.Tenancy = &tenancy.Policy{}
	default:
		d.Unguarded = map[plan.Guard]bool{plan.Guard(guard): true}
	}
}

// Each guard is needed: without it a run finds a violation. The seed is fixed, so the number of steps is always the same.
func TestTenantsFindsAMissingGuard(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes many steps")
	}
	const most = 60_000
	for _, guard := range guards {
		parallel(t, guard, func(t *testing.T) {
			for seed, done := uint64(1), 0; done < most; seed++ {
				one := episode(t, seed, episodeSteps, runKind{guard: guard}, func([]violation) bool { return true })
				done += len(one.actions)
				if len(one.violations) > 0 {
					t.Logf("guard removed -> steps until found: %-24s %6d  (%s)", guard, done, one.violations[0].kind)
					return
				}
			}
			t.Errorf("without the guard %s nothing is found in %d steps", guard, most)
		})
	}
}
