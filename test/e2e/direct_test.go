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

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// directEnv is an API server with the controller as a plain process, for tests that kill, pause or measure it.
type directEnv struct {
	env
	vms *testenv.Env
}

// newDirectEnv returns an environment with the VMs w1 ... wN of the users ccm-a and ccm-b.
func newDirectEnv(t *testing.T, vms int) *directEnv {
	t.Helper()
	return directEnvOf(t, testenv.Options{VMs: vms})
}

// directEnvOf is like newDirectEnv with another CloudStack.
func directEnvOf(t *testing.T, o testenv.Options) *directEnv {
	t.Helper()
	p := borrow(t, plane.Options{APIOnly: true})
	o.On, o.Profile = p, "instant"
	e, err := testenv.New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	return &directEnv{env: env{Plane: p, Client: e.Client, cloud: e.Cloud, home: t.TempDir()}, vms: e}
}

func (e *env) url() string { return fmt.Sprintf("https://%s:%d", e.Host, e.Port) }

// kubeconfigOf writes the kubeconfig of a cluster administrator with a separate user name, which appears in the audit
// log.
func (e *env) kubeconfigOf(path, name, user, server string) error {
	rest, err := e.ClientConfig(user, "system:masters")
	if err != nil {
		return err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: rest.CAData}
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: rest.CertData, ClientKeyData: rest.KeyData}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	c.CurrentContext = name
	return clientcmd.WriteToFile(*c, path)
}

// controller starts a replica with the credentials of a user, ccm-a or ccm-b, for Kubernetes and CloudStack.
func (e *directEnv) controller(t *testing.T, user string, args ...string) *child.Process {
	t.Helper()
	return e.controllerAt(t, user, e.url(), args...)
}

// controllerAt is like controller with another URL of the API server. The user's certificate identifies its requests in
// the audit log.
func (e *directEnv) controllerAt(t *testing.T, user, server string, args ...string) *child.Process {
	t.Helper()
	return e.controllerAs(t, user, user, server, args...)
}

// controllerAs is like controllerAt with the keys of another CloudStack user. Replicas of one release share their keys:
// with different keys they do not trust each other's records.
func (e *directEnv) controllerAs(t *testing.T, user, keys, server string, args ...string) *child.Process {
	t.Helper()
	dir := filepath.Join(e.home, user)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	cloudConfig := e.file(t, user+"/cloud-config", string(e.config(t, keys).Render()))
	kubeconfig := filepath.Join(dir, "kubeconfig")
	require.NoError(t, e.kubeconfigOf(kubeconfig, "x", user, server))
	p, err := child.Start(t.Context(), child.Command{
		Name: user,
		Path: programs.Controller,
		Log:  filepath.Join(e.home, user+".log"),
		Dir:  dir,
		Env:  []string{"TMPDIR=" + dir},
		Args: append([]string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + cloudConfig, "--kubeconfig=" + kubeconfig,
			"--secure-port=0", "--v=2",
		}, args...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Stop(0)
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", user, child.Tail(p.Log, 40))
		}
	})

	return p
}

// register creates the Nodes w<from> ... w<to> like kubelets. change may be nil.
func (e *directEnv) register(t *testing.T, from, to int, change func(*corev1.Node)) {
	t.Helper()
	require.NoError(t, e.vms.Register(t.Context(), from, to, change))
}

// The messages that a replica logs when it leads, and when another replica leads.
const leads, standsBy = "uccessfully acquired lease", "ttempting to acquire leader lease"

func (e *directEnv) says(t *testing.T, p *child.Process, what string) {
	t.Helper()
	e.eventually(t, p.Name+" to say "+what, func(context.Context) {
		must.Be(strings.Contains(string(must.Get(os.ReadFile(p.Log))), what), "not yet: %v", p.Err())
	})
}

// request is a line of the audit log.
type request struct {
	Verb       string `json:"verb"`
	RequestURI string
	User       struct{ Username string }
	ObjectRef  struct{ Resource, Name, Namespace, APIGroup string }
	At         time.Time `json:"requestReceivedTimestamp"`
}
