// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lbtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/stepclock"
	"github.com/csccm/csccm/pkg/echo"
)

// env is a fake cluster whose Pods run and whose Services get an address. answers are the results of the client Pod.
type env struct {
	kube    *fake.Clientset
	address string
	answers []echo.Answer // answers of the client Pod inside the cluster
	outside func(address string) (echo.Answer, error)
	clock   *stepclock.Clock
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{
		address: "203.0.113.9",
		kube:    fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "given"}}),
	}

	e.clock = stepclock.New(func() { e.turn(t.Context()) })
	e.answers = []echo.Answer{
		{Address: "203.0.113.9:9080", Pod: "p", Client: "10.1.1.1:4"},
		{Address: "203.0.113.9:9081", Pod: "p", Client: "10.1.1.21:5", Proxied: true},
	}

	e.outside = func(address string) (echo.Answer, error) {
		return echo.Answer{
			Address: address,
			Pod:     "p",
			Client:  "198.51.100.7:6",
			Proxied: strings.HasSuffix(address, "9081"),
		}, nil
	}

	return e
}

// turn does what the scheduler, the kubelet and the controller would do between two polls.
func (e *env) turn(ctx context.Context) {
	pods, _ := e.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	for i := range pods.Items {
		p := &pods.Items[i]
		p.Status.Phase, p.Status.PodIP, p.Spec.NodeName = corev1.PodRunning, "10.9.0.1", "worker-1"
		if strings.Contains(p.Name, "client") {
			p.Status.Phase = corev1.PodSucceeded
		}
		_, _ = e.kube.CoreV1().Pods(p.Namespace).Update(ctx, p, metav1.UpdateOptions{})
	}

	services, _ := e.kube.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	for i := range services.Items {
		s := &services.Items[i]
		if e.address == "" {
			continue
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: e.address}}
		_, _ = e.kube.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
	}
}

func (e *env) run(ctx context.Context, o Options) (*Result, error) {
	o.Image, o.AddressTime = "image", time.Minute
	t := &Tester{
		Options: o,
		Ask:     func(_ context.Context, address, _ string) (echo.Answer, error) { return e.outside(address) },
		Env:     &engine.Env{Cluster: fakecluster.New(e.kube), Clock: e.clock, Progress: report.NoProgress()},
	}
	t.PodLogs = func(context.Context, *corev1.Pod, int64) (string, error) {
		var b bytes.Buffer
		for _, a := range e.answers {
			_ = json.NewEncoder(&b).Encode(a)
		}
		return b.String(), nil
	}
	err := t.Run(ctx)
	return &t.result, err
}

// requireNothingLeft fails the test if an object of the load balancer test still exists.
func (e *env) requireNothingLeft(t *testing.T, r *Result) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	services, err := e.kube.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, services.Items)
	pods, err := e.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)
	_, err = e.kube.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{})
	require.Equal(t, r.Namespace != "given", apierrors.IsNotFound(err))
}

func outcomes(r *Result) (out string) {
	for _, s := range r.Steps {
		out += string(s.Outcome) + " "
	}
	return out
}

func TestLoadBalancerTest(t *testing.T) {
	t.Parallel()
	unreachable := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}
	for name, tc := range map[string]struct {
		options        Options
		change         func(*env)
		want           string
		says, err, fix string
	}{
		"all well": {
			want: "ok ok ok ok ok skipped ok ",
			says: "PROXY protocol names the client 198.51.100.7:6",
		},
		"a given namespace": {options: Options{Namespace: "given"}, want: "ok ok ok ok ok skipped ok "},
		"no namespace of that": {
			options: Options{Namespace: "none"},
			want:    "failed ok ",
			err:     `namespaces "none" not found`,
		},
		"no way from here": {
			change: func(e *env) {
				e.outside = func(string) (echo.Answer, error) { return echo.Answer{}, unreachable }
			},
			want: "ok ok ok ok skipped skipped ok ", says: "no route to host",
		},
		"no address": {
			change: func(e *env) { e.address = "" },
			want:   "ok ok failed ok ",
			err:    "not within 1m0s: Service ",
			fix:    "csccm doctor",
		},
		"no answer inside": {
			change: func(e *env) { e.answers[0].Error = "connection refused" },
			want:   "ok ok ok failed ok ok ",
			err: "from inside the cluster: no answer at 203.0.113.9:9080 within 1m0s, the limit of csccm test: " +
				"connection refused",
			fix: "restart the network with clean-up",
		},
		"no PROXY protocol": {
			change: func(e *env) { e.answers[1].Proxied = false },
			want:   "ok ok ok failed ok ok ",
			err:    "PROXY protocol to Pod p at 203.0.113.9:9081: want true, got false",
		},
		"PROXY protocol left out": {
			options: Options{NoProxy: true},
			change:  func(e *env) { e.answers = e.answers[:1] },
			want:    "ok ok ok ok ok skipped ok ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			if tc.change != nil {
				tc.change(e)
			}

			r, err := e.run(t.Context(), tc.options)
			require.Equal(t, tc.want, outcomes(r), "%v %+v", err, r.Steps)
			e.requireNothingLeft(t, r)
			require.Contains(t, r.text(report.Style{}), tc.says)
			require.Equal(t, tc.err == "", r.Passed)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}

			var failed *report.Error
			require.ErrorAs(t, err, &failed)
			require.ErrorContains(t, err, tc.err)
			require.Equal(t, report.ExitCheckFailed, failed.ExitCode())
			require.Contains(t, failed.Remedy(), tc.fix)
		})
	}
}

// After an interrupt (^C) in any step, everything created so far is deleted.
func TestLoadBalancerTestInterrupted(t *testing.T) {
	t.Parallel()
	interrupted := errors.New("interrupted")
	for _, verb := range []string{"namespaces", "pods", "services"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			e.kube.PrependReactor("create", verb, func(ktesting.Action) (bool, runtime.Object, error) {
				cancel(interrupted)
				return false, nil, nil
			})
			r, err := e.run(ctx, Options{})
			require.ErrorIs(t, err, interrupted)
			require.False(t, r.Passed)
			e.requireNothingLeft(t, r)
		})
	}
}
