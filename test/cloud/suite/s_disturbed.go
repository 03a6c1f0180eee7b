// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

const (
	faultServices = 8
	faultSeed     = 16
	faultShare    = 0.1
	// faultLimit is the time within which all Services must be served.
	faultLimit = 2 * time.Minute
)

// faults creates and deletes Services while calls fail.
func faults(e *env) string {
	undo := e.proxy.SetFault(proxy.Random(faultSeed, faultShare, faultShare))
	defer undo()
	mark, begun := e.proxy.Mark(), time.Now()
	names := make([]string, faultServices)
	for i := range names {
		names[i] = fmt.Sprintf("web%d", i)
		e.create(names[i], "80,443,8443")
	}

	for _, name := range names {
		if err := must.Catch(func() {
			testenv.Await(e.ctx, faultLimit-time.Since(begun), "Service "+name+" to be served in spite of the faults",
				func(context.Context) { e.isServed(name, "80,443,8443") })
		}); err != nil {
			must.Fail("%w; all %d Services are to be served within %s; its Events: %s", err, faultServices, faultLimit,
				e.events(name))
		}
	}

	took := time.Since(begun)
	bad := len(slices.DeleteFunc(e.proxy.Since(mark), func(c proxy.Call) bool { return c.Fault == proxy.None }))
	must.Be(bad > 0, "no call failed and no answer was lost")
	addresses := len(e.addresses())
	begun = time.Now()
	e.removeAll()
	removed := time.Since(begun)
	e.nothingStranded()
	return fmt.Sprintf("%d Services of 3 ports served after %.0f s at %d addresses, %d calls went wrong; removed "+
		"after %.0f s",
		faultServices, took.Seconds(), addresses, bad, removed.Seconds())
}

// isServed checks that all nodes serve a Service at these ports.
func (e *env) isServed(name, ports string) {
	in := e.ingress(name)
	must.Be(len(in) > 0, "no address yet")
	complete(e.rules(in[0].IP), ports, e.names())
}

// nothingStranded checks that no address is left that ordinary lists do not show: one whose acquisition or release did
// not end.
func (e *env) nothingStranded() {
	for _, state := range []string{"Allocating", "Releasing"} {
		params := world.Params{
			"allocatedonly": "false",
			"state":         state,
		}.Set("projectid", e.projectID).Flag("listall", e.projectID == "")
		for _, o := range e.world.User.List(e.ctx, "listPublicIpAddresses", "publicipaddress", params) {
			ours := o.Text("account") == e.world.Account || o.Text("projectid") == e.projectID && e.projectID != ""
			must.Be(!ours, "address %s is left in state %s", o.Text("ipaddress"), state)
		}
	}
}

// damage is a change by somebody else, and the check that it was repaired.
type damage struct {
	what     string
	do, well func()
}

// driftPorts are the ports of the Service: each port is damaged in another way.
const driftPorts = "80,443,8443,9000"

// drift damages a served Service in rounds, with all damages of a round at once, and waits for the repairs.
func drift(e *env) string {
	e.cleanup(func() { e.csccm("upgrade", "--yes", "--set", "driftPeriod=") })
	e.csccm("upgrade", "--yes", "--set", "driftPeriod=10s")
	ip := e.served("web", driftPorts)
	e.serves(ip, driftPorts)
	var kinds []string
	for _, round := range e.damages(ip) {
		for _, d := range round {
			if err := must.Catch(d.do); err != nil {
				must.Fail("%s: %w", d.what, err)
			}
			kinds = append(kinds, d.what)
		}
		for _, d := range round {
			e.until("repair of: "+d.what, d.well)
		}
	}

	e.event("web", "DriftRepaired")
	e.remove("web")
	if e.vpcID != "" {
		e.remove("forwarded")
	}

	return "repaired within rounds of 10 s: " + strings.Join(kinds, ", ")
}

// damages returns the rounds of damages. The last round releases the Service's address, so that the Service gets a new
// one.
func (e *env) damages(ip string) [][]damage {
	// onRule makes a call for the rule of a port.
	onRule := func(what, port, command string, params world.Params) damage {
		return damage{what, func() {
			params["id"] = e.rules(ip)[port].ID
			e.do(command, params)
		}, func() {
			rules := e.rules(ip)
			complete(rules, driftPorts, e.names())
			for port, r := range rules {
				must.Be(r.Algorithm == "roundrobin" && r.Protocol == "tcp", "port %s: algorithm %s, protocol %s", port,
					r.Algorithm, r.Protocol)
			}
		}}
	}

	all := []damage{
		onRule("rule deleted", "80", "deleteLoadBalancerRule", world.Params{}),
		onRule("member removed", "443", "removeFromLoadBalancerRule", world.Params{"virtualmachineids": e.vms[0].ID}),
		onRule("algorithm changed", "8443", "updateLoadBalancerRule",
			world.Params{"algorithm": "leastconn", "protocol": "tcp"}),
		onRule("protocol changed", "9000", "updateLoadBalancerRule", world.Params{"protocol": "tcp-proxy"}),
	}

	released := []damage{{"address released", func() { e.release(e.addresses()[ip]) }, func() {
		in, all := e.ingress("web"), e.addresses()
		must.Be(len(in) == 1 && all[in[0].IP] != "", "the Service is at %v, the account has %v", in, all)
		e.isServed("web", driftPorts)
	}}}

	if e.vpcID == "" {
		return [][]damage{append(all, damage{"firewall rule deleted", func() {
			for _, f := range e.firewall(e.addresses()[ip]) {
				e.do("deleteFirewallRule", world.Params{"id": f.ID})
			}
		}, func() {
			list := e.firewall(e.addresses()[ip])
			must.Be(sources(list, "80") == annotation.Anyone && sources(list, "443") == annotation.Anyone,
				"the firewall is %v", list)
		}}), released}
	}

	old := e.aclID
	e.served("forwarded", "7000", "mode=direct", "direct-spread=1") // only forwarded traffic passes the tier's ACL list
	return [][]damage{append(all, damage{"ACL item deleted", func() {
		items := e.acl(e.aclID)
		must.Be(len(items) > 0, "no item lets anybody in")
		for _, item := range items {
			e.do("deleteNetworkACL", world.Params{"id": item.ID})
		}
	}, e.aclOpen}), {{"ACL list replaced", func() {
		e.aclID = e.world.ACLList(e.ctx, "vpc-acl-2", e.vpcID)
		e.do("replaceNetworkACLList", world.Params{"aclid": e.aclID, "networkid": e.networkID})
	}, func() {
		e.aclOpen()
		left := e.acl(old)
		must.Be(len(left) == 0, "%d items are left in the list that is not used any more", len(left))
	}}}, released}
}

// aclOpen checks that the tier's ACL list allows every client to reach the forwarded ports of the Service.
func (e *env) aclOpen() {
	items := e.acl(e.aclID)
	for _, p := range e.get("forwarded").Spec.Ports {
		// The controller allows either the public port or the node port in the ACL.
		open := slices.ContainsFunc(items, func(i cloudstack.NetworkACL) bool {
			return i.StartPort <= int(p.NodePort) && int(p.NodePort) <= i.EndPort ||
				i.StartPort <= int(p.Port) && int(p.Port) <= i.EndPort
		})
		must.Be(open, "no item for port %d (node port %d) in %v", p.Port, p.NodePort, items)
	}
}

// mostCrashPoints bounds the search for the last call that changes something.
const mostCrashPoints = 40

// deletionCalls is the number of calls of a deletion. Only one of them changes something, so the controller is killed
// at every call.
const deletionCalls = 4

// crashPoints creates and deletes a Service repeatedly. Each time, the controller is killed after CloudStack has
// executed the k-th call that changes something, or the k-th call of a deletion. A new controller must finish the
// work.
func crashPoints(e *env) string {
	alone := e.byItself()
	before := len(e.addresses())
	points := map[string]int{}
	for k, more := 1, true; more && k <= mostCrashPoints; k++ {
		name := fmt.Sprintf("web%d", k)
		more = false
		for _, w := range []struct {
			what        string
			begin, done func()
			addresses   int
		}{
			{
				"creation", func() { e.create(name, "80,443") },
				func() { e.serves(e.address(name), "80,443") }, before + 1,
			},
			{
				"deletion", func() { must.OK(e.services().Delete(e.ctx, name, metav1.DeleteOptions{})) },
				func() { e.gone(name) }, before,
			},
		} {
			if w.what == "deletion" && k > deletionCalls {
				w.begin()
				w.done()
				continue
			}
			crashed, err := must.Try(func() bool {
				crashed := alone.crash(k, w.what == "deletion", w.begin, w.done)
				now := len(e.addresses())
				must.Be(now == w.addresses, "%d addresses are held, want %d", now, w.addresses)
				return crashed
			})
			if err != nil {
				must.Fail("killed at call %d of the %s: %w", k, w.what, err)
			}
			if crashed {
				points[w.what]++
				more = true
			}
		}
	}

	e.nothingStranded()
	return fmt.Sprintf("%d crash points of a creation, %d of a deletion, each finished by the next process",
		points["creation"], points["deletion"])
}

// byItself runs the controller as a process on this machine instead of Pods. It can be killed at once, and does not
// wait for a lease when it starts again.
type byItself struct {
	*env
	config  string // its cloud-config
	log     string
	process *child.Process
}

// byItself stops the controller's Pods and starts the process. At the end of the scenario the Pods start again.
func (e *env) byItself() *byItself {
	b := &byItself{env: e, config: filepath.Join(e.home, "cloud-config"), log: filepath.Join(e.home, "controller.log")}
	secret := must.Get(e.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(e.ctx, secretName,
		metav1.GetOptions{}))
	must.OK(os.WriteFile(b.config, secret.Data["cloud-config"], 0o600))
	e.cleanup(func() {
		b.kill()
		_ = os.Remove(b.config)
		e.scale(1)
	})
	e.scale(0)
	b.start()
	return b
}

func (b *byItself) start() {
	b.process = must.Get(child.Start(b.ctx, child.Command{
		Name: "cloudstack-ccm", Path: b.Programs.Controller, Log: b.log, Dir: b.home, Env: []string{"TMPDIR=" + b.dir},
		Args: []string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + b.config,
			"--kubeconfig=" + b.cluster.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--v=1",
		},
	}))
}

func (b *byItself) kill() {
	if b.process != nil {
		b.process.Stop(0)
	}
}

// crash begins work and kills the process at the k-th call, or without every at the k-th call that changes something.
// Then it starts the process again. It reports whether there was such a call. done waits until the work is finished.
func (b *byItself) crash(k int, every bool, begin, done func()) (crashed bool) {
	dead := make(chan string, 1)
	undo := b.proxy.SetFault(proxy.CrashAt(k, every, func(at string) { b.kill(); dead <- at }))
	defer undo()
	begin()
	finished := make(chan error, 1)
	go func() { finished <- must.Catch(done) }()
	select {
	case err := <-finished: // fewer calls than k
		must.OK(err)
		return false
	case at := <-dead:
		undo()
		b.start()
		if err := <-finished; err != nil {
			must.Fail("%s: %w; the log ends with: %s", at, err, child.Tail(b.log, 5))
		}
		return true
	}
}

// scale sets the replicas of the controller's Deployment and waits for its Pods.
func (e *env) scale(replicas int32) {
	d := e.cluster.Client.AppsV1().Deployments(metav1.NamespaceSystem)
	s := must.Get(d.GetScale(e.ctx, deployment, metav1.GetOptions{}))
	s.Spec.Replicas = replicas
	must.Get(d.UpdateScale(e.ctx, deployment, s, metav1.UpdateOptions{}))
	e.until(fmt.Sprintf("%d Pods of the controller", replicas), func() {
		now := must.Get(d.Get(e.ctx, deployment, metav1.GetOptions{}))
		selector := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(now.Spec.Selector)}
		pods := must.Get(e.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(e.ctx, selector)).Items
		must.Be(now.Status.ReadyReplicas == replicas && len(pods) == int(replicas), "%d of %d Pods are ready",
			now.Status.ReadyReplicas, len(pods))
	})
}
