// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// witness records who held the lease, and what CloudStack Kubernetes Service would see: by the command below it decides whether to
// apply its own provider again.
type witness struct {
	env     *clusterEnv
	mu      sync.Mutex
	missing int // changes of Pods after which the command would have found none
	changes int
	reigns  []reign // in order
	end     func()
}

// reign is a time in which one holds the lease; without a holder it is free.
type reign struct {
	holder string
	from   time.Time
}

const (
	cksCommand = "kubectl get pods -A | grep " + cksName
	cksName    = "cloud-controller-manager"
)

// unanswered is what kubectl says when it has no list of Pods.
var unanswered = regexp.MustCompile(`(?m)^(error: |Error from server|Unable to connect)`)

// witness watches until its end.
func (e *clusterEnv) witness(t *testing.T) *witness {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &witness{env: e}
	var watches sync.WaitGroup
	for _, watch := range []func(context.Context){w.watchLease, w.watchPods} {
		watches.Go(func() {
			for ctx.Err() == nil { // the API server may end a watch
				watch(ctx)
			}
		})
	}
	w.end = func() { stop(); watches.Wait() }
	t.Cleanup(w.end)
	e.eventually(t, "the lease and the Pods to be seen", func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.reigns) == 0 || w.changes == 0 {
			return errors.New("not yet")
		}
		return nil
	})
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
			found[p.UID] = true
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
	events, err := w.env.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: lease}))
	if err != nil {
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		l, ok := e.Object.(*coordinationv1.Lease)
		if !ok || l.Spec.HolderIdentity == nil {
			continue
		}
		w.mu.Lock()
		if n := len(w.reigns); n == 0 || w.reigns[n-1].holder != *l.Spec.HolderIdentity {
			w.reigns = append(w.reigns, reign{*l.Spec.HolderIdentity, time.Now()})
		}
		w.mu.Unlock()
	}
}

// check ends the watch: CloudStack Kubernetes Service has found a Pod all the time, and csccm held the lease between the old and
// the new controller.
func (w *witness) check(t *testing.T) {
	t.Helper()
	w.end()
	t.Logf("Pods changed %d times; the lease was held by %v", w.changes, w.reigns)
	if w.missing > 0 {
		t.Errorf("after %d of %d changes there was no Pod, so the old provider would have come back", w.missing, w.changes)
	}
	w.env.eventually(t, "kubectl to have an answer", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", cksCommand) // #nosec G204 -- a constant
		cmd.Env = []string{"KUBECONFIG=" + w.env.Kubeconfig, "HOME=" + w.env.home, "PATH=" + filepath.Dir(w.env.Kubectl) + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if unanswered.Match(out) {
			return errors.New(string(out))
		}
		if err != nil {
			t.Errorf("%s finds no Pod: %v\n%s", cksCommand, err, out)
		}
		return nil
	})
	csccm := slices.IndexFunc(w.reigns, func(r reign) bool { return strings.HasPrefix(r.holder, "csccm-takeover_") })
	if csccm < 1 || csccm == len(w.reigns)-1 {
		t.Errorf("csccm did not hold the lease between the two: %v", w.reigns)
	}
}

// checkReigns ends the watch: at least so many led, each once, and there was no long time without one.
func (w *witness) checkReigns(t *testing.T, least int) {
	t.Helper()
	w.end()
	led := map[string]bool{}
	var longest time.Duration
	for i, now := range w.reigns {
		if now.holder == "" {
			if i+1 < len(w.reigns) {
				longest = max(longest, w.reigns[i+1].from.Sub(now.from))
			}
			continue
		}
		if led[now.holder] {
			t.Errorf("%s leads a second time: %v", now.holder, w.reigns)
		}
		led[now.holder] = true
	}
	if len(led) < least || w.reigns[len(w.reigns)-1].holder == "" {
		t.Errorf("want %d leaders or more: %v", least, w.reigns)
	}
	if longest > limit { // Pods start meanwhile, which takes as long as the machine needs
		t.Errorf("nobody led for %s: %v", longest, w.reigns)
	}
	t.Logf("%d led one after the other, at most %s without a leader between two", len(led), longest.Round(time.Millisecond))
}
