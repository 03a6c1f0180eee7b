// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"strings"
)

type serviceOfferingView struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	State          string     `json:"state"`
	DisplayText    string     `json:"displaytext"`
	CPUs           int        `json:"cpunumber"`
	Speed          int        `json:"cpuspeed"`
	Memory         int        `json:"memory"`
	Created        *timestamp `json:"created"`
	StorageType    string     `json:"storagetype"`
	Provisioning   string     `json:"provisioningtype"`
	OfferHA        bool       `json:"offerha"`
	LimitCPU       bool       `json:"limitcpuuse"`
	Volatile       bool       `json:"isvolatile"`
	System         bool       `json:"issystem"`
	DefaultUse     bool       `json:"defaultuse"`
	Customized     bool       `json:"iscustomized"`
	RootDisk       int        `json:"rootdisksize"`
	DynScaling     bool       `json:"dynamicscalingenabled"`
	DiskStrict     bool       `json:"diskofferingstrictness"`
	DiskID         string     `json:"diskofferingid"`
	DiskName       string     `json:"diskofferingname"`
	DiskText       string     `json:"diskofferingdisplaytext"`
	Encrypt        bool       `json:"encryptroot"`
	HasAnnotations bool       `json:"hasannotations"`
}

func listServiceOfferings(c *call) (any, error) {
	if c.boolean("issystem") && !c.caller.rootAdmin() {
		return nil, invalid("Only ROOT admins can access system's offering")
	}
	if _, err := c.ownerScope(false); err != nil {
		return nil, err
	}
	m := arg[*vm](c, "virtualmachineid")
	switch {
	case !c.given("virtualmachineid"):
	case m == nil || m.removed:
		return nil, invalid("unable to find a virtual machine with specified id")
	case !c.access(m.owner):
		return nil, denied()
	}
	var out []*serviceOffering
	for _, o := range c.st.offerings.rows {
		switch {
		case o.removed || !matches(c, "id", o) || c.boolean("issystem") != o.system || !c.offeringMatches(o):
		case m != nil && !m.canChangeTo(o):
		default:
			out = append(out, o)
		}
	}
	return page(c, "serviceoffering", out, func(o *serviceOffering) serviceOfferingView {
		return serviceOfferingView{
			ID: o.uuid, Name: o.name, State: "Active", DisplayText: o.display, CPUs: o.cpuNumber, Speed: o.cpuSpeed, Memory: o.memMB,
			Created: stamp(o.created), StorageType: "shared", Provisioning: "thin", DynScaling: true, DiskID: o.diskOfferingID, DiskName: o.name, DiskText: o.display,
		}
	})
}

// offeringMatches applies the filters on attributes of a service offering.
func (c *call) offeringMatches(o *serviceOffering) bool {
	for name, has := range map[string]int{"cpunumber": o.cpuNumber, "cpuspeed": o.cpuSpeed, "memory": o.memMB} {
		if c.has(name) && has < c.integer(name) {
			return false
		}
	}
	switch {
	case c.has("name") && !strings.EqualFold(c.str("name"), o.name),
		c.has("keyword") && !like(o.name, c.str("keyword")) && !like(o.display, c.str("keyword")),
		c.boolean("encryptroot"), c.boolean("gpuenabled"), c.given("vgpuprofileid"), c.has("systemvmtype") && !o.system,
		c.has("storagetype") && !strings.EqualFold(c.str("storagetype"), "shared"),
		c.has("state") && !strings.EqualFold(c.str("state"), "Active") && !strings.EqualFold(c.str("state"), "all"):
		return false
	}
	// No offering belongs to a domain. CloudStack checks the domain parameter of users, but does not filter by it.
	return !c.given("domainid") || c.str("account") != "" || !c.caller.rootAdmin()
}

// canChangeTo reports whether listServiceOfferings returns an offering as a choice for a VM.
func (v *vm) canChangeTo(o *serviceOffering) bool {
	if o == v.offering {
		return false
	}
	return v.state != vmRunning || o.cpuNumber >= v.offering.cpuNumber && o.cpuSpeed >= v.offering.cpuSpeed && o.memMB >= v.offering.memMB
}

func listNetworkOfferings(c *call) (any, error) {
	var out []*networkOffering
	for _, o := range c.st.netOffs.rows {
		s := &o.spec
		switch {
		case o.removed || !matches(c, "id", o):
		case c.has("name") && !strings.EqualFold(c.str("name"), s.Name):
		case c.has("displaytext") && !like(s.DisplayText, c.str("displaytext")):
		case c.has("keyword") && !like(s.Name, c.str("keyword")) && !like(s.DisplayText, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), s.State):
		case c.has("guestiptype") && !strings.EqualFold(c.str("guestiptype"), s.GuestType):
		case c.has("traffictype") && !strings.EqualFold(c.str("traffictype"), s.TrafficType):
		case c.has("availability") && !strings.EqualFold(c.str("availability"), s.Availability):
		case c.has("forvpc") && c.boolean("forvpc") != s.ForVPC, c.has("isdefault") && c.boolean("isdefault") != s.IsDefault:
		case c.has("specifyvlan") && c.boolean("specifyvlan") != s.SpecifyVlan, c.has("specifyipranges") && c.boolean("specifyipranges") != s.SpecifyIPs:
		case c.has("sourcenatsupported") && c.boolean("sourcenatsupported") != o.has("SourceNat"):
		case c.given("networkid") && !c.changeable(o):
		case !o.hasAll(c.list("supportedservices")):
		default:
			out = append(out, o)
		}
	}
	return page(c, "networkoffering", out, viewNetworkOffering)
}

func (o *networkOffering) has(service string) bool {
	_, ok := o.service(service)
	return ok
}

func (o *networkOffering) hasAll(services []string) bool {
	for _, s := range services {
		if !o.has(s) {
			return false
		}
	}
	return true
}

// changeable reports whether the network of the call can change to the offering.
func (c *call) changeable(o *networkOffering) bool {
	n := arg[*network](c, "networkid")
	return n != nil && n.typ == o.spec.GuestType && n.offering != o && n.offering.spec.ForVPC == o.spec.ForVPC
}

// viewNetworkOffering adds id and created to the recorded answer for a built-in offering.
func viewNetworkOffering(o *networkOffering) json.RawMessage {
	head, err := marshal(struct {
		ID      string     `json:"id"`
		Created *timestamp `json:"created"`
	}{o.uuid, stamp(o.created)})
	if err != nil {
		return o.body
	}
	head[len(head)-1] = ','
	return append(head, o.body[1:]...)
}
