// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// reconcile does what the new controller does with every Service, and gives what it did.
func (b *bed) reconcile(t *testing.T, f *Facts) map[string][]plan.Step {
	t.Helper()
	inv := inventory.New(b.client, inventory.Options{})
	r := loadbalancer.New(loadbalancer.FromClient(b.client), loadbalancer.Options{
		ClusterID: func() string { return "kubernetes" }, Project: func(ctx context.Context, _ string) (string, error) { return inv.ProjectID(ctx) },
		Network: func(_ context.Context, _, id string, _ time.Duration) (plan.Network, error) {
			return f.Networks[id], nil
		},
	})
	out := map[string][]plan.Step{}
	services, err := b.kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range services.Items {
		svc := &services.Items[i]
		spec, err := annotation.Parse(svc)
		require.NoError(t, err)
		result, err := r.Ensure(t.Context(), loadbalancer.Request{
			Service: loadbalancer.ServiceOf(svc), Spec: spec, Members: members(f), Records: noRecords{}, Notify: func(plan.Notice) {},
		})
		require.NoError(t, err, svc.Name)
		out[svc.Namespace+"/"+svc.Name] = result.Plan
	}
	return out
}

type noRecords struct{}

func (noRecords) Load(context.Context) (annotation.Records, error) { return annotation.Records{}, nil }
func (noRecords) Save(context.Context, annotation.Records) error   { return nil }

// What the plan announced is what the controller then does, and nothing else that anybody would notice.
func TestTakeoverKeepsWhatStands(t *testing.T) {
	t.Parallel()
	for _, state := range []string{leftby.Apache, leftby.Leaseweb} {
		for _, pin := range []bool{true, false} {
			t.Run(state, func(t *testing.T) {
				t.Parallel()
				b := newBed(t, state, append(leftby.ApacheObjects(), ours())...)
				f := b.facts(t)
				p := NewPlan(f)
				require.Equal(t, OursFirst, p.Order, p.Why)
				before := b.rules(t)
				taker := b.taker(t, p)
				taker.Accept = []string{All}
				if pin {
					taker.Pin = []string{All}
				}
				require.NoError(t, run(t.Context(), taker.Before()))
				require.NotContains(t, b.notes(), "patch deployments", "nothing stops before ours runs")
				require.NoError(t, run(t.Context(), taker.After()))
				did := b.reconcile(t, f)
				after := b.rules(t)
				for id, was := range before {
					now, there := after[id]
					service := ""
					var differences []Difference
					for i := range p.Services {
						if slices.Contains(p.Services[i].Rules, id) {
							service, differences = p.Services[i].Service, p.Services[i].Differences
						}
					}
					kinds := map[Kind]bool{}
					for _, d := range differences {
						kinds[d.Kind] = !pin || d.Pin == nil
					}
					require.Equal(t, kinds[KindGap], !there, "%s: %s", service, was.Name)
					if !there {
						continue
					}
					require.Equal(t, was.PublicIP, now.PublicIP)
					require.Equal(t, kinds[KindProtocol], was.Protocol != now.Protocol, "%s: %s", service, was.Name)
					require.Equal(t, was.Algorithm, now.Algorithm)
					_, _, _, legacy, ok := plan.ParseRuleName(now.Name)
					require.True(t, ok && !legacy, now.Name)
				}
				for service, actions := range did {
					for _, a := range actions {
						require.NotEqual(t, "allocate-address", a.Kind(), service)
						require.NotEqual(t, "release-address", a.Kind(), service)
					}
				}
				require.Len(t, after, len(before))
				// Reach is what was shown.
				second := b.facts(t)
				require.Empty(t, needing(NewPlan(second)), "nothing differs any more")
			})
		}
	}
}

func TestTakeoverOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t, leftby.Apache, append(leftby.ApacheObjects(), ours())...)
	p := NewPlan(b.facts(t))
	taker := b.taker(t, p)
	taker.Accept, taker.Pin = []string{All}, []string{"default/documented"}
	require.NoError(t, run(t.Context(), append(taker.Before(), taker.After()...)))
	require.Equal(t, []string{
		"create configmaps", "patch services", // record, pin
		"lease of csccm-takeover_", "update leases", "patch deployments", "lease free", "update leases",
	}, slices.DeleteFunc(b.notes(), func(s string) bool { return strings.HasPrefix(s, "delete") }))
	deleted := slices.DeleteFunc(b.notes(), func(s string) bool { return !strings.HasPrefix(s, "delete") })
	require.Equal(t, []string{
		"delete clusterroles", "delete rolebindings", "delete clusterrolebindings", "delete serviceaccounts", "delete deployments",
	}, deleted)
	rbac := b.kube.RbacV1()
	for _, name := range []string{"both", "shared"} {
		if name == "both" {
			_, err := rbac.ClusterRoleBindings().Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			continue
		}
		_, err := rbac.ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
	}
	_, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), "cloudstack-secret", metav1.GetOptions{})
	require.NoError(t, err, "the Secret may be ours too")
	svc, err := b.kube.CoreV1().Services("default").Get(t.Context(), "documented", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "false", svc.Annotations[annotation.ProxyProtocol])

	files, err := filepath.Glob(filepath.Join(taker.Dir, "takeover-record-*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	body, err := os.ReadFile(files[0])
	require.NoError(t, err)
	var r Record
	require.NoError(t, json.Unmarshal(body, &r))
	require.Equal(t, "enabled", *r.Pinned[0].Before)
	require.NotContains(t, string(body), b.config.SecretKey)
	config, err := b.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), RecordConfigMap, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, config.Data, 1)

	// A second takeover finds nothing to do but to look.
	again := NewPlan(b.facts(t))
	require.Equal(t, Nothing, again.Order)
	n := len(b.notes())
	taker = b.taker(t, again)
	taker.Accept = []string{All}
	require.NoError(t, run(t.Context(), taker.After()))
	require.Len(t, b.notes(), n)
}

func TestKeepOld(t *testing.T) {
	t.Parallel()
	b := newBed(t, leftby.Apache, append(leftby.ApacheObjects(), ours())...)
	taker := b.taker(t, NewPlan(b.facts(t)))
	taker.Accept, taker.KeepOld = []string{All}, true
	require.NoError(t, run(t.Context(), append(taker.Before(), taker.After()...)))
	d, err := b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	require.NoError(t, err)
	require.Zero(t, *d.Spec.Replicas)
	require.Equal(t, "1", d.Annotations[replicasAnnotation])
}

// A controller that elects no leader ends before ours is there.
func TestOldFirst(t *testing.T) {
	t.Parallel()
	old := leftby.Controller("ccm", "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1", map[string]string{"k8s-app": "ccm"}, "--cloud-provider=cloudstack", "--leader-elect=false")
	old.Annotations = map[string]string{helmReleaseKey: "lw"}
	record := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "sh.helm.release.v1.lw.v1", Labels: map[string]string{"owner": "helm", "name": "lw"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "old-pod", Labels: map[string]string{"k8s-app": "ccm"}}}
	b := newBed(t, leftby.Leaseweb, old, record, pod)
	p := NewPlan(b.facts(t))
	require.Equal(t, OldFirst, p.Order)
	taker := b.taker(t, p)
	taker.Accept = []string{All}
	require.NoError(t, run(t.Context(), taker.Before()))
	require.Equal(t, []string{"create configmaps", "patch deployments"}, b.notes(), "no lease is touched")
	require.NotEmpty(t, taker.Journal())
	for _, r := range b.rules(t) {
		require.NotContains(t, r.Name, "K8s_svc")
	}
	_, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), record.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, taker.removeOld(t.Context()))
	_, err = b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), record.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "Helm must not find a release whose objects are gone")
}

func TestNothingHappensWithoutConsent(t *testing.T) {
	t.Parallel()
	b := newBed(t, leftby.Leaseweb, append(leftby.ApacheObjects(), ours())...)
	taker := b.taker(t, NewPlan(b.facts(t)))
	for _, steps := range [][]engine.Step{taker.Before(), taker.After()} {
		var e *report.Error
		require.ErrorAs(t, run(t.Context(), steps), &e)
	}
	require.Empty(t, b.notes())
	require.Zero(t, b.sim.Ledger().Count("updateLoadBalancerRule"))
}

// Whatever fails between, the lease is given up again: the cluster is not left without a leader.
func TestLeaseIsGivenUpAfterAFailure(t *testing.T) {
	t.Parallel()
	b := newBed(t, leftby.Leaseweb, append(leftby.ApacheObjects(), ours())...)
	taker := b.taker(t, NewPlan(b.facts(t)))
	taker.Accept = []string{All}
	taker.API = failing{taker.API}
	require.NoError(t, run(t.Context(), taker.Before()))
	err := run(t.Context(), taker.After())
	require.ErrorContains(t, err, "router is down")
	var remedied interface{ Remedy() string }
	require.ErrorAs(t, err, &remedied)
	require.Contains(t, remedied.Remedy(), "migrate-rules --undo")
	require.Equal(t, []string{"lease free", "update leases"}, b.notes()[len(b.notes())-2:])

	// The next run goes on: the old one is stopped by now.
	p := NewPlan(b.facts(t))
	require.Equal(t, OldFirst, p.Order)
	taker = b.taker(t, p)
	taker.Accept = []string{All}
	require.NoError(t, run(t.Context(), append(taker.Before(), taker.After()...)))
	_, err = b.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
}

type failing struct{ migrate.API }

func (failing) UpdateLoadBalancerRule(context.Context, cloudstack.UpdateLoadBalancerRuleRequest) (cloudstack.Submitted, error) {
	return cloudstack.Submitted{}, errors.New("router is down")
}

func TestOldControllerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t, leftby.Apache, append(leftby.ApacheObjects(), ours())...)
	b.kube.PrependReactor("delete", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
	taker := b.taker(t, NewPlan(b.facts(t)))
	stuck := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "stuck", Labels: map[string]string{"k8s-app": "cloud-controller-manager"}}}
	require.NoError(t, b.kube.Tracker().Add(stuck))
	taker.Accept = []string{All}
	err := taker.stop(t.Context(), &taker.Plan.Predecessors[0])
	require.ErrorContains(t, err, "Pod stuck of Deployment kube-system/cloud-controller-manager does not end")
}
