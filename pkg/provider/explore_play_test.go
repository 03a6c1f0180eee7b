// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/script"
)

// life is one process of the controller: from its start until it is stopped or killed. What it sends after its death, to CloudStack
// or to the API server, does not arrive.
type life struct {
	n       int
	p       *Provider
	kube    *fake.Clientset
	cancel  context.CancelFunc
	stop    func()
	dead    atomic.Bool // killed: nothing of it arrives any more
	fenced  atomic.Bool // does not lead any more: its writes are refused
	stopped bool

	mu     sync.Mutex
	kill   killPlan
	killed time.Duration // how long nobody runs after it was killed
}

// killPlan is at which call a process is killed.
type killPlan struct {
	left  int
	what  string // "call", "write" or "kube"
	after bool
	down  time.Duration
}

var errFenced = errors.New("this replica does not lead")

func (l *life) die(down time.Duration) {
	l.mu.Lock()
	l.killed = down
	l.mu.Unlock()
	l.dead.Store(true)
	l.cancel()
}

// strikes counts a call, and reports whether the process dies before or after it.
func (l *life) strikes(what string) (before, after bool, down time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.kill
	if k.left == 0 || k.what != what && !(k.what == "call" && what == "write") {
		return false, false, 0
	}
	if k.left--; k.left > 0 {
		return false, false, 0
	}
	return !k.after, k.after, k.down
}

func isRead(command string) bool {
	return strings.HasPrefix(command, "list") || strings.HasPrefix(command, "get") || strings.HasPrefix(command, "query")
}

// explorer plays a history and watches what the controller does.
type explorer struct {
	account
	h        history
	place    string
	project2 string // id of the project that some Services name; empty for none
	flags    []string
	config   map[string]string
	noTags   bool
	ctl      bool // Kubernetes' own controllers of Nodes run
	reload   bool
	prod     bool
	mode     string
	pool     int
	limit    int
	setupN   int
	latency  simulator.LatencyProfile
	file     string // the cloud-config
	keys     [2]string
	secrets  []string

	life    *life
	lives   int
	auto    bool // a controller that was killed is started again
	startAt time.Time
	begun   time.Time
	away    time.Time // until then CloudStack does not answer
	faults  []func()
	step    int // the one that is played
	verbose bool
	log     *logBuffer
	masks   bool // what is known is not reported again: see known: in the code
	calls   atomic.Int64

	kubeMu    sync.Mutex
	kubeFault string
	kubeLeft  int
	gates     map[string]chan struct{} // by resource; open while closed
	byTest    atomic.Bool              // a node is deleted by the test
	byHand    atomic.Bool              // somebody else acquires an address

	mu        sync.Mutex
	bad       []breach
	trace     []string
	protected map[string]holding // what is somebody else's, by id
	foreign   []foreignThing     // what the operator made during the history
	kept      map[string]string  // ids of addresses that Services kept
	taken     map[string]bool    // ids of addresses that were taken away by hand
	known     map[string]bool    // ids of addresses that are acquired
	acquired  map[types.UID][]acquisition
	asks      map[types.UID][]ask
	shown     map[types.UID]shown
	open      map[string][]netip.Prefix
	said      []string
	saidAll   strings.Builder
	forgotten map[types.UID]bool // a user has stripped its records
	disowned  map[string]bool    // ids of addresses whose tags an operator has removed
	vanished  map[types.UID]bool // Services that went without their finalizer
	visited   map[string]bool    // ids of addresses that others have put something on
	names     map[types.UID]string
}

type breach struct {
	kind, text string
	step       int
	at         time.Duration
}

// guarded is something that is not the controller's.
type holding struct{ what, line, on string }

type foreignThing struct{ kind, id string }

// acquisition is an address that was acquired for a Service.
type acquisition struct {
	id, place string
	ask       int // index of what was asked for then
}

// shown is an address that a Service showed.
type shown struct {
	ip  string
	ask int // index of what was asked for then
}

// ask is what a user asked for.
type ask struct {
	at     time.Time
	wants  bool
	ranges []netip.Prefix
	ports  map[string]bool
	place  string // what decides where the address is
	named  string // the address that is named
	keep   bool
}

func (e *explorer) report(kind, format string, v ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := fmt.Sprintf(format, v...)
	for _, b := range e.bad {
		if b.kind == kind && b.text == text {
			return
		}
	}
	e.bad = append(e.bad, breach{kind, text, e.step, time.Since(e.begun)})
	e.trace = append(e.trace, fmt.Sprintf("%s !!! %s: %s", time.Since(e.begun).Round(time.Millisecond), kind, text))
}

func (e *explorer) note(format string, v ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.trace) < 20000 {
		e.trace = append(e.trace, fmt.Sprintf("%s ", time.Since(e.begun).Round(time.Millisecond))+fmt.Sprintf(format, v...))
	}
}

// exploreWorld is the world of a place.
func exploreWorld(place string, pool int) string {
	w := lbWorld + strings.Replace(tenantAddresses, `  - address: 203.0.113.44
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
`, "", 1)
	ranges := fmt.Sprintf("203.0.113.10-203.0.113.12, 203.0.113.30-203.0.113.33, 203.0.113.41-203.0.113.43, 203.0.113.46-203.0.113.48, 203.0.113.60-203.0.113.%d", 60+pool-1)
	switch place {
	case "vpc":
		w = tiersIn(w)
		var vms strings.Builder
		for i := 1; i <= 4; i++ {
			fmt.Fprintf(&vms, "  - {name: x%d, account: k8s, nics: [{network: tier, ip: 10.2.1.%d}, {network: inner, ip: 10.2.2.%d}]}\n", i, 30+i, 30+i)
		}
		w = strings.Replace(w, "virtualMachines:\n", "virtualMachines:\n"+vms.String(), 1)
		ranges += ", 203.0.113.50, 203.0.113.95"
	case "project":
		w = projectIn(w)
		ranges += ", 203.0.113.90"
	}
	return strings.Replace(w, "203.0.113.10-203.0.113.99", ranges, 1)
}

// newExplorer makes the world of a history. roomy lifts the limits.
func newExplorer(t *testing.T, h history, roomy bool) *explorer {
	t.Helper()
	e := &explorer{
		h: h, config: map[string]string{"cluster-id": "test"}, auto: true, begun: time.Now(), keys: [2]string{testAPIKey, testSecret}, secrets: []string{testAPIKey, testSecret, "signature="},
		protected: map[string]holding{}, kept: map[string]string{}, taken: map[string]bool{}, known: map[string]bool{}, acquired: map[types.UID][]acquisition{},
		asks: map[types.UID][]ask{}, shown: map[types.UID]shown{}, open: map[string][]netip.Prefix{}, gates: map[string]chan struct{}{}, forgotten: map[types.UID]bool{},
		names: map[types.UID]string{}, disowned: map[string]bool{}, vanished: map[types.UID]bool{}, visited: map[string]bool{}, pool: 4, setupN: 2, place: "net",
	}
	release, tenancyText, seed := "", "all", uint64(0)
	for _, w := range h.world {
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "net", "vpc", "project":
			e.place = name
		case "pool":
			e.pool = n
		case "limit":
			e.limit = n
		case "nodes":
			e.setupN = n
		case "tenancy":
			tenancyText = value
		case "latency":
			switch value {
			case "quick":
				e.latency = simulator.LatencyProfile{Call: 20 * time.Millisecond, Job: 100 * time.Millisecond}
			case "simulator", "production":
				e.latency, _ = simulator.Profile(value)
			}
		case "release":
			release = value
		case "notags":
			e.noTags = true
		case "controllers":
			e.ctl = true
		case "mode":
			e.mode = value
			e.config["lb-mode"] = value
		case "reload":
			e.reload = true
		case "seed":
			seed = uint64(n)
		}
	}
	pool := e.pool
	if roomy {
		pool = 30
	}
	world := exploreWorld(e.place, pool)
	if release != "" {
		world = strings.Replace(world, "version: 4.22.0.0", "version: "+release+".0.0", 1)
	}
	if e.noTags {
		world = denying(world, "createTags", "deleteTags", "listTags", "listZones")
	}
	if roomy {
		world = strings.Replace(world, "  - name: k8s\n    role:", "  - name: k8s\n    limits: {publicIPs: -1}\n    role:", 1)
	}
	e.flags = []string{"--drift-period=5m", "--clean-orphans"}
	switch tenancyText {
	case "all":
		e.flags = append(e.flags, `--tenancy={"trustedNamespaces":["*"]}`)
	case "limits":
		if roomy {
			e.flags = append(e.flags, `--tenancy={"annotations":{"network":{"allow":["*"]}}}`)
		} else {
			e.flags = append(e.flags, `--tenancy={"limits":{"maxAddressesPerNamespace":2,"maxPortsPerService":6,"keepIP":{"maxPerNamespace":1}}}`)
		}
	case "default":
		// Services in VPCs and projects name networks and projects.
		e.flags = append(e.flags, `--tenancy={"trustedNamespaces":["kube-system"],"sourceNATAddress":{"deny":true},"foreignAddress":{"deny":true},"limits":{"maxPortsPerService":100,"keepIP":{"maxPerNamespace":2}}}`)
	}
	cloud := testenv.New(t, world, simulator.Options{Latency: e.latency, Seed: seed})
	e.account = account{Cloud: cloud, apiServer: apiServer{t: t, kube: testenv.Kube()}, inspect: cloud.Client("inspect", "inspect"), vpc: e.place == "vpc"}
	if e.place == "project" {
		e.project2 = projectID
	}
	e.react("*", "events", func(a clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Event{}, nil })
	if e.limit > 0 && !roomy {
		e.limitAddresses()
	}
	for _, ip := range []string{forwardedIP, wideFirewallIP} {
		e.handFails(e.hand("createPortForwardingRule", "ipaddressid", e.addressID(ip), "protocol", "tcp", "publicport", "2222", "privateport", "2222", "virtualmachineid", e.machine("w5"), "openfirewall", "false"))
	}
	e.guardAll()
	for _, n := range e.initialNodes() {
		e.join(n)
	}
	return e
}

func (e *explorer) initialNodes() []string {
	all := map[string][]string{"net": {"w1", "w2", "w3", "w4"}, "vpc": {"x1", "x2", "x3", "x4"}, "project": {"w1", "w2", "w3", "p1", "p2"}}[e.place]
	return all[:min(e.setupN, len(all))]
}

func (e *explorer) limitAddresses() {
	used := 0
	for _, a := range e.Objects().Addresses {
		if a.Owner == "k8s" {
			used++
		}
	}
	domains, err := e.hand("listDomains")
	e.handFails(domains, err)
	id := ""
	if list, _ := domains["domain"].([]any); len(list) > 0 {
		id, _ = list[0].(map[string]any)["id"].(string)
	}
	e.handFails(e.hand("updateResourceLimit", "resourcetype", "1", "account", "k8s", "domainid", id, "max", fmt.Sprint(used+e.limit)))
}

func (e *explorer) handFails(_ map[string]any, err error) {
	if err != nil {
		e.report("harness", "by hand: %v", err)
	}
}

// hand makes a call as an administrator and waits for its job.
func (e *explorer) hand(command string, pairs ...string) (result map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v", command, p)
		}
	}()
	form := url.Values{"command": {command}, "response": {"json"}}
	for pair := range slices.Chunk(pairs, 2) {
		form.Set(pair[0], pair[1])
	}
	out := httptest.NewRecorder()
	e.IntegrationHandler().ServeHTTP(out, httptest.NewRequestWithContext(e.t.Context(), http.MethodGet, "/client/api?"+form.Encode(), http.NoBody))
	var answer map[string]map[string]any
	if err := json.Unmarshal(out.Body.Bytes(), &answer); err != nil || out.Code != http.StatusOK {
		return nil, fmt.Errorf("%s %v: %d %s", command, pairs, out.Code, out.Body)
	}
	for _, r := range answer {
		job, ok := r["jobid"].(string)
		if !ok || command == "queryAsyncJobResult" {
			return r, nil
		}
		for range 100_000 {
			j, err := e.hand("queryAsyncJobResult", "jobid", job)
			if err != nil {
				return r, err
			}
			if j["jobstatus"] == 1.0 {
				return r, nil
			}
			if j["jobstatus"] != 0.0 {
				return r, fmt.Errorf("%s: job %v", command, j)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil, fmt.Errorf("%s: no end", command)
}

// objects by name

func (e *explorer) addressID(ip string) string {
	for _, a := range e.Objects().Addresses {
		if a.Address == ip {
			return a.ID
		}
	}
	return ""
}

func (e *explorer) machine(name string) string {
	for _, vm := range e.Objects().VMs {
		if vm.Name == name && vm.State != "Destroyed" && vm.State != "Expunging" && vm.State != "Error" {
			return vm.ID
		}
	}
	return ""
}

func (e *explorer) networkID(name string) string {
	for _, n := range e.Objects().Networks {
		if n.Name == name {
			return n.ID
		}
	}
	return ""
}

// projects are those whose objects are watched: the account's own and the other one.
func (e *explorer) projects() []string {
	if e.project2 != "" {
		return []string{"", e.project2}
	}
	return []string{""}
}

// snap is everything that CloudStack has, in all projects.
type snap struct {
	addresses []*addressSnapshot
	acls      []cloudstack.NetworkACL
	internal  []cloudstack.InternalLoadBalancer
	tags      []cloudstack.Tag
}

func (e *explorer) snap() snap {
	for range 3000 { // a management server that restarts does not answer
		if out, err := e.trySnap(); err == nil {
			return out
		} else if time.Since(e.begun) > 100*24*time.Hour {
			require.NoError(e.t, err)
		}
		time.Sleep(time.Second)
	}
	e.report("harness", "CloudStack cannot be read")
	return snap{}
}

func (e *explorer) trySnap() (snap, error) {
	var out snap
	ctx := e.t.Context()
	for _, p := range e.projects() {
		all := false
		members := e.routed()
		found := map[string]*addressSnapshot{}
		for _, q := range []cloudstack.PublicIPQuery{{}, {State: "Allocating", AllocatedOnly: &all}, {State: "Releasing", AllocatedOnly: &all}} {
			q.ProjectID = p
			ips, err := e.inspect.ListPublicIPs(ctx, q)
			if err != nil {
				return out, err
			}
			for i := range ips {
				found[ips[i].ID] = &addressSnapshot{PublicIP: ips[i], members: members}
			}
		}
		firewall, err := e.inspect.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{ProjectID: p})
		if err != nil {
			return out, err
		}
		for _, f := range firewall {
			if a := found[f.PublicIPID]; a != nil {
				a.firewall = append(a.firewall, f)
			}
		}
		rules, err := e.inspect.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: p})
		if err != nil {
			return out, err
		}
		for _, r := range rules {
			if a := found[r.PublicIPID]; a != nil {
				a.rules = append(a.rules, r)
			}
		}
		forwards, err := e.inspect.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: p})
		if err != nil {
			return out, err
		}
		for i := range forwards {
			if a := found[forwards[i].PublicIPID]; a != nil {
				a.forwards = append(a.forwards, forwards[i])
			}
		}
		for _, a := range found {
			out.addresses = append(out.addresses, a)
		}
		if e.vpc {
			items, err := e.inspect.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ProjectID: p})
			if err != nil {
				return out, err
			}
			out.acls = append(out.acls, items...)
			internal, err := e.inspect.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{ProjectID: p})
			if err != nil {
				return out, err
			}
			out.internal = append(out.internal, internal...)
		}
		tags, err := e.inspect.ListTags(ctx, cloudstack.TagQuery{ProjectID: p})
		if err != nil && !e.noTags {
			return out, err
		}
		out.tags = append(out.tags, tags...)
	}
	slices.SortFunc(out.addresses, func(a, b *addressSnapshot) int { return strings.Compare(a.Address, b.Address) })
	return out, nil
}

// lines describes what is guarded, by id.
func (s snap) lines() map[string]holding {
	out := map[string]holding{}
	for _, a := range s.addresses {
		out[a.ID] = holding{"address " + a.Address, fmt.Sprintf("%s %s network %s static NAT %v %v", a.Address, a.State, a.AssociatedNetworkID, a.StaticNAT, a.tags()), a.ID}
		for i := range a.rules {
			r := &a.rules[i]
			out[r.ID] = holding{fmt.Sprintf("rule %s on %s", r.Name, a.Address), fmt.Sprintf("%s %d->%d %s %s %v", r.Name, r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm, r.CIDRs), a.ID}
		}
		for i := range a.firewall {
			f := &a.firewall[i]
			out[f.ID] = holding{fmt.Sprintf("firewall rule %d-%d on %s", f.StartPort, f.EndPort, a.Address), fmt.Sprintf("%s %d-%d %v", f.Protocol, f.StartPort, f.EndPort, f.CIDRs), a.ID}
		}
		for i := range a.forwards {
			f := &a.forwards[i]
			out[f.ID] = holding{fmt.Sprintf("forwarding %d on %s", f.StartPort, a.Address), fmt.Sprintf("%d/%s->%d %v", f.StartPort, f.Protocol, f.PrivatePort, f.CIDRs), a.ID}
		}
	}
	for i := range s.acls {
		x := &s.acls[i]
		out[x.ID] = holding{fmt.Sprintf("ACL item %d of %s", x.Number, x.ListName), fmt.Sprintf("%d %v %s %d-%d %v %s", x.Number, x.Allow, x.Protocol, x.StartPort, x.EndPort, x.CIDRs, x.Reason), ""}
	}
	for i := range s.internal {
		l := &s.internal[i]
		out[l.ID] = holding{"internal " + l.Name, fmt.Sprintf("%s %d->%d %s", l.Address, l.Port, l.InstancePort, l.Algorithm), ""}
	}
	return out
}

// guardAll notes that everything there is belongs to others.
func (e *explorer) guardAll() {
	lines := e.snap().lines()
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, g := range lines {
		e.protected[id] = g
	}
	for _, a := range e.Objects().Addresses {
		e.known[a.ID] = true
	}
}

// guard notes that an object that the operator has made is not the controller's.
func (e *explorer) guard(kind, id string) {
	g, ok := e.snap().lines()[id]
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if kind == "address" {
		e.known[id] = true
	}
	e.protected[id] = g
	if g.on != id {
		e.visited[g.on] = true
	}
	e.foreign = append(e.foreign, foreignThing{kind, id})
}

// start runs a controller.
func (e *explorer) start() {
	e.lives++
	ctx, cancel := context.WithCancel(e.t.Context())
	l := &life{n: e.lives, cancel: cancel}
	l.kube = e.view(l)
	text := string(e.Config(e.keys[0], e.keys[1]).Render())
	for _, key := range slices.Sorted(maps.Keys(e.config)) {
		text += key + " = " + e.config[key] + "\n"
	}
	cfg, err := cloudconfig.Parse(strings.NewReader(text))
	require.NoError(e.t, err)
	o := DefaultOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	require.NoError(e.t, flags.Parse(e.flags))
	o.RegisterMetrics = prometheus.NewRegistry().MustRegister
	o.ProbeKubelet = func(context.Context, string) bool { return true }
	o.WriteGate = func() (func(), error) {
		if l.dead.Load() || l.fenced.Load() {
			return nil, errFenced
		}
		return func() {}, nil
	}
	if e.reload {
		if e.file == "" {
			e.file = filepath.Join(e.t.TempDir(), "cloud-config")
		}
		require.NoError(e.t, os.WriteFile(e.file, []byte(text), 0o600))
		o.ConfigFile = e.file
	}
	l.p, err = New(cfg, o, testenv.NoJitter, cloudstack.WithTransport(e.Transport(func(_ *http.Request, form url.Values, send func() (*http.Response, error)) (*http.Response, error) {
		return e.around(l, form, send)
	})))
	require.NoError(e.t, err)
	factory := informers.NewSharedInformerFactory(l.kube, 0)
	l.p.start(l.kube, ctx.Done())
	l.p.SetInformers(factory)
	require.NoError(e.t, l.p.StartServices(ctx, factory, 10))
	if e.reload {
		l.p.reloader = newReloader(l.p, []byte(text))
		go l.p.FollowConfig(ctx)
	}
	if e.ctl {
		nodes, metrics := factory.Core().V1().Nodes(), controllersmetrics.NewControllerManagerMetrics("test")
		initial, err := nodecontroller.NewCloudNodeController(nodes, l.kube, l.p, 5*time.Minute, 20, 1)
		require.NoError(e.t, err)
		lifecycle, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, l.kube, l.p, 5*time.Second, 1)
		require.NoError(e.t, err)
		go initial.RunWithContext(ctx, metrics)
		go lifecycle.Run(ctx, metrics)
	}
	factory.Start(ctx.Done())
	l.stop = func() {
		if l.stopped {
			return
		}
		l.stopped = true
		cancel()
		factory.Shutdown()
		synctest.Wait()
		l.dead.Store(true)
	}
	e.life = l
	e.note("controller %d starts", l.n)
}

func (e *explorer) stopLife() {
	if e.life != nil {
		e.life.stop()
		e.note("controller %d has ended", e.life.n)
		e.life = nil
	}
}

// pause lets virtual time pass. A controller that was killed meanwhile is started again.
func (e *explorer) pause(d time.Duration) {
	end := time.Now().Add(d)
	for {
		if l := e.life; l != nil && l.dead.Load() {
			l.mu.Lock()
			down := l.killed
			l.mu.Unlock()
			e.note("controller %d was killed; the next one starts in %s", l.n, down)
			e.stopLife()
			e.startAt = time.Now().Add(down)
		}
		if e.life == nil && e.auto && !time.Now().Before(e.startAt) {
			e.start()
		}
		left := time.Until(end)
		if left <= 0 {
			break
		}
		step := left
		if l := e.life; l == nil && e.auto || l != nil && l.armed() {
			step = min(left, time.Second)
		}
		time.Sleep(step)
	}
	synctest.Wait()
}

func (l *life) armed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kill.left > 0
}

// view is the API server as a process of the controller reaches it.
func (e *explorer) view(l *life) *fake.Clientset {
	k := testenv.Kube()
	k.ReactionChain, k.WatchReactionChain = nil, nil
	k.AddReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := e.aroundKube(l, a)
		return true, obj, err
	})
	k.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if l.dead.Load() {
			return true, nil, errKilled
		}
		w, err := e.kube.InvokesWatch(a)
		if err != nil {
			return true, nil, err
		}
		return true, e.gated(a.GetResource().Resource, w), nil
	})
	return k
}

// gatedWatch delivers changes late while the gate of its resource is closed.
type gatedWatch struct {
	from watch.Interface
	out  chan watch.Event
	quit chan struct{}
	once sync.Once
}

func (w *gatedWatch) ResultChan() <-chan watch.Event { return w.out }

func (w *gatedWatch) Stop() {
	w.once.Do(func() {
		close(w.quit)
		w.from.Stop()
	})
}

func (e *explorer) gate(resource string) chan struct{} {
	e.kubeMu.Lock()
	defer e.kubeMu.Unlock()
	return e.gates[resource]
}

func (e *explorer) gated(resource string, from watch.Interface) watch.Interface {
	w := &gatedWatch{from: from, out: make(chan watch.Event), quit: make(chan struct{})}
	go func() {
		defer close(w.out)
		for {
			var ev watch.Event
			var ok bool
			select {
			case <-w.quit:
				return
			case ev, ok = <-from.ResultChan():
			}
			if !ok {
				return
			}
			object, _ := meta.Accessor(ev.Object)
			time.Sleep(turn(resource, string(ev.Type), object.GetNamespace(), object.GetName()))
			if g := e.gate(resource); g != nil {
				select {
				case <-w.quit:
					return
				case <-g:
				}
			}
			select {
			case <-w.quit:
				return
			case w.out <- ev:
			}
		}
	}()
	return w
}

// aroundKube is a call of a process to the API server.
func (e *explorer) aroundKube(l *life, a clienttesting.Action) (runtime.Object, error) {
	if l.dead.Load() {
		return nil, errKilled
	}
	write := !slices.Contains([]string{"get", "list", "watch"}, a.GetVerb())
	resource := a.GetResource().Resource
	if resource == "events" {
		e.heard(a)
		return &corev1.Event{}, nil
	}
	if write && l.fenced.Load() {
		return nil, errFenced
	}
	interesting := write && (resource == "services" || resource == "nodes")
	after := false
	if interesting {
		before, later, down := l.strikes("kube")
		if before {
			l.die(down)
			return nil, errKilled
		}
		after = later
		if later {
			defer l.die(down)
		}
		if err := e.kubeFails(a, "conflict", "error"); err != nil {
			return nil, err
		}
	}
	if a.GetVerb() == "delete" && resource == "nodes" {
		e.nodeDeleted(a.(clienttesting.DeleteAction).GetName())
	}
	obj, err := e.kube.Invokes(a, nil)
	if err == nil && resource == "services" {
		if svc, ok := obj.(*corev1.Service); ok && write {
			e.sawService(svc)
		}
	}
	if interesting && err == nil {
		if lost := e.kubeFails(a, "lost"); lost != nil {
			return nil, lost
		}
	}
	if after {
		return nil, errKilled
	}
	return obj, err
}

// kubeFails is the error of the armed fault of the API server, if it is one of these kinds.
func (e *explorer) kubeFails(a clienttesting.Action, kinds ...string) error {
	e.kubeMu.Lock()
	defer e.kubeMu.Unlock()
	if e.kubeLeft == 0 || !slices.Contains(kinds, e.kubeFault) {
		return nil
	}
	e.kubeLeft--
	group := schema.GroupResource{Resource: a.GetResource().Resource}
	switch e.kubeFault {
	case "conflict":
		return apierrors.NewConflict(group, "x", errors.New("injected"))
	case "lost":
		return apierrors.NewTimeoutError("injected", 1)
	}
	return apierrors.NewInternalError(errors.New("injected"))
}

// heard notes an Event.
func (e *explorer) heard(a clienttesting.Action) {
	text := "again"
	if c, ok := a.(clienttesting.CreateAction); ok {
		if ev, ok := c.GetObject().(*corev1.Event); ok {
			text = fmt.Sprintf("%s %s/%s: %s", ev.Reason, ev.InvolvedObject.Namespace, ev.InvolvedObject.Name, ev.Message)
		}
	} else if p, ok := a.(clienttesting.PatchAction); ok {
		text = "again " + string(p.GetPatch())
	}
	e.mu.Lock()
	e.said = append(e.said, text)
	e.saidAll.WriteString(text + "\n")
	e.mu.Unlock()
	if e.verbose && !strings.HasPrefix(text, "again") {
		e.note("event %s", text)
	}
}

// mostCalls ends a history that calls without an end.
const mostCalls = 60_000

// around is a call of a process to CloudStack.
func (e *explorer) around(l *life, form url.Values, send func() (*http.Response, error)) (*http.Response, error) {
	command := form.Get("command")
	time.Sleep(turn(command, short(form)))
	if l.dead.Load() {
		return nil, errKilled
	}
	if n := e.calls.Add(1); n > mostCalls {
		if n == mostCalls+1 {
			e.report("hot-loop", "more than %d calls, the last is %s", mostCalls, command)
		}
		l.die(24 * time.Hour)
		return nil, errKilled
	}
	what := "write"
	if isRead(command) {
		what = "call"
	}
	before, after, down := l.strikes(what)
	if before {
		e.note("killed before %s", command)
		l.die(down)
		return nil, errKilled
	}
	e.beforeCall(l, command, form)
	res, err := send()
	e.afterCall(l, command, form, res, err)
	if after {
		e.note("killed after %s", command)
		l.die(down)
		return nil, errKilled
	}
	return res, err
}

// turn is a delay of less than a millisecond that depends on the content of a call or an event: what happens at the same time
// happens in the same order in each replay, however goroutines are scheduled.
func turn(content ...string) time.Duration {
	h := fnv.New32a()
	for _, c := range content {
		_, _ = h.Write([]byte(c))
	}
	return time.Duration(h.Sum32() % 1_000_000)
}

func short(form url.Values) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(form)) {
		switch strings.ToLower(k) {
		case "command", "response", "apikey", "signature", "signatureversion", "expires", "listall", "page", "pagesize", "customjobid":
			continue
		}
		out = append(out, k+"="+form.Get(k))
	}
	return strings.Join(out, " ")
}

// body reads an answer, and leaves it to be read.
func body(res *http.Response) []byte {
	if res == nil || res.Body == nil {
		return nil
	}
	raw, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(raw))
	return raw
}

// play plays the history.
func (e *explorer) play() {
	e.start()
	e.pause(time.Minute)
	for i, s := range e.h.steps {
		e.step = i + 1
		e.note("--- %s", s)
		e.do(s)
		synctest.Wait()
		if e.calls.Load() > mostCalls {
			return
		}
	}
	e.step = len(e.h.steps) + 1
}

// do does a step:
//
//	create KEY WORDS, edit KEY WORDS, delete KEY, vanish KEY (without its finalizer), strip KEY (its finalizers), many N PORTS, many-go
//	endpoints KEY NODES
//	join, leave, ready, unready, label, taint, untaint, vm-stop, vm-start, vm-destroy, vm-create NODE
//	rm-rule, rm-firewall, rm-member, rm-forward KEY PORT; rm-tags KEY WHAT; rm-acl KEY; rm-address, steal-address KEY
//	foreign-rule, foreign-firewall, foreign-forward KEY PORT; acquire [IP]; unforeign N; acl-list TIER LIST
//	restart, stop, start, leader, kill N before|after DOWN, kill-write ..., kill-kube ..., rotate WAIT
//	fault TEXT, heal, away D, speed N, kube-fault KIND N, stale RESOURCE, fresh
//	wait D, clock D
func (e *explorer) do(line string) {
	w := strings.Fields(line)
	arg := func(i int) string {
		if i < len(w) {
			return w[i]
		}
		return ""
	}
	switch w[0] {
	case "create":
		e.creates(arg(1), w[2:])
	case "edit":
		e.edits(arg(1), w[2:])
	case "delete":
		e.deletesService(arg(1))
	case "vanish", "strip":
		if e.noTags {
			return // nothing would prove what is the Service's
		}
		if s := e.find(arg(1)); s != nil {
			e.mu.Lock()
			e.vanished[s.UID] = true
			e.mu.Unlock()
		}
		if w[0] == "vanish" {
			e.vanishService(arg(1))
			return
		}
		e.change(arg(1), func(s *corev1.Service) { s.Finalizers = nil })
		if s := e.find(arg(1)); s != nil && s.DeletionTimestamp != nil && len(s.Finalizers) == 0 {
			e.reallyGone(s)
		}
	case "many":
		n, _ := strconv.Atoi(arg(1))
		for i := range n {
			e.creates(fmt.Sprintf("mass/m%d", i), w[2:])
		}
	case "many-go":
		for _, s := range e.list() {
			if s.Namespace == "mass" {
				e.deletesService(s.Namespace + "/" + s.Name)
			}
		}
	case "endpoints":
		if arg(1) != "" {
			e.endpoints(arg(1), w[2:])
		}
	case "wait", "clock":
		d, _ := time.ParseDuration(arg(1))
		e.pause(d)
		if d >= time.Hour && e.calm() {
			e.settled("in between")
		}
	case "restart":
		e.stopLife()
		e.auto, e.startAt = true, time.Now()
		e.pause(0)
	case "stop":
		e.stopLife()
		e.auto = false
	case "start":
		e.auto, e.startAt = true, time.Now()
		e.pause(0)
	case "leader":
		if old := e.life; old != nil && !old.dead.Load() {
			old.fenced.Store(true)
			e.start()
			e.pause(10 * time.Second)
			old.stop()
		}
	case "kill", "kill-write", "kill-kube":
		n, _ := strconv.Atoi(arg(1))
		down, _ := time.ParseDuration(arg(3))
		what := map[string]string{"kill": "call", "kill-write": "write", "kill-kube": "kube"}[w[0]]
		if l := e.life; l != nil {
			l.mu.Lock()
			l.kill = killPlan{n, what, arg(2) == "after", down}
			l.mu.Unlock()
		}
	case "fault":
		f, err := simulator.ParseFault(strings.TrimPrefix(line, "fault "))
		if err != nil {
			e.note("no fault: %v", err)
			return
		}
		f.Caller = "ccm"
		e.faults = append(e.faults, e.Inject(f))
	case "heal":
		e.heal()
	case "away":
		d, _ := time.ParseDuration(arg(1))
		e.Restart(d)
		e.away = time.Now().Add(d)
	case "speed":
		x, _ := strconv.ParseFloat(arg(1), 64)
		_ = e.SetSpeed(x)
	case "kube-fault":
		n, _ := strconv.Atoi(arg(2))
		e.kubeMu.Lock()
		e.kubeFault, e.kubeLeft = arg(1), n
		e.kubeMu.Unlock()
	case "stale":
		e.kubeMu.Lock()
		if e.gates[arg(1)] == nil {
			e.gates[arg(1)] = make(chan struct{})
		}
		e.kubeMu.Unlock()
	case "fresh":
		e.fresh()
	case "rotate":
		e.rotate(arg(1))
	case "join", "leave", "ready", "unready", "label", "taint", "untaint", "vm-stop", "vm-start", "vm-destroy", "vm-create":
		e.doNode(w)
	default:
		if time.Now().Before(e.away) {
			return
		}
		e.doByHand(w)
	}
}

// calm reports whether nothing keeps the controller from its work.
func (e *explorer) calm() bool {
	e.kubeMu.Lock()
	defer e.kubeMu.Unlock()
	return len(e.faults) == 0 && (e.kubeFault == "" || e.kubeLeft == 0) && len(e.gates) == 0 && e.life != nil && !e.life.dead.Load() && !e.life.armed() && e.Speed() == 1 && time.Since(e.away) > time.Hour
}

func (e *explorer) heal() {
	for _, remove := range e.faults {
		remove()
	}
	e.faults = nil
}

func (e *explorer) fresh() {
	e.kubeMu.Lock()
	for _, g := range e.gates {
		close(g)
	}
	clear(e.gates)
	e.kubeMu.Unlock()
	synctest.Wait()
}

// rotate gives the controller's user new keys. The old ones end at once; the cloud-config is changed after a while.
func (e *explorer) rotate(after string) {
	if !e.reload || time.Now().Before(e.away) {
		return
	}
	users, err := e.hand("listUsers", "username", "ccm")
	list, _ := users["user"].([]any)
	if err != nil || len(list) == 0 {
		e.note("no user: %v", err)
		return
	}
	id, _ := list[0].(map[string]any)["id"].(string)
	answer, err := e.hand("registerUserKeys", "id", id)
	keys, _ := answer["userkeys"].(map[string]any)
	if err != nil || keys == nil {
		e.note("no keys: %v %v", answer, err)
		return
	}
	key, _ := keys["apikey"].(string)
	secret, _ := keys["secretkey"].(string)
	d, _ := time.ParseDuration(after)
	e.pause(d)
	e.keys = [2]string{key, secret}
	e.secrets = append(e.secrets, key, secret)
	text := string(e.Config(key, secret).Render())
	for _, name := range slices.Sorted(maps.Keys(e.config)) {
		text += name + " = " + e.config[name] + "\n"
	}
	if e.file != "" {
		_ = os.WriteFile(e.file, []byte(text), 0o600)
	}
}

// Services

func (e *explorer) list() []*corev1.Service {
	list, err := e.kube.CoreV1().Services(metav1.NamespaceAll).List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	e.kube.ClearActions()
	var out []*corev1.Service
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, func(a, b *corev1.Service) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

func (e *explorer) find(key string) *corev1.Service {
	namespace, name := e.split(key)
	s, err := e.kube.CoreV1().Services(namespace).Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return s.DeepCopy()
}

// resolve replaces $KEY by the address that a Service has; ok is false where it has none.
func (e *explorer) resolve(words []string) (out []string, ok bool) {
	for _, w := range words {
		if before, key, found := strings.Cut(w, "=$"); found {
			s := e.find(key)
			if s == nil || addressOf(s) == "" {
				return nil, false
			}
			w = before + "=" + addressOf(s)
		}
		out = append(out, w)
	}
	return out, true
}

// addressOf is the address that a Service shows.
func addressOf(s *corev1.Service) string {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			return in.IP
		}
	}
	for _, c := range s.Status.Conditions {
		if c.Type == "csccm.io/LoadBalancerAddress" && c.Status == metav1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func (e *explorer) creates(key string, words []string) {
	words, ok := e.resolve(words)
	if !ok || e.find(key) != nil {
		return
	}
	s := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	s.Namespace, s.Name = e.split(key)
	e.created++
	s.UID = types.UID(fmt.Sprintf("5e%06x-0000-4000-8000-0000000000aa", e.created))
	s.CreationTimestamp = metav1.Now().Rfc3339Copy()
	if !e.apply(s, nil, words) {
		return
	}
	e.mu.Lock()
	e.names[s.UID] = key
	e.mu.Unlock()
	e.asked(s)
	_, err := e.kube.CoreV1().Services(s.Namespace).Create(e.t.Context(), s, metav1.CreateOptions{})
	require.NoError(e.t, err)
}

// apply changes a Service as words say, and does what the API server does then; false where it refuses.
func (e *explorer) apply(s, was *corev1.Service, words []string) bool {
	var plain []string
	var again []int32
	for _, w := range words {
		if name, value, _ := strings.Cut(w, "="); name == "renode" {
			n, _ := strconv.Atoi(value)
			again = append(again, int32(n))
			continue
		}
		if w == "no-annotations" && e.noTags || w == "no-status" && e.noTags {
			continue
		}
		if w == "no-records" {
			for _, name := range []string{annotation.Addresses, annotation.Allocation} {
				delete(s.Annotations, name)
			}
			e.mu.Lock()
			e.forgotten[s.UID] = true
			e.mu.Unlock()
			continue
		}
		if w == "no-annotations" || w == "no-status" {
			e.mu.Lock()
			if w == "no-status" {
				delete(e.shown, s.UID)
			}
			e.forgotten[s.UID] = true
			e.mu.Unlock()
		}
		if number, udp := strings.CutPrefix(w, "-udp:"); udp {
			n, _ := strconv.Atoi(number)
			s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Protocol == corev1.ProtocolUDP && int(p.Port) == n })
			continue
		}
		plain = append(plain, w)
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	if err := script.Change(s, plain, func(protocol corev1.Protocol, number int32, old *corev1.ServicePort) corev1.ServicePort {
		if old != nil {
			return *old
		}
		return corev1.ServicePort{Name: strings.ToLower(fmt.Sprintf("%c%d", protocol[0], number)), Protocol: protocol, Port: number}
	}); err != nil {
		e.note("refused: %v", err)
		return false
	}
	if e.masks && yes(s, "internal") {
		// known: UDP and port 8081 of internal load balancers fail for ever.
		s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Protocol == corev1.ProtocolUDP || p.Port == 8081 })
	}
	seen := map[string]bool{}
	s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		k := fmt.Sprint(p.Protocol, p.Port)
		twice := seen[k]
		seen[k] = true
		return twice
	})
	if len(s.Spec.Ports) == 0 {
		return false
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerClass = nil
	} else if was != nil && was.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerClass = was.Spec.LoadBalancerClass // immutable
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		switch {
		case s.Spec.Type == corev1.ServiceTypeClusterIP:
			p.NodePort = 0
		case p.NodePort == 0 || slices.Contains(again, p.Port) || slices.Contains(again, 0) && i == 0:
			p.NodePort = e.freeNodePort(s)
		}
	}
	return true
}

// freeNodePort is the lowest node port that nobody has.
func (e *explorer) freeNodePort(also *corev1.Service) int32 {
	used := map[int32]bool{}
	for _, s := range append(e.list(), also) {
		for _, p := range s.Spec.Ports {
			used[p.NodePort] = true
		}
	}
	n := int32(30000)
	for used[n] {
		n++
	}
	return n
}

// change changes a Service as a user does.
func (e *explorer) change(key string, do func(*corev1.Service)) {
	s := e.find(key)
	if s == nil {
		return
	}
	do(s)
	_, err := e.kube.CoreV1().Services(s.Namespace).Update(e.t.Context(), s, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		require.NoError(e.t, err)
	}
}

func (e *explorer) edits(key string, words []string) {
	words, ok := e.resolve(words)
	was := e.find(key)
	if !ok || was == nil || was.DeletionTimestamp != nil {
		return
	}
	s := was.DeepCopy()
	if !e.apply(s, was, words) {
		return
	}
	e.asked(s)
	_, err := e.kube.CoreV1().Services(s.Namespace).Update(e.t.Context(), s, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}

func (e *explorer) deletesService(key string) {
	s := e.find(key)
	if s == nil || s.DeletionTimestamp != nil {
		return
	}
	if len(s.Finalizers) == 0 {
		e.reallyGone(s)
		return
	}
	e.noteKept(s)
	s.DeletionTimestamp = new(metav1.Now())
	e.asked(s)
	_, err := e.kube.CoreV1().Services(s.Namespace).Update(e.t.Context(), s, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}

// reallyGone deletes a Service from the API server.
func (e *explorer) reallyGone(s *corev1.Service) {
	s.DeletionTimestamp = new(metav1.Now())
	e.asked(s)
	err := e.kube.CoreV1().Services(s.Namespace).Delete(e.t.Context(), s.Name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(e.t, err)
	}
}

func (e *explorer) vanishService(key string) {
	s := e.find(key)
	if s == nil {
		return
	}
	if s.DeletionTimestamp == nil {
		e.noteKept(s)
	}
	e.change(key, func(s *corev1.Service) { s.Finalizers = nil })
	if s := e.find(key); s != nil {
		e.reallyGone(s)
	}
}

func hasFinalizer(s *corev1.Service) bool { return servicehelpers.HasLBFinalizer(s) }

// Nodes

func (e *explorer) findNode(name string) *corev1.Node {
	n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n.DeepCopy()
}

func (e *explorer) changeNode(name string, do func(*corev1.Node)) {
	n := e.findNode(name)
	if n == nil {
		return
	}
	do(n)
	_, err := e.kube.CoreV1().Nodes().Update(e.t.Context(), n, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(e.t, err)
	}
}

func (e *explorer) join(name string) {
	if e.findNode(name) != nil {
		return
	}
	n := nodesNamed(name)[0]
	e.created++
	n.UID = types.UID(fmt.Sprintf("node-%s-%d", name, e.created))
	n.CreationTimestamp = metav1.Now().Rfc3339Copy()
	if e.ctl {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule})
	}
	_, err := e.kube.CoreV1().Nodes().Create(e.t.Context(), n, metav1.CreateOptions{})
	require.NoError(e.t, err)
}

var vmAddresses = map[string][3]string{ // network, address, another network
	"w1": {"k8s-net", "10.1.1.21"}, "w2": {"k8s-net", "10.1.1.22"}, "w3": {"k8s-net", "10.1.1.23"}, "w4": {"k8s-net", "10.1.1.24"},
	"x1": {"tier", "10.2.1.31", "inner"}, "x2": {"tier", "10.2.1.32", "inner"}, "x3": {"tier", "10.2.1.33", "inner"}, "x4": {"tier", "10.2.1.34", "inner"},
	"p1": {"project-net", "10.1.9.21"}, "p2": {"project-net", "10.1.9.22"},
}

func (e *explorer) doNode(w []string) {
	name := w[1]
	up := time.Now().After(e.away)
	switch w[0] {
	case "join":
		e.join(name)
	case "leave":
		err := e.kube.CoreV1().Nodes().Delete(e.t.Context(), name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(e.t, err)
		}
	case "ready", "unready":
		if vm := e.machine(name); w[0] == "ready" && vm == "" {
			return // there is no kubelet
		}
		e.changeNode(name, changeNode(w[0]))
	case "label":
		e.changeNode(name, changeNode("label", w[2]))
	case "taint":
		e.changeNode(name, func(n *corev1.Node) {
			if !tainted(n, w[2]) {
				changeNode("taint", w[2])(n)
			}
		})
	case "untaint":
		e.changeNode(name, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "ToBeDeletedByClusterAutoscaler" })
		})
	case "vm-stop":
		if vm := e.machine(name); vm != "" && up {
			_, err := e.hand("stopVirtualMachine", "id", vm, "forced", "true")
			e.note("stop %s: %v", name, err)
			e.changeNode(name, changeNode("unready"))
		}
	case "vm-start":
		if vm := e.machine(name); vm != "" && up {
			_, err := e.hand("startVirtualMachine", "id", vm)
			e.note("start %s: %v", name, err)
			if n := e.findNode(name); n != nil && (n.Spec.ProviderID == "" || strings.HasSuffix(n.Spec.ProviderID, vm)) {
				e.changeNode(name, changeNode("ready"))
			}
		}
	case "vm-destroy":
		if vm := e.machine(name); vm != "" && up {
			_, err := e.hand("destroyVirtualMachine", "id", vm, "expunge", "true")
			e.note("destroy %s: %v", name, err)
			e.changeNode(name, changeNode("unready"))
		}
	case "vm-create":
		if e.machine(name) == "" && up {
			e.deploy(name)
			e.join(name)
		}
	}
}

func (e *explorer) deploy(name string) {
	first := func(command, list string, pairs ...string) string {
		answer, err := e.hand(command, pairs...)
		items, _ := answer[list].([]any)
		if err != nil || len(items) == 0 {
			e.note("deploy: %s: %v", command, err)
			return ""
		}
		id, _ := items[0].(map[string]any)["id"].(string)
		return id
	}
	where := vmAddresses[name]
	pairs := []string{
		"name", name, "zoneid", first("listZones", "zone"), "serviceofferingid", first("listServiceOfferings", "serviceoffering"),
		"templateid", first("listTemplates", "template", "templatefilter", "all"),
	}
	networks := e.networkID(where[0])
	if where[2] != "" {
		networks += "," + e.networkID(where[2])
	}
	pairs = append(pairs, "networkids", networks)
	if where[2] == "" {
		pairs = append(pairs, "ipaddress", where[1])
	}
	if strings.HasPrefix(name, "p") {
		pairs = append(pairs, "projectid", projectID)
	} else {
		pairs = append(pairs, "account", "k8s", "domainid", first("listDomains", "domain"))
	}
	_, err := e.hand("deployVirtualMachine", pairs...)
	e.note("deploy %s: %v", name, err)
}

// By hand

// rulesOn are the rules of others or of Services on the address that a Service shows.
func (e *explorer) doByHand(w []string) {
	arg := func(i int) string {
		if i < len(w) {
			return w[i]
		}
		return ""
	}
	hand := func(command string, pairs ...string) string {
		answer, err := e.hand(command, pairs...)
		e.note("by hand %s %v: %v", command, pairs, err)
		if err != nil {
			return ""
		}
		if id, _ := answer["id"].(string); id != "" {
			return id
		}
		for _, v := range answer {
			if o, ok := v.(map[string]any); ok {
				if id, _ := o["id"].(string); id != "" {
					return id
				}
			}
		}
		return ""
	}
	switch w[0] {
	case "acquire":
		// Another user of the account.
		request := cloudstack.AssociateIPRequest{NetworkID: e.networkID("k8s-net"), Address: arg(1)}
		before := map[string]bool{}
		for _, a := range e.Objects().Addresses {
			before[a.ID] = true
		}
		e.byHand.Store(true)
		s, err := e.inspect.AssociateIP(e.t.Context(), request)
		e.mu.Lock()
		e.known[s.ID] = true
		e.mu.Unlock()
		e.byHand.Store(false)
		if err == nil {
			_, err = e.inspect.Jobs().Wait(e.t.Context(), "associateIpAddress", s.JobID)
		}
		e.note("acquire %s: %s %v", arg(1), s.ID, err)
		if err == nil {
			e.guard("address", s.ID)
		}
		return
	case "unforeign":
		e.unforeign(arg(1))
		return
	case "acl-list":
		e.aclList(arg(1), arg(2))
		return
	}
	s := e.find(arg(1))
	if s == nil {
		return
	}
	ip := addressOf(s)
	snap := e.snap()
	var a *addressSnapshot
	for _, x := range snap.addresses {
		if x.Address == ip {
			a = x
		}
	}
	port, _ := strconv.Atoi(arg(2))
	guarded := func(id string) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, ok := e.protected[id]
		return ok
	}
	if w[0] == "rm-acl" {
		for i := range snap.acls {
			if strings.Contains(snap.acls[i].Reason, string(s.UID)) && !guarded(snap.acls[i].ID) {
				hand("deleteNetworkACL", "id", snap.acls[i].ID)
				return
			}
		}
		return
	}
	if a == nil {
		for i := range snap.internal {
			l := &snap.internal[i]
			if w[0] == "rm-rule" && l.Address == ip && l.Port == port && !guarded(l.ID) {
				hand("deleteLoadBalancer", "id", l.ID)
			}
		}
		return
	}
	switch w[0] {
	case "rm-rule":
		for i := range a.rules {
			if a.rules[i].PublicPort == port && !guarded(a.rules[i].ID) {
				hand("deleteLoadBalancerRule", "id", a.rules[i].ID)
			}
		}
	case "rm-firewall":
		for i := range a.firewall {
			if f := &a.firewall[i]; f.StartPort <= port && port <= f.EndPort && !guarded(f.ID) {
				hand("deleteFirewallRule", "id", f.ID)
			}
		}
	case "rm-member":
		for i := range a.rules {
			if r := &a.rules[i]; r.PublicPort == port && !guarded(r.ID) && len(a.members[r.ID]) > 0 {
				hand("removeFromLoadBalancerRule", "id", r.ID, "virtualmachineids", e.machine(a.members[r.ID][0]))
			}
		}
	case "rm-forward":
		for i := range a.forwards {
			if f := &a.forwards[i]; f.StartPort == port && !guarded(f.ID) {
				hand("deletePortForwardingRule", "id", f.ID)
				return
			}
		}
	case "rm-tags":
		id, kind := a.ID, "PublicIpAddress"
		switch {
		case arg(2) == "rule" && len(a.rules) > 0:
			id, kind = a.rules[0].ID, "LoadBalancer"
		case arg(2) == "firewall" && len(a.firewall) > 0:
			id, kind = a.firewall[0].ID, "FirewallRule"
		}
		if !guarded(id) && !e.noTags {
			hand("deleteTags", "resourcetype", kind, "resourceids", id)
			e.mu.Lock()
			e.forgotten[s.UID] = true
			e.disowned[id] = e.disowned[id] || kind == "PublicIpAddress"
			e.mu.Unlock()
		}
	case "rm-address", "steal-address":
		if guarded(a.ID) || e.guardedOn(a.ID) {
			return
		}
		e.mu.Lock()
		e.taken[a.ID], e.taken[a.Address] = true, true
		delete(e.kept, a.ID)
		e.mu.Unlock()
		hand("disassociateIpAddress", "id", a.ID)
		e.mu.Lock()
		delete(e.known, a.ID)
		e.mu.Unlock()
		if w[0] == "steal-address" && e.place == "net" {
			e.doByHand([]string{"acquire", ip})
		}
	case "foreign-rule":
		if id := hand("createLoadBalancerRule", "name", "by-hand", "algorithm", "roundrobin", "protocol", "tcp", "publicipid", a.ID, "publicport", arg(2), "privateport", arg(2), "openfirewall", "false"); id != "" {
			e.guard("rule", id)
		}
	case "foreign-firewall":
		if id := hand("createFirewallRule", "ipaddressid", a.ID, "protocol", "tcp", "startport", arg(2), "endport", arg(2), "cidrlist", "198.51.100.0/24"); id != "" {
			e.guard("firewall", id)
		}
	case "foreign-forward":
		vm := map[string]string{"net": "w5", "vpc": "v1", "project": "w5"}[e.place]
		pairs := []string{"ipaddressid", a.ID, "protocol", "tcp", "publicport", arg(2), "privateport", arg(2), "virtualmachineid", e.machine(vm), "openfirewall", "false"}
		if e.place == "vpc" {
			pairs = append(pairs, "networkid", e.networkID("tier"))
		}
		if id := hand("createPortForwardingRule", pairs...); id != "" {
			e.guard("forward", id)
		}
	}
}

func (e *explorer) guardedOn(address string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, g := range e.protected {
		if g.on == address && id != address {
			return true
		}
	}
	return false
}

// unforeign removes something that the operator has made.
func (e *explorer) unforeign(text string) {
	n, _ := strconv.Atoi(text)
	e.mu.Lock()
	if len(e.foreign) == 0 {
		e.mu.Unlock()
		return
	}
	i := n % len(e.foreign)
	f := e.foreign[i]
	if f.kind == "address" {
		for id, g := range e.protected {
			if g.on == f.id && id != f.id { // there is something on it
				e.mu.Unlock()
				return
			}
		}
	}
	e.foreign = slices.Delete(e.foreign, i, i+1)
	delete(e.protected, f.id)
	if f.kind == "address" {
		e.taken[f.id] = true
		delete(e.known, f.id)
	}
	e.mu.Unlock()
	command := map[string]string{"address": "disassociateIpAddress", "rule": "deleteLoadBalancerRule", "firewall": "deleteFirewallRule", "forward": "deletePortForwardingRule"}[f.kind]
	_, err := e.hand(command, "id", f.id)
	e.note("by hand %s %s: %v", command, f.id, err)
}

// aclList gives a tier another ACL list, which is made if it is not there.
func (e *explorer) aclList(tier, list string) {
	if e.place != "vpc" {
		return
	}
	network := e.networkID(tier)
	vpcs, err := e.hand("listVPCs")
	all, _ := vpcs["vpc"].([]any)
	if err != nil || len(all) == 0 {
		return
	}
	vpc, _ := all[0].(map[string]any)["id"].(string)
	id := func() string {
		answer, err := e.hand("listNetworkACLLists", "name", list)
		if err != nil {
			e.note("lists: %v", err)
		}
		items, _ := answer["networkacllist"].([]any)
		for _, i := range items {
			if o, _ := i.(map[string]any); o["name"] == list {
				id, _ := o["id"].(string)
				return id
			}
		}
		return ""
	}
	aclID := id()
	if aclID == "" {
		_, err := e.hand("createNetworkACLList", "name", list, "vpcid", vpc)
		e.note("create list %s: %v", list, err)
		aclID = id()
	}
	_, err = e.hand("replaceNetworkACLList", "networkid", network, "aclid", aclID)
	e.note("replace list of %s by %s: %v", tier, list, err)
}
