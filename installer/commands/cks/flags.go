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

	zones     = "zones"
	offerings = "offerings"
	templates = "templates"
	networks  = "networks"
)

// object is an object of CloudStack that a flag can name.
type object struct{ id, name string }

// objects lists the objects of a kind: one of the constants above, or a value of names in flags.yaml. zoneID is "" for
// those of all zones.
func (s *Service) objects(ctx context.Context, kind, zoneID string) ([]object, error) {
	switch kind {
	case Clusters:
		all, err := s.clusters(ctx)
		return cloudapi.Names(all, func(k *cloudapi.KubernetesCluster) object { return object{k.ID, k.Name} }), err

	case Versions:
		all, err := s.API.ListKubernetesVersions(ctx, zoneID)
		return cloudapi.Names(all, func(v *cloudapi.KubernetesVersion) object { return object{v.ID, v.Name} }), err

	case CNIConfigs:
		all, err := s.API.ListCNIConfigs(ctx, s.Project)
		return cloudapi.Names(all, func(n *cloudapi.CNIConfig) object { return object{n.ID, n.Name} }), err

	case zones:
		all, err := s.API.ListZones(ctx)
		return cloudapi.Names(all, func(z *cloudstack.Zone) object { return object{z.ID, z.Name} }), err

	case offerings:
		all, err := s.API.ListServiceOfferings(ctx, zoneID)
		return cloudapi.Names(all, func(o *cloudapi.ServiceOffering) object { return object{o.ID, o.Name} }), err

	case templates:
		all, err := s.API.ListCKSTemplates(ctx, zoneID)
		return cloudapi.Names(all, func(t *cloudapi.Template) object { return object{t.ID, t.Name} }), err

	default:
		all, err := s.API.ListNetworks(ctx, cloudstack.NetworkQuery{ZoneID: zoneID, ProjectID: s.Project})
		return cloudapi.Names(all, func(n *cloudstack.Network) object { return object{n.ID, n.Name} }), err
	}
}

// Names lists the names of the objects of a kind; see objects.
func (s *Service) Names(ctx context.Context, kind string) ([]string, error) {
	all, err := s.objects(ctx, kind, "")
	names := cloudapi.Names(all, func(o *object) string { return o.name })
	return slices.Compact(slices.Sorted(slices.Values(names))), err
}

// resolve sets the objects that the flags of the operation name. The task looks others up itself: the zone, the version
// and the CNI configuration.
func (t *task) resolve(ctx context.Context, zoneID string) error {
	t.named = map[string]object{}
	for _, f := range t.Flags(t.name) {
		want, _ := f.Value.(*string)
		if !f.given() || !slices.Contains([]string{offerings, templates, networks}, f.Names) {
			continue
		}

		all, err := t.objects(ctx, f.Names, zoneID)
		if err != nil {
			return explain("list the "+f.Names, err)
		}

		found, err := pickObject(f.Name, *want, all)
		if err != nil {
			return err
		}

		t.named[f.Name] = *found
	}

	return nil
}

// pickObject returns the object that a flag names.
func pickObject(flag, want string, all []object) (*object, error) {
	return pick(strings.ReplaceAll(flag, "-", " "), " with --"+flag, want, all,
		func(o *object) []string { return []string{o.id, o.name} })
}
