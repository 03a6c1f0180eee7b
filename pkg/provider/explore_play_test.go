// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
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
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/process"
	"github.com/csccm/csccm/pkg/testenv/script"
)

// explorer plays a history with the whole controller in virtual time, and checks what the controller does.
type explorer struct {
	account
	promises
	setup  controllerSetup
	place  string     // net, vpc or project
	second *apiServer // of another cluster that uses the account, too; nil if there is none
	// changedAt is when the second cluster's Service was changed last.
	changedAt time.Time
	// endless means that a job may never end.
	endless bool
	noTags  bool // the role may not tag
	// onePurpose means that an address of the network has either load balancer rules or port forwardings.
	onePurpose bool
	trace      bool // Events are part of the log
	log        *bytes.Buffer

	config  string    // path of the cloud-config
	keys    [2]string // API key and secret key of the controller's user
	secrets []string  // all keys so far

	life     *life
	lives    int
	stopped  bool // the controller must not run
	startAt  time.Time
	begun    time.Time
	backAt   time.Time     // when CloudStack answers again
	ahead    time.Duration // how far the clock of the next process is ahead
	faults   []func()
	byHand   map[string]string // IDs of what operators have created, by name
	shownBy  map[string]string // the last address of each Service, by key
	ready    int               // Services that are ready at the end
	calls    atomic.Int64
	deleting atomic.Bool // the history deletes a Node
}

// life is one process of the controller, from its start until it is stopped or killed.
type life struct {
	*process.Process
	number   int
	provider *Provider
	down     time.Duration // pause before the next process starts after this one was killed
	ahead    atomic.Int64  // how far its clock is ahead, in nanoseconds
	stop     func()
}

// exploredWorld returns the world of a place, with a number of free addresses.
func exploredWorld(place string, pool int) string {
	world := lbWorld + strings.Replace(tenantAddresses, `  - address: 203.0.113.44
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
`, "", 1)

	ranges := "203.0.113.10-203.0.113.12, 203.0.113.30-203.0.113.33, 203.0.113.41-203.0.113.43, " +
		"203.0.113.46-203.0.113.48"
	ranges += fmt.Sprintf(", 203.0.113.60-203.0.113.%d", 60+pool-1)
	switch place {
	case "vpc":
		var vms strings.Builder
		for i := 1; i <= 4; i++ {
			const vm = "  - {name: x%d, account: k8s, nics: [{network: tier, ip: 10.2.1.%d}, {network: inner, ip: " +
				"10.2.2.%d}]}\n"
			fmt.Fprintf(&vms, vm, i, 30+i, 30+i)
		}
		world = strings.Replace(tiersIn(world), "virtualMachines:\n", "virtualMachines:\n"+vms.String(), 1)
		ranges += ", 203.0.113.50, 203.0.113.95"
	case "project":
		world = projectIn(world)
		ranges += ", 203.0.113.90"
	}

	return strings.Replace(world, "203.0.113.10-203.0.113.99", ranges, 1)
}

// exploredPolicies holds tenancy policies by name.
var exploredPolicies = map[string]string{
	"all": `{"trustedNamespaces":["*"]}`,
	"default": `{"trustedNamespaces":["kube-system"],"sourceNATAddress":{"deny":true},"foreignAddress":{"deny":true},` +
		`"limits":{"maxPortsPerService":100,"keepIP":{"maxPerNamespace":2}}}`,
	"limits": `{"limits":{"maxAddressesPerNamespace":2,"maxPortsPerService":6,"keepIP":{"maxPerNamespace":1}}}`,
	"tenants": `{"trustedNamespaces":["blog"],"annotations":{"network":{"allow":["default"]},` +
		`"project":{"allow":["default","shop"]}},"sourceNATAddress":{"allow":["shop"]},` +
		`"foreignAddress":{"allow":["default"]},"addressReservation":"5m",` +
		`"limits":{"maxAddressesPerNamespace":3,"maxPortsPerNamespace":12,"keepIP":{"maxPerNamespace":1}}}`,
	"roomy": `{"annotations":{"network":{"allow":["*"]}}}`,
}

// newExplorer creates the world of a history. A roomy world has addresses for all Services, and no limits.
func newExplorer(t *testing.T, h history, roomy bool) *explorer {
	t.Helper()
	e := &explorer{
		setup: controllerSetup{
			world:  exploredWorld("net", 4),
			config: map[string]string{"cluster-id": "test"},
			flags:  []string{"--drift-period=5m", "--clean-orphans"},
		},
		promises: newPromises(),
		begun:    time.Now(),
		keys:     [2]string{testAPIKey, testSecret},
		secrets:  []string{testAPIKey, testSecret, "canary-signature"},
		byHand:   map[string]string{},
		shownBy:  map[string]string{},
		place:    "net",
		config:   filepath.Join(t.TempDir(), "cloud-config"),
	}

	setup, _ := h.parts()
	for _, s := range stepsOf(t, setup) {
		switch s.Verb {
		case "second-cluster":
			e.second = &apiServer{t: t, kube: testenv.Kube(), created: 500}
		case "tenancy":
			if e.setup.tenancy = s.Word(0); roomy && s.Word(0) == "limits" {
				e.setup.tenancy = "roomy"
			}
			e.setup.flags = append(e.setup.flags, "--tenancy="+exploredPolicies[e.setup.tenancy])
		default:
			e.configure(t, &s, roomy)
		}
	}

	e.setup.ReuseAnswers = true
	cloud := testenv.New(t, e.setup.world, e.setup.Options)
	e.account = account{
		Cloud: cloud, apiServer: apiServer{t: t, kube: testenv.Kube()}, inspect: cloud.Client("inspect", "inspect"),
		vpc: e.place == "vpc",
	}

	e.react("*", "events",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Event{}, nil })
	for _, ip := range []string{forwardedIP, wideFirewallIP} {
		_, err := e.ByAdmin("createPortForwardingRule", "ipaddressid", e.addressID(ip), "protocol", "tcp", "publicport",
			"2222", "privateport", "2222", "virtualmachineid", e.machine("w5").ID, "openfirewall", "false")
		require.NoError(t, err)
	}

	if e.second != nil {
		e.runSecondCluster()
	}

	e.protectAll()
	for _, node := range e.setup.nodes {
		e.join(node)
	}

	return e
}

// configure performs a step that describes the world or the controller.
func (e *explorer) configure(t *testing.T, s *script.Step, roomy bool) {
	t.Helper()
	if s.Verb == "world" && len(s.Words) > 0 {
		kind, _ := strings.CutPrefix(s.Words[0], "explored:")
		place, pool, _ := strings.Cut(kind, "/")
		free, _ := strconv.Atoi(pool)
		if roomy {
			free = 30
		}
		e.place, e.setup.world = place, exploredWorld(place, cmp.Or(free, 4))
		s.Words = s.Words[1:]
		for _, part := range s.Words {
			e.noTags = e.noTags || strings.Contains(part, "createTags")
			e.onePurpose = e.onePurpose || place == "vpc" && (part == "release:4.18" || part == "release:4.19") ||
				part == "conserveless"
		}
		if roomy {
			s.Words = slices.DeleteFunc(s.Words, func(part string) bool { return strings.HasPrefix(part, "limit:") })
		}
	}

	require.True(t, configure(t, &e.setup, s), s.Line)
}

// runSecondCluster runs the controller of another cluster in the same account, with a Service that must not change.
func (e *explorer) runSecondCluster() {
	node := map[string]string{"net": "w5", "vpc": "v1"}[e.place]
	_, err := e.second.kube.CoreV1().Nodes().Create(e.t.Context(), nodesNamed(node)[0], metav1.CreateOptions{})
	require.NoError(e.t, err)
	e.second.create("default/a", []int{80}, withUDP(53),
		annotate(annotation.DirectSpread, "1")) // within the limits of all tenancies
	l := e.run(e.second.kube, map[string]string{"cluster-id": "second"}, "")
	e.t.Cleanup(l.stop)
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	e.shownBy["default/second"] = e.second.ip("default/a")
}

// changeSecond changes the Service of the second cluster. What it has is not protected until it is served again.
func (e *explorer) changeSecond(words []string) error {
	if e.second == nil || !e.calm() || time.Since(e.changedAt) < 5*time.Minute {
		return errSenseless
	}

	e.changedAt = time.Now()
	e.unprotect(slices.Collect(maps.Keys(e.ofSecond()))...)
	e.second.edit("default/a", changed(e.t, words))
	var protect func()
	protect = func() {
		s := e.second.get("default/a")
		if status := s.Status.LoadBalancer; !isReady(s) || len(status.Ingress[0].Ports) != len(s.Spec.Ports) {
			time.AfterFunc(e.apart(time.Minute), protect)
			return
		}
		all := e.ofSecond()
		e.mu.Lock()
		defer e.mu.Unlock()
		maps.Copy(e.protected, all)
	}
	time.AfterFunc(e.apart(2*time.Minute), protect)
	return nil
}

// ofSecond returns the objects of the second cluster: those on the address of its Service, and its ACL items.
func (e *explorer) ofSecond() map[string]holding {
	now := e.read()
	all, at := now.holdings(), e.addressID(e.shownBy["default/second"])
	maps.DeleteFunc(all, func(_ string, h holding) bool {
		return h.on != at && !strings.Contains(h.line, "(csccm second ")
	})
	return all
}

// start starts the controller.
func (e *explorer) start() {
	text := e.cloudConfig(e.keys, e.setup.config)
	require.NoError(e.t, os.WriteFile(e.config, []byte(text), 0o600))
	e.life = e.run(e.kube, e.setup.config, e.config)
	e.note("controller %d starts", e.life.number)
}

func (e *explorer) cloudConfig(keys [2]string, settings map[string]string) string {
	text := string(e.Config(keys[0], keys[1]).Render())
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		text += key + " = " + settings[key] + "\n"
	}
	return text
}

// run starts a controller for an API server. If file is set, the controller follows that cloud-config.
func (e *explorer) run(kube *fake.Clientset, config map[string]string, file string) *life {
	e.lives++
	l := &life{Process: process.New(e.t.Context(), kube), number: e.lives}
	l.Delay = func(resource string, event watch.Event) time.Duration {
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return 0
		}
		return e.turn(l, resource, string(event.Type), object.GetNamespace(), object.GetName())
	}
	keys := [2]string{"inspect", "inspect"} // faults are injected into the calls of another user
	if kube == e.kube {
		keys, l.Before, l.After = e.keys, e.beforeRequest, e.afterRequest
	}

	around := func(_ *http.Request, form url.Values, send func() (*http.Response, error)) (*http.Response, error) {
		return e.around(l, kube == e.kube, form, send)
	}
	l.ahead.Store(int64(e.ahead))
	text, own := e.cloudConfig(keys, config), ownClock{ahead: &l.ahead, apart: e.apart}
	l.provider = e.setup.provider(e.t, text, func(o *Options) {
		o.RegisterMetrics = prometheus.NewRegistry().MustRegister
		o.ProbeKubelet = func(context.Context, string) bool { return true }
		o.WriteGate, o.ConfigFile, o.Clock = l.WriteGate, file, own
	}, testenv.NoJitter, cloudstack.WithClock(own), cloudstack.WithTransport(e.Transport(around)))
	factory := e.setup.run(l.Context(), e.t, l.provider, l.Kube)
	if file != "" {
		l.provider.reloader = newReloader(l.provider, []byte(text))
		go l.provider.FollowConfig(l.Context())
	}
	l.stop = sync.OnceFunc(func() {
		l.Kill()
		factory.Shutdown()
		synctest.Wait()
	})
	return l
}

// ownClock is the clock of a process, which may be ahead or behind. No two of its timers fire at the same instant.
type ownClock struct {
	clock.RealClock
	ahead *atomic.Int64
	apart func(time.Duration) time.Duration
}

// Now implements clock.PassiveClock.
func (c ownClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// Since implements clock.PassiveClock.
func (c ownClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// After implements clock.Clock.
func (c ownClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(c.apart(d)) }

// NewTimer implements clock.Clock.
func (c ownClock) NewTimer(d time.Duration) clock.Timer { return c.RealClock.NewTimer(c.apart(d)) }

func (e *explorer) stopLife() {
	if e.life != nil {
		e.life.stop()
		e.note("controller %d has ended", e.life.number)
		e.life = nil
	}
}

// pass lets time pass. It restarts a controller that was killed meanwhile.
func (e *explorer) pass(d time.Duration) {
	end := time.Now().Add(d)
	for {
		if l := e.life; l != nil && l.Dead() {
			e.note("controller %d was killed; the next one starts in %s", l.number, l.down)
			e.stopLife()
			e.startAt = time.Now().Add(l.down)
		}
		if e.life == nil && !e.stopped && !time.Now().Before(e.startAt) {
			e.start()
		}
		left := time.Until(end)
		if left <= 0 {
			break
		}
		if e.life == nil && !e.stopped || e.life != nil && e.life.Doomed() {
			left = min(left, time.Second)
		}
		time.Sleep(left)
	}

	synctest.Wait()
}

// mostCalls is the number of calls at which a history ends, because the controller seems to loop.
const mostCalls = 60_000

// around makes a call of a process to CloudStack.
func (e *explorer) around(l *life, own bool, form url.Values,
	send func() (*http.Response, error)) (res *http.Response, err error) {
	command := form.Get("command")
	time.Sleep(e.turn(l, command, parameters(form)))
	if e.calls.Add(1) > mostCalls {
		e.breach(noHotLoop, "", "more than %d calls, the last is %s", mostCalls, command)
		l.Kill()
	}

	err = l.Call("cloudstack "+command, func() error {
		if own {
			e.beforeCall(l, command, form)
		}
		res, err = send()
		if own {
			e.afterCall(command, form, res, err)
		}
		return err
	})
	if errors.Is(err, process.ErrKilled) {
		e.note("killed at %s", command)
		return nil, err
	}

	return res, err
}

// turn returns a delay of less than a millisecond that depends on the content of a call or an event. It makes
// simultaneous events happen in the same order in each replay, however goroutines are scheduled.
func (e *explorer) turn(l *life, content ...string) time.Duration {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, e.setup.Seed, l.number, content)
	return e.apart(time.Duration(h.Sum32() % 1_000_000))
}

// apart returns a duration, at least d, that ends at a time of its own: if several timers in a bubble fire at the same
// instant, the runtime orders them at random.
func (e *explorer) apart(d time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := time.Now().Add(max(d, 0))
	for e.ends[end.UnixNano()] {
		end = end.Add(1)
	}
	e.ends[end.UnixNano()] = true
	return time.Until(end)
}

// parameters returns the parameters of a call, without those that differ in each replay.
func parameters(form url.Values) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(form)) {
		switch strings.ToLower(k) {
		case "command", "response", "apikey", "signature", "signatureversion", "expires", "listall", "page", "pagesize",
			"customjobid":
		default:
			out = append(out, k+"="+form.Get(k))
		}
	}
	return strings.Join(out, " ")
}

// body reads the body of an answer and replaces it, so that it can be read again.
func body(res *http.Response) []byte {
	if res == nil || res.Body == nil {
		return nil
	}
	raw, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(raw))
	return raw
}

// play plays the steps of a history.
func (e *explorer) play(steps []script.Step) {
	e.start()
	e.pass(time.Minute)
	for i := range steps {
		e.step = i + 1
		e.note("--- %s", steps[i].Line)
		if err := e.Do(&steps[i]); err != nil {
			e.note("nothing is done: %v", err)
		}
		synctest.Wait()
		if e.calls.Load() > mostCalls {
			return
		}
	}
	e.step = len(steps) + 1
}

// errSenseless is the error of a step that is impossible in the current state.
var errSenseless = errors.New("it makes no sense now")

// Do implements script.Driver. A step that is impossible in the current state does nothing. Besides the steps of
// player.Do, there are:
//
//	renode, renode:80                  a change of a Service: other node ports for all its ports, or one
//	deploy w1                          a new VM
//	acl-list TIER LIST                 gives a tier another network ACL list
//	second CHANGE ...                  a change of the Service of the second cluster
//	fail-over                          another replica leads; the former one runs on for a while, and is fenced
//	kill call|write|kube N before|after DOWN   at the n-th call to CloudStack, write to it, or write to the API server
//	outage D, speed N                  CloudStack is away, or slower
//	fail-writes conflict|error|lost N  of the API server
//	hold RESOURCE, resume              changes of a resource arrive late
//	rotate-keys D                      new keys; the cloud-config is changed after a while
//	clock D, clock-jumps D             the clock of the next processes, or also of this one, is ahead
func (e *explorer) Do(s *script.Step) error {
	switch s.Verb {
	case "service", "edit", "deletes", "vanish":
		return e.ofService(s)
	case "endpoints":
		e.endpoints(s.Word(0), s.Words[1:])
	case "join", "leave", "ready", "unready", "label", "taint", "untaint", "deploy":
		return e.ofNode(s)
	case "by-hand", "acquire", "release", "acl-list", "second":
		if time.Now().Before(e.backAt) {
			return errSenseless
		}
		e.watchAccess("a call before: "+s.Line, false)
		err := e.ofOperator(s)
		e.watchAccess(s.Line, true)
		return err

	case "wait":
		d, err := time.ParseDuration(s.Word(0))
		e.pass(d)
		if calm := e.calm(); calm && d >= time.Hour {
			e.settled("in between")
		} else if calm && d >= 6*time.Minute {
			e.tenantsUseTheirs("in between", e.list(), e.read())
		}
		return err

	default:
		return e.ofProcess(s)
	}

	return nil
}

// ofProcess performs a step of the controller's processes, or a fault.
func (e *explorer) ofProcess(s *script.Step) error {
	number, _ := strconv.Atoi(s.Word(1))
	duration, _ := time.ParseDuration(s.Word(0))
	l := e.life
	switch s.Verb {
	case "stop":
		e.stopLife()
		e.stopped = true
	case "start", "restart":
		if s.Verb == "restart" {
			e.stopLife()
		}
		e.stopped, e.startAt = false, time.Now()
		e.pass(0)
	case "fault":
		f, err := simulator.ParseFault(strings.TrimPrefix(s.Line, "fault "))
		if err != nil {
			return err
		}
		f.Caller = "ccm"
		e.endless = e.endless || f.Kind == simulator.FaultJobNeverEnds
		e.faults = append(e.faults, e.Inject(f))
	case "heal":
		e.heal()
	case "outage":
		e.Restart(duration)
		e.backAt = time.Now().Add(duration)
	case "speed":
		x, err := strconv.ParseFloat(s.Word(0), 64)
		return errors.Join(err, e.SetSpeed(x))
	case "rotate-keys":
		return e.rotateKeys(duration)
	case "clock":
		e.ahead = duration
	case "fail-over", "kill", "fail-writes", "hold", "resume", "clock-jumps":
		if l == nil || l.Dead() {
			return errSenseless
		}
	default:
		return errors.New("there is no such step")
	}

	switch s.Verb {
	case "fail-over":
		l.Fence()
		e.start()
		e.pass(10 * time.Second)
		l.stop()
	case "kill":
		l.down, _ = time.ParseDuration(s.Word(3))
		l.DieAt(lastCalls[s.Word(0)], number, s.Word(2) == "after")
	case "fail-writes":
		l.FailWrites(process.Failure(s.Word(0)), number)
	case "hold":
		if !l.Paused() && time.Since(e.heldUntil) > grace {
			e.heldAt = time.Now()
		}
		l.Hold(s.Word(0))
	case "resume":
		l.Resume()
	case "clock-jumps":
		e.ahead = duration
		l.ahead.Store(int64(duration))
	}
	return nil
}

// lastCalls selects the calls at which a process can be killed, by kind.
var lastCalls = map[string]func(call string) bool{
	"call": func(call string) bool { return strings.HasPrefix(call, "cloudstack ") },
	"write": func(call string) bool {
		command, ok := strings.CutPrefix(call, "cloudstack ")
		return ok && !isRead(command)
	},
	"kube": func(call string) bool {
		of := strings.HasSuffix(call, " services") || strings.HasSuffix(call, " nodes")
		return of && !strings.HasPrefix(call, "kube get") && !strings.HasPrefix(call, "kube list")
	},
}

func isRead(command string) bool {
	return strings.HasPrefix(command, "list") ||
		strings.HasPrefix(command, "get") ||
		strings.HasPrefix(command, "query")
}

// calm reports whether no fault keeps the controller from its work.
func (e *explorer) calm() bool {
	l := e.life
	if l == nil || l.Dead() || l.Doomed() || l.Failing() || l.Paused() {
		return false
	}
	return len(e.faults) == 0 && e.Speed() == 1 && time.Since(e.backAt) > time.Hour
}

// heal ends all faults of CloudStack.
func (e *explorer) heal() {
	for _, remove := range e.faults {
		remove()
	}
	e.faults = nil
}

// rotateKeys gives the controller's user new keys. The old keys are invalid at once; the cloud-config is changed only
// after a while.
func (e *explorer) rotateKeys(after time.Duration) error {
	if time.Now().Before(e.backAt) {
		return errSenseless
	}
	user, err := e.first("listUsers", "user", "username", "ccm")
	if err != nil {
		return err
	}
	answer, err := e.ByAdmin("registerUserKeys", "id", user)
	keys, ok := answer["userkeys"].(map[string]any)
	if err != nil || !ok {
		return errors.Join(err, errSenseless)
	}
	e.pass(after)
	e.keys = [2]string{fmt.Sprint(keys["apikey"]), fmt.Sprint(keys["secretkey"])}
	e.secrets = append(e.secrets, e.keys[:]...)
	return os.WriteFile(e.config, []byte(e.cloudConfig(e.keys, e.setup.config)), 0o600)
}

// Services

// list returns all Services, sorted by key.
func (e *explorer) list() []*corev1.Service {
	list, err := e.kube.CoreV1().Services(metav1.NamespaceAll).List(context.Background(), metav1.ListOptions{})
	require.NoError(e.t, err)
	e.kube.ClearActions()
	var out []*corev1.Service
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, func(a, b *corev1.Service) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return out
}

func keyOf(s *corev1.Service) string { return s.Namespace + "/" + s.Name }

// addressOf returns the address that a Service shows.
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

// expand replaces ${KEY} with the last address of a Service, and $NAME with the ID of what an operator has created.
func (e *explorer) expand(words []string) ([]string, error) {
	out := make([]string, len(words))
	var err error
	for i, w := range words {
		out[i] = os.Expand(w, func(name string) string {
			value := cmp.Or(e.byHand[name], e.shownBy[name])
			if value == "" {
				err = errSenseless
			}
			return value
		})
	}
	return out, err
}

// ofService performs a step of the owner of Services. KEY*3 means three Services.
func (e *explorer) ofService(s *script.Step) error {
	words, err := e.expand(s.Words)
	if err != nil || len(words) == 0 {
		return errors.Join(err, errSenseless)
	}

	keys := words[:1]
	if prefix, n, many := strings.Cut(words[0], "*"); many {
		keys = nil
		count, _ := strconv.Atoi(n)
		for i := range count {
			keys = append(keys, fmt.Sprint(prefix, i))
		}
	}

	for _, key := range keys {
		was := e.find(key)
		switch {
		case s.Verb == "service" && was == nil:
			e.service(key, words[1:])
		case s.Verb == "service" || was == nil:
			err = errSenseless
		case s.Verb == "edit":
			err = e.edits(was, words[1:])
		case s.Verb == "deletes":
			e.deletesService(was)
		case s.Verb == "vanish" && !e.noTags: // without tags, nothing would prove what belonged to the Service
			if was.DeletionTimestamp == nil {
				e.noteKept(was)
			}
			e.vanished[was.UID] = true
			e.removeService(was)
		}
	}

	return err
}

// service creates a Service of type LoadBalancer.
func (e *explorer) service(key string, words []string) {
	s := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	s.Namespace, s.Name = e.split(key)
	e.created++
	s.UID = types.UID(fmt.Sprintf("5e%06x-0000-4000-8000-0000000000aa", e.created))
	s.CreationTimestamp = metav1.Now().Rfc3339Copy()
	if err := e.apply(s, nil, words); err != nil {
		e.note("refused: %v", err)
		return
	}
	e.asked(s)
	_, err := e.kube.CoreV1().Services(s.Namespace).Create(e.t.Context(), s, metav1.CreateOptions{})
	require.NoError(e.t, err)
}

// edits changes a Service as its owner does.
func (e *explorer) edits(was *corev1.Service, words []string) error {
	s := was.DeepCopy()
	if slices.Contains(words, "no-finalizers") {
		if e.noTags {
			return errSenseless
		}
		e.vanished[s.UID] = true
		if s.DeletionTimestamp != nil {
			e.removeService(s)
			return nil
		}
	}

	if s.DeletionTimestamp != nil {
		return errSenseless
	}

	if err := e.apply(s, was, words); err != nil {
		return err
	}

	e.asked(s)
	e.update(s)
	return nil
}

// update writes a Service, unless it was deleted meanwhile.
func (e *explorer) update(s *corev1.Service) {
	_, err := e.kube.CoreV1().Services(s.Namespace).Update(e.t.Context(), s, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(e.t, err)
	}
}

// deletesService deletes a Service as its owner does.
func (e *explorer) deletesService(s *corev1.Service) {
	switch {
	case s.DeletionTimestamp != nil:
	case len(s.Finalizers) == 0:
		e.removeService(s)
	default:
		e.noteKept(s)
		s.DeletionTimestamp = new(metav1.Now())
		e.asked(s)
		e.update(s)
	}
}

// removeService removes a Service from the API server.
func (e *explorer) removeService(s *corev1.Service) {
	s.DeletionTimestamp = new(metav1.Now())
	e.asked(s)
	err := e.kube.CoreV1().Services(s.Namespace).Delete(e.t.Context(), s.Name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(e.t, err)
	}
}

// apply changes a Service by words, and does what the API server would do.
func (e *explorer) apply(s, was *corev1.Service, words []string) error {
	var plain []string
	var again []string // ports that get other node ports; an empty string means all
	for _, w := range words {
		name, port, _ := strings.Cut(w, ":")
		switch {
		case name == "renode":
			again = append(again, port)
			continue
		case w == "no-annotations", w == "no-status":
			if e.noTags {
				continue // nothing would prove what belongs to the Service
			}
			e.forgets(s.UID, w == "no-status")
		}
		plain = append(plain, w)
	}
	err := script.Change(s, plain, func(protocol corev1.Protocol, number int32,
		old *corev1.ServicePort) corev1.ServicePort {
		if old != nil {
			return *old
		}
		return corev1.ServicePort{Name: strings.ToLower(fmt.Sprintf("%c%d", protocol[0], number)), Protocol: protocol,
			Port: number}
	})
	if err != nil {
		return err
	}

	seen := map[string]bool{}
	s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		twice := seen[p.Name]
		seen[p.Name] = true
		return twice
	})
	if len(s.Spec.Ports) == 0 {
		return errors.New("a Service has ports")
	}
	switch {
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		s.Spec.LoadBalancerClass = nil
	case was != nil && was.Spec.Type == corev1.ServiceTypeLoadBalancer:
		s.Spec.LoadBalancerClass = was.Spec.LoadBalancerClass // immutable
	}
	e.assignNodePorts(s, again)
	return nil
}

// assignNodePorts assigns the lowest free node ports to ports that have none or need another one.
func (e *explorer) assignNodePorts(s *corev1.Service, again []string) {
	used := map[int32]bool{}
	for _, other := range append(e.list(), s) {
		for _, p := range other.Spec.Ports {
			used[p.NodePort] = true
		}
	}

	free := int32(30000)
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		renewed := slices.Contains(again, "") || slices.Contains(again, fmt.Sprint(p.Port))
		switch {
		case s.Spec.Type == corev1.ServiceTypeClusterIP:
			p.NodePort = 0
		case p.NodePort == 0 || renewed:
			for used[free] {
				free++
			}
			p.NodePort, used[free] = free, true
		}
	}
}

// Nodes

func (e *explorer) findNode(name string) *corev1.Node {
	n, err := e.kube.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n.DeepCopy()
}

// join adds a Node as its kubelet does.
func (e *explorer) join(name string) {
	n := nodesNamed(name)[0]
	e.created++
	n.UID = types.UID(fmt.Sprintf("node-%s-%d", name, e.created))
	n.CreationTimestamp = metav1.Now().Rfc3339Copy()
	if e.setup.controllers {
		changeNode("taint", cloudproviderapi.TaintExternalCloudProvider)(n)
	}
	_, err := e.kube.CoreV1().Nodes().Create(e.t.Context(), n, metav1.CreateOptions{})
	require.NoError(e.t, err)
}

// ofNode performs a step of a Node.
func (e *explorer) ofNode(s *script.Step) error {
	name := s.Word(0)
	n, vm := e.findNode(name), e.machine(name)
	switch {
	case s.Verb == "join" && n == nil:
		e.join(name)
		return nil
	case s.Verb == "deploy" && vm == nil && !time.Now().Before(e.backAt):
		return e.deploy(name)
	case n == nil, s.Verb == "join", s.Verb == "deploy":
		return errSenseless
	case s.Verb == "leave":
		e.deleting.Store(true)
		defer e.deleting.Store(false)
		return e.kube.CoreV1().Nodes().Delete(e.t.Context(), name, metav1.DeleteOptions{})
	case s.Verb == "ready" && (vm == nil || vm.State != "Running" || !isVMOf(n, vm)):
		return errSenseless // there is no kubelet
	case s.Verb == "untaint":
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == "ToBeDeletedByClusterAutoscaler" })
	case s.Verb != "taint" || !tainted(n, s.Word(1)):
		changeNode(s.Verb, s.Words[1:]...)(n)
	}

	_, err := e.kube.CoreV1().Nodes().Update(e.t.Context(), n, metav1.UpdateOptions{})
	return err
}

// machine returns the VM with a name, or nil.
func (e *explorer) machine(name string) *simulator.VMInfo {
	for _, vm := range e.Objects().VMs {
		if vm.Name == name && !isGone(&vm) {
			return &vm
		}
	}
	return nil
}

func isGone(vm *simulator.VMInfo) bool {
	return slices.Contains([]string{"Destroyed", "Expunging", "Error"}, vm.State)
}

// isVMOf reports whether a VM is that of a Node: by provider ID, or by name if the Node has none.
func isVMOf(n *corev1.Node, vm *simulator.VMInfo) bool {
	if n.Spec.ProviderID == "" {
		return n.Name == vm.Name
	}
	return strings.HasSuffix(n.Spec.ProviderID, vm.ID)
}

// deploy creates a VM for a node.
func (e *explorer) deploy(name string) error {
	zone, err1 := e.first("listZones", "zone")
	offering, err2 := e.first("listServiceOfferings", "serviceoffering")
	template, err3 := e.first("listTemplates", "template", "templatefilter", "all")
	domain, err4 := e.first("listDomains", "domain")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}

	pairs := []string{"name", name, "zoneid", zone, "serviceofferingid", offering, "templateid", template}
	switch name[0] {
	case 'p':
		pairs = append(pairs, "networkids", e.networkID("project-net"), "ipaddress", "10.1.9.2"+name[1:], "projectid",
			projectID)
	case 'x':
		pairs = append(pairs, "networkids", e.networkID("tier")+","+e.networkID("inner"), "account", "k8s", "domainid",
			domain)
	default:
		pairs = append(pairs, "networkids", e.networkID("k8s-net"), "ipaddress", "10.1.1.2"+name[1:], "account", "k8s",
			"domainid", domain)
	}

	_, err := e.ByAdmin("deployVirtualMachine", pairs...)
	return err
}

// Operators

// first returns the ID of the first object of a list.
func (e *explorer) first(command, list string, pairs ...string) (string, error) {
	answer, err := e.ByAdmin(command, pairs...)
	if items, ok := answer[list].([]any); ok && len(items) > 0 {
		return fmt.Sprint(items[0].(map[string]any)["id"]), err
	}
	return "", errors.Join(err, errSenseless)
}

func (e *explorer) addressID(ip string) string {
	for _, a := range e.Objects().Addresses {
		if a.Address == ip {
			return a.ID
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

// ofOperator performs a step of an operator who uses CloudStack directly.
func (e *explorer) ofOperator(s *script.Step) error {
	words, err := e.expand(s.Words)
	if err != nil || len(words) == 0 {
		return errors.Join(err, errSenseless)
	}
	switch s.Verb {
	case "second":
		return e.changeSecond(words)
	case "acquire":
		return e.acquire(words)
	case "release":
		return e.release(words[0])
	case "acl-list":
		return e.replaceACLList(words[0], words[1])
	}

	words, name := named(words)
	var pairs, ids []string
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		id := e.refer(value)
		if id == "" {
			return errSenseless
		}
		pairs, ids = append(pairs, key, id), append(ids, id)
	}
	making := strings.HasPrefix(words[0], "create")

	own := slices.ContainsFunc(slices.Collect(maps.Values(e.byHand)),
		func(id string) bool { return slices.Contains(ids, id) })
	switch {
	case own:
		e.unprotect(ids...)
	case !making && e.protects(ids...):
		return errSenseless // operators do not change what belongs to others
	}
	if words[0] == "deleteTags" {
		if e.noTags {
			return errSenseless
		}
		e.disown(ids...)
	}

	answer, err := e.ByAdmin(words[0], pairs...)
	e.note("by hand: %v", err)
	if name != "" && err == nil {
		e.byHand[name] = madeBy(answer)
		e.protect(e.byHand[name])
	}
	return err
}

// refer returns the ID of an object: address:KEY, rule:KEY:80, firewall:KEY:80, forward:KEY:53, acl-item:KEY, vm:w1.
// Other text is returned unchanged. The ID is empty if the object does not exist.
func (e *explorer) refer(text string) string {
	kind, name, _ := strings.Cut(text, ":")
	name, port, _ := strings.Cut(name, ":")
	number, _ := strconv.Atoi(port)
	switch kind {
	case "vm":
		if vm := e.machine(name); vm != nil {
			return vm.ID
		}
		return ""
	case "network":
		return e.networkID(name)
	case "address", "rule", "firewall", "forward", "acl-item":
	default:
		return text
	}

	s := e.find(name)
	if s == nil {
		return ""
	}
	now := e.read()
	for _, item := range now.acls {
		if kind == "acl-item" && strings.Contains(item.Reason, string(s.UID)) {
			return item.ID
		}
	}
	if a := now.at(addressOf(s)); a != nil {
		return a.idOf(kind, number)
	}
	return ""
}

// acquire acquires an address as another user of the account, and names its ID.
func (e *explorer) acquire(words []string) error {
	request := cloudstack.AssociateIPRequest{NetworkID: e.networkID("k8s-net")}
	if len(words) > 1 {
		request.Address = words[1]
	}
	s, err := e.inspect.AssociateIP(e.t.Context(), request)
	if err == nil {
		_, err = e.inspect.Jobs().Wait(e.t.Context(), "associateIpAddress", s.JobID)
	}
	if err == nil {
		e.byHand[words[0]] = s.ID
		e.protect(s.ID)
	}
	return err
}

// release releases an address by the name that acquire gave it, or the address of a Service.
func (e *explorer) release(name string) error {
	id, own := e.byHand[name]
	if !own {
		s := e.find(name)
		if s == nil {
			return errSenseless
		}
		id = e.addressID(addressOf(s))
	}
	if id == "" || e.protectedOn(id) != "" || !own && e.protects(id) {
		return errSenseless
	}
	e.takeAway(id)
	_, err := e.ByAdmin("disassociateIpAddress", "id", id)
	return err
}

// replaceACLList gives a tier another network ACL list, which it creates if necessary.
func (e *explorer) replaceACLList(tier, list string) error {
	if e.place != "vpc" || e.second != nil { // it would change the second cluster, too
		return errSenseless
	}
	id, err := e.aclList(list)
	if err != nil {
		vpc, err := e.first("listVPCs", "vpc")
		if err != nil {
			return err
		}
		_, _ = e.ByAdmin("createNetworkACLList", "name", list, "vpcid", vpc)
		if id, err = e.aclList(list); err != nil {
			return err
		}
	}
	_, err = e.ByAdmin("replaceNetworkACLList", "networkid", e.networkID(tier), "aclid", id)
	return err
}

// aclList returns the ID of a network ACL list. CloudStack's answer always contains the default lists.
func (e *explorer) aclList(name string) (string, error) {
	answer, err := e.ByAdmin("listNetworkACLLists", "name", name)
	items, _ := answer["networkacllist"].([]any)
	for _, i := range items {
		if list := i.(map[string]any); list["name"] == name {
			return fmt.Sprint(list["id"]), err
		}
	}
	return "", errors.Join(err, errSenseless)
}
