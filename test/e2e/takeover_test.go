// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

const (
	oldName        = testenv.PredecessorName
	keptAnnotation = "csccm.io/kept-by-takeover"
)

// occupied is a cluster in which another provider runs, with three Services.
type occupied struct {
	*clusterEnv
	ips    []string
	before map[string]testenv.Rule // by id, as the other provider left them
	apps   []string                // Pods of a workload
}

// newOccupied returns an occupied cluster with the nodes cp1 and worker1. The other provider has the names of Apache's
// manifest and its own image. Process nodes run only our programs and never start an image that they do not know.
func newOccupied(t *testing.T, p testenv.Predecessor) *occupied {
	t.Helper()
	e := &occupied{clusterEnv: newClusterEnv(t, nil)}
	e.join(t, cp1, worker1)
	e.secret(t, string(e.config(t, owner).Render()))
	p.Image = testenv.ControllerImage + ":old"
	e.precededBy(t, p)
	e.initialised(t, 2)
	e.service(t, "web", 80)
	e.service(t, "mail", 25)
	e.serviceIn(t, metav1.NamespaceDefault, "documented", map[string]string{annotations + "proxy-protocol": "enabled"},
		8080)
	out, err := e.kubectl(t.Context(), "", "create", "-f", "testdata/app.yaml")
	require.NoError(t, err, out)
	e.eventually(t, "the Pods of app to be on nodes", func(ctx context.Context) {
		e.apps = e.appPods(ctx)
		must.Be(len(e.apps) == 4, "they are %v", e.apps)
	})

	for i, port := range []int{80, 25, 8080} {
		e.ips = append(e.ips, e.address(t, []string{"web", "mail", "documented"}[i]))
		e.wantRules(t, e.ips[i], fmt.Sprintf("%d:%s", port, worker1.Name))
	}

	require.NoError(t, testenv.RulesOfOld(t.Context(), e.api(t, owner), e.rulesAt(t, e.ips...)))
	e.before = e.rulesAt(t, e.ips...)
	return e
}

func (e *clusterEnv) precededBy(t *testing.T, p testenv.Predecessor) {
	t.Helper()
	p.Secret, p.Port = secretName, "10258"
	require.NoError(t, p.Create(t.Context(), e.Client))
}

// appPods returns the UIDs and nodes of the Pods that are bound to nodes. Their images cannot be pulled here, which
// does not matter.
func (e *clusterEnv) appPods(ctx context.Context) (out []string) {
	for _, p := range must.Get(e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})).Items {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			out = append(out, string(p.UID)+" on "+p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return out
}

// recorded waits until the new controller has recorded the addresses of all load balancers.
func (e *clusterEnv) recorded(t *testing.T) {
	t.Helper()
	e.eventually(t, "the new controller to record its addresses", func(ctx context.Context) {
		for _, s := range must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx,
			metav1.ListOptions{})).Items {
			recorded := s.Annotations[annotations+"addresses"] != ""
			must.Be(recorded || s.Spec.Type != corev1.ServiceTypeLoadBalancer, "Service %s has no record", s.Name)
		}
	})
}

// taken checks that a takeover is complete and disturbed nothing: ids, addresses, protocols and members of the rules
// are unchanged, and the rules have the new controller's names.
func (e *occupied) taken(t *testing.T, w *witness) {
	t.Helper()
	e.runs(t, "Deployment")
	e.recorded(t)
	after := e.rulesAt(t, e.ips...)
	require.Len(t, after, len(e.before))
	for id, was := range e.before {
		now := after[id]
		require.Equal(t, []any{was.PublicIP, was.Protocol, "Active", was.Members},
			[]any{now.PublicIP, now.Protocol, now.State, now.Members})
		require.Contains(t, now.Name, "-tcp-", "the name of rule %s", id)
	}

	old, err := e.Client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), oldName, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, *old.Spec.Replicas == 0 && old.Annotations[keptAnnotation] != "", "the old Deployment: %+v", old)
	for _, command := range []string{"deleteLoadBalancerRule", "disassociateIpAddress", "removeFromLoadBalancerRule"} {
		require.Empty(t, e.cloud.Ledger().Find(command, ""))
	}

	e.undisturbed(t, w, "cloudstack-ccm-self-test", "false")
	w.check(t)
}

// undisturbed ends the watch of a change of controllers: no Pod of the workload has moved, no Pod with a given name is
// left, one Service has its annotation, and the nodes have the labels of the old controller.
func (e *occupied) undisturbed(t *testing.T, w *witness, name, annotation string) {
	t.Helper()
	w.end()
	s, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "documented", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, annotation, s.Annotations[annotations+"proxy-protocol"])
	require.Equal(t, "SmallInstance", e.node(t, worker1.Name).Labels[corev1.LabelInstanceTypeStable])
	e.eventually(t, "the Pods to be those of before", func(ctx context.Context) {
		must.Be(slices.Equal(e.apps, e.appPods(ctx)), "they are %v, and were %v", e.appPods(ctx), e.apps)
		must.Be(len(e.podsOf(ctx, name)) == 0, "Pods of %s are left", name)
	})
}

func (e *clusterEnv) podsOf(ctx context.Context, name string) []corev1.Pod {
	o := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name}
	return must.Get(e.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, o)).Items
}

// The messages that csccm prints at the end of each step of a takeover, in order. If it is killed at such a message,
// the next step has begun.
var (
	beforeChart = []string{"Record of the current state: "}
	swapping    = []string{"Holding lease kube-system/" + lease, "Stopping Deployment kube-system/" + oldName,
		": renamed"}
	afterSwap = []string{"Waiting for the new controller to lead: ", "Rules and addresses: ids kept: 3"}
)

// TestTakeover replaces a running provider by csccm's controller. csccm takeover prepares this and is killed while it
// switches. Services keep their addresses and rule ids, two controllers never lead at the same time, and no Pod moves.
func TestTakeover(t *testing.T) {
	t.Parallel()
	e := newOccupied(t, testenv.Predecessor{})
	w := e.witness(t)
	takeover := []string{"takeover", "--yes", "--pin", "default/documented"}
	e.csccm(t, "", "takeover", "--yes").want(t, 3, "--pin default/documented")
	e.csccm(t, "", takeover...).want(t, 0, "Prepared. Next:", "instanceTypeFormat=upstream")
	e.install(t, map[string]any{"instanceTypeFormat": "upstream"})
	e.eventually(t, "the new controller to stand by", func(ctx context.Context) {
		pods := e.podsOf(ctx, "cloudstack-ccm")
		must.Be(len(pods) == 1 && len(pods[0].Status.ContainerStatuses) == 1, "its Pod does not run")
		must.Be(pods[0].Status.ContainerStatuses[0].Ready, "it is not ready")
	})
	e.killedInTurn(t, 1, swapping[:1], takeover) // TestTakeoverUndo kills csccm in the later steps
	e.csccm(t, "", takeover...).want(t, 0)
	e.csccm(t, "", "takeover", "--yes").want(t, 0, "nothing to take over")
	e.taken(t, w)
}

// TestTakeoverUndo goes back to the provider that an install replaced, and kills csccm at each step. Everything that
// the takeover changed is restored, and csccm's controller stops before the old one starts. Then csccm takes over for
// good, and is again killed at each step. Before all this, a person at a terminal chooses to keep the current state of
// the Service that would change.
func TestTakeoverUndo(t *testing.T) {
	t.Parallel()
	e := newOccupied(t, testenv.Predecessor{})
	install := slices.Concat([]string{"install", "--yes"}, processFlags)
	e.csccm(t, "", install...).want(t, 3, "--pin default/documented") // without consent
	const changes = "Services that would change: default/documented:"
	e.dialog(t, []answer{{changes, down + down + enter}}, append([]string{"install"}, processFlags...)...).
		shows(t, 3, "default/documented: stop here", "--accept default/documented", "--pin default/documented")
	answers := []answer{{changes, enter}, {"Go on in cluster ", enter}}
	e.dialog(t, answers, append([]string{"install"}, processFlags...)...).shows(t, 0,
		"found Deployment kube-system/"+oldName+", another provider",
		"the protocol of port 8080 changes from tcp to tcp-proxy",
		changes+" keep the current state", "Go on in cluster ", "namespace kube-system? Yes",
		"Stopping Deployment kube-system/"+oldName, "Rules and addresses: ids kept: 3",
		"Replaced Deployment kube-system/"+oldName)
	e.recorded(t)
	deployments := e.Client.AppsV1().Deployments(metav1.NamespaceSystem)
	_, err := deployments.Patch(t.Context(), oldName, types.JSONPatchType, oldProgramReads, metav1.PatchOptions{})
	require.NoError(t, err)
	s := e.csccm(t, "", "takeover", "--undo", "--dry-run", "-o", "json").want(t, 0, "rename rule ")
	var parts []string
	for _, m := range regexp.MustCompile(`"part": "(\w+)"`).FindAllStringSubmatch(s.out, -1) {
		parts = append(parts, m[1])
	}
	require.Equal(t, []string{"End", "Start", "Service", "Service"}, parts, s.out)
	// On a busy machine the kill comes late: by then the rules and further steps may be finished.
	e.undo(t, 2, []string{
		"Holding lease kube-system/" + lease, "Stopping csccm's controller", ": renamed",
		"Starting Deployment kube-system/" + oldName,
	})
	old, err := deployments.Get(t.Context(), oldName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []int32{1, 1}, []int32{*old.Spec.Replicas, old.Status.ReadyReplicas})
	require.Empty(t, old.Annotations[keptAnnotation])
	e.csccm(t, "", "takeover", "--undo").want(t, 0, "nothing to undo")

	w := e.witness(t)
	install = append(install, "--pin", "all")
	e.killedInTurn(t, 4, slices.Concat(beforeChart, []string{
		"Helm release kube-system/", "Waiting for the controller's Pods: ",
		"The controller's self-test in the cluster: passed",
	}, swapping, afterSwap), install)
	e.csccm(t, "", install...).want(t, 0)
	e.taken(t, w)
}

// TestTakeoverUndoOfADaemonSet does the same with an old controller that is a DaemonSet. A takeover stops it by adding
// to its node selector.
func TestTakeoverUndoOfADaemonSet(t *testing.T) {
	t.Parallel()
	e := newOccupied(t, testenv.Predecessor{DaemonOn: worker1.Name})
	sets := e.Client.AppsV1().DaemonSets(metav1.NamespaceSystem)
	was, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	require.NoError(t, err)
	e.csccm(t, "", append([]string{"install", "--yes", "--pin", "all"}, processFlags...)...).want(t, 0,
		"Stopping DaemonSet kube-system/"+oldName)
	e.recorded(t)
	kept, err := sets.Patch(t.Context(), oldName, types.JSONPatchType, oldProgramReads, metav1.PatchOptions{})
	require.NoError(t, err)
	require.Zero(t, kept.Status.CurrentNumberScheduled)
	require.NotEmpty(t, kept.Annotations[keptAnnotation])
	e.undo(t, 1, []string{"Stopping csccm's controller", "Starting DaemonSet kube-system/" + oldName})
	now, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, now.Status.NumberReady == 1 && now.Annotations[keptAnnotation] == "", "the old DaemonSet: %+v", now)
	require.Equal(t, was.Spec.Template.Spec.NodeSelector, now.Spec.Template.Spec.NodeSelector)
}

// oldProgramReads is a patch that makes the old controller read-only. Its program is csccm's own, which would change
// what Apache's leaves unchanged.
var oldProgramReads = []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--load-balancer-policy=dry-run"}]`)

// undo goes back, kills csccm after each of these texts, and compares the result with the state before the takeover.
func (e *occupied) undo(t *testing.T, least int, texts []string) {
	t.Helper()
	require.NotEqual(t, e.before, e.rulesAt(t, e.ips...), "the takeover renamed no rule")
	w := e.witness(t)
	undo := []string{"takeover", "--undo", "--yes"}
	e.killedInTurn(t, least, texts, undo)
	e.csccm(t, "", undo...).want(t, 0)
	e.eventually(t, "the old controller to lead", func(ctx context.Context) {
		holder := e.holder(ctx)
		must.Be(strings.HasPrefix(holder, oldName+"-"), "%q leads", holder)
	})

	e.undisturbed(t, w, "cloudstack-ccm", "enabled")
	require.Equal(t, e.before, e.rulesAt(t, e.ips...))

	// Who held the lease: the new controller (n), csccm (c), the old controller (o).
	led := ""
	for _, holder := range w.reigns {
		switch {
		case strings.HasPrefix(holder, "csccm-takeover_"):
			led += "c"
		case strings.HasPrefix(holder, oldName+"-"):
			led += "o"
		case holder != "":
			led += "n"
		}
	}

	require.Regexp(t, "^[nc]*c[nc]*o+$", led, w.reigns)
}

// killedAt runs csccm and kills it as soon as it prints a text. It returns false if csccm completed without printing
// the text: the previous run was killed later than intended.
func (e *env) killedAt(t *testing.T, text string, args []string) (killed bool) {
	t.Helper()
	ctx, kill := context.WithTimeout(t.Context(), limit)
	defer kill()
	cmd := e.command(ctx, args...)
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil && !strings.Contains(out.String(), text) {
			time.Sleep(time.Millisecond)
		}
		kill()
	})

	err := cmd.Wait()
	kill()
	watching.Wait()
	killed = strings.Contains(out.String(), text)
	require.True(t, killed || err == nil, "csccm %s ended (%v) without saying %q:\n%s", args[0], err, text, &out)
	return killed
}

// killedInTurn kills csccm after each of these texts, one run after the other, at least a given number of times.
func (e *clusterEnv) killedInTurn(t *testing.T, least int, texts, args []string) {
	t.Helper()
	n := 0
	for n < len(texts) && e.killedAt(t, texts[n], args) { // until nothing is left
		n++
	}
	require.GreaterOrEqual(t, n, least, "csccm %s was killed", args[0])
}
