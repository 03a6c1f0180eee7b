// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
)

// placeholder is what a person would have to replace before a remedy can be followed. FILE and VALUES are theirs.
var placeholder = regexp.MustCompile(`\b(NAMESPACE|NAME|NODE|POD|SERVICE|HOST|KIND|RELEASE)\b|[{}]`)

var checkCode = regexp.MustCompile(`[A-Z]+-\d{3}`)

// requireUsable looks at remedies as they are shown: they name objects that exist.
func requireUsable(t *testing.T, results []check.Result) {
	t.Helper()
	for _, r := range results {
		require.NotRegexp(t, placeholder, checkCode.ReplaceAllString(r.Remedy, ""), r.Code)
	}
}

func (w *world) result(t *testing.T, code string) check.Result {
	t.Helper()
	return byCode(inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled, Only: []string{code}}, nil))[code]
}

func TestRemediesOfNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.changeNode(t, "demo-worker-2", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "mars" })
	w.changeNode(t, "demo-worker-1", func(n *corev1.Node) { n.Spec.ProviderID = "" })
	require.Contains(t, w.result(t, "NODE-007").Remedy, "`csccm taint demo-worker-2`")
	require.Contains(t, w.result(t, "NODE-003").Remedy, "`csccm taint demo-worker-1`")
	w.env.Namespace, w.env.Release = "cloud", "ours"
	w.env.Style.Carry = func(text string) string { // as the command line has it
		return regexp.MustCompile(`csccm [a-z]+`).ReplaceAllString(text, "$0 -n cloud --release ours")
	}
	require.Contains(t, w.result(t, "NODE-007").Remedy, "`csccm taint -n cloud --release ours demo-worker-2`")
	require.Contains(t, w.result(t, "CCM-001").Remedy, "`csccm install -n cloud --release ours`")
}

// What fails is tried again at a time that the controller's log names.
func TestServicesNameTheNextTry(t *testing.T) {
	t.Parallel()
	const line = `"A Service's load balancer could not be synced; it is tried again" err="500" service="default/web" in="2m0s"`
	w := newWorld(t)
	w.changeNode(t, "demo-worker-1", func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "true" })
	w.log += w.logLine('E', 30*time.Second, "sync.go:299", line)
	r := w.result(t, "LB-001")
	require.Contains(t, r.Objects[0].Message, fmt.Sprintf("next try at %s, in 1m30s", w.now.UTC().Add(90*time.Second).Format("15:04:05Z")))
	require.Contains(t, r.Remedy, "kubectl -n kube-system rollout restart deployment,daemonset -l app.kubernetes.io/instance=cloudstack-ccm")
	w.log = strings.ReplaceAll(w.log, `in="2m0s"`, `in="20s"`) // a time that has passed
	require.NotContains(t, w.result(t, "LB-001").Objects[0].Message, "next try")
}
