// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/testenv"
)

// autoscalerVariable names the path of a cluster-autoscaler. It is no Go module that a proxy has, so that it is not built here.
const autoscalerVariable = "CSCCM_CLUSTER_AUTOSCALER"

// TestClusterAutoscaler has the real cluster autoscaler, with its CloudStack provider, take an idle worker out of a cluster of
// CloudStack Kubernetes Service: its VM and its Node go, and the members of the rules follow.
func TestClusterAutoscaler(t *testing.T) {
	t.Parallel()
	program := os.Getenv(autoscalerVariable)
	if program == "" {
		t.Skip("set " + autoscalerVariable + " to the path of a cluster-autoscaler to run this test")
	}
	e := newCKS(t)
	config := e.config(t, owner)
	e.environ = []string{"CSCCM_ADMIN_PASSWORD=" + adminPassword}
	e.csccm(t, "", "cks", "versions", "add", "1.37.1", "--url", "https://downloads.example.org/setup-v1.37.1.iso", "--admin-user", "admin", "--yes", "--api-url", e.cloud.URL).want(t, 0)
	e.environ = []string{"CLOUDSTACK_API_KEY=" + config.APIKey, "CLOUDSTACK_SECRET_KEY=" + config.SecretKey}
	e.csccm(t, "", slices.Concat([]string{
		"cks", "create", "prod", "--version", "1.37.1", "--offering", "node", "--network", "prod-net", "--size", "3", "--with", "csccm", "--yes", "--api-url", e.cloud.URL,
	}, podNetwork)...).want(t, 0)
	e.initialised(t, 4)
	e.service(t, "web", 80)
	ip := e.address(t, "web")
	client := e.api(t, owner)
	members := func(ctx context.Context) ([]string, error) {
		rules, err := testenv.Rules(ctx, client, ip)
		if err != nil || len(rules) != 1 {
			return nil, errors.Join(err, fmt.Errorf("%d rules", len(rules)))
		}
		return rules[0].Members, nil
	}
	var before []string
	e.eventually(t, "all workers to be members", func(ctx context.Context) (err error) {
		if before, err = members(ctx); err == nil && len(before) < 3 {
			err = fmt.Errorf("they are %v", before)
		}
		return err
	})

	clusters, err := client.ListKubernetesClusters(t.Context(), "")
	if err != nil || len(clusters) != 1 {
		t.Fatalf("%d clusters: %v", len(clusters), err)
	}
	e.cloud.Ledger().Reset()
	begun := time.Now()
	e.autoscaler(t, program, config, "--nodes=2:3:"+clusters[0].ID)

	// When each of these was seen first.
	var marked, left, destroyed, deleted time.Duration
	node, vm := "", ""
	see := func(d *time.Duration, is bool) {
		if is && *d == 0 {
			*d = time.Since(begun)
		}
	}
	e.eventually(t, "a worker to be gone from Kubernetes, CloudStack and the rule", func(ctx context.Context) error {
		if node == "" {
			list, err := e.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if n := &list.Items[i]; hasTaint(n, "ToBeDeletedByClusterAutoscaler") {
					node, vm = n.Name, n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:]
				}
			}
			if node == "" {
				return errors.New("no node is marked")
			}
		}
		see(&marked, true)
		now, err := members(ctx)
		if err != nil {
			return err
		}
		vms, err := client.ListVirtualMachines(ctx, cloudstack.VMQuery{})
		if err != nil {
			return err
		}
		_, err = e.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		see(&left, !slices.Contains(now, node))
		see(&destroyed, !slices.ContainsFunc(vms, func(v cloudstack.VirtualMachine) bool { return v.ID == vm }))
		see(&deleted, apierrors.IsNotFound(err))
		if min(left, destroyed, deleted) == 0 {
			return fmt.Errorf("%s is marked; members %v, %d VMs, Node: %w", node, now, len(vms), gone(err))
		}
		return nil
	})
	t.Logf("%s: marked after %s, no member %s later, VM destroyed %s later, Node deleted %s later", node,
		marked.Round(10*time.Millisecond), (left - marked).Round(10*time.Millisecond), (destroyed - marked).Round(10*time.Millisecond), (deleted - marked).Round(10*time.Millisecond))
	calls := map[string]int{}
	for _, c := range e.cloud.Ledger().Calls() {
		calls[c.Command]++
	}
	t.Log("calls of the controller and the autoscaler:", calls)
	if calls["removeFromLoadBalancerRule"] != 1 {
		t.Errorf("%d calls of removeFromLoadBalancerRule, want 1", calls["removeFromLoadBalancerRule"])
	}
	if want := slices.DeleteFunc(slices.Clone(before), func(m string) bool { return m == node }); true {
		e.wantRules(t, ip, "80:"+strings.Join(want, ","))
	}
	if list, err := e.Client.CoreV1().Events(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=NodeDeletionRefused"}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d Nodes were not to be deleted: %v", len(list.Items), err)
	}
}

// autoscaler runs a cluster-autoscaler until the test ends.
func (e *clusterEnv) autoscaler(t *testing.T, program string, c *cloudstack.Config, args ...string) {
	t.Helper()
	dir := t.TempDir() // not in e.home, which must hold no keys
	file := filepath.Join(dir, "cloud-config")
	text := fmt.Sprintf("[Global]\napi-url = %s\napi-key = %s\nsecret-key = %s\n", c.APIURL, c.APIKey, c.SecretKey)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(t.Context(), child.Command{
		Name: "cluster-autoscaler", Path: program, Log: filepath.Join(dir, "log"), Dir: dir,
		Args: append([]string{
			"--cloud-provider=cloudstack", "--cloud-config=" + file, "--kubeconfig=" + e.Kubeconfig, "--address=127.0.0.1:0", "--leader-elect=false",
			"--scan-interval=1s", "--scale-down-unneeded-time=3s", "--scale-down-delay-after-add=1s", "--scale-down-delay-after-delete=1s",
			"--v=4",
		}, args...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop(0)
		if t.Failed() {
			logTail(t, "cluster-autoscaler", p.Log)
		}
	})
}
