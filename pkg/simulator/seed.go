// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// networkOfferingsJSON are the built-in network offerings in the format of listNetworkOfferings.
//
//go:embed network-offerings.json
var networkOfferingsJSON []byte

// addNetworkOfferings creates the built-in offerings. Before 4.20, offerings for VPC tiers have no conserve mode, as
// users of those releases report.
func addNetworkOfferings(st *store.State, r catalogue.Release, now time.Time) error {
	var all []json.RawMessage
	if err := json.Unmarshal(networkOfferingsJSON, &all); err != nil {
		return fmt.Errorf("decode the embedded network offerings: %w", err)
	}

	for _, raw := range all {
		var head struct{ ForVPC bool }
		if err := json.Unmarshal(raw, &head); err != nil {
			return fmt.Errorf("decode an embedded network offering: %w", err)
		}
		var change map[string]any
		if head.ForVPC && r.Lacks("4.20.0.0") {
			change = map[string]any{"conservemode": false}
		}
		if _, err := addNetworkOffering(st, raw, change, now); err != nil {
			return err
		}
	}

	return nil
}

// addNetworkOffering creates an offering from its JSON in listNetworkOfferings, with the fields in change replaced.
func addNetworkOffering(
	st *store.State, body json.RawMessage, change map[string]any, now time.Time,
) (*store.NetworkOffering, error) {
	o := &store.NetworkOffering{Body: body}
	fields := map[string]any{}
	err := json.Unmarshal(body, &fields)
	if err == nil && len(change) > 0 {
		maps.Copy(fields, change)
		o.Body, err = json.Marshal(fields)
	}

	if err == nil {
		err = json.Unmarshal(o.Body, &o.Spec)
	}

	if err != nil {
		return nil, fmt.Errorf("decode a network offering: %w", err)
	}

	o.Services = o.Spec.Services
	o.UUID, o.Created = store.StableID("networkoffering", o.Spec.Name), now
	return st.NetOffs.Add(o), nil
}

// addBuiltinRoles creates the default roles of a fresh installation.
func addBuiltinRoles(st *store.State, cat *catalogue.Catalogue) {
	add := func(name, kind, description string, public bool, rules ...*store.RoleRule) *store.Role {
		return st.Roles.Add(&store.Role{
			Entity:      store.Entity{UUID: store.StableID("role", name)},
			Name:        name,
			Kind:        kind,
			Description: description,
			Public:      public,
			Builtin:     true,
			Rules:       rules,
		})
	}

	rule := func(pattern string, allow bool) *store.RoleRule {
		return &store.RoleRule{UUID: uuid.NewString(), Pattern: pattern, Allow: allow}
	}
	allowed := func(kind string) []*store.RoleRule {
		probe := &store.Role{Kind: kind}
		var out []*store.RoleRule
		for i := range cat.APIs {
			if probe.Allows(&cat.APIs[i]) {
				out = append(out, rule(cat.APIs[i].Name, true))
			}
		}
		return out
	}

	readOnly := []*store.RoleRule{rule("list*", true), rule("query*", true), rule("get*", true), rule("login", true),
		rule("logout", true), rule("*", false)}
	add("Root Admin", store.RoleAdmin, "Default root admin role", true, rule("*", true))
	add("Resource Admin", store.RoleResourceAdmin, "Default resource admin role", true,
		allowed(store.RoleResourceAdmin)...)
	add("Domain Admin", store.RoleDomainAdmin, "Default domain admin role", true, allowed(store.RoleDomainAdmin)...)
	add("User", store.RoleUser, "Default user role", true, allowed(store.RoleUser)...)
	add("Read-Only Admin - Default", store.RoleAdmin, "Default read-only admin role", true, readOnly...)
	add("Read-Only User - Default", store.RoleUser, "Default read-only user role", true, readOnly...)
	add("Support Admin - Default", store.RoleAdmin, "Default support admin role", true, readOnly...)
	add("Support User - Default", store.RoleUser, "Default support user role", true, readOnly...)
	var cks []*store.RoleRule
	for _, n := range store.CKSProjectRules {
		cks = append(cks, rule(n, true))
	}

	cksRole := add(store.CKSProjectRole, store.RoleUser, "Project Kubernetes Service Role", false,
		append(cks, rule("*", false))...)
	cksRole.Builtin = false // listRoles shows this role as not built in
}

// addVPCOfferings creates the built-in VPC offerings.
func addVPCOfferings(st *store.State, now time.Time) {
	const router = "VpcVirtualRouter"
	// all returns every service except those in without. Their provider is provider, unless special lists others.
	all := func(provider string, special map[string][]string, without ...string) []store.VPCService {
		var out []store.VPCService
		for _, s := range store.VPCServiceNames {
			if slices.Contains(without, s) {
				continue
			}
			v := store.VPCService{Name: s}
			names := special[s]
			if names == nil {
				names = []string{provider}
			}
			for _, n := range names {
				v.Provider = append(v.Provider, store.NameView{Name: n})
			}
			out = append(out, v)
		}
		return out
	}

	lb := map[string][]string{"Lb": {router, "InternalLbVm"}}
	basics := map[string][]string{"UserData": {router}, "Dhcp": {router}, "Dns": {router}}
	withVPN := map[string][]string{"UserData": {router}, "Dhcp": {router}, "Dns": {router}, "Vpn": {router}}
	routed := []string{"Vpn", "StaticNat", "PortForwarding", "Lb"}
	for _, o := range []store.VPCOffering{
		{Name: store.VPCOfferingName, Services: all(router, lb)},
		{
			Name:     "Default VPC  offering with Netscaler",
			Services: all(router, map[string][]string{"Lb": {"Netscaler", "InternalLbVm"}}),
		},
		{Name: store.RedundantOfferingName, Redundant: true, Services: all(router, lb)},
		{Name: "VPC offering with NSX - NAT Mode", Mode: "NATTED", Services: all("Nsx", basics, "Vpn")},
		{Name: "VPC offering with NSX - Route Mode", Mode: "ROUTED", Services: all("Nsx", basics, routed...)},
		{Name: "VPC offering with Netris - Route Mode", Mode: "ROUTED", Services: all("Netris", basics, routed...)},
		{Name: "VPC offering with Netris - NAT Mode", Mode: "NATTED", Services: all("Netris", withVPN)},
	} {
		row := o
		row.Entity, row.Display = store.Entity{UUID: store.StableID("vpcoffering", o.Name), Created: now}, o.Name
		st.VPCOffs.Add(&row)
	}
}
