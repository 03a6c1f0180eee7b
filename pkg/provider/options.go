// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
)

// Options are the settings of a Provider that the cloud-config, whose form is upstream's, has no place for.
type Options struct {
	// ProviderIDFormat of Nodes without one: external-cloudstack or cloudstack.
	ProviderIDFormat string
	// InstanceTypeFormat of the instance type label: keep-separators or upstream.
	InstanceTypeFormat string
	// DriftPeriod is how long the state of a load balancer, once read, is trusted; zero means for ever.
	DriftPeriod time.Duration
	// ClusterID is written into the tags of what the controller creates. Empty means the cloud-config's
	// cluster-id, then ClusterName.
	ClusterID string
	// ClusterName is the framework's --cluster-name.
	ClusterName string
	// Policy filters what is done in CloudStack for Services: apply, no-delete or dry-run.
	Policy string
	// ManageNetworkACLs keeps the network ACL lists of VPC tiers to the Services' source ranges.
	ManageNetworkACLs bool
	// CleanOrphans removes what Services that are gone left in CloudStack. The cluster must have an id of its own.
	CleanOrphans bool
	// Tenancy is what the Services of a namespace may ask for, as JSON (tenancy.Policy); empty means tenancy.Default().
	Tenancy string
	// DeletionGuard limits the deletion of Nodes.
	DeletionGuard GuardOptions
	// Nodes say how Nodes are described.
	Nodes NodeOptions

	// ConfigFile is where the cloud-config comes from, for FollowConfig.
	ConfigFile string
	// CABundle is a file with certificates to trust for CloudStack's API, besides the system's.
	CABundle string
	// WriteGate is asked before each call that changes something in CloudStack, see
	// cloudstack.WithWriteGate. None when nil.
	WriteGate func() (leave func(), err error)

	// RegisterMetrics, if set, is given the provider's metrics; each of them once.
	RegisterMetrics func(...prometheus.Collector)
	// Clock is the real one when nil.
	Clock clock.WithTicker
}

// GuardOptions say when the disappearance of VMs is taken for an error in what we see.
type GuardOptions struct {
	// Percent of the cluster's Nodes that may vanish within Window; 100 leaves only the check that not
	// all of them vanish.
	Percent int
	// Window within which deletions are counted together.
	Window time.Duration
}

// guardMinimum is the number of vanished Nodes below which a share says nothing.
const guardMinimum = 3

// DefaultOptions returns the values used when nothing else is said.
func DefaultOptions() Options {
	return Options{
		ProviderIDFormat:   string(node.FormUpstream),
		InstanceTypeFormat: string(node.LabelKeepSeparators),
		DriftPeriod:        5 * time.Minute,
		Policy:             string(plan.PolicyApply),
		ManageNetworkACLs:  true,
		DeletionGuard:      GuardOptions{Percent: 20, Window: 10 * time.Minute},
	}
}

// withDefaults fills in what a caller may leave out.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// AddFlags adds the settings to the flags of cloudstack-ccm; the values that o has are the defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ProviderIDFormat, "provider-id-format", o.ProviderIDFormat,
		"How the provider ID of a Node that has none is written: external-cloudstack (external-cloudstack://ID) or cloudstack (cloudstack:///ID, as Cluster API does). All forms are understood.")
	fs.StringVar(&o.InstanceTypeFormat, "instance-type-format", o.InstanceTypeFormat,
		"How a service offering's name becomes the instance type label: keep-separators (Small_Instance) or upstream (SmallInstance).")
	fs.DurationVar(&o.DriftPeriod, "drift-period", o.DriftPeriod,
		"How often load balancers are compared with CloudStack, and what others changed is repaired. 0 trusts what was read until the controller restarts.")
	fs.StringVar(&o.Policy, "load-balancer-policy", o.Policy,
		"What is done in CloudStack for Services: apply (all), no-delete (nothing is taken away), dry-run (nothing; Events say what would be done).")
	fs.BoolVar(&o.ManageNetworkACLs, "manage-network-acls", o.ManageNetworkACLs,
		"Let the sources of Services in by items of their own in the network ACL lists of VPC tiers.")
	fs.BoolVar(&o.CleanOrphans, "clean-orphans", o.CleanOrphans,
		"Remove what this cluster made in CloudStack for Services that are gone. Otherwise it is reported only. Needs a cluster-id.")
	fs.StringVar(&o.ClusterID, "cluster-id", o.ClusterID,
		"Name of this cluster in the tags of what it creates in CloudStack; must be unique in the account or project. Default: cluster-id of the cloud-config, then --cluster-name.")
	fs.StringVar(&o.Tenancy, "tenancy", o.Tenancy,
		"What the Services of a namespace may ask for, as JSON with the fields of the chart's value tenancy. Default: that value's default.")
	fs.IntVar(&o.DeletionGuard.Percent, "node-deletion-limit", o.DeletionGuard.Percent,
		"Delete no Node when more than this percentage of the Nodes (and at least 3) have lost their VMs within --node-deletion-window: the credentials or the project are more likely wrong. 100 turns this off.")
	fs.DurationVar(&o.DeletionGuard.Window, "node-deletion-window", o.DeletionGuard.Window,
		"See --node-deletion-limit.")
	fs.StringVar(&o.CABundle, "ca-bundle", o.CABundle,
		"File with CA certificates (PEM) to trust for CloudStack's API, besides the system's. It is read again when it changes, as the cloud-config is.")
	o.Nodes.addFlags(fs)
}

// Validate returns all that is wrong with the options, joined.
func (o *Options) Validate() error {
	var errs []error
	if _, err := node.ParseForm(o.ProviderIDFormat); err != nil {
		errs = append(errs, fmt.Errorf("--provider-id-format: %w", err))
	}
	if _, err := node.ParseLabelForm(o.InstanceTypeFormat); err != nil {
		errs = append(errs, fmt.Errorf("--instance-type-format: %w", err))
	}
	if o.DriftPeriod != 0 && o.DriftPeriod < 10*time.Second {
		errs = append(errs, fmt.Errorf("--drift-period: %s is too short: at least 10s, or 0 to trust what was read until the controller restarts", o.DriftPeriod))
	}
	if !slices.Contains([]plan.Policy{"", plan.PolicyApply, plan.PolicyNoDelete, plan.PolicyDryRun}, plan.Policy(o.Policy)) {
		errs = append(errs, fmt.Errorf("--load-balancer-policy: %q is not known: want apply, no-delete or dry-run", o.Policy))
	}
	if _, err := parseTenancy(o.Tenancy); err != nil {
		errs = append(errs, fmt.Errorf("--tenancy: %w", err))
	}
	if o.DeletionGuard.Percent < 0 || o.DeletionGuard.Percent > 100 {
		errs = append(errs, fmt.Errorf("--node-deletion-limit: %d is no percentage: 0 to 100", o.DeletionGuard.Percent))
	}
	if o.DeletionGuard.Window < 0 {
		errs = append(errs, fmt.Errorf("--node-deletion-window: %s is negative", o.DeletionGuard.Window))
	}
	if err := o.Nodes.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
