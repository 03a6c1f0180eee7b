// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// builder builds the server state from a World. Every error names the object, the problem and a valid value.
type builder struct {
	w   *World
	st  *state
	now time.Time
	// made counts the generated ids per kind and name, because names need not be unique.
	made map[string]int
}

// Validate returns the first error in the world, or nil if the world can be served.
func (w *World) Validate() error {
	_, err := buildState(w, time.Unix(0, 0))
	return err
}

func buildState(w *World, now time.Time) (*state, error) {
	r, err := w.release()
	if err != nil {
		return nil, err
	}
	cat, err := loadCatalogue()
	if err != nil {
		return nil, err
	}
	for _, f := range w.Faults {
		if _, err := ParseFault(f); err != nil {
			return nil, fmt.Errorf("world: %w", err)
		}
	}
	if w.Rows != nil {
		return buildDump(w, now)
	}
	b := &builder{w: w, st: newState(), now: now, made: map[string]int{}}
	b.st.settings = w.Settings
	if b.st.version, err = w.version(); err != nil {
		return nil, err
	}
	b.st.msID = stableID("managementserver", "localhost")
	b.st.domains.add(&domain{entity: b.entity("domain", "", "ROOT"), name: "ROOT"})
	b.st.addBuiltinRoles(cat.at(r), stableID)
	if err := b.st.addNetworkOfferings(stableID); err != nil {
		return nil, err
	}
	for _, o := range b.st.netOffs.rows {
		o.created = b.now
	}
	b.st.addVPCOfferings(stableID, entity{created: b.now})
	b.st.vms.next = 3        // the zone's two system VMs come first
	b.st.networks.next = 204 // the lower ids belong to CloudStack's own networks
	b.st.addDiskOfferings(b.base)
	for _, n := range commonOSTypes {
		b.st.osTypeNamed(n)
	}
	b.defaultACLs()
	for _, step := range []func() error{
		b.zones, b.offerings, b.templates, b.domains, b.roles, b.accounts, b.projects, b.raiseDomainLimits, b.vpcs, b.networks, b.machines,
		b.addresses, b.systemVMs, b.sourceNATs,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("world: %w", err)
		}
	}
	return b.st, nil
}

// buildDump restores the state from a dumped world.
func buildDump(w *World, now time.Time) (*state, error) {
	if len(w.Zones)+len(w.Accounts)+len(w.Networks)+len(w.VirtualMachines)+len(w.PublicIPs)+len(w.VPCs)+len(w.Projects) > 0 {
		return nil, errors.New("world: it has rows, as a dump, and other objects beside them; make those by API calls")
	}
	st, err := loadRows(w.Rows)
	if err != nil {
		return nil, fmt.Errorf("world: %w", err)
	}
	st.settings = w.Settings
	if st.version, err = w.version(); err != nil {
		return nil, err
	}
	st.stopInterruptedVMs(now)
	return st, nil
}

// version returns the full version that listCapabilities shows.
func (w *World) version() (string, error) {
	version, err := FullVersion(cmp.Or(w.Version, "4.22"))
	if err != nil {
		return "", fmt.Errorf("world: %w", err)
	}
	return version, nil
}

// release returns the release of CloudStack to simulate.
func (w *World) release() (release, error) {
	version, err := w.version()
	if err != nil {
		return release{}, err
	}
	return parseRelease(version)
}

// namespace is the UUID namespace of the ids that are derived from names.
var namespace = uuid.MustParse("6f1f8a3e-5d0b-5f2e-9b44-0c8f8a3f7c11")

// stableID derives an id from kind and name, so that it is the same in every run of the same world.
func stableID(kind, name string) string {
	return uuid.NewSHA1(namespace, []byte(kind+"\x00"+name)).String()
}

// newKeys returns a random API key and secret key, long and URL-safe like CloudStack's.
func newKeys() (apiKey, secretKey string) { return randomKey(64), randomKey(64) }

// entity returns the base of a row. An empty id is derived from kind and name, plus a counter if the name is
// repeated.
func (b *builder) entity(kind, id, name string) entity {
	if id == "" {
		id = stableID(kind, name)
		n := b.made[id]
		b.made[id]++
		if n > 0 {
			id = stableID(kind, fmt.Sprintf("%s\x00%d", name, n))
		}
	}
	return entity{uuid: id, created: b.now}
}

// base is entity for objects whose id the world cannot set.
func (b *builder) base(kind, name string) entity { return b.entity(kind, "", name) }

// checkID refuses ids that are not UUIDs or that are used twice.
func checkID[T row](t *table[T], kind, name, id string) error {
	if id == "" {
		return nil
	}
	if _, err := uuid.Parse(id); err != nil || len(id) != 36 {
		return fmt.Errorf("%s %q: id %q is not a UUID; leave it out to have one made", kind, name, id)
	}
	if _, taken := t.get(id); taken {
		return fmt.Errorf("%s %q: id %s is used twice", kind, name, id)
	}
	return nil
}

func (b *builder) zones() error {
	if len(b.w.Zones) == 0 {
		return fmt.Errorf("zones: there is none; give at least one with a name and publicRanges")
	}
	for _, z := range b.w.Zones {
		if z.Name == "" {
			return fmt.Errorf("zones: a zone has no name")
		}
		if err := checkID(b.st.zones, "zone", z.Name, z.ID); err != nil {
			return err
		}
		if _, dup := b.st.zones.find(func(o *zone) bool { return strings.EqualFold(o.name, z.Name) }); dup {
			return fmt.Errorf("zone %q: the name is used twice", z.Name)
		}
		suffix := b.w.Settings.NetworkDomainSuffix
		if suffix == "" {
			suffix = "cloud.internal"
		}
		dns := z.DNS1
		if dns == "" {
			dns = "8.8.8.8"
		}
		row := b.st.zones.add(&zone{
			entity: b.entity("zone", z.ID, z.Name), name: z.Name, description: z.Description, dns1: dns, internalDNS1: dns,
			networkDomain: suffix, guestCIDR: "10.1.1.0/24", enabled: !z.Disabled,
			publicNetID: stableID("publicnetwork", z.Name), physicalNetID: stableID("physicalnetwork", z.Name),
			zonetoken: uuid.NewMD5(namespace, []byte(z.Name)).String(),
		})
		hosts := z.Hosts
		if len(hosts) == 0 {
			hosts = []string{"hypervisor-1"}
		}
		var added []*host
		for _, h := range hosts {
			added = append(added, b.st.hosts.add(&host{entity: b.entity("host", "", z.Name+"/"+h), name: h, zone: row}))
		}
		b.st.addInfrastructure(row, added, b.base)
		if err := b.publicRange(row, z.PublicRanges); err != nil {
			return err
		}
	}
	return nil
}

// maxRange limits the number of addresses of a public range: a /16 is more than any test needs.
const maxRange = 1 << 16

func (b *builder) publicRange(z *zone, ranges []string) error {
	if len(ranges) == 0 {
		return fmt.Errorf("zone %q: publicRanges is empty; give at least one, such as 203.0.113.10-203.0.113.199", z.name)
	}
	for _, r := range ranges {
		lo, hi, ok := strings.Cut(r, "-")
		if !ok {
			hi = lo
		}
		first, err1 := netip.ParseAddr(strings.TrimSpace(lo))
		last, err2 := netip.ParseAddr(strings.TrimSpace(hi))
		if err1 != nil || err2 != nil || !first.Is4() || !last.Is4() || last.Less(first) {
			return fmt.Errorf("zone %q: public range %q is not first-last with two IPv4 addresses in order", z.name, r)
		}
		for n, a := 0, first; ; n, a = n+1, a.Next() {
			if n >= maxRange {
				return fmt.Errorf("zone %q: public range %q has more than %d addresses", z.name, r, maxRange)
			}
			if _, dup := b.st.ips.find(func(o *publicIP) bool { return o.addr == a && n == 0 }); dup {
				return fmt.Errorf("zone %q: public range %q overlaps another one at %s", z.name, r, a)
			}
			b.st.ips.add(&publicIP{entity: b.entity("ip", "", z.name+"/"+a.String()), addr: a, zone: z, state: ipFree})
			if a == last {
				break
			}
		}
	}
	return nil
}

func (b *builder) offerings() error {
	list := b.w.ServiceOfferings
	if len(list) == 0 {
		list = []ServiceOffering{
			{Name: "Small Instance", CPUs: 1, CPUSpeed: 500, Memory: 512}, {Name: "Medium Instance", CPUs: 1, CPUSpeed: 1000, Memory: 1024},
		}
	}
	for _, o := range list {
		if o.Name == "" || o.CPUs <= 0 || o.Memory <= 0 || o.CPUSpeed <= 0 {
			return fmt.Errorf("service offering %q: name, cpus, cpuSpeed (MHz) and memoryMiB must be given and positive", o.Name)
		}
		if err := checkID(b.st.offerings, "service offering", o.Name, o.ID); err != nil {
			return err
		}
		b.st.offerings.add(&serviceOffering{
			entity: b.entity("offering", o.ID, o.Name), name: o.Name, display: o.Name, cpuNumber: o.CPUs, cpuSpeed: o.CPUSpeed, memMB: o.Memory,
			diskOfferingID: stableID("diskoffering", o.Name),
		})
	}
	return nil
}

func (b *builder) templates() error {
	list := b.w.Templates
	if len(list) == 0 {
		list = []Template{{Name: "CentOS 5.6 (64-bit) no GUI (Simulator)", OS: "CentOS 5.6 (64-bit)"}}
	}
	for _, t := range list {
		if t.Name == "" {
			return fmt.Errorf("templates: a template has no name")
		}
		if err := checkID(b.st.templates, "template", t.Name, t.ID); err != nil {
			return err
		}
		os := t.OS
		if os == "" {
			os = "Other Linux (64-bit)"
		}
		b.st.templates.add(&template{
			entity: b.entity("template", t.ID, t.Name), name: t.Name, display: t.Name, osName: os, format: "VHD", typ: "BUILTIN",
			guestOSID: b.st.osTypeNamed(os).uuid, forCKS: t.ForCKS,
		})
	}
	return nil
}

func (b *builder) domains() error {
	for _, d := range b.w.Domains {
		path := strings.Trim(strings.TrimPrefix(d.Path, "ROOT"), "/")
		if path == "" {
			return fmt.Errorf("domain %q: the path must name a domain below ROOT, such as ROOT/k8s", d.Path)
		}
		parentPath, name := "", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			parentPath, name = path[:i], path[i+1:]
		}
		parent, ok := b.st.domainByPath(parentPath)
		if !ok {
			return fmt.Errorf("domain %q: its parent %q is not there; list parents before children", d.Path, parentPath)
		}
		if err := checkID(b.st.domains, "domain", d.Path, d.ID); err != nil {
			return err
		}
		if _, dup := b.st.domainByPath(path); dup {
			return fmt.Errorf("domain %q: the path is used twice", d.Path)
		}
		b.st.domains.add(&domain{entity: b.entity("domain", d.ID, path), name: name, parent: parent})
	}
	return nil
}

func (b *builder) roles() error {
	for _, r := range b.w.Roles {
		if _, ok := accountTypes[r.Type]; !ok || r.Name == "" {
			return fmt.Errorf("role %q: type %q must be Admin, ResourceAdmin, DomainAdmin or User, and the name given", r.Name, r.Type)
		}
		if _, dup := b.st.roles.find(func(o *role) bool { return o.name == r.Name }); dup {
			return fmt.Errorf("role %q: there is a role of that name already", r.Name)
		}
		if err := checkID(b.st.roles, "role", r.Name, r.ID); err != nil {
			return err
		}
		row := &role{entity: b.entity("role", r.ID, r.Name), name: r.Name, kind: r.Type, description: r.Description, public: true}
		for _, rule := range r.Rules {
			pattern := rule.Allow + rule.Deny
			if (rule.Allow == "") == (rule.Deny == "") || !ruleSyntax.MatchString(pattern) {
				return fmt.Errorf("role %q: a rule is either {allow: PATTERN} or {deny: PATTERN}, of letters and *", r.Name)
			}
			row.rules = append(row.rules, &roleRule{uuid: uuid.NewString(), pattern: pattern, allow: rule.Allow != ""})
		}
		b.st.roles.add(row)
	}
	return nil
}

// tagsOf converts a map of the world to tags, sorted by key.
func tagsOf(m map[string]string) tagged {
	var t tagged
	for _, k := range slices.Sorted(maps.Keys(m)) {
		t.tags = append(t.tags, tag{key: k, value: m[k], uuid: uuid.NewString()})
	}
	return t
}
