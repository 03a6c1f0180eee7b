// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/commands/takeover/family"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/seal"
)

// API is what a takeover asks of CloudStack. A *cloudstack.Client has it.
type API interface {
	inventory.API
	migrate.API
	ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error)
	ListFirewallRules(ctx context.Context, q cloudstack.FirewallRuleQuery) ([]cloudstack.FirewallRule, error)
	ListNetworkACLs(ctx context.Context, q cloudstack.NetworkACLQuery) ([]cloudstack.NetworkACL, error)
	Capabilities(ctx context.Context) (*cloudstack.Capabilities, error)
	Jobs() *cloudstack.JobWaiter
}

// Source is where Detect looks.
type Source struct {
	Kube kubernetes.Interface
	API  API
	// Config is the controller's configuration.
	Config *cloudstack.Config
	// Release and Namespace are those of csccm's own release.
	Release, Namespace string
	// ClusterID as the chart will be told; "" = as the controller chooses it.
	ClusterID string
}

// Detect reads what a plan rests on. It changes nothing. Errors of the API server are as it sent them.
func Detect(ctx context.Context, s Source) (*Facts, error) {
	f := &Facts{Own: Own{Lease: DefaultLease}, recordKeys: seal.Keys(s.Config.SecretKey, s.Config.PreviousRecordKey)}
	if err := FindControllers(ctx, s.Kube, s.Release, s.Namespace, f); err != nil {
		return nil, err
	}
	id := cluster.IdentityOf(f.Own.Words)
	id.Flag, id.Config = cmp.Or(s.ClusterID, id.Flag), s.Config.ClusterID
	var err error
	if f.ClusterID, err = id.Resolve(ctx, s.Kube); err != nil {
		return nil, err
	}
	services, err := s.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	nodes, err := s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	f.Services, f.Nodes = services.Items, nodes.Items
	return f, f.readCloud(ctx, s)
}

// FindControllers reads the cluster's controllers alone, into f.
func FindControllers(ctx context.Context, kube kubernetes.Interface, release, namespace string, f *Facts) error {
	deployments, err := kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	sets, err := kube.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var all []workload
	for i := range deployments.Items {
		all = append(all, ofDeployment(&deployments.Items[i]))
	}
	for i := range sets.Items {
		all = append(all, ofDaemonSet(&sets.Items[i]))
	}
	for i := range all {
		w := &all[i]
		if w.ours() && len(w.pod.Containers) > 0 && w.meta.Namespace == namespace && w.meta.Labels["app.kubernetes.io/instance"] == release {
			f.Own.Installed, f.Own.Ready = true, f.Own.Ready+w.ready
			f.own = append(f.own, Predecessor{Kind: w.kind, Namespace: w.meta.Namespace, Name: w.meta.Name, HelmRelease: w.meta.Annotations[helmReleaseKey]})
			args := family.Arguments(&w.pod.Containers[0])
			if l := leaseOf(args); l != nil {
				f.Own.Lease = *l
			}
			f.Own.InstanceTypeFormat, _ = family.Argument(args, "instance-type-format")
			f.Own.Words = args
		}
		if p, is := recognise(w); is {
			f.Predecessors = append(f.Predecessors, p)
		}
	}
	pods, err := kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	f.Predecessors = append(f.Predecessors, inTree(pods.Items)...)
	return nil
}

func (f *Facts) readCloud(ctx context.Context, s Source) error {
	inv := inventory.New(s.API, inventory.Options{ProjectID: s.Config.ProjectID, Zone: s.Config.Zone})
	project, err := inv.ProjectID(ctx)
	if err != nil {
		return err
	}
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return fmt.Errorf("list virtual machines: %w", err)
	}
	f.VMs = vms
	if f.Rules, err = migrate.Read(ctx, s.API, project); err != nil {
		return err
	}
	if f.Addresses, err = s.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project}); err != nil {
		return fmt.Errorf("list public addresses: %w", err)
	}
	if f.Firewall, err = s.API.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{ProjectID: project}); err != nil {
		return fmt.Errorf("list firewall rules: %w", err)
	}
	f.Networks = map[string]loadbalancer.Network{}
	for i := range f.Nodes {
		vm, err := node.Match(vms, &f.Nodes[i])
		if err != nil || len(vm.NICs) == 0 {
			continue // a node without a VM serves under neither controller
		}
		id := vm.NICs[0].NetworkID
		if _, known := f.Networks[id]; known {
			continue
		}
		n, err := inv.Network(ctx, id, 0)
		if err != nil {
			return fmt.Errorf("read network %s: %w", vm.NICs[0].NetworkName, err)
		}
		f.Networks[id] = loadbalancer.NetworkOf(&n)
	}
	if err := f.readACLs(ctx, s.API, project); err != nil {
		return err
	}
	// A role that may not ask gets the newer server's answer: then a rule is changed in place.
	if c, err := s.API.Capabilities(ctx); err == nil {
		f.Limits.NoCIDRUpdate = olderThan(c.Version, 4, 22)
	} else if !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return fmt.Errorf("ask for CloudStack's version: %w", err)
	}
	return nil
}

// readACLs reads the items of network ACL lists where a node is in a VPC.
func (f *Facts) readACLs(ctx context.Context, api API, project string) error {
	for _, n := range f.Networks {
		if n.VPCID == "" {
			continue
		}
		var err error
		f.ACLs, err = api.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ProjectID: project})
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			f.aclsRefused, err = err, nil // as for the controller, which then leaves them alone
		}
		if err != nil {
			return fmt.Errorf("list network ACL items: %w", err)
		}
		return nil
	}
	return nil
}

// olderThan compares the first two numbers of a version; what is no version is not older.
func olderThan(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return false
	}
	return a < major || a == major && b < minor
}
