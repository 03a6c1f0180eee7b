// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/test/internal/program"
)

// binary returns the path of the newest control plane's binary and builds it when it does not exist.
func binary(t *testing.T) string {
	t.Helper()
	if _, there, err := Cached(t.Context(), Newest); err != nil {
		t.Fatal(err)
	} else if !there && testing.Short() {
		t.Skip("with -short: the control plane's binary does not exist, and a build takes minutes")
	}
	path, err := Ensure(t.Context(), Newest, program.Print(os.Stderr))
	require.NoError(t, err)
	return path
}

func TestPlane(t *testing.T) { //nolint:tparallel // the parts share one control plane, in this order
	t.Parallel()
	ctx, path := t.Context(), binary(t)
	p, err := Start(ctx, Options{Binary: path, Audit: true, APIOnly: true})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	config, err := p.AdminConfig()
	require.NoError(t, err)
	client := kubernetes.NewForConfigOrDie(config)
	t.Run("refuses the creation of another node", func(t *testing.T) {
		config, err := p.ClientConfig("system:node:n1", "system:nodes")
		require.NoError(t, err)
		_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "is not allowed to modify node \"n2\"") {
			t.Errorf("err = %v, want NodeRestriction's refusal", err)
		}
	})
	t.Run("contains kubelet and kube-proxy", func(t *testing.T) {
		for _, program := range []string{"kubelet", "kube-proxy"} {
			out, err := exec.CommandContext(ctx, path, program, "--version").CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "Kubernetes "+Version {
				t.Errorf("%s --version: %v\n%s", program, err, out)
			}
		}
	})
	t.Run("audit log holds no contents", func(t *testing.T) {
		_, err := client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "audited"}, StringData: map[string]string{"k": "canary-value"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, func() error {
			lines, err := p.AuditLog()
			log := strings.Join(lines, "")
			if strings.Contains(log, "canary-value") {
				t.Error("the audit log holds a Secret's value")
			}
			if !strings.Contains(log, `"name":"audited"`) {
				return errors.Join(err, errors.New("the audit log does not hold the write of the Secret"))
			}
			return nil
		})
	})
	t.Run("stop removes everything", func(t *testing.T) {
		p.Stop()
		if _, err := os.Stat(p.Dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", p.Dir, err)
		}
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", p.Host, p.Port)); err == nil {
			_ = c.Close()
			t.Error("the API server still listens")
		}
	})
}

// A control plane that a pool lends again holds nothing of the test before, not even an admission policy or the audit log.
func TestPool(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), &Pool{Binary: binary(t)}
	p, err := pool.Take(ctx, Options{})
	require.NoError(t, err)
	client := p.baseline.client
	denied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "denied"}}
	kubectl := exec.CommandContext(ctx, p.Kubectl, "create", "-f", "-")
	kubectl.Env = []string{"KUBECONFIG=" + p.Kubeconfig, "HOME=" + t.TempDir()}
	kubectl.Stdin = strings.NewReader(`
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: shop, finalizers: [csccm.io/test]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default, finalizers: [service.kubernetes.io/load-balancer-cleanup]},
 spec: {type: LoadBalancer, ports: [{port: 80, nodePort: 30080}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: deny}, spec: {
 matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]},
 validations: [{expression: "object.metadata.name != 'denied'"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: deny},
 spec: {policyName: deny, validationActions: [Deny]}}
`)
	if out, err := kubectl.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, func() error {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, denied, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the policy is not applied")
		}
		return nil
	})
	require.NoError(t, pool.Return(ctx, p))

	again, err := pool.Take(ctx, Options{APIOnly: true})
	require.NoError(t, err)
	if again != p || len(again.children) != apiComponents {
		t.Errorf("the second control plane has %d components, and is the first one: %t", len(again.children), again == p)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, denied, metav1.CreateOptions{}); err != nil {
		t.Errorf("a policy of the test before applies: %v", err)
	}
	if list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 4 {
		t.Errorf("there are %d namespaces: %v", len(list.Items), err)
	}
	lines, err := again.AuditLog()
	if err != nil || len(lines) == 0 || strings.Contains(strings.Join(lines, ""), "shop") {
		t.Errorf("the audit log has %d lines, or names an object of the test before: %v", len(lines), err)
	}
	// What was there before the tests must stay as it was.
	if _, err := client.CoreV1().Namespaces().Patch(ctx, "default", types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pool.Return(ctx, again); err == nil || !strings.Contains(err.Error(), "namespaces /default has changed") {
		t.Errorf("err = %v, want the changed namespace", err)
	}
	assert.NoError(t, pool.Stop())
}

func TestStartReportsFailure(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	_, err := Start(t.Context(), Options{Binary: binary(t), Dir: parent, APIOnly: true, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver ended") || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("err = %v, want the component and the end of its log", err)
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
