// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

const oldName = testenv.PredecessorName

// predecessorOf runs under the names of Apache's manifest, with an image of its own: process nodes run no program but ours,
// and an image that they do not know never runs.
func (env *clusterEnv) predecessorOf(t *testing.T, image, provider string) {
	t.Helper()
	env.precededBy(t, testenv.Predecessor{Image: image, Provider: provider})
}

func (env *clusterEnv) precededBy(t *testing.T, p testenv.Predecessor) {
	t.Helper()
	p.Secret, p.Port = secretName, "10258"
	if err := p.Create(t.Context(), env.Client); err != nil {
		t.Fatal(err)
	}
}

// balancerRules are a user's rules by id: address, port, name, protocol and members.
func balancerRules(t *testing.T, client *cloudstack.Client, ips ...string) map[string]testenv.Rule {
	t.Helper()
	rules, err := testenv.RulesByID(t.Context(), client, ips...)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// witness records what CloudStack Kubernetes Service would see: by the command below it decides whether to apply its own
// provider again. It also records who held the lease.
type witness struct {
	env     *clusterEnv
	mu      sync.Mutex
	missing int // changes of Pods after which the command would have found none
	changes int
	holders []string // in order
	stop    context.CancelFunc
	done    chan struct{}
}

const (
	cksCommand = "kubectl get pods -A | grep " + cksName
	cksName    = "cloud-controller-manager"
)

// unanswered is what kubectl says when it has no list of Pods.
var unanswered = regexp.MustCompile(`(?m)^(error: |Error from server|Unable to connect)`)

func (env *clusterEnv) cksLooks(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", cksCommand) // #nosec G204 -- a constant
	cmd.Env = []string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.home, "PATH=" + filepath.Dir(env.Kubectl) + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (env *clusterEnv) witness(t *testing.T) *witness {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &witness{env: env, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		var watches sync.WaitGroup
		for _, watch := range []func(context.Context){w.watchLease, w.watchPods} {
			watches.Go(func() {
				for ctx.Err() == nil { // the API server may end a watch
					watch(ctx)
				}
			})
		}
		watches.Wait()
	}()
	t.Cleanup(func() { stop(); <-w.done })
	return w
}

// watchPods counts the changes after which the API server had no Pod with the name that the command looks for. A watch shows
// every change, also one that is too short for a command.
func (w *witness) watchPods(ctx context.Context) {
	pods := w.env.Client.CoreV1().Pods(metav1.NamespaceAll)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	found := map[types.UID]bool{}
	see := func(p *corev1.Pod, gone bool) {
		if strings.Contains(p.Namespace+" "+p.Name, cksName) {
			found[p.UID] = !gone
		}
		if gone {
			delete(found, p.UID)
		}
	}
	count := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes++
		if len(found) == 0 {
			w.missing++
		}
	}
	for i := range list.Items {
		see(&list.Items[i], false)
	}
	count()
	events, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok {
			see(p, e.Type == watch.Deleted)
			count()
		}
	}
}

// watchLease records each holder of the lease, however briefly it holds it.
func (w *witness) watchLease(ctx context.Context) {
	w.env.watchLease(ctx, func(holder string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.holders); n == 0 || w.holders[n-1] != holder {
			w.holders = append(w.holders, holder)
		}
	})
}

// watchLease calls seen with the holder at each write of the lease; "" is a lease that was given back. It ends with ctx, and
// whenever the API server ends the watch.
func (env *clusterEnv) watchLease(ctx context.Context, seen func(holder string)) {
	events, err := env.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: lease}))
	if err != nil {
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if l, ok := e.Object.(*coordinationv1.Lease); ok && l.Spec.HolderIdentity != nil {
			seen(*l.Spec.HolderIdentity)
		}
	}
}

// occupied is a cluster in which another provider runs, with three Services.
type occupied struct {
	*clusterEnv
	client *cloudstack.Client
	ips    []string
	before map[string]testenv.Rule // by id, as the other provider left them
	apps   []string                // Pods of a workload
}

// newOccupied has cp1, worker1 and others for nodes.
func newOccupied(t *testing.T, others ...processnode.Options) *occupied {
	t.Helper()
	return newOccupiedBy(t, testenv.Predecessor{}, others...)
}

// newOccupiedBy is newOccupied with a predecessor of another kind.
func newOccupiedBy(t *testing.T, p testenv.Predecessor, others ...processnode.Options) *occupied {
	t.Helper()
	env := &occupied{clusterEnv: newClusterEnv(t, nil)}
	env.join(t, append([]processnode.Options{cp1, worker1}, others...)...)
	members := worker1.Name
	for _, o := range others {
		members += "," + o.Name
	}
	env.secret(t, string(env.config(t).Render()))
	p.Image = testenv.ControllerImage + ":old"
	env.precededBy(t, p)
	env.initialized(t, cp1.Name, worker1.Name)
	env.balanced(t, "web", 80)
	env.balanced(t, "mail", 25)
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "documented", Annotations: map[string]string{"service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol": "enabled"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts([]int32{8080})},
	}
	if _, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.workload(t)
	env.ips = []string{env.address(t, "web"), env.address(t, "mail"), env.address(t, "documented")}
	for i, port := range []int{80, 25, 8080} {
		env.wantRules(t, env.ips[i], fmt.Sprintf("%d:%s", port, members))
	}
	var err error
	if env.client, err = env.cloud.Client(owner); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.client.CloseIdleConnections)
	if err := testenv.RulesOfOld(t.Context(), env.client, balancerRules(t, env.client, env.ips...)); err != nil {
		t.Fatal(err)
	}
	env.before = balancerRules(t, env.client, env.ips...)
	env.apps = env.appPods(t)
	return env
}

// kept compares the rules with those that were: ids, addresses, protocols and members are the same, and
// the names are the new controller's.
func (env *occupied) kept(t *testing.T) {
	t.Helper()
	after := balancerRules(t, env.client, env.ips...)
	if len(after) != len(env.before) {
		t.Errorf("there were %d rules and are %d", len(env.before), len(after))
	}
	for id, was := range env.before {
		now := after[id]
		if now.PublicIP != was.PublicIP || now.Protocol != was.Protocol || now.State != "Active" || !slices.Equal(now.Members, was.Members) {
			t.Errorf("rule %s was %+v and is %+v", id, was, now)
		}
		if !strings.Contains(now.Name, "-tcp-") {
			t.Errorf("rule %s is still named %s", id, now.Name)
		}
	}
	if d, err := env.Client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), oldName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the old Deployment is still there: %v %v", d, err)
	}
	if now := env.appPods(t); !slices.Equal(now, env.apps) {
		t.Errorf("Pods before %v and after %v", env.apps, now)
	}
}

// recorded waits until the new controller has taken the addresses into its records.
func (env *occupied) recorded(t *testing.T) {
	t.Helper()
	env.eventually(t, "the new controller to record its addresses", func(ctx context.Context) error {
		for _, name := range []string{"web", "mail", "documented"} {
			s, err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
			if err != nil || s.Annotations["service.beta.kubernetes.io/cloudstack-load-balancer-addresses"] == "" {
				return errors.Join(err, fmt.Errorf("service %s has no record", name))
			}
		}
		return nil
	})
}

// TestTakeover swaps a running provider for csccm's: Services keep addresses and rule ids, two
// controllers never lead, and no Pod is moved.
func TestTakeover(t *testing.T) { //nolint:tparallel // the parts share one cluster, in this order
	t.Parallel()
	env := newOccupied(t, joined(worker2))
	script := &transcript{b: env.clusterEnv}

	watch := env.witness(t)
	process := []string{"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)"}
	out, code := script.run(t, "takeover", "--yes")
	if code != 3 || !strings.Contains(out, "--pin default/documented") {
		t.Fatalf("unattended, without consent, it ended with %d:\n%s", code, out)
	}
	out, code = script.run(t, "takeover", "--yes", "--pin", "default/documented")
	if code != 0 || !strings.Contains(out, "Prepared. Next:") || !strings.Contains(out, "instanceTypeFormat=upstream") {
		t.Fatalf("the preparation ended with %d:\n%s", code, out)
	}
	out, code = script.run(t, append([]string{"install", "--yes", "--skip-taint", "--skip-check", "CCM-002,CCM-003", "--set", "instanceTypeFormat=upstream"}, process...)...)
	if code != 0 || !strings.Contains(out, "Stopping Deployment kube-system/"+oldName) {
		t.Fatalf("the install, which takes the other's place, ended with %d:\n%s", code, out)
	}
	out, code = script.run(t, "takeover", "--yes")
	if code != 0 || !strings.Contains(out, "There is no other controller") {
		t.Fatalf("with nothing left to take over it ended with %d:\n%s", code, out)
	}
	script.rules(env.before, balancerRules(t, env.client, env.ips...))

	env.recorded(t)
	env.kept(t)
	t.Run("existing node", func(t *testing.T) { testTaint(t, env.clusterEnv, script) })
	watch.stop()
	<-watch.done
	watch.check(t)
	secret := string(env.config(t).Render())
	noSecrets(t, env.clusterEnv, script.text.String(), secret)
	script.write(t, "takeover.txt")
}

func (w *witness) check(t *testing.T) {
	t.Helper()
	t.Logf("Pods changed %d times; the lease was held by %v", w.changes, w.holders)
	if w.missing > 0 || w.changes == 0 {
		t.Errorf("after %d of %d changes there was no Pod, so the old provider would have come back", w.missing, w.changes)
	}
	w.env.eventually(t, "kubectl to have an answer", func(ctx context.Context) error {
		out, err := w.env.cksLooks(ctx)
		if unanswered.MatchString(out) {
			return errors.New(out)
		}
		if err != nil {
			t.Errorf("%s finds no Pod: %v\n%s", cksCommand, err, out)
		}
		return nil
	})
	csccm := slices.IndexFunc(w.holders, func(h string) bool { return strings.HasPrefix(h, "csccm-takeover_") })
	if csccm < 1 || csccm == len(w.holders)-1 {
		t.Errorf("csccm did not hold the lease between the two: %v", w.holders)
	}
}

// testTaint has a node initialised that was there before any provider, and sets it back.
func testTaint(t *testing.T, env *clusterEnv, script *transcript) {
	before, err := env.node(t.Context(), worker2.Name)
	if err != nil || before.Spec.ProviderID != "" {
		t.Fatalf("%v, provider ID %q", err, before.Spec.ProviderID)
	}
	if out, code := script.run(t, "taint", "--dry-run"); code != 0 {
		t.Fatalf("the dry run ended with %d:\n%s", code, out)
	}
	if out, code := script.run(t, "taint", "--yes"); code != 0 {
		t.Fatalf("taint ended with %d:\n%s", code, out)
	}
	n, err := env.node(t.Context(), worker2.Name)
	if err != nil || n.Spec.ProviderID == "" || hasTaint(n, taint) || n.Labels[corev1.LabelInstanceTypeStable] != "SmallInstance" {
		t.Errorf("%v, provider ID %q, taints %v, labels %v", err, n.Spec.ProviderID, n.Spec.Taints, n.Labels)
	}
	if out, code := script.run(t, "taint", "--undo", "--yes"); code != 0 {
		t.Fatalf("the undo ended with %d:\n%s", code, out)
	}
	back, err := env.node(t.Context(), worker2.Name)
	if err != nil || back.Labels[corev1.LabelTopologyZone] != before.Labels[corev1.LabelTopologyZone] || back.Spec.ProviderID != n.Spec.ProviderID {
		t.Errorf("%v, provider ID %q, labels %v", err, back.Spec.ProviderID, back.Labels)
	}
}

// workload makes Pods on the nodes; that their image cannot be pulled here does not matter.
func (env *clusterEnv) workload(t *testing.T) {
	t.Helper()
	labels, replicas := map[string]string{"app": "app"}, int32(4)
	_, err := env.Client.AppsV1().Deployments(metav1.NamespaceDefault).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	env.eventually(t, "the Pods of app to be on nodes", func(context.Context) error {
		if n := len(env.appPods(t)); n != int(replicas) {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// appPods are the Pods that are on nodes, with their UIDs and nodes.
func (env *clusterEnv) appPods(t *testing.T) []string {
	t.Helper()
	list, err := env.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			out = append(out, string(p.UID)+" on "+p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return out
}

// transcript keeps what csccm was asked and said. With CSCCM_TRANSCRIPTS=1 it becomes a page of
// docs/transcripts.
type transcript struct {
	b    *clusterEnv
	text strings.Builder
}

func (s *transcript) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	start := time.Now()
	out, code := s.b.csccm(t, "", args...)
	s.add(args, out, code, time.Since(start))
	return out, code
}

func (s *transcript) add(args []string, out string, code int, took time.Duration) {
	fmt.Fprintf(&s.text, "$ csccm %s\n%s[exit code %d after %s]\n\n", strings.Join(args, " "), out, code, took.Round(100*time.Millisecond))
}

func (s *transcript) rules(before, after map[string]testenv.Rule) {
	s.text.WriteString("# rules before and after\n")
	var lines []string
	for id, was := range before {
		now := after[id]
		lines = append(lines, fmt.Sprintf("%s  %s:%d  %s (%s, %s)  ->  %s (%s, %s)\n", id, was.PublicIP, was.PublicPort, was.Name, was.Protocol, was.Algorithm, now.Name, now.Protocol, now.Algorithm))
	}
	slices.Sort(lines)
	s.text.WriteString(strings.Join(lines, "") + "\n")
}

func (s *transcript) write(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("CSCCM_TRANSCRIPTS") == "" {
		return
	}
	text := strings.NewReplacer(s.b.home, "/home/admin", s.b.cloud.URL, "https://cloud.example.org/client/api").Replace(s.text.String())
	dir := filepath.Join("..", "..", "docs", "transcripts")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
