// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// left is what a provider left: the Services' addresses, and the rules by name of Service and port.
type left struct {
	addresses map[string]string // of CloudStack: id by address
	ips       map[string]string // by Service
	rules     map[string]rule
}

// takeover makes a recorded state, installs in the place of the provider, and compares: nothing that was not shown may change.
func takeover(recorded, image, provider string) func(*env) string {
	return func(e *env) string {
		state := must.Get(leftby.Load(recorded))
		l := &left{addresses: map[string]string{}, ips: map[string]string{}, rules: map[string]rule{}}
		// Addresses of before the takeover are not the controller's to release.
		e.cleanup(func() { e.giveUp(l) })
		for i := range state.Kubernetes.Services {
			e.leaveService(state, &state.Kubernetes.Services[i], l)
		}
		e.clearPredecessor() // of the scenario before
		// Process nodes do not know its image, so it never runs.
		must.OK(testenv.Predecessor{Image: image, Provider: provider, Secret: secretName, Port: "10258"}.Create(e.ctx, e.cluster.Client))
		e.install(byRoot, "--accept", "all", "--pin", e.namespace+"/documented", "--skip-taint")
		for name, ip := range l.ips {
			in := e.ingress(name)
			must.Be(len(in) == 1 && (in[0].IP == ip || in[0].Hostname != ""), "the address of Service %s was %s, and is %v", name, ip, in)
		}
		e.until("the rules to be the ones of before, with the controller's names", func() { e.same(l) })
		e.csccm("doctor", "-o", "short")
		e.handOver(l)
		return fmt.Sprintf("%d Services: addresses, rules and members are those of before; rules renamed in place", len(l.ips))
	}
}

// leaveService makes a Service and what is behind it as a provider left them.
func (e *env) leaveService(state *leftby.State, s *corev1.Service, l *left) {
	ip, id := e.acquire()
	l.addresses[ip], l.ips[s.Name] = id, ip
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Annotations: maps.Clone(s.Annotations), Finalizers: s.Finalizers}, Spec: corev1.ServiceSpec{
		Type: s.Spec.Type, SessionAffinity: s.Spec.SessionAffinity, LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges,
	}}
	for name, value := range map[string]string{"address": ip, "id": id, "network-id": e.network.ID} { // Leaseweb's records
		if _, there := svc.Annotations[prefix+name]; there {
			svc.Annotations[prefix+name] = value
		}
	}
	if s.Spec.LoadBalancerIP != "" {
		svc.Spec.LoadBalancerIP = ip
	}
	for _, p := range s.Spec.Ports {
		p.NodePort = 0
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	made := must.Get(e.services().Create(e.ctx, svc, metav1.CreateOptions{}))
	made.Status = *s.Status.DeepCopy()
	for i := range made.Status.LoadBalancer.Ingress {
		if made.Status.LoadBalancer.Ingress[i].IP != "" {
			made.Status.LoadBalancer.Ingress[i].IP = ip
		}
	}
	must.Get(e.services().UpdateStatus(e.ctx, made, metav1.UpdateOptions{}))
	e.leaveRules(state, s, made, id, l)
}

// leaveRules makes the rules of a Service: with its new UID and namespace in their names, and its new node ports.
func (e *env) leaveRules(state *leftby.State, recorded, made *corev1.Service, addressID string, l *left) {
	short := func(s *corev1.Service) string { return "a" + strings.ReplaceAll(string(s.UID), "-", "")[:31] }
	for i, p := range recorded.Spec.Ports {
		for _, r := range state.CloudStack.LoadBalancerRule {
			if r.PrivatePort != fmt.Sprint(p.NodePort) {
				continue
			}
			name := strings.Replace(r.Name, short(recorded), short(made), 1)
			name = strings.Replace(name, "_"+recorded.Namespace+"_", "_"+e.namespace+"_", 1)
			params := api.Params{
				"name": name, "publicipid": addressID, "networkid": e.network.ID, "algorithm": r.Algorithm, "protocol": r.Protocol,
				"publicport": r.PublicPort, "privateport": fmt.Sprint(made.Spec.Ports[i].NodePort), "openfirewall": "false",
			}
			if r.CIDRList != nil {
				params["cidrlist"] = strings.ReplaceAll(*r.CIDRList, " ", ",")
			}
			o := e.do("createLoadBalancerRule", params)
			e.do("assignToLoadBalancerRule", api.Params{"id": o.Text("id"), "virtualmachineids": e.vmIDs()})
			l.rules[recorded.Name+":"+r.PublicPort] = rule{ID: o.Text("id"), Name: name, Protocol: r.Protocol}
			for _, f := range state.CloudStack.FirewallRule {
				if f.IPAddressID == r.PublicIPID && f.StartPort == int(p.Port) {
					e.do("createFirewallRule", api.Params{
						"ipaddressid": addressID, "protocol": f.Protocol, "cidrlist": f.CIDRList, "startport": fmt.Sprint(f.StartPort), "endport": fmt.Sprint(f.EndPort),
					})
				}
			}
		}
	}
}

// clearPredecessor removes what a predecessor left.
func (e *env) clearPredecessor() {
	name, none := testenv.PredecessorName, metav1.DeleteOptions{}
	c := e.cluster.Client
	for _, err := range []error{
		c.AppsV1().Deployments(metav1.NamespaceSystem).Delete(e.ctx, name, none), c.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Delete(e.ctx, name, none),
		c.RbacV1().ClusterRoles().Delete(e.ctx, "system:"+name, none), c.RbacV1().ClusterRoleBindings().Delete(e.ctx, "system:"+name, none),
	} {
		must.OK(ignoreGone(err))
	}
}

// same checks that the rules are as they were.
func (e *env) same(l *left) {
	for name, ip := range l.ips {
		now := e.rules(ip)
		for key, was := range l.rules {
			service, port, _ := strings.Cut(key, ":")
			if service != name {
				continue
			}
			r := now[port]
			must.Be(r.ID == was.ID, "%s: rule %s became %s", key, was.ID, r.ID)
			must.Be(r.Protocol == was.Protocol, "%s: the protocol was %s, and is %s", key, was.Protocol, r.Protocol)
			must.Be(slices.Equal(r.Members, e.names()), "%s: the members are %v", key, r.Members)
			named := strings.HasPrefix(r.Name, "a") && strings.HasSuffix(r.Name, "-"+r.Protocol+"-"+port)
			must.Be(named, "%s: the rule is named %s", key, r.Name)
		}
	}
}

// handOver lets the controller have the addresses, so that they go with their Services.
func (e *env) handOver(l *left) {
	args := []string{"adopt", "--yes"}
	for name := range l.ips {
		args = append(args, e.namespace+"/"+name)
	}
	slices.Sort(args[2:])
	e.csccm(args...)
	e.removeAll()
	e.released(slices.Collect(maps.Keys(l.addresses))...)
}

// giveUp removes what is left of a takeover that failed: Services, addresses, the provider's Deployment.
func (e *env) giveUp(l *left) {
	e.clearPredecessor()
	if e.installed {
		e.removeAll()
	}
	now := e.addresses()
	for ip, id := range l.addresses {
		if now[ip] == id {
			e.release(id)
		}
	}
}
