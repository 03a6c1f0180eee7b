// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// admissionPolicies are the suffixes of the names of the chart's policies.
var admissionPolicies = []string{"-annotations", "-records"}

var ten001 = Check{
	Code:     "TEN-001",
	Title:    "Admission policies refuse",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Admission, Controllers},
	Judge:    admission,
	What: `The chart's two ValidatingAdmissionPolicies (-annotations, -records) exist, are bound with the action
		Deny, and have failurePolicy Fail.`,
	Why: `They prevent tenants from writing annotations that only the controller may write, and report wrong values
		when a Service is written, not later in an Event.`,
	Remedy: "bring the chart's policies back: `csccm upgrade --set admissionPolicy.enabled=true`",
}

func admission(f *Facts) Finding {
	if len(f.Ours()) == 0 {
		return Skipf("the controller is not installed")
	}

	var objects Objects
	for _, end := range admissionPolicies {
		p := Find(f.Policies,
			func(p *admissionv1.ValidatingAdmissionPolicy) bool { return strings.HasSuffix(p.Name, end) })
		if p == nil {
			objects.addf("ValidatingAdmissionPolicy", "*"+end, "not in the cluster")
			continue
		}

		if policy := ptr.Deref(p.Spec.FailurePolicy, admissionv1.Fail); policy != admissionv1.Fail {
			objects.addf("ValidatingAdmissionPolicy", p.Name,
				"failurePolicy is %s: what it cannot evaluate is allowed", policy)
		}
		if !slices.ContainsFunc(f.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		}) {
			objects.addf("ValidatingAdmissionPolicy", p.Name, "no binding makes it deny anything")
		}
	}

	return Passf("%d policies", len(admissionPolicies)).Unless(objects, "fault", "%s of the admission policies")
}

var ten002 = Check{
	Code:     "TEN-002",
	Title:    "Every Service complies with the policy",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Services, Controllers},
	Tries:    Sources{Namespaces, Addresses, AllRules, ClusterIDs},
	Judge:    policy,
	What: `Every Service of type LoadBalancer asks only for what the operator's policy (chart value tenancy of the
		running controller) allows its namespace.`,
	Why: `A refused Service gets nothing of what it asks for: only the ports that it had before are served, and
		follow nodes and Pods.`,
	Remedy: `have the owner of the Service remove what is not allowed, or allow it to the namespace with the chart
		value that is named: csccm upgrade -f VALUES`,
}

func policy(f *Facts) Finding {
	p, _, err := PolicyOf(f.Words())
	if err != nil {
		return Problemf("the controller's --tenancy cannot be read: %v", err).
			Fix("correct the chart value tenancy: csccm upgrade -f VALUES")
	}
	if err := f.Err(Namespaces); err != nil && p.NeedsLabels() {
		return Unread(err)
	}

	var objects Objects
	for _, r := range Refusals(p, f) {
		objects.aboutf("Service", r.Service, "%s", r.Denial.Message)
	}
	return Passf("none").Unless(objects, "setting", "%s more than the policy allows")
}

var ten003 = Check{
	Code:     "TEN-003",
	Title:    "Addresses shared by consent only",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Nodes, VMs, Services, Balancers, Addresses},
	Judge:    shared,
	What: `Services of several namespaces share an address only if the Service that has it names the other
		namespaces in its annotation share-with.`,
	Why: `A Service with a port of the address can answer for its owner there, for example ACME challenges on port
		80.`,
	Remedy: `give the other Services addresses of their own, or set the annotation
		service.beta.kubernetes.io/cloudstack-load-balancer-share-with on the owner`,
}

// shared finds the users of addresses by the Services' status and by the rules. It determines the owner of an address
// as the controller does.
func shared(f *Facts) Finding {
	addresses, ruled, users := map[string]plan.Address{}, map[string]sets.Set[string]{}, map[string][]plan.Holder{}
	for _, a := range f.Addresses {
		tags := a.Tags
		addresses[a.Address] = plan.Address{
			TaggedUID:     tags[plan.TagServiceUID],
			TaggedService: tags[plan.TagService],
			Keeper:        tags[plan.TagKeptBy],
		}
	}
	for _, it := range f.RulePlan().Items {
		ruled[it.Service] = sets.New(it.PublicIP).Union(ruled[it.Service])
	}

	for _, s := range f.byAge() {
		spec, _ := annotation.Parse(s) // errors elsewhere in the Service do not matter here
		for ip := range sets.New(Ingress(s)...).Union(ruled[s.Namespace+"/"+s.Name]) {
			h := plan.Holder{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name, ShareWith: spec.ShareWith}
			if rec := Find(spec.Records.Addresses, func(r *annotation.AddressRecord) bool {
				return r.IP == ip
			}); rec != nil {
				h.GuestOf = rec.GuestOf
			}
			users[ip] = append(users[ip], h)
		}
	}

	var objects Objects
	for _, ip := range slices.Sorted(maps.Keys(users)) {
		address := addresses[ip]
		use := address.TaggedUse(len(users[ip]))
		use.Holders = users[ip]
		owner, decides := use.Owner()
		var guests []string
		for _, h := range users[ip] {
			if h.Namespace != owner && (decides == nil || !decides.Admits(h.Namespace)) {
				guests = append(guests, h.Namespace+"/"+h.Name)
			}
		}

		switch {
		case len(guests) == 0:
		case decides == nil:
			objects.addf("PublicIpAddress", ip,
				"namespace %s had it first, has no Service at it any more, and %s still use it", owner, listed(guests))
		default:
			objects.addf("PublicIpAddress", ip,
				"Service %s/%s has it and does not share it with %s", decides.Namespace, decides.Name, listed(guests))
		}
	}

	return Passf("none is used across namespaces without consent").
		Unless(objects, "address", "%s used across namespaces")
}

var ten004 = Check{
	Code:     "TEN-004",
	Title:    "Records agree with CloudStack",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Services, Addresses, ClusterIDs},
	Tries:    Sources{APIs},
	Judge:    records,
	What: `If a Service has a record that the controller acquired an address for it, CloudStack's tags of the
		address name this Service.`,
	Why: `Without its tags an address stays when its Service is deleted, and costs. A record that names an address
		of somebody else was copied, forged, or restored from a backup; the controller releases no address because of
		it.`,
	Remedy: `where the tags name nobody, tag the address again with csccm adopt NAMESPACE/NAME; where they name an
		earlier Service of the same name, delete the tags before; where they name this Service of another cluster, add
		that cluster to former-cluster-ids; only where they name somebody else, remove the record`,
}

// records compares records with tags. If the role may not set tags, missing tags prove nothing.
func records(f *Facts) Finding {
	var adopt, remove, rename, untag []string // Services, by remedy; for untag ids of addresses
	found := about("Service", f.Services, func(s *corev1.Service) string {
		records, err := annotation.ParseRecords(s.Annotations)
		if err != nil { // the unreadable record may be the only proof for the address
			remove = append(remove, key(s))
			if len(Ingress(s)) > 0 {
				adopt = append(adopt, key(s))
			}
			return err.Error()
		}

		says := ""
		for _, rec := range records.Addresses {
			a := Find(f.Addresses, func(a *cloudstack.PublicIP) bool { return a.ID == rec.ID })
			if a == nil || !rec.Allocated {
				continue // LB-001 reports missing addresses
			}
			cluster, named := a.Tags[plan.TagCluster], ""
			switch plan.TagOwner(a.Tags, f.ClusterIDs, plan.Service{UID: string(s.UID)}) {
			case plan.Owned:
			case plan.Unknown:
				if rec.Tagged || f.APIs.Has("createTags") {
					named, adopt = "nobody", append(adopt, key(s))
				}
			case plan.OtherCluster:
				named = fmt.Sprintf("this Service, but of cluster %q", cluster)
				rename = append(rename, key(s))
			case plan.Foreign:
				switch {
				case !slices.Contains(f.ClusterIDs, cluster):
					named = fmt.Sprintf("cluster %q", cluster)
				case a.Tags[plan.TagServiceUID] != "": // LB-004 checks addresses whose tags have no UID
					named = fmt.Sprintf("Service %s with another UID", a.Tags[plan.TagService])
				}
				switch {
				case named == "":
				// The Service was deleted and created again, as from a backup.
				case a.Tags[plan.TagService] == key(s) && f.ofDeletedService(a.Tags):
					untag, adopt = append(untag, a.ID), append(adopt, key(s))
				default:
					remove = append(remove, key(s))
				}
			}
			if named != "" && says == "" {
				says = fmt.Sprintf("says that %s was acquired for it; CloudStack's tags name %s", a.Address, named)
			}
		}
		return says
	})

	return Passf("none contradicts").Unless(found, "record", "%s that CloudStack contradicts").
		Fix("%s", strings.Join(append(untagFix(untag...), recordFixes(adopt, remove, rename)...), "; "))
}

// untagFix returns commands that delete the tags of a deleted Service from addresses that an existing one uses.
func untagFix(addresses ...string) (fixes []string) {
	for _, id := range addresses {
		fixes = append(fixes,
			"delete the tags of a Service that is gone: `cmk delete tags resourcetype=PublicIpAddress resourceids="+id+
				"`")
	}
	return fixes
}

// recordFixes returns the remedies for records. A record is removed only if its address belongs to somebody else: any
// other record may be the only reason to release the address with its Service.
func recordFixes(adopt, remove, rename []string) (fixes []string) {
	if len(adopt) > 0 {
		fixes = append(fixes, "tag the address again, or it stays when its Service is deleted: `csccm adopt "+
			strings.Join(slices.Compact(adopt), " ")+"`")
	}
	if len(rename) > 0 {
		fixes = append(fixes,
			"this cluster had that id formerly: add it to former-cluster-ids in the cloud-config, and keep the record")
	}
	for _, name := range slices.Compact(remove) {
		service := strings.Replace(name, "/", " ", 1)
		fixes = append(fixes,
			fmt.Sprintf("find out who wrote the record (`kubectl get service -n %s -o yaml --show-managed-fields`), "+
				"then remove it: `kubectl annotate service -n %s %s-`; the controller writes a correct one",
				service, service, annotation.Addresses))
	}
	return fixes
}

// Refusal is one rule of the policy that a Service breaks.
type Refusal struct {
	Denial  *tenancy.Denial
	Service *corev1.Service
}

func (r *Refusal) String() string {
	text := fmt.Sprintf("Service %s is refused", key(r.Service))
	if len(r.Service.Status.LoadBalancer.Ingress) == 0 {
		text += "; it has no address yet"
	}
	return text + ": " + r.Denial.Message
}

// PolicyOf returns the policy of a controller with these arguments. set reports whether they have --tenancy. Without
// the flag, a controller that supports it uses the default policy, and an older one none.
func PolicyOf(words []string) (p tenancy.Policy, set bool, err error) {
	text, set := cluster.Argument(words, "tenancy")
	if strings.TrimSpace(text) == "" {
		return tenancy.Default(), set, nil
	}
	if p, err = tenancy.Parse([]byte(text)); err != nil {
		err = report.Usage("correct the chart value tenancy", "%w", err)
	}
	return p, set, err
}

// Refusals returns what the policy refuses, by Service. Of the rules about a Service itself it returns the first that
// is broken; if a namespace exceeds a limit, its newest Services are refused.
func Refusals(p tenancy.Policy, f *Facts) []Refusal {
	var out []Refusal
	ruled := f.ruledAddresses()
	keepIP, ports, addresses := map[string]int{}, map[string]int{}, map[string]sets.Set[string]{}
	for _, svc := range f.byAge() {
		ns := tenancy.Namespace{Name: svc.Namespace, Labels: f.Namespaces[svc.Namespace]}
		if p.Trusts(ns) {
			continue
		}

		note := func(d *tenancy.Denial) {
			if d != nil {
				out = append(out, Refusal{d, svc})
			}
		}

		exceeds := func(rule string, n, limit int, what string) {
			if limit > 0 && n > limit {
				note(&tenancy.Denial{
					Message: fmt.Sprintf("namespace %s has %d %s, and %d are allowed (chart value %s)", ns.Name, n,
						what, limit, rule),
				})
			}
		}

		note(p.Check(ns, svc))
		shown := sets.New(Ingress(svc)...)
		wanted := sets.New(strings.TrimSpace(svc.Annotations[annotation.Address]),
			strings.TrimSpace(svc.Spec.LoadBalancerIP))
		for _, ip := range sets.List(shown.Union(wanted)) {
			if rule := ruled[ip]; rule != "" {
				note(p.Allows(rule, ns, ip))
			}
		}

		before := len(addresses[ns.Name])
		addresses[ns.Name] = shown.Union(addresses[ns.Name])
		if n := len(addresses[ns.Name]); n > before {
			exceeds("tenancy.limits.maxAddressesPerNamespace", n, p.Limits.MaxAddressesPerNamespace, "addresses")
		}

		ports[ns.Name] += len(svc.Spec.Ports)
		exceeds("tenancy.limits.maxPortsPerNamespace", ports[ns.Name], p.Limits.MaxPortsPerNamespace, "ports")

		if keep, _ := annotation.Bool(svc.Annotations[annotation.KeepIP]); keep {
			keepIP[ns.Name]++
			limit := ptr.Deref(p.Limits.KeepIP.MaxPerNamespace, 0) // Check handles a limit of 0
			exceeds("tenancy.limits.keepIP.maxPerNamespace", keepIP[ns.Name], limit,
				"Services with annotation "+annotation.KeepIP)
		}
	}

	slices.SortStableFunc(out, func(a, b Refusal) int { return cmp.Compare(key(a.Service), key(b.Service)) })
	return out
}

// Balanced returns the Services that a controller with these arguments serves, sorted by name.
func Balanced(services []corev1.Service, words []string) []*corev1.Service {
	classes := family.ClassesOf(words)
	var out []*corev1.Service
	for _, s := range services {
		if classes.Wants(&s) {
			out = append(out, &s)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Service) int { return cmp.Compare(key(a), key(b)) })
	return out
}

// byAge returns the Services that the controller serves, the oldest first.
func (f *Facts) byAge() []*corev1.Service {
	out := Balanced(f.Services, f.started())
	slices.SortStableFunc(out,
		func(a, b *corev1.Service) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return out
}

var key = rules.Key

// Ingress returns the IP addresses in the Service's status.
func Ingress(svc *corev1.Service) []string {
	var out []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, in.IP)
		}
	}
	return out
}

// ruledAddresses returns the addresses to which a rule of a policy applies, with the rule: source NAT addresses, and
// foreign ones. A foreign address has rules of no Service of this cluster, and no tags that this cluster acquired it.
// The result is empty if CloudStack could not be read.
func (f *Facts) ruledAddresses() map[string]string {
	if cmp.Or(f.Err(Addresses), f.Err(AllRules), f.Err(ClusterIDs)) != nil {
		return nil
	}

	others := sets.New[string]()
	for _, it := range rules.MakePlan(f.AllRules, f.Services, nil, nil, nil).Items {
		if it.Service == "" {
			others.Insert(it.PublicIP)
		}
	}

	out := map[string]string{}
	for _, a := range f.Addresses {
		acquired := a.Tags[plan.TagAllocatedBy] == plan.ManagedBy &&
			slices.Contains(f.ClusterIDs, a.Tags[plan.TagCluster])
		switch {
		case a.SourceNAT:
			out[a.Address] = tenancy.SourceNATAddress
		case !acquired && others.Has(a.Address):
			out[a.Address] = tenancy.ForeignAddress
		}
	}

	return out
}
