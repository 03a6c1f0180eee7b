// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/node/failover"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Options are the settings of a Provider that cannot be in the cloud-config, because the format of the cloud-config is
// upstream's. AddFlags describes those that have a flag.
type Options struct {
	ProviderIDFormat   string
	InstanceTypeFormat string
	DriftPeriod        time.Duration
	ClusterID          string
	// ClusterName is the framework's --cluster-name.
	ClusterName        string
	Policy             string
	ManageNetworkACLs  bool
	DirectSuspectAfter time.Duration
	LBMode             string
	LBClasses          service.Classes
	CleanOrphans       bool
	Tenancy            string
	DeletionGuard      node.DeletionLimit
	AdoptNodes         bool
	OutOfService       string
	RegisterCluster    string
	// NodeInternalCIDRs and NodeExternalCIDRs are the lists of node.AddressRules.
	NodeInternalCIDRs  string
	NodeExternalCIDRs  string
	NodeLabels         []string // words of node.ExtraLabelWords
	NodeLabelTagPrefix string

	// ConfigFile is the path of the cloud-config, for FollowConfig.
	ConfigFile string
	// CABundle is a file with certificates to trust for CloudStack's API, besides the system's.
	CABundle string
	// WriteGate, if set, is called before each call that changes something in CloudStack, see cloudstack.WithWriteGate.
	WriteGate func() (leave func(), err error)

	// RegisterMetrics, if set, is called with the provider's metrics, once for each metric.
	RegisterMetrics func(...prometheus.Collector)
	Clock           clock.WithTicker
	// ProbeKubelet reports whether something answers at an address; nil means failover.Answers.
	ProbeKubelet func(ctx context.Context, address string) bool
}

// DefaultOptions returns the options that apply unless flags change them.
func DefaultOptions() Options {
	return Options{
		ProviderIDFormat:   string(node.FormUpstream),
		InstanceTypeFormat: string(node.LabelKeepSeparators),
		DriftPeriod:        5 * time.Minute,
		DirectSuspectAfter: 12 * time.Second,
		Policy:             string(plan.PolicyApply),
		ManageNetworkACLs:  true,
		OutOfService:       string(node.OutOfServiceWorkers),
		DeletionGuard:      node.DeletionLimit{Percent: 20, Window: 10 * time.Minute},
		Clock:              clock.RealClock{},
	}
}

// AddFlags adds a flag for each setting of cloudstack-ccm; the current values of o are the defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	text := func(value *string, name, usage string) { fs.StringVar(value, name, *value, usage) }
	boolean := func(value *bool, name, usage string) { fs.BoolVar(value, name, *value, usage) }
	duration := func(value *time.Duration, name, usage string) { fs.DurationVar(value, name, *value, usage) }

	text(&o.ProviderIDFormat, "provider-id-format",
		"How the provider ID of a Node that has none is written: external-cloudstack (external-cloudstack://ID) or "+
			"cloudstack (cloudstack:///ID, as Cluster API does). All forms are understood.")
	text(&o.InstanceTypeFormat, "instance-type-format",
		"How a service offering's name becomes the instance type label: keep-separators (Small_Instance) or upstream "+
			"(SmallInstance).")
	duration(&o.DriftPeriod, "drift-period",
		"How often load balancers are compared with CloudStack, and changes by others are repaired. 0: only when "+
			"the controller starts.")
	text(&o.Policy, "load-balancer-policy",
		"What the controller changes in CloudStack for Services: apply (everything), no-delete (it deletes "+
			"nothing), dry-run (nothing; "+
			"Events name the planned changes).")
	boolean(&o.ManageNetworkACLs, "manage-network-acls",
		"Add items for the clients of Services to the network ACL lists of VPC tiers.")
	text(&o.LBMode, "load-balancer-mode",
		"How Services without the annotation "+annotation.Mode+
			" are served: proxy (load balancer rules), direct (port forwardings) or auto. Default: lb-mode of the "+
			"cloud-config, then auto.")

	text(&o.LBClasses.Own, "load-balancer-class",
		"Serve the Services whose spec.loadBalancerClass is this, such as example.com/cloudstack. Empty: those "+
			"without a class.")
	boolean(&o.LBClasses.Classless, "load-balancer-classless",
		"Serve Services without a class as well as those of --load-balancer-class.")
	boolean(&o.CleanOrphans, "clean-orphans",
		"Delete what this cluster created in CloudStack for Services that no longer exist. Otherwise only report it. "+
			"Needs a cluster-id.")
	duration(&o.DirectSuspectAfter, "direct-suspect-after",
		"Forward no ports to a node while its kubelet's lease is older than this and the kubelet's port does not "+
			"answer the controller. This excludes at most a fifth of the nodes. At least 11s: "+
			"kubelets renew leases each 10 s. 0: wait until Kubernetes says that the node is not Ready.")

	text(&o.ClusterID, "cluster-id",
		"Name of this cluster in the tags of what it creates in CloudStack; must be unique in the account or "+
			"project. Default: cluster-id of the cloud-config, then --cluster-name.")
	text(&o.Tenancy, "tenancy",
		"What the Services of a namespace may ask for, as JSON with the fields of the chart's value tenancy. "+
			"Default: that value's default.")
	boolean(&o.AdoptNodes, "adopt-nodes",
		"Also initialise Nodes whose kubelets run without --cloud-provider=external, such as those of CloudStack "+
			"Kubernetes Service: the controller sets the taint that other kubelets set, if the Node is Ready, has "+
			"one VM and keeps its addresses and labels.")

	text(&o.OutOfService, "out-of-service-taint",
		"Which Nodes get the taint node.kubernetes.io/out-of-service when they are not Ready and their VMs are "+
			"proven to be stopped or gone, so that Pods with volumes start elsewhere at once: workers, all or off. "+
			"Never more than --node-deletion-limit of the Nodes. Needs Kubernetes 1.28.")

	text(&o.RegisterCluster, "register-cluster",
		"Show the cluster in CloudStack's UI under this name, as an ExternalManaged cluster with the VMs of its "+
			"nodes. Empty: it is not shown.")
	fs.IntVar(&o.DeletionGuard.Percent, "node-deletion-limit", o.DeletionGuard.Percent,
		"Delete no Node when more than this percentage of the Nodes (and at least 3) have lost their VMs within "+
			"--node-deletion-window: the credentials or the project are more likely wrong. 100 turns this off.")
	duration(&o.DeletionGuard.Window, "node-deletion-window",
		"See --node-deletion-limit.")
	text(&o.CABundle, "ca-bundle",
		"File with CA certificates (PEM) to trust for CloudStack's API, besides the system's. It is read again when "+
			"it changes, as the cloud-config is.")
	text(&o.NodeInternalCIDRs, "node-internal-cidrs",
		"Networks, separated by commas, of the addresses that become a Node's InternalIP, in their order; a Node's "+
			"annotation "+node.AnnotationInternalCIDRs+
			" has precedence. Default: the addresses of all NICs, the default NIC first.")

	text(&o.NodeExternalCIDRs, "node-external-cidrs",
		"Networks, separated by commas, of the addresses that become a Node's ExternalIP; a Node's annotation "+
			node.AnnotationExternalCIDRs+
			" has precedence. Default: static NAT addresses, and public addresses of further NICs on shared networks.")

	fs.StringSliceVar(&o.NodeLabels, "node-labels", o.NodeLabels,
		"Labels that Nodes get beyond Kubernetes' own, separated by commas: "+
			strings.Join(node.ExtraLabelWords(), ", ")+" (host needs the keys of a root admin).")
	text(&o.NodeLabelTagPrefix, "node-label-tag-prefix",
		"VM tags whose key begins with this prefix become labels "+node.LabelTagPrefix+"KEY, where KEY is the rest "+
			"of the key. Empty: no tags.")
}

// Validate returns all errors in the options, joined.
func (o *Options) Validate() error {
	_, err := o.parse()
	return err
}

// settings are the parsed Options.
type settings struct {
	metadata     node.Options // without Node and Region
	tenancy      tenancy.Policy
	outOfService node.OutOfService
}

func (o *Options) parse() (s settings, err error) {
	var errs []error
	check := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}

	s.metadata.Form, err = node.ParseForm(o.ProviderIDFormat)
	check("provider-id-format", err)
	s.metadata.LabelForm, err = node.ParseLabelForm(o.InstanceTypeFormat)
	check("instance-type-format", err)
	s.metadata.Addresses.Internal, err = node.ParseCIDRs(o.NodeInternalCIDRs)
	check("node-internal-cidrs", err)
	s.metadata.Addresses.External, err = node.ParseCIDRs(o.NodeExternalCIDRs)
	check("node-external-cidrs", err)
	s.metadata.Labels, err = node.ParseExtraLabels(o.NodeLabels, o.NodeLabelTagPrefix)
	check("node-labels", err)
	if s.tenancy = tenancy.Default(); o.Tenancy != "" {
		s.tenancy, err = tenancy.Parse([]byte(o.Tenancy))
		check("tenancy", err)
	}

	s.outOfService, err = node.ParseOutOfService(o.OutOfService)
	check("out-of-service-taint", err)

	refuse := func(flag string, wrong bool, format string, args ...any) {
		if wrong {
			check(flag, fmt.Errorf(format, args...))
		}
	}
	refuse("drift-period", o.DriftPeriod != 0 && o.DriftPeriod < 10*time.Second,
		"%s is too short: at least 10s, or 0 to compare only when the controller starts", o.DriftPeriod)
	refuse("direct-suspect-after", o.DirectSuspectAfter != 0 && o.DirectSuspectAfter < failover.ShortestAfter,
		"%s is too short: at least %s, as kubelets renew their leases each 10s, or 0 to suspect no node",
		o.DirectSuspectAfter, failover.ShortestAfter)
	policies := []plan.Policy{"", plan.PolicyApply, plan.PolicyNoDelete, plan.PolicyDryRun}
	refuse("load-balancer-policy", !slices.Contains(policies, plan.Policy(o.Policy)),
		"%q is not known: want apply, no-delete or dry-run", o.Policy)
	refuse("load-balancer-mode", o.LBMode != "" && !slices.Contains(annotation.Modes(), o.LBMode),
		"%q is not known: want %s", o.LBMode, strings.Join(annotation.Modes(), ", "))
	problems := validation.IsQualifiedName(cmp.Or(o.LBClasses.Own, "none"))
	refuse("load-balancer-class", len(problems) > 0,
		"%q is not a load balancer class: %s", o.LBClasses.Own, strings.Join(problems, "; "))
	percent := o.DeletionGuard.Percent
	refuse("node-deletion-limit", percent < 0 || percent > 100, "%d is not a percentage: 0 to 100", percent)
	refuse("node-deletion-window", o.DeletionGuard.Window < 0, "%s is negative", o.DeletionGuard.Window)

	return s, errors.Join(errs...)
}
