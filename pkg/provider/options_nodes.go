// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/csccm/csccm/pkg/node"
)

// NodeOptions are what users can say about the description of Nodes. The zero value says nothing.
type NodeOptions struct {
	// InternalCIDRs and ExternalCIDRs are lists of networks, see node.AddressRules.
	InternalCIDRs, ExternalCIDRs string
	// Labels are words of node.ExtraLabelWords.
	Labels []string
	// LabelTagPrefix chooses the VM tags that become labels.
	LabelTagPrefix string
}

func (o *NodeOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.InternalCIDRs, "node-internal-cidrs", o.InternalCIDRs,
		"Networks, separated by commas, of the addresses that become a Node's InternalIP, in their order; a Node's annotation "+node.AnnotationInternalCIDRs+" has precedence. Default: the addresses of all NICs, the default NIC first.")
	fs.StringVar(&o.ExternalCIDRs, "node-external-cidrs", o.ExternalCIDRs,
		"Networks, separated by commas, of the addresses that become a Node's ExternalIP; a Node's annotation "+node.AnnotationExternalCIDRs+" has precedence. Default: static NAT addresses, and public addresses of further NICs on shared networks.")
	fs.StringSliceVar(&o.Labels, "node-labels", o.Labels,
		"Labels that Nodes get beyond Kubernetes' own, separated by commas: "+strings.Join(node.ExtraLabelWords(), ", ")+" (host needs the keys of a root admin).")
	fs.StringVar(&o.LabelTagPrefix, "node-label-tag-prefix", o.LabelTagPrefix,
		"VM tags whose key begins so become labels "+node.LabelTagPrefix+"KEY, KEY being the rest. Empty: no tags.")
}

func (o *NodeOptions) validate() error {
	_, _, err := o.parse()
	return err
}

func (o *NodeOptions) parse() (node.AddressRules, node.ExtraLabels, error) {
	var (
		rules node.AddressRules
		errs  []error
		err   error
	)
	if rules.Internal, err = node.ParseCIDRs(o.InternalCIDRs); err != nil {
		errs = append(errs, fmt.Errorf("--node-internal-cidrs: %w", err))
	}
	if rules.External, err = node.ParseCIDRs(o.ExternalCIDRs); err != nil {
		errs = append(errs, fmt.Errorf("--node-external-cidrs: %w", err))
	}
	labels, err := node.ParseExtraLabels(o.Labels, o.LabelTagPrefix)
	if err != nil {
		errs = append(errs, fmt.Errorf("--node-labels: %w", err))
	}
	return rules, labels, errors.Join(errs...)
}
