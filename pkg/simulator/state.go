// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"
)

// entity is the part that all rows of CloudStack's database have in common: the internal id, which appears in error
// texts, and the UUID, which the API uses.
type entity struct {
	id      int64
	uuid    string
	removed bool // soft-deleted: the UUID still resolves
	created time.Time
}

func (e *entity) ent() *entity { return e }

// row is an entity in a table.
type row interface {
	comparable
	ent() *entity
}

// table keeps the rows of one kind in order of their internal id.
type table[T row] struct {
	rows   []T
	byUUID map[string]T
	next   int64
}

func newTable[T row]() *table[T] { return &table[T]{byUUID: map[string]T{}, next: 1} }

// add stores a row with a new internal id and, if it has none, a new UUID.
func (t *table[T]) add(v T) T {
	e := v.ent()
	e.id = t.next
	t.next++
	if e.uuid == "" {
		e.uuid = uuid.NewString()
	}
	t.rows = append(t.rows, v)
	t.byUUID[strings.ToLower(e.uuid)] = v
	return v
}

// addWithID is add for rows that share an id sequence with another table.
func (t *table[T]) addWithID(v T, id int64) T {
	t.next = id
	return t.add(v)
}

// drop deletes the row permanently: its UUID does not resolve any more.
func (t *table[T]) drop(v T) {
	e := v.ent()
	delete(t.byUUID, strings.ToLower(e.uuid))
	if i, ok := t.index(e.id); ok {
		t.rows = append(t.rows[:i], t.rows[i+1:]...)
	}
	e.removed = true
}

// rename changes the UUID of a row.
func (t *table[T]) rename(v T, id string) {
	e := v.ent()
	delete(t.byUUID, strings.ToLower(e.uuid))
	e.uuid = id
	t.byUUID[strings.ToLower(id)] = v
}

func (t *table[T]) index(id int64) (int, bool) {
	i := sort.Search(len(t.rows), func(i int) bool { return t.rows[i].ent().id >= id })
	return i, i < len(t.rows) && t.rows[i].ent().id == id
}

// get finds a row by UUID (case-insensitive, like the database), including soft-deleted rows.
func (t *table[T]) get(id string) (T, bool) {
	v, ok := t.byUUID[strings.ToLower(id)]
	return v, ok
}

func (t *table[T]) byID(id int64) (T, bool) {
	if i, ok := t.index(id); ok {
		return t.rows[i], true
	}
	var zero T
	return zero, false
}

// find returns the first row for which ok returns true; it skips soft-deleted rows.
func (t *table[T]) find(ok func(T) bool) (T, bool) {
	for _, v := range t.rows {
		if !v.ent().removed && ok(v) {
			return v, true
		}
	}
	var zero T
	return zero, false
}

// state is the database with every object of the simulated CloudStack. Simulator.mu guards it.
type state struct {
	settings  Settings
	version   string
	msID      string // this management server
	domains   *table[*domain]
	roles     *table[*role]
	accounts  *table[*account]
	users     *table[*user]
	projects  *table[*project]
	zones     *table[*zone]
	offerings *table[*serviceOffering]
	netOffs   *table[*networkOffering]
	templates *table[*template]
	hosts     *table[*host]
	networks  *table[*network]
	vpcs      *table[*vpc]
	aclLists  *table[*aclList]
	aclItems  *table[*aclItem]
	vms       *table[*vm]
	nics      *table[*nic]
	secondary *table[*secondaryIP]
	volumes   *table[*volume]
	diskOffs  *table[*diskOffering]
	affinity  *table[*affinityGroup]
	groups    *table[*instanceGroup]
	keypairs  *table[*sshKeyPair]
	pods      *table[*pod]
	clusters  *table[*cluster]
	pools     *table[*storagePool]
	systemVMs *table[*systemVM]
	osTypes   *table[*osType]
	ips       *table[*publicIP]
	lbRules   *table[*lbRule]
	leftTags  []tagTarget // tags of load balancer rules that are gone
	fwRules   *table[*fwRule]
	egress    *table[*fwRule] // firewall rules of networks, not of addresses
	pfRules   *table[*pfRule]
	vpcOffs   *table[*vpcOffering]
	jobs      *table[*job]
	policies  *table[*stickyPolicy]
	certs     *table[*sslCert]

	kubernetesVersions *table[*kubernetesVersion]
	kubernetesClusters *table[*kubernetesCluster]

	projectRoles *table[*projectRole]
	events       *table[*event]
	configs      map[string]string // settings with values other than the default, except those in settings

	nextRule int64 // load balancer, firewall and port forwarding rules share one id sequence
	apiKeys  map[string]*user
	due      []*job // pending jobs, ordered by the time they end
	running  *job   // the job whose work is executing
	jobIndex
}

func newState() *state {
	return &state{
		domains:            newTable[*domain](),
		roles:              newTable[*role](),
		accounts:           newTable[*account](),
		users:              newTable[*user](),
		projects:           newTable[*project](),
		zones:              newTable[*zone](),
		offerings:          newTable[*serviceOffering](),
		netOffs:            newTable[*networkOffering](),
		templates:          newTable[*template](),
		hosts:              newTable[*host](),
		networks:           newTable[*network](),
		vpcs:               newTable[*vpc](),
		aclLists:           newTable[*aclList](),
		aclItems:           newTable[*aclItem](),
		vms:                newTable[*vm](),
		ips:                newTable[*publicIP](),
		lbRules:            newTable[*lbRule](),
		fwRules:            newTable[*fwRule](),
		kubernetesVersions: newTable[*kubernetesVersion](),
		egress:             newTable[*fwRule](),
		pfRules:            newTable[*pfRule](),
		vpcOffs:            newTable[*vpcOffering](),
		jobs:               newTable[*job](),
		policies:           newTable[*stickyPolicy](),
		certs:              newTable[*sslCert](),
		nextRule:           1,
		apiKeys:            map[string]*user{},
		msID:               uuid.NewString(),
		kubernetesClusters: newTable[*kubernetesCluster](),
		nics:               newTable[*nic](),
		secondary:          newTable[*secondaryIP](),
		volumes:            newTable[*volume](),
		diskOffs:           newTable[*diskOffering](),
		affinity:           newTable[*affinityGroup](),
		groups:             newTable[*instanceGroup](),
		keypairs:           newTable[*sshKeyPair](),
		pods:               newTable[*pod](),
		clusters:           newTable[*cluster](),
		pools:              newTable[*storagePool](),
		systemVMs:          newTable[*systemVM](),
		osTypes:            newTable[*osType](),
		projectRoles:       newTable[*projectRole](),
		events:             newTable[*event](),
		configs:            map[string]string{},
	}
}

// ruleID returns the next id of the shared rule sequence.
func (st *state) ruleID() int64 {
	id := st.nextRule
	st.nextRule++
	return id
}

// tagged is a resource that can have tags.
type tagged struct {
	tags []tag
}

func (t *tagged) tagList() *[]tag { return &t.tags }

// tag is a key with its value. Keys are unique per resource.
type tag struct {
	key, value, customer string
	uuid                 string
}

// hasTags reports whether the resource has one of the wanted tags. CloudStack combines several tags with OR.
func (t *tagged) hasTags(want []tag) bool {
	if len(want) == 0 {
		return true
	}
	for _, w := range want {
		for _, h := range t.tags {
			if strings.EqualFold(h.key, w.key) && strings.EqualFold(h.value, w.value) {
				return true
			}
		}
	}
	return false
}
