// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Shared is an address that Services of several namespaces use although its owner does not share it.
type Shared struct {
	IP string `json:"ip"`
	// Owner is the Service that has the address: by CloudStack's tags, else the oldest.
	Owner string `json:"owner"`
	// Users are the Services that the owner does not share the address with.
	Users []string `json:"users"`
}

// SharedAddresses returns the addresses that are used across namespaces without the owner's annotation share-with.
// owners are the UIDs that CloudStack's tags name, by IP; rules are Services that have a rule on an address, by IP,
// whatever their status says.
func SharedAddresses(services []corev1.Service, owners map[string]types.UID, rules map[string][]string) []Shared {
	byKey := map[string]*corev1.Service{}
	users := map[string][]*corev1.Service{}
	use := func(ip string, svc *corev1.Service) {
		if svc != nil && !slices.Contains(users[ip], svc) {
			users[ip] = append(users[ip], svc)
		}
	}
	for _, svc := range Balanced(services) {
		byKey[key(svc)] = svc
		for _, ip := range ingress(svc) {
			use(ip, svc)
		}
	}
	for ip, names := range rules {
		for _, name := range names {
			use(ip, byKey[name])
		}
	}
	var out []Shared
	for _, ip := range slices.Sorted(maps.Keys(users)) {
		owner := ownerOf(users[ip], owners[ip])
		shared := Shared{IP: ip, Owner: key(owner)}
		for _, svc := range users[ip] {
			if svc.Namespace != owner.Namespace && !sharesWith(owner, svc.Namespace) {
				shared.Users = append(shared.Users, key(svc))
			}
		}
		if len(shared.Users) > 0 {
			slices.Sort(shared.Users)
			out = append(out, shared)
		}
	}
	return out
}

// ownerOf returns the Service that has an address among those that use it.
func ownerOf(users []*corev1.Service, tagged types.UID) *corev1.Service {
	for _, svc := range users {
		if tagged != "" && svc.UID == tagged {
			return svc
		}
	}
	return slices.MinFunc(users, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(key(a), key(b)))
	})
}

func sharesWith(owner *corev1.Service, namespace string) bool {
	spec, _ := annotation.Parse(owner) // what else is wrong with the Service does not matter here
	return slices.Contains(spec.ShareWith, namespace) || slices.Contains(spec.ShareWith, tenancy.Everybody)
}
