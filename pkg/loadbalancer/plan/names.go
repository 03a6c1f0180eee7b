// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
	lb, _, _ = strings.Cut(name, "-")
	if protocol, port, legacy, ok = ParseOwnRuleName(lb, name); !ok || !lbName.MatchString(lb) {
		return "", "", 0, false, false
	}
	return lb, protocol, port, legacy, true
}

// ParseOwnRuleName is ParseRuleName for a load balancer whose name is known.
func ParseOwnRuleName(lb, name string) (protocol string, port int, legacy, ok bool) {
	rest, found := strings.CutPrefix(name, lb+"-")
	m := ruleSuffix.FindStringSubmatch(rest)
	if !found || lb == "" || m == nil {
		return "", 0, false, false
	}
	if port, _ = strconv.Atoi(m[2]); port > 65535 {
		return "", 0, false, false
	}
	return m[1], port, m[1] == "", true
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
	return false, named &&
		(clusterName == "" || cluster == clusterName) &&
		namespace == s.Namespace &&
		service == s.Name
}

// OfKubernetes reports whether a provider of Kubernetes gave a rule its name.
func OfKubernetes(name string) bool {
	_, _, _, _, ok := ParseRuleName(name)
	return ok || leasewebName.MatchString(name)
}

// ruleSuffix is what follows the load balancer in a rule's name: the protocol, unless an older provider named it, and
// the port.
var ruleSuffix = regexp.MustCompile(`^(?:(tcp-proxy|tcp|udp|ssl)-)?([1-9][0-9]{0,4})$`)

// Keys of the tags that say whose a public address is. They vanish when the
// address is released.
const (
	TagCluster     = "csccm-cluster"
	TagService     = "csccm-service"
	TagServiceUID  = "csccm-service-uid"
	TagManagedBy   = "csccm-managed-by"
	TagAllocatedBy = "csccm-allocated-by"
	// TagKeptBy names the Service, as namespace/name, that had an address and left it by the annotation keep-ip.
	TagKeptBy = "csccm-kept-by"
	// TagKeepIP is on the address of a Service with the annotation keep-ip, which may vanish while no controller leads.
	TagKeepIP = "csccm-keep-ip"
)

// ManagedBy is the value of TagManagedBy and TagAllocatedBy.
const ManagedBy = "cloudstack-ccm"

// Types of resources for createTags.
const (
	ResourcePublicIP = "PublicIpAddress"
	ResourceRule     = "LoadBalancer"
	ResourceForward  = "PortForwardingRule"
	ResourceFirewall = "FirewallRule"
	ResourceACLItem  = "NetworkACL"
)

// RuleTags are the tags of everything of a Service's but its addresses.
func RuleTags(cluster string, svc Service) map[string]string {
	tags := Tags(cluster, svc)
	delete(tags, TagAllocatedBy)
	return tags
}

// Unused reports whether an address was acquired by this cluster for a Service that has left it to the others that
// use it: the last of them releases it.
func Unused(tags map[string]string, clusters []string) bool {
	return slices.Contains(clusters, tags[TagCluster]) &&
		tags[TagAllocatedBy] == ManagedBy &&
		tags[TagServiceUID] == "" &&
		tags[TagKeptBy] == ""
}

// TagKeys are the keys of Tags.
func TagKeys() []string {
	return []string{TagAllocatedBy, TagCluster, TagManagedBy, TagService, TagServiceUID}
}

// Tags are the tags of an address that was acquired for a Service.
func Tags(cluster string, svc Service) map[string]string {
	return map[string]string{
		TagCluster:     cluster,
		TagService:     svc.Key(),
		TagServiceUID:  svc.UID,
		TagManagedBy:   ManagedBy,
		TagAllocatedBy: ManagedBy,
	}
}

// TagOwner reads whose an address or rule is by its tags. clusters are the ids of this cluster. The UID alone is
// believed, too: an exchange of the cluster's tag may have been cut short.
func TagOwner(tags map[string]string, clusters []string, svc Service) Ownership {
	uid, tagged := tags[TagServiceUID]
	switch cluster := tags[TagCluster]; {
	case !tagged && cluster == "":
		return Unknown
	case uid != svc.UID:
		return Foreign
	case cluster == "" || slices.Contains(clusters, cluster):
		return Owned
	default:
		return OtherCluster
	}
}

// Former reports whether tags name the cluster by a former id.
func Former(tags map[string]string, clusters []string) bool {
	return tags[TagCluster] != "" && tags[TagCluster] != clusters[0] && slices.Contains(clusters, tags[TagCluster])
}

// PresentTagKeys are those of our keys that an address carries: CloudStack
// refuses to delete tags when none matches.
func PresentTagKeys(tags map[string]string) []string {
	return slices.DeleteFunc(append(TagKeys(), TagKeptBy, TagKeepIP),
		func(k string) bool { _, ok := tags[k]; return !ok })
}
