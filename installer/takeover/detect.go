// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
)

// Source is where Detect looks.
type Source struct {
	Kube kubernetes.Interface
	API  *cloudapi.Client
	// Config is the controller's configuration.
	Config *cloudstack.Config
	// Release and Namespace are those of csccm's own release.
	Release, Namespace string
	// ClusterID as the chart will be told; "" = as the controller chooses it.
	ClusterID string
}

// Detect reads what a plan rests on. It changes nothing. Errors of the API server are as it sent them.
func Detect(ctx context.Context, s Source) (*Facts, error) {
	controllers, err := family.Find(ctx, s.Kube, s.Release, s.Namespace)
	if err != nil {
		return nil, err
	}
	f := &Facts{Controllers: *controllers}
	id := cluster.IdentityOf(f.Own.Words)
	id.Flag, id.Config, id.Former = cmp.Or(s.ClusterID, id.Flag), s.Config.ClusterID, s.Config.FormerClusterIDs
	if f.ClusterIDs, err = id.Resolve(ctx, s.Kube); err != nil {
		return nil, err
	}
	f.Services = cluster.List(ctx, &err, s.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	f.Nodes = cluster.List(ctx, &err, s.Kube.CoreV1().Nodes().List).Items
	if err != nil {
		return nil, err
	}
	return f, f.readCloud(ctx, s)
}

func (f *Facts) readCloud(ctx context.Context, s Source) error {
	inv := inventory.New(s.API, inventory.Options{ProjectID: s.Config.ProjectID, Zone: s.Config.Zone, NodeVMs: s.Config.NodeVMs})
	project, err := inv.ProjectID(ctx)
	if err != nil {
		return err
	}
	f.project = project
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return fmt.Errorf("list virtual machines: %w", err)
	}
	f.VMs = vms
	if f.Rules, err = rules.Read(ctx, s.API, project); err != nil {
		return err
	}
	if f.Addresses, err = s.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project}); err != nil {
		return fmt.Errorf("list public addresses: %w", err)
	}
	if f.Firewall, err = s.API.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{ProjectID: project}); err != nil {
		return fmt.Errorf("list firewall rules: %w", err)
	}
	f.mode = s.Config.LBMode
	f.Forwards, err = s.API.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		f.forwardsRefused = err // as for the controller
	} else if err != nil {
		return fmt.Errorf("list port forwardings: %w", err)
	}
	f.Networks = map[string]plan.Network{}
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
	for _, n := range f.Networks {
		if n.VPCID == "" || f.ACLs != nil || f.aclsRefused != nil {
			continue
		}
		f.ACLs, err = s.API.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ProjectID: project})
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			f.aclsRefused = err // as for the controller, which then leaves them alone
		} else if err != nil {
			return fmt.Errorf("list network ACL items: %w", err)
		}
	}
	// The controller asks for the command's parameters, which come with the release.
	if c, err := s.API.Capabilities(ctx); err == nil {
		v, err := version.ParseGeneric(c.Version)
		f.Limits.InPlace = err == nil && v.AtLeast(version.MajorMinor(4, 22))
	} else if !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return fmt.Errorf("ask for CloudStack's version: %w", err)
	}
	return nil
}
