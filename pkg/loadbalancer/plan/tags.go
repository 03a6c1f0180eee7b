// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "slices"

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
)

// ManagedBy is the value of TagManagedBy and TagAllocatedBy.
const ManagedBy = "cloudstack-ccm"

// Types of resources for createTags.
const (
	ResourcePublicIP = "PublicIpAddress"
	ResourceRule     = "LoadBalancer"
	ResourceForward  = "PortForwardingRule"
)

// RuleTags are the tags of a Service's rules and port forwardings.
func RuleTags(cluster string, svc Service) map[string]string {
	tags := Tags(cluster, svc)
	delete(tags, TagAllocatedBy)
	return tags
}

// RuleTagKeys are the keys of ruleTags.
var RuleTagKeys = []string{TagCluster, TagManagedBy, TagService, TagServiceUID}

// Vacant reports whether an address was acquired by this cluster for a Service that has left it to the others that
// use it: the last of them releases it.
func Vacant(tags map[string]string, cluster string) bool {
	return tags[TagCluster] == cluster && tags[TagAllocatedBy] == ManagedBy && tags[TagServiceUID] == "" && tags[TagKeptBy] == ""
}

// ServiceKeys are the keys that name the Service.
var ServiceKeys = []string{TagService, TagServiceUID}

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

// TagOwner reads whose an address or rule is by its tags. A UID is unique, so that it is believed under each of the
// cluster's names, and without one: a change of the name may have been cut short.
func TagOwner(tags map[string]string, clusters []string, svc Service) Ownership {
	uid, tagged := tags[TagServiceUID]
	switch cluster := tags[TagCluster]; {
	case !tagged && cluster == "":
		return Unknown
	case uid == svc.UID && (cluster == "" || slices.Contains(clusters, cluster)):
		return Owned
	default:
		return Foreign
	}
}

// PresentTagKeys are those of our keys that an address carries: CloudStack
// refuses to delete tags when none matches.
func PresentTagKeys(tags map[string]string) []string {
	var keys []string
	for _, k := range append(TagKeys(), TagKeptBy) {
		if _, ok := tags[k]; ok {
			keys = append(keys, k)
		}
	}
	return keys
}
