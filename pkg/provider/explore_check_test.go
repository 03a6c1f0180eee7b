// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// What users ask for

func annotated(s *corev1.Service, name string) string {
	return strings.TrimSpace(s.Annotations[annotation.Prefix+name])
}

func yes(s *corev1.Service, name string) bool {
	b, _ := annotation.Bool(annotated(s, name))
	return b
}

func wantsOne(s *corev1.Service) bool {
	return s.DeletionTimestamp == nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
}

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

// rangesAsked are the sources that a Service lets in.
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
	if a := annotated(s, "address"); a != "" {
		return a
	}
	return strings.TrimSpace(s.Spec.LoadBalancerIP)
}

// asked notes what a user asks for.
func (e *explorer) asked(s *corev1.Service) {
	a := ask{at: time.Now(), wants: wantsOne(s), ranges: rangesAsked(s), ports: map[string]bool{}, named: namedAddress(s), keep: yes(s, "keep-ip")}
	for _, p := range s.Spec.Ports {
		a.ports[portKey(string(p.Protocol), int(p.Port))] = true
	}
	a.place = fmt.Sprint(yes(s, "internal"), annotated(s, "network"), annotated(s, "project"))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asks[s.UID] = append(e.asks[s.UID], a)
}

// changedPlace reports whether the owner has asked, since an ask, for something that may move or remove the address. e.mu is held.
func (e *explorer) changedPlace(uid types.UID, since int, ip string) bool {
	asks := e.asks[uid]
	if since < 0 || since >= len(asks) {
		return true
	}
	for i := since; i < len(asks); i++ {
		if !asks[i].wants || asks[i].place != asks[since].place || asks[i].named != "" && asks[i].named != ip {
			return true
		}
	}
	return e.forgotten[uid] && e.noTags
}

// sawService is called when the controller has written a Service.
func (e *explorer) sawService(s *corev1.Service) {
	ip := addressOf(s)
	e.mu.Lock()
	was := e.shown[s.UID]
	if ip == was.ip {
		e.mu.Unlock()
		return
	}
	e.shown[s.UID] = shown{ip, len(e.asks[s.UID]) - 1}
	moved := was.ip == "" || e.changedPlace(s.UID, was.ask, was.ip) || e.takenIP(was.ip)
	e.mu.Unlock()
	e.note("Service %s/%s shows %q in place of %q", s.Namespace, s.Name, ip, was.ip)
	if !moved {
		e.report("address-changed", "Service %s/%s showed %s and now %q, which nobody asked for", s.Namespace, s.Name, was.ip, ip)
	}
}

// takenIP reports whether an address was taken away by hand. e.mu is held.
func (e *explorer) takenIP(ip string) bool {
	return e.taken[ip]
}

// nodeDeleted is called before the controller deletes a Node.
func (e *explorer) nodeDeleted(name string) {
	if e.byTest.Load() {
		return
	}
	n, err := e.kube.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return
	}
	for _, vm := range e.Objects().VMs {
		gone := slices.Contains([]string{"Destroyed", "Expunging", "Error"}, vm.State)
		if !gone && (n.Spec.ProviderID == "" && vm.Name == name || strings.HasSuffix(n.Spec.ProviderID, vm.ID)) {
			e.report("node-deleted", "Node %s is deleted, and its VM %s is %s", name, vm.ID, vm.State)
		}
	}
	e.note("Node %s is deleted", name)
}

// Calls to CloudStack

func targets(form url.Values) (ids []string) {
	for k, v := range form {
		switch strings.ToLower(k) {
		case "id", "lbruleid", "resourceids", "ids":
			for _, x := range v {
				ids = append(ids, strings.Split(x, ",")...)
			}
		}
	}
	return ids
}

func (e *explorer) beforeCall(l *life, command string, form url.Values) {
	if !slices.Contains(RequiredCommands, command) {
		e.report("privilege", "%s is not among the commands that the role needs", command)
	}
	if isRead(command) {
		return
	}
	if l.fenced.Load() {
		e.report("fence", "%s is sent by a replica that does not lead", command)
	}
	e.note("call %d %s %s", l.n, command, short(form))
	for _, id := range targets(form) {
		e.mu.Lock()
		g, ok := e.protected[id]
		e.mu.Unlock()
		if ok {
			e.report("foreign:"+command, "%s works on %s, which belongs to somebody else", command, g.what)
		}
	}
	if command == "disassociateIpAddress" {
		e.beforeRelease(form.Get("id"))
	}
}

func (e *explorer) beforeRelease(id string) {
	ip := ""
	for _, a := range e.Objects().Addresses {
		if a.ID == id {
			ip = a.Address
		}
	}
	list, err := e.kube.CoreV1().Services(metav1.NamespaceAll).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return
	}
	if on := e.guardedThings(id); on != "" {
		e.report("released-with-foreign", "address %s is released, with %s on it", ip, on)
	}
	e.mu.Lock()
	keeper := e.kept[id]
	e.mu.Unlock()
	if keeper != "" {
		e.report("kept-released", "address %s is released, which %s kept", ip, keeper)
	}
	for i := range list.Items {
		s := &list.Items[i]
		if !wantsOne(s) || addressOf(s) != ip || ip == "" {
			continue
		}
		e.mu.Lock()
		moved := e.changedPlace(s.UID, e.shown[s.UID].ask, ip) || e.takenIP(ip)
		e.mu.Unlock()
		if !moved {
			e.report("released-in-use", "address %s is released, which Service %s/%s has", ip, s.Namespace, s.Name)
		}
	}
}

// guardedThings are things of others on an address; empty for none.
func (e *explorer) guardedThings(address string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, g := range e.protected {
		if g.on == address && id != address {
			return g.what
		}
	}
	return ""
}

func (e *explorer) afterCall(_ *life, command string, form url.Values, res *http.Response, err error) {
	switch command {
	case "associateIpAddress":
		e.afterAcquisition(form, res)
	case "disassociateIpAddress":
		e.mu.Lock()
		delete(e.known, form.Get("id"))
		e.mu.Unlock()
	}
	if !isRead(command) || command == "queryAsyncJobResult" || command == "listAsyncJobs" {
		if !isRead(command) {
			switch {
			case err != nil:
				e.note("  = %s: %v", command, err)
			case res != nil && res.StatusCode != http.StatusOK:
				e.note("  = %s: %d %s", command, res.StatusCode, body(res))
			}
		}
		e.watchAccess(command)
	}
}

// afterAcquisition notes for whom an address was acquired.
func (e *explorer) afterAcquisition(form url.Values, res *http.Response) {
	job := form.Get("customjobid")
	var answer struct {
		Inner struct {
			ID string `json:"id"`
		} `json:"associateipaddressresponse"`
	}
	if res != nil && res.StatusCode != http.StatusOK {
		return
	}
	_ = json.Unmarshal(body(res), &answer)
	if answer.Inner.ID == "" {
		return // the answer is lost: whose address a new one is cannot be told
	}
	list, err := e.kube.CoreV1().Services(metav1.NamespaceAll).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return
	}
	var of *corev1.Service
	for i := range list.Items {
		if strings.Contains(list.Items[i].Annotations[annotation.Allocation], job) {
			of = &list.Items[i]
		}
	}
	objects := e.Objects()
	e.mu.Lock()
	var fresh []simulator.AddressInfo
	there := map[string]bool{}
	for _, a := range objects.Addresses {
		there[a.ID] = a.State == "Allocated" || a.State == "Allocating"
		if there[a.ID] && !e.known[a.ID] && (answer.Inner.ID == "" || answer.Inner.ID == a.ID) {
			fresh = append(fresh, a)
			e.known[a.ID] = true
		}
	}
	e.mu.Unlock()
	for _, a := range fresh {
		if of == nil {
			continue // it is gone by now
		}
		e.mu.Lock()
		last := len(e.asks[of.UID]) - 1
		place := ""
		if last >= 0 {
			place = e.asks[of.UID][last].place + " " + e.asks[of.UID][last].named
		}
		var before []string
		for _, x := range e.acquired[of.UID] {
			if there[x.id] && x.id != a.ID && !e.taken[x.id] && e.known[x.id] && x.place == place && !e.leftSince(of.UID, x.ask) {
				before = append(before, x.id)
			}
		}
		e.acquired[of.UID] = append(e.acquired[of.UID], acquisition{a.ID, place, last})
		e.mu.Unlock()
		if len(before) > 0 {
			e.report("acquired-twice", "address %s is acquired for Service %s/%s, which has acquired %v", a.Address, of.Namespace, of.Name, e.ips(before))
		}
	}
}

// leftSince reports whether the Service did not want a load balancer at some time since. e.mu is held.
func (e *explorer) leftSince(uid types.UID, since int) bool {
	asks := e.asks[uid]
	for i := max(0, since); i < len(asks); i++ {
		if !asks[i].wants {
			return true
		}
	}
	return false
}

func (e *explorer) ips(ids []string) (out []string) {
	for _, a := range e.Objects().Addresses {
		if slices.Contains(ids, a.ID) {
			out = append(out, a.Address+" "+a.State)
		}
	}
	return out
}

// Who gets in

// lbName is the beginning of the names of a Service's rules.
func lbName(uid types.UID) string {
	name := "a" + strings.ReplaceAll(string(uid), "-", "")
	return name[:min(32, len(name))]
}

// openPort is who gets in to a port.
type openPort struct {
	uid      types.UID // of its Service, by the rule's name
	address  string
	protocol string
	port     int
	sources  []netip.Prefix
	internal bool
}

// openPorts are the ports on the routers that are not of others, by a key.
func (e *explorer) openPorts() map[string]openPort {
	router := e.Router()
	e.mu.Lock()
	defer e.mu.Unlock()
	owner := map[string]types.UID{}
	for uid := range e.names {
		owner[lbName(uid)] = uid
	}
	out := map[string]openPort{}
	allowed := func(filter []simulator.RouterFilter, skip int) (in []netip.Prefix) {
		for i, f := range filter {
			if i < skip {
				continue
			}
			if !f.Allow {
				if slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
					break
				}
				continue
			}
			in = append(in, f.Sources...)
		}
		return in
	}
	for _, r := range router.Rules {
		if _, foreign := e.protected[r.ID]; foreign {
			continue
		}
		name, _, _ := strings.Cut(r.Name, "-")
		sources := prefixesOf(r.CIDRList)
		if len(sources) == 0 {
			sources = everyone
		}
		if r.Filtered {
			skip := 0
			if r.Internal {
				skip = 1 // the tier itself
			}
			sources = annotation.Intersect(sources, allowed(r.Filter, skip))
		}
		out["rule "+r.ID] = openPort{owner[name], r.Address.String(), "tcp", r.Port, annotation.Aggregate(sources), r.Internal}
	}
	for _, f := range router.Forwards {
		if _, foreign := e.protected[f.ID]; foreign {
			continue
		}
		sources := f.Sources
		if len(sources) == 0 {
			sources = everyone
		}
		if f.Filtered {
			sources = annotation.Intersect(sources, allowed(f.Filter, 0))
		}
		out["forward "+f.ID] = openPort{"", f.Address.String(), f.Protocol, f.Port, annotation.Aggregate(sources), false}
	}
	return out
}

// grace is how long after a change of the sources a call of before may still take effect.
const grace = 10 * time.Minute

// watchAccess compares who gets in with who got in before and who may.
func (e *explorer) watchAccess(command string) {
	now := e.openPorts()
	e.mu.Lock()
	before := e.open
	e.open = map[string][]netip.Prefix{}
	// By address and port: a rule that is replaced has another id.
	was := map[string][]netip.Prefix{}
	for key, sources := range before {
		was[key] = sources
	}
	type bad struct {
		o       openPort
		allowed []netip.Prefix
		shared  bool
	}
	var found []bad
	for _, o := range now {
		key := fmt.Sprintf("%s %s", o.address, portKey(o.protocol, o.port))
		e.open[key] = annotation.Aggregate(append(slices.Clone(e.open[key]), o.sources...))
	}
	for _, o := range now {
		key := fmt.Sprintf("%s %s", o.address, portKey(o.protocol, o.port))
		may := annotation.Aggregate(append(slices.Clone(was[key]), e.mayEnter(o)...))
		if !within(may, o.sources) {
			// Of an internal load balancer the network ACL list is the only filter, and it knows ports alone.
			anybody := o
			anybody.uid = ""
			shared := o.internal && within(annotation.Aggregate(append(slices.Clone(may), e.mayEnter(anybody)...)), o.sources)
			found = append(found, bad{o, may, shared})
		}
	}
	e.mu.Unlock()
	for _, b := range found {
		e.mu.Lock()
		name := e.names[b.o.uid]
		e.mu.Unlock()
		kind := "access-wider"
		if b.shared {
			kind = "access-shared-acl"
		}
		e.report(kind, "after %s port %s of %s (%s) lets in %v; allowed are %v", command, portKey(b.o.protocol, b.o.port), b.o.address, name, b.o.sources, b.allowed)
	}
}

// within reports whether all inner sources are among the outer ones.
func within(outer, inner []netip.Prefix) bool {
	return annotation.Contain(annotation.Strings(outer), annotation.Strings(inner))
}

// mayEnter are the sources that the Services of a port let in, now or some minutes ago. e.mu is held.
func (e *explorer) mayEnter(o openPort) (out []netip.Prefix) {
	for uid, asks := range e.asks {
		if o.uid != "" && uid != o.uid {
			continue
		}
		for i, a := range asks {
			until := time.Now()
			if i+1 < len(asks) {
				until = asks[i+1].at
			}
			if time.Since(until) <= grace && (o.uid != "" || a.ports[portKey(o.protocol, o.port)]) {
				out = append(out, a.ranges...)
			}
		}
	}
	return out
}

// At the end

// finish stops all faults, waits, and checks what must be true then.
func (e *explorer) finish() (final []*corev1.Service) {
	e.note("--- the end")
	if l := e.life; l != nil {
		l.mu.Lock()
		l.kill = killPlan{}
		l.mu.Unlock()
	}
	e.heal()
	_ = e.SetSpeed(1)
	e.kubeMu.Lock()
	e.kubeLeft = 0
	e.kubeMu.Unlock()
	e.fresh()
	if l := e.life; l != nil {
		l.mu.Lock()
		l.kill = killPlan{}
		l.mu.Unlock()
	}
	e.auto, e.startAt = true, time.Now()
	if left := time.Until(e.away); left > 0 {
		e.pause(left)
	}
	if e.life != nil && !e.life.dead.Load() {
		e.pause(150 * time.Minute)
	} else {
		e.startAt = time.Now()
		if e.life != nil {
			e.stopLife()
		}
		e.pause(150 * time.Minute)
	}
	final = e.list()
	e.settled("at the end")
	e.quiet()
	if len(e.bad) == 0 {
		e.stopLife()
		e.Ledger().Reset()
		e.pause(12 * time.Minute)
		if w := e.writes(); len(w) > 0 {
			e.report("restart-writes:"+w[0], "a controller that starts anew does %v", w)
		}
		e.settled("after a restart")
	}
	e.deleteAll()
	e.noSecrets()
	e.stopLife()
	return final
}

// writes are the calls since the ledger was reset that change something, but for attempts to acquire an address.
func (e *explorer) writes() (out []string) {
	synctest.Wait()
	for _, c := range e.Ledger().Find("*", "ccm") {
		if !isRead(c.Command) && c.Command != "associateIpAddress" && !(e.noTags && c.Command == "createTags") {
			out = append(out, c.Command)
		}
	}
	return out
}

// quiet checks what is done in an hour in which nothing happens.
func (e *explorer) quiet() {
	e.pause(0)
	e.Ledger().Reset()
	e.mu.Lock()
	e.said = nil
	e.mu.Unlock()
	e.pause(time.Hour)
	if w := e.writes(); len(w) > 0 {
		w2 := slices.DeleteFunc(w, func(c string) bool { return c == "deleteTags" }) // the hourly sweep
		if len(w2) > 0 {
			e.report("hot:"+w2[0], "in a quiet hour %s", strings.ReplaceAll(tally(w2), "\n", ", "))
		}
	}
	n := 0
	for _, c := range e.Ledger().Find("*", "ccm") {
		if c.Command != "listVirtualMachines" {
			n++
		}
	}
	services, waiting := 0, 0
	for _, s := range e.list() {
		services++
		if !isReady(s) {
			waiting++
		}
	}
	budget := 17*(14+3*services) + 60*waiting
	if n > budget {
		var names []string
		for _, c := range e.Ledger().Find("*", "ccm") {
			names = append(names, c.Command)
		}
		e.report("budget", "%d calls in a quiet hour with %d Services, %d of them not ready (budget %d): %s", n, services, waiting, budget, strings.ReplaceAll(tally(names), "\n", ", "))
	}
	e.mu.Lock()
	events := len(e.said)
	said := slices.Clone(e.said)
	e.mu.Unlock()
	if most := 30 + 40*(waiting+1) + 20*services; events > most {
		e.report("events", "%d Events in a quiet hour: %.600s", events, tally(said))
	}
	e.previews()
}

func readyCondition(s *corev1.Service) *metav1.Condition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == service.ConditionReady {
			return &s.Status.Conditions[i]
		}
	}
	return nil
}

func isReady(s *corev1.Service) bool {
	c := readyCondition(s)
	return c != nil && c.Status == metav1.ConditionTrue
}

// reconciled reports whether what a Service asks for is in CloudStack, by its condition.
func reconciled(s *corev1.Service) bool {
	c := readyCondition(s)
	switch {
	case c == nil:
		return false
	case c.Status == metav1.ConditionTrue:
		return true
	}
	unserved := c.Reason == string(plan.ReasonNoBackends) && !strings.Contains(c.Message, "left as it is") && !strings.Contains(c.Message, "is in zone") ||
		c.Reason == string(plan.ReasonNoHealthyNode) || c.Reason == string(plan.ReasonDefaultACL)
	return unserved
}

// contended reports whether a Service is refused for what others have.
func contended(c *metav1.Condition) bool {
	if c == nil {
		return false
	}
	switch plan.Reason(c.Reason) {
	case plan.ReasonPortTaken, plan.ReasonNotAllowed, plan.ReasonAddressUnavailable, plan.ReasonSourceRanges:
		return true
	}
	return strings.Contains(c.Message, "Maximum amount of resources") || strings.Contains(c.Message, "Insufficient address capacity") || strings.Contains(c.Message, "(code 532") || strings.Contains(c.Message, "(code 535")
}

// previews checks that csccm plan has nothing to say of Services that are ready.
func (e *explorer) previews() {
	if e.life == nil {
		return
	}
	nodes, err := e.life.p.nodes()
	if err != nil {
		return
	}
	o := e.life.p.options
	o.ClusterID = "test"
	o.RegisterMetrics, o.WriteGate = nil, nil
	client := e.Client(e.keys[0], e.keys[1])
	previewer, err := NewPreviewer(e.t.Context(), &cloudstack.Config{LBMode: e.mode}, o, client, e.kube)
	if err != nil {
		e.report("harness", "previewer: %v", err)
		return
	}
	for _, s := range e.list() {
		if !service.Handles(s) || !isReady(s) || s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			continue // of policy Local a Previewer starts an informer that never ends
		}
		p, err := previewer.Round(time.Time{}).Service(e.t.Context(), s, nodes)
		var steps []string
		for i := range p.Actions {
			if !e.noTags || !strings.HasPrefix(p.Actions[i].Kind, "tag-") { // that the role may not tag is learned
				steps = append(steps, p.Actions[i].Label())
			}
		}
		if err != nil || p.Refusal != nil || len(steps) > 0 {
			kind := "preview"
			if len(steps) > 0 {
				kind += ":" + strings.Join(strings.Fields(steps[0])[:2], "-")
			}
			e.report(kind, "csccm plan for Service %s/%s, which is ready, says %v %v %v", s.Namespace, s.Name, steps, p.Refusal, err)
		}
	}
}

// deleteAll deletes all Services, and checks that nothing of them is left.
func (e *explorer) deleteAll() {
	e.step++
	for _, s := range e.list() {
		e.deletesService(s.Namespace + "/" + s.Name)
	}
	e.pause(170 * time.Minute)
	for _, s := range e.list() {
		e.report("finalizer", "Service %s/%s does not go: %v, %v", s.Namespace, s.Name, s.Finalizers, readyCondition(s))
	}
	if e.calls.Load() > mostCalls {
		return
	}
	now := e.snap()
	e.nothingLeft(now, nil)
	e.othersStay(now)
}

// noteKept notes the address of a Service that goes and keeps it, where that is beyond doubt.
func (e *explorer) noteKept(s *corev1.Service) {
	ip := addressOf(s)
	if !yes(s, "keep-ip") || e.noTags || yes(s, "internal") || !wantsOne(s) || !isReady(s) || ip == "" || !slices.Contains(e.h.world, "tenancy=all") {
		return
	}
	for _, other := range e.list() {
		if other.UID != s.UID && addressOf(other) == ip {
			return
		}
	}
	id := e.addressID(ip)
	e.mu.Lock()
	defer e.mu.Unlock()
	asks := e.asks[s.UID]
	if id == "" || len(asks) == 0 || time.Since(asks[len(asks)-1].at) < 20*time.Minute || e.taken[id] || e.forgotten[s.UID] {
		return
	}
	e.kept[id] = s.Namespace + "/" + s.Name
}

// othersStay checks that what belongs to others is as it was.
func (e *explorer) othersStay(now snap) {
	lines := now.lines()
	e.mu.Lock()
	protected := maps.Clone(e.protected)
	e.mu.Unlock()
	for id, g := range protected {
		is, there := lines[id]
		switch {
		case !there:
			e.report("foreign-gone", "%s of others is gone", g.what)
		case is.line != g.line:
			e.report("foreign-changed", "%s of others was %q, and is %q", g.what, g.line, is.line)
		}
	}
}

// nothingLeft checks that everything in CloudStack belongs to others or to living Services.
func (e *explorer) nothingLeft(now snap, services []*corev1.Service) {
	living := map[types.UID]*corev1.Service{}
	byLB := map[string]*corev1.Service{}
	for _, s := range services {
		if wantsOne(s) {
			living[s.UID] = s
			byLB[lbName(s.UID)] = s
		}
	}
	guarded := func(id string) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, ok := e.protected[id]
		return ok
	}
	uses := func(a *addressSnapshot) (users []*corev1.Service) {
		for _, s := range living {
			if addressOf(s) == a.Address || strings.Contains(s.Annotations[annotation.Addresses], a.ID) {
				users = append(users, s)
			}
		}
		return users
	}
	has := func(users []*corev1.Service, protocol string, port int) bool {
		return slices.ContainsFunc(users, func(s *corev1.Service) bool {
			return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
				return strings.EqualFold(string(p.Protocol), protocol) && int(p.Port) == port
			})
		})
	}
	for _, a := range now.addresses {
		users := uses(a)
		if !guarded(a.ID) && len(users) == 0 && e.guardedThings(a.ID) == "" && a.Tags[plan.TagKeptBy] == "" && !a.SourceNAT {
			e.mu.Lock()
			disowned := e.disowned[a.ID]
			e.mu.Unlock()
			if keeps := e.noTags && (e.everKept(a.ID) || e.visited[a.ID]); !keeps && !disowned && !e.excused(a.ID, services) {
				e.report("leak:address", "address %s (%s, %v) is nobody's", a.Address, a.State, a.tags())
			}
		}
		for i := range a.rules {
			r := &a.rules[i]
			name, _, _ := strings.Cut(r.Name, "-")
			if !guarded(r.ID) && byLB[name] == nil {
				e.report("leak:rule", "rule %s on %s is nobody's", r.Name, a.Address)
			}
		}
		for i := range a.firewall {
			f := &a.firewall[i]
			if guarded(f.ID) {
				continue
			}
			for port := f.StartPort; port <= f.EndPort; port++ {
				if !has(users, f.Protocol, port) {
					e.report("leak:firewall", "firewall rule %s %d-%d %v on %s: port %d is nobody's (%v)", f.Protocol, f.StartPort, f.EndPort, f.CIDRs, a.Address, port, f.Tags[plan.TagService])
					break
				}
			}
		}
		for i := range a.forwards {
			f := &a.forwards[i]
			if !guarded(f.ID) && !has(users, f.Protocol, f.StartPort) {
				e.report("leak:forward", "forwarding %s %d on %s is nobody's (%v)", f.Protocol, f.StartPort, a.Address, f.Tags[plan.TagService])
			}
		}
	}
	for i := range now.acls {
		x := &now.acls[i]
		if _, uid, ours := plan.ACLOwner(x.Reason); ours && !guarded(x.ID) && living[types.UID(uid)] == nil {
			e.report("leak:acl", "ACL item %d of %s is nobody's: %s", x.Number, x.ListName, x.Reason)
		}
	}
	for i := range now.internal {
		l := &now.internal[i]
		name, _, _ := strings.Cut(l.Name, "-")
		if !guarded(l.ID) && byLB[name] == nil {
			e.report("leak:internal", "internal load balancer %s at %s is nobody's", l.Name, l.Address)
		}
	}
	if services != nil {
		return // tags of deleted rules are swept once an hour
	}
	addresses := map[string]*addressSnapshot{}
	for _, a := range now.addresses {
		addresses[a.ID] = a
	}
	for _, t := range now.tags {
		if t.Key != plan.TagCluster || t.Value != "test" {
			continue
		}
		if a := addresses[t.ResourceID]; a != nil && (a.Tags[plan.TagKeptBy] != "" || e.guardedThings(a.ID) != "") {
			continue
		}
		e.report("leak:tag", "%s %s has a tag of this cluster", t.ResourceType, t.ResourceID)
	}
}

// excused reports whether a known weakness explains that an address is nobody's.
func (e *explorer) excused(id string, services []*corev1.Service) bool {
	if !e.masks {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, list := range e.acquired {
		if !slices.ContainsFunc(list, func(a acquisition) bool { return a.id == id }) {
			continue
		}
		if e.vanished[uid] {
			return true // known: it vanished before the address had its tags, while nobody led
		}
	}
	return false
}

func (e *explorer) everKept(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, asks := range e.asks {
		if slices.ContainsFunc(asks, func(a ask) bool { return a.keep }) {
			return true
		}
	}
	return false
}

// noSecrets looks for secrets in what the controller has said.
func (e *explorer) noSecrets() {
	e.mu.Lock()
	text := e.saidAll.String()
	e.mu.Unlock()
	for _, s := range e.list() {
		text += fmt.Sprint(s.Annotations, s.Status)
	}
	text += e.log.take()
	for _, secret := range e.secrets {
		if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
			at := strings.Index(strings.ToLower(text), strings.ToLower(secret))
			e.report("secret", "%q is in what was said: %.200q", secret, text[max(0, at-100):min(len(text), at+100)])
		}
	}
}

// settled checks each Service against what it asks for.
func (e *explorer) settled(when string) {
	if e.calls.Load() > mostCalls {
		return
	}
	services := e.list()
	now := e.snap()
	e.nothingLeft(now, append([]*corev1.Service{}, services...))
	for _, s := range services {
		key := s.Namespace + "/" + s.Name
		c := readyCondition(s)
		switch {
		case s.DeletionTimestamp != nil:
			e.report("finalizer", "%s Service %s does not go: %v, %v", when, key, s.Finalizers, c)
		case !wantsOne(s):
			if s.Spec.LoadBalancerClass == nil && hasFinalizer(s) {
				e.report("stuck:finalizer", "%s Service %s of type %s has the finalizer", when, key, s.Spec.Type)
			}
			if addressOf(s) != "" && s.Spec.LoadBalancerClass == nil {
				e.report("stuck:status", "%s Service %s of type %s shows %s", when, key, s.Spec.Type, addressOf(s))
			}
			if s.Annotations[annotation.Addresses]+s.Annotations[annotation.Allocation] != "" {
				e.report("stuck:records", "%s Service %s of type %s class %v has records: %s", when, key, s.Spec.Type, ptr.Deref(s.Spec.LoadBalancerClass, ""), s.Annotations[annotation.Addresses])
			}
		case c == nil:
			e.report("stuck:nothing", "%s Service %s was never worked on", when, key)
		case reconciled(s):
			e.exact(when, s, now)
		case c.Reason == string(service.CloudStackError) || c.Reason == string(service.Waiting):
			if !contended(c) {
				e.report("stuck:"+c.Reason, "%s Service %s is not served: %s", when, key, c.Message)
			}
		}
		if refusal := c != nil && wantsOne(s) && !reconciled(s) && c.Reason != string(service.CloudStackError) && c.Reason != string(service.Waiting) && !e.noTags; refusal {
			for _, a := range now.addresses {
				for i := range a.rules {
					r := &a.rules[i]
					name, _, _ := strings.Cut(r.Name, "-")
					has := slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
						return int(p.Port) == r.PublicPort && int(p.NodePort) == r.PrivatePort
					})
					if name == lbName(s.UID) && !has {
						e.report("former-port", "%s Service %s, which is refused (%s), has rule %s to node port %d, which is not its port any more", when, key, c.Reason, r.Name, r.PrivatePort)
					}
				}
			}
		}
		if wantsOne(s) && s.Annotations[annotation.Allocation] != "" && !contended(c) {
			e.report("stuck:allocation", "%s Service %s has a pending acquisition: %s", when, key, s.Annotations[annotation.Allocation])
		}
	}
}

// model is what a Service that is reconciled has, by an independent reading of its spec.
type model struct {
	ranges   []netip.Prefix
	rules    map[int]string // port -> what the rule is
	forwards map[string]int // protocol/port -> node port
	members  []string
	internal bool
	deny     bool
}

// modelOf reads a Service. It is written without the product's code on purpose.
func (e *explorer) modelOf(s *corev1.Service) model {
	m := model{ranges: rangesAsked(s), rules: map[int]string{}, forwards: map[string]int{}, internal: yes(s, "internal")}
	m.deny = len(m.ranges) == 0
	mode := annotated(s, "mode")
	if mode == "" {
		mode = e.mode
	}
	algorithm := annotated(s, "algorithm")
	if algorithm == "" {
		if algorithm = "roundrobin"; s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
			algorithm = "source"
		}
	}
	udp := map[int32]bool{}
	for _, p := range s.Spec.Ports {
		if p.Protocol == corev1.ProtocolUDP {
			udp[p.Port] = true
		}
	}
	proxy := annotated(s, "proxy-protocol")
	for _, p := range s.Spec.Ports {
		forwarded := mode == "direct" || (mode == "" || mode == "auto") && !m.internal && udp[p.Port]
		if forwarded {
			m.forwards[portKey(string(p.Protocol), int(p.Port))] = int(p.NodePort)
			continue
		}
		protocol := "tcp"
		if all, _ := annotation.Bool(proxy); all || proxy == fmt.Sprint(p.Port) {
			protocol = "tcp-proxy"
		}
		m.rules[int(p.Port)] = fmt.Sprintf("->%d %s %s", p.NodePort, protocol, algorithm)
	}
	m.members = e.membersOf(s)
	if m.deny && (e.vpc || m.internal) {
		m.members = nil
	}
	return m
}

// membersOf are the names of the VMs that serve a Service.
func (e *explorer) membersOf(s *corev1.Service) []string {
	nodes, err := e.kube.CoreV1().Nodes().List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	network, owner := map[string]string{"net": "k8s-net", "vpc": "tier", "project": "k8s-net"}[e.place], "k8s"
	if n := annotated(s, "network"); n != "" {
		network = n
	}
	if annotated(s, "project") == "dev" {
		owner, network = "dev", "project-net"
	}
	objects := e.Objects()
	netID := e.networkID(network)
	selector := labels.Everything()
	if v := annotated(s, "node-selector"); v != "" {
		selector, _ = labels.Parse(v)
	}
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	with := e.nodesWithEndpoints(s)
	var out []string
	for i := range nodes.Items {
		n := &nodes.Items[i]
		excluded := n.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] == "true" || tainted(n, "ToBeDeletedByClusterAutoscaler")
		if excluded || !selector.Matches(labels.Set(n.Labels)) || local && !with[n.Name] {
			continue
		}
		for _, vm := range objects.VMs {
			gone := slices.Contains([]string{"Destroyed", "Expunging"}, vm.State)
			mine := strings.HasSuffix(n.Spec.ProviderID, vm.ID) && n.Spec.ProviderID != "" || n.Spec.ProviderID == "" && vm.Name == n.Name
			in := slices.ContainsFunc(vm.NICs, func(c simulator.NICInfo) bool { return c.Network == netID })
			if !gone && mine && in && vm.Owner == owner {
				out = append(out, vm.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (e *explorer) nodesWithEndpoints(s *corev1.Service) map[string]bool {
	ready, ending := map[string]bool{}, map[string]bool{}
	list, err := e.kube.DiscoveryV1().EndpointSlices(s.Namespace).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if list.Items[i].Name != s.Name+"-1" {
			continue
		}
		for _, x := range list.Items[i].Endpoints {
			if ptr.Deref(x.Conditions.Ready, true) {
				ready[ptr.Deref(x.NodeName, "")] = true
			} else if ptr.Deref(x.Conditions.Terminating, false) {
				ending[ptr.Deref(x.NodeName, "")] = true
			}
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return ending
}

// exact compares what CloudStack has of a Service that is reconciled with what it asks for.
func (e *explorer) exact(when string, s *corev1.Service, now snap) {
	key := s.Namespace + "/" + s.Name
	m := e.modelOf(s)
	wrong := func(what, format string, v ...any) {
		e.report("wrong:"+what, "%s Service %s: %s", when, key, fmt.Sprintf(format, v...))
	}
	ip := addressOf(s)
	if ip == "" {
		wrong("status", "it is ready and shows no address")
		return
	}
	if named := namedAddress(s); named != "" && named != ip {
		wrong("address", "it names %s and shows %s", named, ip)
	}
	if !hasFinalizer(s) {
		wrong("finalizer", "it has none")
	}
	if len(s.Status.LoadBalancer.Ingress) != 1 || len(s.Status.LoadBalancer.Ingress[0].Ports) != len(s.Spec.Ports) {
		wrong("status", "its status is %v", s.Status.LoadBalancer)
	} else {
		in := s.Status.LoadBalancer.Ingress[0]
		if h := annotated(s, "hostname"); in.Hostname != h {
			wrong("status", "it shows host name %q", in.Hostname)
		}
		if all, isBool := annotation.Bool(annotated(s, "proxy-protocol")); in.IPMode != nil {
			any := all || !isBool && annotated(s, "proxy-protocol") != ""
			if (*in.IPMode == corev1.LoadBalancerIPModeProxy) != any {
				wrong("status", "it shows mode %s", *in.IPMode)
			}
		}
	}
	lb := lbName(s.UID)
	rules := map[int]string{}
	var sticky []string
	if m.internal {
		for i := range now.internal {
			l := &now.internal[i]
			if name, _, _ := strings.Cut(l.Name, "-"); name == lb {
				if l.Address != ip {
					wrong("address", "rule of port %d is at %s, the status shows %s", l.Port, l.Address, ip)
				}
				rules[l.Port] = fmt.Sprintf("->%d tcp %s %v", l.InstancePort, l.Algorithm, e.routed()[l.ID])
			}
		}
	} else {
		var a *addressSnapshot
		for _, x := range now.addresses {
			if x.Address == ip {
				a = x
				continue
			}
			for i := range x.rules {
				if name, _, _ := strings.Cut(x.rules[i].Name, "-"); name == lb {
					wrong("address", "it shows %s and has rule %s on %s", ip, x.rules[i].Name, x.Address)
				}
			}
		}
		if a == nil {
			wrong("address", "it shows %s, which is not there", ip)
			return
		}
		for i := range a.rules {
			r := &a.rules[i]
			if name, _, _ := strings.Cut(r.Name, "-"); name != lb {
				continue
			}
			members := append([]string{}, a.members[r.ID]...)
			protocol := r.Protocol
			if protocol == "" {
				protocol = "tcp"
			}
			rules[r.PublicPort] = fmt.Sprintf("->%d %s %s %v", r.PrivatePort, protocol, r.Algorithm, members)
			unlisted := e.masks && len(r.CIDRs) == 0 && !e.vpc // known: a rule that was made while nobody was let in gets no list
			if !m.deny && !unlisted && !annotation.SameRanges(r.CIDRs, annotation.Strings(m.ranges)) {
				wrong("cidrs", "rule of port %d lets in %v in place of %v", r.PublicPort, r.CIDRs, m.ranges)
			}
			policies, err := e.inspect.ListStickinessPolicies(e.t.Context(), r.ID)
			if err == nil {
				var have string
				for _, p := range policies {
					have += p.Method + p.Params["expire"]
				}
				want := map[string]string{"source": "SourceBased", "lb-cookie": "LbCookie"}[annotated(s, "stickiness")]
				if o := annotated(s, "stickiness-options"); strings.HasPrefix(o, "expire=") && want == "SourceBased" {
					want += strings.TrimPrefix(o, "expire=")
				}
				if have != want && !(want == "SourceBased" && strings.HasPrefix(have, want)) {
					sticky = append(sticky, fmt.Sprintf("port %d has stickiness %q, wanted %q", r.PublicPort, have, want))
				}
			}
		}
		e.exactForwards(s, m, a, wrong)
		if !e.vpc || a.VPCID == "" {
			e.exactFirewall(s, m, a, wrong)
		}
	}
	if len(sticky) > 0 {
		wrong("sticky", "%v", sticky)
	}
	want := map[int]string{}
	for port, text := range m.rules {
		want[port] = fmt.Sprintf("%s %v", text, append([]string{}, m.members...))
	}
	for port, text := range want {
		if rules[port] != text {
			wrong("rule", "port %d: %q in place of %q", port, rules[port], text)
		}
	}
	for port := range rules {
		if want[port] == "" {
			wrong("rule", "port %d has a rule: %s", port, rules[port])
		}
	}
	if !m.internal {
		for i := range now.internal {
			if name, _, _ := strings.Cut(now.internal[i].Name, "-"); name == lb {
				wrong("internal", "it is not internal and has %s at %s", now.internal[i].Name, now.internal[i].Address)
			}
		}
	} else {
		for _, x := range now.addresses {
			for i := range x.rules {
				if name, _, _ := strings.Cut(x.rules[i].Name, "-"); name == lb {
					wrong("internal", "it is internal and has rule %s on %s", x.rules[i].Name, x.Address)
				}
			}
		}
	}
	e.exactACL(s, m, now, wrong)
}

type wrongFunc func(what, format string, v ...any)

func (e *explorer) exactForwards(s *corev1.Service, m model, a *addressSnapshot, wrong wrongFunc) {
	have := map[string][]cloudstack.PortForwarding{}
	for i := range a.forwards {
		f := a.forwards[i]
		e.mu.Lock()
		_, foreign := e.protected[f.ID]
		e.mu.Unlock()
		tag := f.Tags[plan.TagServiceUID]
		k := portKey(f.Protocol, f.StartPort)
		_, wanted := m.forwards[k]
		if foreign || tag != "" && tag != string(s.UID) || tag == "" && !wanted {
			continue
		}
		have[k] = append(have[k], f)
	}
	for k, nodePort := range m.forwards {
		list := have[k]
		if len(m.members) == 0 {
			if len(list) > 0 {
				wrong("forward", "port %s is forwarded, and nobody serves", k)
			}
			continue
		}
		if len(list) == 0 {
			wrong("forward", "port %s is not forwarded", k)
			continue
		}
		var sources []netip.Prefix
		for _, f := range list {
			if f.PrivatePort != nodePort {
				wrong("forward", "port %s leads to port %d in place of %d", k, f.PrivatePort, nodePort)
			}
			if !slices.Contains(m.members, f.VMName) {
				wrong("forward", "port %s leads to %s, which is none of %v", k, f.VMName, m.members)
			}
			sources = append(sources, prefixesOf(strings.Join(f.CIDRs, ","))...)
		}
		if a.VPCID == "" {
			if len(list) != 1 {
				wrong("forward", "port %s is forwarded %d times", k, len(list))
			}
		} else if !annotation.SameRanges(annotation.Strings(sources), annotation.Strings(m.ranges)) {
			wrong("forward", "port %s lets in %v in place of %v", k, sources, m.ranges)
		}
	}
	for k := range have {
		if _, ok := m.forwards[k]; !ok {
			wrong("forward", "port %s is forwarded", k)
		}
	}
}

func (e *explorer) exactFirewall(s *corev1.Service, m model, a *addressSnapshot, wrong wrongFunc) {
	for _, p := range s.Spec.Ports {
		var sources []netip.Prefix
		for i := range a.firewall {
			f := &a.firewall[i]
			if strings.EqualFold(f.Protocol, string(p.Protocol)) && f.StartPort <= int(p.Port) && int(p.Port) <= f.EndPort {
				sources = append(sources, prefixesOf(strings.Join(f.CIDRs, ","))...)
			}
		}
		if !annotation.SameRanges(annotation.Strings(sources), annotation.Strings(m.ranges)) {
			wrong("firewall", "port %d/%s lets in %v in place of %v", p.Port, p.Protocol, annotation.Aggregate(sources), m.ranges)
		}
	}
}

func (e *explorer) exactACL(s *corev1.Service, m model, now snap, wrong wrongFunc) {
	if !e.vpc {
		return
	}
	tier := "tier"
	if n := annotated(s, "network"); n != "" {
		tier = n
	}
	list := ""
	for _, n := range e.Objects().Networks {
		if n.Name == tier {
			list = n.ACL
		}
	}
	ports := map[string]bool{}
	for port := range m.rules {
		ports[portKey("tcp", port)] = true
	}
	for k, nodePort := range m.forwards {
		protocol, _, _ := strings.Cut(k, "/")
		ports[portKey(protocol, nodePort)] = true
	}
	have := map[string][]netip.Prefix{}
	for i := range now.acls {
		x := &now.acls[i]
		_, uid, ours := plan.ACLOwner(x.Reason)
		e.mu.Lock()
		_, foreign := e.protected[x.ID]
		e.mu.Unlock()
		if !ours || uid != string(s.UID) || foreign {
			continue
		}
		if x.ListName != list {
			wrong("acl", "item %d of list %s, and the tier has %s", x.Number, x.ListName, list)
			continue
		}
		for port := x.StartPort; port <= x.EndPort; port++ {
			k := portKey(x.Protocol, port)
			have[k] = append(have[k], prefixesOf(strings.Join(x.CIDRs, ","))...)
		}
	}
	if strings.HasPrefix(list, "default_") {
		return
	}
	for k := range ports {
		if !annotation.SameRanges(annotation.Strings(have[k]), annotation.Strings(m.ranges)) {
			wrong("acl", "port %s lets in %v in place of %v", k, annotation.Aggregate(have[k]), m.ranges)
		}
	}
	for k := range have {
		if !ports[k] {
			wrong("acl", "port %s is let in", k)
		}
	}
}

// A fresh world

// compare plays the final objects in a fresh world with a fresh controller, and compares what Services get.
func (e *explorer) compare(fresh *explorer, final []*corev1.Service) {
	for _, s := range final {
		if s.DeletionTimestamp != nil {
			continue
		}
		c := s.DeepCopy()
		c.Finalizers, c.ResourceVersion = nil, ""
		c.Status = corev1.ServiceStatus{}
		for _, name := range []string{annotation.Addresses, annotation.Allocation} {
			delete(c.Annotations, name)
		}
		if ip := addressOf(s); ip != "" && namedAddress(s) == "" && wantsOne(s) && reconciled(s) {
			if c.Annotations == nil {
				c.Annotations = map[string]string{}
			}
			c.Annotations[annotation.Address] = ip
		}
		_, err := fresh.kube.CoreV1().Services(c.Namespace).Create(e.t.Context(), c, metav1.CreateOptions{})
		if err != nil {
			e.report("harness", "fresh: %v", err)
			return
		}
		fresh.names[c.UID] = c.Namespace + "/" + c.Name
		fresh.asked(c)
	}
	fresh.start()
	fresh.pause(45 * time.Minute)
	for _, was := range final {
		if was.DeletionTimestamp != nil || !wantsOne(was) {
			continue
		}
		key := was.Namespace + "/" + was.Name
		is := fresh.find(key)
		if is == nil {
			continue
		}
		a, b := readyCondition(was), readyCondition(is)
		switch {
		case a == nil || b == nil:
			e.report("order:nothing", "Service %s has condition %v, and in a fresh world %v", key, a, b)
		case reconciled(was) && reconciled(is):
		case contended(a) || contended(b):
		case b.Reason == string(plan.ReasonNoNodes), a.Reason == string(plan.ReasonProjectChanged): // there an address tells the network, and the project
		case a.Reason == b.Reason && !reconciled(was) == !reconciled(is), a.Reason == b.Reason && a.Reason == string(plan.ReasonNoBackends):
		case reconciled(was) != reconciled(is) || a.Reason != b.Reason:
			e.report("order:"+a.Reason+"/"+b.Reason, "Service %s is %s (%s), and in a fresh world %s (%s)", key, a.Reason, a.Message, b.Reason, b.Message)
		}
	}
	fresh.settled("in a fresh world")
	fresh.stopLife()
	for _, b := range fresh.bad {
		e.report("fresh/"+b.kind, "%s", b.text)
	}
}

// likeEnd makes the nodes, endpoints and VMs of a fresh world those of another one at its end.
func (e *explorer) likeEnd(of *explorer) error {
	ctx := e.t.Context()
	nodes, err := e.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		err = errors.Join(err, e.kube.CoreV1().Nodes().Delete(ctx, nodes.Items[i].Name, metav1.DeleteOptions{}))
	}
	there := map[string]string{}
	for _, vm := range of.Objects().VMs {
		if !slices.Contains([]string{"Destroyed", "Expunging", "Error"}, vm.State) {
			there[vm.Name] = vm.State
		}
	}
	for _, vm := range e.Objects().VMs {
		switch there[vm.Name] {
		case "":
			_, herr := e.hand("destroyVirtualMachine", "id", vm.ID, "expunge", "true")
			err = errors.Join(err, herr)
		case "Stopped":
			_, herr := e.hand("stopVirtualMachine", "id", vm.ID, "forced", "true")
			err = errors.Join(err, herr)
		}
	}
	ids := map[string]bool{}
	for _, vm := range of.Objects().VMs {
		ids[vm.ID] = !slices.Contains([]string{"Destroyed", "Expunging", "Error"}, vm.State)
	}
	nodes, lerr := of.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	err = errors.Join(err, lerr)
	for i := range nodes.Items {
		n := nodes.Items[i].DeepCopy()
		n.ResourceVersion = ""
		if at := strings.LastIndexByte(n.Spec.ProviderID, '/'); at >= 0 && ids[n.Spec.ProviderID[at+1:]] {
			n.Spec.ProviderID = "" // the VM of this name has another id here
		} else if n.Spec.ProviderID != "" {
			n.Spec.ProviderID = "external-cloudstack://00000000-0000-4000-8000-00000000dead"
		}
		_, cerr := e.kube.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		err = errors.Join(err, cerr)
	}
	endpoints, lerr := of.kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	err = errors.Join(err, lerr)
	for i := range endpoints.Items {
		s := endpoints.Items[i].DeepCopy()
		s.ResourceVersion = ""
		_, cerr := e.kube.DiscoveryV1().EndpointSlices(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
		err = errors.Join(err, cerr)
	}
	if e.place == "vpc" {
		for _, n := range of.Objects().Networks {
			for _, own := range e.Objects().Networks {
				if own.Name == n.Name && own.ACL != n.ACL {
					e.aclList(n.Name, n.ACL)
				}
			}
		}
	}
	return err
}
