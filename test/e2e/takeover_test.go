// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/test/processnode"
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

// newOccupied has cp1, worker1 and others for nodes. The predecessor runs under the names of Apache's manifest, with an image of
// its own: process nodes run no program but ours, and an image that they do not know never runs.
func newOccupied(t *testing.T, p testenv.Predecessor, others ...processnode.Options) *occupied {
	t.Helper()
	e := &occupied{clusterEnv: newClusterEnv(t, nil)}
	e.join(t, append([]processnode.Options{cp1, worker1}, others...)...)
	members := worker1.Name
	for _, o := range others {
		members += "," + o.Name
	}
	e.secret(t, string(e.config(t, owner).Render()))
	p.Image = testenv.ControllerImage + ":old"
	e.precededBy(t, p)
	e.initialised(t, 2)
	e.service(t, "web", 80)
	e.service(t, "mail", 25)
	e.annotated(t, "documented", map[string]string{annotations + "proxy-protocol": "enabled"}, 8080)
	e.workload(t)
	for i, port := range []int{80, 25, 8080} {
		e.ips = append(e.ips, e.address(t, []string{"web", "mail", "documented"}[i]))
		e.wantRules(t, e.ips[i], fmt.Sprintf("%d:%s", port, members))
	}
	require.NoError(t, testenv.RulesOfOld(t.Context(), e.api(t, owner), e.rulesAt(t, e.ips...)))
	e.before, e.apps = e.rulesAt(t, e.ips...), e.appPods(t)
	return e
}

func (e *clusterEnv) precededBy(t *testing.T, p testenv.Predecessor) {
	t.Helper()
	p.Secret, p.Port = secretName, "10258"
	require.NoError(t, p.Create(t.Context(), e.Client))
}

// workload makes Pods on the nodes; that their image cannot be pulled here does not matter.
func (e *clusterEnv) workload(t *testing.T) {
	t.Helper()
	out, err := e.kubectl(t.Context(), "", "create", "-f", "testdata/app.yaml")
	require.NoError(t, err, out)
	e.eventually(t, "the Pods of app to be on nodes", func(context.Context) error {
		if n := len(e.appPods(t)); n != 4 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// appPods are the Pods that are on nodes, with their UIDs and nodes.
func (e *clusterEnv) appPods(t *testing.T) (out []string) {
	t.Helper()
	list, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			out = append(out, string(p.UID)+" on "+p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return out
}

// recorded waits until the new controller has taken the addresses of all load balancers into its records.
func (e *clusterEnv) recorded(t *testing.T) {
	t.Helper()
	e.eventually(t, "the new controller to record its addresses", func(ctx context.Context) error {
		list, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Annotations[annotations+"addresses"] == "" {
				return fmt.Errorf("service %s has no record", s.Name)
			}
		}
		return nil
	})
}

// taken wants a takeover to be done, without anybody having noticed: ids, addresses, protocols and members of the rules are those
// that were, and the names are the new controller's.
func (e *occupied) taken(t *testing.T, w *witness) {
	t.Helper()
	e.runs(t, "Deployment")
	e.recorded(t)
	after := e.rulesAt(t, e.ips...)
	if len(after) != len(e.before) {
		t.Errorf("there were %d rules and are %d", len(e.before), len(after))
	}
	for id, was := range e.before {
		now := after[id]
		if now.PublicIP != was.PublicIP || now.Protocol != was.Protocol || now.State != "Active" || !slices.Equal(now.Members, was.Members) {
			t.Errorf("rule %s was %+v and is %+v", id, was, now)
		}
		if !strings.Contains(now.Name, "-tcp-") {
			t.Errorf("rule %s is still named %s", id, now.Name)
		}
		fmt.Fprintf(&e.session, "%s  %s:%d  %s (%s, %s)  ->  %s (%s, %s)\n",
			id, was.PublicIP, was.PublicPort, was.Name, was.Protocol, was.Algorithm, now.Name, now.Protocol, now.Algorithm)
	}
	old, err := e.Client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil || *old.Spec.Replicas != 0 || old.Annotations[keptAnnotation] == "" {
		t.Errorf("%v, the old Deployment: %+v", err, old)
	}
	if now := e.appPods(t); !slices.Equal(now, e.apps) {
		t.Errorf("Pods before %v and after %v", e.apps, now)
	}
	for _, call := range e.cloud.Ledger().Calls() {
		if slices.Contains([]string{"deleteLoadBalancerRule", "disassociateIpAddress", "removeFromLoadBalancerRule"}, call.Command) {
			t.Errorf("somebody called %s", call.Command)
		}
	}
	if pods, err := e.podsOf(t.Context(), "cloudstack-ccm-self-test"); err != nil || len(pods) > 0 {
		t.Errorf("%d Pods of self-tests are left: %v", len(pods), err)
	}
	w.check(t)
}

// isPinned wants the current state of one Service to be kept, and the node labels of the old controller.
func (e *occupied) isPinned(t *testing.T, want string) {
	t.Helper()
	s, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "documented", metav1.GetOptions{})
	if err != nil || s.Annotations[annotations+"proxy-protocol"] != want {
		t.Errorf("%v, annotations %v", err, s.Annotations)
	}
	if n := e.node(t, worker1.Name); n.Labels[corev1.LabelInstanceTypeStable] != "SmallInstance" {
		t.Errorf("labels %v", n.Labels)
	}
}

func (e *clusterEnv) podsOf(ctx context.Context, name string) ([]corev1.Pod, error) {
	list, err := e.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// standsBy waits until a Pod of the new controller is ready, beside the old one.
func (e *occupied) standsBy(t *testing.T) {
	t.Helper()
	e.eventually(t, "the new controller to stand by", func(ctx context.Context) error {
		pods, err := e.podsOf(ctx, "cloudstack-ccm")
		for i := range pods {
			if slices.ContainsFunc(pods[i].Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Ready }) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("none of %d Pods is ready", len(pods)))
	})
}

// What csccm says at the end of each step of a takeover, in order; killed there, the next step has begun.
var (
	beforeChart = []string{"Record of what was: "}
	swapping    = []string{"Holding lease kube-system/" + lease, "Stopping Deployment kube-system/" + oldName, ": renamed"}
	afterSwap   = []string{"Waiting for the new controller to lead: ", "Rules and addresses: ids kept: 3"}
)

// TestTakeover swaps a running provider for csccm's, prepared by csccm takeover, which is killed while it swaps: Services
// keep addresses and rule ids, two controllers never lead, and no Pod is moved. Then it has nodes initialised that were there
// before any provider, and sets them back, on a terminal.
func TestTakeover(t *testing.T) { //nolint:tparallel // the part shares the cluster
	t.Parallel()
	e := newOccupied(t, testenv.Predecessor{}, joined(worker2))
	w := e.witness(t)
	takeover := []string{"takeover", "--yes", "--pin", "default/documented"}
	e.csccm(t, "", "takeover", "--yes").want(t, 3, "--pin default/documented")
	e.csccm(t, "", takeover...).want(t, 0, "Prepared. Next:", "instanceTypeFormat=upstream")
	e.install(t, map[string]any{"instanceTypeFormat": "upstream"})
	e.standsBy(t)
	e.killedInTurn(t, 1, "", swapping[:1], takeover) // TestTakeoverUndo kills what follows
	e.csccm(t, "", takeover...).want(t, 0)
	e.csccm(t, "", "takeover", "--yes").want(t, 0, "nothing to take over")
	e.taken(t, w)
	e.isPinned(t, "false")
	t.Run("taint", func(t *testing.T) { testTaint(t, e.clusterEnv) })
}

// TestTakeoverUndo goes back to the provider that an install has replaced, killed at each of its steps. What the takeover
// changed is as it was, and csccm's controller ends before the old one starts. Then it takes its place again, and for good,
// killed at each step of that too.
func TestTakeoverUndo(t *testing.T) {
	t.Parallel()
	e := newOccupied(t, testenv.Predecessor{})
	install := slices.Concat([]string{"install", "--yes"}, processFlags)
	e.csccm(t, "", install...).want(t, 3, "--pin default/documented") // without consent
	install = append(install, "--pin", "all")
	e.csccm(t, "", install...).want(t, 0, "Stopping Deployment kube-system/"+oldName, "Back to it: csccm takeover --context csccm-test --undo")
	e.recorded(t)
	deployments := e.Client.AppsV1().Deployments(metav1.NamespaceSystem)
	if _, err := deployments.Patch(t.Context(), oldName, types.JSONPatchType, oldProgramReads, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Changes  []struct{ Part string }
		Warnings []string
	}
	s := e.csccm(t, "", "takeover", "--undo", "--dry-run", "-o", "json").want(t, 0, "rename rule ")
	err := json.Unmarshal([]byte(s.out), &plan)
	if want := "[{End} {Start} {Service} {Service}]"; err != nil || fmt.Sprint(plan.Changes) != want || len(plan.Warnings) > 0 {
		t.Fatalf("%v, want %s, the dry run:\n%s", err, want, s.all)
	}
	// On a busy machine a kill comes late: the rules may be done by then, and what follows with them.
	e.undo(t, 2, []string{
		"Holding lease kube-system/" + lease, "Ending csccm's controller", ": renamed", "Starting Deployment kube-system/" + oldName,
	})
	old, err := deployments.Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil || *old.Spec.Replicas != 1 || old.Status.ReadyReplicas != 1 || len(old.Annotations[keptAnnotation]) > 0 {
		t.Errorf("%v, the old Deployment: %+v", err, old)
	}
	e.csccm(t, "", "takeover", "--undo").want(t, 0, "nothing to undo")

	w := e.witness(t)
	e.killedInTurn(t, 4, "", slices.Concat(beforeChart, []string{
		"Helm release kube-system/", "Waiting for the controller's Pods: ", "The controller's self-test in the cluster: passed",
	}, swapping, afterSwap), install)
	e.csccm(t, "", install...).want(t, 0)
	e.taken(t, w)
	e.isPinned(t, "false")
}

// TestTakeoverUndoOfADaemonSet does the same where the old controller is a DaemonSet, which is stopped by a selector of
// nodes beside its own.
func TestTakeoverUndoOfADaemonSet(t *testing.T) {
	t.Parallel()
	e := newOccupied(t, testenv.Predecessor{DaemonOn: worker1.Name})
	sets := e.Client.AppsV1().DaemonSets(metav1.NamespaceSystem)
	was, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	require.NoError(t, err)
	e.csccm(t, "", append([]string{"install", "--yes", "--pin", "all"}, processFlags...)...).want(t, 0, "Stopping DaemonSet kube-system/"+oldName)
	e.recorded(t)
	kept, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil || kept.Status.CurrentNumberScheduled != 0 || kept.Annotations[keptAnnotation] == "" {
		t.Fatalf("%v, the kept DaemonSet: %+v", err, kept)
	}
	if _, err := sets.Patch(t.Context(), oldName, types.JSONPatchType, oldProgramReads, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.undo(t, 1, []string{"Ending csccm's controller", "Starting DaemonSet kube-system/" + oldName})
	now, err := sets.Get(t.Context(), oldName, metav1.GetOptions{})
	if err != nil || now.Status.NumberReady != 1 || now.Annotations[keptAnnotation] != "" || !reflect.DeepEqual(now.Spec.Template.Spec.NodeSelector, was.Spec.Template.Spec.NodeSelector) {
		t.Errorf("%v, the old DaemonSet: %+v", err, now)
	}
}

// oldProgramReads is a patch of the old controller: the program in it is csccm's own, which would change what Apache's
// leaves as it is.
var oldProgramReads = []byte(`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--load-balancer-policy=dry-run"}]`)

// undo goes back, killed after these texts, and compares with what was before the takeover.
func (e *occupied) undo(t *testing.T, least int, texts []string) {
	t.Helper()
	if now := e.rulesAt(t, e.ips...); reflect.DeepEqual(now, e.before) {
		t.Fatalf("the takeover renamed no rule: %v", now)
	}
	w := e.witness(t)
	undo := []string{"takeover", "--undo", "--yes"}
	e.killedInTurn(t, least, "", texts, undo)
	e.csccm(t, "", undo...).want(t, 0, "old controller works")
	e.eventually(t, "the old controller to lead", func(ctx context.Context) error {
		if holder := e.holder(ctx); !strings.HasPrefix(holder, oldName+"-") {
			return fmt.Errorf("%q leads", holder)
		}
		return nil
	})
	w.end()
	if now := e.rulesAt(t, e.ips...); !reflect.DeepEqual(now, e.before) {
		t.Errorf("the rules were %v and are %v", e.before, now)
	}
	if pods, err := e.podsOf(t.Context(), "cloudstack-ccm"); err != nil || len(pods) > 0 {
		t.Errorf("%v, %d Pods of csccm's controller are left", err, len(pods))
	}
	e.isPinned(t, "enabled")
	if now := e.appPods(t); !slices.Equal(now, e.apps) {
		t.Errorf("Pods before %v and after %v", e.apps, now)
	}
	// By the lease: ours, csccm, the old one.
	led := ""
	for _, r := range w.reigns {
		switch {
		case strings.HasPrefix(r.holder, "csccm-takeover_"):
			led += "c"
		case strings.HasPrefix(r.holder, oldName+"-"):
			led += "o"
		case r.holder != "":
			led += "n"
		}
	}
	if i := strings.Index(led, "o"); i < 0 || strings.ContainsAny(led[i:], "nc") || !strings.Contains(led[:i], "c") {
		t.Errorf("the lease was held by %v (%s)", w.reigns, led)
	}
}

// killedAt runs csccm and kills it as soon as it says a text. It is false when csccm has done all there was to do
// without it: the run before was killed a step later than it was meant to be.
func (e *env) killedAt(t *testing.T, stdin, text string, args []string) (killed bool) {
	t.Helper()
	ctx, kill := context.WithTimeout(t.Context(), limit)
	defer kill()
	cmd := e.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for ctx.Err() == nil && !strings.Contains(out.String(), text) {
			time.Sleep(time.Millisecond)
		}
		kill()
	}()
	err := cmd.Wait()
	kill()
	<-watching
	switch killed = strings.Contains(out.String(), text); {
	case killed:
		t.Logf("%q was said: %v", text, err)
	case err != nil:
		t.Errorf("csccm %s ended (%v) without saying %q:\n%s", args[0], err, text, out.String())
	default:
		t.Logf("done, without a step %q left", text)
	}
	return killed
}

// killedInTurn kills csccm after each of these texts, one run after the other, at least so many times.
func (e *clusterEnv) killedInTurn(t *testing.T, least int, stdin string, texts, args []string) {
	t.Helper()
	n := 0
	for _, text := range texts {
		if !e.killedAt(t, stdin, text, args) {
			break // nothing is left
		}
		n++
	}
	if n < least {
		t.Errorf("csccm %s was killed %d times, want %d or more", args[0], n, least)
	}
}
