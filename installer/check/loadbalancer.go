// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	acquired "github.com/csccm/csccm/installer/cloud/addresses"
	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// RulePlan returns what csccm migrate-rules would do.
func (f *Facts) RulePlan() lbrules.Plan {
	return lbrules.MakePlan(f.AllRules, f.Services, f.Classes().Handles, f.OddMembers, lbrules.NodeVMs(f.Nodes, f.VMs))
}

// ruleObjects returns the rules for which say returns a problem.
func (f *Facts) ruleObjects(say func(it *lbrules.Item) string) Objects {
	var out Objects
	p := f.RulePlan()
	for _, it := range p.Items {
		if text := say(&it); text != "" {
			out.addf("LoadBalancerRule", it.Name, "%s:%d, %s", it.PublicIP, it.Port, text)
		}
	}
	return out
}

var lb002 = Check{
	Code:  "LB-002",
	Title: "One rule for a port, with its current name",
	Reads: Sources{Nodes, VMs, Services, Balancers},
	Judge: ruleNames,
	What: `No port of a load balancer has two rules, and no rule of this cluster has a name of an older provider:
		LB-PORT without a protocol, or K8s_svc_...; such a name alone is a warning.`,
	Why: `The controller identifies its rules by name: it would create a second rule for the port, which CloudStack
		refuses. Of two rules traffic reaches only one.`,
	Remedy: "`csccm migrate-rules` shows what it would do: it renames in place, without loss of traffic; of " +
		"two rules it names the one whose address the Service does not show: delete that one in CloudStack; " +
		"LB-004 then names its address where nothing is on it",
}

func ruleNames(f *Facts) Finding {
	old := f.ruleObjects(func(it *lbrules.Item) string {
		return when(it.Verdict == lbrules.VerdictRename, "Service %s", it.Service)
	})
	twice := f.ruleObjects(func(it *lbrules.Item) string {
		twice := it.Verdict == lbrules.VerdictDuplicate && (it.Service != "" || it.OurNodes)
		return when(twice || it.Verdict == lbrules.VerdictSurplus, "%s", it.Reason)
	})
	out := Passf("none")
	if len(old) > 0 {
		out = Warnf("%s with an old name", count(len(old), "rule"))
	}
	return out.Unless(twice, "rule", "%s too many for a port").About(old...)
}

// orphaned reports whether a rule was named by a provider, belongs to no Service, and has only members of this cluster.
func orphaned(it *lbrules.Item) bool {
	return it.Service == "" && it.OurNodes && it.Family != lbrules.FamilyForeign
}

var lb003 = Check{
	Code:     "LB-003",
	Title:    "No rules without a Service",
	Severity: SeverityWarning,
	Reads:    Sources{Nodes, VMs, Services, Balancers},
	Judge:    orphans,
	What:     `Every rule whose members are all nodes of this cluster belongs to a Service.`,
	Why:      `Orphans keep ports of deleted Services open.`,
	Remedy: `find out who uses them: a rule that still serves can stay; where nobody does, delete the rule in
		CloudStack; LB-004 names the addresses that nobody needs then`,
}

func orphans(f *Facts) Finding {
	objects := f.ruleObjects(func(it *lbrules.Item) string {
		return when(orphaned(it), "all its members are nodes of this cluster")
	})
	return Passf("none").Unless(objects, "rule", "%s without a Service")
}

var lb004 = Check{
	Code:     "LB-004",
	Title:    "No address without a Service",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Nodes, VMs, Services, Balancers, Addresses, Forwards, ClusterIDs, Networks},
	Tries:    Sources{APIs, Quota},
	Judge:    unowned,
	What: `Every allocated address with this cluster's tags has its Service, no address has only rules of deleted
		Services, and every address in the nodes' networks has something on it or a tag of its owner; firewall rules
		alone forward nothing. And every address that a Service shows, and did not ask for by name, is released with it.
		Addresses kept by the annotation keep-ip are not judged. The remedy releases no address that was allocated less
		than two minutes ago: the controller may be about to use it.`,
	Why: `CloudStack charges for allocated addresses, and they count against the limit of the account or project.`,
	Remedy: `look again when the address is two minutes old; then release in CloudStack what nobody needs, and tag an
		address that somebody keeps (any tag); csccm adopt NAMESPACE/NAME has the controller release the address of a
		Service with it`,
}

// unowned finds addresses that are allocated and serve no Service, and those that would stay allocated after their
// Service is deleted. It ignores addresses with rules or tags of other clusters.
func unowned(f *Facts) Finding {
	// Addresses with rules of deleted Services, and addresses with anything else.
	deleted, others := sets.New[string](), sets.New[string]()
	carries := func(address string, orphan bool) {
		if orphan {
			deleted.Insert(address)
		} else {
			others.Insert(address)
		}
	}
	for _, it := range f.RulePlan().Items {
		carries(it.PublicIP, orphaned(&it))
	}
	for _, p := range f.Forwards {
		carries(p.PublicIP, f.ofDeletedService(p.Tags))
	}

	var unused, staying Objects
	release, adopt := "", ""
	var untag []string // ids of addresses
	for _, a := range f.Addresses {
		cluster, foreign := a.Tags[plan.TagCluster], others.Has(a.Address) || a.SourceNAT || a.StaticNAT
		user := Find(f.Services, func(s *corev1.Service) bool { return uses(s, &a) })
		why := ""

		switch {
		case a.State != "" && a.State != plan.StateAllocated: // it is being allocated or released
		case cluster != "" && !slices.Contains(f.ClusterIDs, cluster):
		case user == nil && f.ofDeletedService(a.Tags):
			why = fmt.Sprintf("tagged for Service %s of cluster %q, which does not exist here",
				a.Tags[plan.TagService], cluster)
		case user != nil && f.outlives(user, &a):
			adopt += " " + key(user)
			if f.ofDeletedService(a.Tags) {
				untag = append(untag, a.ID)
			}
			staying.addf("PublicIpAddress", a.Address,
				"stays when Service %s is deleted: no tag and no record says that the controller acquired it",
				key(user))
		case user != nil || foreign || a.Tags[plan.TagKeptBy] != "":
		case deleted.Has(a.Address):
			why = "it has only rules of deleted Services"
		case len(a.Tags) == len(plan.PresentTagKeys(a.Tags)) && f.inNodesNetwork(&a): // nobody has tagged it to keep it
			why = "nothing is on it that forwards traffic" // firewall rules alone do not
		}

		if why == "" {
			continue
		}
		allocated, _ := time.Parse("2006-01-02T15:04:05-0700", a.Allocated)
		switch {
		case foreign:
			why += "; others have rules or NAT on it"
		case f.ago(allocated) < patience:
			why += " yet"
		default:
			release += ", `cmk disassociate ipaddress id=" + a.ID + "`"
		}
		unused.addf("PublicIpAddress", a.Address, "%s; id %s, allocated %s", why, a.ID, a.Allocated)
	}

	out := Passf("none")
	if len(staying) > 0 {
		out = Problemf("%s would stay allocated after the deletion of the Service", count(len(staying), "address"))
	}
	out = out.Unless(unused, "address", "%s allocated that no Service has").About(staying...)
	out = f.withQuota(out)

	fixes := untagFix(untag...)
	if release != "" {
		fixes = append(fixes,
			"each one is charged for; release what nobody needs"+release+
				"; tag an address that somebody keeps (any tag)")
	}
	if adopt != "" {
		fixes = append(fixes, "have the controller release the address with its Service: `csccm adopt"+adopt+"`")
	}
	return out.Fix("%s", strings.Join(fixes, "; "))
}

// withQuota adds how many addresses the account may have, if that is known.
func (f *Facts) withQuota(out Finding) Finding {
	if f.Quota == nil {
		return out
	}
	return out.With("addresses of the account", fmt.Sprintf("%d of %d", f.Quota.Used, f.Quota.Max))
}

// ofDeletedService reports whether tags are of a Service of this cluster that does not exist.
func (f *Facts) ofDeletedService(tags map[string]string) bool {
	uid := tags[plan.TagServiceUID]
	living := slices.ContainsFunc(f.Services, func(s corev1.Service) bool { return string(s.UID) == uid })
	return uid != "" && slices.Contains(f.ClusterIDs, tags[plan.TagCluster]) && !living
}

// recordOfAddress returns the controller's record of an address on a Service; nil if there is none.
func recordOfAddress(s *corev1.Service, a *cloudstack.PublicIP) *annotation.AddressRecord {
	records, _ := annotation.ParseRecords(s.Annotations) // TEN-004 names a record that cannot be read
	return Find(records.Addresses, func(r *annotation.AddressRecord) bool { return r.ID == a.ID })
}

// uses reports whether a Service has an address, or requests it.
func uses(s *corev1.Service, a *cloudstack.PublicIP) bool {
	known := append(Ingress(s), s.Annotations[annotation.Address], s.Spec.LoadBalancerIP)
	return slices.Contains(known, a.Address) ||
		a.Tags[plan.TagServiceUID] == string(s.UID) || recordOfAddress(s, a) != nil
}

// outlives reports whether a Service has an address that nobody chose for it, and that would stay allocated after the
// Service is deleted.
func (f *Facts) outlives(s *corev1.Service, a *cloudstack.PublicIP) bool {
	keepIP, _ := annotation.Bool(s.Annotations[annotation.KeepIP])
	chosen := keepIP || acquired.Asked(s)
	return !chosen && !a.SourceNAT && !f.releases(s, a) && Settled(s) && s.DeletionTimestamp == nil
}

// releases reports whether the controller, or another Service, releases an address after a Service. Tags that name the
// Service count more than its record; TEN-004 names an address that is recorded as acquired and has no tags.
func (f *Facts) releases(s *corev1.Service, a *cloudstack.PublicIP) bool {
	rec := recordOfAddress(s, a)
	switch plan.TagOwner(a.Tags, f.ClusterIDs, plan.Service{UID: string(s.UID)}) {
	case plan.Owned:
		return a.Tags[plan.TagAllocatedBy] == plan.ManagedBy
	case plan.Unknown:
		return rec != nil && rec.Allocated
	default:
		return a.Tags[plan.TagServiceUID] != "" && !f.ofDeletedService(a.Tags) || plan.Unused(a.Tags, f.ClusterIDs)
	}
}

// inNodesNetwork reports whether an address is of the network, or VPC, of a node.
func (f *Facts) inNodesNetwork(a *cloudstack.PublicIP) bool {
	return slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool {
		vm, _ := f.VM(&n)
		return slices.ContainsFunc(vm.NICs, func(nic cloudstack.NIC) bool {
			return nic.NetworkID == a.AssociatedNetworkID || Find(f.Networks, func(x *cloudstack.Network) bool {
				return x.ID == nic.NetworkID && x.VPCID != "" && x.VPCID == a.VPCID
			}) != nil
		})
	})
}

var lb001 = Check{
	Code:  "LB-001",
	Title: "Services have what they ask for",
	Phase: PhaseInstalled,
	Reads: Sources{Nodes, VMs, Services, Balancers, Plans},
	Tries: Sources{Forwards, Logs, Quota},
	Judge: services,
	What: "`csccm plan` shows nothing to do for each Service of type LoadBalancer: address, rules, members, " +
		"firewall and ACLs, port forwardings are as planned. With more than 16 rules and VMs only Services that " +
		"are not Ready are compared; with `--only LB` all are. New and changed Services are judged after two " +
		"minutes, and named before; refused ones and those that failed at once. A deleted Service is named when its " +
		"clean-up takes longer than two minutes. No other program writes a status.",
	Why: `Missing rules lose traffic, and refused Services are not served.`,
	Remedy: "`csccm plan` shows it all; the controller tries again at the time that is named, or within ten " +
		"minutes, and repairs what has changed within its drift period; to have it try now: `kubectl -n NAMESPACE " +
		"rollout restart deployment,daemonset -l app.kubernetes.io/instance=RELEASE`. If nothing is missing and " +
		"clients still get no answer, csccm test shows whether the virtual router has lost rules that " +
		"CloudStack lists, and how to restart the network",
}

// services reports the steps of the controller's own plan for each Service. In a large cluster, Services that are Ready
// are not planned: it relies on their condition.
func services(f *Facts) Finding {
	next, rivals := NextTries(f.Logs), f.rivals()
	var objects, waiting Objects
	var remedies []string
	checked, trusted := 0, 0
	for _, s := range f.Services {
		deleted := s.DeletionTimestamp
		if deleted != nil && f.ago(deleted.Time) >= patience && f.Classes().Handles(&s) {
			checked++
			objects.aboutf("Service", &s, "was deleted %s ago and is not cleaned up: %s%s", f.ago(deleted.Time),
				OneLine(service.Ready(&s).Message), f.until(next[key(&s)]))
		}
	}

	for _, s := range Balanced(f.Services, f.started()) {
		name := key(s)
		p := f.Planned[name]
		c := service.Ready(s)
		failed := c.Reason != "" && c.Reason != string(service.Waiting) || p != nil && p.Refusal != nil
		age := min(f.ago(s.CreationTimestamp.Time), f.ago(c.LastTransitionTime.Time))
		if age < patience && !failed && !Settled(s) {
			waiting.aboutf("Service", s, "has been syncing since %s; it is checked in %s", age, patience-age)
			continue
		}

		checked++
		if p == nil && Settled(s) {
			trusted++
		}

		problems := f.problems(s, p)
		for _, r := range rivals {
			if strings.HasPrefix(r.String(), "Service "+name+":") {
				problems, remedies = append(problems, r.What), append(remedies, name+": "+r.Fix)
			}
		}

		if len(problems) == 0 {
			continue
		}

		if p != nil && p.Refusal != nil {
			remedies = append(remedies, name+": "+p.Refusal.Remedy)
		}

		objects.aboutf("Service", s, "%s%s", strings.Join(problems, "; "), f.until(next[name]))
	}

	out := Passf("%s", count(checked, "Service"))
	switch {
	case len(objects) > 0:
		out = Problemf("something is missing or wrong for %d of %s",
			len(objects), count(checked+len(waiting), "Service")).
			About(objects...).
			About(waiting...)
		out = f.withQuota(out)
		if len(remedies) == len(objects) {
			return out.Fix("%s", strings.Join(remedies, "; "))
		}
	case len(waiting) > 0:
		return Warnf("%d of %s not checked "+
			"yet", len(waiting), count(checked+len(waiting), "Service")).About(waiting...).
			Fix("wait until the controller has done its work: csccm doctor --only LB-001 --wait --fail-on warning")
	case f.PlanErr != nil && checked > 0:
		return Unknownf("%s; the controller's plan could not be made: %v", out.Message, f.PlanErr)
	case trusted > 0:
		out.Message += fmt.Sprintf("; %d of them are Ready and were not compared, --only LB compares all", trusted)
	}

	return out
}

// until returns the time of the next try if it is in the future; otherwise "".
func (f *Facts) until(next time.Time) string {
	return when(next.After(f.At), "; next try at %s, in %s", next.UTC().Format("15:04:05Z"),
		next.Sub(f.At).Round(time.Second))
}

// Settled reports whether a Service's condition says that the controller has done everything for it.
func Settled(s *corev1.Service) bool {
	return service.Ready(s).Status == "True"
}

// maxActions limits the actions that are shown for a Service.
const maxActions = 4

// problems returns why a Service would not be served, what the controller would do, and why the Service has no address.
func (f *Facts) problems(s *corev1.Service, p *planner.Service) (out []string) {
	if p != nil {
		switch {
		case p.Refusal != nil:
			return []string{"refused: " + p.Refusal.Message}
		case p.Error != "":
			return []string{"cannot be compared: " + OneLine(p.Error)}
		}
		for _, a := range p.Actions {
			// A missing tag only affects ownership: the Service works without it.
			if !a.BlockedByPolicy && !strings.HasPrefix(a.Kind, "tag-") {
				out = append(out, "would "+a.Label())
			}
		}
		out = out[:min(len(out), maxActions)]
	}

	if len(s.Status.LoadBalancer.Ingress) == 0 && (p == nil || len(out) > 0) {
		out = append(out, fmt.Sprintf("has no address since %s", f.ago(s.CreationTimestamp.Time)))
		if c := service.Ready(s); c.Type != "" && !Settled(s) {
			out = append(out, c.Reason+": "+OneLine(c.Message))
		}
	}

	return out
}

// NextTries returns the times at which the controller tries Services again, by namespace/name, from its log.
func NextTries(logs []Log) map[string]time.Time {
	said, out := map[string]time.Time{}, map[string]time.Time{}
	for _, log := range logs {
		for _, l := range log.Lines {
			name := l.Values["service"]
			wait, err := time.ParseDuration(l.Values["in"])
			if err == nil && name != "" && !l.At.Before(said[name]) {
				said[name], out[name] = l.At, l.At.Add(wait)
			}
		}
	}
	return out
}
