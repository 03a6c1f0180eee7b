// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// promise is a property that must hold at every moment or at the end of a history.
type promise string

const (
	// Checked at each call.
	nothingForeignChanges promise = "nothing foreign changes"
	addressesStay         promise = "addresses stay unless their owners ask for others"
	acquiredOnce          promise = "no address is acquired twice"
	accessNeverWidens     promise = "access is never wider than the ranges"
	livingNodesStay       promise = "no Node of a living VM is deleted"
	leastPrivilege        promise = "no command outside of RequiredCommands"
	fencedNeverWrites     promise = "a fenced replica never writes"
	noHotLoop             promise = "no loop without an end"
	// Checked at the end, and after an hour without faults.
	servedAsAsked   promise = "a Service is served as it asks"
	served          promise = "every Service that can be served is served"
	nothingIsLeft   promise = "nothing is left of what is gone"
	tenantsAreApart promise = "tenants use what is theirs"
	quiet           promise = "nothing is done in a quiet hour"
	planIsEmpty     promise = "csccm plan says nothing to do"
	budget          promise = "calls and Events are within their budget"
	likeFresh       promise = "the history does not matter"
	noSecretLeaves  promise = "no secret leaves"
	// harness is not a promise: it reports a failure of the explorer itself.
	harness promise = "the explorer works"
)

// breach is a promise that was broken.
type breach struct {
	kind string // the promise, and the kind of object
	text string
	step int
	at   time.Duration
}

func (b breach) String() string {
	return fmt.Sprintf("%s (step %d, %s): %.600s", b.kind, b.step, b.at.Round(time.Millisecond), b.text)
}

// trial is a check of whether Services are settled already. The worlds of one history share it.
type trial struct{ runs, fails atomic.Bool }

// promises records what the explorer has observed so far.
type promises struct {
	mu       sync.Mutex
	breaches []breach
	trial    *trial
	lines    []string       // the log
	step     int            // the current step
	ends     map[int64]bool // see explorer.apart

	protected  map[string]holding   // objects of others, by ID
	kept       map[string]string    // keys of the Services that keep addresses, by ID of the address
	taken      map[string]bool      // addresses that operators have released, by ID and by IP
	takenAt    map[string]time.Time // when, by ID
	calledAt   map[string]time.Time // the last calls of the controller, by command and ID of the address
	raced      map[string]bool      // addresses that operators took while the controller worked on them, by ID
	visited    map[string]bool      // addresses on which operators have created something, by ID
	unmarked   map[string]bool      // addresses for which the kept-by tag was refused, by ID
	disowned   map[string]bool      // objects whose tags an operator has removed, by ID
	finalizers map[types.UID]bool   // Services that have a finalizer
	vanished   map[types.UID]bool   // Services that were deleted although they had a finalizer
	forgotten  map[types.UID]bool   // Services whose records their owner has removed

	heldAt    time.Time // when watches were held last
	heldUntil time.Time // and when they were last seen to be held

	asks  map[types.UID][]ask
	names map[types.UID]string
	shown map[types.UID]shown
	jobs  map[string]*acquisition // by id of the job
	open  map[string][]netip.Prefix
	said  []string // Events since the last quiet hour began
	texts strings.Builder
}

func newPromises() promises {
	return promises{
		trial:     &trial{},
		ends:      map[int64]bool{},
		protected: map[string]holding{},
		kept:      map[string]string{},
		taken:     map[string]bool{}, takenAt: map[string]time.Time{}, calledAt: map[string]time.Time{},
		raced:    map[string]bool{},
		visited:  map[string]bool{},
		disowned: map[string]bool{}, unmarked: map[string]bool{},
		vanished: map[types.UID]bool{}, finalizers: map[types.UID]bool{}, forgotten: map[types.UID]bool{},
		asks:  map[types.UID][]ask{},
		names: map[types.UID]string{},
		shown: map[types.UID]shown{}, jobs: map[string]*acquisition{}, open: map[string][]netip.Prefix{},
	}
}

// holding is an object of others.
type holding struct {
	what string    // description, which begins with the kind
	line string    // the properties that must not change
	on   string    // ID of its address
	made time.Time // zero if it existed from the beginning
}

// ask is what the owner of a Service requests from a point in time on.
type ask struct {
	at     time.Time
	wants  bool
	ranges []netip.Prefix
	ports  map[string]bool
	place  string // where the address is requested
	named  string // the requested address
	share  string // the namespaces that may use the address, too
	keep   bool
}

// shown is an address that a Service showed, and the index of the ask that applied then, see lately.
type shown struct {
	ip   string
	ask  int
	host string // the namespace that owned the address then, see hostOf
}

// acquisition is a job that acquires an address for a Service.
type acquisition struct {
	uid types.UID
	ask int    // index of the ask that applied then
	id  string // of the address; empty while it is not known
}

// breach records that a promise is broken. of is the kind of object; it may be empty. During a trial, what a Service
// does not have yet breaks no promise.
func (e *explorer) breach(p promise, of, format string, v ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	late := slices.Contains([]promise{servedAsAsked, served, nothingIsLeft, likeFresh}, p) && of != "finalizer"
	if late && e.trial.runs.Load() {
		e.trial.fails.Store(true)
		return
	}

	b := breach{kind: string(p), text: fmt.Sprintf(format, v...), step: e.step, at: time.Since(e.begun)}
	if of != "" {
		b.kind += ": " + of
	}
	same := func(x breach) bool { return x.kind == b.kind && x.text == b.text }
	if !slices.ContainsFunc(e.breaches, same) {
		e.breaches = append(e.breaches, b)
		e.lines = append(e.lines, "!!! "+b.String())
	}
}

// note appends a line to the log.
func (e *explorer) note(format string, v ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.lines) < 20_000 {
		e.lines = append(e.lines, time.Since(e.begun).Round(time.Millisecond).String()+" "+fmt.Sprintf(format, v...))
	}
}

// What owners ask for

func annotated(s *corev1.Service, name string) string {
	return strings.TrimSpace(s.Annotations[annotation.Prefix+name])
}

func yes(s *corev1.Service, name string) bool {
	b, _ := annotation.Bool(annotated(s, name))
	return b
}

func wantsOne(s *corev1.Service) bool {
	return s.DeletionTimestamp == nil &&
		s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		s.Spec.LoadBalancerClass == nil
}

// prefixesOf parses a list of ranges in the format of CloudStack or of annotations.
func prefixesOf(text string) (out []netip.Prefix) {
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if p, err := netip.ParsePrefix(f); err == nil {
			out = append(out, p.Masked())
		} else if a, err := netip.ParseAddr(f); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

var everyone = prefixesOf(annotation.Anyone)

// rangesAsked returns the sources that a Service allows.
func rangesAsked(s *corev1.Service) []netip.Prefix {
	out := everyone
	if l := s.Spec.LoadBalancerSourceRanges; len(l) > 0 {
		out = annotation.Intersect(out, prefixesOf(strings.Join(l, ",")))
	}
	if v, set := s.Annotations[annotation.SourceCIDRs]; set {
		out = annotation.Intersect(out, prefixesOf(v))
	}
	return annotation.Aggregate(out)
}

func portKey(protocol string, port int) string {
	return strings.ToLower(protocol) + "/" + strconv.Itoa(port)
}

func namedAddress(s *corev1.Service) string {
	return cmp.Or(annotated(s, "address"), strings.TrimSpace(s.Spec.LoadBalancerIP))
}

// asked records what the owner of a Service requests now.
func (e *explorer) asked(s *corev1.Service) {
	a := ask{
		at: time.Now(), wants: wantsOne(s), ranges: rangesAsked(s), ports: map[string]bool{}, named: namedAddress(s),
		keep: yes(s, "keep-ip"), share: annotated(s, "share-with"),
		place: fmt.Sprint(yes(s, "internal"), annotated(s, "network"), annotated(s, "project")),
	}
	for _, p := range s.Spec.Ports {
		a.ports[portKey(string(p.Protocol), int(p.Port))] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asks[s.UID] = append(e.asks[s.UID], a)
	e.names[s.UID] = keyOf(s)
}

// forgets records that an owner removes a Service's records or, with status, its status.
func (e *explorer) forgets(uid types.UID, status bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgotten[uid] = true
	if status {
		delete(e.shown, uid)
	}
}

// lately returns the index of the oldest ask that a running sync may still work on. The caller holds e.mu.
func (e *explorer) lately(uid types.UID) int { return e.applied(uid, 3*time.Minute) }

// applied returns the index of the ask that applied some time ago or, while watches are held, at that time before. The
// caller holds e.mu.
func (e *explorer) applied(uid types.UID, ago time.Duration) (at int) {
	since := time.Now()
	if l := e.life; l != nil && l.Paused() {
		e.heldUntil = since
	}
	if time.Since(e.heldUntil) < ago {
		since = e.heldAt
	}

	asks := e.asks[uid]
	for at+1 < len(asks) && since.Sub(asks[at+1].at) > ago {
		at++
	}
	return at
}

// movedSince reports whether the owner has requested something that may move or remove the address since an ask. The
// caller holds e.mu.
func (e *explorer) movedSince(uid types.UID, since int, ip string) bool {
	asks := e.asks[uid]
	if since >= len(asks) || e.taken[ip] || e.forgotten[uid] && e.noTags {
		return true
	}
	return slices.ContainsFunc(asks[since:], func(a ask) bool {
		return !a.wants || a.place != asks[since].place || a.named != "" && a.named != ip
	})
}

// noteKept records that a Service that is being deleted keeps its address, if that is certain.
func (e *explorer) noteKept(s *corev1.Service) {
	ip := addressOf(s)
	switch {
	case !yes(s, "keep-ip"), yes(s, "internal"), e.noTags, !wantsOne(s), !isReady(s), ip == "",
		e.setup.tenancy != "all":
		return
	case slices.ContainsFunc(e.list(), func(o *corev1.Service) bool { return o.UID != s.UID && addressOf(o) == ip }):
		return
	}
	id := e.addressID(ip)
	e.mu.Lock()
	defer e.mu.Unlock()
	asks := e.asks[s.UID]
	long := len(asks) > 0 && time.Since(asks[len(asks)-1].at) > 20*time.Minute
	if id != "" && long && !e.taken[id] && !e.forgotten[s.UID] {
		e.kept[id] = keyOf(s)
	}
}

// What others have

// reading is everything in CloudStack, in all projects.
type reading struct {
	addresses []*addressSnapshot
	acls      []cloudstack.NetworkACL
	internal  []cloudstack.InternalLoadBalancer
	tags      []cloudstack.Tag
}

func (r *reading) at(ip string) *addressSnapshot {
	for _, a := range r.addresses {
		if a.Address == ip {
			return a
		}
	}
	return nil
}

// read reads everything. It retries until CloudStack answers.
func (e *explorer) read() reading {
	for range 3000 {
		out, err := e.tryRead()
		if err == nil {
			return out
		}
		time.Sleep(time.Second)
	}
	e.breach(harness, "", "CloudStack cannot be read")
	return reading{}
}

func (e *explorer) tryRead() (out reading, err error) {
	projects := []string{""}
	if e.place == "project" {
		projects = append(projects, projectID)
	}

	for _, p := range projects {
		some, err := e.snapshotOf(p)
		if err != nil {
			return out, err
		}
		out.addresses = slices.AppendSeq(out.addresses, maps.Values(some))
		tags, err := e.inspect.ListTags(context.Background(), cloudstack.TagQuery{ProjectID: p})
		if err != nil && !e.noTags {
			return out, err
		}
		out.tags = append(out.tags, tags...)
	}

	slices.SortFunc(out.addresses, func(a, b *addressSnapshot) int { return strings.Compare(a.Address, b.Address) })
	if !e.vpc {
		return out, nil
	}

	if out.acls, err = e.inspect.ListNetworkACLs(context.Background(), cloudstack.NetworkACLQuery{}); err != nil {
		return out, err
	}

	out.internal, err = e.inspect.ListInternalLoadBalancers(context.Background(),
		cloudstack.InternalLoadBalancerQuery{})
	return out, err
}

// holdings returns all objects by ID.
func (r *reading) holdings() map[string]holding {
	out := map[string]holding{}
	add := func(id, on, what, format string, v ...any) {
		out[id] = holding{what: what, line: fmt.Sprintf(format, v...), on: on}
	}
	for _, a := range r.addresses {
		add(a.ID, a.ID, "address "+a.Address, "%s network %s static NAT %v %v", a.State, a.AssociatedNetworkID,
			a.StaticNAT, a.tagsOfOthers())
		for _, x := range a.rules {
			what := fmt.Sprintf("rule %s on %s", x.Name, a.Address)
			add(x.ID, a.ID, what, "%d->%d %s %s %v", x.PublicPort, x.PrivatePort, x.Protocol, x.Algorithm, x.CIDRs)
		}
		for _, x := range a.firewall {
			add(x.ID, a.ID, fmt.Sprintf("firewall rule %d-%d on %s", x.StartPort, x.EndPort, a.Address), "%s %v",
				x.Protocol, x.CIDRs)
		}
		for _, x := range a.forwards {
			add(x.ID, a.ID, fmt.Sprintf("forwarding %d on %s", x.StartPort, a.Address), "%s->%d %v", x.Protocol,
				x.PrivatePort, x.CIDRs)
		}
	}

	for _, x := range r.acls {
		what := fmt.Sprintf("ACL item %d of %s", x.Number, x.ListName)
		add(x.ID, "", what, "%v %s %d-%d %v %s", x.Allow, x.Protocol, x.StartPort, x.EndPort, x.CIDRs, x.Reason)
	}

	for _, x := range r.internal {
		add(x.ID, "", "internal load balancer "+x.Name, "%s %d->%d %s", x.Address, x.Port, x.InstancePort, x.Algorithm)
	}

	return out
}

// protectAll records that all objects that exist now belong to others.
func (e *explorer) protectAll() {
	now := e.read()
	all := now.holdings()
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.Copy(e.protected, all)
}

// protect records that an object belongs to an operator. It is lost if its address was already being released.
func (e *explorer) protect(id string) {
	now := e.read()
	h, ok := now.holdings()[id]
	e.mu.Lock()
	defer e.mu.Unlock()
	if !ok || h.on != id && time.Since(e.calledAt["disassociateIpAddress"+h.on]) < time.Minute {
		return
	}

	h.made = time.Now()
	e.protected[id] = h
	if h.on != id {
		e.visited[h.on] = true
	}
}

// unprotect records that operators remove objects of their own.
func (e *explorer) unprotect(ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		delete(e.protected, id)
	}
}

// protects reports whether one of the objects belongs to others.
func (e *explorer) protects(ids ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(ids, func(id string) bool { return e.protected[id].what != "" })
}

// protectedOn describes an object of others on an address; empty if there is none.
func (e *explorer) protectedOn(address string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, h := range e.protected {
		if h.on == address && id != address {
			return h.what
		}
	}
	return ""
}

// takeAway records that an operator releases an address.
func (e *explorer) takeAway(id string) {
	ip := ""
	for _, a := range e.Objects().Addresses {
		if a.ID == id {
			ip = a.Address
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken[id], e.taken[ip], e.takenAt[id] = true, true, time.Now()
	delete(e.kept, id)
	delete(e.protected, id)
}

// disown records that an operator removes the tags of objects, which proved to whom they belong.
func (e *explorer) disown(ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		e.disowned[id] = true
	}
}

// othersKeep checks that the objects of others are unchanged.
func (e *explorer) othersKeep(now reading) {
	all := now.holdings()
	e.mu.Lock()
	protected := maps.Clone(e.protected)
	e.mu.Unlock()
	for id, h := range protected {
		if is := all[id].line; is != h.line {
			e.breach(nothingForeignChanges, "at the end", "%s was %q and is %q", h.what, h.line, is)
		}
	}
}

// At each request to the API server

func (e *explorer) beforeRequest(a clienttesting.Action) {
	verb, resource := a.GetVerb(), a.GetResource().Resource
	switch {
	case resource == "events":
		e.heard(a)
	case resource == "nodes" && verb == "delete" && !e.deleting.Load():
		e.deletesNode(a.(clienttesting.DeleteAction).GetName())
	}
}

// heard records an Event.
func (e *explorer) heard(a clienttesting.Action) {
	text := "again"
	switch a := a.(type) {
	case clienttesting.CreateAction:
		if ev, ok := a.GetObject().(*corev1.Event); ok {
			text = fmt.Sprintf("%s %s/%s: %s", ev.Reason, ev.InvolvedObject.Namespace, ev.InvolvedObject.Name,
				ev.Message)
			if e.trace {
				e.note("event %s", text)
			}
		}
	case clienttesting.PatchAction:
		text = "again " + string(a.GetPatch())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = append(e.said, text)
	e.texts.WriteString(text + "\n")
}

// deletesNode is called before the controller deletes a Node.
func (e *explorer) deletesNode(name string) {
	n := e.findNode(name)
	if n == nil {
		return
	}
	e.note("Node %s is deleted", name)
	for _, vm := range e.Objects().VMs {
		if !isGone(&vm) && isVMOf(n, &vm) {
			e.breach(livingNodesStay, "", "Node %s is deleted, and its VM is %s", name, vm.State)
		}
	}
}

// afterRequest is called when the controller has written an object.
func (e *explorer) afterRequest(a clienttesting.Action, obj runtime.Object) {
	s, ok := obj.(*corev1.Service)
	if !ok || a.GetVerb() == "get" {
		return
	}

	e.finalized(s)
	ip := addressOf(s)
	e.mu.Lock()
	was := e.shown[s.UID]
	e.mu.Unlock()
	if ip == was.ip {
		return
	}

	services := e.list()
	e.mu.Lock()
	e.shown[s.UID] = shown{ip, e.lately(s.UID), e.hostOf(s, ip, services)}
	if ip != "" {
		e.shownBy[keyOf(s)] = ip
		if s.Namespace == metav1.NamespaceDefault {
			e.shownBy[s.Name] = ip
		}
	}

	moved := was.ip == "" || e.movedSince(s.UID, was.ask, was.ip)
	e.mu.Unlock()
	e.note("Service %s shows %q in place of %q", keyOf(s), ip, was.ip)
	if !moved {
		e.breach(addressesStay, "", "Service %s showed %s and now %q", keyOf(s), was.ip, ip)
	}
	if isDenied(e.setup.tenancy, s.Namespace, ip) {
		e.breach(tenantsAreApart, "foreign address", "Service %s shows %s, which its namespace may not use", keyOf(s),
			ip)
	}
}

// hostOf returns the namespace that owns an address when a Service begins to show it: the one whose Services have it
// already and share it, or shared it recently; otherwise the Service's own. The caller holds e.mu.
func (e *explorer) hostOf(s *corev1.Service, ip string, services []*corev1.Service) string {
	for _, other := range services {
		host := e.shown[other.UID].host
		if other.UID == s.UID || e.shown[other.UID].ip != ip || other.Namespace != host {
			continue
		}
		for _, a := range e.asks[other.UID][e.applied(other.UID, grace):] {
			if with := strings.Split(a.share, ","); slices.Contains(with, s.Namespace) || slices.Contains(with, "*") {
				return host
			}
		}
	}
	return s.Namespace
}

// finalized checks that no rule of a Service is left when the controller removes its finalizer.
func (e *explorer) finalized(s *corev1.Service) {
	router := e.Router()
	e.mu.Lock()
	goes := e.finalizers[s.UID] && !servicehelpers.HasLBFinalizer(s) && !e.vanished[s.UID]
	e.finalizers[s.UID] = servicehelpers.HasLBFinalizer(s)
	e.mu.Unlock()
	for _, r := range router.Rules {
		if goes && strings.HasPrefix(r.Name, lbName(s.UID)) {
			e.breach(nothingIsLeft, "finalizer", "Service %s loses it, and rule %s is there", keyOf(s), r.Name)
		}
	}
}

// At each call to CloudStack

func (e *explorer) beforeCall(l *life, command string, form url.Values) {
	if !slices.Contains(RequiredCommands, command) {
		e.breach(leastPrivilege, command, "%s is sent", command)
	}

	on := cmp.Or(form.Get("publicipid"), form.Get("ipaddressid"), form.Get("id"))
	e.mu.Lock()
	e.calledAt[command+on] = time.Now()
	e.raced[on] = e.raced[on] || !isRead(command) && e.takenAt[on].After(e.calledAt["listPublicIpAddresses"+on])
	e.mu.Unlock()

	if isRead(command) {
		if e.trace {
			e.note("read of %d: %s %s", l.number, command, parameters(form))
		}
		return
	}

	e.note("call of %d: %s %s", l.number, command, parameters(form))
	if l.Fenced() {
		e.breach(fencedNeverWrites, command, "%s is sent", command)
	}

	for _, id := range targets(form) {
		e.mu.Lock()
		h, foreign := e.protected[id]
		e.mu.Unlock()
		// The first Service that uses an address without other objects tags it, and the last one removes the tags.
		untagged := foreign && h.on == id && !strings.Contains(h.line, plan.TagCluster)
		allowed := untagged && (command == "deleteTags" || command == "createTags" && e.protectedOn(id) == "")
		if foreign && !allowed {
			e.breach(nothingForeignChanges, command, "%s works on %s", command, h.what)
		}
	}

	e.mu.Lock()
	address := e.protected[on]
	e.mu.Unlock()
	if strings.HasPrefix(command, "create") && strings.Contains(address.line, plan.TagCluster+"=") {
		e.breach(nothingForeignChanges, "another cluster", "%s works on %s", command, address.what)
	}

	switch command {
	case "disassociateIpAddress":
		e.beforeRelease(form.Get("id"))
	case "associateIpAddress":
		e.beforeAcquisition(form.Get("customjobid"))
	}
}

// targets returns the IDs of the objects that a call changes.
func targets(form url.Values) (ids []string) {
	for _, k := range []string{"id", "lbruleid", "resourceids", "ids"} {
		ids = append(ids, strings.Split(form.Get(k), ",")...)
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// lists are the commands that show what is on an address, by the first word of its description.
var lists = map[string]string{"rule": "listLoadBalancerRules", "firewall": "listFirewallRules",
	"forwarding": "listPortForwardingRules"}

// forgetUnseen removes the protection of what operators made on an address after the controller had read it for the
// last time. The controller has to read immediately before it releases the address.
func (e *explorer) forgetUnseen(address string) {
	calm := e.calm()
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.protected, func(id string, h holding) bool {
		kind, _, _ := strings.Cut(h.what, " ")
		read := e.calledAt[lists[kind]+address]
		return h.on == address && id != address && h.made.After(read) && (time.Since(read) < time.Second || !calm)
	})
}

// beforeRelease checks that no object or Service needs the address any more.
func (e *explorer) beforeRelease(id string) {
	e.forgetUnseen(id)
	if what := e.protectedOn(id); what != "" {
		e.breach(nothingForeignChanges, "release", "an address is released with %s", what)
	}

	e.mu.Lock()
	keeper := e.kept[id]
	e.mu.Unlock()
	if keeper != "" {
		e.breach(addressesStay, "kept", "an address is released that %s kept", keeper)
	}

	for _, s := range e.list() {
		if ip := addressOf(s); wantsOne(s) && ip != "" && e.addressID(ip) == id {
			e.mu.Lock()
			moved := e.movedSince(s.UID, e.shown[s.UID].ask, ip)
			e.mu.Unlock()
			if !moved {
				e.breach(addressesStay, "release", "address %s is released, which Service %s has", ip, keyOf(s))
			}
		}
	}
}

// beforeAcquisition records for which Service a job acquires an address: the one whose record names the job.
func (e *explorer) beforeAcquisition(job string) {
	for _, s := range e.list() {
		if strings.Contains(s.Annotations[annotation.Allocation], job) {
			e.mu.Lock()
			e.jobs[job] = &acquisition{uid: s.UID, ask: e.lately(s.UID)}
			e.mu.Unlock()
		}
	}
}

// acquired looks up which addresses jobs have acquired, and checks that no Service got two for one request. The call
// for the job "answered", if any, has just been answered.
func (e *explorer) acquired(answered string) {
	e.mu.Lock()
	jobs := maps.Clone(e.jobs)
	e.mu.Unlock()
	there := map[string]string{}
	for _, a := range e.Objects().Addresses {
		if a.State == "Allocated" || a.State == "Allocating" {
			there[a.ID] = a.Address
		}
	}

	for job, a := range jobs {
		if a.id != "" {
			continue
		}
		answer, _ := e.ByAdmin("queryAsyncJobResult", "jobid", job)
		id, _ := answer["jobinstanceid"].(string)
		for _, earlier := range jobs {
			if id != "" && earlier.id == id {
				earlier.id = "the address was free again"
			}
		}
		if a.id = id; id == "" && job == answered {
			e.mu.Lock()
			delete(e.jobs, job) // CloudStack refused the call
			e.mu.Unlock()
		}
	}

	last := map[types.UID]*acquisition{}
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		a := jobs[job]
		if there[a.id] == "" || e.protects(a.id) {
			continue
		}
		e.mu.Lock()
		other := last[a.uid]
		twice := other != nil && other.id != a.id && e.sameWish(a.uid, other, a) && !e.taken[a.id] && !e.taken[other.id]
		e.mu.Unlock()
		if twice {
			e.breach(acquiredOnce, "", "%s and %s are acquired for Service %s", there[other.id], there[a.id],
				e.names[a.uid])
		}
		last[a.uid] = a
	}
}

// sameWish reports whether two acquisitions serve the same request of a Service. The caller holds e.mu.
func (e *explorer) sameWish(uid types.UID, a, b *acquisition) bool {
	asks, first, end := e.asks[uid], min(a.ask, b.ask), max(a.ask, b.ask)
	if end >= len(asks) {
		return false
	}
	return !slices.ContainsFunc(asks[first:], func(x ask) bool {
		return !x.wants || x.place != asks[first].place || x.named != asks[first].named
	})
}

func (e *explorer) afterCall(command string, form url.Values, res *http.Response, err error) {
	read := isRead(command)
	switch {
	case read:
	case err != nil:
		e.note("  = %s: %v", command, err)
	case res != nil && res.StatusCode != http.StatusOK:
		e.note("  = %s: %d %s", command, res.StatusCode, body(res))
		if id := form.Get("resourceids"); form.Get("tags[0].key") == plan.TagKeptBy && res.StatusCode == 531 {
			if e.unmarked[id] {
				e.disown(id) // the role may not tag, so the address is kept without the tag
			}
			e.unmarked[id] = true
		}
	}

	if command == "associateIpAddress" {
		e.acquired(form.Get("customjobid"))
	}

	if !read || command == "queryAsyncJobResult" || command == "listAsyncJobs" {
		e.watchAccess(command, false)
	}
}

// Access

// lbName returns the prefix of the names of a Service's rules.
func lbName(uid types.UID) string {
	name := "a" + strings.ReplaceAll(string(uid), "-", "")
	return name[:min(32, len(name))]
}

// openPort is a port on a router, with the sources that may connect to it.
type openPort struct {
	key     string    // address, protocol and port
	port    string    // protocol and port
	uid     types.UID // of the Service, from the rule's name
	sources []netip.Prefix
}

// openPorts returns the ports that are open on the routers, without those of others. The caller holds e.mu.
func (e *explorer) openPorts(router simulator.Router) (out []openPort) {
	owner := map[string]types.UID{}
	for uid := range e.names {
		owner[lbName(uid)] = uid
	}

	add := func(uid types.UID, address netip.Addr, protocol string, port int, sources []netip.Prefix, filtered bool,
		by []simulator.RouterFilter) {
		if address.String() == e.shownBy["default/second"] {
			return
		}
		if len(sources) == 0 {
			sources = everyone
		}
		if filtered {
			sources = annotation.Intersect(sources, letIn(by))
		}
		key := portKey(protocol, port)
		out = append(out, openPort{address.String() + " " + key, key, uid, annotation.Aggregate(sources)})
	}

	for _, r := range router.Rules {
		if e.protected[r.ID].what != "" {
			continue
		}
		filter := r.Filter
		if r.Internal && len(filter) > 0 {
			filter = filter[1:] // without the filter of the tier itself
		}
		name, _, _ := strings.Cut(r.Name, "-")
		add(owner[name], r.Address, "tcp", r.Port, prefixesOf(r.CIDRList), r.Filtered, filter)
	}

	for _, f := range router.Forwards {
		// An operator's forwarding is open before the explorer learns its ID. Ours lead to node ports.
		if e.protected[f.ID].what == "" && f.PrivatePort >= 30000 {
			add("", f.Address, f.Protocol, f.Port, f.Sources, f.Filtered, f.Filter)
		}
	}

	return out
}

// letIn returns the sources that a filter allows.
func letIn(filter []simulator.RouterFilter) (in []netip.Prefix) {
	for _, f := range filter {
		switch {
		case f.Allow:
			in = append(in, f.Sources...)
		case slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Bits() == 0 }):
			return in
		}
	}
	return in
}

// grace is how long after a change of a Service a call for its former version may still take effect.
const grace = 10 * time.Minute

// watchAccess checks that no port has sources that were neither allowed before the call nor are allowed now. A change
// by hand is not checked: the next calls are compared with it.
func (e *explorer) watchAccess(after string, byHand bool) {
	router := e.Router()
	e.mu.Lock()
	now := e.openPorts(router)
	was := e.open
	e.open = map[string][]netip.Prefix{}
	type wider struct {
		openPort
		allowed []netip.Prefix
	}

	var found []wider
	for _, o := range now {
		e.open[o.key] = annotation.Aggregate(append(slices.Clone(e.open[o.key]), o.sources...))
		may := annotation.Aggregate(append(slices.Clone(was[o.key]), e.mayEnter(o.uid, o.port)...))
		if !byHand && !within(may, o.sources) {
			found = append(found, wider{o, may})
		}
	}

	e.mu.Unlock()
	for _, w := range found {
		e.breach(accessNeverWidens, "", "after %s %s (%s) lets in %v; allowed are %v", after, w.key, e.names[w.uid],
			w.sources, w.allowed)
	}
}

// within reports whether all inner sources are in the outer ranges.
func within(outer, inner []netip.Prefix) bool {
	return annotation.Contain(annotation.Strings(annotation.Aggregate(outer)), annotation.Strings(inner))
}

// mayEnter returns the sources that the Service of a port allows now or allowed within grace. Without a Service, it
// returns those of all Services with that port. The caller holds e.mu.
func (e *explorer) mayEnter(uid types.UID, port string) (out []netip.Prefix) {
	for of, asks := range e.asks {
		if uid != "" && of != uid {
			continue
		}
		for _, a := range asks[e.applied(of, grace):] {
			if uid != "" || a.ports[port] {
				out = append(out, a.ranges...)
			}
		}
	}
	return out
}

// At the end

// settles lets time pass until a check finds nothing, but no longer than d, after which the check counts.
func (e *explorer) settles(d time.Duration, check func()) {
	const pause = 10 * time.Minute
	for ; d > 0; d -= pause {
		e.pass(pause)
		e.trial.runs.Store(true)
		check()
		e.trial.runs.Store(false)
		if !e.trial.fails.Swap(false) {
			return
		}
	}
	check()
}

// finish ends all faults, waits, and checks the promises for the end. It returns the Services as they were before it
// deleted them.
func (e *explorer) finish() (final []*corev1.Service) {
	e.note("--- the end")
	e.heal()
	_ = e.SetSpeed(1)
	if l := e.life; l != nil {
		l.DieAt(nil, 0, false)
		l.FailWrites("", 0)
		l.Resume()
	}
	e.pass(time.Until(e.backAt))
	if l := e.life; l != nil && l.Dead() {
		e.stopLife()
	}
	e.stopped, e.startAt = false, time.Now()
	e.settles(150*time.Minute, func() { e.settled("at the end") })

	final = e.list()
	for _, s := range final {
		if isReady(s) {
			e.ready++
		}
	}

	if e.ready < len(final) {
		e.pass(2 * time.Hour) // until the pauses between attempts are the longest
	}
	e.quietHour()
	if len(e.breaches) == 0 {
		e.stopLife()
		e.Ledger().Reset()
		e.pass(12 * time.Minute)
		// Only the former process waited for a job that never ends.
		if w := e.writes(); len(w) > 0 && !e.endless {
			e.breach(quiet, "after a restart", "%v", w)
		}
		e.settled("after a restart")
	}
	e.deleteAll()
	e.keepsSecrets()
	e.stopLife()
	return final
}

// writes returns the writing calls since the ledger was reset, without attempts to acquire an address.
func (e *explorer) writes() (out []string) {
	synctest.Wait()
	for _, c := range e.Ledger().Find("*", "ccm") {
		if !isRead(c.Command) &&
			c.Command != "associateIpAddress" &&
			(!e.noTags && !e.endless || c.Command != "createTags") {
			out = append(out, c.Command)
		}
	}
	return out
}

// quietHour checks that the controller makes almost no calls in an hour without changes.
func (e *explorer) quietHour() {
	e.Ledger().Reset()
	e.mu.Lock()
	e.said = nil
	e.mu.Unlock()
	e.pass(time.Hour)

	// The controller removes tags of deleted rules once an hour.
	if w := slices.DeleteFunc(e.writes(), func(c string) bool { return c == "deleteTags" }); len(w) > 0 {
		e.breach(quiet, w[0], "%s", strings.ReplaceAll(tally(w), "\n", ", "))
	}
	services, waiting, ports := e.list(), 0, 0
	for _, s := range services {
		ports += len(s.Spec.Ports)
		if !isReady(s) {
			waiting++
		}
	}
	var calls []string
	for _, c := range e.Ledger().Find("*", "ccm") {
		if c.Command != "listVirtualMachines" {
			calls = append(calls, c.Command)
		}
	}
	if most := 17*(14+3*len(services)+ports) + 60*waiting; len(calls) > most {
		e.breach(budget, "calls", "%d calls in an hour with %d Services, %d of them not ready, in place of %d: %s",
			len(calls), len(services), waiting, most, strings.ReplaceAll(tally(calls), "\n", ", "))
	}
	e.mu.Lock()
	said := slices.Clone(e.said)
	e.mu.Unlock()
	if most := 30 + 40*(waiting+1) + 20*len(services); len(said) > most {
		e.breach(budget, "Events", "%d Events in an hour: %s", len(said), tally(said))
	}
	e.plansNothing()
}

func readyCondition(s *corev1.Service) *metav1.Condition {
	return apimeta.FindStatusCondition(s.Status.Conditions, service.ConditionReady)
}

func isReady(s *corev1.Service) bool {
	return apimeta.IsStatusConditionTrue(s.Status.Conditions, service.ConditionReady)
}

// reconciled reports whether CloudStack has what a Service requests, according to the Service's condition.
func reconciled(s *corev1.Service) bool {
	c := readyCondition(s)
	switch {
	case c == nil:
		return false
	case c.Status == metav1.ConditionTrue, c.Reason == string(plan.ReasonNoHealthyNode),
		c.Reason == string(plan.ReasonDefaultACL):
		return true
	case c.Reason == string(plan.ReasonNoBackends):
		return !strings.Contains(c.Message, "left as it is") && !strings.Contains(c.Message, "is in zone")
	}
	return false
}

// contended reports whether a Service is refused because of what others have.
func contended(c *metav1.Condition) bool {
	if c == nil {
		return false
	}
	others := []plan.Reason{plan.ReasonPortTaken, plan.ReasonNotAllowed, plan.ReasonAddressUnavailable,
		plan.ReasonSourceRanges}
	return slices.Contains(others, plan.Reason(c.Reason)) ||
		slices.ContainsFunc([]string{"Maximum amount of resources", "Insufficient address capacity", "(code 532",
			"(code 535"}, func(text string) bool {
			return strings.Contains(c.Message, text)
		})
}

// plansNothing checks that csccm plan has no steps for Services that are ready.
func (e *explorer) plansNothing() {
	if e.life == nil {
		return
	}

	nodes, err := e.life.provider.nodeCache.list()
	if err != nil {
		return
	}

	o := e.life.provider.options
	o.ClusterID = "test"
	o.RegisterMetrics, o.WriteGate = nil, nil
	client := e.Client(e.keys[0], e.keys[1])
	previewer, err := NewPreviewer(e.t.Context(), &cloudstack.Config{LBMode: e.setup.config["lb-mode"]}, o, client,
		e.kube)
	require.NoError(e.t, err)
	for _, s := range e.list() {
		if !(service.Classes{}).Handles(s) || !isReady(s) {
			continue
		}
		p, err := previewer.Round(time.Time{}).Service(e.t.Context(), s, nodes)
		var steps []string
		for i := range p.Actions {
			if !e.noTags || !strings.HasPrefix(p.Actions[i].Kind, "tag-") { // it does not know that the role lacks tags
				steps = append(steps, p.Actions[i].Label())
			}
		}
		if err != nil || p.Refusal != nil || len(steps) > 0 {
			e.breach(planIsEmpty, "", "for Service %s, which is ready, it says %v %v %v", keyOf(s), steps, p.Refusal,
				err)
		}
	}
}

// deleteAll deletes all Services and checks that nothing of them is left.
func (e *explorer) deleteAll() {
	e.step++
	for _, s := range e.list() {
		e.deletesService(s)
	}
	e.settles(170*time.Minute, func() {
		for _, s := range e.list() {
			e.breach(nothingIsLeft, "Service", "%s does not go: %v, %v", keyOf(s), s.Finalizers, readyCondition(s))
		}
		if e.calls.Load() <= mostCalls {
			now := e.read()
			e.nothingLeft(now, nil)
			e.noTagsLeft(now)
			e.othersKeep(now)
		}
	})
}

// keepsSecrets searches the log, Events and Services for secrets.
func (e *explorer) keepsSecrets() {
	e.mu.Lock()
	text := e.texts.String()
	e.mu.Unlock()
	for _, s := range e.list() {
		text += fmt.Sprint(s.Annotations, s.Status)
	}
	klog.Flush()
	text = strings.ToLower(text + e.log.String())
	for _, secret := range e.secrets {
		if at := strings.Index(text, strings.ToLower(secret)); at >= 0 {
			e.breach(noSecretLeaves, "", "%.200q", text[max(0, at-100):min(len(text), at+100)])
		}
	}
}

// nothingLeft checks that everything in CloudStack belongs to others or to Services that want it.
func (e *explorer) nothingLeft(now reading, services []*corev1.Service) {
	living, unproven := map[string]bool{}, map[string]bool{} // UIDs, and beginnings of the names of rules
	for _, s := range services {
		if wantsOne(s) {
			living[string(s.UID)], living[lbName(s.UID)] = true, true
		}
	}

	e.mu.Lock()
	for uid := range e.vanished {
		unproven[lbName(uid)] = true
	}
	e.mu.Unlock()

	left := func(of, format string, v ...any) { e.breach(nothingIsLeft, of, format, v...) }
	for _, a := range now.addresses {
		users := slices.DeleteFunc(slices.Clone(services), func(s *corev1.Service) bool {
			uses := addressOf(s) == a.Address || strings.Contains(s.Annotations[annotation.Addresses], a.ID)
			return !wantsOne(s) || !uses
		})

		waited := e.endless && a.State == plan.StateAllocating && len(services) > 0
		if len(users) == 0 && !waited && !e.mayStay(a) {
			left("address", "address %s (%s, %v)", a.Address, a.State, a.tags())
		}
		reported := strings.Contains(e.texts.String(), "address "+a.ID+" ("+a.Address+") in CloudStack was created")
		if e.unproven(a) && a.Tags[plan.TagCluster] != "" && !reported {
			left("address without an Event", "address %s (%v)", a.Address, a.tags())
		}

		for _, r := range a.rules {
			if name, _, _ := strings.Cut(r.Name, "-"); !living[name] && !e.protects(r.ID) {
				left("rule", "rule %s on %s", r.Name, a.Address)
			}
		}

		for _, f := range a.forwards {
			if !e.protects(f.ID) && !hasPort(users, f.Protocol, f.StartPort) && !e.unproven(a) {
				left("forwarding", "forwarding %s %d on %s (%s)", f.Protocol, f.StartPort, a.Address,
					f.Tags[plan.TagService])
			}
		}

		e.firewallIsUsed(a, users)
	}

	for _, x := range now.acls {
		if _, uid, ours := plan.ACLOwner(x.Reason); ours && !living[uid] && !e.protects(x.ID) {
			left("ACL item", "ACL item %d of %s: %s", x.Number, x.ListName, x.Reason)
		}
	}

	for _, l := range now.internal {
		name, _, _ := strings.Cut(l.Name, "-")
		// Nothing proves whose it is if its Service vanished with its record.
		stays := unproven[name] && len(l.Tags) == 0
		if !living[name] && !stays && !e.protects(l.ID) {
			left("internal load balancer", "%s at %s", l.Name, l.Address)
		}
	}
}

// firewallIsUsed checks that the firewall rules of an address open only ports that a Service has.
func (e *explorer) firewallIsUsed(a *addressSnapshot, users []*corev1.Service) {
	for _, f := range a.firewall {
		if e.protects(f.ID) || e.raced[a.ID] || e.unowned(a) && e.disowned[f.ID] {
			continue
		}
		for port := f.StartPort; port <= f.EndPort; port++ {
			if !hasPort(users, f.Protocol, port) {
				text := "firewall rule %s %d-%d %v on %s: nobody has port %d (%s)"
				e.breach(nothingIsLeft, "firewall rule", text, f.Protocol, f.StartPort, f.EndPort, f.CIDRs, a.Address,
					port, f.Tags[plan.TagService])
				break
			}
		}
	}
}

// hasPort reports whether one of the Services has a port.
func hasPort(services []*corev1.Service, protocol string, port int) bool {
	return slices.ContainsFunc(services, func(s *corev1.Service) bool {
		return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			return strings.EqualFold(string(p.Protocol), protocol) && int(p.Port) == port
		})
	})
}

// mayStay reports whether an address may remain although no Service uses it.
func (e *explorer) mayStay(a *addressSnapshot) bool {
	if e.protects(a.ID) || e.protectedOn(a.ID) != "" || a.SourceNAT || a.Tags[plan.TagKeptBy] != "" {
		return true
	}
	if e.unproven(a) || e.unowned(a) {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.disowned[a.ID] || e.noTags && (e.visited[a.ID] || e.everKept()) {
		return true
	}
	for _, job := range e.jobs {
		if job.id == a.ID && e.vanished[job.uid] && a.Tags[plan.TagCluster] == "" {
			return true // the record was deleted with the Service before the address had tags
		}
	}
	return false
}

// unproven reports whether an address has port forwardings without a tag whose Service vanished with its record:
// nothing proves to whom they belong. They stay with their address, which the controller reports.
func (e *explorer) unproven(a *addressSnapshot) bool {
	untagged := slices.ContainsFunc(a.forwards, func(f cloudstack.PortForwarding) bool {
		return f.Tags[plan.TagService] == "" && !e.protects(f.ID)
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, job := range e.jobs {
		if e.vanished[job.uid] && job.id == a.ID {
			return untagged
		}
	}
	for uid := range e.vanished {
		if e.shown[uid].ip == a.Address {
			return untagged
		}
	}
	return false
}

// unowned reports whether an address has a firewall rule whose tags an operator has removed, in a history in which an
// owner has removed records: nothing may prove to whom it belongs.
func (e *explorer) unowned(a *addressSnapshot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	disowned := func(f cloudstack.FirewallRule) bool { return e.disowned[f.ID] }
	return len(e.forgotten) > 0 && slices.ContainsFunc(a.firewall, disowned)
}

// everKept reports whether a Service ever had keep-ip. The caller holds e.mu.
func (e *explorer) everKept() bool {
	for _, asks := range e.asks {
		if slices.ContainsFunc(asks, func(a ask) bool { return a.keep }) {
			return true
		}
	}
	return false
}

// noTagsLeft checks that no tag of the cluster is left after all Services are deleted.
func (e *explorer) noTagsLeft(now reading) {
	stays := map[string]bool{}
	for _, a := range now.addresses {
		stays[a.ID] = a.Tags[plan.TagKeptBy] != "" ||
			e.protectedOn(a.ID) != "" ||
			e.disowned[a.ID] ||
			e.unproven(a) ||
			e.unowned(a)
	}
	for _, t := range now.tags {
		if t.Key == plan.TagCluster && t.Value == "test" && !stays[t.ResourceID] {
			e.breach(nothingIsLeft, "tag", "%s %s has a tag of this cluster", t.ResourceType, t.ResourceID)
		}
	}
}

// settled checks each Service against what it requests.
func (e *explorer) settled(when string) {
	if e.calls.Load() > mostCalls {
		return
	}
	e.acquired("")
	services, now := e.list(), e.read()
	e.nothingLeft(now, services)
	for _, s := range services {
		e.serviceIsSettled(when, s, now)
	}
	e.tenantsUseTheirs(when, services, now)
}

func (e *explorer) serviceIsSettled(when string, s *corev1.Service, now reading) {
	key, c := keyOf(s), readyCondition(s)
	stuck := func(of, format string, v ...any) {
		e.breach(served, of, "%s Service %s %s", when, key, fmt.Sprintf(format, v...))
	}
	if s.DeletionTimestamp != nil {
		stuck("deletion", "does not go: %v, %v", s.Finalizers, c)
		return
	}

	records := s.Annotations[annotation.Addresses] + s.Annotations[annotation.Allocation]
	if !wantsOne(s) {
		ours := s.Spec.LoadBalancerClass == nil && (servicehelpers.HasLBFinalizer(s) || addressOf(s) != "")
		if ours || records != "" {
			stuck("removal", "wants no load balancer, and has %v %s %s", s.Finalizers, addressOf(s), records)
		}
		return
	}

	switch {
	case c == nil:
		stuck("nothing", "was never worked on")
		return
	case reconciled(s):
		e.isServedAsAsked(when, s, now)
	case e.endless && c.Reason == string(service.Waiting):
	case c.Reason == string(service.CloudStackError), c.Reason == string(service.Waiting):
		if !contended(c) {
			stuck(c.Reason, "is not served: %s", c.Message)
		}
	default:
		e.formerPortsAreClosed(when, s, now)
	}

	if s.Annotations[annotation.Allocation] != "" && !contended(c) && !e.endless {
		stuck("acquisition", "has a pending acquisition: %s", s.Annotations[annotation.Allocation])
	}
}

// formerPortsAreClosed checks that a refused Service has no rule for a port that it no longer has.
func (e *explorer) formerPortsAreClosed(when string, s *corev1.Service, now reading) {
	for _, a := range now.addresses {
		for _, r := range a.rules {
			has := slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
				return int(p.Port) == r.PublicPort && int(p.NodePort) == r.PrivatePort
			})
			if strings.HasPrefix(r.Name, lbName(s.UID)) && !has && !e.noTags {
				text := "%s Service %s, which is refused (%s), has rule %s to node port %d, which is not its " +
					"port any more"
				e.breach(nothingIsLeft, "former port", text, when, keyOf(s), readyCondition(s).Reason, r.Name,
					r.PrivatePort)
			}
		}
	}
}

// tenantsUseTheirs checks that Services use addresses of other namespaces only if a Service there shared them when they
// came, and that no namespace has more addresses than it may have.
func (e *explorer) tenantsUseTheirs(when string, services []*corev1.Service, now reading) {
	held := map[string]map[string]bool{}
	for _, s := range services {
		ip := addressOf(s)
		if !wantsOne(s) || ip == "" || !isReady(s) {
			continue
		}

		if held[s.Namespace] == nil {
			held[s.Namespace] = map[string]bool{}
		}

		held[s.Namespace][ip] = true
		if isDenied(e.setup.tenancy, s.Namespace, ip) {
			e.breach(tenantsAreApart, "foreign address", "%s Service %s uses %s, which its namespace may not", when,
				keyOf(s), ip)
		}

		for _, other := range services {
			both := addressOf(other) == ip && wantsOne(other) && isReady(other) && other.UID < s.UID
			if both && e.shown[other.UID].host != e.shown[s.UID].host && !e.disowned[e.addressID(ip)] {
				e.breach(tenantsAreApart, "address", "%s Services %s and %s use %s, which nobody shares", when,
					keyOf(s), keyOf(other), ip)
			}
		}
	}

	mostHeld := map[string]int{"limits": 2, "tenants": 3}[e.setup.tenancy]
	for namespace, ips := range held {
		if mostHeld > 0 && len(ips) > mostHeld && !isExempt(e.setup.tenancy, namespace) {
			e.breach(tenantsAreApart, "limit", "%s namespace %s has %d addresses", when, namespace, len(ips))
		}
	}

	kept := map[string]int{}
	for _, a := range now.addresses {
		if namespace, _, ok := strings.Cut(a.Tags[plan.TagKeptBy], "/"); ok {
			kept[namespace]++
		}
	}

	mostKept := map[string]int{"default": 2, "limits": 1, "tenants": 1}[e.setup.tenancy]
	for namespace, n := range kept {
		if mostKept > 0 && n > mostKept && !isExempt(e.setup.tenancy, namespace) {
			e.breach(tenantsAreApart, "kept", "%s %d addresses are kept for namespace %s", when, n, namespace)
		}
	}
}

// isExempt reports whether a policy of exploredPolicies trusts a namespace.
func isExempt(tenancy, namespace string) bool { return tenancy == "tenants" && namespace == "blog" }

// isDenied reports whether a policy of exploredPolicies denies a namespace a source NAT address, or an address with
// rules or forwardings of others. Every namespace may use an address without such objects.
func isDenied(tenancy, namespace, ip string) bool {
	foreign := []string{foreignIP, forwardedIP, wideFirewallIP, otherLeasewebIP}
	switch tenancy {
	case "default":
		return ip == sourceNAT || slices.Contains(foreign, ip)
	case "tenants":
		return ip == sourceNAT && namespace == "default" || slices.Contains(foreign, ip) && namespace == "shop"
	}
	return false
}

// A fresh world

// compareWith creates the final objects in a fresh world with a fresh controller, and checks that Services get the same
// there.
func (e *explorer) compareWith(fresh *explorer, final []*corev1.Service) {
	if err := fresh.becomeLike(e); err != nil {
		e.breach(harness, "fresh world", "%v", err)
		return
	}

	for _, s := range final {
		if s.DeletionTimestamp != nil {
			continue
		}
		c := s.DeepCopy()
		c.Finalizers, c.ResourceVersion, c.Status = nil, "", corev1.ServiceStatus{}
		delete(c.Annotations, annotation.Addresses)
		delete(c.Annotations, annotation.Allocation)
		if ip := addressOf(s); ip != "" && namedAddress(s) == "" && wantsOne(s) && reconciled(s) {
			at(ip)(c)
		}
		_, err := fresh.kube.CoreV1().Services(c.Namespace).Create(e.t.Context(), c, metav1.CreateOptions{})
		require.NoError(e.t, err)
		fresh.asked(c)
	}

	fresh.start()
	fresh.trial = e.trial
	fresh.settles(50*time.Minute, func() {
		for _, was := range final {
			is := fresh.find(keyOf(was))
			if wantsOne(was) && is != nil {
				e.compareServices(was, is)
			}
		}
		fresh.settled("in a fresh world")
	})
	fresh.stopLife()
	for _, b := range fresh.breaches {
		e.breach(likeFresh, b.kind, "%s", b.text)
	}
}

func (e *explorer) compareServices(was, is *corev1.Service) {
	a, b := readyCondition(was), readyCondition(is)
	if a == nil || b == nil {
		e.breach(likeFresh, "nothing", "Service %s has condition %v, and in a fresh world %v", keyOf(was), a, b)
		return
	}
	same := reconciled(was) == reconciled(is)
	switch {
	case same && (reconciled(was) || a.Reason == b.Reason):
	case contended(a), contended(b), e.endless && a.Reason == string(service.Waiting):
	case a.Reason == b.Reason && a.Reason == string(plan.ReasonNoBackends):
	case b.Reason == string(plan.ReasonNoNodes), a.Reason == string(plan.ReasonProjectChanged):
		// In the first world, the address determines the network and the project.
	default:
		e.breach(likeFresh, a.Reason+", "+b.Reason, "Service %s is %s, and in a fresh world %s (%s)", keyOf(was),
			a.Message, b.Reason, b.Message)
	}
}

// becomeLike makes the nodes, endpoints and VMs of a fresh world the same as those of another world at its end.
func (e *explorer) becomeLike(other *explorer) (err error) {
	ctx := e.t.Context()
	for _, n := range e.setup.nodes {
		err = errors.Join(err, e.kube.CoreV1().Nodes().Delete(ctx, n, metav1.DeleteOptions{}))
	}

	for _, vm := range e.Objects().VMs {
		was := other.machine(vm.Name)
		var herr error
		switch {
		case was == nil:
			_, herr = e.ByAdmin("destroyVirtualMachine", "id", vm.ID, "expunge", "true")
		case was.State == "Stopped":
			_, herr = e.ByAdmin("stopVirtualMachine", "id", vm.ID, "forced", "true")
		}
		err = errors.Join(err, herr)
	}

	nodes, lerr := other.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	err = errors.Join(err, lerr)
	for i := range nodes.Items {
		n := nodes.Items[i].DeepCopy()
		n.ResourceVersion = ""
		if vm := other.machine(n.Name); vm != nil && isVMOf(n, vm) {
			n.Spec.ProviderID = "" // the VM of this name has another id here
		} else if n.Spec.ProviderID != "" {
			n.Spec.ProviderID = "external-cloudstack://00000000-0000-4000-8000-00000000dead"
		}
		_, cerr := e.kube.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		err = errors.Join(err, cerr)
	}

	endpoints, lerr := other.kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	err = errors.Join(err, lerr)
	for i := range endpoints.Items {
		s := endpoints.Items[i].DeepCopy()
		s.ResourceVersion = ""
		_, cerr := e.kube.DiscoveryV1().EndpointSlices(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
		err = errors.Join(err, cerr)
	}

	for _, n := range other.Objects().Networks {
		for _, own := range e.Objects().Networks {
			if e.vpc && own.Name == n.Name && own.ACL != n.ACL {
				err = errors.Join(err, e.replaceACLList(n.Name, n.ACL))
			}
		}
	}

	return err
}
