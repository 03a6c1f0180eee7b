// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv provides the environment of the installer's tests: a simulated CloudStack, a fake cluster with a fake
// Helm, and a command environment that captures the output.
package testenv

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	discoveryfake "k8s.io/client-go/discovery/fake"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/stepclock"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// Namespace is the namespace of the release.
const Namespace = "kube-system"

// Labels are the labels of the Pods and workloads of the release.
var Labels = map[string]string{
	"app.kubernetes.io/name":     "cloudstack-ccm",
	"app.kubernetes.io/instance": cluster.DefaultRelease,
}

// Env is the environment of a command with --yes and without a terminal.
type Env struct {
	*engine.Env
	Kube           *fakekube.Clientset
	Time           *stepclock.Clock
	Releases       *Helm
	Stdout, Stderr bytes.Buffer
	// Poll is called at each poll of a command that waits; it may be nil.
	Poll func()
}

// KubeSystem returns the namespace kube-system. Its UID is the default cluster id.
func KubeSystem() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "the-cluster"}}
}

// New returns an environment whose cluster has these objects and KubeSystem.
func New(t *testing.T, objects ...runtime.Object) *Env {
	t.Helper()
	return NewIn(t, KubeSystem().UID, objects...)
}

// NewIn is like New, but gives kube-system another UID, for a second cluster.
func NewIn(t *testing.T, uid types.UID, objects ...runtime.Object) *Env {
	t.Helper()
	system := KubeSystem()
	system.UID = uid
	e := &Env{Kube: fakekube.New(append(objects, system)...), Releases: &Helm{}}
	discovery, ok := e.Kube.Discovery().(*discoveryfake.FakeDiscovery)
	require.True(t, ok)
	discovery.FakedServerVersion = &version.Info{GitVersion: KubeVersion, Major: "1", Minor: "37"}

	e.Time = stepclock.New(func() {
		if e.Poll != nil {
			e.Poll()
		}
	})

	e.Env = &engine.Env{
		Cluster:  fakecluster.New(e.Kube),
		Helm:     e.Releases,
		Prompt:   prompt.NewRefusing(),
		Clock:    e.Time,
		Release:  cluster.DefaultRelease,
		Yes:      true,
		Progress: report.NewProgress(&e.Stderr, report.Style{}, e.Time),
		Out:      &e.Stdout,
		Journal:  filepath.Join(t.TempDir(), "journal"),
	}

	e.Cluster.Version = KubeVersion
	return e
}

// Answers makes the environment interactive; questions get these answers.
func (e *Env) Answers(lines ...string) {
	e.Yes, e.Interactive = false, true
	e.Prompt = prompt.NewLines(strings.NewReader(strings.Join(lines, "\n")+"\n"), &e.Stderr)
}

// Said returns everything that the command has printed.
func (e *Env) Said() string { return e.Stdout.String() + e.Stderr.String() }

// Secret returns the data of a Secret in the namespace of the release; nil if there is none.
func (e *Env) Secret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	s, err := e.Kube.CoreV1().Secrets(Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return s.Data
}

// ReadyPod returns a Pod of the release that is ready.
func ReadyPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: Labels},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// Lease returns the lease of the controller, which does not expire during a test.
func Lease(holder string) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Now().AddDate(1, 0, 0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "cloud-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}
}

// RequireRefusal checks the text, the remedy and the exit code of an error. The exit code of an error without an
// ExitCode method is 1.
func RequireRefusal(t *testing.T, err error, says, fix string, code int) {
	t.Helper()
	require.ErrorContains(t, err, says)

	var remedied interface{ Remedy() string }
	require.ErrorAs(t, err, &remedied)
	require.NotEmpty(t, remedied.Remedy())
	require.Contains(t, remedied.Remedy(), fix)

	var coder interface{ ExitCode() int }
	if code != report.ExitFailure {
		require.ErrorAs(t, err, &coder)
		require.Equal(t, code, coder.ExitCode())
	}
}
