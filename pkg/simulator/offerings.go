// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// networkOfferingsJSON are the built-in network offerings in the format of listNetworkOfferings.
//
//go:embed network-offerings.json
var networkOfferingsJSON []byte

// networkOffering defines the services of a network and their providers.
type networkOffering struct {
	entity
	body     json.RawMessage // without id and created
	spec     offeringSpec
	services []serviceView

	once     sync.Once
	rendered []serviceOfNetwork
}

// offeringSpec holds the fields of an offering that the simulator uses.
type offeringSpec struct {
	Name         string        `json:"name"`
	DisplayText  string        `json:"displaytext"`
	GuestType    string        `json:"guestiptype"`
	ForVPC       bool          `json:"forvpc"`
	Conserve     bool          `json:"conservemode"`
	Availability string        `json:"availability"`
	State        string        `json:"state"`
	IsDefault    bool          `json:"isdefault"`
	TrafficType  string        `json:"traffictype"`
	SpecifyVlan  bool          `json:"specifyvlan"`
	SpecifyIPs   bool          `json:"specifyipranges"`
	Persistent   bool          `json:"ispersistent"`
	Egress       bool          `json:"egressdefaultpolicy"`
	NetworkMode  string        `json:"networkmode"`
	Services     []serviceView `json:"service"`
}

type serviceView struct {
	Name         string           `json:"name"`
	Provider     []nameView       `json:"provider"`
	Capabilities []capabilityView `json:"capability,omitzero"`
}

type nameView struct {
	Name string `json:"name"`
}

type capabilityView struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	CanChoose bool   `json:"canchooseservicecapability"`
}

func (o *networkOffering) service(name string) (*serviceView, bool) {
	for i := range o.services {
		if o.services[i].Name == name {
			return &o.services[i], true
		}
	}
	return nil, false
}

// providedBy reports whether one of the named providers provides the service.
func (o *networkOffering) providedBy(service string, providers ...string) bool {
	s, ok := o.service(service)
	if !ok {
		return false
	}
	for _, p := range s.Provider {
		for _, want := range providers {
			if p.Name == want {
				return true
			}
		}
	}
	return false
}

// addNetworkOfferings creates the built-in offerings.
func (st *state) addNetworkOfferings(ids func(kind, name string) string) error {
	var all []json.RawMessage
	if err := json.Unmarshal(networkOfferingsJSON, &all); err != nil {
		return fmt.Errorf("decode the embedded network offerings: %w", err)
	}
	for _, raw := range all {
		o := &networkOffering{body: raw}
		if err := json.Unmarshal(raw, &o.spec); err != nil {
			return fmt.Errorf("decode an embedded network offering: %w", err)
		}
		o.services = o.spec.Services
		o.uuid = ids("networkoffering", o.spec.Name)
		st.netOffs.add(o)
	}
	return nil
}
