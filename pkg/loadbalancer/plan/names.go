// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lbName matches the names that cloudprovider.DefaultLoadBalancerName derives from the UID of a Service.
var lbName = regexp.MustCompile(`^a[0-9a-f]{31}$`)

// RuleName returns the name of the rule for one port: <lb>-<protocol>-<port>, the same as in
// apache/cloudstack-kubernetes-provider v1.2.
func RuleName(lb, protocol string, port int) string {
	return lb + "-" + protocol + "-" + strconv.Itoa(port)
}

// ParseRuleName splits the name of a rule. legacy is true for <lb>-<port>, as older providers named rules; protocol is
// then empty. ok is false if no Kubernetes provider gave the name.
func ParseRuleName(name string) (lb, protocol string, port int, legacy, ok bool) {
	lb, _, _ = strings.Cut(name, "-")
	if protocol, port, legacy, ok = ParseOwnRuleName(lb, name); !ok || !lbName.MatchString(lb) {
		return "", "", 0, false, false
	}
	return lb, protocol, port, legacy, true
}

// ParseOwnRuleName is like ParseRuleName, for a load balancer whose name is known.
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

// LBName returns what cloudprovider.DefaultLoadBalancerName derives from the UID of a Service.
func LBName(uid string) string {
	name := "a" + strings.ReplaceAll(uid, "-", "")
	return name[:min(len(name), 32)]
}

// ParseLeasewebName splits the name of a rule that Leaseweb's fork created.
func ParseLeasewebName(name string) (cluster, namespace, service string, ok bool) {
	m := leasewebName.FindStringSubmatch(name)
	if m == nil {
		return "", "", "", false
	}
	return m[1], m[2], m[3], true
}

// leasewebName matches the names of rules of Leaseweb's fork: K8s_svc_CLUSTER_NAMESPACE_NAME-PROTOCOL-PORT.
var leasewebName = regexp.MustCompile(`^K8s_svc_(.+)_([a-z0-9-]+)_([a-z0-9.-]+?)-(tcp-proxy|tcp|udp|ssl)-([1-9][0-9]{0,4})$`)

// NamesRule reports whether a provider gives such a name to rules of the Service, in the cluster clusterName, or in any
// cluster if that is empty. byUID is false if the name does not contain the UID: a Service of another cluster may then
// have the same names.
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

// OfKubernetes reports whether a Kubernetes provider gave a rule its name.
func OfKubernetes(name string) bool {
	_, _, _, _, ok := ParseRuleName(name)
	return ok || leasewebName.MatchString(name)
}

// ruleSuffix matches what follows the load balancer in the name of a rule: the port, and before it the protocol, which
// older providers omit.
var ruleSuffix = regexp.MustCompile(`^(?:(tcp-proxy|tcp|udp|ssl)-)?([1-9][0-9]{0,4})$`)

// Keys of the tags that name the owner of a public address. CloudStack deletes them when the address is released.
const (
	TagCluster     = "csccm-cluster"
	TagService     = "csccm-service"
	TagServiceUID  = "csccm-service-uid"
	TagManagedBy   = "csccm-managed-by"
	TagAllocatedBy = "csccm-allocated-by"
	// TagKeptBy names the Service, as namespace/name, that has given up the address but keeps it by the annotation
	// keep-ip.
	TagKeptBy = "csccm-kept-by"
	// TagKeepIP marks the address of a Service with the annotation keep-ip, because the Service may be deleted while no
	// controller is running.
	TagKeepIP = "csccm-keep-ip"
)

// ManagedBy is the value of TagManagedBy and TagAllocatedBy.
const ManagedBy = "cloudstack-ccm"

// Resource types in createTags.
const (
	ResourcePublicIP = "PublicIpAddress"
	ResourceRule     = "LoadBalancer"
	ResourceForward  = "PortForwardingRule"
	ResourceFirewall = "FirewallRule"
	ResourceACLItem  = "NetworkACL"
)

// RuleTags returns the tags of all items of a Service except its addresses.
func RuleTags(cluster string, svc Service) map[string]string {
	tags := Tags(cluster, svc)
	delete(tags, TagAllocatedBy)
	return tags
}

// Unused reports whether this cluster acquired an address for a Service that has left it to other Services. The last of
// these releases it.
func Unused(tags map[string]string, clusters []string) bool {
	return slices.Contains(clusters, tags[TagCluster]) &&
		tags[TagAllocatedBy] == ManagedBy &&
		tags[TagServiceUID] == "" &&
		tags[TagKeptBy] == ""
}

// TagKeys returns the keys of Tags.
func TagKeys() []string {
	return []string{TagAllocatedBy, TagCluster, TagManagedBy, TagService, TagServiceUID}
}

// Tags returns the tags of an address that was acquired for a Service.
func Tags(cluster string, svc Service) map[string]string {
	return map[string]string{
		TagCluster:     cluster,
		TagService:     svc.Key(),
		TagServiceUID:  svc.UID,
		TagManagedBy:   ManagedBy,
		TagAllocatedBy: ManagedBy,
	}
}

// TagOwner derives the owner of an address or rule from its tags. clusters are the ids of this cluster. The UID without
// a cluster is accepted, because replacing the cluster's tag may have been interrupted.
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

// PresentTagKeys returns the tag keys of csccm that an address has. CloudStack refuses to delete tags if none of the
// given keys exists.
func PresentTagKeys(tags map[string]string) []string {
	return slices.DeleteFunc(append(TagKeys(), TagKeptBy, TagKeepIP),
		func(k string) bool { _, ok := tags[k]; return !ok })
}
