// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// Severity is what a Finding means for the operation.
type Severity string

// Severities, from the worst.
const (
	Error      Severity = "error"   // the operation would fail, or break the cluster
	Warning    Severity = "warning" // the operation can succeed; something needs attention
	NotChecked Severity = "not checked"
)

// Finding is one problem, or one subject that could not be read.
type Finding struct {
	// Code names the rule; it never changes.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Object is the subject of the finding, such as "offering Small Instance".
	Object string `json:"object"`
	// What describes the problem; for NotChecked it is the reason.
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
	// Reference is the address of an upstream issue, or empty.
	Reference string `json:"reference,omitempty"`
}

// String returns the finding in one line, without remedy and reference.
func (f Finding) String() string {
	if f.Severity == NotChecked {
		return "not checked: " + f.Object + ": " + f.What
	}
	return f.Object + ": " + f.What
}

const (
	running = "Running"
	issues  = "https://github.com/apache/cloudstack/issues/"
)

// references are upstream issues, by the code of the rule.
var references = map[string]string{
	"certificate-expired":    issues + "9418",
	"certificate-expires":    issues + "9418",
	"certificate-host":       issues + "11579",
	"etcd-scale-down":        issues + "14159",
	"firewall-ssh-missing":   issues + "11779",
	"firewall-without-ports": issues + "11758",
	"leftover":               "https://github.com/kubernetes-sigs/cluster-api-provider-cloudstack/issues/293",
	"limit":                  issues + "12123",
	"mixed-offerings":        issues + "14122",
	"offering-missing":       issues + "14148",
	"offering-unused-small":  issues + "13408",
	"offering-upgrade":       issues + "13408",
}

// check has the findings of one operation.
type check struct {
	*Facts
	findings []Finding
}

// check runs rules. The last findings are the subjects that could not be read.
func (f *Facts) check(rules ...func(*check)) []Finding {
	c := &check{Facts: f, findings: []Finding{}}
	for _, rule := range rules {
		rule(c)
	}
	for _, s := range slices.Sorted(maps.Keys(f.Unread)) {
		c.findings = append(c.findings,
			Finding{Code: "not-checked", Severity: NotChecked, Object: string(s), What: f.Unread[s]})
	}
	return c.findings
}

func (c *check) add(s Severity, code, object, remedy, format string, args ...any) {
	c.findings = append(c.findings,
		Finding{
			Code:      code,
			Severity:  s,
			Object:    object,
			What:      fmt.Sprintf(format, args...),
			Remedy:    remedy,
			Reference: references[code],
		})
}

// read reports whether a subject was read.
func (c *check) read(s Subject) bool { return c.Unread[s] == "" }

// offering returns the offering with an id; nil if it is not known.
func (c *check) offering(id string) *cloudapi.ServiceOffering {
	if i := slices.IndexFunc(c.Offerings, func(o cloudapi.ServiceOffering) bool { return o.ID == id }); i >= 0 {
		return &c.Offerings[i]
	}
	return nil
}

// version returns the version with an id; if it is not known, a version without requirements.
func (c *check) version(id string) *cloudapi.KubernetesVersion {
	if i := slices.IndexFunc(c.Versions, func(v cloudapi.KubernetesVersion) bool { return v.ID == id }); i >= 0 {
		return &c.Versions[i]
	}
	return &cloudapi.KubernetesVersion{}
}

// Create decides whether a cluster can be created as requested.
func Create(f *Facts, r cloudapi.CreateClusterRequest) []Finding {
	return f.check(func(c *check) { c.create(r) })
}

// Scale decides whether f.Cluster can be scaled as requested.
func Scale(f *Facts, r cloudapi.ScaleClusterRequest) []Finding {
	return f.check(func(c *check) { c.scale(r) })
}

// Upgrade decides whether f.Cluster can be upgraded to the version with an id.
func Upgrade(f *Facts, versionID string) []Finding {
	return f.check(func(c *check) { c.upgradeOffering(c.version(versionID)) }, func(c *check) { c.nodes(Error) },
		(*check).certificate, (*check).addUnchecked)
}

// Running returns findings about a cluster that is not Running, and about its VMs and Nodes that do not work.
func Running(f *Facts) []Finding { return f.check((*check).state, func(c *check) { c.nodes(Error) }) }

// Changeable returns findings about offerings and firewall rules that make CloudStack fail to upgrade or scale the
// cluster.
func Changeable(f *Facts) []Finding {
	return f.check(func(c *check) { c.offerings(Error) }, (*check).firewall)
}

// addUnchecked reports nodes that CloudStack does not upgrade, or may not.
func (c *check) addUnchecked() {
	for _, vm := range c.Cluster.Nodes {
		switch {
		case vm.Etcd:
			c.add(Warning, "node-etcd", "VM "+vm.Name, "upgrade etcd yourself when the version of Kubernetes needs it",
				"CloudStack does not upgrade etcd nodes")
		case vm.External:
			c.add(Warning, "node-added", "VM "+vm.Name,
				"csccm cks show "+c.Cluster.Name+" shows its version afterwards; upgrade it yourself when it is behind",
				"it was added by hand, with version %s: CloudStack leaves it out if it was marked for manual "+
					"upgrade, which it does not show", cmp.Or(vm.Version, "unknown"))
		}
	}
}

func (c *check) state() {
	if c.Cluster.State != running {
		c.add(Warning, "cluster-state", "cluster "+c.Cluster.Name,
			"wait until CloudStack has finished; start a stopped cluster; delete one in state Error and create it "+
				"again; one in state Alert is Running again when all its VMs and Nodes are there",
			"it is %s, not Running", c.Cluster.State)
	}
}

// defaultDiskGiB is the default size of a node's root disk.
const defaultDiskGiB = 8

func (c *check) create(r cloudapi.CreateClusterRequest) {
	if r.OfferingID == "" {
		c.add(Error, "offering-missing", "cluster "+r.Name, "name one offering for all nodes, too",
			"without it CloudStack creates the cluster, but never upgrades it")
	}

	v := c.version(r.VersionID)
	if o := c.offering(r.OfferingID); o != nil &&
		r.ControlOfferingID != "" &&
		r.WorkerOfferingID != "" &&
		!large(o, v) {
		c.add(Warning, "offering-unused-small", "offering "+o.Name, larger(v),
			"no node uses it, but CloudStack compares it with the version before an upgrade; it has %s", size(o))
	}

	var needs demand
	disk := max(r.RootDiskGiB, defaultDiskGiB)
	needs.nodes(r.ControlNodes, c.offering(cmp.Or(r.ControlOfferingID, r.OfferingID)), disk)
	needs.nodes(r.Size, c.offering(cmp.Or(r.WorkerOfferingID, r.OfferingID)), disk)
	needs.nodes(r.EtcdNodes, c.offering(cmp.Or(r.EtcdOfferingID, r.OfferingID)), disk)

	c.kinds(r, v)
	if r.NetworkID == "" {
		needs.PublicIPs, needs.Networks = 1, 1 // the source NAT address
	} else if c.Network != nil && c.Network.VPCID != "" {
		needs.PublicIPs = 1
	}

	c.limits(Error, needs)
	if needs.PublicIPs > 0 && c.read(SubjectFree) && c.FreeAddresses == 0 {
		c.add(Error, "no-free-address", "zone "+r.ZoneID,
			"release an address that nobody needs, or ask an administrator to add a range of public addresses",
			"the cluster needs a public address, and the zone has no free one")
	}
}

// kinds checks the offerings of each kind of node, and what etcd nodes need from the version.
func (c *check) kinds(r cloudapi.CreateClusterRequest, v *cloudapi.KubernetesVersion) {
	for _, kind := range []struct {
		name, id string
		nodes    int
	}{
		{"control nodes", r.ControlOfferingID, r.ControlNodes},
		{"workers", r.WorkerOfferingID, r.Size},
		{"etcd nodes", r.EtcdOfferingID, r.EtcdNodes},
	} {
		o := c.offering(cmp.Or(kind.id, r.OfferingID))
		if o != nil && kind.nodes > 0 && !large(o, v) {
			c.add(Error, "offering-small", "offering "+o.Name, larger(v),
				"the %s would have it: %s", kind.name, size(o))
		}
		if kind.id != "" && kind.nodes == 0 {
			c.add(Error, "offering-unused", "offering "+kind.id, "ask for etcd nodes (--etcd-nodes), or leave it out",
				"the cluster would have no %s", kind.name)
		}
	}

	if r.EtcdTemplateID != "" && r.EtcdNodes == 0 {
		c.add(Error, "offering-unused", "template "+r.EtcdTemplateID,
			"ask for etcd nodes (--etcd-nodes), or leave it out", "the cluster would have no etcd nodes")
	}

	if r.EtcdNodes > 0 {
		c.add(Warning, "etcd-iso", "version "+v.Name,
			"if you are not sure, ask who registered it; create-kubernetes-binaries-iso.sh of CloudStack 4.21 "+
				"takes the version of etcd",
			"its ISO must contain etcd, and CloudStack does not show whether it does; without etcd, the creation "+
				"fails after the VMs were created")
		if r.EtcdNodes%2 == 0 {
			c.add(Warning, "etcd-even", "cluster "+r.Name, "ask for an odd number",
				"%d etcd nodes tolerate no more failures than %d", r.EtcdNodes, r.EtcdNodes-1)
		}
	}
}

func (c *check) scale(r cloudapi.ScaleClusterRequest) {
	k := c.Cluster
	control, worker := cmp.Or(k.ControlOfferingID, k.OfferingID), cmp.Or(k.WorkerOfferingID, k.OfferingID)
	var needs demand
	switch {
	case r.Autoscaling != nil:
		needs.nodes(r.MaxSize-k.Size, c.offering(worker), defaultDiskGiB)
		c.limits(Warning, needs) // only a warning: the cluster may never have so many workers
		return
	case r.Size == 0:
		needs.replace(k.ControlNodes, c.offering(control),
			c.offering(cmp.Or(r.ControlOfferingID, r.OfferingID, control)))
		needs.replace(k.Size, c.offering(worker), c.offering(cmp.Or(r.WorkerOfferingID, r.OfferingID, worker)))
		c.limits(Error, needs)
		return
	}

	if k.Autoscaling {
		c.add(Warning, "autoscaling", "cluster "+k.Name, "switch autoscaling off, or change its range",
			"the cluster scales itself between %d and %d workers, and can undo the change", k.MinSize, k.MaxSize)
	}

	c.offerings(Warning)
	c.firewall()
	c.certificate()
	if r.Size > k.Size {
		c.nodes(Error)
		needs.nodes(r.Size-k.Size, c.offering(worker), defaultDiskGiB)
		c.limits(Error, needs)
		return
	}

	if k.EtcdNodes > 0 {
		c.add(Warning, "etcd-scale-down", "cluster "+k.Name,
			"note the firewall and port forwarding rules of the address first, to restore them",
			"it has separate etcd nodes: CloudStack can delete the rules for SSH to an etcd node instead of those of "+
				"the workers, and fail after it removed the workers")
	}

	c.nodes(Warning)
}

// demand is the additional resources that an operation uses.
type demand struct{ VMs, CPUs, MemoryMiB, Volumes, StorageGiB, PublicIPs, Networks int }

// nodes adds n nodes of an offering. If the offering is nil, CPUs and memory are not added.
func (d *demand) nodes(n int, o *cloudapi.ServiceOffering, diskGiB int) {
	d.VMs, d.Volumes, d.StorageGiB = d.VMs+n, d.Volumes+n, d.StorageGiB+n*diskGiB
	if o != nil {
		d.CPUs, d.MemoryMiB = d.CPUs+n*o.CPUs, d.MemoryMiB+n*o.MemoryMiB
	}
}

// replace changes the offering of n nodes. An unknown offering is ignored.
func (d *demand) replace(n int, from, to *cloudapi.ServiceOffering) {
	if from != nil && to != nil {
		d.CPUs, d.MemoryMiB = d.CPUs+n*(to.CPUs-from.CPUs), d.MemoryMiB+n*(to.MemoryMiB-from.MemoryMiB)
	}
}

// limits compares a demand with the unused part of the owner's limits.
func (c *check) limits(s Severity, d demand) {
	q := c.Quota
	if q == nil {
		return
	}

	for _, r := range []struct {
		noun string
		need int
		cloudapi.Usage
	}{
		{"VMs", d.VMs, q.VMs},
		{"CPUs", d.CPUs, q.CPUs},
		{"MiB of memory", d.MemoryMiB, q.MemoryMiB},
		{"volumes", d.Volumes, q.Volumes},
		{"GiB of primary storage", d.StorageGiB, q.StorageGiB},
		{"public addresses", d.PublicIPs, q.PublicIPs},
		{"networks", d.Networks, q.Networks},
	} {
		if free, unlimited := r.Free(); !unlimited && r.need > free {
			c.add(s, "limit", q.Owner, "free some, ask for less, or ask an administrator to raise the limit",
				"%d %s are needed, and %d of %d are left", r.need, r.noun, free, r.Max)
		}
	}
}

// smallest returns the minimum size of a node: the larger of the version's minimum and CloudStack's own.
func smallest(v *cloudapi.KubernetesVersion) *cloudapi.ServiceOffering {
	return &cloudapi.ServiceOffering{CPUs: max(2, v.MinCPUs), MemoryMiB: max(2048, v.MinMemoryMiB)}
}

func large(o *cloudapi.ServiceOffering, v *cloudapi.KubernetesVersion) bool {
	return o.CPUs >= smallest(v).CPUs && o.MemoryMiB >= smallest(v).MemoryMiB
}

func size(o *cloudapi.ServiceOffering) string {
	return fmt.Sprintf("%s and %d MiB of memory", english.Plural(o.CPUs, "CPU", ""), o.MemoryMiB)
}

// larger returns the remedy for an offering that is too small for a version.
func larger(v *cloudapi.KubernetesVersion) string {
	return "choose an offering with at least " + size(smallest(v))
}

// upgradeOffering checks the offering that CloudStack compares with the version before an upgrade. CloudStack uses the
// offering for all nodes, even if each kind of node has another one.
func (c *check) upgradeOffering(to *cloudapi.KubernetesVersion) {
	k := c.Cluster
	if k.OfferingID == "" {
		c.offerings(Error)
		return
	}

	// CKS's own minimum does not apply, because the nodes exist.
	if o := c.offering(k.OfferingID); o != nil && (o.CPUs < to.MinCPUs || o.MemoryMiB < to.MinMemoryMiB) {
		c.add(Error, "offering-upgrade", "offering "+o.Name, larger(to),
			"it has %s, which is too small for nodes of version %s", size(o), to.Semantic)
	}

	for _, own := range []struct{ id, kind string }{
		{k.ControlOfferingID, "control nodes"},
		{k.WorkerOfferingID, "worker nodes"},
	} {
		if o := c.offering(own.id); o != nil && own.id != k.OfferingID && !large(o, to) {
			c.add(Warning, "offering-small", "offering "+o.Name, larger(to)+", and scale the cluster to it first",
				"the %s have it: %s", own.kind, size(o))
		}
	}
}

// offerings reports a cluster that was created only with offerings for each kind of node, or whose kinds of nodes have
// different offerings.
func (c *check) offerings(s Severity) {
	k := c.Cluster
	switch {
	case k.OfferingID == "":
		c.add(s, "offering-missing", "cluster "+k.Name,
			fmt.Sprintf("give it one: csccm cks scale %s --offering OFFERING (on KVM stop the cluster first). Where "+
				"CloudStack refuses this too, it needs the fix of apache/cloudstack#14148; else create a new cluster "+
				"with an offering for all nodes", k.Name),
			"it was created without an offering for all nodes, only with one for each kind of node: CloudStack "+
				"refuses to upgrade it, and can fail to scale it")
	case k.ControlOfferingID != "" && k.ControlOfferingID != k.OfferingID ||
		k.WorkerOfferingID != "" && k.WorkerOfferingID != k.OfferingID:
		c.add(Warning, "mixed-offerings", "cluster "+k.Name,
			"if scaling fails with this error, stop the cluster and scale it to one offering for all nodes",
			"its kinds of nodes have different offerings: CloudStack 4.21 and 4.22 can take a change of the size for "+
				"a change of the offering and refuse it on KVM")
	}
}

// sshPort is the port of the cluster's address that CKS forwards to SSH of the first node; each further node has the
// next port.
const sshPort = 2222

// firewall reports firewall rules at which CKS fails when it replaces its own: it reads the ports of all rules of the
// address, and some rules have none.
func (c *check) firewall() {
	k := c.Cluster
	if k.IPAddressID == "" || !c.read(SubjectFirewall) {
		return
	}

	c.portless()
	if !slices.ContainsFunc(c.Firewall, func(r cloudstack.FirewallRule) bool {
		return r.PublicIPID == k.IPAddressID && r.StartPort == sshPort
	}) {
		c.add(Warning, "firewall-ssh-missing", "address "+k.IPAddress,
			fmt.Sprintf("create a firewall rule for TCP ports %d to %d on the address", sshPort,
				sshPort+len(k.Nodes)-1),
			"CloudStack's own firewall rule for SSH to the nodes, from port %d, is gone; CloudStack needs it to "+
				"scale the cluster", sshPort)
	}
}

func (c *check) portless() {
	for _, r := range c.Firewall {
		if r.PublicIPID == c.Cluster.IPAddressID && r.StartPort == 0 {
			c.add(Error, "firewall-without-ports",
				fmt.Sprintf("firewall rule %s on address %s", r.ID, c.Cluster.IPAddress),
				"delete the rule for the time of the change; one for tcp or udp can be replaced by a rule for ports "+
					"1 to 65535. If your release has the fix (apache/cloudstack#12806): --ignore-preflight "+
					"firewall-without-ports",
				"it is for protocol %s and has no ports: many releases of CloudStack stop half-way with a "+
					"NullPointerException", r.Protocol)
		}
	}
}

// nodes checks that all nodes work: an upgrade changes each node in turn, and scaling up waits until all are Ready.
func (c *check) nodes(s Severity) {
	k := c.Cluster
	nodes := 0 // including workers that were added by hand
	for _, vm := range k.Nodes {
		if !vm.Etcd {
			nodes++
		}
		if vm.State != "" && vm.State != running {
			c.add(s, "vm-state", "VM "+vm.Name, "start the VM, and wait until its Node is Ready",
				"it is %s, not Running", vm.State)
		}
	}

	if want := k.ControlNodes + k.Size; nodes != want && k.Type == cloudapi.CloudManaged {
		c.add(Warning, "cluster-nodes", "cluster "+k.Name,
			"csccm cks show "+k.Name+
				" lists its VMs; scaling the cluster to the number of workers that it has corrects that",
			"it has %s, and CloudStack expects %d", english.Plural(nodes, "VM", ""), want)
	}

	if !c.read(SubjectNodes) {
		return
	}

	for _, vm := range k.Nodes {
		if vm.Etcd {
			continue
		}

		i := slices.IndexFunc(c.Nodes, func(n corev1.Node) bool { return strings.EqualFold(n.Name, vm.Name) })
		if i < 0 && vm.State == running {
			c.add(s, "node-missing", "VM "+vm.Name,
				"read /var/log/daemon.log on the VM; or delete the VM by scaling the cluster down",
				"it is Running, but no Node of Kubernetes has its name: it did not join the cluster")
		}
		if i < 0 {
			continue
		}

		_, ready := nodeutil.GetNodeCondition(&c.Nodes[i].Status, corev1.NodeReady)
		if ready == nil {
			ready = &corev1.NodeCondition{Message: "its kubelet has not reported yet"}
		}

		if ready.Status != corev1.ConditionTrue {
			c.add(s, "node-not-ready", "Node "+vm.Name,
				"kubectl describe node "+vm.Name+" says more; start or repair its VM",
				"it is not Ready: %s", ready.Message)
		}
	}
}

// ExpiryWarning is how long before the expiry of a certificate there is a warning.
const ExpiryWarning = 30 * 24 * time.Hour

// Certificates returns findings about the validity and the names of the API server's certificate.
func Certificates(f *Facts) []Finding { return f.check((*check).certificate) }

func (c *check) certificate() {
	cert, object := c.Certificate, string(SubjectCertificate)
	if cert == nil {
		return
	}

	reach := ""
	if c.Cluster.IPAddress != "" {
		reach = fmt.Sprintf(" (ssh -p %d cloud@%s reaches the first)", sshPort, c.Cluster.IPAddress)
	}

	// An upgrade also renews the certificate, but only while it is valid.
	renew := "on each control node" + reach +
		" run `sudo kubeadm certs renew all`, and restart the node or the Pods of the control plane; " +
		"while it is still valid, csccm cks upgrade renews it as well"

	end := cert.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case cert.NotBefore.After(c.Now):
		c.add(Error, "certificate-not-yet", object, "set the clocks of the nodes, or of CloudStack's server",
			"it is valid from %s; CloudStack's clock says %s",
			cert.NotBefore.UTC().Format(time.RFC3339), c.Now.UTC().Format(time.RFC3339))
	case c.Now.After(cert.NotAfter):
		c.add(Error, "certificate-expired", object, renew, "it expired on %s", end)
	case !c.Now.Before(cert.NotAfter.Add(-ExpiryWarning)):
		c.add(Warning, "certificate-expires", object, renew,
			"it expires on %s, in %d days; CloudStack does not renew it", end,
			int(cert.NotAfter.Sub(c.Now)/(24*time.Hour)))
	}

	if cert.WrongHost != nil {
		c.add(Warning, "certificate-host", object,
			"on each control node: add the address to apiServer.certSANs of a configuration for kubeadm, move "+
				"/etc/kubernetes/pki/apiserver.crt and .key away, run `sudo kubeadm init phase certs apiserver "+
				"--config FILE` and restart the API server",
			"kubectl refuses it: %v", cert.WrongHost)
	}
}

// Leftover is an address of Services of a cluster, with the rules on it.
type Leftover struct {
	Address cloudstack.PublicIP
	// Service is the namespace/name of the Service; empty if it is not known.
	Service string
	// Living reports whether the Service is in the cluster.
	Living bool
	// Allocated reports whether a controller acquired the address, which it then releases with the Service.
	Allocated bool
	Balancers []cloudstack.LoadBalancerRule
}

// Leftovers returns the addresses of the cluster's network that have rules of Services of type LoadBalancer, or were
// acquired for one. If deleteKubernetesCluster keeps the network, it keeps these too. CKS's own rules are not included.
func Leftovers(f *Facts) []Leftover {
	var out []Leftover
	for _, a := range f.Addresses {
		l := Leftover{Address: a, Allocated: a.Tags[plan.TagAllocatedBy] == plan.ManagedBy}
		for _, r := range f.Balancers {
			if r.PublicIPID == a.ID &&
				(rules.ParseName(r.Name).Family != rules.FamilyForeign || r.Tags[plan.TagManagedBy] == plan.ManagedBy) {
				l.Balancers = append(l.Balancers, r)
			}
		}

		f.attribute(&l)
		if l.Service != "" || len(l.Balancers) > 0 || l.Allocated { // other addresses are not the controller's
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Leftover) int { return cmp.Compare(a.Address.Address, b.Address.Address) })
	return out
}

// attribute finds the Service of an address: by its tags, by the names of its rules, or by the Service's own status.
func (f *Facts) attribute(l *Leftover) {
	l.Service = l.Address.Tags[plan.TagService]
	var balancers []string
	for _, r := range l.Balancers {
		name := rules.ParseName(r.Name)
		balancers = append(balancers, name.LB)
		if name.Service != "" {
			l.Service = cmp.Or(l.Service, name.Namespace+"/"+name.Service)
		}
		l.Service = cmp.Or(l.Service, r.Tags[plan.TagService])
	}

	for _, s := range f.Services {
		has := slices.ContainsFunc(s.Status.LoadBalancer.Ingress,
			func(in corev1.LoadBalancerIngress) bool { return in.IP == l.Address.Address })
		key := rules.Key(&s)
		if (service.Classes{}).Handles(&s) &&
			(has || slices.Contains(balancers, plan.LBName(string(s.UID))) || l.Service == key) {
			l.Service, l.Living = key, true
			return
		}
	}
}

// OwnNetwork reports whether CKS created the cluster's network, and so deletes it with the cluster. The API does not
// show this; the network's name and offering do, unless an administrator has configured another offering.
func (f *Facts) OwnNetwork() bool {
	n := f.Network
	return n != nil &&
		n.OfferingName == "DefaultNetworkOfferingforKubernetesService" &&
		n.Name == f.Cluster.Name+"-network"
}

// Delete decides whether f.Cluster can be deleted, and reports what would be left behind. removeServices means that the
// Services of type LoadBalancer are deleted first, with their addresses and rules.
func Delete(f *Facts, removeServices bool) []Finding {
	return f.check(func(c *check) {
		if c.Cluster.NetworkID == "" {
			return
		}

		if c.OwnNetwork() {
			c.guests()
		} else {
			c.portless()
		}

		if !c.read(SubjectAddresses) || !c.read(SubjectBalancers) {
			return
		}

		for _, l := range Leftovers(c.Facts) {
			if !l.Living || !removeServices {
				c.leftover(&l)
			}
		}
	})
}

func (c *check) leftover(l *Leftover) {
	object := fmt.Sprintf("address %s (%s)", l.Address.Address, l.Address.ID)
	if l.Service != "" {
		object += " of Service " + l.Service
	}

	named := func(r *cloudstack.LoadBalancerRule) string {
		return fmt.Sprintf("load balancer rule %s (%s)", r.Name, r.ID)
	}

	what := fmt.Sprintf("it stays in network %s, with %s", c.Cluster.NetworkName,
		strings.Join(append(cloudapi.Names(l.Balancers, named), "its firewall and port forwarding rules"), ", "))
	switch {
	case c.OwnNetwork():
		c.add(Warning, "address-lost", object, "to keep the address, move it to another network before",
			"CloudStack created the network, and releases the address with it")
	case l.Living:
		c.add(Warning, "leftover", object,
			"csccm cks delete "+c.Cluster.Name+" --remove-services, or delete the Service first",
			"%s: CloudStack deletes only what it created", what)
	default:
		c.add(Warning, "leftover", object,
			"when nobody needs them, delete the rules in CloudStack, and release the address unless it is of source "+
				"NAT",
			"%s; no Service of the cluster is known to use it", what)
	}
}

// guests checks that nothing else uses the network that is deleted with the cluster.
func (c *check) guests() {
	var others []string
	for _, vm := range c.NetworkVMs {
		if !slices.Contains(c.Cluster.VMs, vm.ID) {
			others = append(others, vm.Name)
		}
	}

	slices.Sort(others)
	if len(others) > 0 {
		c.add(Error, "network-guests", "network "+c.Cluster.NetworkName,
			"delete these VMs, or remove them from the network",
			"CloudStack created it and deletes it with the cluster, but other VMs use it: %s",
			strings.Join(others, ", "))
	}

	for _, vm := range c.Cluster.Nodes {
		if vm.External {
			c.add(Error, "node-external", "VM "+vm.Name, "remove it from the cluster first",
				"it was added to the cluster by hand; CloudStack refuses to delete a cluster with such nodes")
		}
	}
}
