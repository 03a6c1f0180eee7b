// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is csccm's connection to a Kubernetes cluster: one configuration for client-go
// and Helm, errors that say how to go on, and the detection of the distribution.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	csccm "github.com/csccm/csccm/pkg/version"
)

// DefaultNamespace is where cloud controller managers live.
const DefaultNamespace = "kube-system"

// QPS and burst of our own limiter: a hundred nodes and as many Services are read in one go, and
// the API server's priority and fairness is the limit that counts.
const (
	qps   = 50
	burst = 100
)

// Cluster is a connection to one cluster. It holds no open connection until it is used.
type Cluster struct {
	// Flags are what REST and Kube were made from; Helm takes them as its RESTClientGetter. Nil in
	// tests with a fake clientset.
	Flags *genericclioptions.ConfigFlags
	// REST is nil in tests with a fake clientset.
	REST *rest.Config
	Kube kubernetes.Interface
	// Namespace is that of the controller, its Secret and its Helm release.
	Namespace string
	// Context, Server and User describe the connection; they hold no credentials. Context is
	// "in-cluster" inside a Pod without a kubeconfig.
	Context, Server, User string
	// Name is what the kubeconfig calls the cluster; "" without one.
	Name string
	// Version is that of Kubernetes, such as v1.37.1, when the command connected.
	Version string
	// Silent says why the API server did not answer; it is not asked again.
	Silent error

	dated *atomic.Pointer[dated] // the newest answer
}

// requestLimit is how long the API server may take for one request, unless --request-timeout says something else.
const requestLimit = 15 * time.Second

// pingLimit is how long the API server may take to tell its version, which it does without reading anything; also
// unless --request-timeout says something else.
const pingLimit = 8 * time.Second

// NewFlags makes the connection flags with csccm's limits and user agent.
func NewFlags() *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(qps)
	namespace := DefaultNamespace
	f.Namespace = &namespace
	f.Timeout = ptr.To("") // not given; "0" is no limit
	f.WrapConfigFn = func(c *rest.Config) *rest.Config { return tune(f, c) }
	return f
}

// Within bounds ctx by a limit of csccm's own for one answer. --request-timeout counts in its place, which client-go
// heeds.
func Within(
	ctx context.Context, flags *genericclioptions.ConfigFlags, limit time.Duration,
) (context.Context, context.CancelFunc) {
	if flags != nil && ptr.Deref(flags.Timeout, "") != "" {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// NameCommand adds to the user agent of the flags' connections which command they serve: the API server's audit
// log shows it.
func NameCommand(flags *genericclioptions.ConfigFlags, command string) {
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c = tune(flags, c)
		c.UserAgent += " (" + command + ")"
		return c
	}
}

func tune(flags *genericclioptions.ConfigFlags, c *rest.Config) *rest.Config {
	c.QPS, c.Burst = qps, burst
	if ptr.Deref(flags.Timeout, "") == "" {
		c.Timeout = requestLimit
	}
	c.UserAgent = "csccm/" + csccm.Version
	// Warnings of the API server are for developers of the calling program.
	c.WarningHandler = rest.NoWarnings{}
	return c
}

// New makes a connection from flags. It makes no call; see Ping. Its errors are *Error.
func New(flags *genericclioptions.ConfigFlags) (*Cluster, error) {
	c := &Cluster{
		dated:     &atomic.Pointer[dated]{},
		Flags:     flags,
		Namespace: cmp.Or(ptr.Deref(flags.Namespace, ""), DefaultNamespace),
	}

	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, explainConfig(err)
	}

	inCluster := len(raw.Contexts) == 0 && len(raw.Clusters) == 0 && ptr.Deref(flags.APIServer, "") == ""
	name := cmp.Or(ptr.Deref(flags.Context, ""), raw.CurrentContext)
	if names := slices.Sorted(maps.Keys(raw.Contexts)); name != "" && len(names) > 0 && raw.Contexts[name] == nil {
		return nil, newError("name one with --context: "+strings.Join(names, ", "),
			"kubeconfig: context %q does not exist", name)
	}

	if inCluster && os.Getenv("KUBERNETES_SERVICE_HOST") == "" { // cli-runtime would ask localhost
		what := "no cluster to talk to"
		if file := cmp.Or(ptr.Deref(flags.KubeConfig, ""),
			os.Getenv(clientcmd.RecommendedConfigPathEnvVar)); file != "" {
			what = file + " does not exist, or has no cluster"
		}
		return nil, newError("set KUBECONFIG, or give --kubeconfig FILE or --server URL", "no kubeconfig: %s", what)
	}

	if c.REST, err = flags.ToRESTConfig(); err == nil {
		c.REST.Wrap(c.noteDate)
		c.Kube, err = kubernetes.NewForConfig(c.REST)
	}

	if err != nil {
		return nil, explainConfig(err)
	}

	c.Server, c.Context = c.REST.Host, name
	if inCluster {
		c.Context = "in-cluster"
	} else if of := raw.Contexts[c.Context]; of != nil {
		c.User, c.Name = of.AuthInfo, of.Cluster
	}

	c.User = cmp.Or(ptr.Deref(flags.Impersonate, ""), c.User)
	return c, nil
}

// Watching returns the same connection for a command that watches, whose requests have no limit.
func (c *Cluster) Watching() (*Cluster, error) {
	out := *c
	out.REST = rest.CopyConfig(c.REST)
	out.REST.Timeout = 0
	var err error
	out.Kube, err = kubernetes.NewForConfig(out.REST)
	return &out, err
}

// DefaultRelease is the name of the Helm release.
const DefaultRelease = "cloudstack-ccm"

// Args returns the flags with which another csccm command reaches this cluster, its namespace and a release, whatever
// the current context is then.
func (c *Cluster) Args(release string) []string {
	var args []string
	if c.Namespace != DefaultNamespace {
		args = append(args, "--namespace", c.Namespace)
	}
	if args = append(args, c.Connection()...); release != "" && release != DefaultRelease {
		args = append(args, "--release", release)
	}
	return args
}

// Connection returns the flags with which csccm and kubectl reach this cluster.
func (c *Cluster) Connection() []string {
	f, inFile := c.Flags, c.Context
	if f == nil {
		return nil
	}
	if c.Name == "" { // no context of a kubeconfig
		inFile = ""
	}
	var args []string
	for _, flag := range [][]string{
		{"--kubeconfig", ptr.Deref(f.KubeConfig, "")}, {"--context", inFile}, {"--server", ptr.Deref(f.APIServer, "")},
		{"--as", ptr.Deref(f.Impersonate, "")},
	} {
		if flag[1] != "" {
			args = append(args, flag...)
		}
	}
	return args
}

// NewForTest is a Cluster around a fake clientset, or around a rest.Config when one is given.
func NewForTest(kube kubernetes.Interface, cfg ...*rest.Config) *Cluster {
	c := &Cluster{dated: &atomic.Pointer[dated]{}, Kube: kube, Namespace: DefaultNamespace, Context: "test"}
	if len(cfg) > 0 {
		c.REST, c.Server = cfg[0], cfg[0].Host
	}
	return c
}

// Ping asks the API server for its version, and whether it reaches its storage. Its errors are *Error.
func (c *Cluster) Ping(ctx context.Context) (*version.Info, error) {
	if c.Silent != nil {
		return nil, c.Silent
	}

	ctx, cancel := Within(ctx, c.Flags, pingLimit)
	defer cancel()
	info, err := discovery.ToServerVersionInterfaceWithContext(c.Kube.Discovery()).ServerVersionWithContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // a part of an answer says nothing
	}

	err = c.Explain(err)
	var known *Error
	if err != nil && !errors.As(err, &known) { // 404, a page of HTML
		err = newError("check the server URL of this context; a proxy or a login page may answer in its place",
			"Kubernetes API %s: what answers is no Kubernetes API: %w", c.Server, err)
	}

	if err == nil {
		err = c.Explain(c.stored(ctx))
	}

	return info, err
}

// stored asks whether the API server reaches its storage. An API server without etcd tells its version, and does not
// answer anything else.
func (c *Cluster) stored(ctx context.Context) error {
	api := c.Kube.Discovery().RESTClient()
	if api == nil { // a fake clientset
		return nil
	}
	err := api.Get().AbsPath("/readyz").Do(ctx).Error()
	switch {
	case err == nil || isTimeout(err):
		return err
	case strings.Contains(err.Error(), "[-]etcd"):
		return newError(remedyUnready, "Kubernetes API %s: it does not reach its storage, says /readyz: [-]etcd failed",
			c.Server)
	}
	return nil // it answers; whether it allows this user anything is for others to say
}

// explainConfig explains why no connection can be made at all.
func explainConfig(err error) error {
	return newError("check --kubeconfig, --context and the file that KUBECONFIG names", "kubeconfig: %w", err)
}
