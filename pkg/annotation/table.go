// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"slices"
	"strings"
)

// CELList is the CEL call that splits a list of source ranges.
const CELList = `.replace(',', ' ').replace('\t', ' ').replace('\r', ' ').replace('\n', ' ').split(' ')`

// Checks in CEL, over the string v. They use only functions that every API server since 1.30 has.
const (
	celBoolean = `v.trim().lowerAscii() in ['true', 'false', 'enabled', 'disabled', 'yes', 'no', 'on', 'off']`
	celPorts   = `v.trim().matches('^[A-Za-z0-9-]+([ ]*,[ ]*[A-Za-z0-9-]+)*$')`
	celUUID    = `v.trim().matches('^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$')`
	celIPv4    = `isIP(v.trim()) && ip(v.trim()).family() == 4`
	celRanges  = `v.trim() == '' || v.matches('[^, \\t\\r\\n]') && v` + CELList + `.all(r, r == '' || r.matches('^(` +
		celByte + `[.]){3}` + celByte +
		`(/0*(3[0-2]|[12]?[0-9]))?$') || r.matches('^[0-9a-fA-F.]*:[0-9a-fA-F:.]*(%.+)?(/0*([0-9]{1,2}|1[01][0-9]|12[0-8]))?$'))`
	celByte = `0*(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])`
	celName = `v.trim() != '' && size(v.trim()) <= 255 && !v.trim().matches('[[:cntrl:]]')`
	// A selector's grammar without the lengths of its parts.
	celKey     = `[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?`
	celWord    = `([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?`
	celWords   = `[(]\\s*` + celWord + `(\\s*,\\s*` + celWord + `)*\\s*[)]`
	celRequire = `([!]\\s*` + celKey + `|` + celKey + `(\\s*(=|==|!=)\\s*` + celWord + `|\\s+(in|notin)\\s*` +
		celWords + `|\\s*[<>]\\s*[0-9]+)?)`
	celSelector = `v.trim() == '' || v.trim().matches('^` + celRequire + `(\\s*,\\s*` + celRequire + `)*$')`
	celShare    = `v.trim() == '' || v.split(',').all(n, n.trim() == '*' || n.trim().matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'))`
	celOff      = `v.trim().lowerAscii() in ['false', 'disabled', 'no', 'off']`
	celSpread   = `v.trim().matches('^([1-9]|[12][0-9]|3[0-2])$')`
	celDNS      = `size(v.trim()) <= 253 && !isIP(v.trim()) && v.trim().matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`
)

func celOptions() string {
	return `v.trim() == '' || v.split(',').all(o, o.trim().matches('` + optionPattern(stickinessMethods...) + `'))`
}

func celOneOf(words ...string) string {
	return `v.trim().lowerAscii() in ['` + strings.Join(words, `', '`) + `']`
}

// Table returns the definitions of all annotations that the provider knows, sorted by name within each writer.
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
		Name: Address, Aliases: []string{"spec.loadBalancerIP"},
		Type: "IPv4 address", Allowed: "one IPv4 address", Default: "a new address of the network",
		Impact:   ImpactNewAddress,
		Example:  "203.0.113.20",
		CEL:      celIPv4,
		CELField: `v.trim() == '' || ` + celIPv4,
		Doc: "The public address to use. One that the account does not have yet is acquired; one that it already has " +
			"in the nodes' network or VPC is used unchanged. Several Services may use one address with different " +
			"ports. The Service is refused if the address belongs to another account, network or cluster, has static " +
			"NAT, or is the source NAT address of a VPC, or if something else uses a port of the Service there. The " +
			"controller never releases an address that it did not acquire. With `internal` it is an address of the " +
			"VPC tier. An empty value is refused. If you remove the annotation, the Service keeps its address: to " +
			"change it, name another one, or delete and recreate the Service.",
	},
	{
		Name: Algorithm,
		Type: "word", Allowed: "roundrobin, leastconn, source",
		Default: "`roundrobin`, or `source` with spec.sessionAffinity ClientIP",
		Impact:  ImpactNone, Example: "leastconn", CEL: celOneOf(RoundRobin, LeastConn, Source),
		Doc: "How connections are spread over the nodes. On an internal load balancer, a change recreates the rules " +
			"([changes without a gap](loadbalancers.md#changes-without-a-gap)). With spec.sessionAffinity ClientIP " +
			"only `source` is allowed.",
	},
	{
		Name: DirectSpread,
		Type: "number", Allowed: "a number from 1 to 32", Default: fmt.Sprintf("`%d`", DefaultSpread),
		Impact: ImpactBriefInterruption, Example: "16", CEL: celSpread,
		Doc: "The number of parts into which a VPC divides the clients of a forwarded port, rounded up to a power " +
			"of two. Each part is forwarded to one node by a port forwarding of its own " +
			"([modes](loadbalancers.md#modes)). In an isolated network it has no effect: all clients of a " +
			"forwarded port use one node.",
	},
	{
		Name: Hostname,
		Type: "DNS name", Allowed: "a DNS name in lower case", Default: "none",
		Impact: ImpactNone, Example: "lb.example.org", CEL: celDNS,
		Doc: "Published as the Service's ingress hostname in place of the address, so that traffic from inside the " +
			"cluster goes through the load balancer too. The condition `csccm.io/LoadBalancerAddress` names the " +
			"address. An empty value is refused: remove the annotation instead.",
	},
	{
		Name: Internal,
		Type: "boolean", Allowed: booleans, Default: "`false`",
		Impact: ImpactNewAddress, Example: "true", CEL: celBoolean,
		Doc: "Creates an internal load balancer, which has an address of the VPC tier in place of a public one. The " +
			"tier's offering must have internal load balancing (provider InternalLbVm). PROXY protocol, TLS and " +
			"stickiness are not available, and only the tier's network ACL list enforces source ranges.",
	},
	{
		Name: KeepIP,
		Type: "boolean", Allowed: booleans, Default: "`false`",
		Impact: ImpactNone, Example: "true", CEL: celBoolean,
		Doc: "Keeps the address in the account when the Service is deleted, even if the controller acquired it. The " +
			"rules are deleted.",
	},
	{
		Name: Mode,
		Type: "word", Allowed: strings.Join(Modes(), ", "), Default: "`lb-mode` of the cloud-config, else `auto`",
		Impact: ImpactBriefInterruption, Example: "direct", CEL: celOneOf(Modes()...),
		Excludes: &Exclusion{Value: Direct, Names: map[string]string{
			ProxyProtocol:    celOff,
			SSLCertificate:   "",
			StickinessMethod: `v.trim().lowerAscii() == 'none'`,
			Algorithm:        "",
			Internal:         celOff,
		}},
		Doc: "How ports reach the nodes ([modes](loadbalancers.md#modes)). `proxy`: by load balancer rules. " +
			"`direct`: by port forwardings, so that Pods see the client's own address (with externalTrafficPolicy " +
			"Local) and UDP works through a virtual router. The controller moves a forwarded port when its node can " +
			"no longer serve. PROXY protocol, TLS, stickiness, algorithm and internal addresses are refused. `auto`: " +
			"by load balancer rules where the network's load balancer supports the protocol, otherwise by port " +
			"forwardings. A virtual router supports TCP only, so UDP ports are forwarded, and TCP ports with the " +
			"same number.",
	},
	{
		Name:    Network,
		Type:    "name or id",
		Allowed: "the name or id of a guest network, at most 255 characters",
		Default: "the network that all nodes share; if there is none, the one that already serves the Service",
		Impact:  ImpactNewAddress, Example: "k8s-net", CEL: celName,
		Doc: "The guest network through which traffic reaches the nodes. Needed if the nodes have several networks " +
			"in common. A node without a NIC in this network does not serve.",
	},
	{
		Name: NodeSelector,
		Type: "label selector", Allowed: "a label selector like pool=edge,tier!=db", Default: "all nodes",
		Impact: ImpactNone, Example: "pool=edge", CEL: celSelector,
		Doc: "Only nodes whose labels match serve the Service.",
	},
	{
		Name:    Project,
		Type:    "name or id",
		Allowed: "the name or id of a CloudStack project, at most 255 characters",
		Default: "`project-id` of the cloud-config",
		Impact:  ImpactNewAddress, Example: "shop", CEL: celName,
		Doc: "The CloudStack project of the Service's nodes and of its address. It cannot be changed while the " +
			"Service has an address: delete and recreate the Service.",
	},
	{
		Name:    ProxyProtocol,
		Type:    "boolean, or ports",
		Allowed: booleans + ", or ports of the Service by name or number, comma separated",
		Default: "`false`",
		Impact:  ImpactNone, Example: "true", CEL: celPorts,
		Doc: "Sends the PROXY protocol (version 1) to the nodes, on all ports or on the named ones. Rules are " +
			"changed in place. Change the backends at the same time.",
	},
	{
		Name:    ShareWith,
		Type:    "list of namespaces, comma separated, or *",
		Allowed: "names of namespaces, comma separated, or * for all",
		Default: "none: only the Service's own namespace",
		Impact:  ImpactNone, Example: "shop,blog", CEL: celShare,
		Doc: "Other namespaces whose Services may use this Service's address, on ports that this Service does not " +
			"use. Set it on the Service that has the address; the others name the address in `address`. Without it " +
			"they keep the ports that they have, and get no more.",
	},
	{
		Name: SourceCIDRs, Aliases: []string{"spec.loadBalancerSourceRanges", SourceRangesBeta},
		Type:    "list of CIDRs, separated by commas or blanks",
		Allowed: "CIDRs like 10.0.0.0/8, separated by commas or blanks; an empty value denies all",
		Default: "`0.0.0.0/0`",
		Impact:  ImpactBriefInterruption, Example: "10.0.0.0/8,192.168.0.0/16", CEL: celRanges,
		Doc: "Who may connect. Rules and firewall enforce this list, for internal load balancers and forwarded ports " +
			"of a VPC its network ACL. An **empty** value denies everybody. If more than one of this annotation, " +
			"Kubernetes' own annotation and the spec field is set, a client must be in each of them. IPv6 ranges are " +
			"ignored, because public addresses are IPv4. A load balancer rule can have at most 60 ranges; more are " +
			"refused, except with `mode: direct` and for internal load balancers.",
	},
	{
		Name: SSLCertificate,
		Type: "UUID", Allowed: "the id (UUID) of a certificate that was uploaded to CloudStack", Default: "none",
		Impact: ImpactNone, Example: "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11", CEL: celUUID,
		Doc: "The certificate with which the router terminates TLS (CloudStack 4.22). The router then speaks plain " +
			"HTTP to the nodes, one request per connection. Another certificate is assigned in place. The status has " +
			"`ipMode: Proxy`, so that clients inside the cluster go through the router, too.",
	},
	{
		Name:    SSLPorts,
		Type:    "ports",
		Allowed: "ports of the Service by name or number, comma separated",
		Default: "all ports, if there is a certificate",
		Impact:  ImpactNone, Example: "443", CEL: celPorts, Needs: SSLCertificate,
		Doc: "The ports on which the router terminates TLS. Needs `ssl-certificate`.",
	},
	{
		Name: StickinessMethod,
		Type: "word", Allowed: "none, lb-cookie, app-cookie, source", Default: "`none`",
		Impact:  ImpactNone,
		Example: "lb-cookie",
		CEL:     celOneOf("none", "lb-cookie", "app-cookie", "source"),
		Doc: "Sends a client to the same node each time: by a cookie of the router, a cookie of the application, or " +
			"a table of client addresses. With a cookie, the router treats the port as HTTP. `app-cookie` is refused " +
			"on a virtual router: its HAProxy does not support it, and would refuse every later change of a rule in " +
			"the network. spec.sessionAffinity ClientIP does not need this annotation: it uses the algorithm `source`.",
	},
	{
		Name: StickinessOptions,
		Type: "list of name=value, comma separated", Allowed: stickinessAllowed(), Default: "the router's defaults",
		Impact: ImpactNone, Example: "cookie-name=SRV,nocache", CEL: celOptions(),
		Doc: "Options of the stickiness method. A name without a value is a flag. Needs `stickiness`.",
	},
	{
		Name: Zone,
		Type: "name or id", Allowed: "the name or id of a zone, at most 255 characters", Default: "any",
		Impact: ImpactNewAddress, Example: "zone-1", CEL: celName,
		Doc: "Only nodes in this zone serve the Service, and its address is in this zone.",
	},
	{
		Name: Addresses, Writer: ByController,
		Type: "JSON", Default: "absent", Impact: ImpactNone,
		Example: `[{"id":"…","ip":"203.0.113.20","network":"…","allocated":true,"tagged":true}]`,
		Doc: "The addresses that the Service uses, and whether the controller acquired them. Do not edit it: if the " +
			"role may not set tags, it is the only proof of ownership.",
	},
	{
		Name: Allocation, Writer: ByController,
		Type: "JSON", Default: "absent", Impact: ImpactNone,
		Example: `[{"job":"…","network":"…","since":"2026-11-21T12:00:00Z"}]`,
		Doc: "Acquisitions of an address whose result is not known yet. Written before the call, so that a crash " +
			"loses no address. Do not edit it.",
	},
	{
		Name: LeasewebID, Writer: ByOthers, Type: "UUID", Default: "absent", Impact: ImpactNone,
		Doc: "Leaseweb's record of the address. A takeover uses it to find the Service's rules.",
	},
	{
		Name:    AssociatedByController,
		Writer:  ByOthers,
		Type:    "boolean",
		Default: "absent",
		Impact:  ImpactNone,
		Doc: "The record of Apache's provider v1.2 that it acquired the address. It proves nothing. `csccm adopt` " +
			"without arguments offers to adopt the addresses of these Services.",
	},
	{
		Name: LeasewebNetworkID, Writer: ByOthers, Type: "UUID", Default: "absent", Impact: ImpactNone,
		Doc: "Leaseweb's record of the network. Not used.",
	},
}

// byName holds the rows of the table by name.
var byName = func() map[string]Definition {
	out := map[string]Definition{}
	for _, d := range table {
		out[d.Name] = d
	}
	return out
}()

// allowed returns the allowed values of an annotation, as an error message names them.
func allowed(name string) string { return byName[name].Allowed }
