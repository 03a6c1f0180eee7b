// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node/failover"
	"github.com/csccm/csccm/pkg/simulator"
)

// init keeps only the first of Kubernetes' error handlers. The last one sleeps until some time after the previous
// error, which may have happened in another synctest bubble.
func init() {
	//nolint:reassign // it is a setting of the process
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
}

// player plays a scenario with the controller of Services and its informers on a fake API server and a simulated
// CloudStack. It runs in a synctest bubble, where time passes only while all goroutines wait.
type player struct {
	account
	setup   controllerSetup
	p       *Provider
	stop    func()
	metrics *prometheus.Registry     // metrics of the newest controller
	answer  atomic.Pointer[[]string] // replaces answers of CloudStack; see around
	silent  sync.Map                 // the nodes whose kubelets do not answer

	mu     sync.Mutex
	events []string // one entry for each write of an Event, repeats included
	named  sync.Map // the entry of the first write of an Event, by the Event's name

	dumps  map[string][]string // by the name that the step note gave them
	vars   map[string]string   // values by name: $NAME, or the address of Service NAME
	faults []func()
	broken atomic.Bool
	last   string // the verb of the last change
	dirty  bool   // something was changed since the last wait
}

// controllerSetup is the world of a test and the settings of its controller, which may change between stop and start.
type controllerSetup struct {
	simulator.Options
	world, project string            // the project whose objects dump describes
	noForwards     bool              // the role may not list port forwardings
	tenancy        string            // the name of one of exploredPolicies
	vpc            bool              // the world has a VPC, which dump describes, too
	nodes          []string          // of the cluster at the beginning
	controllers    bool              // Kubernetes' own controllers of Nodes run, too
	flags          []string          // of the controller
	config         map[string]string // keys of the cloud-config in addition to those of every test
}

// newPlayer returns a player whose controller has run for a minute, so that the calls and Events of the start are not
// counted for a Service.
func newPlayer(t *testing.T, setup controllerSetup) *player {
	t.Helper()
	cloud := testenv.New(t, setup.world, setup.Options)
	p := &player{
		account: account{
			Cloud:      cloud,
			apiServer:  apiServer{t: t, kube: testenv.Kube()},
			inspect:    cloud.Client("inspect", "inspect"),
			vpc:        setup.vpc,
			noForwards: setup.noForwards,
			project:    setup.project,
		},
		setup: setup, dumps: map[string][]string{}, vars: maps.Clone(known),
	}

	for _, verb := range []string{"create", "patch"} {
		p.react(verb, "events", p.countEvent)
	}

	for _, node := range setup.nodes {
		p.joins(node)
	}

	p.start()
	time.Sleep(time.Minute)
	p.dumps["start"] = p.dump()
	p.count()
	return p
}

// countEvent records a written Event.
func (p *player) countEvent(a clienttesting.Action) (bool, runtime.Object, error) {
	what := a.GetVerb()
	switch a := a.(type) {
	case clienttesting.CreateAction:
		if e, ok := a.GetObject().(*corev1.Event); ok {
			what = fmt.Sprintf("%s: %s (%s, %s/%s)", e.Reason, e.Message, e.Type, e.InvolvedObject.Namespace,
				e.InvolvedObject.Name)
			p.named.Store(e.Name, what)
		}
	case clienttesting.PatchAction:
		first, _ := p.named.Load(a.GetName())
		what = fmt.Sprint("again ", first)
	}
	p.mu.Lock()
	p.events = append(p.events, what)
	p.mu.Unlock()
	return false, nil, nil
}

// start runs the controllers; p.stop ends them and waits until they have ended.
func (p *player) start() {
	ctx, cancel := context.WithCancel(p.t.Context())
	text := string(p.Config(testAPIKey, testSecret).Render())
	for key, value := range p.setup.config {
		text += key + " = " + value + "\n"
	}
	p.metrics = prometheus.NewRegistry()
	p.p = p.setup.provider(p.t, text, func(o *Options) {
		o.RegisterMetrics = p.metrics.MustRegister
		o.ProbeKubelet = p.kubeletAnswers
	}, cloudstack.WithTransport(p.Transport(p.around)))
	factory := p.setup.run(ctx, p.t, p.p, p.kube)
	p.stop = func() {
		cancel()
		factory.Shutdown()
		synctest.Wait()
	}
}

// provider returns a provider with the settings of a cloud-config's text and of the flags.
func (c *controllerSetup) provider(
	t *testing.T, text string, change func(*Options), options ...cloudstack.Option,
) *Provider {
	t.Helper()
	cfg, err := cloudconfig.Parse(strings.NewReader(text))
	require.NoError(t, err)
	o := DefaultOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	require.NoError(t, flags.Parse(c.flags))
	change(&o)

	p, err := New(cfg, o, options...)
	require.NoError(t, err)
	return p
}

// run runs a provider's controllers, and Kubernetes' own if the setup includes them, until ctx ends.
func (c *controllerSetup) run(
	ctx context.Context, t *testing.T, p *Provider, kube kubernetes.Interface,
) informers.SharedInformerFactory {
	t.Helper()
	factory := informers.NewSharedInformerFactory(kube, 0)
	p.start(kube, ctx.Done())
	p.SetInformers(factory)
	require.NoError(t, p.StartServices(ctx, factory, 10))

	if c.controllers {
		time.Sleep(time.Millisecond) // goroutines that start at the same instant run in any order
		nodes, metrics := factory.Core().V1().Nodes(), controllersmetrics.NewControllerManagerMetrics("test")
		initial, err := nodecontroller.NewCloudNodeController(nodes, kube, p, 5*time.Minute, 20, 1)
		require.NoError(t, err)
		life, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, kube, p, 5*time.Second, 1)
		require.NoError(t, err)
		go initial.RunWithContext(ctx, metrics)
		time.Sleep(time.Millisecond)
		go life.Run(ctx, metrics)
	}
	factory.Start(ctx.Done())
	return factory
}

// allocated matches the time at which an address was acquired, in answers.
var allocated = regexp.MustCompile(`"allocated":"[^"]+"`)

// around changes answers of CloudStack. A status and a text replace the answer to listVirtualMachines. "without" and
// "short" leave VMs out of complete lists; with "short", the count still includes these VMs. "no-addresses" shows no
// public address. "timezone" is a management server in another time zone. "acquisition-failed" reports acquisitions as
// failed although they took effect.
func (p *player) around(_ *http.Request, form url.Values, send func() (*http.Response, error)) (*http.Response, error) {
	res, err := send()
	w := p.answer.Load()
	if err != nil || w == nil {
		return res, err
	}

	var body []byte
	switch kind, command := (*w)[0], form.Get("command"); {
	case kind == "timezone":
		body, err = io.ReadAll(res.Body)
		body = allocated.ReplaceAllFunc(body, func(text []byte) []byte {
			at, err := time.Parse(`"allocated":"2006-01-02T15:04:05-0700"`, string(text))
			require.NoError(p.t, err)
			return at.In(time.FixedZone("", -5*3600)).AppendFormat(nil, `"allocated":"2006-01-02T15:04:05-0700"`)
		})

	case kind == "acquisition-failed":
		body, err = io.ReadAll(res.Body)
		var answer map[string]map[string]any
		if command == "queryAsyncJobResult" && bytes.Contains(body, []byte(`"ipaddress":{`)) {
			require.NoError(p.t, json.Unmarshal(body, &answer))
			job := answer["queryasyncjobresultresponse"]
			job["jobstatus"], job["jobresultcode"], job["jobresult"] = 2, 530, map[string]any{
				"errorcode": 530,
				"errortext": "Failed to assign ip address",
			}
			body, err = json.Marshal(answer)
		}

	case kind == "no-addresses":
		if command != "listPublicIpAddresses" {
			return res, nil
		}
		body = []byte(`{"listpublicipaddressesresponse":{}}`)

	case command != "listVirtualMachines":
		return res, nil
	case kind != "short" && kind != "without":
		res.StatusCode, err = strconv.Atoi(kind)
		body = []byte(strings.Join((*w)[1:], ""))
	case form.Get("id") != "":
		return res, nil
	default:
		var answer map[string]map[string]any
		require.NoError(p.t, json.NewDecoder(res.Body).Decode(&answer))
		list := answer["listvirtualmachinesresponse"]
		all, _ := list["virtualmachine"].([]any)
		all = slices.DeleteFunc(all,
			func(vm any) bool { return slices.Contains(*w, vm.(map[string]any)["name"].(string)) })
		if list["virtualmachine"] = all; kind == "without" {
			list["count"] = len(all)
		}
		body, err = json.Marshal(answer)
	}

	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return res, err
}

// kubeletAnswers simulates the controller's probe of a kubelet, whose address is the Node's name.
func (p *player) kubeletAnswers(_ context.Context, address string) bool {
	node, _, _ := strings.Cut(address, ":")
	_, silent := p.silent.Load(node)
	if silent {
		time.Sleep(failover.ProbeTimeout)
	}
	return !silent
}

// kubelet renews a node's lease every 10 s while the kubelet answers.
func (p *player) kubelet(node string) {
	p.node(node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	})
	leases := p.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	go wait.UntilWithContext(p.t.Context(), func(ctx context.Context) {
		if _, silent := p.silent.Load(node); silent {
			return
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
	}, 10*time.Second)
}

// remove deletes a Service as its owner does: the object is deleted when no finalizer is left.
func (p *player) remove(key string) {
	p.t.Helper()
	p.edit(key, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		if p.find(key) == nil {
			return
		}
	}
	p.t.Fatalf("the finalizer of %s stays", key)
}

func (p *player) served(key string) bool {
	return len(p.get(key).Status.LoadBalancer.Ingress) > 0
}

// count returns the calls to CloudStack and the Events since the last count, and resets both.
func (p *player) count() (calls, events []string) {
	synctest.Wait()
	for _, c := range p.Ledger().Find("*", "ccm") {
		calls = append(calls, c.Command)
	}
	p.Ledger().Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	events, p.events = p.events, nil
	return calls, events
}

// tally returns how often each entry occurs.
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
func (p *player) node(name string, change func(*corev1.Node)) {
	p.t.Helper()
	n, err := p.kube.CoreV1().Nodes().Get(p.t.Context(), name, metav1.GetOptions{})
	require.NoError(p.t, err)
	n = n.DeepCopy()
	change(n)
	_, err = p.kube.CoreV1().Nodes().Update(p.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(p.t, err)
}

// members returns the names of the VMs behind the rules of a Service with one port.
func (p *player) members(key string) []string {
	p.t.Helper()
	synctest.Wait()
	a := p.on(p.ip(key))
	return append([]string{}, a.members[a.rules[0].ID]...)
}

// addresses returns the public addresses of the account, in any state.
func (p *player) addresses() []string {
	p.t.Helper()
	return grep(p.dump(), "address ")
}

// ready returns the condition that says whether the load balancer is as requested.
func (p *player) ready(key string) metav1.Condition {
	p.t.Helper()
	c := readyCondition(p.get(key))
	require.NotNil(p.t, c)
	return *c
}

// failures counts the failed jobs of a command or, for a number, the calls that were answered with this error code.
func (p *player) failures(of string) int {
	return len(slices.DeleteFunc(p.Ledger().Find("*", "ccm"), func(c simulator.Call) bool {
		return (c.Command != of || c.JobStatus != 2) && fmt.Sprint(c.ErrorCode) != of
	}))
}
