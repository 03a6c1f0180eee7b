// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

// Keys of the tags that say whose a public address is. They vanish when the
// address is released.
const (
	TagCluster     = "csccm-cluster"
	TagService     = "csccm-service"
	TagServiceUID  = "csccm-service-uid"
	TagManagedBy   = "csccm-managed-by"
	TagAllocatedBy = "csccm-allocated-by"
)

// ManagedBy is the value of TagManagedBy and TagAllocatedBy.
const ManagedBy = "cloudstack-ccm"

// ResourcePublicIP is the type of public addresses for createTags.
const ResourcePublicIP = "PublicIpAddress"

// TagKeys are all keys, for removing them.
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

// tagOwner reads whose an address is by its tags.
func tagOwner(tags map[string]string, cluster string, svc Service) Ownership {
	uid, tagged := tags[TagServiceUID]
	switch {
	case !tagged && tags[TagCluster] == "":
		return Unknown
	case tags[TagCluster] == cluster && uid == svc.UID:
		return Mine
	default:
		return Foreign
	}
}

// presentTagKeys are those of our keys that an address carries: CloudStack
// refuses to delete tags when none matches.
func presentTagKeys(tags map[string]string) []string {
	var keys []string
	for _, k := range TagKeys() {
		if _, ok := tags[k]; ok {
			keys = append(keys, k)
		}
	}
	return keys
}
