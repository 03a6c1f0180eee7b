// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// directEnv is an API server with the controller as a plain process, for tests that kill, pause and measure it.
type directEnv struct {
	*testenv.Env
	dir string
}

// newDirectEnv returns an environment with the VMs w1 ... wN of the users ccm-a and ccm-b.
func newDirectEnv(t *testing.T, vms int) *directEnv {
	t.Helper()
	e, err := testenv.New(t.Context(), testenv.Options{On: borrow(t, plane.Options{APIOnly: true}), VMs: vms, Profile: "instant"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return &directEnv{Env: e, dir: t.TempDir()}
}

func (env *directEnv) url() string {
	host, port := env.APIServer()
	return fmt.Sprintf("https://%s:%d", host, port)
}

// controller starts a replica as a user of both APIs: ccm-a or ccm-b.
func (env *directEnv) controller(t *testing.T, user string, args ...string) *child.Process {
	t.Helper()
	return env.controllerAt(t, user, env.url(), args...)
}

// controllerAt is controller with another way to the API server.
func (env *directEnv) controllerAt(t *testing.T, user, server string, args ...string) *child.Process {
	t.Helper()
	config, err := env.Cloud.Config(user)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(env.dir, user)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cloud-config"), config.Render(), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(t.Context(), child.Command{
		Name: user, Path: programs.Controller, Log: filepath.Join(env.dir, user+".log"), Dir: dir, Env: []string{"TMPDIR=" + dir},
		Args: append([]string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + filepath.Join(dir, "cloud-config"), "--kubeconfig=" + env.kubeconfig(t, user, server, dir),
			"--secure-port=0", "--v=2",
		}, args...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop(0)
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", user, child.Tail(p.Log, 40))
		}
	})
	return p
}

// kubeconfig makes a user whom the audit log tells from others.
func (env *directEnv) kubeconfig(t *testing.T, user, server, dir string) string {
	t.Helper()
	rest, err := env.ClientConfig(user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: rest.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: rest.CertData, ClientKeyData: rest.KeyData}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	file := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// register makes the Nodes w<from> ... w<to> as kubelets do; change may be nil.
func (env *directEnv) register(t *testing.T, from, to int, change func(*corev1.Node)) {
	t.Helper()
	if err := env.Register(t.Context(), from, to, change); err != nil {
		t.Fatal(err)
	}
}

func (env *directEnv) notReady(t *testing.T, name string) {
	t.Helper()
	if err := env.NotReady(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// calls are the commands that the controllers have sent since the last reset.
func (env *directEnv) calls() map[string]int {
	out := map[string]int{}
	for _, c := range env.Cloud.Ledger().Calls() {
		if strings.HasPrefix(c.Caller, "ccm-") {
			out[c.Command]++
		}
	}
	return out
}

// wait polls every few milliseconds and returns how long it took.
func wait(t *testing.T, limit time.Duration, what string, done func(context.Context) error) time.Duration {
	t.Helper()
	begun := time.Now()
	if err := testenv.Wait(t.Context(), limit, what, done); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}

// initialised waits until n Nodes are initialised.
func (env *directEnv) initialised(t *testing.T, n int, limit time.Duration) time.Duration {
	t.Helper()
	return wait(t, limit, fmt.Sprintf("%d nodes to be initialised", n), func(ctx context.Context) error {
		list, err := env.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		done := 0
		for i := range list.Items {
			if !hasTaint(&list.Items[i], taint) && list.Items[i].Spec.ProviderID != "" {
				done++
			}
		}
		if done < n {
			return fmt.Errorf("%d of %d", done, n)
		}
		return nil
	})
}
