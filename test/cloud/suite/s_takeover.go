// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/testenv"
)

// takeoverScenarios take over from the providers that people run today. What these leave is made by API calls, after states that
// were recorded; the providers themselves do not run.
func takeoverScenarios(at string) []scenario {
	return []scenario{
		{name: at + ": takeover from upstream v1.2.0", at: at, bare: true, run: takeover(leftby.Apache, "apache/cloudstack-kubernetes-provider:v1.2.0", "external-cloudstack")},
		{name: at + ": takeover from Leaseweb v1.8.1", at: at, bare: true, run: takeover(leftby.Leaseweb, "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1", "cloudstack")},
	}
}

// left is what a provider left: the Services' addresses, and the rules by name of Service and port.
type left struct {
	addresses map[string]string // of CloudStack: id by address
	ips       map[string]string // by Service
	rules     map[string]rule
}

// takeover makes a recorded state, installs in the place of the provider, and compares: nothing that was not shown may change.
func takeover(recorded, image, provider string) func(context.Context, *env) (string, error) {
	return func(ctx context.Context, e *env) (seen string, err error) {
		state, err := leftby.Load(recorded)
		if err != nil {
			return "", err
		}
		l, err := e.leave(ctx, state)
		// Addresses of before the takeover are not the controller's to release.
		defer func() { err = errors.Join(err, e.giveUp(context.WithoutCancel(ctx), l)) }()
		if err != nil {
			return "", fmt.Errorf("make the state that the provider left: %w", err)
		}
		if err := e.predecessor(ctx, image, provider); err != nil {
			return "", err
		}
		if _, err := e.install(ctx, byRoot, "--accept", "all", "--pin", e.namespace+"/documented", "--skip-taint"); err != nil {
			return "", err
		}
		for name, ip := range l.ips {
			now, err := e.get(ctx, name)
			if err != nil {
				return "", err
			}
			in := now.Status.LoadBalancer.Ingress
			if len(in) != 1 || in[0].IP != ip && in[0].Hostname == "" {
				return "", fmt.Errorf("the address of Service %s was %s, and is %v", name, ip, in)
			}
		}
		if err := e.until(ctx, "the rules to be the ones of before, with the controller's names", func(ctx context.Context) error { return e.same(ctx, l) }); err != nil {
			return "", err
		}
		if err := e.healthy(ctx); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d Services: addresses, rules and members are those of before; rules renamed in place", len(l.ips)), e.handOver(ctx, l)
	}
}

// leave makes Services and what is behind them as a provider left them.
func (e *env) leave(ctx context.Context, state *leftby.State) (*left, error) {
	l := &left{addresses: map[string]string{}, ips: map[string]string{}, rules: map[string]rule{}}
	for i := range state.Kubernetes.Services {
		if err := e.leaveService(ctx, state, &state.Kubernetes.Services[i], l); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (e *env) leaveService(ctx context.Context, state *leftby.State, s *corev1.Service, l *left) error {
	ip, id, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	l.addresses[ip], l.ips[s.Name] = id, ip
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Annotations: map[string]string{}, Finalizers: s.Finalizers}, Spec: corev1.ServiceSpec{
		Type: s.Spec.Type, SessionAffinity: s.Spec.SessionAffinity, LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges,
	}}
	for k, v := range s.Annotations {
		svc.Annotations[k] = v
	}
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
	made, err := e.cluster.Client.CoreV1().Services(e.namespace).Create(ctx, svc, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = *s.Status.DeepCopy()
	for i := range made.Status.LoadBalancer.Ingress {
		if made.Status.LoadBalancer.Ingress[i].IP != "" {
			made.Status.LoadBalancer.Ingress[i].IP = ip
		}
	}
	if _, err := e.cluster.Client.CoreV1().Services(e.namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return e.leaveRules(ctx, state, s, made, id, l)
}

// leaveRules makes the rules of a Service: with its new UID and namespace in their names, and its new node ports.
func (e *env) leaveRules(ctx context.Context, state *leftby.State, recorded, made *corev1.Service, addressID string, l *left) error {
	short := func(s *corev1.Service) string { return "a" + strings.ReplaceAll(string(s.UID), "-", "")[:31] }
	var vms []string
	for _, vm := range e.vms {
		vms = append(vms, vm.ID)
	}
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
			o, err := e.world.User.Do(ctx, "createLoadBalancerRule", params)
			if err != nil {
				return err
			}
			if _, err := e.world.User.Do(ctx, "assignToLoadBalancerRule", api.Params{"id": o.Text("id"), "virtualmachineids": strings.Join(vms, ",")}); err != nil {
				return err
			}
			l.rules[recorded.Name+":"+r.PublicPort] = rule{ID: o.Text("id"), Name: name, Protocol: r.Protocol}
			if err := e.leaveFirewall(ctx, state, r.PublicIPID, addressID, p.Port); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveFirewall makes the firewall rule of a port.
func (e *env) leaveFirewall(ctx context.Context, state *leftby.State, recordedID, addressID string, port int32) error {
	for _, f := range state.CloudStack.FirewallRule {
		if f.IPAddressID != recordedID || f.StartPort != int(port) {
			continue
		}
		if _, err := e.world.User.Do(ctx, "createFirewallRule", api.Params{
			"ipaddressid": addressID, "protocol": f.Protocol, "cidrlist": f.CIDRList, "startport": fmt.Sprint(f.StartPort), "endport": fmt.Sprint(f.EndPort),
		}); err != nil {
			return err
		}
	}
	return nil
}

// predecessor makes the provider's Deployment. Process nodes do not know its image, so it never runs.
func (e *env) predecessor(ctx context.Context, image, provider string) error {
	if err := e.clearPredecessor(ctx); err != nil {
		return err
	}
	return testenv.Predecessor{Image: image, Provider: provider, Secret: secretName, Port: "10258"}.Create(ctx, e.cluster.Client)
}

// clearPredecessor removes what another predecessor left under the same names.
func (e *env) clearPredecessor(ctx context.Context) error {
	name, none := testenv.PredecessorName, metav1.DeleteOptions{}
	c := e.cluster.Client
	for _, err := range []error{
		c.AppsV1().Deployments(metav1.NamespaceSystem).Delete(ctx, name, none), c.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Delete(ctx, name, none),
		c.RbacV1().ClusterRoles().Delete(ctx, "system:"+name, none), c.RbacV1().ClusterRoleBindings().Delete(ctx, "system:"+name, none),
	} {
		if err := ignoreGone(err); err != nil {
			return err
		}
	}
	return nil
}

// same reports what of the rules is not as it was.
func (e *env) same(ctx context.Context, l *left) error {
	for name, ip := range l.ips {
		now, err := e.rules(ctx, ip)
		if err != nil {
			return err
		}
		for key, was := range l.rules {
			service, port, _ := strings.Cut(key, ":")
			if service != name {
				continue
			}
			r := now[port]
			switch {
			case r.ID != was.ID:
				return fmt.Errorf("%s: rule %s became %s", key, was.ID, r.ID)
			case r.Protocol != was.Protocol:
				return fmt.Errorf("%s: the protocol was %s, and is %s", key, was.Protocol, r.Protocol)
			case !slices.Equal(r.Members, e.names()):
				return fmt.Errorf("%s: the members are %v", key, r.Members)
			case !strings.HasSuffix(r.Name, "-"+r.Protocol+"-"+port) || !strings.HasPrefix(r.Name, "a"):
				return fmt.Errorf("%s: the rule is named %s", key, r.Name)
			}
		}
	}
	return nil
}

// handOver lets the controller have the addresses, so that they go with their Services.
func (e *env) handOver(ctx context.Context, l *left) error {
	args := []string{"adopt", "--yes"}
	for name := range l.ips {
		args = append(args, e.namespace+"/"+name)
	}
	slices.Sort(args[2:])
	if _, err := e.csccm(ctx, args...); err != nil {
		return err
	}
	if err := e.removeAll(ctx); err != nil {
		return err
	}
	return e.until(ctx, "the addresses that were handed over to be released", func(ctx context.Context) error {
		now, err := e.addresses(ctx)
		for ip := range l.addresses {
			if now[ip] != "" {
				err = errors.Join(err, fmt.Errorf("%s is there", ip))
			}
		}
		return err
	})
}

// giveUp removes what is left of a takeover that failed: Services, addresses, the provider's Deployment.
func (e *env) giveUp(ctx context.Context, l *left) error {
	errs := []error{e.clearPredecessor(ctx)}
	if e.installed {
		errs = append(errs, e.removeAll(ctx))
	}
	now, err := e.addresses(ctx)
	errs = append(errs, err)
	for ip, id := range l.addresses {
		if now[ip] == id {
			errs = append(errs, e.release(ctx, id))
		}
	}
	return errors.Join(errs...)
}
