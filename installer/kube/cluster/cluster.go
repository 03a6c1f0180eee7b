// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is csccm's connection to a Kubernetes cluster: one configuration for client-go and Helm, errors with
// a remedy, and the detection of the distribution.
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

// DefaultNamespace is the default namespace of the controller, that of cloud controller managers in general.
const DefaultNamespace = "kube-system"

// QPS and burst of client-go's rate limiter. They are high because csccm reads a hundred nodes and as many Services at
// once; the API server's priority and fairness protects the server.
const (
	qps   = 50
	burst = 100
)

// Cluster is a connection to one cluster. It holds no open connection until it is used.
type Cluster struct {
	// Flags are the flags that REST and Kube were made from; Helm uses them as its RESTClientGetter. Nil in tests with
	// a fake clientset.
	Flags *genericclioptions.ConfigFlags
	// REST is nil in tests with a fake clientset.
	REST *rest.Config
	Kube kubernetes.Interface
	// Namespace is the namespace of the controller, its Secret and its Helm release.
	Namespace string
	// Context, Server and User describe the connection; they hold no credentials. Context is
	// "in-cluster" inside a Pod without a kubeconfig.
	Context, Server, User string
	// Name is the name of the cluster in the kubeconfig; "" without a kubeconfig.
	Name string
	// Version is the version of Kubernetes, such as v1.37.1, at the time when the command connected.
	Version string
	// Silent is the error of an API server that did not answer; no further requests are sent to it.
	Silent error

	dated *atomic.Pointer[dated] // date of the newest response
}

// requestLimit limits each request to the API server, unless --request-timeout is given.
const requestLimit = 15 * time.Second

// pingLimit limits the request for the API server's version, which is fast because the server does not read its storage
// for it; also unless --request-timeout is given.
const pingLimit = 8 * time.Second

// NewFlags returns the connection flags with csccm's limits and user agent.
func NewFlags() *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(qps)
	namespace := DefaultNamespace
	f.Namespace = &namespace
	f.Timeout = ptr.To("") // "" means not given; "0" means no limit
	f.WrapConfigFn = func(c *rest.Config) *rest.Config { return tune(f, c) }
	return f
}

// Within returns ctx with a timeout of csccm's own for one request. With --request-timeout it adds no timeout, because
// client-go applies that flag.
func Within(
	ctx context.Context, flags *genericclioptions.ConfigFlags, limit time.Duration,
) (context.Context, context.CancelFunc) {
	if flags != nil && ptr.Deref(flags.Timeout, "") != "" {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// NameCommand adds the name of the command to the user agent of the connections: the API server's audit log shows it.
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
	// Warnings of the API server are meant for developers, not for users of csccm.
	c.WarningHandler = rest.NoWarnings{}
	return c
}

// New returns a connection with these flags. It sends no request; see Ping. Its errors are *Error.
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

// Watching returns the same connection without a timeout, for commands that watch.
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

// Args returns the flags for another csccm command on this cluster, its namespace and a release. They do not depend on
// the current context of the kubeconfig.
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

// Connection returns the flags that connect csccm or kubectl to this cluster.
func (c *Cluster) Connection() []string {
	f, inFile := c.Flags, c.Context
	if f == nil {
		return nil
	}
	if c.Name == "" { // the connection does not use a context of a kubeconfig
		inFile = ""
	}

	var args []string
	for _, flag := range [][]string{
		{"--kubeconfig", ptr.Deref(f.KubeConfig, "")},
		{"--context", inFile},
		{"--server", ptr.Deref(f.APIServer, "")},
		{"--as", ptr.Deref(f.Impersonate, "")},
	} {
		if flag[1] != "" {
			args = append(args, flag...)
		}
	}
	return args
}

// Ping requests the API server's version and checks that the API server reaches its storage. Its errors are *Error.
func (c *Cluster) Ping(ctx context.Context) (*version.Info, error) {
	if c.Silent != nil {
		return nil, c.Silent
	}

	ctx, cancel := Within(ctx, c.Flags, pingLimit)
	defer cancel()
	info, err := discovery.ToServerVersionInterfaceWithContext(c.Kube.Discovery()).ServerVersionWithContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the error of an incomplete response is not useful
	}

	err = c.Explain(err)
	var known *Error
	if err != nil && !errors.As(err, &known) { // such as 404, or an HTML page
		err = newError("check the server URL of this context; a proxy or a login page may answer in its place",
			"Kubernetes API %s: the answer is not that of a Kubernetes API: %w", c.Server, err)
	}

	if err == nil {
		err = c.Explain(c.stored(ctx))
	}

	return info, err
}

// stored checks that the API server reaches its storage. Without etcd an API server still returns its version, but no
// objects.
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
	return nil // it answers; permissions are checked elsewhere
}

// explainConfig returns the error for a kubeconfig or flags that describe no usable connection.
func explainConfig(err error) error {
	return newError("check --kubeconfig, --context and the file that KUBECONFIG names", "kubeconfig: %w", err)
}
