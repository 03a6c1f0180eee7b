// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"regexp"
	"strconv"
	"strings"
)

var ruleProtocols = []string{ProtocolTCPProxy, ProtocolTCP, ProtocolUDP, ProtocolSSL}

// lbName is what cloudprovider.DefaultLoadBalancerName makes of a Service's UID.
var lbName = regexp.MustCompile(`^a[0-9a-f]{31}$`)

// RuleName is the name of the rule of one port: <lb>-<protocol>-<port>, as
// apache/cloudstack-kubernetes-provider v1.2 names it.
func RuleName(lb, protocol string, port int) string {
	return lb + "-" + protocol + "-" + strconv.Itoa(port)
}

// ParseRuleName splits a rule's name. legacy is true for <lb>-<port>, as older
// providers named rules; protocol is then empty. ok is false when no provider
// of Kubernetes gave the name.
func ParseRuleName(name string) (lb, protocol string, port int, legacy, ok bool) {
	lb, rest, found := strings.Cut(name, "-")
	if !found || !lbName.MatchString(lb) {
		return "", "", 0, false, false
	}
	protocol, port, legacy, ok = parseRuleSuffix(rest)
	if !ok {
		return "", "", 0, false, false
	}
	return lb, protocol, port, legacy, true
}

// ParseOwnRuleName is ParseRuleName for a load balancer whose name is known.
func ParseOwnRuleName(lb, name string) (protocol string, port int, legacy, ok bool) {
	rest, found := strings.CutPrefix(name, lb+"-")
	if !found || lb == "" {
		return "", 0, false, false
	}
	return parseRuleSuffix(rest)
}

// LBName is cloudprovider.DefaultLoadBalancerName of a Service's UID.
func LBName(uid string) string {
	name := "a" + strings.ReplaceAll(uid, "-", "")
	return name[:min(len(name), 32)]
}

// ParseLeasewebName splits the name of a rule as Leaseweb's fork names it.
func ParseLeasewebName(name string) (cluster, namespace, service string, ok bool) {
	m := leasewebName.FindStringSubmatch(name)
	if m == nil {
		return "", "", "", false
	}
	return m[1], m[2], m[3], true
}

// leasewebName is how Leaseweb's fork names rules: K8s_svc_CLUSTER_NAMESPACE_NAME-PROTOCOL-PORT.
var leasewebName = regexp.MustCompile(`^K8s_svc_(.+)_([a-z0-9-]+)_([a-z0-9.-]+?)-(tcp-proxy|tcp|udp|ssl)-([1-9][0-9]{0,4})$`)

// NamesRule reports whether a rule's name is one that a provider gives to rules of the Service in a cluster of that
// name; any cluster for an empty one. byUID is false when the name holds no more than names, which a Service of another
// cluster may have as well.
func (s Service) NamesRule(name, clusterName string) (byUID, ok bool) {
	if _, _, _, ok := ParseOwnRuleName(s.LB, name); ok {
		return true, true
	}
	cluster, namespace, service, named := ParseLeasewebName(name)
	return false, named && (clusterName == "" || cluster == clusterName) && namespace == s.Namespace && service == s.Name
}

// OfKubernetes reports whether a provider of Kubernetes gave a rule its name.
func OfKubernetes(name string) bool {
	_, _, _, _, ok := ParseRuleName(name)
	return ok || leasewebName.MatchString(name)
}

func parseRuleSuffix(rest string) (protocol string, port int, legacy, ok bool) {
	if port, ok = parsePort(rest); ok {
		return "", port, true, true
	}
	for _, p := range ruleProtocols {
		if digits, found := strings.CutPrefix(rest, p+"-"); found {
			if port, ok = parsePort(digits); ok {
				return p, port, false, true
			}
		}
	}
	return "", 0, false, false
}

func parsePort(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != s {
		return 0, false
	}
	return n, true
}
