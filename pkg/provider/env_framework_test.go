// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node/failover"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// The last of Kubernetes' error handlers sleeps until a time after the previous error, which may have happened in another bubble.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] } //nolint:reassign // it is a setting of the process

// frameworkEnv is the controller of Services with its informers on a fake API server, and a simulated CloudStack, in the bubble of a synctest: time passes only while everybody waits.
type frameworkEnv struct {
	account
	setup controllerSetup
	p     *Provider
	stop  func()
	// metrics are those of the controller that was started last.
	metrics *prometheus.Registry
	answer  atomic.Pointer[[]string] // in place of CloudStack's to listVirtualMachines, see around
	silent  sync.Map                 // the nodes whose kubelets do not answer

	mu     sync.Mutex
	events []string // one entry for each write of an Event, repeats included
	named  sync.Map // the entry of an Event's first write by its name
}

// controllerSetup is the world of a test and the settings of its controller, which may change between stop and start.
type controllerSetup struct {
	simulator.Options
	world, project string            // the project whose objects dump describes
	noForwards     bool              // the role may not list port forwardings
	vpc            bool              // the world has a VPC, which dump describes, too
	nodes          []string          // of the cluster at the beginning
	controllers    bool              // Kubernetes' own controllers of Nodes run, too
	flags          []string          // of the controller
	config         map[string]string // keys of the cloud-config beside those of every test
}

// withController runs a test with a world and a controller that has run for a minute.
func withController(t *testing.T, setup controllerSetup, test func(*frameworkEnv)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := testenv.New(t, setup.world, setup.Options)
		env := &frameworkEnv{
			account: account{Cloud: cloud, apiServer: apiServer{t: t, kube: testenv.Kube()}, inspect: cloud.Client("inspect", "inspect"), vpc: setup.vpc, noForwards: setup.noForwards, project: setup.project},
			setup:   setup,
		}
		for _, verb := range []string{"create", "patch"} {
			env.react(verb, "events", env.countEvent)
		}
		for _, node := range setup.nodes {
			env.joins(node)
		}
		env.start()
		defer func() { env.stop() }()
		time.Sleep(time.Minute) // the calls and Events of a start are not those of a Service
		test(env)
	})
}

// countEvent notes a written Event.
func (env *frameworkEnv) countEvent(a clienttesting.Action) (bool, runtime.Object, error) {
	what := a.GetVerb()
	switch a := a.(type) {
	case clienttesting.CreateAction:
		if e, ok := a.GetObject().(*corev1.Event); ok {
			what = fmt.Sprintf("%s: %s (%s, %s/%s)", e.Reason, e.Message, e.Type, e.InvolvedObject.Namespace, e.InvolvedObject.Name)
			env.named.Store(e.Name, what)
		}
	case clienttesting.PatchAction:
		first, _ := env.named.Load(a.GetName())
		what = fmt.Sprint("again ", first)
	}
	env.mu.Lock()
	env.events = append(env.events, what)
	env.mu.Unlock()
	return false, nil, nil
}

// start runs the controllers; env.stop ends them and waits until they have ended.
func (env *frameworkEnv) start() {
	ctx, cancel := context.WithCancel(env.t.Context())
	text := string(env.Config(testAPIKey, testSecret).Render())
	for key, value := range env.setup.config {
		text += key + " = " + value + "\n"
	}
	cfg, err := cloudconfig.Parse(strings.NewReader(text))
	require.NoError(env.t, err)
	o := DefaultOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	require.NoError(env.t, flags.Parse(env.setup.flags))
	env.metrics = prometheus.NewRegistry()
	o.RegisterMetrics = env.metrics.MustRegister
	o.ProbeKubelet = env.kubeletAnswers
	env.p, err = New(cfg, o, cloudstack.WithTransport(env.Transport(env.around)))
	require.NoError(env.t, err)
	factory := informers.NewSharedInformerFactory(env.kube, 0)
	env.p.start(env.kube, ctx.Done())
	env.p.SetInformers(factory)
	require.NoError(env.t, env.p.StartServices(ctx, factory, 10))
	if env.setup.controllers {
		nodes, metrics := factory.Core().V1().Nodes(), controllersmetrics.NewControllerManagerMetrics("test")
		initial, err := nodecontroller.NewCloudNodeController(nodes, env.kube, env.p, 5*time.Minute, 20, 1)
		require.NoError(env.t, err)
		life, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, env.kube, env.p, 5*time.Second, 1)
		require.NoError(env.t, err)
		go initial.RunWithContext(ctx, metrics)
		go life.Run(ctx, metrics)
	}
	factory.Start(ctx.Done())
	env.stop = func() {
		cancel()
		factory.Shutdown()
		synctest.Wait()
	}
}

// around replaces answers to listVirtualMachines by a status and a text, or leaves VMs out of whole lists: their count is the
// server's ("short") or their own ("without").
func (env *frameworkEnv) around(_ *http.Request, form url.Values, send func() (*http.Response, error)) (*http.Response, error) {
	res, err := send()
	w := env.answer.Load()
	if err != nil || w == nil || form.Get("command") != "listVirtualMachines" {
		return res, err
	}
	var body []byte
	switch kind := (*w)[0]; {
	case kind != "short" && kind != "without":
		res.StatusCode, err = strconv.Atoi(kind)
		body = []byte(strings.Join((*w)[1:], ""))
	case form.Get("id") != "":
		return res, nil
	default:
		var answer map[string]map[string]any
		require.NoError(env.t, json.NewDecoder(res.Body).Decode(&answer))
		list := answer["listvirtualmachinesresponse"]
		all, _ := list["virtualmachine"].([]any)
		all = slices.DeleteFunc(all, func(vm any) bool { return slices.Contains(*w, vm.(map[string]any)["name"].(string)) })
		if list["virtualmachine"] = all; kind == "without" {
			list["count"] = len(all)
		}
		body, err = json.Marshal(answer)
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return res, err
}

// kubeletAnswers is the controller's probe of a kubelet, whose address is the Node's name.
func (env *frameworkEnv) kubeletAnswers(_ context.Context, address string) bool {
	node, _, _ := strings.Cut(address, ":")
	_, silent := env.silent.Load(node)
	if silent {
		time.Sleep(failover.ProbeTimeout)
	}
	return !silent
}

// kubelet renews a node's lease each 10 s, while it answers.
func (env *frameworkEnv) kubelet(node string) {
	env.node(node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	})
	leases := env.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	go wait.UntilWithContext(env.t.Context(), func(ctx context.Context) {
		if _, silent := env.silent.Load(node); silent {
			return
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
	}, 10*time.Second)
}

// remove deletes a Service as its owner does: the object goes when no finalizer is left.
func (env *frameworkEnv) remove(key string) {
	env.t.Helper()
	env.edit(key, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	namespace, name := env.split(key)
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		if _, err := env.kube.CoreV1().Services(namespace).Get(env.t.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return
		}
	}
	env.t.Fatalf("the finalizer of %s stays", key)
}

func (env *frameworkEnv) served(key string) bool {
	return len(env.get(key).Status.LoadBalancer.Ingress) > 0
}

// count returns the calls to CloudStack and the Events since the last count, and forgets them.
func (env *frameworkEnv) count() (calls, events []string) {
	synctest.Wait()
	for _, c := range env.Ledger().Find("*", "ccm") {
		calls = append(calls, c.Command)
	}
	env.Ledger().Reset()
	env.mu.Lock()
	defer env.mu.Unlock()
	events, env.events = env.events, nil
	return calls, events
}

// tally shows how often each entry is there.
func tally(list []string) string {
	n := map[string]int{}
	for _, x := range list {
		n[x]++
	}
	var out []string
	for x, k := range n {
		out = append(out, fmt.Sprintf("%dx %s", k, x))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// node changes a Node as Kubernetes does.
func (env *frameworkEnv) node(name string, change func(*corev1.Node)) {
	env.t.Helper()
	n, err := env.kube.CoreV1().Nodes().Get(env.t.Context(), name, metav1.GetOptions{})
	require.NoError(env.t, err)
	n = n.DeepCopy()
	change(n)
	_, err = env.kube.CoreV1().Nodes().Update(env.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(env.t, err)
}

// members are the names of the VMs behind the rules of a Service of one port.
func (env *frameworkEnv) members(key string) []string {
	env.t.Helper()
	synctest.Wait()
	a := env.on(env.ip(key))
	return append([]string{}, a.members[a.rules[0].ID]...)
}

// addresses are the public addresses of the account in every state.
func (env *frameworkEnv) addresses() []string {
	env.t.Helper()
	return grep(env.dump(), "address ")
}

// ready is the condition that says whether the load balancer is as asked for.
func (env *frameworkEnv) ready(key string) metav1.Condition {
	env.t.Helper()
	c := apimeta.FindStatusCondition(env.get(key).Status.Conditions, service.ConditionReady)
	require.NotNil(env.t, c)
	return *c
}

// failures counts the failed jobs of a command, or, by a number, the calls that were answered with this error.
func (env *frameworkEnv) failures(of string) int {
	return len(slices.DeleteFunc(env.Ledger().Find("*", "ccm"), func(c simulator.Call) bool {
		return (c.Command != of || c.JobStatus != 2) && fmt.Sprint(c.ErrorCode) != of
	}))
}
