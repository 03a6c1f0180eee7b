// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Flag is a flag of one or more commands.
type Flag struct {
	Name  string
	Value any    // where its value goes: *string, *int, *bool or *[]string
	On    string // the commands, separated by blanks
	// Since is the release of CloudStack that brought what the flag asks for; "" for all. Older ones ignore its parameter.
	Since string
	// Names lists what the flag can name; nil for flags that name nothing.
	Names func(context.Context, *Service) ([]string, error)
	Help  string
}

// flexible is the release that brought flexible clusters.
const flexible = "4.21"

// Flags are the flags of a command of csccm cks; "" returns all.
func (o *Options) Flags(command string) []Flag {
	if o == nil {
		return nil
	}
	all := []Flag{
		{"zone", &o.Zone, "create versions versions-add", "", zoneNames, "name or id of the zone (default the only one)"},
		{"version", &o.Version, "create upgrade", "", VersionNames,
			"name, semantic version or id of the version (create: default the newest that is Enabled and Ready)"},
		{"size", &o.Size, "create scale", "", nil, "number of workers (create: default 1)"},
		{"control-nodes", &o.ControlNodes, "create", "", nil,
			"number of control nodes; 2 or more are highly available (default 1)"},
		{"etcd-nodes", &o.EtcdNodes, "create", flexible, nil,
			"number of nodes for etcd alone (default 0: it runs on the control nodes)"},
		{"offering", &o.Offering, "create scale", "", offeringNames, "name or id of the offering of all nodes"},
		{"control-offering", &o.ControlOffering, "create scale", flexible, offeringNames, "offering of the control nodes"},
		{"worker-offering", &o.WorkerOffering, "create scale", flexible, offeringNames, "offering of the workers"},
		{"etcd-offering", &o.EtcdOffering, "create", flexible, offeringNames, "offering of the etcd nodes"},
		{"control-template", &o.ControlTemplate, "create", flexible, templateNames,
			"template of the control nodes, marked for CKS (default CloudStack's system VM template)"},
		{"worker-template", &o.WorkerTemplate, "create", flexible, templateNames, "template of the workers"},
		{"etcd-template", &o.EtcdTemplate, "create", flexible, templateNames, "template of the etcd nodes"},
		{"hypervisor", &o.Hypervisor, "create", flexible, nil,
			"hypervisor of the nodes, where the zone has several, such as KVM"},
		{"cni", &o.CNI, "create", flexible, CNINames,
			"name or id of a CNI configuration (default the network plugin of the version)"},
		{"cni-param", &o.CNIParams, "create", flexible, nil, "variable KEY=VALUE of the CNI configuration; may be repeated"},
		{"network", &o.Network, "create", "", networkNames, "name or id of a network that exists (default a new one)"},
		{"as-number", &o.ASNumber, "create", "4.20", nil, "number of the autonomous system of a new routed network"},
		{"external-lb-address", &o.ExternalLBAddress, "create", "", nil,
			"address of the load balancer of a highly available cluster in a shared network"},
		{"keypair", &o.KeyPair, "create", "", nil, "name of the SSH key pair of the nodes"},
		{"root-disk", &o.RootDiskGiB, "create", "", nil, "size of a node's root disk in GiB (default 8)"},
		{"csi", &o.EnableCSI, "create", "4.22", nil, "let CloudStack install its CSI driver"},
		{"registry-file", &o.RegistryFile, "create", "", nil,
			"file like ~/.docker/config.json with the login of one private registry (experimental in CloudStack)"},
		{"description", &o.Description, "create", "", nil, "text that CloudStack shows with the cluster"},
		{"autoscaling", &o.Autoscaling, "scale", "", nil, "range of workers, such as 2-5, or off"},
		{"remove-services", &o.RemoveServices, "delete", "", nil,
			"delete the Services of type LoadBalancer first, and wait until their rules are gone"},
		{"manual-upgrade", &o.ManualUpgrade, "add-nodes", flexible, nil, "leave the nodes out of upgrades of the cluster"},
		{"mount-iso-on-router", &o.MountISOOnRouter, "add-nodes", flexible, nil,
			"let the network's router serve the ISO (VMware)"},
		{"url", &o.URL, "versions-add", "", nil, "http or https URL of the ISO, as CloudStack reaches it"},
		{"checksum", &o.Checksum, "versions-add", "", nil, "checksum of the ISO, such as {SHA-256}... of csccm cks iso"},
		{"name", &o.VersionName, "versions-add", "", nil, "name of the version (default v and the number, with the zone)"},
		{"min-cpus", &o.MinCPUs, "versions-add", "", nil, "CPUs that a node needs at least (default 2)"},
		{"min-memory", &o.MinMemoryMiB, "versions-add", "", nil, "memory that a node needs at least, in MiB (default 2048)"},
		{"arch", &o.Arch, "versions-add", "4.20", nil, "architecture of the ISO: x86_64 (default) or aarch64"},
		{"direct-download", &o.DirectDownload, "versions-add", "4.18.2", nil,
			"let hosts load the ISO themselves, without secondary storage"},
		{"ignore-preflight", &o.Ignore, "create scale upgrade delete add-nodes remove-nodes", "", nil,
			"go on although the preflight has found an error of this code; may be repeated"},
	}
	return slices.DeleteFunc(all, func(f Flag) bool {
		return command != "" && !slices.Contains(strings.Fields(f.On),
			command)
	})
}

// given reports whether the flag has a value.
func (f *Flag) given() bool { return !reflect.ValueOf(f.Value).Elem().IsZero() }

// needs returns an error if the server is older than what the flags that were given need, or than the command
// itself, which is "" or the release that brought it. A server ignores the parameters that it does not know.
func (s *Service) needs(ctx context.Context, o *Options, command, since string) error {
	wanted := []Flag{{Name: command, Since: since}}
	for _, f := range o.Flags("") {
		if f.given() {
			f.Name = "--" + f.Name
			wanted = append(wanted, f)
		}
	}
	wanted = slices.DeleteFunc(wanted, func(f Flag) bool { return f.Since == "" })
	if len(wanted) == 0 {
		return nil
	}
	release, err := s.release(ctx)
	if err != nil {
		return err
	}
	var missing []string
	for _, f := range wanted {
		if release != nil && release.LessThan(semver.MustParse(f.Since)) {
			missing = append(missing, fmt.Sprintf("%s (CloudStack %s)", f.Name, f.Since))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &report.Error{
		What: fmt.Sprintf("this CloudStack is %s, which is too old for %s: nothing was changed", release,
			strings.Join(missing, ", ")),
		Fix: "leave that out, or have an administrator upgrade CloudStack", Code: report.ExitCheckFailed,
	}
}

// release returns the server's release, such as 4.22.0; nil where the role may not ask, which is said.
func (s *Service) release(ctx context.Context) (*semver.Version, error) {
	says, err := s.API.Capabilities(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		s.Progress.Info("not checked whether this CloudStack is new enough: the role does not allow listCapabilities")
		return nil, nil //nolint:nilnil // not known
	}
	if err != nil {
		return nil, explain("ask CloudStack for its release", err)
	}
	numbers := strings.FieldsFunc(says.Version, func(r rune) bool { return r == '.' || r == '-' })
	release, err := semver.NewVersion(strings.Join(numbers[:min(len(numbers), 3)], "."))
	if err != nil {
		return nil, &report.Error{What: fmt.Sprintf("CloudStack calls its release %q", says.Version), Err: err,
			Fix: "report this to the developers of csccm"}
	}
	return release, nil
}

// The names of objects, for completion and the questions at a terminal.

func namesOf[T any](all []T, err error, name func(*T) string) ([]string, error) {
	return slices.Compact(slices.Sorted(slices.Values(cloudapi.Names(all, name)))), err
}

func zoneNames(ctx context.Context, s *Service) ([]string, error) {
	all, err := s.API.ListZones(ctx)
	return namesOf(all, err, func(z *cloudstack.Zone) string { return z.Name })
}

func offeringNames(ctx context.Context, s *Service) ([]string, error) {
	all, err := s.API.ListServiceOfferings(ctx, "")
	return namesOf(all, err, func(o *cloudapi.ServiceOffering) string { return o.Name })
}

func templateNames(ctx context.Context, s *Service) ([]string, error) {
	all, err := s.API.ListCKSTemplates(ctx, "")
	return namesOf(all, err, func(t *cloudapi.Template) string { return t.Name })
}

func networkNames(ctx context.Context, s *Service) ([]string, error) {
	all, err := s.API.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: s.Project})
	return namesOf(all, err, func(n *cloudstack.Network) string { return n.Name })
}

// CNINames are the names of the CNI configurations.
func CNINames(ctx context.Context, s *Service) ([]string, error) {
	all, err := s.API.ListCNIConfigs(ctx, s.Project)
	return namesOf(all, err, func(n *cloudapi.CNIConfig) string { return n.Name })
}

// VersionNames are the names of the versions.
func VersionNames(ctx context.Context, s *Service) ([]string, error) {
	all, err := s.API.ListKubernetesVersions(ctx, "")
	return namesOf(all, err, func(v *cloudapi.KubernetesVersion) string { return v.Name })
}

// ClusterNames are the names of the clusters.
func ClusterNames(ctx context.Context, s *Service) ([]string, error) {
	all, err := s.clusters(ctx)
	return namesOf(all, err, func(k *cloudapi.KubernetesCluster) string { return k.Name })
}
