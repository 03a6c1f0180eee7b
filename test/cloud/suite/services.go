// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/testenv/script"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
)

// trusted is a namespace whose Services may use the annotations that the chart denies to tenants.
const trusted = "cloud-trusted"

// env is the environment of a scenario. Its methods end the scenario on errors (see package must).
type env struct {
	*place
	ctx context.Context
	// namespace is the namespace of its Services.
	namespace string
	late      []func()
}

// cleanup registers a function that runs at the end of the scenario, even if the scenario failed.
func (e *env) cleanup(f func()) { e.late = append(e.late, f) }

func (e *env) services() typedcorev1.ServiceInterface {
	return e.cluster.Client.CoreV1().Services(e.namespace)
}

// change applies the words of a scenario to a Service (see script.Change). The API server chooses node ports.
func change(s *corev1.Service, words []string) {
	must.OK(script.Change(s, words,
		func(protocol corev1.Protocol, number int32, old *corev1.ServicePort) corev1.ServicePort {
			if old != nil {
				return *old
			}
			return corev1.ServicePort{
				Name:       fmt.Sprintf("p%d", number),
				Protocol:   protocol,
				Port:       number,
				TargetPort: intstr.FromInt32(8080),
			}
		}))
}

// create creates a Service of type LoadBalancer with port 80 and applies words to it.
func (e *env) create(name string, words ...string) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	change(s, append([]string{"80"}, words...))
	must.Get(e.services().Create(e.ctx, s, metav1.CreateOptions{}))
}

// served creates a Service and waits for its address.
func (e *env) served(name string, words ...string) (ip string) {
	e.create(name, words...)
	return e.address(name)
}

func (e *env) get(name string) *corev1.Service {
	return must.Get(e.services().Get(e.ctx, name, metav1.GetOptions{}))
}

func (e *env) ingress(name string) []corev1.LoadBalancerIngress {
	return e.get(name).Status.LoadBalancer.Ingress
}

// edit changes a Service and retries after a conflict.
func (e *env) edit(name string, words ...string) {
	for {
		s := e.get(name)
		change(s, words)
		if _, err := e.services().Update(e.ctx, s, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			must.OK(err)
			return
		}
	}
}

// address waits for the Service's address.
func (e *env) address(name string) (ip string) {
	e.until("Service "+name+" to get its address", func() {
		in := e.ingress(name)
		if len(in) == 0 || in[0].IP == "" {
			must.Fail("no address yet; its Events: %s", e.events(name))
		}
		ip = in[0].IP
	})
	return ip
}

// listEvents returns the Events of a Service. While the Service exists, Events of earlier Services of this name are
// left out.
func (e *env) listEvents(name string) []corev1.Event {
	selector := "involvedObject.kind=Service,involvedObject.name=" + name
	svc, err := e.services().Get(e.ctx, name, metav1.GetOptions{})
	must.OK(ignoreGone(err))
	if err == nil {
		selector += ",involvedObject.uid=" + string(svc.UID)
	}
	return must.Get(e.cluster.Client.CoreV1().Events(metav1.NamespaceAll).List(e.ctx,
		metav1.ListOptions{FieldSelector: selector})).Items
}

// events returns the reasons and messages of a Service's Events.
func (e *env) events(name string) string {
	var all []string
	for _, event := range e.listEvents(name) {
		all = append(all, event.Reason+": "+event.Message)
	}
	return strings.Join(all, "; ")
}

// event waits for an Event of a Service and returns its message.
func (e *env) event(name, reason string) (message string) {
	e.until(fmt.Sprintf("the Event %s on Service %s", reason, name), func() {
		for _, event := range e.listEvents(name) {
			if event.Reason == reason {
				message = event.Message
				return
			}
		}
		must.Fail("there are: %s", e.events(name))
	})
	return message
}

// remove deletes Services and waits until they no longer exist.
func (e *env) remove(names ...string) {
	for _, name := range names {
		must.OK(ignoreGone(e.services().Delete(e.ctx, name, metav1.DeleteOptions{})))
	}
	for _, name := range names {
		e.gone(name)
	}
}

// gone waits until a Service no longer exists.
func (e *env) gone(name string) {
	e.until("Service "+name+" to go", func() {
		if _, err := e.services().Get(e.ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			must.Fail("it is still there; its Events: %s", e.events(name))
		}
	})
}

// ignoreGone returns nil for a NotFound error, and any other error unchanged.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeAll deletes all Services of the namespace.
func (e *env) removeAll() {
	var names []string
	for _, s := range e.all() {
		names = append(names, s.Name)
	}
	e.remove(names...)
}

// all returns the Services of the namespace.
func (e *env) all() []corev1.Service {
	return must.Get(e.services().List(e.ctx, metav1.ListOptions{})).Items
}

// makeNamespace creates the namespace of the scenario.
func (e *env) makeNamespace() {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}
	if _, err := e.cluster.Client.CoreV1().Namespaces().Create(e.ctx, namespace,
		metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		must.OK(err)
	}
}

// label sets a label of a node; an empty value removes it.
func (e *env) label(node, key, value string) {
	patch := strings.ReplaceAll(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value), `""`, "null")
	must.Get(e.cluster.Client.CoreV1().Nodes().Patch(e.ctx, node, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}))
}

func (e *env) node(name string) *corev1.Node {
	return must.Get(e.cluster.Client.CoreV1().Nodes().Get(e.ctx, name, metav1.GetOptions{}))
}

// taints returns the keys of a node's taints.
func taints(n *corev1.Node) []string {
	var all []string
	for _, t := range n.Spec.Taints {
		all = append(all, t.Key)
	}
	return all
}

// endpoint makes an endpoint on a node the only ready endpoint of a Service.
func (e *env) endpoint(service, node string) {
	ready := true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{
				Addresses:  []string{"10.244.0.1"},
				NodeName:   &node,
				Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			},
		},
	}

	client := e.cluster.Client.DiscoveryV1().EndpointSlices(e.namespace)
	_, err := client.Update(e.ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(e.ctx, slice, metav1.CreateOptions{})
	}

	must.OK(err)
}

// rule is a load balancer rule with the names of its members, sorted.
type rule struct {
	cloudstack.LoadBalancerRule
	Members []string
}

// do makes a call as the user and waits for its job.
func (e *env) do(command string, params world.Params) world.Object {
	return e.world.User.Do(e.ctx, command, params)
}

// rules returns the load balancer rules at an address by port, without volatile fields.
func (e *env) rules(ip string) map[string]rule {
	all := map[string]rule{}
	for _, r := range must.Get(e.world.User.ListLoadBalancerRules(e.ctx,
		cloudstack.LoadBalancerRuleQuery{ProjectID: e.projectID})) {
		if r.PublicIP == ip {
			r.State, r.Tags, r.CIDRs = "", nil, annotation.Canonical(r.CIDRs)
			all[fmt.Sprint(r.PublicPort)] = rule{r, e.members(r.ID)}
		}
	}
	return all
}

// members returns the names of a rule's VMs, sorted.
func (e *env) members(ruleID string) (names []string) {
	for _, m := range must.Get(e.world.User.ListLoadBalancerMembers(e.ctx, ruleID)) {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// rulesAre waits until the rules at an address pass a check.
func (e *env) rulesAre(ip, what string, check func(map[string]rule)) {
	e.until(what, func() { check(e.rules(ip)) })
}

// serves waits until the ports of an address have rules with all nodes as members.
func (e *env) serves(ip, ports string) {
	e.rulesAre(ip, "the rules at "+ip+" to be for ports "+ports+" with all nodes", func(rules map[string]rule) {
		complete(rules, ports, e.names())
	})
}

// complete checks that there are rules for exactly these ports, each with exactly these members.
func complete(rules map[string]rule, ports string, members []string) {
	must.Be(len(rules) == 1+strings.Count(ports, ","), "there are rules for %d ports, want %s", len(rules), ports)
	for port := range strings.SplitSeq(ports, ",") {
		r, ok := rules[port]
		must.Be(ok, "no rule for port %s", port)
		must.Be(slices.Equal(r.Members, members), "the members of port %s are %v, want %v", port, r.Members, members)
	}
}

// firewall returns the firewall rules of an address.
func (e *env) firewall(addressID string) []cloudstack.FirewallRule {
	return must.Get(e.world.User.ListFirewallRules(e.ctx,
		cloudstack.FirewallRuleQuery{PublicIPID: addressID, ProjectID: e.projectID}))
}

// sources returns the source ranges that may reach a port, merged: the controller may write a range as its two halves.
func sources(all []cloudstack.FirewallRule, port string) string {
	n := must.Get(strconv.Atoi(port))
	var found []string
	for _, r := range all {
		if r.StartPort <= n && n <= r.EndPort {
			found = append(found, r.CIDRs...)
		}
	}
	return strings.Join(annotation.Canonical(found), ",")
}

// acl returns the ingress items of a list that allow traffic.
func (e *env) acl(listID string) []cloudstack.NetworkACL {
	all := must.Get(e.world.User.ListNetworkACLs(e.ctx,
		cloudstack.NetworkACLQuery{ListID: listID, ProjectID: e.projectID}))
	return slices.DeleteFunc(all, func(a cloudstack.NetworkACL) bool { return !a.Ingress || !a.Allow })
}

// addresses returns the ids of the public addresses in the place by address, without source NAT addresses.
func (e *env) addresses() map[string]string {
	all := map[string]string{}
	for _, a := range must.Get(e.world.User.ListPublicIPs(e.ctx, cloudstack.PublicIPQuery{ProjectID: e.projectID})) {
		if here := a.AssociatedNetworkID == e.networkID || e.vpcID != "" && a.VPCID == e.vpcID; here && !a.SourceNAT {
			all[a.Address] = a.ID
		}
	}
	return all
}

// released waits until the account no longer has an address.
func (e *env) released(ips ...string) {
	e.until(fmt.Sprintf("%v to be released", ips), func() {
		left := e.addresses()
		for _, ip := range ips {
			must.Be(left[ip] == "", "%s is there", ip)
		}
	})
}

// acquire acquires an address without the controller.
func (e *env) acquire() (ip, id string) {
	params := world.Params{"networkid": e.networkID}
	if e.vpcID != "" {
		params = world.Params{"vpcid": e.vpcID}
	}
	o := e.do("associateIpAddress", params.Set("projectid", e.projectID))
	return o.Text("ipaddress"), o.Text("id")
}

// release releases an address without the controller.
func (e *env) release(id string) { e.do("disassociateIpAddress", world.Params{"id": id}) }
