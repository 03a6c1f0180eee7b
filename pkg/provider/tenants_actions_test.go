// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// action is one step of a run.
type action struct {
	text     string
	do       func(*tenantRun)
	byVictim bool   // the action may change objects of victims
	synced   string // the victim's Service that was synced
	// byOperator means that addresses of operators may get additional rules.
	byOperator bool
}

// attackers are the names of the attacker's Services. There are few, so that actions hit the same ones again. One has
// the name of a rule of another cluster.
var attackers = []string{"attacker/web", "attacker/a", "attacker/b"}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// next chooses an action that fits the current state.
func (r *tenantRun) next(random *rand.Rand) action {
	switch n := random.IntN(100); {
	case n < 58:
		return r.attack(random)
	case n < 64:
		return r.mistake(random)
	case n < 73:
		key := one(random, attackers...)
		return action{text: "delete " + key, do: func(r *tenantRun) { r.tryDelete(key) }}
	case n < 80:
		return action{text: "restart", do: func(r *tenantRun) { r.restart() }}
	case n < 86:
		d := time.Duration(1+random.IntN(1200)) * time.Second
		return action{text: fmt.Sprintf("clock +%s", d), do: func(r *tenantRun) { r.advance(d) }}
	case n < 92:
		return action{text: "drift round", do: func(r *tenantRun) { r.round() }}
	case n < 94:
		nth := random.IntN(16)
		return action{
			text: fmt.Sprintf("an operator acquires an address that was free, %d", nth),
			do:   func(r *tenantRun) { r.acquireReleased(nth) },
		}

	default:
		return r.live(random)
	}
}

// acquireReleased acquires, as an operator, an address that a record names and that has been released since. The
// address keeps its ID.
func (r *tenantRun) acquireReleased(nth int) {
	var free []annotation.AddressRecord
	for _, text := range r.records {
		records, err := annotation.ParseRecords(map[string]string{annotation.Addresses: text})
		if err != nil {
			continue
		}
		for _, rec := range records.Addresses {
			if rec.Allocated && !rec.Internal && r.now[rec.ID] == nil {
				free = append(free, rec)
			}
		}
	}

	const room = 17 // of the 20 addresses that an account may have
	if len(free) == 0 || len(r.now) >= room {
		return
	}

	rec := free[nth%len(free)]
	time.Sleep(time.Minute) // CloudStack shows the time of an acquisition in seconds
	r.did(r.inspect.AssociateIP(r.t.Context(),
		cloudstack.AssociateIPRequest{NetworkID: rec.NetworkID, Address: rec.IP}))
	r.now = r.snapshot()
	if a := r.now[rec.ID]; a != nil {
		r.idle[rec.ID] = a.contents()
	}

	// The attacker writes the old record again.
	r.restart()
	for _, key := range attackers {
		if r.find(key) != nil {
			r.edit(key,
				annotate(annotation.Addresses,
					annotation.Records{Addresses: []annotation.AddressRecord{rec}}.Values()[annotation.Addresses]))
			r.syncAttacker(key)
			r.tryDelete(key)
		}
	}
}

// attack writes a Service of the attacker and usually syncs it.
func (r *tenantRun) attack(random *rand.Rand) action {
	key := one(random, attackers...)
	var texts []string
	var changes []func(*corev1.Service)
	for range 1 + random.IntN(3) {
		text, change := r.mutation(random)
		texts, changes = append(texts, text), append(changes, change)
	}

	switch random.IntN(12) {
	case 0:
		return action{
			text: fmt.Sprintf("write %s: %s", key, strings.Join(texts, ", ")),
			do:   func(r *tenantRun) { r.write(key, changes) },
		}

	case 1:
		nth := 1 + random.IntN(8)
		return action{
			text: fmt.Sprintf("sync %s, and after call %d: %s", key, nth, strings.Join(texts, ", ")),
			do: func(r *tenantRun) {
				r.write(key, nil)
				var calls atomic.Int64 // atomic, because polls of jobs run in parallel to other calls
				r.watch(func(string) {
					if calls.Add(1) == int64(nth) {
						r.write(key, changes)
					}
				})
				r.syncAttacker(key)
				r.watch(nil)
			},
		}

	case 2:
		if ip := one(random, "", openedIP, idleIP); ip != "" {
			texts = append(texts, "at "+ip+" with ports [80] and ranges [10.0.0.0/8]")
			changes = append(changes, at(ip), ranges("10.0.0.0/8"),
				func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
		}

		fault := simulator.Fault{
			Command:    "createLoadBalancerRule",
			Kind:       simulator.FaultErrorBefore,
			HTTPStatus: 530,
			Text:       "no",
		}

		return action{
			text: fmt.Sprintf("write and sync %s, CloudStack refuses load balancer rules: %s", key,
				strings.Join(texts, ", ")),
			do: func(r *tenantRun) {
				defer r.Inject(fault)()
				r.write(key, changes)
				r.syncAttacker(key)
			},
		}
	}

	if random.IntN(24) == 0 {
		return action{text: "write, sync and delete " + key + ": keep-ip=true", do: func(r *tenantRun) {
			r.write(key, []func(*corev1.Service){annotate(annotation.KeepIP, "true")})
			r.syncAttacker(key)
			r.tryDelete(key)
		}}
	}

	return action{text: fmt.Sprintf("write and sync %s: %s", key, strings.Join(texts, ", ")), do: func(r *tenantRun) {
		r.write(key, changes)
		r.syncAttacker(key)
	}}
}

// mistake returns an operator's mistake in a trusted namespace, which no policy restricts: a Service on an address that
// is used for something else.
func (r *tenantRun) mistake(random *rand.Rand) action {
	const key = trustedNS + "/ops"
	if random.IntN(3) == 0 {
		return action{text: "delete " + key, do: func(r *tenantRun) { r.tryDelete(key) }}
	}
	ip := one(random, idleIP, openedIP, sourceNAT, foreignIP, forwardedIP, staticIP, wideFirewallIP, otherClusterIP,
		otherLeasewebIP)
	ports, list := one(random, []int{80}, []int{2222}, []int{80, 2222, 8080}), one(random, nil, []string{"10.0.0.0/8"})
	return action{
		text:       fmt.Sprintf("sync %s at %s with ports %v and ranges %v", key, ip, ports, list),
		byOperator: true,
		do: func(r *tenantRun) {
			r.write(key,
				[]func(*corev1.Service){at(ip), ranges(list...),
					func(s *corev1.Service) { s.Spec.Ports = servicePorts(ports...) }})
			_ = r.sync(key)
		},
	}
}

// write creates or changes an attacker's Service.
func (r *tenantRun) write(key string, changes []func(*corev1.Service)) {
	r.t.Helper()
	if r.find(key) == nil {
		r.create(key, []int{8080})
	}
	r.edit(key, append(slices.Clone(changes), r.nameJobs)...)
}

// nameJobs replaces the numbers of jobs in forged records by the IDs of the jobs. Forged records have numbers at first,
// because the IDs are random.
func (r *tenantRun) nameJobs(s *corev1.Service) {
	if v := s.Annotations[annotation.Allocation]; strings.Contains(v, "JOB-") {
		for i, id := range r.jobs {
			v = strings.ReplaceAll(v, fmt.Sprintf(`"JOB-%d"`, i), `"`+id+`"`)
		}
		s.Annotations[annotation.Allocation] = v
	}
}

func (r *tenantRun) syncAttacker(key string) {
	r.t.Helper()
	asked := r.get(key)
	if err := r.sync(key); err == nil && asked.Spec.Type == corev1.ServiceTypeLoadBalancer {
		r.judgeAttacker(asked)
	}
}

// tryDelete deletes a Service, unless its load balancer cannot be removed yet.
func (r *tenantRun) tryDelete(key string) {
	if r.find(key) != nil {
		_ = r.delete(key)
	}
}

// live returns an action of the victims, their friend or the cluster.
func (r *tenantRun) live(random *rand.Rand) action {
	key := one(random, "victim/web", "victim/shared", "victim/byhand", "friend/mail", "victim/kept", "victim/kept")
	change := func(*corev1.Service) {}
	text := "sync " + key
	n := random.IntN(4)
	if key == "victim/byhand" && (n > 1 || r.find(key) == nil) {
		return r.comeBack(n == 3)
	}

	switch n {
	case 0:
		ports := one(random, []int{80}, []int{80, 443}, []int{443})
		if key == "friend/mail" {
			ports = one(random, []int{25}, []int{25, 587})
		}
		text = fmt.Sprintf("sync %s with ports %v", key, ports)
		change = func(s *corev1.Service) { s.Spec.Ports = servicePorts(ports...) }
	case 1:
		list := one(random, []string{"10.0.0.0/8"}, []string{"192.0.2.0/24"}, nil)
		text = fmt.Sprintf("sync %s with ranges %v", key, list)
		change = ranges(list...)
	}

	if key == "victim/kept" && !r.noTags {
		return action{text: "delete or create victim/kept", byVictim: true, synced: key, do: func(r *tenantRun) {
			if r.find(key) == nil {
				r.create(key, []int{80}, annotate(annotation.KeepIP, "true"), at(r.kept))
				r.syncVictim(key)
				return
			}
			r.kept = r.ip(key)
			if err := r.delete(key); err != nil {
				r.violate("victim", "delete %s: %v", key, err)
			}
		}}
	}

	return action{text: text, byVictim: true, synced: key, do: func(r *tenantRun) {
		r.edit(key, change)
		r.syncVictim(key)
	}}
}

// comeBack deletes victim/byhand, whose address the attacker's Service guest uses as well, and lets the attacker
// request the address. With atOnce, it creates victim/byhand again in the same action, otherwise in a later one. Every
// second time, the new Service has the annotation that keeps the address.
func (r *tenantRun) comeBack(atOnce bool) action {
	const key = "victim/byhand"
	create := func(r *tenantRun) {
		r.returns++
		r.create(key, []int{80}, at(byHandIP), annotate(annotation.KeepIP, fmt.Sprint(r.returns%2 == 0)))
		r.syncVictim(key)
	}

	return action{
		text:     fmt.Sprintf("delete or create %s, at once: %v", key, atOnce),
		byVictim: true,
		synced:   key,
		do: func(r *tenantRun) {
			if r.find(key) == nil {
				create(r)
				return
			}
			if err := r.delete(key); err != nil {
				r.violate("victim", "delete %s: %v", key, err)
			}
			r.write("attacker/a", []func(*corev1.Service){
				at(byHandIP), ofType(corev1.ServiceTypeLoadBalancer),
				func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) },
			})
			r.syncAttacker("attacker/a")
			if atOnce {
				create(r)
			}
		},
	}
}

func (r *tenantRun) syncVictim(key string) {
	r.t.Helper()
	if err := r.sync(key); err != nil {
		r.violate("victim not served", "%s: %v", key, err)
	}
}

// set returns the change of an annotation and its description.
func set(name, value string) (string, func(*corev1.Service)) {
	return fmt.Sprintf("%s=%s", strings.TrimPrefix(name, annotation.Prefix), value), annotate(name, value)
}

// mutation returns a change of an attacker's Service and its description.
func (r *tenantRun) mutation(random *rand.Rand) (string, func(*corev1.Service)) {
	switch random.IntN(14) {
	case 0, 1:
		ports := r.ports(random)
		return fmt.Sprintf("ports %v", ports), func(s *corev1.Service) { s.Spec.Ports = servicePorts(ports...) }
	case 2:
		kind := one(random, corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer)
		return "type " + string(kind), ofType(kind)
	case 3:
		ip := one(random, "", r.someIP(random))
		return "loadBalancerIP " + ip, func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
	case 4:
		list := one(random, nil, []string{"10.0.0.0/8"}, []string{"198.51.100.0/24", "192.0.2.0/24"},
			[]string{"0.0.0.0/1"})
		return fmt.Sprintf("ranges %v", list), ranges(list...)

	case 5:
		return "no annotations of users", func(s *corev1.Service) {
			for name := range s.Annotations {
				if name != annotation.Addresses && name != annotation.Allocation {
					delete(s.Annotations, name)
				}
			}
		}

	case 10:
		switch random.IntN(3) {
		case 0:
			return "UDP", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }
		case 1:
			return "session affinity", func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			}
		}
		return "node port of the victim", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 }

	case 6, 7, 8, 9:
		return r.forgery(random)
	}

	row := one(random,
		append(annotation.Table(), annotation.Definition{Name: shareWith, Example: "*"},
			annotation.Definition{Name: annotation.KeepIP})...)
	if random.IntN(4) == 0 {
		return "without " + strings.TrimPrefix(row.Name, annotation.Prefix), unset(row.Name)
	}

	// The method and the options have an effect only together.
	if row.Name == annotation.StickinessMethod || row.Name == annotation.StickinessOptions {
		method, options := r.value(random,
			annotation.Definition{Name: annotation.StickinessMethod}), r.value(random,
			annotation.Definition{Name: annotation.StickinessOptions})
		return "stickiness " + method + " " + options, annotate(annotation.StickinessMethod, method,
			annotation.StickinessOptions, options)
	}

	return set(row.Name, r.value(random, row))
}

// forgery returns a change of an annotation that only the controller should write, and its description.
func (r *tenantRun) forgery(random *rand.Rand) (string, func(*corev1.Service)) {
	a := r.someAddress(random)
	switch random.IntN(8) {
	case 5: // annotations of older providers
		return "address and ip-associated-by-controller of " + a.Address, annotate(annotation.Address, a.Address,
			annotation.AssociatedByController, "true")
	case 6:
		return "id and ip-associated-by-controller of " + a.Address, annotate(annotation.LeasewebID, a.ID,
			annotation.AssociatedByController, "true")
	case 7:
		return "without records", unset(annotation.Addresses, annotation.Allocation)
	case 0:
		return set(annotation.Allocation, r.forgedAllocation(random))
	case 1:
		return set(one(random, annotation.Addresses, annotation.Allocation),
			one(random, append(r.records, "", "[]", "{")...))
	case 2:
		return "no annotations", func(s *corev1.Service) { s.Annotations = map[string]string{} }
	}

	return set(annotation.Addresses, r.forgedAddresses(random))
}

func (r *tenantRun) ports(random *rand.Rand) []int {
	if random.IntN(60) == 0 {
		return numbers(3000, 101)
	}
	ports := []int{80, 443, 2222, 8080, 25, 2500, 81}
	random.Shuffle(len(ports), func(i, j int) { ports[i], ports[j] = ports[j], ports[i] })
	return ports[:1+random.IntN(3)]
}

// someIP returns an address of the world, or a free one.
func (r *tenantRun) someIP(random *rand.Rand) string {
	switch {
	case r.kept != "" && random.IntN(4) == 0:
		return r.kept
	case random.IntN(8) == 0:
		return fmt.Sprintf("203.0.113.%d", 60+random.IntN(35))
	}
	return r.someAddress(random).Address
}

func (r *tenantRun) someAddress(random *rand.Rand) *addressSnapshot {
	all := slices.Collect(maps.Values(r.now))
	slices.SortFunc(all, func(a, b *addressSnapshot) int { return strings.Compare(a.Address, b.Address) })
	return one(random, all...)
}

// value returns a value for an annotation, usually one that has an effect.
func (r *tenantRun) value(random *rand.Rand, row annotation.Definition) string {
	switch row.Name {
	case annotation.Address:
		return r.someIP(random)
	case annotation.LeasewebID:
		return r.someAddress(random).ID
	case annotation.LeasewebNetworkID:
		return r.someAddress(random).AssociatedNetworkID
	case annotation.Addresses:
		return r.forgedAddresses(random)
	case annotation.Allocation:
		return r.forgedAllocation(random)
	case annotation.AssociatedByController, annotation.KeepIP:
		return one(random, "true", "true", "false")
	case annotation.StickinessMethod:
		return one(random, "lb-cookie", "lb-cookie", "app-cookie", "source")
	case annotation.StickinessOptions:
		return one(random, "", "cookie-name=SRV", "cookie-name=SRV", "", `cookie-name="x`, "cookie-name=a#b",
			"domain=${x}", "expire=30m#", "expire=30m", "cookie-name=a;b")
	case annotation.Network:
		return one(random, "k8s-net", "second-net")
	case annotation.Project:
		return "shop"
	case annotation.Zone:
		return "zone-1"
	case shareWith:
		return one(random, "*", "victim", "attacker,friend", "")
	}

	return one(random, row.Example, row.Example, row.Example, "true", "x", "")
}

// forgedAddresses returns a forged record that claims addresses of the world.
func (r *tenantRun) forgedAddresses(random *rand.Rand) string {
	var out []map[string]any
	for range 1 + random.IntN(2) {
		a := r.someAddress(random)
		rec := map[string]any{"id": a.ID, "ip": a.Address, "network": a.AssociatedNetworkID}
		if random.IntN(5) > 0 {
			rec["allocated"] = true
		}

		if random.IntN(3) == 0 {
			rec["tagged"] = true
		}

		if random.IntN(8) == 0 {
			rec["sticky"] = true
		}

		if random.IntN(2) == 0 {
			rec["opened"] = one(random, "tcp:80", "tcp:2222", "tcp:80,443", "tcp:25,80,443,2222,8080", "udp:53 tcp:80")
		}

		if random.IntN(6) == 0 {
			rec["mac"] = one(random, "", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "0")
		}

		if random.IntN(12) == 0 {
			rec["ip"] = r.someIP(random) // an id and an address that do not belong together
		}

		out = append(out, rec)
	}

	return jsonText(out)
}

// forgedAllocation returns a forged record that claims acquisitions of others.
func (r *tenantRun) forgedAllocation(random *rand.Rand) string {
	a := r.someAddress(random)
	p := map[string]any{
		"job": fmt.Sprintf("JOB-%d", random.IntN(len(r.jobs))), "network": a.AssociatedNetworkID,
		"since": r.clock.Now().Add(-time.Duration(random.IntN(7200)) * time.Second).UTC(),
	}
	if random.IntN(2) == 0 {
		p["ip"] = a.Address
	}
	return jsonText([]map[string]any{p})
}
