// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// installBy returns a scenario that installs with one kind of credentials; then doctor must find no problem.
func installBy(how string) func(*env) string {
	return func(e *env) string {
		e.install(how)
		e.csccm("doctor", "-o", "short")
		return fmt.Sprintf("%d nodes initialised, csccm doctor finds nothing", len(e.vms))
	}
}

// uninstalled uninstalls the controller, which is refused while a Service exists.
func uninstalled(e *env) string {
	e.served("web")
	out, code := e.csccmCode("uninstall", "--yes", "--delete-secret")
	must.Be(code == 3 && strings.Contains(out, e.namespace+"/web"),
		"with a Service of type LoadBalancer it ended with %d, want 3 and the Service's name: %s", code, tail(out, 10))
	e.remove("web")
	e.uninstall()
	return "refused while a Service exists; then nothing is left in the cluster"
}

// orphans uninstalls while a load balancer exists and deletes its Service. After the next install, the controller
// removes the leftovers.
func orphans(e *env) string {
	ip := e.served("web")
	e.uninstall("--orphan-load-balancers")
	must.Get(e.services().Patch(e.ctx, "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}))
	e.remove("web")
	all := e.addresses()
	must.Be(all[ip] != "", "address %s was to be left, the account has %v", ip, all)
	e.install(byRoot, "--set", "loadBalancers.cleanOrphans=true", "--set", "driftPeriod=10s")
	e.released(ip)
	return "the address and its rules were removed after two rounds"
}

// rotateKeys rotates the keys twice. The old keys must be revoked and the controller must keep working. Another
// install with the same values changes nothing.
func rotateKeys(e *env) string {
	can(e.installedBy != byKeys, "the controller has the keys of the suite's own user")
	for i := range 2 {
		before := e.keysInSecret()
		e.csccm(append([]string{"rotate-keys", "--yes"}, e.adminFlags(e.Who)...)...)
		must.Be(before.APIKey != e.keysInSecret().APIKey, "the Secret has the same key as before")
		old := world.Connect(e.ctx, e.suiteURL, before)
		e.until("the old keys to be refused", func() {
			_, err := old.ListZones(e.ctx)
			must.Be(cloudstack.IsKind(err, cloudstack.KindAuth), "the answer is not 401: %v", err)
		})
		name := fmt.Sprintf("web%d", i)
		e.serves(e.served(name), "80")
		e.remove(name)
	}

	last := e.keysInSecret()
	e.install(e.installedBy)
	must.Be(e.keysInSecret().APIKey == last.APIKey, "the same install again has changed the keys")
	return "twice; old keys refused, Services made with the new ones; the same install again keeps them"
}

// keysInSecret returns the controller's keys.
func (e *env) keysInSecret() world.Credentials {
	s := must.Get(e.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(e.ctx, secretName, metav1.GetOptions{}))
	c := must.Get(cloudconfig.Parse(bytes.NewReader(s.Data["cloud-config"])))
	return world.Credentials{APIKey: c.APIKey, SecretKey: c.SecretKey}
}

// migrate gives the rules of a Service names in the oldest format, lets csccm rename them, and undoes that.
func migrate(e *env) string {
	ip := e.served("web", "80,443")
	e.serves(ip, "80,443")
	modern := e.rules(ip)
	for _, r := range modern {
		e.do("updateLoadBalancerRule", world.Params{
			"id":        r.ID,
			"name":      strings.Replace(r.Name, "-tcp-", "-", 1),
			"protocol":  r.Protocol,
			"algorithm": r.Algorithm,
		})
	}

	old := e.rules(ip)
	for _, c := range []struct {
		args []string
		want map[string]rule
	}{
		{[]string{"--dry-run"}, old},
		{[]string{"--yes"}, modern},
		{[]string{"--yes", "--undo"}, old},
		{[]string{"--yes"}, modern},
	} {
		e.csccm(append([]string{"migrate-rules"}, c.args...)...)
		now := e.rules(ip)
		must.Be(reflect.DeepEqual(now, c.want), "after migrate-rules %s the rules are %v, want %v",
			strings.Join(c.args, " "), now, c.want)
	}

	return "dry run, renamed, undone, renamed again; ids and members stayed"
}

// left is what another provider left for a Service.
type left struct {
	service, ip, addressID string
	rules                  map[string]rule // by port
}

// takeover recreates a recorded state, installs csccm in place of the other provider, and checks that only what the
// plan announced has changed.
func takeover(recorded, image, provider string) func(*env) string {
	return func(e *env) string {
		state := must.Get(leftby.Load(recorded))
		var all []*left

		// The controller does not release addresses from before the takeover.
		e.cleanup(func() { e.giveUp(all) })
		for _, svc := range state.Kubernetes.Services {
			l := &left{service: svc.Name, rules: map[string]rule{}}
			l.ip, l.addressID = e.acquire()
			all = append(all, l)
			e.leaveService(state, &svc, l)
		}

		e.clearPredecessor() // the previous scenario may have left one

		// Process nodes do not know the predecessor's image, so it never runs.
		must.OK(testenv.Predecessor{
			Image:    image,
			Provider: provider,
			Secret:   secretName,
			Port:     "10258",
		}.Create(e.ctx, e.cluster.Client))

		e.install(byRoot, "--accept", "all", "--pin", e.namespace+"/documented", "--skip-taint")
		args, ips := []string{"adopt", "--yes"}, []string{}
		for _, l := range all {
			in := e.ingress(l.service)
			must.Be(len(in) == 1 && (in[0].IP == l.ip || in[0].Hostname != ""),
				"the address of Service %s was %s, and is %v", l.service, l.ip, in)
			args, ips = append(args, e.namespace+"/"+l.service), append(ips, l.ip)
		}

		e.until("the rules to be the ones of before, with the controller's names", func() {
			for _, l := range all {
				e.same(l)
			}
		})

		e.csccm("doctor", "-o", "short")

		// Let the controller own the addresses, so that it releases them with their Services.
		e.csccm(args...)
		e.removeAll()
		e.released(ips...)
		return fmt.Sprintf("%d Services: addresses, rules and members are those of before; rules renamed in place",
			len(all))
	}
}

// leaveService creates a Service and its objects in CloudStack as another provider left them.
func (e *env) leaveService(state *leftby.State, s *corev1.Service, l *left) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Annotations: maps.Clone(s.Annotations), Finalizers: s.Finalizers},
		Spec: corev1.ServiceSpec{
			Type:                     s.Spec.Type,
			SessionAffinity:          s.Spec.SessionAffinity,
			LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges,
		},
	}

	// Leaseweb's provider stores these values in annotations.
	for name, value := range map[string]string{"address": l.ip, "id": l.addressID, "network-id": e.networkID} {
		if _, there := svc.Annotations[annotation.Prefix+name]; there {
			svc.Annotations[annotation.Prefix+name] = value
		}
	}

	if s.Spec.LoadBalancerIP != "" {
		svc.Spec.LoadBalancerIP = l.ip
	}

	for _, p := range s.Spec.Ports {
		p.NodePort = 0
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}

	made := must.Get(e.services().Create(e.ctx, svc, metav1.CreateOptions{}))
	made.Status = *s.Status.DeepCopy()
	for i := range made.Status.LoadBalancer.Ingress {
		if made.Status.LoadBalancer.Ingress[i].IP != "" {
			made.Status.LoadBalancer.Ingress[i].IP = l.ip
		}
	}

	// The upstream provider's program uses this field manager.
	must.Get(e.services().UpdateStatus(e.ctx, made, metav1.UpdateOptions{FieldManager: "cloudstack-ccm"}))
	e.leaveRules(state, s, made, l)
}

// leaveRules creates the rules of a Service, with its new UID and namespace in their names and its new node ports.
func (e *env) leaveRules(state *leftby.State, recorded, made *corev1.Service, l *left) {
	short := func(s *corev1.Service) string { return "a" + strings.ReplaceAll(string(s.UID), "-", "")[:31] }
	for i, p := range recorded.Spec.Ports {
		for _, r := range state.CloudStack.LoadBalancerRule {
			if r.PrivatePort != fmt.Sprint(p.NodePort) {
				continue
			}

			name := strings.Replace(r.Name, short(recorded), short(made), 1)
			name = strings.Replace(name, "_"+recorded.Namespace+"_", "_"+e.namespace+"_", 1)
			params := world.Params{
				"name":         name,
				"publicipid":   l.addressID,
				"networkid":    e.networkID,
				"algorithm":    r.Algorithm,
				"protocol":     r.Protocol,
				"publicport":   r.PublicPort,
				"privateport":  fmt.Sprint(made.Spec.Ports[i].NodePort),
				"openfirewall": "false",
			}

			if r.CIDRList != nil {
				params["cidrlist"] = strings.ReplaceAll(*r.CIDRList, " ", ",")
			}

			o := e.do("createLoadBalancerRule", params)
			e.do("assignToLoadBalancerRule", world.Params{"id": o.Text("id"), "virtualmachineids": e.vmIDs()})
			l.rules[r.PublicPort] = rule{
				LoadBalancerRule: cloudstack.LoadBalancerRule{ID: o.Text("id"), Protocol: r.Protocol},
			}
			for _, f := range state.CloudStack.FirewallRule {
				if f.IPAddressID == r.PublicIPID && f.StartPort == int(p.Port) {
					e.do("createFirewallRule", world.Params{
						"ipaddressid": l.addressID,
						"protocol":    f.Protocol,
						"cidrlist":    f.CIDRList,
						"startport":   fmt.Sprint(f.StartPort),
						"endport":     fmt.Sprint(f.EndPort),
					})
				}
			}
		}
	}
}

// clearPredecessor removes the predecessor's Deployment and RBAC objects.
func (e *env) clearPredecessor() {
	name, none := testenv.PredecessorName, metav1.DeleteOptions{}
	c := e.cluster.Client
	for _, err := range []error{
		c.AppsV1().Deployments(metav1.NamespaceSystem).Delete(e.ctx, name, none),
		c.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Delete(e.ctx, name, none),
		c.RbacV1().ClusterRoles().Delete(e.ctx, "system:"+name, none),
		c.RbacV1().ClusterRoleBindings().Delete(e.ctx, "system:"+name, none),
	} {
		must.OK(ignoreGone(err))
	}
}

// same checks that a takeover did not change the rules, except for their names.
func (e *env) same(l *left) {
	now := e.rules(l.ip)
	for port, was := range l.rules {
		r, key := now[port], l.service+":"+port
		must.Be(r.ID == was.ID, "%s: rule %s became %s", key, was.ID, r.ID)
		must.Be(r.Protocol == was.Protocol, "%s: the protocol was %s, and is %s", key, was.Protocol, r.Protocol)
		must.Be(slices.Equal(r.Members, e.names()), "%s: the members are %v", key, r.Members)
		named := strings.HasPrefix(r.Name, "a") && strings.HasSuffix(r.Name, "-"+r.Protocol+"-"+port)
		must.Be(named, "%s: the rule is named %s", key, r.Name)
	}
}

// giveUp cleans up after a failed takeover: Services, addresses, the other provider's Deployment.
func (e *env) giveUp(all []*left) {
	e.clearPredecessor()
	if e.installed {
		e.removeAll()
	}
	now := e.addresses()
	for _, l := range all {
		if now[l.ip] == l.addressID {
			e.release(l.addressID)
		}
	}
}
