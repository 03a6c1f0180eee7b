// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

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

// builder builds the server state from a World.
type builder struct {
	w    *World
	st   *store.State
	now  time.Time
	what string         // the object that is being built, for errors
	uses map[string]int // how often each id was used
}

// worldError is an error in a world. The builder panics with it, and build returns it.
type worldError string

// check ends the build with an error about the current object, unless ok.
func (b *builder) check(ok bool, format string, v ...any) {
	if !ok {
		panic(worldError(b.what + ": " + fmt.Sprintf(format, v...)))
	}
}

// build returns the state that the world describes, or the first error in the world.
func (w *World) build(now time.Time) (st *store.State, err error) {
	r, err := w.release()
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
	defer func() {
		switch p := recover().(type) {
		case nil:
		case worldError:
			st, err = nil, fmt.Errorf("world: %s", string(p))
		default:
			panic(p)
		}
	}()

	b := &builder{w: w, st: store.NewState(), now: now, uses: map[string]int{}}
	if b.st.Version, err = catalogue.FullVersion(cmp.Or(w.Version, newest)); err != nil {
		return nil, err
	}

	b.st.MsID = store.StableID("managementserver", "localhost")
	b.st.Domains.Add(&store.Domain{Entity: b.entity("domain", "", "ROOT"), Name: "ROOT"})
	addBuiltinRoles(b.st, cat.At(r))
	if err := addNetworkOfferings(b.st, r, now); err != nil {
		return nil, err
	}

	addVPCOfferings(b.st, now)
	b.st.VMs.Next = 3        // the zone's two system VMs have the lower ids
	b.st.Networks.Next = 204 // CloudStack's own networks have the lower ids
	b.what = "settings"
	for name, value := range w.Settings {
		_, known := settings.Defaults[name]
		b.check(known, "%q is not known; the simulator has those that updateConfiguration changes", name)
		b.st.Settings[name] = value
	}

	b.defaultACLs()
	b.what = "zones"
	b.check(len(w.Zones) > 0, "there is none; give at least one with a name and publicRanges")
	each(w.Zones, b.zone)
	b.sizes()
	each(w.KubernetesVersions, b.kubernetesVersion)
	each(w.Domains, b.domain)
	each(w.Roles, b.role)
	b.accounts()
	each(w.Projects, b.project)
	each(w.VPCs, b.vpc)
	each(w.Networks, b.network)
	each(w.VirtualMachines, b.machine)
	each(w.PublicIPs, b.address)
	b.systemVMs()
	b.sourceNATs()
	return b.st, nil
}

// newest is the default release of a world.
const newest = "4.22"

func each[T any](list []T, build func(*T)) {
	for i := range list {
		build(&list[i])
	}
}

// release returns the release of CloudStack to simulate.
func (w *World) release() (catalogue.Release, error) {
	r, err := catalogue.ParseRelease(cmp.Or(w.Version, newest))
	if err != nil {
		return r, fmt.Errorf("world: %w", err)
	}
	return r, nil
}

// entity returns the base of a row. An empty id is derived from kind and name, plus a counter if the name is repeated.
func (b *builder) entity(kind, id, name string) store.Entity {
	if id == "" {
		id = store.StableID(kind, name)
		if n := b.uses[id]; n > 0 {
			b.uses[id]++
			id = store.StableID(kind, fmt.Sprintf("%s\x00%d", name, n))
		}
	}
	_, err := uuid.Parse(id)
	b.check(err == nil && len(id) == 36 && b.uses[id] == 0,
		"id %q is not a UUID, or is used twice; leave it out to have one made", id)
	b.uses[id]++
	return store.Entity{UUID: id, Created: b.now}
}

// find returns the first row for which is returns true; kind and name describe it in an error.
func find[T store.Row](b *builder, t *store.Table[T], kind, name string, is func(T) bool) T {
	row, ok := t.Find(is)
	b.check(ok, "%s %q is not among the world's", kind, name)
	return row
}

// defaultACLs creates the two global ACL lists.
func (b *builder) defaultACLs() {
	for _, l := range []struct{ name, text, action string }{
		{"default_deny", "Default Network ACL Deny All", "Deny"},
		{"default_allow", "Default Network ACL Allow All", "Allow"},
	} {
		row := b.st.ACLLists.Add(&store.ACLList{Entity: b.entity("acl", "", l.name), Name: l.name, Description: l.text})
		for n, traffic := range []string{"Ingress", "Egress"} {
			b.st.ACLItems.Add(&store.ACLItem{
				Entity:   b.entity("aclitem", "", l.name+"/"+traffic),
				List:     row,
				Number:   n + 1,
				Protocol: "all",
				Traffic:  traffic,
				Action:   l.action,
				CIDRs:    []string{"0.0.0.0/0"},
				State:    store.RuleActive,
			})
		}
	}
}

func (b *builder) zone(z *Zone) {
	b.what = fmt.Sprintf("zone %q", z.Name)
	_, dup := b.st.Zones.Find(func(o *store.Zone) bool { return strings.EqualFold(o.Name, z.Name) })
	b.check(z.Name != "" && !dup, "the name is missing or used twice")
	dns := cmp.Or(z.DNS1, "8.8.8.8")
	row := b.st.Zones.Add(&store.Zone{
		Entity:        b.entity("zone", "", z.Name),
		Name:          z.Name,
		DNS1:          dns,
		InternalDNS1:  dns,
		NetworkDomain: b.st.Setting("guest.domain.suffix"),
		GuestCIDR:     "10.1.1.0/24",
		Enabled:       !z.Disabled,
		PublicNetID:   store.StableID("publicnetwork", z.Name),
		PhysicalNetID: store.StableID("physicalnetwork", z.Name),
		Zonetoken:     uuid.NewMD5(store.Namespace, []byte(z.Name)).String(),
	})

	hosts := z.Hosts
	if len(hosts) == 0 {
		hosts = []string{"hypervisor-1"}
	}

	for _, h := range hosts {
		b.st.Hosts.Add(&store.Host{Entity: b.entity("host", "", z.Name+"/"+h), Name: h, Zone: row})
	}

	b.st.AddSystemVMs(row)
	b.check(len(z.PublicRanges) > 0, "publicRanges is empty; give at least one, such as 203.0.113.10-203.0.113.199")
	for _, r := range z.PublicRanges {
		b.publicRange(row, r)
	}
}

// maxRange is the maximum number of addresses of a public range. A /16 is more than any test needs.
const maxRange = 1 << 16

func (b *builder) publicRange(z *store.Zone, r string) {
	lo, hi, ok := strings.Cut(r, "-")
	if !ok {
		hi = lo
	}

	first, err1 := netip.ParseAddr(strings.TrimSpace(lo))
	last, err2 := netip.ParseAddr(strings.TrimSpace(hi))
	b.check(err1 == nil && err2 == nil && first.Is4() && last.Is4() && !last.Less(first),
		"public range %q is not first-last with two IPv4 addresses in order", r)
	_, dup := b.st.AddressNamed(nil, first.String())
	b.check(!dup, "public range %q overlaps another one at %s", r, first)
	for a, n := first, 0; !last.Less(a); a, n = a.Next(), n+1 {
		b.check(n < maxRange, "public range %q has more than %d addresses", r, maxRange)
		b.st.IPs.Add(&store.PublicIP{
			Entity: b.entity("ip", "", z.Name+"/"+a.String()),
			Addr:   a,
			Zone:   z,
			State:  store.IPFree,
		})
	}
}

// sizes adds the service offerings and the template.
func (b *builder) sizes() {
	list := b.w.ServiceOfferings
	if len(list) == 0 {
		list = []ServiceOffering{
			{Name: "Small Instance", CPUs: 1, CPUSpeed: 500, Memory: 512},
			{Name: "Medium Instance", CPUs: 1, CPUSpeed: 1000, Memory: 1024},
		}
	}

	for _, o := range list {
		b.what = fmt.Sprintf("service offering %q", o.Name)
		b.check(o.Name != "" && o.CPUs > 0 && o.Memory > 0 && o.CPUSpeed > 0,
			"name, cpus, cpuSpeed (MHz) and memoryMiB must be given and positive")
		b.st.Offerings.Add(&store.ServiceOffering{
			Entity:         b.entity("offering", "", o.Name),
			Name:           o.Name,
			CPUNumber:      o.CPUs,
			CPUSpeed:       o.CPUSpeed,
			MemMB:          o.Memory,
			DiskOfferingID: store.StableID("diskoffering", o.Name),
		})
	}

	const name, os = "CentOS 5.6 (64-bit) no GUI (Simulator)", "CentOS 5.6 (64-bit)"
	b.st.Templates.Add(&store.Template{
		Entity:    b.entity("template", "", name),
		Name:      name,
		OSName:    os,
		Format:    "VHD",
		Typ:       "BUILTIN",
		GuestOSID: store.GuestOSID(os),
	})

	for _, name := range b.w.CKSTemplates {
		b.st.Templates.Add(&store.Template{
			Entity:    b.entity("template", "", name),
			Name:      name,
			OSName:    os,
			Format:    "VHD",
			Typ:       "USER",
			GuestOSID: store.GuestOSID(os),
			ForCKS:    true,
		})
	}
}

// isoStates are the states of an ISO; "" is the default state.
var isoStates = []string{"", store.ISOReady, "Allocated", store.ISOCreating, "Failed", store.ISOMissing}

func (b *builder) kubernetesVersion(v *KubernetesVersion) {
	b.what = fmt.Sprintf("kubernetes version %q", v.Semantic)
	name := "v" + v.Semantic
	row := b.st.KubernetesVersions.Add(&store.KubernetesVersion{
		Entity:   b.entity("kubernetesversion", "", name),
		Name:     name,
		Semantic: v.Semantic,
		Arch:     "x86_64",
		MinCPU:   cmp.Or(v.MinCPUs, 2),
		MinMemMB: cmp.Or(v.MinMem, 2048),
		ISOState: v.ISOState,
		IsoID:    store.StableID("iso", name),
		IsoName:  name + "-Kubernetes-Binaries-ISO",
	})
	b.check(kubernetesNumber.MatchString(v.Semantic), "semanticVersion must be three numbers, such as 1.33.1")
	b.check(row.MinCPU >= 2 && row.MinMemMB >= 2048, "a node needs at least 2 minCPUs and 2048 minMemoryMiB")
	b.check(slices.Contains(isoStates, v.ISOState), "isoState %q must be one of %s", v.ISOState,
		strings.Join(isoStates[1:], ", "))
}

func (b *builder) domain(d *Domain) {
	b.what = fmt.Sprintf("domain %q", d.Path)
	path := strings.Trim(strings.TrimPrefix(d.Path, "ROOT"), "/")
	slash := strings.LastIndexByte(path, '/')
	parent, ok := b.st.DomainByPath(path[:max(slash, 0)])
	_, dup := b.st.DomainByPath(path)
	b.check(ok && !dup, "the path must name a domain below ROOT, such as ROOT/k8s, once, and after its parent")
	b.st.Domains.Add(&store.Domain{Entity: b.entity("domain", "", path), Name: path[slash+1:], Parent: parent})
}

func (b *builder) role(r *Role) {
	b.what = fmt.Sprintf("role %q", r.Name)
	_, typed := store.AccountTypes[r.Type]
	_, dup := b.st.Roles.Find(func(o *store.Role) bool { return o.Name == r.Name })
	b.check(typed && r.Name != "" && !dup,
		"it needs a name of its own, and type %q must be Admin, ResourceAdmin, DomainAdmin or User", r.Type)
	row := b.st.Roles.Add(&store.Role{Entity: b.entity("role", "", r.Name), Name: r.Name, Kind: r.Type, Public: true})
	for _, rule := range r.Rules {
		pattern := rule.Allow + rule.Deny
		b.check((rule.Allow == "") != (rule.Deny == "") && store.RuleSyntax.MatchString(pattern),
			"a rule is either {allow: PATTERN} or {deny: PATTERN}, of letters and *")
		row.Rules = append(row.Rules,
			&store.RoleRule{UUID: uuid.NewString(), Pattern: pattern, Allow: rule.Allow != ""})
	}
}

// accounts adds the world's accounts. The built-in accounts come first, so that they get the lowest internal ids.
func (b *builder) accounts() {
	list := slices.Clone(b.w.Accounts)
	for i, own := range []Account{
		{Name: store.SystemAccount, Role: "Root Admin"},
		{Name: "admin", Role: "Root Admin", Users: []User{{Name: "admin", Password: "password"}}},
		{Name: store.BaremetalAccount},
	} {
		at := slices.IndexFunc(list, func(a Account) bool {
			return strings.EqualFold(a.Name, own.Name) && (a.Domain == "" || a.Domain == "ROOT")
		})
		if at >= 0 {
			own = list[at]
			list = slices.Delete(list, at, at+1)
		}
		if own.Name != "admin" && len(own.Users) == 0 {
			own.Users = []User{{Name: own.Name, Password: uuid.NewString(), NoKeys: true}}
		}
		list = slices.Insert(list, i, own)
	}

	each(list, b.account)
}

func (b *builder) account(a *Account) {
	b.what = fmt.Sprintf("account %q", a.Name)
	dom, ok := b.st.DomainByPath(a.Domain)
	b.check(ok, "domain %q is not among the world's domains", a.Domain)
	role, ok := b.st.Roles.Find(func(r *store.Role) bool { return r.Name == cmp.Or(a.Role, store.RoleUser) })
	b.check(ok, "role %q is not there; use Root Admin, Domain Admin, User or one of the world's roles", a.Role)
	_, dup := b.st.AccountIn(dom, a.Name)
	b.check(a.Name != "" && !dup, "the name is missing, or used twice in domain %s", dom.Display())
	known := settings.LimitKeys()
	for k := range a.Limits {
		b.check(known[k], "limit %q is not known; use one of %s", k,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}

	row := b.st.Accounts.Add(&store.Account{
		Entity: b.entity("account", "", dom.Path()+a.Name),
		Name:   a.Name,
		Domain: dom,
		Role:   role,
		State:  store.StateEnabled,
		Limits: maps.Clone(a.Limits),
	})

	for i := range a.Users {
		b.user(row, &a.Users[i])
	}
}

func (b *builder) user(a *store.Account, u *User) {
	b.what = fmt.Sprintf("user %q", u.Name)
	_, dup := b.st.UserIn(a.Domain, u.Name)
	b.check(u.Name != "" && !dup, "the name is missing, or used twice in domain %s", a.Domain.Display())
	b.check((u.APIKey == "") == (u.SecretKey == "") && (u.APIKey == "" || !u.NoKeys),
		"give apiKey and secretKey together, or neither, or noKeys alone")
	state := cmp.Or(u.State, store.StateEnabled)
	b.check(slices.Contains([]string{store.StateEnabled, store.StateDisabled, store.StateLocked}, state),
		"state %q must be enabled, disabled or locked", state)
	row := b.st.Users.Add(&store.User{
		Entity:    b.entity("user", "", a.Domain.Path()+u.Name),
		Username:  u.Name,
		Password:  u.Password,
		FirstName: u.Name,
		LastName:  u.Name,
		Account:   a,
		State:     state,
		APIKey:    u.APIKey,
		SecretKey: u.SecretKey,
		Timezone:  "UTC",
		Builtin:   a.Domain.Parent == nil && u.Name == "admin",
	})

	if row.Builtin {
		row.FirstName, row.LastName = "Admin", "User"
	}

	if row.APIKey == "" && !u.NoKeys {
		row.APIKey, row.SecretKey = store.NewKeys()
		row.PrintKeys = true
	}

	if row.APIKey != "" {
		b.check(b.st.APIKeys[row.APIKey] == nil, "another user has its apiKey")
		b.st.APIKeys[row.APIKey] = row
	}

	a.Users = append(a.Users, row)
}

func (b *builder) project(p *Project) {
	b.what = fmt.Sprintf("project %q", p.Name)
	b.check(p.Name != "", "the name is missing")
	owner := b.accountNamed(p.Owner)
	row := b.st.NewProject(p.Name, "", owner, b.entity("project", p.ID, owner.Domain.Path()+p.Name))
	for _, m := range p.Members {
		row.Members = append(row.Members, store.ProjectMember{Account: b.accountNamed(m)})
	}
}

// accountNamed finds an account by name, or as DOMAIN/ACCOUNT if several domains have an account of that name.
func (b *builder) accountNamed(name string) *store.Account {
	short := name[strings.LastIndexByte(name, '/')+1:]
	dom, _ := b.st.DomainByPath(strings.TrimSuffix(name, short))
	var hits []*store.Account
	for _, a := range b.st.Accounts.Rows {
		if a.Project == nil && strings.EqualFold(a.Name, short) && (short == name || a.Domain == dom) {
			hits = append(hits, a)
		}
	}
	b.check(len(hits) == 1,
		"account %q is not among the world's accounts, or several domains have it: write DOMAIN/ACCOUNT", name)
	return hits[0]
}

// owner returns the account that an object's account or project field names.
func (b *builder) owner(account, project string) *store.Account {
	b.check((account == "") != (project == ""), "give the account or the project that owns it")
	if project != "" {
		return find(b, b.st.Projects, "project", project, func(p *store.Project) bool {
			return strings.EqualFold(p.Name, project)
		}).Account
	}
	return b.accountNamed(account)
}

// zoneNamed finds a zone by name; an empty name means the first zone.
func (b *builder) zoneNamed(name string) *store.Zone {
	return find(b, b.st.Zones, "zone", name,
		func(z *store.Zone) bool { return name == "" || strings.EqualFold(z.Name, name) })
}
