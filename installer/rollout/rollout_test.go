// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/stepclock"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

var labels = map[string]string{
	"app.kubernetes.io/name":     "cloudstack-ccm",
	"app.kubernetes.io/instance": "cloudstack-ccm",
}

// meta returns the metadata of an object of the release; minute is the minute of its creation.
func meta(minute int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "kube-system", Name: "ccm", Labels: labels, Generation: 2,
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0).Add(time.Duration(minute) * time.Minute)),
		Annotations:       map[string]string{appsv1.DeprecatedTemplateGeneration: "2"},
	}
}

func env(t *testing.T, objects ...kruntime.Object) (*engine.Env, *bytes.Buffer) {
	t.Helper()
	clock, out := stepclock.New(nil), &bytes.Buffer{}
	return &engine.Env{
		Cluster: fakecluster.New(fake.NewClientset(objects...)), Release: "cloudstack-ccm", Clock: clock,
		Progress: report.NewProgress(out, report.Style{}, clock), RolloutTimeout: time.Minute,
	}, out
}

// release is what a release has in the cluster.
type release struct {
	DaemonSet  *appsv1.DaemonSetStatus
	Deployment *appsv1.DeploymentStatus // of two replicas
	Newer      bool                     // the Deployment is younger than the DaemonSet
	Pods       []corev1.Pod
	Events     []corev1.Event

	Shown  string // part of the output
	Error  string
	Remedy string // its end
}

func TestWait(t *testing.T) {
	cases.Run(t, "testdata/wait.yaml", func(t *testing.T, _ string, c release) {
		var objects []kruntime.Object
		if c.DaemonSet != nil {
			objects = append(objects, &appsv1.DaemonSet{ObjectMeta: meta(1), Status: *c.DaemonSet})
		}
		if c.Deployment != nil {
			d := &appsv1.Deployment{ObjectMeta: meta(0), Status: *c.Deployment}
			if c.Newer {
				d.ObjectMeta = meta(2)
			}
			d.Spec.Replicas = ptr.To[int32](2)
			objects = append(objects, d)
		}
		for i := range c.Pods {
			p := &c.Pods[i]
			own := p.Labels
			p.Namespace, p.Spec.NodeName = "kube-system", "n1"
			p.Labels = map[string]string{"pod-template-generation": "2"}
			maps.Copy(p.Labels, labels)
			maps.Copy(p.Labels, own)
			objects = append(objects, p)
		}
		for i := range c.Events {
			c.Events[i].Namespace = "kube-system"
			objects = append(objects, &c.Events[i])
		}

		e, out := env(t, objects...)
		err := rollout.Wait(t.Context(), e)
		require.Contains(t, out.String(), c.Shown)
		if c.Error == "" {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, c.Error)
		require.True(t, strings.HasSuffix(report.RemedyOf(err), c.Remedy), report.RemedyOf(err))
	})
}

// Restart sets the template's annotation as kubectl rollout restart does, so the Pods are replaced by the update
// strategy.
func TestRestart(t *testing.T) {
	t.Parallel()
	e, _ := env(t, &appsv1.DaemonSet{ObjectMeta: meta(1)})
	require.NoError(t, rollout.Restart(t.Context(), e))
	d, err := e.Cluster.Kube.AppsV1().DaemonSets("kube-system").Get(t.Context(), "ccm", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubectl.kubernetes.io/restartedAt": "2023-11-14T22:13:20Z"},
		d.Spec.Template.Annotations)
}
