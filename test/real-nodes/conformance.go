// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/conformance"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/realnode"
)

// conformanceChapters returns a chapter for each of the named forms in which Kubernetes' own tests run; "all" selects
// all forms.
func conformanceChapters(forms string, rolling bool) (all []chapter) {
	suite, wanted := conformance.Load(), strings.Fields(forms)
	for _, form := range suite.Forms {
		if forms != "all" && !slices.Contains(wanted, form.Name) {
			continue
		}

		world := func() *place {
			p := isolated()
			if form.World == "tier" {
				p = tier()
			}
			p.world.Version, p.latency = form.Server, must.Get(simulator.Profile(form.Latency))
			return p
		}

		scenarios := []scenario{
			{"csccm install", installed(append([]string{"--account", account}, form.Install...)...)},
			{kubernetesTests, func(ctx context.Context, e *env) string { return e.conform(ctx, suite, form, rolling) }},
		}

		if !form.Direct() { // a forwarded port leads to one node
			scenarios = append(scenarios,
				scenario{"every node with Pods answers, policy Local", everyNode},
				scenario{"no node port: what the Event says helps", noNodePort})
		}

		all = append(all, chapter{form.Name, world, scenarios})
	}

	known := forms == "all" || len(all) == len(wanted)
	must.Be(known, "--conformance %q: the forms are in test/conformance/tests.yaml", forms)
	return all
}

// kubernetesTests is the name of the scenario that runs Kubernetes' tests.
const kubernetesTests = "Kubernetes' tests"

// conform runs Kubernetes' tests outside the router, in parallel lanes, and then runs the failed tests again, one by
// one.
func (e *env) conform(ctx context.Context, suite conformance.Suite, form conformance.Form, rolling bool) string {
	e.serveDNS(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	services := must.Get(e.Client.CoreV1().Services(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{}))
	go e.otherPorts(ctx, services.ResultChan())
	if form.Kill != "" {
		go e.killLeaders(ctx, must.Get(time.ParseDuration(form.Kill)))
	}

	lanes := suite.Lanes(form.Name, rolling)
	names := slices.Sorted(maps.Keys(lanes))
	reports := make([][]byte, len(names), len(names)+1)
	must.Each(len(names), func(i int) { reports[i] = e.lane(ctx, form.Name+"-"+names[i], lanes[names[i]]) })

	if again := suite.Failed(suite.Judge(form.Name, rolling, reports...)); again != "" {
		_, _ = fmt.Fprintln(os.Stderr, "Running again what failed:", again)
		reports = append(reports, e.lane(ctx, form.Name+"-again", again))
	}
	e.tests = suite.Judge(form.Name, rolling, reports...)
	failed := suite.Failed(e.tests)
	must.Be(failed == "", "failed: %s", failed)
	e.until(ctx, "nothing of the tests' Services to be left in the router", func(context.Context) {
		left := e.path.Status()
		must.Be(len(left.Rules)+len(left.Forwards) == 0, "it has %+v", left)
	})
	return ""
}

// lane runs the tests with matching names one after the other and returns the report. The log is next to the programs.
func (e *env) lane(ctx context.Context, name, focus string) []byte {
	log := filepath.Join(filepath.Dir(e.programs.Binaries.CLI), "conformance", strings.ReplaceAll(name, " ", "-"))
	must.OK(os.MkdirAll(filepath.Dir(log), 0o750))
	_ = os.Remove(log + ".xml")            // of an earlier run
	f := must.Get(os.Create(log + ".log")) // #nosec G304 -- our own folder
	defer func() { _ = f.Close() }()

	cmd := e.outside.Command(ctx, e.programs.Conformance.Suite,
		"--kubeconfig="+e.Kubeconfig, "--kubectl-path="+e.Kubectl, "--provider=skeleton", "--num-nodes=3",
		"--ginkgo.focus="+focus, "--ginkgo.v", "--ginkgo.no-color", "--ginkgo.timeout=1h",
		"--ginkgo.junit-report="+log+".xml")
	cmd.Env = append(os.Environ(), "HOME="+e.home, "KUBECONFIG="+e.Kubeconfig)
	cmd.Stdout, cmd.Stderr = f, f
	_ = cmd.Run() // it fails when a test fails; the report says which

	return must.Get(os.ReadFile(log + ".xml")) // #nosec G304 -- our own folder
}

// killLeaders kills the leader of the controller once in each period, until the context ends.
func (e *env) killLeaders(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := must.Catch(func() { e.killLeader(ctx) }); err != nil && ctx.Err() == nil {
				_, _ = fmt.Fprintln(os.Stderr, "kill the leader:", err)
			}
		}
	}
}

// otherPorts follows the advice of the Event ReservedPort: it gives Services another port.
func (e *env) otherPorts(ctx context.Context, services <-chan watch.Event) {
	for event := range services {
		reserved := func(c metav1.Condition) bool { return c.Reason == "ReservedPort" }
		s, ok := event.Object.(*corev1.Service)
		if !ok || !slices.ContainsFunc(s.Status.Conditions, reserved) {
			continue
		}
		s.Spec.Ports[0].Port++
		// After a conflict the object has a new version, which causes another watch event.
		_, _ = e.Client.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
	}
}

// serveDNS starts a DNS server on the router for the names of Services with a cluster IP, and makes it the cluster's
// DNS server.
func (e *env) serveDNS(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // it ends with the sandbox
	router := e.place.gateway.Addr().String()
	conn := must.Get((&net.ListenConfig{}).ListenPacket(ctx, "udp", net.JoinHostPort(router, "53")))
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			// The resolver repeats a query that gets no answer.
			_ = must.Catch(func() { must.Get(conn.WriteTo(e.resolve(ctx, query[:n]), from)) })
		}
	}()
	manifest := string(must.Get(os.ReadFile(filepath.Join(e.programs.Root, "test/conformance/dns.yaml"))))
	e.run(ctx, strings.ReplaceAll(manifest, "ROUTER", router), e.Kubectl, "apply", "-f", "-")
}

// resolve answers a query for SERVICE.NAMESPACE.svc.cluster.local.
func (e *env) resolve(ctx context.Context, query []byte) []byte {
	var m dnsmessage.Message
	must.OK(m.Unpack(query))
	m.Response, m.Authoritative, m.RCode, m.Additionals = true, true, dnsmessage.RCodeNameError, nil

	q := m.Questions[0]
	name, _ := strings.CutSuffix(q.Name.String(), ".svc.cluster.local.")
	service, namespace, _ := strings.Cut(name, ".")
	if s, err := e.Client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{}); err == nil {
		m.RCode = dnsmessage.RCodeSuccess
		if q.Type == dnsmessage.TypeA {
			body := &dnsmessage.AResource{A: must.Get(netip.ParseAddr(s.Spec.ClusterIP)).As4()}
			header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
			m.Answers = []dnsmessage.Resource{{Header: header, Body: body}}
		}
	}
	return must.Get(m.Pack())
}

// everyNode checks that with policy Local the load balancer sends requests to every node with a Pod.
func everyNode(ctx context.Context, e *env) string {
	to := e.served(ctx, "every-node", localTraffic)
	nodes := map[string]bool{}
	for range 30 {
		nodes[ask(ctx, client1, to).Node] = true
	}
	must.Be(len(nodes) == replicas, "30 requests reached %d of %d nodes", len(nodes), replicas)
	return fmt.Sprintf("%d nodes answer", len(nodes))
}

// noNodePort follows the advice of the Event of a Service without a node port.
func noNodePort(ctx context.Context, e *env) string {
	const name, field = "no-node-port", "spec.allocateLoadBalancerNodePorts"
	e.service(ctx, name, func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(bool) })
	e.until(ctx, "an Event that says what to do", func(ctx context.Context) {
		events := e.kubectl(ctx, "events", "--for=service/"+name)
		must.Be(strings.Contains(events, "set "+field+" to true"), "%s", events)
	})

	e.kubectl(ctx, "patch", "service", name, "-p", `{"spec": {"allocateLoadBalancerNodePorts": true}}`)
	to := netip.AddrPortFrom(e.address(ctx, metav1.NamespaceDefault, name), 80)
	e.answers(ctx, client1, to, ask)
	return "set " + field + " to true, then it answers"
}

// conformance builds and runs Kubernetes' tests for each of the minors, and prints and writes the page.
func (s *settings) conformance(ctx context.Context) (code int) {
	var runs []conformance.Run
	for _, minor := range s.minors {
		p := s.prepare(ctx, minor)
		p.Conformance = must.Get(conformance.Ensure(ctx, minor, os.Stderr))
		archive := p.Conformance.Suite + "-agnhost.tar"
		files := realnode.Tools(ctx)
		files["/etc/wgetrc"] = filepath.Join(p.Root, "test/conformance/wgetrc")
		realnode.WriteImage(archive, p.Conformance.Image, p.Conformance.Agnhost, files)
		p.Images = append(p.Images, archive)

		for _, j := range s.jobs(nil) {
			run := conformance.Run{Form: j.Chapter, Release: minor.Release()}
			for _, r := range inSandbox(ctx, p, j) {
				run.Took += r.Took
				ours := conformance.Outcome{
					Test:   "ours: " + r.Scenario,
					Result: conformance.Passed,
					Says:   firstLine(r.Fail),
					Took:   r.Took,
				}
				if r.Fail != "" {
					ours.Result, code = conformance.Failed, 1
				}
				if r.Tests == nil || r.Fail != "" {
					r.Tests = append(r.Tests, ours)
				}
				run.Outcomes = append(run.Outcomes, r.Tests...)
			}
			runs = append(runs, run)
		}
	}
	text := conformance.Load().Page(time.Now().UTC().Format(time.DateOnly), runs)
	fmt.Println(text)
	if ctx.Err() != nil {
		return 130
	}
	if s.out != "" {
		must.OK(os.WriteFile(s.out, []byte(text), 0o644)) // #nosec G306 -- documentation
	}
	return code
}
