// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// builder builds the server state from a World. Every error names the object, the problem and a valid value.
type builder struct {
	w   *World
	st  *store.State
	now time.Time
	// made counts the generated ids per kind and name, because names need not be unique.
	made map[string]int
}

// Validate returns the first error in the world, or nil if the world can be served.
func (w *World) Validate() error {
	_, err := Build(w, time.Unix(0, 0))
	return err
}

// Build returns the state that the world describes.
func Build(w *World, now time.Time) (*store.State, error) {
	r, err := w.Release()
	if err != nil {
		return nil, err
	}
	cat, err := catalogue.Load()
	if err != nil {
		return nil, err
	}
	for _, f := range w.Faults {
		if _, err := fault.Parse(f); err != nil {
			return nil, fmt.Errorf("world: %w", err)
		}
	}
	b := &builder{w: w, st: store.NewState(), now: now, made: map[string]int{}}
	for name, value := range w.Settings {
		if _, ok := settings.Defaults[name]; !ok {
			return nil, fmt.Errorf("world: setting %q is not known; the simulator has those that updateConfiguration changes", name)
		}
		b.st.Settings[name] = value
	}
	if b.st.Version, err = w.version(); err != nil {
		return nil, err
	}
	b.st.MsID = store.StableID("managementserver", "localhost")
	b.st.Domains.Add(&store.Domain{Entity: b.entity("domain", "", "ROOT"), Name: "ROOT"})
	addBuiltinRoles(b.st, cat.At(r), store.StableID)
	if err := addNetworkOfferings(b.st, store.StableID); err != nil {
		return nil, err
	}
	for _, o := range b.st.NetOffs.Rows {
		o.Created = b.now
	}
	addVPCOfferings(b.st, store.StableID, store.Entity{Created: b.now})
	b.st.VMs.Next = 3        // the zone's two system VMs come first
	b.st.Networks.Next = 204 // the lower ids belong to CloudStack's own networks
	b.defaultACLs()
	for _, step := range []func() error{
		b.zones, b.offerings, b.templates, b.kubernetesVersions, b.domains, b.roles, b.accounts, b.projects, b.raiseDomainLimits, b.vpcs, b.networks, b.machines,
		b.addresses, b.systemVMs, b.sourceNATs,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("world: %w", err)
		}
	}
	return b.st, nil
}

// version returns the full version that listCapabilities shows.
func (w *World) version() (string, error) {
	version, err := catalogue.FullVersion(cmp.Or(w.Version, "4.22"))
	if err != nil {
		return "", fmt.Errorf("world: %w", err)
	}
	return version, nil
}

// Release returns the release of CloudStack to simulate.
func (w *World) Release() (catalogue.Release, error) {
	version, err := w.version()
	if err != nil {
		return catalogue.Release{}, err
	}
	return catalogue.ParseRelease(version)
}

// entity returns the base of a row. An empty id is derived from kind and name, plus a counter if the name is
// repeated.
func (b *builder) entity(kind, id, name string) store.Entity {
	if id == "" {
		id = store.StableID(kind, name)
		n := b.made[id]
		b.made[id]++
		if n > 0 {
			id = store.StableID(kind, fmt.Sprintf("%s\x00%d", name, n))
		}
	}
	return store.Entity{UUID: id, Created: b.now}
}

// checkID refuses ids that are not UUIDs or that are used twice.
func checkID[T store.Row](t *store.Table[T], kind, name, id string) error {
	if id == "" {
		return nil
	}
	if _, err := uuid.Parse(id); err != nil || len(id) != 36 {
		return fmt.Errorf("%s %q: id %q is not a UUID; leave it out to have one made", kind, name, id)
	}
	if _, taken := t.Get(id); taken {
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
		if err := checkID(b.st.Zones, "zone", z.Name, z.ID); err != nil {
			return err
		}
		if _, dup := b.st.Zones.Find(func(o *store.Zone) bool { return strings.EqualFold(o.Name, z.Name) }); dup {
			return fmt.Errorf("zone %q: the name is used twice", z.Name)
		}
		dns := z.DNS1
		if dns == "" {
			dns = "8.8.8.8"
		}
		row := b.st.Zones.Add(&store.Zone{
			Entity: b.entity("zone", z.ID, z.Name), Name: z.Name, Description: z.Description, DNS1: dns, InternalDNS1: dns,
			NetworkDomain: b.st.Setting("guest.domain.suffix"), GuestCIDR: "10.1.1.0/24", Enabled: !z.Disabled,
			PublicNetID: store.StableID("publicnetwork", z.Name), PhysicalNetID: store.StableID("physicalnetwork", z.Name),
			Zonetoken: uuid.NewMD5(store.Namespace, []byte(z.Name)).String(),
		})
		hosts := z.Hosts
		if len(hosts) == 0 {
			hosts = []string{"hypervisor-1"}
		}
		for _, h := range hosts {
			b.st.Hosts.Add(&store.Host{Entity: b.entity("host", "", z.Name+"/"+h), Name: h, Zone: row})
		}
		b.st.AddSystemVMs(row)
		if err := b.publicRange(row, z.PublicRanges); err != nil {
			return err
		}
	}
	return nil
}

// maxRange limits the number of addresses of a public range: a /16 is more than any test needs.
const maxRange = 1 << 16

func (b *builder) publicRange(z *store.Zone, ranges []string) error {
	if len(ranges) == 0 {
		return fmt.Errorf("zone %q: publicRanges is empty; give at least one, such as 203.0.113.10-203.0.113.199", z.Name)
	}
	for _, r := range ranges {
		lo, hi, ok := strings.Cut(r, "-")
		if !ok {
			hi = lo
		}
		first, err1 := netip.ParseAddr(strings.TrimSpace(lo))
		last, err2 := netip.ParseAddr(strings.TrimSpace(hi))
		if err1 != nil || err2 != nil || !first.Is4() || !last.Is4() || last.Less(first) {
			return fmt.Errorf("zone %q: public range %q is not first-last with two IPv4 addresses in order", z.Name, r)
		}
		for n, a := 0, first; ; n, a = n+1, a.Next() {
			if n >= maxRange {
				return fmt.Errorf("zone %q: public range %q has more than %d addresses", z.Name, r, maxRange)
			}
			if _, dup := b.st.IPs.Find(func(o *store.PublicIP) bool { return o.Addr == a && n == 0 }); dup {
				return fmt.Errorf("zone %q: public range %q overlaps another one at %s", z.Name, r, a)
			}
			b.st.IPs.Add(&store.PublicIP{Entity: b.entity("ip", "", z.Name+"/"+a.String()), Addr: a, Zone: z, State: store.IPFree})
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
		if err := checkID(b.st.Offerings, "service offering", o.Name, o.ID); err != nil {
			return err
		}
		b.st.Offerings.Add(&store.ServiceOffering{
			Entity: b.entity("offering", o.ID, o.Name), Name: o.Name, Display: o.Name, CPUNumber: o.CPUs, CPUSpeed: o.CPUSpeed, MemMB: o.Memory,
			DiskOfferingID: store.StableID("diskoffering", o.Name),
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
		if err := checkID(b.st.Templates, "template", t.Name, t.ID); err != nil {
			return err
		}
		os := t.OS
		if os == "" {
			os = "Other Linux (64-bit)"
		}
		b.st.Templates.Add(&store.Template{
			Entity: b.entity("template", t.ID, t.Name), Name: t.Name, Display: t.Name, OSName: os, Format: "VHD", Typ: "BUILTIN",
			GuestOSID: store.GuestOSID(os), ForCKS: t.ForCKS,
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
		parent, ok := b.st.DomainByPath(parentPath)
		if !ok {
			return fmt.Errorf("domain %q: its parent %q is not there; list parents before children", d.Path, parentPath)
		}
		if err := checkID(b.st.Domains, "domain", d.Path, d.ID); err != nil {
			return err
		}
		if _, dup := b.st.DomainByPath(path); dup {
			return fmt.Errorf("domain %q: the path is used twice", d.Path)
		}
		b.st.Domains.Add(&store.Domain{Entity: b.entity("domain", d.ID, path), Name: name, Parent: parent})
	}
	return nil
}

func (b *builder) roles() error {
	for _, r := range b.w.Roles {
		if _, ok := store.AccountTypes[r.Type]; !ok || r.Name == "" {
			return fmt.Errorf("role %q: type %q must be Admin, ResourceAdmin, DomainAdmin or User, and the name given", r.Name, r.Type)
		}
		if _, dup := b.st.Roles.Find(func(o *store.Role) bool { return o.Name == r.Name }); dup {
			return fmt.Errorf("role %q: there is a role of that name already", r.Name)
		}
		if err := checkID(b.st.Roles, "role", r.Name, r.ID); err != nil {
			return err
		}
		row := &store.Role{Entity: b.entity("role", r.ID, r.Name), Name: r.Name, Kind: r.Type, Description: r.Description, Public: true}
		for _, rule := range r.Rules {
			pattern := rule.Allow + rule.Deny
			if (rule.Allow == "") == (rule.Deny == "") || !store.RuleSyntax.MatchString(pattern) {
				return fmt.Errorf("role %q: a rule is either {allow: PATTERN} or {deny: PATTERN}, of letters and *", r.Name)
			}
			row.Rules = append(row.Rules, &store.RoleRule{UUID: uuid.NewString(), Pattern: pattern, Allow: rule.Allow != ""})
		}
		b.st.Roles.Add(row)
	}
	return nil
}

// tagsOf converts a map of the world to tags, sorted by key.
func tagsOf(m map[string]string) store.Tagged {
	var t store.Tagged
	for _, k := range slices.Sorted(maps.Keys(m)) {
		t.Tags = append(t.Tags, store.Tag{Key: k, Value: m[k], UUID: uuid.NewString()})
	}
	return t
}
