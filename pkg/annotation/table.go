// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"slices"
	"strings"
)

// Checks in CEL, over the string v. They use only functions that every API server since 1.30 has.
const (
	celBoolean = `v.trim().lowerAscii() in ['true', 'false', 'enabled', 'disabled', 'yes', 'no', 'on', 'off']`
	celPorts   = `v.trim().matches('^[A-Za-z0-9-]+([ ]*,[ ]*[A-Za-z0-9-]+)*$')`
	celUUID    = `v.trim().matches('^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$')`
	celIPv4    = `isIP(v.trim()) && ip(v.trim()).family() == 4`
	celRanges  = `v.trim() == '' || v.split(',').all(r, isCIDR(r.trim()) || isIP(r.trim()) || r.trim().matches('^[0-9a-fA-F.]*:[0-9a-fA-F:.]*(%.+)?(/([0-9]{1,2}|1[01][0-9]|12[0-8]))?$'))`
	celName    = `v.trim() != '' && size(v.trim()) <= 255 && !v.trim().matches('[[:cntrl:]]')`
	// A selector's grammar without the lengths of its parts.
	celKey      = `[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?`
	celWord     = `([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?`
	celWords    = `[(]\\s*` + celWord + `(\\s*,\\s*` + celWord + `)*\\s*[)]`
	celRequire  = `([!]\\s*` + celKey + `|` + celKey + `(\\s*(=|==|!=)\\s*` + celWord + `|\\s+(in|notin)\\s*` + celWords + `|\\s*[<>]\\s*[0-9]+)?)`
	celSelector = `v.trim() == '' || v.trim().matches('^` + celRequire + `(\\s*,\\s*` + celRequire + `)*$')`
	celShare    = `v.trim() == '' || v.split(',').all(n, n.trim() == '*' || n.trim().matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'))`
	celOff      = `v.trim().lowerAscii() in ['false', 'disabled', 'no', 'off']`
	celSpread   = `v.trim().matches('^([1-9]|[12][0-9]|3[0-2])$')`
	celDNS      = `size(v.trim()) <= 253 && !isIP(v.trim()) && v.trim().matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`
)

func celOptions() string {
	return `v.trim() == '' || v.split(',').all(o, o.trim().matches('` + stickinessOptionPattern() + `'))`
}

func celOneOf(words ...string) string {
	return `v.trim().lowerAscii() in ['` + strings.Join(words, `', '`) + `']`
}

// Table is every annotation the provider knows, sorted by name within its writer.
func Table() []Definition { return table }

// WrittenByController reports whether only the controller writes the annotation.
func WrittenByController(name string) bool { return byName[name].Writer == ByController }

// UserNames returns the names of the annotations that users set, without Prefix, sorted.
func UserNames() []string {
	var out []string
	for _, d := range table {
		if name, ok := strings.CutPrefix(d.Name, Prefix); ok && d.Writer == ByUser {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

var table = []Definition{
	{
		Name: Address, Aliases: []string{"spec.loadBalancerIP"}, Writer: ByUser,
		Type: "IPv4 address", Allowed: "one IPv4 address", Default: "a new address of the network",
		Since: "v0.1.0", Impact: ImpactNewAddress, Example: "203.0.113.20", CEL: celIPv4, CELField: `v.trim() == '' || ` + celIPv4,
		Doc: "The public address to use. A free one is acquired; one that the account already holds in the nodes' network or VPC is used " +
			"unchanged. Several Services may use one address with different ports. Refused when it belongs to another account, network " +
			"or cluster, carries static NAT, is the source NAT address of a VPC, or when a port of the Service " +
			"is taken there. An address that the controller did not acquire is never released by it. With `internal` it is an " +
			"address of the VPC tier. An empty value is refused. When the annotation is removed, the Service keeps the address that it has: " +
			"to change it, name another one, or delete and recreate the Service.",
	},
	{
		Name: Algorithm, Writer: ByUser,
		Type: "word", Allowed: "roundrobin, leastconn, source",
		Default: "`roundrobin`, or `source` with spec.sessionAffinity ClientIP",
		Since:   "v0.1.0", Impact: ImpactNone, Example: "leastconn", CEL: celOneOf(RoundRobin, LeastConn, Source),
		Doc: "How connections are spread over the nodes. A change on an internal load balancer makes its rules again, and CloudStack's virtual " +
			"machine for it when no rule is left meanwhile. spec.sessionAffinity ClientIP needs `source` and refuses the others.",
	},
	{
		Name: DirectSpread, Writer: ByUser,
		Type: "number", Allowed: "a number from 1 to 32", Default: fmt.Sprintf("`%d`", DefaultSpread),
		Since: "v0.1.0", Impact: ImpactBriefInterruption, Example: "16", CEL: celSpread,
		Doc: "Into how many parts the sources of a forwarded port are split in a VPC (see `mode`), each led to one node: the next power of two. " +
			"Each part is one port forwarding a port. Without effect in an isolated network, whose router leads a port to one node.",
	},
	{
		Name: Hostname, Writer: ByUser,
		Type: "DNS name", Allowed: "a DNS name in lower case", Default: "none",
		Since: "v0.1.0", Impact: ImpactNone, Example: "lb.example.org", CEL: celDNS,
		Doc: "Published as the Service's ingress hostname in place of the address, so that traffic from inside the cluster " +
			"takes the way through the load balancer too. The condition `csccm.io/LoadBalancerAddress` names the address. " +
			"An empty value is refused: remove the annotation instead.",
	},
	{
		Name: Internal, Writer: ByUser,
		Type: "boolean", Allowed: booleans, Default: "`false`",
		Since: "v0.1.0", Impact: ImpactNewAddress, Example: "true", CEL: celBoolean,
		Doc: "Makes an internal load balancer: an address of the VPC tier in place of a public one. Needs a tier whose offering has " +
			"internal load balancing (provider InternalLbVm). PROXY protocol, TLS and stickiness are not available there, and source " +
			"ranges are enforced by the tier's network ACL list alone.",
	},
	{
		Name: KeepIP, Writer: ByUser,
		Type: "boolean", Allowed: booleans, Default: "`false`",
		Since: "v0.1.0", Impact: ImpactNone, Example: "true", CEL: celBoolean,
		Doc: "Keeps the address when the Service goes, although the controller acquired it. Its rules are removed.",
	},
	{
		Name: Mode, Writer: ByUser,
		Type: "word", Allowed: strings.Join(Modes(), ", "), Default: "`lb-mode` of the cloud-config, else `auto`",
		Since: "v0.1.0", Impact: ImpactBriefInterruption, Example: "direct", CEL: celOneOf(Modes()...),
		Excludes: &Exclusion{Value: Direct, Names: map[string]string{
			ProxyProtocol: celOff, SSLCertificate: "", StickinessMethod: `v.trim().lowerAscii() == 'none'`, Algorithm: "", Internal: celOff,
		}},
		Doc: "How ports reach the nodes. `proxy`: by load balancer rules. `direct`: by port forwardings, so that Pods see the client's own address " +
			"(with externalTrafficPolicy Local) and UDP works through a virtual router; each port is led to one node, in a VPC each part of the sources is " +
			"(see `direct-spread`), and the controller moves it when the node stops serving. `auto`: load balancer rules for what the network's load " +
			"balancer takes, port forwardings for UDP where that is a virtual router, and for TCP on a number that has UDP as well. " +
			"With `direct` there is no PROXY protocol, TLS, stickiness, algorithm or internal address. See docs/loadbalancers.md.",
	},
	{
		Name: Network, Writer: ByUser,
		Type: "name or id", Allowed: "the name or id of a guest network, at most 255 characters", Default: "the network that all nodes share; where there is none, the one that the Service is served in",
		Since: "v0.1.0", Impact: ImpactNewAddress, Example: "k8s-net", CEL: celName,
		Doc: "The guest network through which the nodes are reached; needed when the nodes share several. Nodes without a NIC in it do not serve.",
	},
	{
		Name: NodeSelector, Writer: ByUser,
		Type: "label selector", Allowed: "a label selector like pool=edge,tier!=db", Default: "all nodes",
		Since: "v0.1.0", Impact: ImpactNone, Example: "pool=edge", CEL: celSelector,
		Doc: "Only nodes whose labels match serve the Service.",
	},
	{
		Name: Project, Writer: ByUser,
		Type: "name or id", Allowed: "the name or id of a CloudStack project, at most 255 characters", Default: "`project-id` of the cloud-config",
		Since: "v0.1.0", Impact: ImpactNewAddress, Example: "shop", CEL: celName,
		Doc: "The project in which the Service's nodes live and its address is acquired. It cannot be changed while the Service " +
			"has an address: delete and recreate the Service.",
	},
	{
		Name: ProxyProtocol, Writer: ByUser,
		Type: "boolean, or ports", Allowed: booleans + ", or ports of the Service by name or number, comma separated", Default: "`false`",
		Since: "v0.1.0", Impact: ImpactNone, Example: "true", CEL: celPorts,
		Doc: "Sends the PROXY protocol (version 1) to the nodes, on every port or on those that are named. Rules are switched in place. The backends must expect " +
			"it at the same time.",
	},
	{
		Name: ShareWith, Writer: ByUser,
		Type: "list of namespaces, comma separated, or *", Allowed: "names of namespaces, comma separated, or * for all", Default: "none: only the Service's own namespace",
		Since: "v0.1.0", Impact: ImpactNone, Example: "shop,blog", CEL: celShare,
		Doc: "Other namespaces whose Services may use this Service's address on ports that it does not use. Set it on the Service that has the " +
			"address; the others name the address in `address`.",
	},
	{
		Name: SourceCIDRs, Aliases: []string{"spec.loadBalancerSourceRanges", SourceRangesBeta}, Writer: ByUser,
		Type: "list of CIDRs, comma separated", Allowed: "CIDRs like 10.0.0.0/8, comma separated; an empty value denies all",
		Default: "`0.0.0.0/0`",
		Since:   "v0.1.0", Impact: ImpactBriefInterruption, Example: "10.0.0.0/8,192.168.0.0/16", CEL: celRanges,
		Doc: "Who may connect. One list governs the rules, the firewall and the network ACL alike. An **empty** value denies everybody. " +
			"When several of the annotation, Kubernetes' own annotation and the spec field are set, only sources that are in all of them are let in. " +
			"IPv6 ranges have no effect: public addresses are IPv4. A load balancer rule takes at most 60 ranges; more are refused, except with " +
			"`mode: direct` and for internal load balancers.",
	},
	{
		Name: SSLCertificate, Writer: ByUser,
		Type: "UUID", Allowed: "the id (UUID) of a certificate that was uploaded to CloudStack", Default: "none",
		Since: "v0.1.0", Impact: ImpactNone, Example: "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11", CEL: celUUID,
		Doc: "Ends TLS at the router with this certificate (CloudStack 4.22) and speaks plain HTTP to the nodes, one request a connection. Another id is bound in place.",
	},
	{
		Name: SSLPorts, Writer: ByUser,
		Type: "ports", Allowed: "ports of the Service by name or number, comma separated", Default: "all ports, when there is a certificate",
		Since: "v0.1.0", Impact: ImpactNone, Example: "443", CEL: celPorts, Needs: SSLCertificate,
		Doc: "The ports on which TLS is ended. Needs `ssl-certificate`.",
	},
	{
		Name: StickinessMethod, Writer: ByUser,
		Type: "word", Allowed: "none, lb-cookie, app-cookie, source", Default: "`none`",
		Since: "v0.1.0", Impact: ImpactNone, Example: "lb-cookie", CEL: celOneOf("none", "lb-cookie", "app-cookie", "source"),
		Doc: "Keeps a client at its node: by a cookie of the router, by a cookie of the application, or by a table of source addresses. " +
			"The cookie methods make the router speak HTTP on the port. app-cookie is refused where the virtual router balances: its HAProxy " +
			"has not had it since 1.6 and would take no more change of any rule of the network. spec.sessionAffinity ClientIP needs none of them: it is the algorithm `source`.",
	},
	{
		Name: StickinessOptions, Writer: ByUser,
		Type: "list of name=value, comma separated", Allowed: stickinessAllowed(), Default: "the router's own",
		Since: "v0.1.0", Impact: ImpactNone, Example: "cookie-name=SRV,nocache", CEL: celOptions(),
		Doc: "Options of the stickiness method. A name alone is a flag. Needs `stickiness`.",
	},
	{
		Name: Zone, Writer: ByUser,
		Type: "name or id", Allowed: "the name or id of a zone, at most 255 characters", Default: "any",
		Since: "v0.1.0", Impact: ImpactNewAddress, Example: "zone-1", CEL: celName,
		Doc: "Only nodes in this zone serve the Service; its address is then one of that zone.",
	},
	{
		Name: Addresses, Writer: ByController,
		Type: "JSON", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
		Example: `[{"id":"…","ip":"203.0.113.20","network":"…","allocated":true,"tagged":true}]`,
		Doc: "The addresses that the Service uses and whether the controller acquired them. Do not edit: it is the proof by which " +
			"an address is released or kept.",
	},
	{
		Name: Allocation, Writer: ByController,
		Type: "JSON", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
		Example: `[{"job":"…","network":"…","since":"2026-11-21T12:00:00Z"}]`,
		Doc: "Acquisitions of an address whose outcome is not known yet; written before the call, so that a crash loses nothing. " +
			"Do not edit.",
	},
	{
		Name: LeasewebID, Writer: ByOthers, Type: "UUID", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
		Doc: "Leaseweb's record of the address. At takeover it shows which rules, named after the Service alone, are the Service's.",
	},
	{
		Name: AssociatedByController, Writer: ByOthers, Type: "boolean", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
		Doc: "Record of apache/cloudstack-kubernetes-provider v1.2 that it acquired the address. It is no proof: `csccm adopt` takes it for a hint " +
			"which addresses an operator may want to hand over after a takeover.",
	},
	{
		Name: LeasewebNetworkID, Writer: ByOthers, Type: "UUID", Default: "absent", Since: "v0.1.0", Impact: ImpactNone,
		Doc: "Leaseweb's record of the network. Known, not used.",
	},
}

// byName holds the rows of the table.
var byName = func() map[string]Definition {
	out := map[string]Definition{}
	for _, d := range table {
		out[d.Name] = d
	}
	return out
}()

// allowed is the text of the table for an error message.
func allowed(name string) string { return byName[name].Allowed }
