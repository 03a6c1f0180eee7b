// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// history is a generated scenario: lines that describe the world and the controller, then lines of steps, in the
// language of pkg/testenv/script. See explorer.Do for the steps. A step that is impossible in the current state,
// because its Service or its node was deleted, does nothing. So a history without some of its lines is still a history.
type history []string

// String returns the history as a scenario.
func (h history) String() string {
	return "== a history\n" + strings.Join(h, "\n") + "\nexpect promises\n"
}

// parts returns the lines that describe the world and the controller, and the steps.
func (h history) parts() (setup, steps []string) {
	settings := []string{"world", "nodes", "tenancy", "latency", "seed", "controllers", "config", "second-cluster"}
	n := slices.IndexFunc(h, func(line string) bool {
		verb, _, _ := strings.Cut(line, " ")
		return !slices.Contains(settings, verb)
	})
	if n < 0 {
		n = len(h)
	}
	return h[:n], h[n:]
}

// generator generates a history from a seed.
type generator struct {
	*rand.Rand
	place    string // net, vpc or project
	nodes    []string
	keys     []string // of Services
	choices  []choice // of steps
	changes  []choice // of Services
	commands []choice // with a fault
	byHand   []string // steps that delete what operators have created
}

// choice is one of several texts, with a weight. A text is lines of a history, or words of a line.
type choice struct {
	weight int
	text   func() string
}

func (g *generator) of(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

// oneOf returns a choice among texts of equal weight.
func (g *generator) oneOf(weight int, list ...string) choice {
	return choice{weight, func() string { return g.of(list...) }}
}

func (g *generator) choose(list []choice) string {
	total := 0
	for _, c := range list {
		total += c.weight
	}
	n := g.IntN(total)
	for _, c := range list {
		if n -= c.weight; n < 0 {
			return c.text()
		}
	}
	return ""
}

// exploredNodes are the nodes of each place.
var exploredNodes = map[string][]string{
	"net":     {"w1", "w2", "w3", "w4"},
	"vpc":     {"x1", "x2", "x3", "x4"},
	"project": {"w1", "w2", "w3", "p1", "p2"},
}

// exploredAddresses is how many addresses the account of each place has at the start.
var exploredAddresses = map[string]int{"net": 11, "vpc": 13, "project": 11}

// generate returns the history of a seed.
func generate(seed uint64) history {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 77))}
	h := history(g.setup(seed))
	g.changes, g.commands = g.changesOfServices(), g.faults()
	g.choices = slices.Concat(g.byOwners(), g.ofNodes(), g.byOperators(), g.ofProcesses())
	if g.chance(0.75) {
		g.choices = append(g.choices, g.ofFaults()...)
	}

	h = append(h, g.create(), g.create())
	for range 20 + g.IntN(41) {
		h = append(h, strings.Split(g.choose(g.choices), "\n")...)
		if g.chance(0.55) {
			h = append(h, "wait "+g.of("0s", "50ms", "200ms", "300ms", "1s", "1s", "3s", "5s", "10s", "30s", "1m",
				"2m", "5m", "6m", "6m", "15m", "1h"))
		}
	}
	return h
}

func (g *generator) setup(seed uint64) []string {
	g.place = g.of("net", "net", "net", "vpc", "vpc", "project")
	world := fmt.Sprintf("world explored:%s/%d", g.place, 2+g.IntN(5))
	if g.chance(0.4) {
		world += fmt.Sprintf(" limit:%d", exploredAddresses[g.place]+2+g.IntN(5))
	}
	if g.chance(0.15) {
		world += " release:" + g.of("4.19", "4.19", "4.18", "4.20")
	}
	if g.chance(0.15) {
		world += " deny:" + g.of(deniedTags, deniedTags, "listAsyncJobs", "listZones", "listNetworkACLLists",
			"listApis,listCapabilities")
	}

	if g.place == "net" && g.chance(0.15) {
		world += " conserveless"
	}

	g.nodes = exploredNodes[g.place]
	n := 2 + g.IntN(len(g.nodes)-1)
	if g.place == "project" {
		n = len(g.nodes)
	}
	out := []string{
		world,
		"nodes " + strings.Join(g.nodes[:n], " "),
		"tenancy " + g.of("all", "all", "default", "limits"),
		"latency " + g.of("instant", "quick", "quick", "simulator", "simulator", "production"),
		fmt.Sprintf("seed %d", seed),
	}
	if g.chance(0.5) {
		out = append(out, "controllers")
	}
	if g.chance(0.1) {
		out = append(out, "config lb-mode="+g.of("direct", "proxy"))
	}
	if g.place != "project" && g.chance(0.2) {
		out = append(out, "second-cluster")
	}

	g.keys = []string{"default/a", "default/b", "shop/a", "default/c", "shop/b", "blog/a"}[:3+g.IntN(4)]
	return out
}

// deniedTags are the commands that a role lacks if it may not tag.
const deniedTags = "createTags,deleteTags,listTags,listZones"

func (g *generator) key() string { return g.of(g.keys...) }

func (g *generator) node() string { return g.of(g.nodes...) }

func (g *generator) ports() string {
	return g.of("80", "80", "80,443", "80,81", "80-82", "443", "8080", "udp:53", "80,udp:53", "443,udp:443",
		"80,443,udp:443", "25", "80,82,84", "8000-8006", "udp:53,udp:54", "8081", "53")
}

// ranges returns a list of sources. The lists overlap in many ways.
func (g *generator) ranges() string {
	return g.of("10.0.0.0/8", "10.0.0.0/8,192.168.0.0/16", "10.0.0.0/9", "10.128.0.0/9", "0.0.0.0/0", "192.168.1.7/32",
		"192.168.1.7/32,10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12,10.0.0.0/8", "10.1.0.0/16,10.2.0.0/16")
}

// address returns an address of the pool, of others, or of a Service.
func (g *generator) address() string {
	if g.chance(0.4) {
		return "${" + g.key() + "}"
	}
	return "203.0.113." + g.of("60", "61", "62", "63", "31", "48", "30", "10", "41", "42", "46", "33", "99")
}

func (g *generator) changesOfServices() []choice {
	text := func(weight int, prefix string, value func() string) choice {
		return choice{weight, func() string { return prefix + value() }}
	}
	list := []choice{
		text(8, "", func() string {
			return g.of("+", "-") + g.of("80", "443", "81", "82", "8080", "25", "udp:53", "udp:443", "udp:80")
		}),
		text(4, "ports=", g.ports),
		g.oneOf(6, "renode", "renode", "renode:80", "renode:443", "renode:53"),
		text(4, "ranges=", g.ranges),
		text(5, "source-cidrs=", g.ranges),
		g.oneOf(2, "ranges=", "-source-cidrs", "source-cidrs="),
		g.oneOf(4, "proxy-protocol=true", "proxy-protocol=80", "proxy-protocol=false", "-proxy-protocol",
			"-proxy-protocol"),
		g.oneOf(3, "algorithm=source", "algorithm=leastconn", "-algorithm", "-algorithm", "algorithm=fastest"),
		g.oneOf(3, "stickiness=source", "stickiness=lb-cookie", "-stickiness -stickiness-options",
			"stickiness=source stickiness-options=expire=30m", "-stickiness -stickiness-options"),
		text(5, "address=", g.address),
		text(3, "ip=", g.address),
		g.oneOf(4, "-address", "ip=", "-address ip="),
		g.oneOf(4, "keep-ip=true", "-keep-ip"),
		g.oneOf(3, "share-with=shop", "share-with=*", "-share-with", "share-with=default"),
		g.oneOf(3, "hostname=lb.example.org", "-hostname"),
		g.oneOf(4, "mode=direct", "mode=proxy", "mode=auto", "-mode", "-mode", "mode=direct direct-spread=2",
			"direct-spread=4"),
		g.oneOf(4, "policy=Local", "policy=Local", "policy=Cluster"),
		g.oneOf(2, "affinity=ClientIP", "affinity=None"),
		g.oneOf(5, "type=ClusterIP", "type=LoadBalancer", "type=LoadBalancer", "type=NodePort"),
		g.oneOf(1, "type=LoadBalancer class=example.com/x"),
		g.oneOf(3, "node-selector=pool=edge", "-node-selector", "-node-selector"),
		g.oneOf(1, "zone=zone-1", "-zone", "zone=zone-9"),
		g.oneOf(1, "no-annotations", "no-status"),
		g.oneOf(2, "example.org/note=x", "example.org/note=y"),
		g.oneOf(1, "network=k8s-net", "network=no-net", "-network", "-network"),
	}

	switch g.place {
	case "vpc":
		list = append(list, g.oneOf(10, "internal=true network=inner", "-internal -network", "network=inner",
			"network=tier", "-network"))
	case "project":
		list = append(list, g.oneOf(8, "project=dev", "project=dev", "-project", "project=nowhere"))
	}

	return list
}

// words returns one to three changes of a Service.
func (g *generator) words() string {
	var out []string
	for range 1 + g.IntN(3) {
		out = append(out, g.choose(g.changes))
	}
	return strings.Join(out, " ")
}

func (g *generator) create() string {
	words := ""
	if g.chance(0.6) {
		words = g.words()
	}
	switch {
	case g.place == "vpc" && g.chance(0.35):
		words += " internal=true network=inner"
	case g.place == "project" && g.chance(0.5):
		words += " project=dev"
	}
	// A new Service must request a load balancer, and has no status or annotations to remove.
	words = strings.NewReplacer("type=ClusterIP", "", "type=NodePort", "", "no-status", "", "no-annotations",
		"").Replace(words)
	return strings.Join(strings.Fields("service "+g.key()+" "+g.ports()+" "+words), " ")
}

// line returns a choice of lines in which parts are other choices.
func line(weight int, format string, parts ...func() string) choice {
	return choice{weight, func() string {
		var args []any
		for _, part := range parts {
			args = append(args, part())
		}
		return fmt.Sprintf(format, args...)
	}}
}

// some returns a part of a line.
func (g *generator) some(list ...string) func() string { return func() string { return g.of(list...) } }

// byOwners returns the changes of Services that their owners make.
func (g *generator) byOwners() []choice {
	return []choice{
		{14, g.create},
		line(32, "edit %s %s", g.key, g.words),
		line(7, "deletes %s", g.key),
		line(3, "vanish %s", g.key),
		line(2, "edit %s no-finalizers", g.key),
		line(2, "edit %[1]s keep-ip=true\nwait 30s\ndeletes %[1]s", g.key),
		line(2, "edit %[1]s ports=%[3]s address=${%[2]s}", g.key, g.key, g.some("8443", "9443", "udp:5353")),
		line(1, "edit %s address=203.0.113.%s", g.key, g.some("10", "31", "41")), // of source NAT and others
		{4, func() string {
			key := g.key()
			return g.of("deletes ", "vanish ") + key + "\nwait " + g.of("0s", "100ms", "1s", "1m") + "\nservice " +
				key + " " +
				g.ports()
		}},
		// A port moves from one Service to another.
		line(2, "edit %[1]s -%[3]s\nedit %[2]s +%[3]s address=${%[1]s}", g.key, g.key, g.some("80", "443")),
		line(6, "endpoints %s %s", g.key, g.someNodes),
		line(2, "endpoints %s", g.key),
		line(1, "service mass/m*%s %s", g.some("5", "9", "14"), g.some("80", "80,443", "udp:53")),
		g.oneOf(1, "deletes mass/m*14"),
	}
}

// someNodes returns nodes with endpoints, some of which are terminating.
func (g *generator) someNodes() string {
	var out []string
	for _, n := range g.nodes {
		if g.chance(0.5) {
			out = append(out, n+g.of("", "", ":ending"))
		}
	}
	return strings.Join(out, " ")
}

// ofNodes returns changes of Nodes and their VMs.
func (g *generator) ofNodes() []choice {
	return []choice{
		line(3, "join %s", g.node),
		line(3, "leave %s", g.node),
		line(2, "%s %s", g.some("unready", "ready", "ready"), g.node),
		line(2, "label %s %s", g.node, g.some("pool=edge", "pool=", excludeLabel+"=true", excludeLabel+"=")),
		line(2, "taint %s ToBeDeletedByClusterAutoscaler", g.node),
		line(2, "untaint %s", g.node),
		line(2, "by-hand stopVirtualMachine id=vm:%[1]s forced=true\nunready %[1]s", g.node),
		line(2, "by-hand startVirtualMachine id=vm:%[1]s\nready %[1]s", g.node),
		line(2, "by-hand destroyVirtualMachine id=vm:%[1]s expunge=true\nunready %[1]s", g.node),
		line(3, "deploy %[1]s\njoin %[1]s", g.node),
	}
}

const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"

// byOperators returns repairs and mistakes that operators make in CloudStack.
func (g *generator) byOperators() []choice {
	list := []choice{
		line(3, "by-hand deleteLoadBalancerRule id=rule:%s:%s", g.key, g.some("80", "443", "81")),
		line(2, "by-hand deleteFirewallRule id=firewall:%s:%s", g.key, g.some("80", "443", "53")),
		line(2, "by-hand deletePortForwardingRule id=forward:%s:%s", g.key, g.some("53", "443", "80")),
		line(2, "by-hand removeFromLoadBalancerRule id=rule:%s:%s virtualmachineids=vm:%s", g.key, g.some("80", "443"),
			g.node),
		line(2, "by-hand deleteTags resourcetype=PublicIpAddress resourceids=address:%s", g.key),
		line(1, "by-hand deleteTags resourcetype=LoadBalancer resourceids=rule:%s:80", g.key),
		line(1, "by-hand deleteTags resourcetype=FirewallRule resourceids=firewall:%s:80", g.key),
		line(2, "by-hand deleteNetworkACL id=acl-item:%s", g.key),
		line(3, "release %s", g.key),
		{4, func() string { return g.making("", "releases") }},
		{2, func() string {
			return g.making("by-hand createLoadBalancerRule name=by-hand algorithm=roundrobin openfirewall=false "+
				"privateport=80 "+
				"publicport="+g.of("9000", "9001")+" publicipid=address:"+g.key(), "deleteLoadBalancerRule")
		}},
		{2, func() string {
			return g.making("by-hand createFirewallRule protocol=tcp startport=9100 endport=9100 "+
				"cidrlist=198.51.100.0/24 "+
				"ipaddressid=address:"+g.key(), "deleteFirewallRule")
		}},
		{2, func() string {
			return g.making("by-hand createPortForwardingRule protocol=tcp privateport=22 openfirewall=false "+
				"publicport="+g.of("9200", "9201")+" ipaddressid=address:"+g.key()+" virtualmachineid=vm:"+
				g.of("w5", "v1"), "deletePortForwardingRule")
		}},
		{2, func() string {
			if len(g.byHand) == 0 {
				return "wait 1s"
			}
			return g.of(g.byHand...)
		}},
	}

	restarted := map[string]string{"net": "k8s-net", "vpc": "tier", "project": "project-net"}[g.place]
	list = append(list, line(2, "by-hand restartNetwork id=network:"+restarted+" cleanup=%s", g.some("true", "false")))
	if g.place == "vpc" {
		list = append(list, line(2, "acl-list %s %s", g.some("tier", "inner"),
			g.some("acl-1", "acl-2", "default_allow", "default_deny")))
	}

	return list
}

// making returns a step in which an operator creates something and names it. Without a step, the operator acquires an
// address, possibly one that belonged to a Service a moment ago.
func (g *generator) making(step, undo string) string {
	name := fmt.Sprintf("F%d", len(g.byHand)+1)
	if step != "" {
		g.byHand = append(g.byHand, "by-hand "+undo+" id=$"+name)
		return step + " > " + name
	}
	g.byHand = append(g.byHand, "release "+name)
	key := g.key()
	return g.of("acquire "+name, "acquire "+name+" "+g.of("203.0.113.60", "203.0.113.61"),
		"release "+key+"\nacquire "+name+" ${"+key+"}")
}

// ofProcesses returns restarts and similar events of the controller.
func (g *generator) ofProcesses() []choice {
	return []choice{
		g.oneOf(4, "restart"),
		g.oneOf(2, "stop"),
		g.oneOf(3, "start"),
		g.oneOf(3, "fail-over"),
		g.oneOf(3, "wait 1h"),
		line(1, "rotate-keys %s", g.some("0s", "30s", "3m")),
		line(2, "clock %s\n%s", g.some("-5m", "-1m", "0s", "1m", "5m"), g.some("restart", "fail-over")),
	}
}

// ofFaults returns failures of CloudStack, of the API server and of processes.
func (g *generator) ofFaults() []choice {
	number := func() string { return fmt.Sprint(1 + g.IntN(5)) }
	when := g.some("before", "after")
	return []choice{
		{18, func() string { return "fault " + g.choose(g.commands) }},
		g.oneOf(6, "heal"),
		line(8, "kill call %s %s %s", func() string { return fmt.Sprint(1 + g.IntN(12)) }, when,
			g.some("0s", "5s", "1m", "20m")),
		line(3, "kill write %s %s %s", number, when, g.some("0s", "5s", "1m")),
		line(3, "kill kube %s %s %s", number, when, g.some("0s", "5s", "1m")),
		line(2, "outage %s", g.some("5s", "1m", "5m", "20m")),
		line(2, "speed %s", g.some("0.05", "0.2", "1", "1")),
		line(3, "fail-writes %s %s", g.some("conflict", "error", "lost"), number),
		line(2, "hold %s", g.some("services", "nodes", "endpointslices")),
		g.oneOf(3, "resume"),
	}
}

// faults returns the faults of CloudStack's commands.
func (g *generator) faults() []choice {
	write := g.some("associateIpAddress", "disassociateIpAddress", "createLoadBalancerRule", "deleteLoadBalancerRule",
		"updateLoadBalancerRule",
		"assignToLoadBalancerRule", "removeFromLoadBalancerRule", "createFirewallRule", "deleteFirewallRule",
		"createTags", "deleteTags",
		"createPortForwardingRule", "updatePortForwardingRule", "deletePortForwardingRule", "createNetworkACL",
		"deleteNetworkACL", "createLBStickinessPolicy", "createLoadBalancer", "deleteLoadBalancer")

	read := g.some("listPublicIpAddresses", "listLoadBalancerRules", "listFirewallRules", "listPortForwardingRules",
		"listVirtualMachines",
		"listNetworks", "queryAsyncJobResult", "listAsyncJobs", "listNetworkACLs", "listLoadBalancers",
		"listLoadBalancerRuleInstances", "listLBStickinessPolicies", "listTags", "listProjects", "listApis")

	often := func() string {
		if g.chance(0.2) {
			return g.of("p=0.3", "p=0.1", "p=0.6")
		}
		return fmt.Sprintf("count=%d", 1+g.IntN(3))
	}

	codes := g.some("530", "530", "431", "531", "537", "533", "535", "534", "401")
	return []choice{
		line(5, "%s:error:%s,code=%s,text=%s", write, often, codes, g.some("injected", "signature=canary-signature")),
		line(6, "%s:cut-after:%s", write, often),
		line(3, "%s:cut-before:%s", write, often),
		line(6, "%s:job-fails:%s", write, often),
		line(3, "%s:router-refuses:%s", write, often),
		line(1, "%s:job-never-ends:count=1", g.some("associateIpAddress", "createLoadBalancerRule",
			"assignToLoadBalancerRule", "createFirewallRule", "createTags")),
		line(3, "%s:delay:%s,delay=%s", write, often, g.some("3s", "20s", "70s", "130s")),
		line(2, "%s:restart:count=1,delay=%s", write, g.some("1s", "30s")),
		line(4, "%s:error:%s,code=%s,text=injected", read, often, g.some("530", "431", "503", "401", "432")),
		line(2, "%s:cut-after:%s", read, often),
		line(2, "*:throttled:count=%s,delay=2s", g.some("3", "10")),
		g.oneOf(2, "*:error:p=0.1,code=530,text=injected"),
		g.oneOf(2, "*:cut-after:p=0.1"),
		line(2, "associateIpAddress:%s:count=2", g.some("quota", "capacity")),
		g.oneOf(1, "*:maintenance:count=5"),
	}
}
