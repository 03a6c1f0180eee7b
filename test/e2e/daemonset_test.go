// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDaemonSet installs as a DaemonSet, changes it, and removes it.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	env := newClusterEnv(t, nil)
	env.join(t, cp1, worker1, joined(worker2))
	env.balanced(t, "web", 80)
	out, code := env.csccm(t, adminPassword+"\n", installArgs(env, append([]string{"--set", "kind=DaemonSet"}, everyNode...)...)...)
	if code != 0 || !strings.Contains(out, "3 running") {
		t.Fatalf("csccm install ended with %d:\n%s", code, out)
	}
	env.runs(t, "DaemonSet", cp1.Name, worker1.Name, worker2.Name)
	env.initialized(t, cp1.Name, worker1.Name, worker2.Name)
	env.wantRules(t, env.address(t, "web"), "80:demo-worker-1,demo-worker-2")
	env.content(t, "DaemonSet")

	before := env.controllerPods(t)
	if out, code = env.csccm(t, "", "upgrade", "--yes", "--set", "logVerbosity=4"); code != 0 || !strings.Contains(out, "3 running") {
		t.Fatalf("csccm upgrade ended with %d:\n%s", code, out)
	}
	env.runs(t, "DaemonSet", cp1.Name, worker1.Name, worker2.Name)
	for _, pod := range env.controllerPods(t) {
		if slices.Contains(before, pod) {
			t.Errorf("%s was not replaced", pod)
		}
	}
	// No node is one that it may run on, which is said at once.
	out, code = env.csccm(t, "", "upgrade", "--yes", "--set-string", "nodeSelector.no-such=label")
	if code == 0 || !strings.Contains(out, "no node") {
		t.Errorf("a DaemonSet for no node: csccm upgrade ended with %d:\n%s", code, out)
	}
	if out, code = env.csccm(t, "", "rollback", "--yes"); code != 0 {
		t.Errorf("csccm rollback ended with %d:\n%s", code, out)
	}
	env.runs(t, "DaemonSet", cp1.Name, worker1.Name, worker2.Name)
	if out, code = env.csccm(t, "", "uninstall", "--yes", "--orphan-load-balancers"); code != 0 {
		t.Errorf("csccm uninstall ended with %d:\n%s", code, out)
	}
	if pods := env.controllerPods(t); len(pods) > 0 {
		t.Errorf("uninstalled, and there are %v", pods)
	}
}

// everyNode are flags that let the DaemonSet run on every node.
var everyNode = []string{"--set-string", `nodeSelector.kubernetes\.io/os=linux`}

// testKinds makes the installed Deployment a DaemonSet and a Deployment again, while one Pod at a time leads and the
// load balancer stays as it is.
func testKinds(t *testing.T, env *clusterEnv) {
	ip := env.address(t, "web")
	before := env.rulesByID(t, ip)
	reigns := env.reigns(t)
	for _, kind := range []string{"DaemonSet", "Deployment"} {
		out, code := env.csccm(t, "", append([]string{"upgrade", "--yes", "--set", "kind=" + kind}, everyNode...)...)
		if code != 0 {
			t.Fatalf("csccm upgrade to a %s ended with %d:\n%s", kind, code, out)
		}
		env.content(t, kind)
	}
	env.runs(t, "Deployment")
	if after := env.rulesByID(t, ip); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the rules were\n%v, and are\n%v", before, after)
	}
	reigns.check(t)
}

func (env *clusterEnv) rulesByID(t *testing.T, ip string) map[string]string {
	t.Helper()
	client, err := env.cloud.Client(owner)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	all := map[string]string{}
	for id, r := range balancerRules(t, client, ip) {
		all[id] = fmt.Sprintf("%+v", r)
	}
	return all
}

// content wants status and doctor to find nothing wrong.
func (env *clusterEnv) content(t *testing.T, kind string) {
	t.Helper()
	if out, code := env.csccm(t, "", "status"); code != 0 || !strings.Contains(out, " Pods ready, leader ") {
		t.Errorf("status of a %s ended with %d:\n%s", kind, code, out)
	}
	if out, code := env.csccm(t, "", "doctor"); code != 0 {
		t.Errorf("doctor of a %s ended with %d:\n%s", kind, code, out)
	}
}

// runs wants the one workload of the release to be of a kind, all its Pods to be ready, and to be on these nodes if any
// are given.
func (env *clusterEnv) runs(t *testing.T, kind string, nodes ...string) {
	t.Helper()
	env.eventually(t, "a "+kind+" that is ready", func(ctx context.Context) error {
		deployments, err := env.Client.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		sets, err := env.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if kind == "Deployment" {
			if len(sets.Items) > 0 {
				return fmt.Errorf("there are %d DaemonSets", len(sets.Items))
			}
			return env.rolledOut(ctx)
		}
		if len(deployments.Items) > 0 || len(sets.Items) != 1 {
			return fmt.Errorf("there are %d Deployments and %d DaemonSets", len(deployments.Items), len(sets.Items))
		}
		if err := daemonsReady(&sets.Items[0]); err != nil {
			return err
		}
		pods, err := env.pods(ctx)
		if err != nil {
			return err
		}
		var on []string
		for i := range pods {
			on = append(on, pods[i].Spec.NodeName)
		}
		slices.Sort(on)
		if !slices.Equal(on, nodes) {
			return fmt.Errorf("its Pods are on %v, want %v", on, nodes)
		}
		return nil
	})
}

func daemonsReady(d *appsv1.DaemonSet) error {
	s := &d.Status
	if s.ObservedGeneration < d.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled || s.NumberReady < s.DesiredNumberScheduled || s.DesiredNumberScheduled == 0 {
		return fmt.Errorf("%d wanted, %d updated, %d ready", s.DesiredNumberScheduled, s.UpdatedNumberScheduled, s.NumberReady)
	}
	return nil
}

// reign is a time in which one holds the lease; without a holder it is free.
type reign struct {
	holder string
	from   time.Time
}

// reigns are what a watch saw of the lease.
type reigns struct {
	mu   sync.Mutex
	all  []reign
	stop context.CancelFunc
	done chan struct{}
}

// reigns watches the lease until check.
func (env *clusterEnv) reigns(t *testing.T) *reigns {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &reigns{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			env.watchLease(ctx, func(holder string) {
				r.mu.Lock()
				defer r.mu.Unlock()
				if n := len(r.all); n == 0 || r.all[n-1].holder != holder {
					r.all = append(r.all, reign{holder, time.Now()})
				}
			})
		}
	}()
	t.Cleanup(func() { stop(); <-r.done })
	env.eventually(t, "the lease to be seen", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.all) == 0 {
			return errors.New("no holder yet")
		}
		return nil
	})
	return r
}

// check wants at least three holders, each of whom led once, and no long time without one.
func (r *reigns) check(t *testing.T) {
	t.Helper()
	r.stop()
	<-r.done
	led := map[string]bool{}
	var longest time.Duration
	for i, now := range r.all {
		if now.holder == "" {
			if i+1 < len(r.all) {
				longest = max(longest, r.all[i+1].from.Sub(now.from))
			}
			continue
		}
		if led[now.holder] {
			t.Errorf("%s leads a second time: %v", now.holder, r.all)
		}
		led[now.holder] = true
	}
	if len(led) < 3 || r.all[len(r.all)-1].holder == "" {
		t.Errorf("want a leader before, one of the DaemonSet, and one after it: %v", r.all)
	}
	if longest > limit { // Pods start meanwhile, which takes as long as the machine needs
		t.Errorf("nobody led for %s: %v", longest, r.all)
	}
	t.Logf("%d led one after the other, at most %s without a leader between two", len(led), longest.Round(time.Millisecond))
}
