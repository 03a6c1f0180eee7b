// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store is the database of a simulated CloudStack: its rows, its tables, and the invariants between rows.
package store

import (
	"strings"

	"github.com/google/uuid"
)

// State is the database with every object of the simulated CloudStack. Simulator.mu guards it.
type State struct {
	Settings     map[string]string // settings whose value is not the default
	Version      string
	MsID         string // id of this management server
	Domains      *Table[*Domain]
	Roles        *Table[*Role]
	Accounts     *Table[*Account]
	Users        *Table[*User]
	Projects     *Table[*Project]
	Zones        *Table[*Zone]
	Offerings    *Table[*ServiceOffering]
	NetOffs      *Table[*NetworkOffering]
	Templates    *Table[*Template]
	Hosts        *Table[*Host]
	Networks     *Table[*Network]
	VPCs         *Table[*VPC]
	ACLLists     *Table[*ACLList]
	ACLItems     *Table[*ACLItem]
	VMs          *Table[*VM]
	NICs         *Table[*NIC]
	Secondary    *Table[*SecondaryIP]
	SystemVMs    []*SystemVM
	IPs          *Table[*PublicIP]
	LBRules      *Table[*LBRule]
	OrphanedTags []TagTarget // tags of deleted load balancer rules
	FWRules      *Table[*FWRule]
	PFRules      *Table[*PFRule]
	VPCOffs      *Table[*VPCOffering]
	Jobs         *Table[*Job]
	Policies     *Table[*StickyPolicy]
	Certs        *Table[*SSLCert]

	KubernetesVersions *Table[*KubernetesVersion]
	CNIConfigs         *Table[*CNIConfig]
	KubernetesClusters *Table[*KubernetesCluster]

	Events *Table[*Event]

	lost     map[string]*Network // networks of the rules that their router has lost, by the ID of the rule; see Lose
	nextRule int64               // load balancer, firewall and port forwarding rules share one id sequence
	APIKeys  map[string]*User
	Due      []*Job // pending jobs, ordered by the time at which they are due
	Running  *Job   // the job whose work is executing
	Outside  []*Job // jobs whose current step has work that must be started without the lock
	jobIndex
}

// NewState returns an empty state.
func NewState() *State {
	return &State{
		Domains:            newTable[*Domain](),
		Roles:              newTable[*Role](),
		Accounts:           newTable[*Account](),
		Users:              newTable[*User](),
		Projects:           newTable[*Project](),
		Zones:              newTable[*Zone](),
		Offerings:          newTable[*ServiceOffering](),
		NetOffs:            newTable[*NetworkOffering](),
		Templates:          newTable[*Template](),
		Hosts:              newTable[*Host](),
		Networks:           newTable[*Network](),
		VPCs:               newTable[*VPC](),
		ACLLists:           newTable[*ACLList](),
		ACLItems:           newTable[*ACLItem](),
		VMs:                newTable[*VM](),
		IPs:                newTable[*PublicIP](),
		LBRules:            newTable[*LBRule](),
		FWRules:            newTable[*FWRule](),
		KubernetesVersions: newTable[*KubernetesVersion](),
		CNIConfigs:         newTable[*CNIConfig](),
		PFRules:            newTable[*PFRule](),
		VPCOffs:            newTable[*VPCOffering](),
		Jobs:               newTable[*Job](),
		Policies:           newTable[*StickyPolicy](),
		Certs:              newTable[*SSLCert](),
		lost:               map[string]*Network{},
		nextRule:           1,
		APIKeys:            map[string]*User{},
		MsID:               uuid.NewString(),
		KubernetesClusters: newTable[*KubernetesCluster](),
		NICs:               newTable[*NIC](),
		Secondary:          newTable[*SecondaryIP](),
		Events:             newTable[*Event](),
		Settings:           map[string]string{},
	}
}

// RuleID returns the next id of the shared rule sequence.
func (st *State) RuleID() int64 {
	id := st.nextRule
	st.nextRule++
	return id
}

// Tagged is a resource that can have tags.
type Tagged struct {
	Tags []Tag
}

func (t *Tagged) tagList() *[]Tag { return &t.Tags }

// Tag is a key with its value. Keys are unique per resource.
type Tag struct {
	Key, Value, Customer string
	UUID                 string
}

// HasTags reports whether the resource has one of the wanted tags. CloudStack combines several tags with OR.
func (t *Tagged) HasTags(want []Tag) bool {
	if len(want) == 0 {
		return true
	}
	for _, w := range want {
		for _, h := range t.Tags {
			if strings.EqualFold(h.Key, w.Key) && strings.EqualFold(h.Value, w.Value) {
				return true
			}
		}
	}
	return false
}
