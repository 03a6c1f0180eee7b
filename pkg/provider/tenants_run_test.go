// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// tenantRun is an environment with victims, an attacker and objects of others. It also has the state that the checks
// compare with.
type tenantRun struct {
	*serviceEnv
	now     snapshot
	foreign guarded                 // addresses of operators and other clusters
	victims guarded                 // addresses of the namespaces victim and friend
	idle    guarded                 // idle addresses of the account
	used    map[string]map[int]bool // ports that got load balancer rules, by the ID of the address
	jobs    []string                // IDs of the jobs that acquired addresses for the controller
	records []string                // values that the controller has written into its annotations
	found   []violation
	theirs  []corev1.Service // the attacker's Services after an action
	syncs   int              // of the attacker's Services, without an error
	kept    string
	returns int // how often the victim's Service at byHandIP was created again
}

// byHandIP is an idle address that a victim uses and that the controller did not acquire. The victim once shared the
// address with guest, a Service of the attacker that never changes.
const (
	byHandIP = secondIdleIP
	guest    = attackerNS + "/guest"
)

func newTenantRun(t *testing.T, guard missingGuard, noTags bool) *tenantRun {
	t.Helper()
	r := &tenantRun{used: map[string]map[int]bool{}}
	options := []envOption{func(env *serviceEnv, _ *string) {
		env.deps = func(d *service.Deps) { guard.apply(env, d) }
	}}
	if noTags {
		options = append(options, withoutTags)
	}

	r.serviceEnv = newTenantEnv(t, options...)
	r.create("victim/web", []int{80, 443}, ranges("10.0.0.0/8"))
	r.create("victim/shared", []int{80}, annotate(shareWith, friendNS))

	// This Service is older than the one whose address it shares.
	r.create(guest, []int{25}, ofType(corev1.ServiceTypeClusterIP))
	r.create("victim/byhand", []int{80}, at(byHandIP), annotate(shareWith, attackerNS))
	r.create("victim/kept", []int{80}, annotate(annotation.KeepIP, "true"))
	for _, key := range []string{"victim/web", "victim/shared", "victim/byhand", "victim/kept"} {
		r.mustSync(key)
	}

	r.create("friend/mail", []int{25}, at(r.ip("victim/shared")))
	r.mustSync("friend/mail")
	r.edit(guest, at(byHandIP), ofType(corev1.ServiceTypeLoadBalancer))
	r.mustSync(guest)
	r.edit("victim/byhand", unset(shareWith))
	r.mustSync("victim/byhand")
	r.now = r.snapshot()
	r.foreign, r.idle, r.victims = guarded{}, guarded{}, guarded{}
	for id, a := range r.now {
		switch {
		case slices.Contains([]string{idleIP, openedIP}, a.Address):
			r.idle[id] = a.contents()
		case !r.ofVictims(a):
			r.foreign[id] = a.lines()
		}
	}

	r.guardVictims()
	r.harvest()
	r.settle()
	return r
}

// ofVictims reports whether a Service of the victim or its friend shows an address, or whether the address is kept for
// one of them.
func (r *tenantRun) ofVictims(a *addressSnapshot) bool {
	if a.Address == byHandIP || strings.HasPrefix(a.Tags[plan.TagService], victimNS+"/") || r.victims[a.ID] != nil {
		return true
	}
	return slices.ContainsFunc(r.list(victimNS), func(s corev1.Service) bool {
		return len(s.Status.LoadBalancer.Ingress) > 0 && s.Status.LoadBalancer.Ingress[0].IP == a.Address
	})
}

// guardVictims records the present objects of the victims, which must not change.
func (r *tenantRun) guardVictims() {
	next := guarded{}
	for id, a := range r.now {
		if r.foreign[id] == nil && r.ofVictims(a) {
			next[id] = a.lines()
		}
	}
	r.victims = next
}

func (r *tenantRun) list(namespace string) []corev1.Service {
	r.t.Helper()
	list, err := r.kube.CoreV1().Services(namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// harvest collects what an attacker could copy: job ids and records.
func (r *tenantRun) harvest() {
	for _, c := range r.Ledger().Find("associateIpAddress", "ccm") {
		if c.JobID != "" {
			r.jobs = append(r.jobs, c.JobID)
		}
	}

	for _, namespace := range []string{victimNS, friendNS, attackerNS} {
		for _, s := range r.list(namespace) {
			for _, name := range []string{annotation.Addresses, annotation.Allocation} {
				if v := s.Annotations[name]; strings.Contains(v, `"mac"`) && !slices.Contains(r.records, v) ||
					v != "" && len(r.records) < 8 {
					r.records = append(r.records, v)
				}
			}
		}
	}

	if n := len(r.records); n > 16 {
		r.records = slices.Delete(r.records, 4, 4+n-16) // the first ones are the victims'
	}
}

// settle discards the Events and calls of a step.
func (r *tenantRun) settle() {
	r.events()
	r.reset()
	r.kube.ClearActions()
}

func (r *tenantRun) violate(kind, format string, args ...any) {
	r.found = append(r.found, violation{kind, fmt.Sprintf(format, args...)})
}

// step performs one action and checks the state afterwards.
func (r *tenantRun) step(a action) []violation {
	r.found = nil
	a.do(r)
	calls := r.Ledger().Find("*", "ccm")
	written := false
	for i := range calls {
		c := &calls[i]
		switch {
		case isRead(c.Command):
			continue
		case c.Command == "createLoadBalancerRule" && c.ErrorCode == 0:
			r.note(c.Params["publicipid"], c.Params["publicport"], a.byOperator)
		case c.Command == "createLBStickinessPolicy":
			r.judgeStickiness(c.Params)
		}
		written = true
	}

	r.harvest()
	r.theirs = r.list(attackerNS)
	if written {
		r.now = r.snapshot()
	}

	r.found = append(r.found, judge(r.now, r.foreign, r.used, "foreign address")...)
	r.judgeRules()
	if a.byVictim {
		r.guardVictims()
	} else {
		r.found = append(r.found, judge(r.now, r.victims, nil, "victim's address")...)
	}

	r.found = append(r.found, judgeIdle(r.now, r.idle, r.used)...)
	if a.synced != "" {
		r.judgeSynced(a.synced)
	}

	r.judgeLeft()
	r.settle()
	return r.found
}

// note records that a port of an address got a load balancer rule. From then on, the firewall rule of the port may be
// replaced. On addresses that others use, note records only the ports of operators.
func (r *tenantRun) note(id, port string, byOperator bool) {
	if r.idle[id] == nil && !byOperator {
		return
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.used[id] == nil {
		r.used[id] = map[int]bool{}
	}
	r.used[id][n] = true
}

// judgeRules checks that the attacker has no rules on addresses that others use.
func (r *tenantRun) judgeRules() {
	for id, a := range r.now {
		if r.foreign[id] == nil && r.victims[id] == nil {
			continue
		}
		for i := range a.rules {
			if r.uidOf(a.rules[i].Name) != "" {
				r.violate("attacker's rule", "%s on %s", a.rules[i].Name, a.Address)
			}
		}
	}
}

// judgeSynced checks a victim's Service after its own sync.
func (r *tenantRun) judgeSynced(key string) {
	if strings.HasPrefix(key, victimNS+"/") && r.find(key) != nil {
		svc := r.get(key)
		r.found = append(r.found,
			judgeService(r.now, svc, r.nodes, r.noTags || svc.Annotations[annotation.Address] != "")...)
	}
}

// judgeStickiness checks that no stickiness option could break the router's configuration.
func (r *tenantRun) judgeStickiness(params map[string]string) {
	if strings.EqualFold(params["methodname"], annotation.AppCookie) {
		r.violate("router", "app-cookie")
	}
	for name, value := range params {
		if strings.HasPrefix(name, "param[") &&
			strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
			r.violate("router", "%s=%q", name, value)
		}
	}
}

// judgeAttacker checks a Service of the attacker that was served.
func (r *tenantRun) judgeAttacker(svc *corev1.Service) {
	r.syncs++
	for _, name := range []string{annotation.Network, annotation.Zone, annotation.Project, annotation.SSLCertificate} {
		if _, set := svc.Annotations[name]; set {
			r.violate("denied annotation", "%s is served with %s", svc.Name, name)
		}
	}
	if len(svc.Spec.Ports) > 100 {
		r.violate("too many ports", "%s is served with %d", svc.Name, len(svc.Spec.Ports))
	}
}

// judgeLeft checks that no namespace has more addresses than its Services and its limit of kept addresses allow.
func (r *tenantRun) judgeLeft() {
	if r.noTags {
		return // an attacker who overwrites its records loses its own addresses
	}

	living := map[string]bool{}
	for _, s := range slices.Concat(r.theirs, r.list(trustedNS)) {
		living[string(s.UID)] = true
	}

	held, kept := map[string]int{}, 0
	for _, id := range slices.Sorted(maps.Keys(r.now)) {
		a := r.now[id]
		if r.foreign[id] != nil || r.victims[id] != nil || r.idle[id] != nil {
			continue
		}
		if uid := a.Tags[plan.TagServiceUID]; living[uid] {
			held[uid]++
			continue
		}
		if !slices.ContainsFunc(a.rules, func(rule cloudstack.LoadBalancerRule) bool {
			return living[r.uidOf(rule.Name)]
		}) {
			kept++
		}
	}

	if kept > keptPerNamespace {
		r.violate("kept addresses", "%d addresses have no Service", kept)
	}

	for uid, n := range held {
		if n > 2 { // a Service that moves has two for a while
			r.violate("hoarded addresses", "Service %s holds %d addresses", uid, n)
		}
	}
}

// uidOf returns the UID of the attacker's Service to which a load balancer rule belongs by its name. It returns "" for
// the rule of guest, which is allowed on its address.
func (r *tenantRun) uidOf(rule string) string {
	for i := range r.theirs {
		if s := &r.theirs[i]; s.Namespace+"/"+s.Name != guest &&
			strings.HasPrefix(rule, cloudprovider.DefaultLoadBalancerName(s)+"-") {
			return string(s.UID)
		}
	}
	return ""
}

// violation is a state that a tenant must not cause.
type violation struct{ kind, text string }

func (v violation) String() string { return v.kind + ": " + v.text }

// guarded is what an attacker may not change: description lines by ID of the address.
type guarded map[string][]string

// judge compares a snapshot with the state that must not change. Addresses with used ports may have additional objects,
// and the firewall rules of these ports may be replaced.
func judge(now snapshot, protected guarded, used map[string]map[int]bool, what string) []violation {
	var out []violation
	for _, id := range slices.Sorted(maps.Keys(protected)) {
		a := now[id]
		var lines []string
		if a != nil {
			lines = a.lines()
		}

		diff := changes(protected[id], lines)
		if len(used[id]) > 0 {
			diff = slices.DeleteFunc(grep(diff, "- "),
				func(line string) bool { return governs(line[len("- "):], used[id]) })
		}

		if len(diff) > 0 {
			kind := what + " changed"
			switch {
			case a == nil:
				kind = what + " released"
			case len(changes(protected[id][:len(protected[id])-1], lines[:len(lines)-1])) == 0:
				kind = what + " tagged"
			}
			out = append(out, violation{kind, strings.Join(diff, "; ")})
		}
	}

	return out
}

// governs reports whether a line is a firewall rule that opens only these ports.
func governs(line string, ports map[int]bool) bool {
	var id, protocol string
	var first, last int
	if n, err := fmt.Sscanf(line, "firewall %s %s %d-%d", &id, &protocol, &first, &last); n != 4 || err != nil {
		return false
	}
	for port := first; port <= last; port++ {
		if !ports[port] {
			return false
		}
	}
	return true
}

// judgeIdle checks the account's idle addresses, on which tenants may have rules.
func judgeIdle(now snapshot, idle guarded, used map[string]map[int]bool) []violation {
	var out []violation
	for _, id := range slices.Sorted(maps.Keys(idle)) {
		a := now[id]
		if a == nil {
			out = append(out, violation{"idle address released", id})
			continue
		}
		if a.Tags[plan.TagAllocatedBy] != "" {
			out = append(out, violation{"idle address tagged as acquired", a.Address})
		}
		contents := a.contents()
		for _, line := range idle[id] {
			if !slices.Contains(contents, line) && !governs(line, used[id]) {
				out = append(out, violation{"operator's firewall rule changed", a.Address + " " + line})
			}
		}
	}

	return out
}

// judgeService compares the address of a Service that was just synced with the Service itself.
func judgeService(now snapshot, svc *corev1.Service, nodes []string, byHand bool) []violation {
	spec, err := annotation.Parse(svc)
	if err != nil || len(svc.Status.LoadBalancer.Ingress) == 0 {
		return []violation{{"victim not served", svc.Name}}
	}

	ip := svc.Status.LoadBalancer.Ingress[0].IP
	a, out := now.at(ip), []violation(nil)
	if a == nil {
		return []violation{{"victim's address is gone", ip}}
	}

	if uid := a.Tags[plan.TagServiceUID]; !byHand && uid != string(svc.UID) {
		out = append(out, violation{"victim's address is not tagged", a.Address + " " + uid})
	}

	name := cloudprovider.DefaultLoadBalancerName(svc)
	count := 0
	for i := range a.rules {
		if strings.HasPrefix(a.rules[i].Name, name+"-") {
			count++
		}
	}

	if count != len(svc.Spec.Ports) {
		out = append(out, violation{"victim's rules", fmt.Sprintf("%d rules for %d ports", count, len(svc.Spec.Ports))})
	}

	for _, p := range svc.Spec.Ports {
		if got := a.access(int(p.Port)); !slices.Equal(got, spec.SourceRanges) {
			out = append(out,
				violation{"victim's access",
					fmt.Sprintf("port %d of %s: %v in place of %v", p.Port, a.Address, got, spec.SourceRanges)})
		}
		i := slices.IndexFunc(a.rules, func(r cloudstack.LoadBalancerRule) bool { return r.PublicPort == int(p.Port) })
		if i < 0 || a.rules[i].PrivatePort != int(p.NodePort) || !slices.Equal(a.members[a.rules[i].ID], nodes) {
			out = append(out, violation{"victim's rules", fmt.Sprintf("port %d of %s", p.Port, a.Address)})
		}
	}

	return out
}
