// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/test/testenv"
)

const (
	proxyProtocol  = "service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol"
	keptAnnotation = "csccm.io/kept-by-takeover"
)

// oldProgramReads is a patch of the old controller: the program in it is csccm's own, which would change what Apache's
// leaves as it is.
var oldProgramReads = []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--load-balancer-policy=dry-run"}]`)

// TestTakeoverUndo goes back to the provider that an install has replaced and kept, killed at each of its steps, and
// takes its place again. What the takeover changed is as it was, and csccm's controller ends before the old one starts.
func TestTakeoverUndo(t *testing.T) {
	t.Parallel()
	env := newOccupied(t)
	install := append([]string{"install", "--yes", "--pin", "all", "--keep-old"}, processFlags...)
	if out, code := env.csccm(t, "", install...); code != 0 {
		t.Fatalf("the install in the old one's place ended with %d:\n%s", code, out)
	}
	env.recorded(t)
	if after := balancerRules(t, env.client, env.ips...); reflect.DeepEqual(after, env.before) {
		t.Fatalf("no rule was renamed: %v", after)
	}
	if _, err := env.Client.AppsV1().Deployments(metav1.NamespaceSystem).Patch(t.Context(), oldName, types.JSONPatchType, oldProgramReads, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	out, code := env.csccm(t, "", "takeover", "--undo", "--dry-run", "-o", "json")
	var plan struct {
		State       string           `json:"state"`
		Ours        []string         `json:"ours"`
		Rules       []map[string]any `json:"rules"`
		Annotations []map[string]any `json:"annotations"`
		Problems    []map[string]any `json:"problems"`
	}
	if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil || plan.State != "planned" || len(plan.Ours) != 1 || len(plan.Rules) != 1 ||
		len(plan.Annotations) != 1 || len(plan.Problems) != 0 {
		t.Fatalf("the dry run ended with %d, %v:\n%s", code, err, out)
	}
	w := env.witness(t)
	undo := []string{"takeover", "--undo", "--yes"}
	// On a busy machine a kill comes late: the rules may be done by then, and what follows with them.
	env.killedInTurn(t, 2, []string{
		"Holding lease kube-system/" + lease, "Ending csccm's controller", "Rules to change in place: 1", "Starting Deployment kube-system/" + oldName,
	}, undo)
	if out, code = env.csccm(t, "", undo...); code != 0 || !strings.Contains(out, "The old controller works again") {
		t.Fatalf("the undo after all the kills ended with %d:\n%s", code, out)
	}
	w.stop()
	<-w.done
	old, err := env.Client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil || *old.Spec.Replicas != 1 || old.Status.ReadyReplicas != 1 || len(old.Annotations[keptAnnotation]) > 0 {
		t.Errorf("%v, the old Deployment: %+v", err, old)
	}
	env.isBack(t, w)

	if out, code = env.csccm(t, "", "takeover", "--undo"); code != 1 || !strings.Contains(out, "holds no record of a takeover") {
		t.Errorf("with nothing left to undo it ended with %d:\n%s", code, out)
	}
	if out, code = env.csccm(t, "", install...); code != 0 || !strings.Contains(out, "Stopping Deployment kube-system/"+oldName) {
		t.Fatalf("the second takeover ended with %d:\n%s", code, out)
	}
	if !strings.Contains(out, "Back to it:  csccm takeover --undo\n") {
		t.Errorf("the way back is not named:\n%s", out)
	}
	env.eventually(t, "the new controller to be there again", env.standsBy)
	noSecrets(t, env.clusterEnv, out, string(env.config(t).Render()))
}

// TestTakeoverUndoOfADaemonSet does the same where the old controller is a DaemonSet, which is stopped by a selector of
// nodes beside its own.
func TestTakeoverUndoOfADaemonSet(t *testing.T) {
	t.Parallel()
	env := newOccupiedBy(t, testenv.Predecessor{DaemonOn: worker1.Name})
	sets := env.Client.AppsV1().DaemonSets(metav1.NamespaceSystem)
	was, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, code := env.csccm(t, "", append([]string{"install", "--yes", "--pin", "all", "--keep-old"}, processFlags...)...)
	if code != 0 || !strings.Contains(out, "Stopping DaemonSet kube-system/"+oldName) {
		t.Fatalf("the install in the old one's place ended with %d:\n%s", code, out)
	}
	env.recorded(t)
	kept, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil || kept.Status.CurrentNumberScheduled != 0 || kept.Annotations[keptAnnotation] == "" {
		t.Fatalf("%v, the kept DaemonSet: %+v", err, kept)
	}
	if _, err := sets.Patch(t.Context(), oldName, types.JSONPatchType, oldProgramReads, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w := env.witness(t)
	undo := []string{"takeover", "--undo", "--yes"}
	env.killedInTurn(t, 1, []string{"Ending csccm's controller", "Starting DaemonSet kube-system/" + oldName}, undo)
	if out, code = env.csccm(t, "", undo...); code != 0 || !strings.Contains(out, "The old controller works again") {
		t.Fatalf("the undo after the kills ended with %d:\n%s", code, out)
	}
	w.stop()
	<-w.done
	now, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil || now.Status.NumberReady != 1 || now.Annotations[keptAnnotation] != "" || !reflect.DeepEqual(now.Spec.Template.Spec.NodeSelector, was.Spec.Template.Spec.NodeSelector) {
		t.Errorf("%v, the old DaemonSet: %+v", err, now)
	}
	env.isBack(t, w)
}

// isBack compares with what was before the takeover.
func (env *occupied) isBack(t *testing.T, w *witness) {
	t.Helper()
	if now := balancerRules(t, env.client, env.ips...); !reflect.DeepEqual(now, env.before) {
		t.Errorf("the rules were %v and are %v", env.before, now)
	}
	pods, err := env.Client.CoreV1().Pods(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm"})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%v, %d Pods of csccm's controller are left", err, len(pods.Items))
	}
	s, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "documented", metav1.GetOptions{})
	if err != nil || s.Annotations[proxyProtocol] != "enabled" {
		t.Errorf("%v, annotations %v", err, s.Annotations)
	}
	if now := env.appPods(t); !reflect.DeepEqual(now, env.apps) {
		t.Errorf("Pods before %v and after %v", env.apps, now)
	}
	// By the lease: ours, csccm, the old one.
	led := ""
	for _, holder := range w.holders {
		switch {
		case strings.HasPrefix(holder, "csccm-takeover_"):
			led += "c"
		case strings.HasPrefix(holder, oldName+"-"):
			led += "o"
		case holder != "":
			led += "n"
		}
	}
	if i := strings.Index(led, "o"); i < 0 || strings.ContainsAny(led[i:], "nc") || !strings.Contains(led[:i], "c") {
		t.Errorf("the lease was held by %v (%s)", w.holders, led)
	}
}
