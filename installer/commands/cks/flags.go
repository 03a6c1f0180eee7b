// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	_ "embed" // the flags
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

//go:embed flags.yaml
var flagTable []byte

// Flag is a flag of one or more commands.
type Flag struct {
	Name  string
	Field string // of Options
	Value any    `json:"-"`        // pointer to its value: *string, *int, *bool or *[]string
	On    string `json:"commands"` // separated by spaces
	// Since is the CloudStack release that introduced the parameter of the flag; "" if all releases have it. Older
	// releases ignore the parameter.
	Since string
	// Names is the kind of object whose name is the value of the flag, see Service.Names; empty for other flags.
	Names string
	Help  string
}

// flexible is the CloudStack release that introduced flexible clusters.
const flexible = "4.21"

// Flags returns the flags of a command of csccm cks; all flags if command is "".
func (o *Options) Flags(command string) []Flag {
	if o == nil {
		return nil
	}

	var all []Flag
	if err := yaml.UnmarshalStrict(flagTable, &all); err != nil {
		panic(err) // cannot happen: flags.yaml is embedded, and tests read it
	}

	for i := range all {
		all[i].Value = reflect.ValueOf(o).Elem().FieldByName(all[i].Field).Addr().Interface()
	}

	return slices.DeleteFunc(all, func(f Flag) bool {
		return command != "" && !slices.Contains(strings.Fields(f.On), command)
	})
}

// given reports whether the flag has a value.
func (f *Flag) given() bool { return !reflect.ValueOf(f.Value).Elem().IsZero() }

// needs returns an error if the CloudStack server is too old for a flag that is given, or for the command itself. since
// is the release that introduced the command; "" if all releases have it. The check is necessary because a server
// ignores parameters that it does not know.
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

	return report.CheckFailed(
		"leave that out, or have an administrator upgrade CloudStack",
		"this CloudStack is %s, which is too old for %s: nothing was changed", release, strings.Join(missing, ", "),
	)
}

// release returns the release of the server, such as 4.22.0. If the role may not call listCapabilities, it prints a
// note and returns nil.
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
		return nil, report.Errorf(
			"report this to the developers of csccm",
			"CloudStack calls its release %q: %w", says.Version, err,
		)
	}

	return release, nil
}

// Kinds of objects whose names Service.Names lists, for shell completion and for questions at a terminal.
const (
	Clusters   = "clusters"
	CNIConfigs = "cni"
	Versions   = "versions"
)

// Names lists the names of the objects of a kind: one of the constants above, or a value of names in flags.yaml.
func (s *Service) Names(ctx context.Context, kind string) ([]string, error) {
	switch kind {
	case Clusters:
		all, err := s.clusters(ctx)
		return namesOf(all, err, func(k *cloudapi.KubernetesCluster) string { return k.Name })

	case Versions:
		all, err := s.API.ListKubernetesVersions(ctx, "")
		return namesOf(all, err, func(v *cloudapi.KubernetesVersion) string { return v.Name })

	case CNIConfigs:
		all, err := s.API.ListCNIConfigs(ctx, s.Project)
		return namesOf(all, err, func(n *cloudapi.CNIConfig) string { return n.Name })

	case "zones":
		all, err := s.API.ListZones(ctx)
		return namesOf(all, err, func(z *cloudstack.Zone) string { return z.Name })

	case "offerings":
		all, err := s.API.ListServiceOfferings(ctx, "")
		return namesOf(all, err, func(o *cloudapi.ServiceOffering) string { return o.Name })

	case "templates":
		all, err := s.API.ListCKSTemplates(ctx, "")
		return namesOf(all, err, func(t *cloudapi.Template) string { return t.Name })

	default:
		all, err := s.API.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: s.Project})
		return namesOf(all, err, func(n *cloudstack.Network) string { return n.Name })
	}
}

func namesOf[T any](all []T, err error, name func(*T) string) ([]string, error) {
	return slices.Compact(slices.Sorted(slices.Values(cloudapi.Names(all, name)))), err
}
