// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plane runs a real Kubernetes control plane for tests and the demo: etcd, kube-apiserver and, unless
// Options.APIOnly is set, kube-controller-manager and kube-scheduler. Each is a child process on loopback, and all
// write to one temporary folder. Kubernetes itself is not linked into the tests: Ensure fetches or builds its programs
// once per machine.
package plane

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// Options configures a control plane; the zero value starts all components.
type Options struct {
	// Programs is the folder of the programs, as Ensure returns it.
	Programs string
	// Dir is the parent of the state folder; empty means the system's temporary folder.
	Dir string
	// Host is the address that the API server listens on; empty means loopback. With any other address, nodes and Pods
	// connect to the API server there, and the API server connects to nodes at their own addresses. Real nodes need
	// both.
	Host string
	// APIOnly leaves out the controller manager and the scheduler.
	APIOnly bool
	// NodeGrace is the time for which a node may miss heartbeats before it is marked not ready; 0 means Kubernetes'
	// default (50 s).
	NodeGrace time.Duration
	// Audit makes the API server write audit.log to the state folder: users and requests, without bodies.
	Audit bool
}

// Plane is a running control plane.
type Plane struct {
	// Dir holds keys, kubeconfigs and logs; Stop removes it.
	Dir string
	// Kubeconfig is the path of a kubeconfig of a cluster admin.
	Kubeconfig string
	// Kubectl is the path of a kubectl of the same release.
	Kubectl string
	// Host and Port are the address and port of the API server.
	Host string
	Port int

	pki      *pki
	egress   *egress
	programs string

	// For control planes of a pool: the initial objects of the API server, and the size of the audit log when a test
	// got the plane.
	baseline *baseline
	audited  int64

	server   *child.Process // the API server
	mu       sync.Mutex
	children []*child.Process // in order of start
}

const (
	// KubeletClient is the common name of the API server's client certificate for kubelets.
	KubeletClient = "kube-apiserver-kubelet-client"

	loopback    = "127.0.0.1"
	admin       = "csccm-test-admin"
	masters     = "system:masters"
	serviceIP   = "10.96.0.1"
	serviceCIDR = "10.96.0.0/16"
	// startTries is more than one because another program may take a port between freePorts and the server's bind.
	startTries = 3
	readyLimit = 3 * time.Minute
)

// Start starts a control plane and returns once its API server is ready. The context bounds only the start; Stop ends
// the control plane.
func Start(ctx context.Context, o Options) (p *Plane, err error) {
	for range startTries {
		if p, err = start(ctx, o); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return p, err
}

func start(ctx context.Context, o Options) (_ *Plane, err error) {
	p := &Plane{Host: cmp.Or(o.Host, loopback), programs: o.Programs}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	defer must.Return(&err)
	p.Dir = must.Get(os.MkdirTemp(o.Dir, "csccm-plane-"))
	for _, sub := range []string{"pki", "log", "bin"} {
		must.OK(os.Mkdir(p.file(sub), 0o700))
	}

	p.Kubectl = p.file("bin/kubectl")
	must.OK(os.Symlink(filepath.Join(o.Programs, "kubectl"), p.Kubectl))
	p.pki = must.Get(newPKI(p.file("pki"), p.Host))
	var peer int
	p.Port, peer = must.Get2(freePorts(ctx))
	p.Kubeconfig = p.file("admin.kubeconfig")
	for file, text := range map[string][]byte{
		p.Kubeconfig: must.Get(p.KubeconfigOf(admin, masters)),
		p.file("kube-controller-manager.kubeconfig"): must.Get(p.KubeconfigOf("system:kube-controller-manager")),
		p.file("kube-scheduler.kubeconfig"):          must.Get(p.KubeconfigOf("system:kube-scheduler")),
		p.file("egress.yaml"):                        []byte(egressConfig(p.file("egress.sock"))),
		p.file("audit.yaml"):                         []byte(auditPolicy),
	} {
		must.OK(os.WriteFile(file, text, 0o600))
	}

	if p.local() {
		p.egress = must.Get(listenEgress(ctx, p.file("egress.sock")))
	}

	etcd := must.Get(p.run(ctx, "etcd", p.etcdArgs(peer)...))
	must.OK(etcd.Ready(ctx, readyLimit, func(ctx context.Context) error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", p.file("etcd.sock"))
		if err == nil {
			err = c.Close()
		}
		return err
	}))

	p.server = must.Get(p.run(ctx, "kube-apiserver", p.apiServerArgs(o)...))
	api := must.Get(kubernetes.NewForConfig(must.Get(p.AdminConfig()))).CoreV1().RESTClient()
	must.OK(p.server.Ready(ctx, readyLimit, func(ctx context.Context) error {
		return api.Get().AbsPath("/readyz").Timeout(2 * time.Second).Do(ctx).Error()
	}))
	if !o.APIOnly {
		must.OK(p.startControllers(ctx, o))
	}

	return p, nil
}

// apiComponents is the number of components that an API server needs: etcd and itself.
const apiComponents = 2

// startControllers starts the controller manager and the scheduler.
func (p *Plane) startControllers(ctx context.Context, o Options) error {
	_, manager := p.run(ctx, "kube-controller-manager", p.controllerManagerArgs(o)...)
	_, scheduler := p.run(ctx, "kube-scheduler", p.schedulerArgs("kube-scheduler")...)
	return errors.Join(manager, scheduler)
}

// stopControllers kills the controller manager and the scheduler.
func (p *Plane) stopControllers() {
	p.mu.Lock()
	controllers := p.children[apiComponents:]
	p.children = p.children[:apiComponents:apiComponents]
	p.mu.Unlock()
	for _, c := range controllers {
		c.Stop(0)
	}
}

// AuditLog returns the complete lines of the audit log; the API server may still be writing. For a control plane of a
// pool, it returns only the lines since the current test got it.
func (p *Plane) AuditLog() (_ []string, err error) {
	defer must.Return(&err)
	f := must.Get(os.Open(p.file("audit.log")))
	defer func() { _ = f.Close() }()
	text := must.Get(io.ReadAll(io.NewSectionReader(f, p.audited, math.MaxInt64-p.audited)))
	return slices.Collect(strings.Lines(string(text[:bytes.LastIndexByte(text, '\n')+1]))), nil
}

// Stop ends all processes and removes the state folder.
func (p *Plane) Stop() {
	p.mu.Lock()
	children := p.children
	p.children = nil
	p.mu.Unlock()
	for _, c := range children {
		c.Stop(0)
	}
	if p.egress != nil {
		p.egress.close()
	}
	_ = os.RemoveAll(p.Dir)
}

// Err returns an error for the components that have ended by themselves, with the ends of their logs; nil if all are
// running.
func (p *Plane) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.children {
		errs = append(errs, c.Err())
	}
	return errors.Join(errs...)
}

// AdminConfig returns the client configuration of a cluster admin, without client-side rate limit.
func (p *Plane) AdminConfig() (*rest.Config, error) { return p.ClientConfig(admin, masters) }

// KubeconfigOf returns a kubeconfig of a user, with a new certificate of the cluster's CA.
func (p *Plane) KubeconfigOf(user string, groups ...string) (_ []byte, err error) {
	defer must.Return(&err)
	const name = "csccm-test"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   fmt.Sprintf("https://%s:%d", p.Host, p.Port),
		CertificateAuthorityData: p.CA(),
	}
	cert, key := must.Get2(p.Certificate(user, groups))
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	c.Contexts[name], c.CurrentContext = &clientcmdapi.Context{Cluster: name, AuthInfo: user}, name
	return clientcmd.Write(*c)
}

// ClientConfig returns the client configuration of a user, without client-side rate limit.
func (p *Plane) ClientConfig(user string, groups ...string) (_ *rest.Config, err error) {
	defer must.Return(&err)
	config := must.Get(clientcmd.RESTConfigFromKubeConfig(must.Get(p.KubeconfigOf(user, groups...))))
	config.QPS = -1
	return config, nil
}

// Certificate issues a client certificate for a user, as PEM. With hosts it is a server certificate as well.
func (p *Plane) Certificate(user string, groups []string, hosts ...string) (cert, key []byte, err error) {
	return p.pki.cluster.issue(user, groups, hosts...)
}

// ServingCertificate issues a server certificate for hosts that the API server trusts.
func (p *Plane) ServingCertificate(user string, groups []string, hosts ...string) (_ tls.Certificate, err error) {
	defer must.Return(&err)
	return tls.X509KeyPair(must.Get2(p.Certificate(user, groups, hosts...)))
}

// CA returns the cluster's CA certificate as PEM.
func (p *Plane) CA() []byte { return p.pki.cluster.pem }

// Route redirects connections of the API server to address ("10.1.1.21:10250") to a listener on loopback. remove
// deletes the route. Only a plane on loopback has routes.
func (p *Plane) Route(address, listener string) (remove func()) {
	return p.egress.route(address, listener)
}

// local reports whether the control plane listens on loopback.
func (p *Plane) local() bool { return p.Host == loopback }

func (p *Plane) file(name string) string { return filepath.Join(p.Dir, name) }

// run starts a component.
func (p *Plane) run(ctx context.Context, name string, args ...string) (*child.Process, error) {
	c, err := child.Start(ctx, child.Command{
		Name: name, Path: filepath.Join(p.programs, name), Argv0: name, Args: args,
		// Home and temporary files are in our folder, and the user's proxy variables are not passed on. GOGC halves
		// the garbage collection, which took a fifth of the CPU time of the tests.
		Env: []string{"HOME=" + p.Dir, "TMPDIR=" + p.Dir, "PATH=/usr/bin:/bin", "GOGC=200"},
		Dir: p.Dir, Log: filepath.Join(p.Dir, "log", name+".log"),
	})
	if err == nil {
		p.mu.Lock()
		p.children = append(p.children, c)
		p.mu.Unlock()
	}
	return c, err
}

// freePorts returns two free TCP ports on loopback.
func freePorts(ctx context.Context) (one, two int, err error) {
	defer must.Return(&err)
	for _, port := range []*int{&one, &two} {
		l := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", loopback+":0"))
		defer func() { _ = l.Close() }()     // after both are found, so that they differ
		*port = l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	}
	return one, two, nil
}
