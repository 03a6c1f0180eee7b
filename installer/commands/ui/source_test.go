// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
	"github.com/csccm/csccm/pkg/ui/model"
)

// sourceOf returns a Source of a cluster that has rules in CloudStack, and that cluster. start runs it until the end of
// the test.
func sourceOf(t *testing.T) (s *Source, start func(), cloud *testenv.Cloud, kube *fakekube.Clientset, nodes int) {
	t.Helper()
	cloud, left := testenv.Left(t, leftby.Apache)
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}},
		secretOf(cloud.Config(t, leftby.Account)),
	}

	for _, svc := range left.Kubernetes.Services {
		objects = append(objects, &svc)
	}

	for _, n := range left.Kubernetes.Nodes {
		objects = append(objects, &n)
	}

	kube = fakekube.New(objects...)
	s = New(Options{
		Cluster: fakecluster.New(kube), Release: "cloudstack-ccm", Interval: 200 * time.Millisecond,
		Redact: func([]string) func(string) string { return func(text string) string { return text } },
	})

	return s, func() {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
	}, cloud, kube, len(left.Kubernetes.Nodes)
}

func secretOf(c *cloudstack.Config) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: inspect.DefaultSecretName},
		Data:       map[string][]byte{"cloud-config": c.Render()},
	}
}

// until waits for a snapshot that meets a condition.
func until(t *testing.T, s *Source, what string, holds func(model.Snapshot) bool) (last model.Snapshot) {
	t.Helper()
	require.Eventually(t, func() bool {
		last, _ = s.Snapshot(t.Context())
		return holds(last)
	}, time.Minute, 20*time.Millisecond, what)
	return last
}

// TestRotatedKeys checks that the current keys are used after a rotation, and that neither old nor new keys are shown.
func TestRotatedKeys(t *testing.T) {
	t.Parallel()
	s, start, cloud, kube, _ := sourceOf(t)
	var masked [][]string
	s.o.Redact = func(secrets []string) func(string) string {
		masked = append(masked, slices.Clone(secrets))
		return func(text string) string { return text }
	}

	right, wrong := cloud.Config(t, leftby.Account), cloud.Config(t, leftby.Account)
	wrong.APIKey, wrong.SecretKey = "rotated-1", "rotated-2"
	update := func(c *cloudstack.Config) {
		_, err := kube.CoreV1().Secrets(metav1.NamespaceSystem).Update(t.Context(), secretOf(c), metav1.UpdateOptions{})
		require.NoError(t, err)
	}

	update(wrong)
	start()
	shown := until(t, s, "the refusal",
		func(s model.Snapshot) bool { return s.Sources[1].State == model.SourceFailing && s.Checks != nil })
	assert.Contains(t, shown.Sources[1].Reason, "401")
	update(right)
	until(t, s, "the new keys", func(s model.Snapshot) bool {
		return s.Sources[1].State == model.SourceOK &&
			slices.ContainsFunc(s.Objects, func(o model.Object) bool { return o.Kind == model.KindRule })
	})

	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, []string{"rotated-1", "rotated-2", right.APIKey, right.SecretKey}, masked[len(masked)-1])
}

// TestOutage checks that the page keeps the last known data and health while CloudStack or the API server fails or
// hangs, and says which of them does not answer and since when.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{"fails": "*:error:code=530", "hangs": "*:delay:delay=1h"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, start, cloud, _, _ := sourceOf(t)
			s.within, s.o.Interval = 5*time.Second, 5*time.Second
			start()
			state := func(s model.Snapshot) string { return s.Sources[1].State }
			healths := func(s model.Snapshot) (out []string) {
				for _, object := range s.Objects {
					out = append(out, object.ID+" "+string(object.Health))
				}
				return out
			}

			// An outage that begins within a run of doctor is one of its findings.
			before := until(t, s, "the plans, and CloudStack not read just now", func(s model.Snapshot) bool {
				return state(s) == model.SourceOK &&
					len(s.Missing) == 0 &&
					len(s.Plans) > 0 &&
					time.Since(s.Sources[1].Answered) > 2*time.Second
			})

			f, err := simulator.ParseFault(fault)
			require.NoError(t, err)
			armed := cloud.Arm(f)
			signal(s.due)
			during := until(t, s, "the outage", func(s model.Snapshot) bool { return state(s) == model.SourceFailing })
			assert.ElementsMatch(t, healths(before), healths(during))
			assert.Equal(t, before.Plans, during.Plans)
			assert.NotEmpty(t, during.Sources[1].Reason)
			assert.False(t, during.Sources[1].Answered.IsZero())
			assert.Equal(t, model.SourceOK, during.Sources[0].State)
			cloud.Disarm(armed)
			signal(s.due)
			until(t, s, "the end of the outage", func(s model.Snapshot) bool { return state(s) == model.SourceOK })
		})
	}

	t.Run("a lease that is renewed stays young", func(t *testing.T) {
		t.Parallel()
		s, start, _, kube, _ := sourceOf(t)
		s.o.Interval = time.Hour
		now := metav1.NowMicro()
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "cloud-controller-manager"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       ptr.To("ccm-a"),
				LeaseDurationSeconds: ptr.To[int32](15),
				AcquireTime:          &now,
				RenewTime:            &now,
			},
		}

		_, err := kube.CoordinationV1().Leases(metav1.NamespaceSystem).Create(t.Context(), lease,
			metav1.CreateOptions{})
		require.NoError(t, err)
		start()
		until(t, s, "the plans, and CloudStack not read just now", func(s model.Snapshot) bool {
			return s.Controller != nil && len(s.Plans) > 0 && time.Since(s.Sources[1].Answered) > 2*time.Second
		})
		lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(10 * time.Second)}
		_, err = kube.CoordinationV1().Leases(metav1.NamespaceSystem).Update(t.Context(), lease, metav1.UpdateOptions{})
		require.NoError(t, err)
		until(t, s, "the renewal",
			func(s model.Snapshot) bool { return s.Controller.Renewed.Equal(lease.Spec.RenewTime.Time) })
	})

	t.Run("the API server hangs", func(t *testing.T) {
		t.Parallel()
		s, start, _, kube, _ := sourceOf(t)
		s.within = time.Second
		hang := make(chan struct{})
		kube.PrependReactor("*", "*", func(kubetesting.Action) (bool, runtime.Object, error) {
			<-hang
			return false, nil, nil
		})
		start()
		t.Cleanup(func() { close(hang) }) // runs before the clean-up that waits for the end of the source
		shown, err := s.Snapshot(t.Context())
		require.NoError(t, err)
		assert.Equal(t, model.SourceConnecting, shown.Sources[0].State, "the page is there at once")
	})
}

// TestSource follows a cluster that has rules in CloudStack: objects that others create and delete appear and disappear
// on the page. It also checks that there are few calls, which only read.
func TestSource(t *testing.T) {
	t.Parallel()
	s, start, cloud, kube, nodes := sourceOf(t)
	client := cloud.Client(t, leftby.Account)
	start()
	count := func(s model.Snapshot, kind model.Kind) (n int) {
		for _, object := range s.Objects {
			if object.Kind == kind && object.Health != model.HealthPlanned {
				n++
			}
		}
		return n
	}
	first := until(t, s, "the checks and the plans", func(s model.Snapshot) bool {
		return len(s.Checks) > 1 && len(s.Plans) > 0 && count(s, model.KindNode) > 0
	})
	rules := count(first, model.KindRule)
	require.Positive(t, rules)
	assert.Equal(t, nodes, count(first, model.KindNode))
	assert.Equal(t, nodes, count(first, model.KindVM))
	for _, m := range first.Missing {
		assert.NotContains(t, []string{"objects", "plans"}, m.Part, m.Reason)
	}
	for _, l := range first.Links {
		if strings.HasPrefix(l.From, "rule/") {
			assert.True(t, strings.HasPrefix(l.To, "node/"), l)
		}
	}

	// Count the calls of some rounds: doctor and the plan read their lists separately.
	ledger := cloud.Ledger()
	ledger.Reset()
	require.Eventually(t, func() bool { return len(ledger.Find("listCapabilities", "")) >= 4 }, time.Minute,
		20*time.Millisecond)
	rounds := 0
	assert.LessOrEqual(t, slices.IndexFunc(ledger.Calls(), func(c simulator.Call) bool {
		if c.Command == "listCapabilities" {
			rounds++
		}
		return rounds == 4
	}), 4*25, "of three rounds, and one that had begun")

	// The snapshot conforms to the JSON schema.
	compiled, err := jsonschema.NewCompiler().Compile("../../../docs/ui.schema.json")
	require.NoError(t, err)
	text, err := json.Marshal(first.Sorted())
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, compiled.Validate(value))

	// A Service is created.
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "new", Name: "fresh", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 31080, Protocol: corev1.ProtocolTCP}},
		},
	}
	_, err = kube.CoreV1().Services("new").Create(t.Context(), svc, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, s, "the new Service with its plan", func(s model.Snapshot) bool {
		return slices.ContainsFunc(s.Plans,
			func(p model.Plan) bool { return p.Service == "service/new/fresh" && len(p.Actions) > 0 })
	})

	// Somebody deletes a rule.
	i := slices.IndexFunc(first.Objects,
		func(o model.Object) bool { return o.Kind == model.KindRule && o.Health != model.HealthForeign })
	require.GreaterOrEqual(t, i, 0)
	calls := len(cloud.Ledger().Calls())
	_, err = client.Delete(t.Context(), "deleteLoadBalancerRule", strings.TrimPrefix(first.Objects[i].ID, "rule/"))
	require.NoError(t, err)
	until(t, s, "the rule to be gone", func(s model.Snapshot) bool { return count(s, model.KindRule) == rules-1 })
	for _, c := range cloud.Ledger().Calls()[:calls] {
		assert.Regexp(t, "^(list|log)", c.Command)
	}
	for _, a := range kube.Actions() {
		if a.GetVerb() == "create" && a.GetNamespace() == "new" {
			continue // this call is the test's own
		}
		assert.Contains(t, []string{"get", "list", "watch"}, a.GetVerb(), a)
	}
}
